//! Memory of a term from look to look. A successor starts without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::RemovalReason;
use super::drift::{DriftKnowledge, Gates, Networks, Replacements};
use super::look::DisruptedClaim;
use super::own_slot::OwnSlots;
use super::repair::{HeldRepair, RefusedReboots, Repairs};
use crate::cluster_state::{PlanningInput, Snapshot};

/// Time after which a removal that was asked for and has not begun is asked for again.
const ASK_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Memory that one look leaves for the next within a term of leadership.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    begun: bool,
    /// Times since which nodes of pools with a TTL are vacant, by node.
    pub(super) vacant: Turns<Timestamp>,
    /// Nodes whose TTL is being taken away.
    pub(super) cleared: BTreeSet<String>,
    /// Empty claims that are about to go, by uid, each with the time since when.
    pub(super) planned: Turns<Timestamp>,
    /// Claims whose removal has been asked for, by uid: name and time.
    asked: BTreeMap<String, (String, Timestamp)>,
    /// Empty claims of observed pools that have been reported.
    pub(super) observed_now: Turns<()>,
    /// Expired claims of observed pools that have been reported, by uid: their names.
    expired: BTreeMap<String, String>,
    /// Claims, by uid, that commands hold.
    held: BTreeSet<String>,
    /// Reasons that hold claims that could go, by uid.
    pub(super) blocked: Turns<String>,
    /// Pools whose budgets allowed nothing.
    pub(super) exhausted: Turns<()>,
    /// Versions of pools and the errors found in them, by name.
    judged: BTreeMap<String, (String, Vec<String>)>,
    /// Pools and classes that nodes are compared with for drift, and the results.
    pub(super) drift: DriftKnowledge,
    /// Unwell nodes that stay and have been reported, by uid.
    pub(super) not_repaired: Turns<HeldRepair>,
    /// Nodes that were ended before their successors stand.
    pub(super) own_slots: OwnSlots,
    /// Input of packing, but for types and time, for questions about places.
    pub(super) planning: PlanningInput,
    /// Drifted and unwell nodes whose pods are getting places.
    pub(super) replacing: Replacements,
    /// Repairs of pools, and alarms that many of their nodes share.
    pub(super) repairs: Repairs,
    /// Reboots that EC2 refuses for good.
    pub(super) refused_reboots: RefusedReboots,
}

/// Key under which it is noted that a claim would go; `None` for expiry, which is noted by the claim alone.
fn observed_key(uid: &str, reason: RemovalReason) -> Option<String> {
    match reason {
        RemovalReason::Expired => None,
        RemovalReason::Empty
        | RemovalReason::Drifted
        | RemovalReason::Underutilized
        | RemovalReason::Interrupted
        | RemovalReason::GarbageCollected
        | RemovalReason::Unhealthy
        | RemovalReason::Overprovisioned => Some(format!("{uid}/{}", reason.label())),
    }
}

impl Memory {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn set_gates(&mut self, gates: Gates) {
        self.drift.gates = gates;
    }

    /// Sets the input of packing for questions about places; types and time are those of each look.
    pub fn set_planning(&mut self, input: PlanningInput) {
        self.planning = input;
    }

    /// Reservations, by id, of which an instance is kept for the successor of a node that was ended first.
    #[must_use]
    pub fn kept_slots(&self) -> Vec<String> {
        self.own_slots.kept().map(str::to_owned).collect()
    }

    /// Notes that EC2 refuses a claim's reboot for good; `all`: and any other in this term.
    pub fn refuse_reboot(&mut self, disrupted: &DisruptedClaim, all: bool) {
        self.refused_reboots.note(disrupted, all);
    }

    /// Takes the networks of the instances from the cloud.
    pub fn learn_networks(&mut self, networks: Arc<Networks>) {
        // Equal networks are no reason to check every node again.
        if *self.drift.networks != *networks {
            self.drift.networks = networks;
        }
    }

    /// Number of drifted and unwell nodes that are being replaced.
    #[must_use]
    pub fn replacing(&self) -> usize {
        self.replacing.count()
    }

