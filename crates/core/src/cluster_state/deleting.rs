//! Nodes that are about to go, and the pods on them that need a place elsewhere (core spec 0.4, "marked for deletion",
//! and 3.1, "also scheduled each round").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{ClaimEntry, ClusterState, Moment, NodeEntry, Nomination, NominationTarget, PodEntry, Snapshot};
use crate::lifecycle::ClaimStage;

/// Time before the forced end of a protected pod at which a place for its successor is made: a node's start, also where the
/// first launches are refused. A pod that has days yet keeps no node waiting.
const AHEAD: SignedDuration = SignedDuration::from_mins(10);

/// Objects that are going: the claim or the Node is being deleted, the cloud takes the instance away, or a command of ours
/// removes it. Nothing is planned on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletingObjects {
    /// Names of the claims that are going.
    pub claims: BTreeSet<String>,
    /// Names of the Nodes that are going.
    pub nodes: BTreeSet<String>,
    /// Nodes among these that a command holds and the API server does not know to go: their pods still serve, and the command
    /// has found places for them.
    pub held: BTreeSet<String>,
    /// Time by which a node ends whatever is on it, by the node's name, where that is known.
    pub ends: BTreeMap<String, Timestamp>,
}

impl DeletingObjects {
    /// True if nothing is going.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.is_empty()
    }

    /// True if a claim's new state changes this list.
    pub(super) fn concerns_claim(&self, name: &str, entry: &ClaimEntry, same_machine: bool) -> bool {
        // A claim that a command has held now goes for good.
        let goes = entry.says_it_leaves() && self.held.contains(&entry.facts.node);
        goes || self.claims.contains(name) != entry.says_it_leaves() || (!self.is_empty() && !same_machine)
    }

    /// True if a Node's new state changes this list.
    pub(super) fn concerns_node(&self, node: &NodeEntry, same_machine: bool) -> bool {
        let goes = node.deleting && self.held.contains(&node.name);
        goes || self.nodes.contains(&node.name) != node.deleting || (!self.is_empty() && !same_machine)
    }
}

/// Objects of which the API server, or what is written on them, says that they are going, by name.
#[derive(Debug, Default)]
pub(super) struct SaidToLeave {
    claims: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

impl SaidToLeave {
    pub(super) fn note_claim(&mut self, name: &str, leaves: bool) {
        note(&mut self.claims, name, leaves);
    }

    pub(super) fn note_node(&mut self, name: &str, leaves: bool) {
        note(&mut self.nodes, name, leaves);
    }
}

fn note(names: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if !is_in {
        names.remove(name);
    } else if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

impl ClusterState {
    /// Claims are about to be deleted, or no longer are; known before the API server is.
    pub fn mark_deleting<'a>(&mut self, claims: impl IntoIterator<Item = &'a str>, deleting: bool) {
        for name in claims {
            if deleting {
                self.marked.insert(name.to_owned());
            } else {
                self.marked.remove(name);
            }
        }
        self.look_who_leaves();
    }

    /// Claims are held by a command of ours, which removes them when the places of their pods stand. With `held` false they
    /// are released, and their pods are expected nowhere else.
    pub fn hold<'a>(&mut self, claims: impl IntoIterator<Item = &'a str>, held: bool) {
        let mut released = Vec::new();
        for name in claims {
            if held {
                self.held.insert(name.to_owned());
            } else if self.held.remove(name) {
                released.push(name);
            }
        }
        self.look_who_leaves();
        for name in released {
            let node = self.now.claims.get(name).map(|entry| entry.facts.node.clone()).unwrap_or_default();
            if node.is_empty() || self.now.deleting.nodes.contains(&node) {
                continue;
            }
            let pods: Vec<String> =
                self.now.loads.get(&node).into_iter().flat_map(|load| load.pods.keys().cloned()).collect();
            pods.iter().for_each(|uid| drop(self.expect_no_more(uid)));
        }
    }

