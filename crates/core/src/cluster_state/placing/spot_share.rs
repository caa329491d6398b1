//! The split of workloads' replicas between spot and other nodes (docs/decisions/092), counted from the cluster: marks of pods
//! that may be on no spot node, and nodes that have to go as too many replicas are on spot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::{NodeClaim, NodePool};
use indexmap::IndexMap;
use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::cluster_state::objects::workload::ReplicaOwner;
use crate::cluster_state::{Moment, NominationTarget, PodEntry, Snapshot};
use crate::labels::{CAPACITY_TYPE, SPOT};
use crate::lifecycle::claim::{packing_requirement, packing_requirements};
use crate::pack::{AllowedCapacity, allowed_capacity, may_be_in_pool};
use crate::pod::Pod;
use crate::requirements::{Requirement, Requirements};
use crate::spot_share::{BACK_AFTER, MEND_AFTER, Replicas, SpotShare, WrittenShare, turn};

/// Notes of a plan about the split of workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpotShareNotes {
    /// The reason why a pod may be on no spot node, by its uid.
    pub off_spot: BTreeMap<String, String>,
    /// Pods whose annotation counts as nothing or cannot be met.
    pub unmet: Vec<UnmetShare>,
}

/// A pod whose annotation counts as nothing or cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetShare {
    /// The pod's uid.
    pub pod: String,
    /// Reason of its event.
    pub reason: &'static str,
    pub message: String,
}

/// Event's reason for an annotation that cannot be read.
const INVALID: &str = "InvalidSpotShare";
/// Event's reason for an annotation that the pod's own requirements contradict.
const NOT_MET: &str = "SpotShareNotMet";

/// A workload with a split, and its replicas.
struct Sharing<'s> {
    owner: ReplicaOwner<'s>,
    share: SpotShare,
    /// The NodePool whose annotation it is; `None` where it is the pods' own.
    pool: Option<&'s str>,
    replicas: Vec<&'s Arc<PodEntry>>,
}

/// A NodePool, as far as it gives a split to workloads that have none.
struct SharingPool<'s> {
    name: &'s str,
    pool: &'s NodePool,
    requirements: Requirements,
    share: Option<SpotShare>,
}

/// The place of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On a spot node, or on one that may turn out to be.
    Spot,
    /// On any other node.
    Other,
    /// It waits for one, or its own is leaving.
    Awaited,
}

impl Snapshot {
    /// Marks the pods of a plan that may be on no spot node. Changes nothing where no annotation asks for a split.
    pub(in crate::cluster_state) fn split_by_spot_share(&self, pods: &mut [Pod], now: Moment) -> SpotShareNotes {
        let mut notes = SpotShareNotes::default();
        if !self.any_shares() {
            return notes;
        }
        let sharing = self.sharing();
        let mut of_owner: IndexMap<ReplicaOwner<'_>, Vec<usize>, FxBuildHasher> =
            sharing.iter().map(|one| (one.owner, vec![])).collect();
        for (at, pod) in pods.iter().enumerate() {
            let Some(entry) = self.pods.get(pod.base_uid()) else { continue };
            if let Some(own) = of_owner.get_mut(&ReplicaOwner::of_pod(entry)) {
                own.push(at);
            }
            if let WrittenShare::Wrong(message) = &entry.spot_share {
                notes.unmet.push(UnmetShare { pod: pod.uid.clone(), reason: INVALID, message: message.clone() });
            }
        }
        for one in &sharing {
            let own = of_owner.get(&one.owner).map(Vec::as_slice).unwrap_or_default();
            if !own.is_empty() {
                Splitting { snapshot: self, of: one, now }.mark(own, pods, &mut notes);
            }
        }
        notes
    }

    /// True if the split of any workload is asked for: places that are planned are then kept.
    pub(in crate::cluster_state) fn any_shares(&self) -> bool {
        self.pools.values().any(|pool| written_on(pool).is_written()) || self.sharing_pods().next().is_some()
    }

