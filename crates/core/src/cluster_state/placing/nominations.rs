//! Nominations: the node on which a pending pod is expected. kube-scheduler binds; until it has, the pod is not packed again
//! while its node is on its way, nor for a while after. A pod that has to leave its node is expected elsewhere under its own
//! uid until it has gone, or until one like it comes to replace it: that one has its place from then on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;

use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::objects::workload::TEMPLATE_HASH;
use crate::cluster_state::{ClaimEntry, ClusterState, Moment, PodEntry, Snapshot};
use crate::labels;
use crate::lifecycle::ClaimStage;
use crate::pod::Pod;
use crate::resources::Resources;

/// The place at which a pod is expected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NominationTarget {
    /// On the node of a claim that is on its way.
    Claim(String),
    /// On a node that is there.
    Node(String),
}

/// An expectation, and the time until which it keeps the pod from being packed again once its node is ready. Monotonic time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The place at which the pod is expected.
    pub target: NominationTarget,
    /// End of the expectation; counted anew from the moment the node becomes ready.
    pub until: Duration,
    /// The count of kube-scheduler's signs of life at its beginning.
    pub(in crate::cluster_state) heard: u64,
}

impl Nomination {
    /// A nomination without an end, for a cluster that is only imagined.
    pub(in crate::cluster_state) fn for_ever(target: NominationTarget) -> Self {
        Self { target, until: Duration::MAX, heard: 0 }
    }
}

