//! Places for the pods of requests: on nodes that are there or on their way, and for one request at a time on new ones.
//!
//! A pod stays where it was found a place, as long as real pods leave it there. Nodes for pods that wait are the packer's: here
//! they take only what is there. So a new node of this plan is for the request alone, and of no use without all the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::annotations::LAUNCHED_FOR_REQUEST;
use dovetail_api::v1::NodeClaim;

use super::request::{GANG_POD_NAME, Gang, GangClass};
use crate::cluster_state::{
    HeldRoom, JoinedNode, NodeSource, NominationTarget, Planning, PlanningInput, Snapshot, take_in,
};
use crate::explain;
use crate::pack::Packing;
use crate::pod::Pod;
use crate::resources::PODS;

/// Most entries of a claim's annotation that are read.
const MOST_NAMED: usize = 50;

/// Places of a request's pods: node or claim, and number of the pod set.
pub type GangPlaces = Vec<(NominationTarget, usize)>;

/// A request for which room is held or looked for.
#[derive(Clone, Debug)]
pub struct HeldGang {
    pub gang: Arc<Gang>,
    /// Numbers of pods of each set that are to have room.
    pub wanted: Vec<usize>,
    /// True while its room is looked for: it may be the one that is tried. False where its room was there and is held.
    pub sought: bool,
}

/// Pods of one request, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsNow {
    /// Number on nodes that are ready for pods.
    pub ready: usize,
    /// Number on nodes that are on their way.
    pub coming: usize,
    /// Number on nodes that are planned now.
    pub new: usize,
    /// True if a node that has some of them was launched for the request.
    pub launched: bool,
    /// Number of those that have no place.
    pub left_over: usize,
    /// The reason of the first that has none.
    pub why: Option<String>,
    /// Places on nodes that are there or on their way.
    pub places: GangPlaces,
}

/// The places of the pods of all requests.
#[derive(Clone, Debug, Default)]
pub struct GangPlan {
    /// By namespace and name of the request.
    pub gangs: BTreeMap<String, PodsNow>,
    /// The request that is tried, by namespace and name.
    pub tried: Option<String>,
    /// Planned nodes by their index among the packing's claims, each with its pods. All are for the request that is tried.
    pub new: BTreeMap<usize, Vec<(usize, Arc<Pod>)>>,
    /// Pods of requests by the node or claim that they are on.
    room: BTreeMap<String, Vec<(NominationTarget, Arc<Pod>)>>,
}

/// A problem with the pods of requests.
#[derive(Clone, Debug, Default)]
pub struct GangProblem {
    pub planning: Planning,
    /// Namespace and name of each request.
    keys: Vec<String>,
    /// Index of the first pod of a request among the problem's pods.
    first: usize,
    /// Request and set of each of them.
    owners: Vec<(usize, usize)>,
    kept: Vec<KeptPod>,
    /// Number of pods of each request that are not packed now.
    unpacked: Vec<usize>,
    tried: Option<usize>,
}

/// A pod that stays at its place, and is not packed.
#[derive(Clone, Debug)]
struct KeptPod {
    /// Index of the node among the problem's existing ones.
    node: usize,
    gang: usize,
    set: usize,
    pod: Arc<Pod>,
}

