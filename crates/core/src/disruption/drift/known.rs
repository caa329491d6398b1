//! Findings of a term about drift: read off pools and classes once for each of their versions, and of claims as long as nothing
//! that they are compared with changes. A successor computes them anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::conditions::CAPACITY_RESERVATIONS_READY;
use dovetail_api::v1::{AmiSelectorTerm, EC2NodeClass, EC2NodeClassStatus, NodeClaim, NodePool, condition};
use jiff::{SignedDuration, Timestamp};

use super::checks::{Subject, instance_of, is_looked_up, settled};
use super::offered::{ImagesByType, Missed, OffersAtLook};
use super::{Drift, DriftMark, DriftReason, Gates, HashStamp, Networks, Orders, Unpinned};
use crate::Requirements;
use crate::clock::{later, signed};
use crate::cluster_state::{Snapshot, WatchedKind};
use crate::disruption::look::OffersByClass;
use crate::disruption::machines::NodeAndClaim;
use crate::lifecycle::claim::packing_requirement;
use crate::lifecycle::hash::{self, Standing};
use crate::pause::DoublingPause;
use crate::say_once::SayOnce;
use crate::validity;

/// Longest time between two checks of a claim, however little changes (core spec 5.6).
const AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// Pause before a claim that could not be stamped is tried again.
const STAMP_PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
/// Largest number of claims that are stamped at a look.
const MOST_STAMPS: usize = 100;

/// A pool as drift reads it.
#[derive(Clone, Debug)]
pub(super) struct OfPool {
    version: Option<String>,
    /// Number of this version among those that nodes are compared with, over all pools and classes.
    seen: u64,
    /// The hash on the pool, where it is that of its template.
    pub hash: Option<Standing>,
    /// The pool's requirements; `None` where they are invalid.
    pub requirements: Option<Requirements>,
    /// True if nodes can be launched for it as it stands.
    pub valid: bool,
}

/// A class as drift reads it.
#[derive(Clone, Debug)]
pub(super) struct OfClass {
    version: Option<String>,
    /// Number of this version, counted as for pools.
    seen: u64,
    /// The hash on the class, where Dovetail has written or confirmed it.
    pub hash: Option<Standing>,
    sees: Sees,
}

/// The part of a class, beside its hash, that drift compares. Other fields and their times make no node drift.
#[derive(Clone, Debug, PartialEq)]
struct Sees {
    readable: bool,
    /// The status without conditions; `None` unless it is settled.
    status: Option<EC2NodeClassStatus>,
    reservations: (Option<bool>, bool),
    images: Vec<AmiSelectorTerm>,
}

/// A claim as it was last checked.
#[derive(Clone, Debug)]
struct Held {
    claim: Arc<NodeClaim>,
    /// Numbers of the versions that it was compared with: of all that concerns every node, of its pool, of its class.
    seen: [u64; 3],
    over_spot_share: Option<String>,
    drift: Drift,
}

/// Versions of pools and classes, and the judgement of each claim by them.
#[derive(Clone, Debug, Default)]
pub struct DriftKnowledge {
    pub gates: Gates,
    pub networks: Arc<Networks>,
    pools: BTreeMap<String, OfPool>,
    classes: BTreeMap<String, OfClass>,
    held: BTreeMap<String, Held>,
    missed: Missed,
    lacked: Missed,
    images: ImagesByType,
    stamped: BTreeMap<String, (u32, Timestamp)>,
    unpinned: SayOnce<(String, String)>,
    /// Nodes that go as too many replicas of a workload are on spot: the reason, by the claim's name.
    over_spot_share: BTreeMap<String, String>,
    seen: Option<Seen>,
    epoch: u64,
    count: u64,
    judged: u64,
}

/// Input that all claims were last compared with.
#[derive(Clone, Debug)]
struct Seen {
    offers: OffersByClass,
    networks: Arc<Networks>,
    gates: Gates,
    at: Timestamp,
}

impl DriftKnowledge {
    /// Begins a look: finds out if anything has changed that claims are compared with.
    pub fn begin(&mut self, snapshot: &Snapshot, offers: &OffersByClass, now: Timestamp) {
        let there = |uid: &str, claim: &NodeClaim| {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            snapshot.claims.get(name).is_some_and(|entry| entry.facts.uid == uid)
        };
        if self.refresh(snapshot) {
            self.images.clear();
        }
        self.over_spot_share = if self.gates.drift_off { BTreeMap::new() } else { snapshot.nodes_over_spot_share(now) };
        if self.seen.as_ref().is_some_and(|seen| self.is_as(seen, offers, now)) {
            return;
        }
        self.epoch += 1;
        self.images.clear();
        self.held.retain(|uid, held| there(uid, &held.claim));
        self.missed.retain(|uid, _| self.held.contains_key(uid));
        self.lacked.retain(|uid, _| self.held.contains_key(uid));
        self.stamped.retain(|uid, _| self.held.contains_key(uid));
        self.seen = Some(Seen { offers: offers.clone(), networks: self.networks.clone(), gates: self.gates, at: now });
    }