    /// The workloads whose replicas are split. Of one whose pods say different things the youngest pod's word counts.
    fn sharing(&self) -> Vec<Sharing<'_>> {
        let pools = self.sharing_pools();
        let mut all: IndexMap<ReplicaOwner<'_>, Vec<&Arc<PodEntry>>, FxBuildHasher> =
            self.sharing_pods().map(|entry| (ReplicaOwner::of_pod(entry), vec![])).collect();
        if all.is_empty() && pools.is_empty() {
            return vec![];
        }
        for entry in self.pods.values().filter(|entry| is_replica(entry)) {
            let owner = ReplicaOwner::of_pod(entry);
            match all.get_mut(&owner) {
                Some(own) => own.push(entry),
                None if pools.is_empty() => {}
                None => drop(all.insert(owner, vec![entry])),
            }
        }
        let sharing = all.into_iter().filter_map(|(owner, replicas)| {
            let youngest = replicas.iter().max_by_key(|entry| (entry.pod.created, &entry.pod.uid))?;
            let of_pool = || pool_share(&pools, &youngest.pod);
            let (share, pool) = youngest.spot_share.share().map(|own| (own, None)).or_else(of_pool)?;
            Some(Sharing { owner, share, pool, replicas })
        });
        sharing.collect()
    }

    /// The pools in the order in which packing tries them; none where no pool asks for a split.
    fn sharing_pools(&self) -> Vec<SharingPool<'_>> {
        if !self.pools.values().any(|pool| written_on(pool).is_written()) {
            return vec![];
        }
        let usable = |pool: &NodePool| pool.metadata.deletion_timestamp.is_none() && pool.spec.replicas.is_none();
        let pools = self.pools.iter().filter(|(_, pool)| usable(pool));
        let mut all: Vec<SharingPool<'_>> = pools
            .filter_map(|(name, pool)| {
                let template = &pool.spec.template;
                let mut requirements = packing_requirements(&template.spec.requirements).ok()?;
                requirements.intersect(&Requirements::from_labels(&template.metadata.labels));
                requirements.add(crate::labels::NODE_POOL, Requirement::one_of([name.as_str()]));
                Some(SharingPool { name, pool, requirements, share: written_on(pool).share() })
            })
            .collect();
        let weight = |one: &SharingPool<'_>| one.pool.spec.weight.unwrap_or(0);
        all.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| b.name.cmp(a.name)));
        all
    }

    /// The place of a replica: where it is expected counts before where it is.
    fn replica_place(&self, entry: &PodEntry, now: Moment) -> Place {
        let on = |node: &str| if self.is_spot_node(node) { Place::Spot } else { Place::Other };
        match self.expected_on(&entry.pod.uid, now) {
            Some(NominationTarget::Node(node)) => on(node),
            Some(NominationTarget::Claim(claim)) => {
                let spot = self.claims.get(claim).is_some_and(|entry| may_be_spot(&entry.claim));
                if spot { Place::Spot } else { Place::Other }
            }
            None if entry.node_name.is_empty() || self.deleting.nodes.contains(&entry.node_name) => Place::Awaited,
            None => on(&entry.node_name),
        }
    }

    fn is_spot_node(&self, node: &str) -> bool {
        self.nodes.get(node).and_then(|node| node.labels.get(CAPACITY_TYPE)).is_some_and(|kind| kind == SPOT)
    }

    /// Claims, by name, whose nodes are to be replaced as more replicas of a workload are on spot than its split allows: one node
    /// of a workload at a time, each with the reason. A node whose replacement has begun stays named until its replicas have gone.
    #[must_use]
    pub fn nodes_over_spot_share(&self, now: Timestamp) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for one in self.sharing() {
            let mut count = Replicas::of_share(one.share);
            let mut on_spot: BTreeSet<&str> = BTreeSet::new();
            for entry in &one.replicas {
                let spot = self.is_spot_node(&entry.node_name);
                count.count_placed(&entry.workload, spot);
                if spot && allowed_capacity(&entry.pod).other {
                    on_spot.extend(self.replaceable_claim(&entry.node_name));
                }
            }
            if count.surplus() == 0 || on_spot.is_empty() {
                continue;
            }
            let begun = |claim: &&str| self.deleting.claims.contains(*claim);
            let mut chosen: Vec<&str> = on_spot.iter().copied().filter(begun).collect();
            if chosen.is_empty() && self.rests(&one, MEND_AFTER, now) {
                chosen.extend(on_spot.iter().nth(turn(on_spot.len(), now)));
            }
            let why = || format!("{} has more replicas on spot than it asks for ({})", one.owner, one.source());
            all.extend(chosen.into_iter().map(|claim| (claim.to_owned(), why())));
        }
        all
    }

    /// The claim of a Node that a successor may replace.
    fn replaceable_claim(&self, node: &str) -> Option<&str> {
        let claim = self.claim_of(self.nodes.get(node)?)?;
        let is_static = self.pools.get(&claim.facts.pool).is_some_and(|pool| pool.spec.replicas.is_some());
        let known = self.claims.get_key_value(&claim.facts.name);
        known.filter(|_| !is_static).map(|(name, _)| name.as_str())
    }

    /// True if all replicas have their places and the youngest is of that age: nothing is under way.
    fn rests(&self, one: &Sharing<'_>, age: SignedDuration, now: Timestamp) -> bool {
        one.replicas.iter().all(|entry| {
            let old = entry.pod.created.is_none_or(|created| now.duration_since(created) >= age);
            old && !entry.node_name.is_empty() && !entry.deleting && !self.deleting.nodes.contains(&entry.node_name)
        })
    }
}