    /// Numbers of claims that are about to go, and of those whose removal has been asked for.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.planned.known.len(), self.asked.len())
    }

    /// Begins a look; true if there was one before.
    pub(super) fn begin(&mut self) -> bool {
        std::mem::replace(&mut self.begun, true)
    }

    /// Forgets removals that have come to pass, and those that have taken too long.
    pub(super) fn forget(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let there = |uid: &str, name: &str| {
            snapshot.claims.get(name).is_some_and(|entry| entry.facts.uid == uid && !entry.facts.deleting)
        };
        self.asked.retain(|uid, (name, when)| there(uid, name) && now.duration_since(*when) < ASK_AGAIN_AFTER);
        self.expired.retain(|uid, name| there(uid, name));
        self.replacing.retain(there, |pool| snapshot.pools.contains_key(pool));
        let exists = |uid: &str, name: &str| snapshot.claims.get(name).is_some_and(|entry| entry.facts.uid == uid);
        self.refused_reboots.retain(exists);
        self.repairs.retain(exists, there, |pool| snapshot.pools.contains_key(pool));
        self.cleared.retain(|node| snapshot.nodes.contains_key(node));
        self.judged.retain(|pool, _| snapshot.pools.contains_key(pool));
    }

    /// True if a claim's removal has been asked for.
    pub(super) fn is_asked(&self, uid: &str) -> bool {
        self.asked.contains_key(uid) || self.held.contains(uid)
    }

    /// Notes that a claim stays after all: its removal may be asked for again at once.
    pub(super) fn unask(&mut self, uid: &str) {
        self.asked.remove(uid);
    }

    /// Sets the claims, by uid, that commands hold: nothing else is decided about them.
    pub fn hold<'a>(&mut self, claims: impl Iterator<Item = &'a str>) {
        self.held = claims.map(str::to_owned).collect();
    }

    /// Claims, by uid, that are about to go: asked to, held by commands, or waiting for places for their pods.
    #[must_use]
    pub fn about_to_go(&self) -> BTreeSet<String> {
        self.asked.keys().chain(&self.held).chain(self.replacing.claims()).cloned().collect()
    }

    /// Notes that a claim's removal is asked for; true if that is new.
    pub(super) fn ask(&mut self, disrupted: &DisruptedClaim, now: Timestamp) -> bool {
        let news = !self.is_asked(&disrupted.uid);
        if news {
            self.asked.insert(disrupted.uid.clone(), (disrupted.claim.clone(), now));
        }
        news
    }

    /// Notes that a claim would go; true if that is new.
    pub(super) fn observe(&mut self, disrupted: &DisruptedClaim, reason: RemovalReason) -> bool {
        match observed_key(&disrupted.uid, reason) {
            Some(key) => self.observed_now.say(&key, ()),
            None => self.expired.insert(disrupted.uid.clone(), disrupted.claim.clone()).is_none(),
        }
    }

    /// True if it has been reported that a claim would go.
    pub(super) fn has_observed(&self, uid: &str, reason: RemovalReason) -> bool {
        match observed_key(uid, reason) {
            Some(key) => self.observed_now.get(&key).is_some(),
            None => self.expired.contains_key(uid),
        }
    }

    pub(super) fn has_judged(&self, pool: &str, version: &str) -> bool {
        self.judged.get(pool).is_some_and(|(known, _)| known == version)
    }

    /// Keeps the errors in a pool; returns those that are new.
    pub(super) fn judge(&mut self, pool: &str, version: &str, mistakes: Vec<String>) -> Vec<String> {
        let before = self.judged.insert(pool.to_owned(), (version.to_owned(), mistakes.clone()));
        let said = before.map(|(_, said)| said).unwrap_or_default();
        mistakes.into_iter().filter(|mistake| !said.contains(mistake)).collect()
    }
}

/// Values that last as long as each look sets them again.
#[derive(Clone, Debug)]
pub(super) struct Turns<V> {
    known: BTreeMap<String, V>,
    next: BTreeMap<String, V>,
}

impl<V> Default for Turns<V> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), next: BTreeMap::new() }
    }
}

impl<V: PartialEq> Turns<V> {
    /// The value that the look before has set.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.known.get(key)
    }

    /// Sets a value for this look; true if it is new, or other than before.
    pub fn say(&mut self, key: &str, value: V) -> bool {
        let news = self.known.get(key) != Some(&value);
        self.next.insert(key.to_owned(), value);
        news
    }

    /// Ends the look: values that it has not set are forgotten.
    pub fn turn(&mut self) {
        self.known = std::mem::take(&mut self.next);
    }
}