    fn is_as(&self, seen: &Seen, offers: &OffersByClass, now: Timestamp) -> bool {
        Arc::ptr_eq(&seen.networks, &self.networks)
            && seen.gates == self.gates
            && seen.offers.len() == offers.len()
            && seen.offers.iter().zip(offers).all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(one.1, other.1))
            && now.duration_since(seen.at).abs() < AGAIN
    }

    /// Reads pools and classes of which a new version is there; true if any class is another than before. Most versions change
    /// nothing that nodes are compared with: a counter of nodes, a condition, a budget.
    fn refresh(&mut self, snapshot: &Snapshot) -> bool {
        self.pools.retain(|name, _| snapshot.pools.contains_key(name));
        for (name, pool) in snapshot.pools.iter() {
            let version = pool.metadata.resource_version.clone();
            let known = self.pools.get(name);
            if version.is_some() && known.is_some_and(|known| known.version == version) {
                continue;
            }
            let mut of = of_pool(pool, version);
            of.seen = known.filter(|known| known.is_as(&of)).map_or_else(|| counted(&mut self.count), |one| one.seen);
            self.pools.insert(name.clone(), of);
        }
        self.classes.retain(|name, _| snapshot.classes.contains_key(name));
        let mut changed = false;
        for (name, class) in snapshot.classes.iter() {
            let (version, readable) = (class.metadata.resource_version.clone(), readable(snapshot, name));
            let known = self.classes.get(name);
            let same = |known: &OfClass| known.version == version && known.sees.readable == readable;
            if version.is_some() && known.is_some_and(same) {
                continue;
            }
            let mut of = of_class(class, version, readable);
            let same = known.filter(|known| known.hash == of.hash && known.sees == of.sees);
            changed |= same.is_none();
            of.seen = same.map_or_else(|| counted(&mut self.count), |one| one.seen);
            self.classes.insert(name.clone(), of);
        }
        changed
    }

    /// Number of checks of claims so far.
    #[cfg(test)]
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// True if nodes of a pool can be replaced now: pool and class are as a launch needs them.
    pub fn may_replace(&self, snapshot: &Snapshot, pool: &str, class: Option<&str>, offers: &OffersByClass) -> bool {
        let settled = |class: &str| settled_class(snapshot, class).is_some();
        let offered = |class: &str| offers.get(class).is_some_and(|types| !types.is_empty());
        self.pools.get(pool).is_some_and(|known| known.valid)
            && class.is_some_and(|class| settled(class) && offered(class))
    }

    /// Checks a node for drift; marks and stamps that follow are added to the orders. `None` for one whose pool is not there or
    /// cannot be read.
    pub fn judge(
        &mut self,
        machine: &NodeAndClaim<'_>,
        snapshot: &Snapshot,
        offers: &OffersByClass,
        out: &mut Orders,
        now: Timestamp,
    ) -> Option<Drift> {
        let entry = snapshot.claims.get(&machine.claim.name)?;
        let uid = &machine.claim.uid;
        let pool = self.pools.get(&machine.claim.pool)?;
        if snapshot.unreadable(WatchedKind::NodePool, &machine.claim.pool).is_some() {
            return None;
        }
        let reference = &entry.claim.spec.node_class_ref.name;
        let of_class = self.classes.get(reference);
        let seen = [self.epoch, pool.seen, of_class.map_or(0, |class| class.seen)];
        let over_spot_share = self.over_spot_share.get(&machine.claim.name);
        if let Some(held) = self.held.get(uid).filter(|held| held.seen == seen)
            && held.over_spot_share.as_ref() == over_spot_share
            && Arc::ptr_eq(&held.claim, &entry.claim)
        {
            return Some(held.drift.clone());
        }
        self.judged += 1;
        let class = settled_class(snapshot, reference);
        let of_class = of_class.filter(|class| class.sees.readable);
        let subject = Subject {
            claim: &entry.claim,
            facts: machine.claim,
            node: machine.node,
            pool,
            class: class.zip(of_class),
            network: instance_of(&entry.claim).and_then(|id| self.networks.get(id)),
            gates: self.gates,
            over_spot_share,
        };
        let (missed, lacked, images) = (&mut self.missed, &mut self.lacked, &mut self.images);
        let drift = subject.drift(&mut OffersAtLook { offers, now, missed, lacked, images });
        out.marks.extend(DriftMark::from_drift(&entry.claim, &machine.node.name, &machine.claim.pool, &drift));
        let of_class = of_class.and_then(|class| class.hash.as_ref());
        let stamp = HashStamp::from_claim(&entry.claim, pool.hash.as_ref(), of_class);
        // One for which there was no room is judged again at the next look.
        let is_left = stamp.is_some() && out.stamps.len() >= MOST_STAMPS;
        if let Some(stamp) = stamp.filter(|_| !is_left && may_stamp(&mut self.stamped, uid, now)) {
            out.stamps.push(stamp);
        }
        let seen = if is_left { [0; 3] } else { seen };
        self.warn(class, &drift, out);
        let over_spot_share = self.over_spot_share.get(&machine.claim.name).cloned();
        let held = Held { claim: entry.claim.clone(), seen, over_spot_share, drift: drift.clone() };
        self.held.insert(uid.clone(), held);
        Some(drift)
    }

    /// An image that has changed by itself is reported once.
    fn warn(&mut self, class: Option<&EC2NodeClass>, drift: &Drift, out: &mut Orders) {
        let (Some(class), Drift::Is(DriftReason::Ami, what)) = (class, drift) else { return };
        let Some(selector) = unpinned(class) else { return };
        let uid = class.metadata.uid.clone().unwrap_or_default();
        let image = what.rsplit(' ').next().unwrap_or_default().to_owned();
        if self.unpinned.is_news((uid.clone(), image.clone()), ()) {
            let class = class.metadata.name.clone().unwrap_or_default();
            out.unpinned.push(Unpinned { class, uid, selector, image });
        }
    }
}