impl Sharing<'_> {
    /// The split, and the place of its annotation.
    fn source(&self) -> String {
        let of = self.pool.map_or_else(|| "its pods'".to_owned(), |pool| format!("nodepool {pool}'s"));
        format!("{of} annotations dovetail.dev/on-demand-base and dovetail.dev/spot-share: {}", self.share)
    }
}

/// The marks of one workload's pods.
struct Splitting<'s, 'o> {
    snapshot: &'s Snapshot,
    of: &'o Sharing<'s>,
    now: Moment,
}

impl<'s> Splitting<'s, '_> {
    /// Marks those of the pods `own` that may be on no spot node.
    fn mark(&self, own: &[usize], pods: &mut [Pod], notes: &mut SpotShareNotes) {
        let snapshot = self.snapshot;
        let mut count = Replicas::of_share(self.of.share);
        for entry in &self.of.replicas {
            match snapshot.replica_place(entry, self.now) {
                Place::Awaited => {}
                place => count.count_placed(&entry.workload, place == Place::Spot),
            }
        }
        let entry_of = |at: usize, pods: &[Pod]| snapshot.pods.get(pods[at].base_uid());
        let (mut awaited, mut staying) = (Vec::new(), Vec::new());
        for (at, entry) in own.iter().filter_map(|at| Some((*at, entry_of(*at, pods)?))) {
            match snapshot.replica_place(entry, self.now) {
                place if pods[at].to_come || place == Place::Awaited => awaited.push((at, entry)),
                Place::Other => staying.push((at, entry)),
                _ => {}
            }
        }
        let none_awaited = awaited.is_empty();
        self.mark_awaited(awaited, &mut count, pods, notes);
        self.mark_staying(&staying, none_awaited, count, pods);
    }

    /// Marks those that get a place now: the oldest are off spot first.
    fn mark_awaited(
        &self,
        mut awaited: Vec<(usize, &'s Arc<PodEntry>)>,
        count: &mut Replicas<'s>,
        pods: &mut [Pod],
        notes: &mut SpotShareNotes,
    ) {
        awaited.sort_by(|(a, _), (b, _)| {
            let key = |at: usize| (pods[at].created, &pods[at].name, &pods[at].uid);
            key(*b).cmp(&key(*a))
        });
        awaited.iter().for_each(|(_, entry)| count.count_awaiting(&entry.workload));
        let mut open = Vec::new();
        for (at, entry) in awaited {
            match allowed_capacity(&pods[at]) {
                AllowedCapacity { spot: true, other: true } => open.push((at, entry)),
                AllowedCapacity { spot: true, other: false } => {
                    if !count.take_room(&entry.workload) {
                        count.put_on_spot(&entry.workload);
                        notes.not_met(&pods[at], self.of, "they allow spot nodes alone");
                    }
                }
                AllowedCapacity { spot: false, .. } if count.room(&entry.workload) > 0 => {
                    notes.not_met(&pods[at], self.of, "they allow no spot node");
                }
                AllowedCapacity { spot: false, .. } => {}
            }
        }
        let mut kept_off = Vec::new();
        for (at, entry) in open {
            if !count.take_room(&entry.workload) {
                pods[at].off_spot = true;
                kept_off.push(at);
            }
        }
        if kept_off.is_empty() {
            return;
        }
        let (owner, source) = (self.of.owner, self.of.source());
        let why = format!("it may be on no spot node, as of the replicas of {owner} {} ({source})", count.sentence());
        notes.off_spot.extend(kept_off.into_iter().map(|at| (pods[at].uid.clone(), why.clone())));
    }

    /// Marks those that are off spot and stay so when their node goes: all but those whose turn it is to go back.
    fn mark_staying(
        &self,
        staying: &[(usize, &'s Arc<PodEntry>)],
        none_awaited: bool,
        mut count: Replicas<'s>,
        pods: &mut [Pod],
    ) {
        let mut nodes: Vec<&str> = staying.iter().map(|(_, entry)| entry.node_name.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let rests = none_awaited && self.snapshot.rests(self.of, BACK_AFTER, self.now.wall);
        let goes = nodes.get(turn(nodes.len(), self.now.wall)).filter(|_| rests);
        for (at, entry) in staying {
            let back = goes.is_some_and(|node| *node == entry.node_name) && count.take_room(&entry.workload);
            pods[*at].off_spot = !back;
        }
    }
}

impl SpotShareNotes {
    /// All that is to be said, each sentence once with the number of pods that it is about.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        let unmet = self.unmet.iter().map(|one| &one.message);
        self.off_spot.values().chain(unmet).for_each(|text| *all.entry(text).or_default() += 1);
        all.into_iter().map(|(text, pods)| format!("{pods} pod(s): {text}")).collect()
    }

    fn not_met(&mut self, pod: &Pod, of: &Sharing<'_>, why: &str) {
        let message =
            format!("its own requirements decide, as {why}; what is asked for cannot be met ({})", of.source());
        self.unmet.push(UnmetShare { pod: pod.uid.clone(), reason: NOT_MET, message });
    }
}

fn written_on(pool: &NodePool) -> WrittenShare {
    pool.metadata.annotations.as_ref().map(WrittenShare::from_annotations).unwrap_or_default()
}

/// The split of the pool that packing tries first for a pod.
fn pool_share<'s>(pools: &[SharingPool<'s>], pod: &Pod) -> Option<(SpotShare, Option<&'s str>)> {
    let first = pools.iter().find(|one| may_be_in_pool(pod, &one.requirements, &one.pool.spec.template.spec.taints))?;
    Some((first.share?, Some(first.name)))
}

/// True if a pod is one of its workload's replicas: it is there to stay, and on a node or about to get one.
fn is_replica(entry: &PodEntry) -> bool {
    entry.reschedulable() && !entry.unreadable
}

/// True if the node of a claim is a spot node or may become one.
fn may_be_spot(claim: &NodeClaim) -> bool {
    if let Some(kind) = claim.metadata.labels.as_ref().and_then(|own| own.get(CAPACITY_TYPE)) {
        return kind == SPOT;
    }
    let written = claim.spec.requirements.iter().filter(|one| one.key == CAPACITY_TYPE).map(packing_requirement);
    let requirements = Requirements::from_written(&written.collect::<Vec<_>>()).unwrap_or_default();
    requirements.get(CAPACITY_TYPE).is_none_or(|own| own.has(SPOT))
}