impl ClusterState {
    /// Claims are planned: from now on they are capacity on its way, and pods are expected on them.
    pub fn plan_claim(&mut self, claim: NodeClaim, expected_capacity: Resources) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let entry = ClaimEntry::new(Arc::new(claim), expected_capacity);
        self.uses.note_claim(&entry);
        self.uses.note_planned(&name);
        self.put_claim(name, entry);
    }

    /// Pods are expected somewhere, at least until `until`; pods that have gone while they were planned are left out. Pods
    /// bound there meanwhile may have left some no room: those are without a place.
    pub fn nominate<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a str>,
        target: &NominationTarget,
        until: Duration,
    ) {
        for uid in pods {
            if !self.now.pods.contains_key(uid) {
                continue;
            }
            self.expect(uid, Nomination { target: target.clone(), until, heard: self.heard });
            self.note_trial(uid);
            // It has begun to go while it was planned for.
            if self.now.pods.get(uid).is_some_and(|entry| entry.deleting && !entry.node_name.is_empty()) {
                self.make_way(uid);
            }
        }
        if self.is_ready(target) {
            self.await_mates(target, until);
        }
        self.look_at_room(target);
    }

    fn expect(&mut self, uid: &str, nomination: Nomination) {
        self.expect_no_more(uid);
        if let NominationTarget::Claim(claim) = &nomination.target {
            self.uses.note_expected(claim, uid);
        }
        Arc::make_mut(&mut self.now.nominations).insert(uid.to_owned(), nomination);
        self.note_nominated(uid);
    }

    /// Takes note of whether a pod that is expected at a claim is nominated to the claim's node.
    pub(in crate::cluster_state) fn note_nominated(&mut self, uid: &str) {
        let nomination = self.now.nominations.get(uid);
        let Some(NominationTarget::Claim(claim)) = nomination.map(|one| &one.target) else { return };
        let node = self.now.claims.get(claim).map(|entry| entry.facts.node.as_str()).filter(|node| !node.is_empty());
        let is_other = self.now.pods.get(uid).is_some_and(|entry| entry.nominated.as_deref() != node);
        if self.now.nominations.is_other_at(claim, uid) != is_other {
            let claim = claim.clone();
            Arc::make_mut(&mut self.now.nominations).note_other(&claim, uid, is_other);
        }
    }

    /// The node of a claim is another one now.
    pub(in crate::cluster_state) fn note_node_of(&mut self, claim: &str) {
        let target = NominationTarget::Claim(claim.to_owned());
        let pods: Vec<String> = self.now.nominations.pods_at(&target).cloned().collect();
        pods.iter().for_each(|uid| self.note_nominated(uid));
    }

    /// Ends the expectation of a pod. Answers the nomination that it had.
    pub(in crate::cluster_state) fn expect_no_more(&mut self, uid: &str) -> Option<Nomination> {
        if !self.now.nominations.contains_key(uid) {
            return None;
        }
        let nomination = Arc::make_mut(&mut self.now.nominations).remove(uid)?;
        self.outgoing.remove(uid);
        Some(nomination)
    }

    /// A pod that is expected elsewhere is going: its successor, which may have come before that was known, has its place.
    pub(in crate::cluster_state) fn make_way(&mut self, uid: &str) {
        let Some(going) = self.now.pods.get(uid).filter(|_| !self.outgoing.contains(uid)).cloned() else { return };
        let waits = |entry: &&Arc<PodEntry>| {
            entry.is_active()
                && !self.now.nominations.contains_key(&entry.pod.uid)
                && self.stands_in(&entry.pod, &going)
        };
        let Some(successor) = self.now.unbound().find(waits).map(|entry| entry.pod.uid.clone()) else {
            self.outgoing.insert(uid.to_owned());
            return;
        };
        if let Some(nomination) = self.expect_no_more(uid) {
            self.expect(&successor, nomination);
        }
    }

    /// A pod has come: where one like it is about to go, it is its successor and has its place.
    pub(in crate::cluster_state) fn succeed(&mut self, uid: &str, pod: &Pod) {
        let like = |other: &&String| self.now.pods.get(other).is_some_and(|other| self.stands_in(pod, other));
        let Some(before) = self.outgoing.iter().find(like).cloned() else { return };
        if let Some(nomination) = self.expect_no_more(&before) {
            self.expect(uid, nomination);
        }
    }

    /// True if a pod replaces one that is removed: it is like it, except for the hash of its template where the other goes by
    /// a restart, and for the requests where it was created with others that are recommended.
    fn stands_in(&self, pod: &Pod, going: &PodEntry) -> bool {
        let grown = self.now.recommended(going).map(|_| Pod { requests: going.pod.requests.clone(), ..pod.clone() });
        let (pod, going) = (grown.as_ref().unwrap_or(pod), &going.pod);
        alike(pod, going) || (self.now.rolling.contains(&going.uid) && alike_but_for(pod, going, TEMPLATE_HASH))
    }

    /// Pods go by a restart of their Deployment; with `rolls` false they do not after all. Their places are kept for the pods
    /// that the restart brings, which come before they go; they themselves need none.
    pub fn roll<'a>(&mut self, pods: impl IntoIterator<Item = &'a str>, rolls: bool) {
        let there = &self.now.pods;
        let mut rolling: BTreeSet<String> =
            self.now.rolling.iter().filter(|uid| there.contains_key(uid)).cloned().collect();
        let pods: Vec<&str> = pods.into_iter().filter(|uid| there.contains_key(uid)).collect();
        if rolls {
            rolling.extend(pods.iter().map(|uid| (*uid).to_owned()));
        } else {
            rolling.retain(|uid| !pods.contains(&uid.as_str()));
            self.outgoing.retain(|uid| !pods.contains(&uid.as_str()));
        }
        self.now.rolling = Arc::new(rolling);
        for uid in pods.into_iter().filter(|_| rolls) {
            self.make_way(uid);
        }
    }

    /// A claim's node has become ready for pods: kube-scheduler has until `until` to bind those expected. It may have bound
    /// others before that was known.
    pub fn expect_until(&mut self, claim: &str, until: Duration) {
        let target = NominationTarget::Claim(claim.to_owned());
        if self.now.nominations.entry_at(&target).is_some() {
            Arc::make_mut(&mut self.now.nominations).renew(&target, until, self.heard);
            self.await_mates(&target, until);
            self.look_at_room(&target);
        }
    }

    /// Looks whether all that are expected at a target have room on its node, if that is ready for pods.
    fn look_at_room(&mut self, target: &NominationTarget) {
        let node = match target {
            NominationTarget::Node(name) => Some(name.clone()),
            NominationTarget::Claim(name) if self.is_ready(target) => {
                self.now.claims.get(name).and_then(|entry| Some(entry.claim.status.as_ref()?.node_name.clone()))
            }
            NominationTarget::Claim(_) => None,
        };
        if node.is_some_and(|node| self.crowd_out(&node)) {
            self.places_lost += 1;
        }
    }

    /// A pod has been bound. kube-scheduler does not know our plans: when it took the place of a pod like itself, that
    /// one is now expected where this one was. Where it leaves others too little room they are expected no more, and
    /// are without a place. Answers whether some are.
    pub(in crate::cluster_state) fn bound(&mut self, uid: &str, pod: &Pod, node: &str) -> bool {
        let own = self.expect_no_more(uid);
        if own.as_ref().is_some_and(|own| self.is_on(&own.target, node)) {
            return false;
        }
        let here: Vec<_> = self.awaited_on(node).flat_map(|(_, pods)| pods).collect();
        if here.is_empty() {
            return false;
        }
        let alike = |other: &&String| self.now.pods.get(other).is_some_and(|other| alike(&other.pod, pod));
        let replaced = here.into_iter().find(alike);
        if let (Some(own), Some(replaced)) = (own, replaced.cloned()) {
            self.expect(&replaced, own);
            return false;
        }
        self.crowd_out(node)
    }

    /// Pods by the targets that are that node.
    fn awaited_on(&self, node: &str) -> impl Iterator<Item = (&NominationTarget, &BTreeSet<String>)> {
        self.targets_on(node).filter_map(|target| self.now.nominations.entry_at(&target))
    }

    /// True if the target is that node. A claim's node is known by its machine: pods are bound before the claim says which
    /// node it has.
    fn is_on(&self, target: &NominationTarget, node: &str) -> bool {
        match target {
            NominationTarget::Node(name) => name == node,
            NominationTarget::Claim(name) => {
                let machine = self.now.claims.get(name).map(|entry| entry.provider_id()).filter(|id| !id.is_empty());
                machine.is_some() && machine == self.now.nodes.get(node).map(|entry| entry.provider_id.as_str())
            }
        }
    }

    pub(in crate::cluster_state) fn is_ready(&self, target: &NominationTarget) -> bool {
        match target {
            NominationTarget::Node(_) => true,
            NominationTarget::Claim(name) => {
                self.now.claims.get(name).is_some_and(|entry| entry.facts.stage == Some(ClaimStage::Initialized))
            }
        }
    }

    /// Takes their place from pods that are expected on a node which has too little room for all of them: first from those
    /// that wait for kube-scheduler, then from those that have yet to leave their node, whose successors would find no room.
    /// One that is leaving its node keeps its own, as its successor is about to have it. Answers whether some have lost theirs.
    fn crowd_out(&mut self, node: &str) -> bool {
        let Some(entry) = self.now.nodes.get(node) else { return false };
        let here = self.awaited_on(node).filter(|(target, _)| self.is_ready(target));
        let expected = here.flat_map(|(_, pods)| pods).filter_map(|uid| self.now.pods.get(uid));
        let (waiting, moving): (Vec<_>, Vec<_>) = expected
            .filter(|entry| entry.node_name.is_empty() || !entry.deleting)
            .cloned()
            .partition(|entry| entry.node_name.is_empty());
        let mut used = self.now.loads.get(node).map(|load| load.requests.clone()).unwrap_or_default();
        let room = entry.allocatable.clone();
        let mut losing = crowded_out(&mut used, &room, &waiting);
        losing.extend(crowded_out(&mut used, &room, &moving));
        losing.iter().for_each(|uid| drop(self.expect_no_more(uid)));
        !losing.is_empty()
    }

    /// The leader's plans are void (its term is over): only what the API server knows remains.
    pub fn forget_plans(&mut self) {
        self.now.nominations = Arc::default();
        self.outgoing.clear();
        self.now.rolling = Arc::default();
        self.now.sold_out = Arc::default();
        self.now.closed_pools = Arc::default();
        self.now.refused_places = Arc::default();
        (self.now.room, self.now.booked) = (None, None);
        self.uses.forget_plans();
        let planned: Vec<_> =
            self.now.claims.iter().filter(|(_, entry)| entry.is_planned()).map(|(name, _)| name.clone()).collect();
        for name in planned {
            self.take_claim(&name);
        }
        self.marked.clear();
        self.held.clear();
        self.look_who_leaves();
    }

    /// Pods expected at a target that is gone are free again.
    pub(in crate::cluster_state) fn forget_target(&mut self, gone: &NominationTarget) {
        if self.now.nominations.entry_at(gone).is_some() {
            let free = Arc::make_mut(&mut self.now.nominations).remove_target(gone);
            for uid in free.iter() {
                self.outgoing.remove(uid);
            }
        }
    }
}