/// The problem of all requests, the first of them first. `places` are those of the last plan, by request.
#[must_use]
pub fn plan_gangs(
    snapshot: &Snapshot,
    input: &PlanningInput,
    gangs: &[HeldGang],
    places: &BTreeMap<String, GangPlaces>,
) -> GangProblem {
    let bare = snapshot.without_bookings();
    let waiting = bare.pending(input.now);
    let mut planning = bare.planning_for(&PlanningInput { only: None, ..input.clone() }, &waiting);
    let mut problem = Arc::unwrap_or_clone(std::mem::take(&mut planning.problem));
    problem.pods.iter_mut().for_each(|pod| pod.existing_only = true);
    let nodes = nodes_by_target(&planning.existing);
    let (mut kept, mut missing) = (Vec::new(), Vec::new());
    for (at, held) in gangs.iter().enumerate() {
        let promised = || promised_places(snapshot, &planning.existing, &held.gang.key());
        let known = places.get(&held.gang.key()).cloned().unwrap_or_default();
        let mut left = held.wanted.clone();
        for (target, set) in known.into_iter().chain(promised()) {
            let Some(node) = nodes.get(&target).copied() else { continue };
            let Some(pod) = left.get(set).filter(|left| **left > 0).and_then(|left| held.gang.pod(set, left - 1))
            else {
                continue;
            };
            if take_in(&mut problem.existing_nodes[node], &pod) {
                left[set] -= 1;
                kept.push(KeptPod { node, gang: at, set, pod: Arc::new(pod) });
            }
        }
        missing.push(left);
    }
    let lacks = |at: &usize| missing[*at].iter().any(|left| *left > 0);
    let tried = (0..gangs.len()).filter(|at| gangs[*at].sought).find(lacks);
    if tried.is_some_and(|at| gangs[at].gang.class == GangClass::CheckCapacity) {
        // It is about nodes that are ready: one that is on its way has no room in this plan.
        let coming = problem.existing_nodes.iter_mut().filter(|node| !node.initialized);
        coming.for_each(|node| node.used.set(PODS, i64::MAX));
    }
    let (first, mut owners, mut unpacked) = (problem.pods.len(), Vec::new(), vec![0; gangs.len()]);
    for (at, held) in gangs.iter().enumerate() {
        if held.sought && tried != Some(at) {
            unpacked[at] = missing[at].iter().sum();
            continue;
        }
        let existing_only = !held.sought || held.gang.class == GangClass::CheckCapacity;
        let priority = if held.sought { i32::MIN } else { i32::MAX };
        for (set, left) in missing[at].iter().enumerate() {
            let pods = (0..*left).filter_map(|number| held.gang.pod(set, number));
            problem.pods.extend(pods.map(|pod| Pod { existing_only, priority, ..pod }));
            owners.extend(std::iter::repeat_n((at, set), *left));
        }
    }
    planning.problem = Arc::new(problem);
    let keys = gangs.iter().map(|held| held.gang.key()).collect();
    GangProblem { planning, keys, first, owners, kept, unpacked, tried }
}

/// Indices of nodes by their names and those of their claims.
fn nodes_by_target(existing: &[JoinedNode]) -> BTreeMap<NominationTarget, usize> {
    let mut all = BTreeMap::new();
    for (at, joined) in existing.iter().enumerate() {
        let node = joined.node_name().map(|name| NominationTarget::Node(name.to_owned()));
        let claim = joined.claim_name().map(|name| NominationTarget::Claim(name.to_owned()));
        all.extend(node.into_iter().chain(claim).map(|target| (target, at)));
    }
    all
}

/// Places that claims on their way were launched for. The labels of their nodes may not be known yet.
fn promised_places(snapshot: &Snapshot, existing: &[JoinedNode], key: &str) -> GangPlaces {
    let mut all = GangPlaces::new();
    for joined in existing.iter().filter(|joined| !joined.initialized) {
        let Some(claim) = joined.claim_name().and_then(|name| snapshot.claims.get(name)) else { continue };
        for ((of, set), number) in promised_to_requests(&claim.claim) {
            if of == key {
                all.extend(std::iter::repeat_n((joined.target(), set), number.min(super::MOST_PODS)));
            }
        }
    }
    all
}

/// Room of requests for which a claim was launched: numbers of pods by namespace and name of the request and number of the set.
#[must_use]
pub fn promised_to_requests(claim: &NodeClaim) -> BTreeMap<(String, usize), usize> {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(LAUNCHED_FOR_REQUEST));
    let each = written.into_iter().flat_map(|text| text.split(',')).filter_map(|one| {
        let (of, number) = one.split_once('=')?;
        let (key, set) = of.rsplit_once('/')?;
        Some(((key.to_owned(), set.parse().ok()?), number.parse().ok()?))
    });
    each.take(MOST_NAMED).collect()
}

