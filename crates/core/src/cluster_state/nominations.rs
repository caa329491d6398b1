//! Which node a pending pod is expected on. kube-scheduler binds; until it has, the pod is not packed again while its
//! node is on its way, nor for a while after. A pod that has to leave its node is expected elsewhere under its own uid
//! until it has gone: the room is kept for its successor, which then waits by itself and finds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;

use super::{ClaimEntry, ClusterState, Moment, Snapshot};
use crate::lifecycle::{self, Stage};
use crate::pod::Pod;
use crate::resources::Resources;

/// Where a pod is expected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// On the node of a claim that is on its way.
    Claim(String),
    /// On a node that is there.
    Node(String),
}

/// An expectation, and until when it is held against packing the pod again once its node is ready. Monotonic time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// Where.
    pub target: Target,
    /// Until when; counted anew from the moment the node becomes ready.
    pub until: Duration,
}

impl ClusterState {
    /// Claims are planned: from now on they are capacity on its way, and pods are expected on them.
    pub fn plan_claim(&mut self, claim: NodeClaim, expected_capacity: Resources) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let entry = ClaimEntry::new(Arc::new(claim), expected_capacity);
        Arc::make_mut(&mut self.now.claims).insert(name, Arc::new(entry));
    }

    /// Pods are expected somewhere, at least until then.
    pub fn nominate<'a>(&mut self, pods: impl IntoIterator<Item = &'a str>, target: &Target, until: Duration) {
        let nominations = Arc::make_mut(&mut self.now.nominations);
        for uid in pods {
            nominations.insert(uid.to_owned(), Nomination { target: target.clone(), until });
        }
    }

    /// A claim's node has become ready for pods: kube-scheduler has until then to bind those expected.
    pub fn expect_until(&mut self, claim: &str, until: Duration) {
        let named = |nomination: &Nomination| matches!(&nomination.target, Target::Claim(name) if name == claim);
        if !self.now.nominations.values().any(named) {
            return;
        }
        for nomination in Arc::make_mut(&mut self.now.nominations).values_mut().filter(|nomination| named(nomination)) {
            nomination.until = until;
        }
    }

    /// A pod has been bound. kube-scheduler does not know our plans: when it took the place of a pod like itself, that
    /// one is now expected where this one was.
    pub(super) fn bound(&mut self, uid: &str, pod: &Pod, node: &str) {
        let Some(own) = Arc::make_mut(&mut self.now.nominations).remove(uid) else { return };
        let here = |target: &Target| match target {
            Target::Node(name) => name == node,
            Target::Claim(name) => {
                let status = self.now.claims.get(name).and_then(|entry| entry.claim.status.as_ref());
                status.is_some_and(|status| status.node_name == node)
            }
        };
        if here(&own.target) {
            return;
        }
        let targets: BTreeSet<&Target> = self.now.nominations.values().map(|one| &one.target).collect();
        let Some(target) = targets.into_iter().find(|target| here(target)) else { return };
        let displaced = self.now.nominations.iter().find(|(other, one)| {
            one.target == *target && self.now.pods.get(*other).is_some_and(|other| alike(&other.pod, pod))
        });
        if let Some(displaced) = displaced.map(|(uid, _)| uid.clone()) {
            Arc::make_mut(&mut self.now.nominations).insert(displaced, own);
        }
    }

    /// The leader's plans are void (its term is over): only what the API server knows remains.
    pub fn forget_plans(&mut self) {
        self.now.nominations = Arc::default();
        let planned: Vec<_> =
            self.now.claims.iter().filter(|(_, entry)| entry.is_planned()).map(|(name, _)| name.clone()).collect();
        for name in planned {
            Arc::make_mut(&mut self.now.claims).remove(&name);
        }
        self.marked.clear();
        self.look_who_leaves();
    }

    /// Pods expected at such a target are free again.
    pub(super) fn forget_target(&mut self, gone: impl Fn(&Target) -> bool) {
        if self.now.nominations.values().any(|nomination| gone(&nomination.target)) {
            Arc::make_mut(&mut self.now.nominations).retain(|_, nomination| !gone(&nomination.target));
        }
    }
}

/// Whether one of two pods can be where the other was planned.
fn alike(a: &Pod, b: &Pod) -> bool {
    a.requests == b.requests
        && a.node_selector == b.node_selector
        && a.labels == b.labels
        && a.namespace == b.namespace
        && a.tolerations == b.tolerations
        && a.affinity == b.affinity
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.host_ports == b.host_ports
}

impl Snapshot {
    /// Where a pod is expected, while that counts: a claim on its way always does, a ready node for its time, and for a
    /// pod that has yet to leave its node both do. Nobody is expected on what is leaving itself.
    #[must_use]
    pub fn expected_on(&self, uid: &str, now: Moment) -> Option<&Target> {
        let nomination = self.nominations.get(uid)?;
        let moves = match self.pods.get(uid).filter(|entry| !entry.node_name.is_empty()) {
            Some(bound) if !self.must_move(bound, now.wall) => return None,
            bound => bound.is_some(),
        };
        let (stays, ready) = match &nomination.target {
            Target::Claim(name) => {
                let stage = lifecycle::stage(&self.claims.get(name)?.claim);
                (!self.leaving.claims.contains(name), stage == Some(Stage::Initialized))
            }
            Target::Node(name) => (self.nodes.contains_key(name) && !self.leaving.nodes.contains(name), true),
        };
        (stays && (moves || !ready || now.monotonic < nomination.until)).then_some(&nomination.target)
    }

    /// Every place that some pod is expected at.
    #[must_use]
    pub fn awaited(&self, now: Moment) -> BTreeSet<&Target> {
        self.nominations.keys().filter_map(|uid| self.expected_on(uid, now)).collect()
    }
}