/// Adds the requests of pods to `used` and answers, by uid, the pods that do not fit: the smallest pod whose removal is
/// enough, or else the largest and so on.
fn crowded_out(used: &mut Resources, room: &Resources, pods: &[Arc<PodEntry>]) -> Vec<String> {
    let mut there: Vec<_> = pods.iter().map(|pod| (&pod.pod.uid, with_itself(&pod.pod.requests))).collect();
    there.iter().for_each(|(_, requests)| used.add(requests));
    let share = |requests: &Resources| {
        let shares = requests.iter().map(|(name, amount)| amount as f64 / room.get(name).max(1) as f64);
        shares.fold(0.0, f64::max)
    };
    there.sort_by(|(a, one), (b, other)| share(one).total_cmp(&share(other)).then_with(|| a.cmp(b)));
    let mut out = Vec::new();
    while !used.fits_in(room) && !there.is_empty() {
        let enough = |requests: &Resources| {
            let mut without = used.clone();
            without.sub(requests);
            without.fits_in(room)
        };
        let chosen = there.iter().position(|(_, requests)| enough(requests)).unwrap_or(there.len() - 1);
        let (uid, requests) = there.remove(chosen);
        used.sub(&requests);
        out.push(uid.clone());
    }
    out
}

/// True if one of two pods can be where the other was planned.
pub(in crate::cluster_state) fn alike(a: &Pod, b: &Pod) -> bool {
    alike_but_for(a, b, "")
}