    /// Number of times that a node or a claim that was to stay has begun to leave.
    #[must_use]
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Computes anew the objects that are going.
    pub(super) fn look_who_leaves(&mut self) {
        let deleting = self.now.who_leaves(&self.said_to_leave, &self.marked, &self.held);
        if deleting == *self.now.deleting {
            return;
        }
        let known = &self.now.deleting;
        let more = !deleting.claims.is_subset(&known.claims) || !deleting.nodes.is_subset(&known.nodes);
        let for_good = known.held.iter().any(|node| !deleting.held.contains(node) && deleting.nodes.contains(node));
        self.departures += u64::from(more || for_good);
        self.now.deleting = Arc::new(deleting);
    }
}

impl Snapshot {
    fn who_leaves(&self, said: &SaidToLeave, marked: &BTreeSet<String>, held: &BTreeSet<String>) -> DeletingObjects {
        let of_ours = marked.iter().chain(held).filter(|name| self.claims.contains_key(*name));
        let mut deleting = DeletingObjects {
            claims: said.claims.iter().chain(of_ours).cloned().collect(),
            nodes: said.nodes.clone(),
            held: BTreeSet::new(),
            ends: BTreeMap::new(),
        };
        if deleting.is_empty() {
            return deleting;
        }
        // A machine leaves as a whole: its claim with its Node, its Node with its claim.
        let whole = deleting.claims.iter().filter(|name| !self.is_refused(name));
        let of_claims = whole.filter_map(|name| self.claims.get(name)).map(|entry| entry.provider_id());
        // A Node may copy the provider ID of a machine that is another's: it goes alone.
        let counts =
            |node: &NodeEntry| self.claim_on(&node.provider_id).is_none_or(|claim| claim.facts.may_be_on(&node.name));
        let own = deleting.nodes.iter().filter_map(|name| self.nodes.get(name)).filter(|node| counts(node));
        let machines: BTreeSet<&str> = of_claims.chain(own.map(|node| &*node.provider_id)).collect();
        deleting.claims.extend(machines.iter().flat_map(|machine| self.claim_names_on(machine)).cloned());
        let nodes = machines.iter().flat_map(|machine| self.node_names_on(machine));
        let nodes = nodes.filter(|name| self.nodes.get(*name).is_some_and(|node| counts(node)));
        deleting.nodes.extend(nodes.cloned());
        for entry in deleting.claims.iter().filter_map(|name| self.claims.get(name)) {
            let Some(ends) = entry.facts.ends.filter(|_| !self.is_refused(&entry.facts.name)) else { continue };
            let own = self.node_names_on(entry.provider_id()).filter(|node| entry.facts.may_be_on(node));
            deleting.ends.extend(own.map(|name| (name.clone(), ends)));
        }
        let only_held = |name: &&String| {
            self.claims.get(*name).is_some_and(|entry| !entry.says_it_leaves()) && !marked.contains(*name)
        };
        let nodes =
            held.iter().filter(only_held).filter_map(|name| self.claims.get(name)).map(|entry| &entry.facts.node);
        let stands = |name: &&String| self.nodes.get(*name).is_some_and(|node| !node.deleting);
        deleting.held = nodes.filter(stands).cloned().collect();
        deleting
    }