/// True if a claim may be stamped now: at once, and again ever later where that fails.
fn may_stamp(stamped: &mut BTreeMap<String, (u32, Timestamp)>, uid: &str, now: Timestamp) -> bool {
    let (tries, next) = stamped.get(uid).copied().unwrap_or((0, now));
    if next > now {
        return false;
    }
    let pause = signed(STAMP_PAUSE.length_after(tries));
    stamped.insert(uid.to_owned(), (tries + 1, later(now, pause)));
    true
}

fn of_pool(pool: &NodePool, version: Option<String>) -> OfPool {
    let written: Vec<_> = pool.spec.template.spec.requirements.iter().map(packing_requirement).collect();
    let valid = validity::node_pool(pool).is_empty() && pool.metadata.deletion_timestamp.is_none();
    // An invalid pool gets no nodes: none of those that it has is replaced for its requirements.
    let requirements = Requirements::from_written(&written).ok().filter(|_| valid);
    let hash = hash::OF_POOL.settled(&pool.metadata, &hash::of_pool(pool));
    OfPool { version, seen: 0, hash, requirements, valid }
}

impl OfPool {
    /// True if nodes compared with either have the same result.
    fn is_as(&self, other: &Self) -> bool {
        self.hash == other.hash && self.valid == other.valid && self.requirements == other.requirements
    }
}

fn of_class(class: &EC2NodeClass, version: Option<String>, readable: bool) -> OfClass {
    let found = class.status.as_ref().and_then(|status| condition(&status.conditions, CAPACITY_RESERVATIONS_READY));
    let found = found.map(is_looked_up);
    let status = settled(class).map(|status| EC2NodeClassStatus { conditions: vec![], ..status.clone() });
    let sees = Sees {
        readable,
        status,
        reservations: (found, class.spec.capacity_reservation_selector_terms.is_empty()),
        images: class.spec.ami_selector_terms.clone(),
    };
    let hash = hash::OF_CLASS.settled(&class.metadata, &hash::of_class(class, ""));
    OfClass { version, seen: 0, hash, sees }
}

fn counted(count: &mut u64) -> u64 {
    *count += 1;
    *count
}

fn readable(snapshot: &Snapshot, class: &str) -> bool {
    snapshot.unreadable(WatchedKind::NodeClass, class).is_none()
}

/// A class that nodes may drift by.
fn settled_class<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a EC2NodeClass> {
    let class = snapshot.classes.get(name).filter(|_| readable(snapshot, name))?;
    settled(class).map(|_| class.as_ref())
}

/// The part of a class's selector that finds other images as time goes by, if any does.
fn unpinned(class: &EC2NodeClass) -> Option<String> {
    class.spec.ami_selector_terms.iter().find_map(|term| {
        let wild = |text: &&String| text.contains(['*', '?']);
        let latest = |alias: &&String| alias.ends_with("@latest");
        let by_tag = || (!term.tags.is_empty() && term.name.is_none()).then(|| "tags".to_owned());
        let name = term.name.as_ref().filter(wild).map(|name| format!("name {name}"));
        let alias = || term.alias.as_ref().filter(latest).map(|alias| format!("alias {alias}"));
        let parameter = || term.ssm_parameter.as_ref().map(|name| format!("ssmParameter {name}"));
        name.or_else(alias).or_else(parameter).or_else(by_tag)
    })
}