/// The text by which [`promised_to_requests`] knows the pods of requests among pods; `None` if there are none.
#[must_use]
pub fn write_request<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<String> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.into_iter().filter(|pod| pod.is_booked()) {
        let parts = pod.name.strip_prefix(GANG_POD_NAME).and_then(|rest| rest.rsplit_once('-'));
        let Some((name, set)) = parts.and_then(|(rest, _)| rest.rsplit_once('-')) else { continue };
        *all.entry(format!("{}/{name}/{set}", pod.namespace)).or_default() += 1;
    }
    let each = all.iter().take(MOST_NAMED).map(|(key, number)| format!("{key}={number}"));
    (!all.is_empty()).then(|| each.collect::<Vec<_>>().join(","))
}

impl GangProblem {
    fn owner(&self, pod: usize) -> Option<(usize, usize)> {
        self.owners.get(pod.checked_sub(self.first)?).copied()
    }

    /// True if there is no pod to be packed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

impl GangPlan {
    /// Reads the places off a packing.
    #[must_use]
    pub fn from_packing(asked: &GangProblem, packing: &Packing) -> Self {
        let problem = &asked.planning.problem;
        let unpacked = |left_over: &usize| PodsNow { left_over: *left_over, ..PodsNow::default() };
        let mut plan = Self {
            gangs: asked.keys.iter().cloned().zip(asked.unpacked.iter().map(unpacked)).collect(),
            tried: asked.tried.and_then(|at| asked.keys.get(at).cloned()),
            ..Self::default()
        };
        for one in &asked.kept {
            plan.take_existing(asked, one.node, (one.gang, one.set), &one.pod);
        }
        for (node, pods) in &packing.on_existing {
            for pod in pods {
                let Some(owner) = asked.owner(*pod) else { continue };
                plan.take_existing(asked, *node, owner, &Arc::new(problem.pods[*pod].clone()));
            }
        }
        for (at, claim) in packing.claims.iter().enumerate() {
            for pod in &claim.pods {
                let Some((gang, set)) = asked.owner(*pod) else { continue };
                let Some(now) = asked.keys.get(gang).and_then(|key| plan.gangs.get_mut(key)) else { continue };
                now.new += 1;
                plan.new.entry(at).or_default().push((set, Arc::new(problem.pods[*pod].clone())));
            }
        }
        for (pod, reason) in &packing.unscheduled {
            let key = asked.owner(*pod).and_then(|(gang, _)| asked.keys.get(gang));
            let Some(now) = key.and_then(|key| plan.gangs.get_mut(key)) else { continue };
            now.left_over += 1;
            now.why.get_or_insert_with(|| explain::why_not(&problem.pods[*pod], reason, &asked.planning));
        }
        plan
    }

    fn take_existing(&mut self, asked: &GangProblem, node: usize, (gang, set): (usize, usize), pod: &Arc<Pod>) {
        let (Some(key), Some(joined)) = (asked.keys.get(gang), asked.planning.existing.get(node)) else { return };
        let Some(now) = self.gangs.get_mut(key) else { return };
        *(if joined.initialized { &mut now.ready } else { &mut now.coming }) += 1;
        if let NodeSource::Claim(entry) | NodeSource::Both(_, entry) = &joined.source {
            now.launched |= promised_to_requests(&entry.claim).keys().any(|(of, _)| of == key);
        }
        now.places.push((joined.target(), set));
        self.room.entry(key.clone()).or_default().push((joined.target(), pod.clone()));
    }

    /// The room of requests by the node or claim that has it.
    #[must_use]
    pub fn held_room(&self, of: impl Fn(&str) -> bool) -> HeldRoom {
        let mut all = HeldRoom::new();
        for (_, room) in self.room.iter().filter(|(key, _)| of(key)) {
            for (target, pod) in room {
                all.entry(target.clone()).or_default().push(pod.clone());
            }
        }
        all
    }
}