/// True if two pods are alike, whatever the value of that label.
fn alike_but_for(a: &Pod, b: &Pod, label: &str) -> bool {
    let labels = |pod| own_labels(pod).filter(|(key, _)| key.as_str() != label);
    a.requests == b.requests
        && a.node_selector == b.node_selector
        && labels(a).eq(labels(b))
        && a.namespace == b.namespace
        && a.tolerations == b.tolerations
        && a.affinity == b.affinity
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.host_ports == b.host_ports
}

/// A pod's labels but for those that it gets with its node (Kubernetes 1.35).
pub(in crate::cluster_state) fn own_labels(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.labels.iter().filter(|(key, _)| ![labels::ZONE, labels::REGION].contains(&key.as_str()))
}

impl Snapshot {
    /// The place at which a pod is expected, while that counts: a claim on its way always does, a ready node for its time,
    /// and for a pod that has yet to leave its node both do. No pod is expected on an object that is leaving itself.
    #[must_use]
    pub fn expected_on(&self, uid: &str, now: Moment) -> Option<&NominationTarget> {
        let nomination = self.nominations.get(uid)?;
        let moves = match self.pods.get(uid).filter(|entry| !entry.node_name.is_empty()) {
            Some(bound) if !self.must_move(bound, now.wall) && !self.makes_way(bound) => return None,
            bound => bound.is_some(),
        };
        let (stays, ready) = match &nomination.target {
            NominationTarget::Claim(name) => {
                let stage = self.claims.get(name)?.facts.stage;
                let ready = stage == Some(ClaimStage::Initialized)
                    && !self.waits_for_taint(name, self.pods.get(uid).map(AsRef::as_ref), now.wall);
                (!self.deleting.claims.contains(name) && !self.is_refused(name), ready)
            }
            NominationTarget::Node(name) => {
                (self.nodes.contains_key(name) && !self.deleting.nodes.contains(name), true)
            }
        };
        (stays && (moves || !ready || now.monotonic < nomination.until)).then_some(&nomination.target)
    }

    /// True if a pod is being deleted on a node that leaves, or its Deployment restarted: its successor is about to come.
    fn makes_way(&self, entry: &PodEntry) -> bool {
        let goes = entry.deleting || self.rolling.contains(&entry.pod.uid);
        goes && !entry.terminal && self.deleting.nodes.contains(&entry.node_name)
    }

    /// True if some pod is expected at a place, or room is held there.
    #[must_use]
    pub fn is_awaited(&self, at: &NominationTarget, now: Moment) -> bool {
        self.holds_room(at) || self.expects_any(at, now)
    }

    fn expects_any(&self, at: &NominationTarget, now: Moment) -> bool {
        self.nominations.pods_at(at).any(|uid| self.expected_on(uid, now).is_some())
    }

    /// Every place that some pod is expected at. Of each the first pod answers as a rule.
    pub fn expected_places(&self, now: Moment) -> impl Iterator<Item = &NominationTarget> {
        self.nominations.targets().filter(move |at| self.expects_any(at, now))
    }

    /// The pods that wait and are planned for a place, in the order of their uids.
    pub fn expected_at(&self, at: &NominationTarget) -> impl Iterator<Item = &Arc<PodEntry>> {
        let pods = self.nominations.pods_at(at).filter_map(|uid| self.pods.get(uid));
        pods.filter(|pod| pod.node_name.is_empty())
    }

    /// Every place that some pod is expected at, or room is held at.
    #[must_use]
    pub fn awaited(&self, now: Moment) -> BTreeSet<&NominationTarget> {
        let held = self.room.iter().chain(&self.booked).flat_map(|room| room.keys());
        self.expected_places(now).chain(held).collect()
    }
}