    /// The cluster as it would be if a command held these claims, given by name, and had found these places for pods, given by uid.
    #[must_use]
    pub fn as_if_held<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a str>,
        places: impl IntoIterator<Item = (&'a str, &'a NominationTarget)>,
    ) -> Self {
        let mut then = self.clone();
        let deleting = Arc::make_mut(&mut then.deleting);
        for name in claims {
            let Some(entry) = self.claims.get(name).filter(|entry| !entry.says_it_leaves()) else { continue };
            deleting.claims.insert(name.to_owned());
            if self.nodes.get(&entry.facts.node).is_some_and(|node| !node.deleting) {
                deleting.nodes.insert(entry.facts.node.clone());
                deleting.held.insert(entry.facts.node.clone());
            }
        }
        let nominations = Arc::make_mut(&mut then.nominations);
        for (uid, target) in places {
            nominations.insert(uid.to_owned(), Nomination::for_ever(target.clone()));
        }
        then
    }

    /// True if a bound pod needs a place elsewhere: its node is leaving, and it can and will be moved (core spec 3.1,
    /// "currently reschedulable"), now or so soon that the place has to be made.
    #[must_use]
    pub fn must_move(&self, entry: &PodEntry, now: Timestamp) -> bool {
        self.deleting.nodes.contains(&entry.node_name)
            && entry.reschedulable()
            && !self.rolling.contains(&entry.pod.uid)
            && (self.has_to_go_soon(entry, now)
                || !(entry.do_not_disrupt.holds(now) || (self.is_held(entry) && !self.moves_by_rollout(entry))))
    }

    /// True if a pod, protected or not, is deleted within `AHEAD`, so that it has its grace period before its node ends.
    fn has_to_go_soon(&self, entry: &PodEntry, now: Timestamp) -> bool {
        let goes = self.deleting.ends.get(&entry.node_name).map(|ends| forced_from(*ends, entry));
        goes.is_some_and(|goes| goes.checked_sub(AHEAD).unwrap_or(Timestamp::MIN) <= now)
    }

    /// True if budgets keep a pod until somebody changes them or its workload.
    fn is_held(&self, entry: &PodEntry) -> bool {
        if entry.ready { self.budgets_hold(&entry.pod) } else { self.budgets_forbid(&entry.pod) }
    }

    /// True if a pod is on a node already.
    #[must_use]
    pub fn is_bound(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|entry| !entry.node_name.is_empty())
    }

    /// The pods on a leaving node that need a place elsewhere, by uid.
    #[must_use]
    pub fn displaced(&self, node: &str, now: Timestamp) -> Vec<&Arc<PodEntry>> {
        let load = self.loads.get(node).into_iter().flat_map(|load| load.pods.values());
        load.filter(|entry| self.must_move(entry, now)).collect()
    }

    /// True if a pod has to be gone before its successor can run: a pod with a volume that is the only one of its workload,
    /// or that keeps its name.
    #[must_use]
    pub fn cannot_run_twice(&self, entry: &PodEntry) -> bool {
        !entry.volume_claims.is_empty() && (entry.stateful || self.is_alone(entry))
    }

    /// True if a pod is the only active one of its workload.
    #[must_use]
    pub fn is_alone(&self, entry: &PodEntry) -> bool {
        let active = self.active_pods.get(&entry.workload).copied().unwrap_or_default();
        active <= usize::from(entry.is_active())
    }

    /// True if a pod is moved by a restart of its Deployment, as it asks for: its budget would not let it go, or nothing of
    /// its workload would be left for a while.
    #[must_use]
    pub fn moves_by_rollout(&self, entry: &PodEntry) -> bool {
        let asks = self.rollouts && entry.drain.rollout.is_some() && entry.ready;
        asks && (self.budgets_hold(&entry.pod) || self.is_alone(entry))
    }

    /// True if a pod of a node that ends may leave for its place. A pod that cannot run twice leaves as soon as the place's
    /// node has registered, so that its volume moves while the node gets ready; any other leaves once the place is ready.
    #[must_use]
    pub fn place_is_near(&self, entry: &PodEntry, now: Moment) -> bool {
        let registered =
            |claim: &str| self.claims.get(claim).and_then(|entry| entry.facts.stage) >= Some(ClaimStage::Registered);
        match self.expected_on(&entry.pod.uid, now) {
            Some(NominationTarget::Claim(name)) if registered(name) && self.cannot_run_twice(entry) => true,
            _ => self.place_is_ready(&entry.pod.uid, now),
        }
    }

    /// True if the place that a pod is expected at is ready for it.
    #[must_use]
    pub fn place_is_ready(&self, uid: &str, now: Moment) -> bool {
        match self.expected_on(uid, now) {
            None => false,
            Some(NominationTarget::Claim(name)) => {
                self.claims.get(name).is_some_and(|entry| entry.facts.stage == Some(ClaimStage::Initialized))
            }
            Some(NominationTarget::Node(name)) => self.nodes.get(name).is_some_and(|node| node.ready),
        }
    }
}

/// The time at which a pod is deleted whatever protects it, on a node that ends at `ends`.
pub(crate) fn forced_from(ends: Timestamp, entry: &PodEntry) -> Timestamp {
    let grace = SignedDuration::try_from(entry.grace).unwrap_or(SignedDuration::MAX);
    ends.checked_sub(grace).unwrap_or(Timestamp::MIN)
}
