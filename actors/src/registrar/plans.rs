//! Which pods are awaited where: the last one of a plan that is bound is told of, and each in the trace that it belongs to.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::Target;
use kube::ResourceExt;

use super::Registrar;
use crate::messages::{PodBound, TraceContext};
use crate::story::Story;
use crate::traces;

/// A plan whose pods are not all bound.
pub(super) struct PlanState {
    pub waiting: BTreeSet<String>,
    pub bound: usize,
    pub node: String,
    pub trace: TraceContext,
}

impl Registrar {
    /// A pod of a plan is bound or gone; the last bound one is told of.
    pub(super) fn settle(&mut self, uid: &str, pod: Option<&PodBound>) {
        let node = pod.map(|pod| pod.node.as_str());
        let planned = self.plans.iter().find(|(_, plan)| plan.waiting.contains(uid)).map(|(target, _)| target.clone());
        let Some(planned) = planned else {
            return pod.into_iter().for_each(|pod| self.tell_bound(pod, None));
        };
        let target = node.map_or(planned.clone(), |node| self.plan_of(node, &planned));
        if target != planned {
            self.swap(uid, &planned, &target);
        }
        if let Some(pod) = pod {
            self.tell_bound(pod, Some(&target));
        }
        let Some(plan) = self.plans.get_mut(&target) else { return };
        plan.waiting.remove(uid);
        if let Some(node) = node {
            plan.bound += 1;
            node.clone_into(&mut plan.node);
        }
        if !plan.waiting.is_empty() {
            return;
        }
        let Some(plan) = self.plans.remove(&target).filter(|plan| plan.bound > 0) else { return };
        let node_claim = match &target {
            Target::Claim(name) => name.clone(),
            Target::Node(name) => self.claim_on(name).unwrap_or_default(),
        };
        self.desk.tell_in(Story::Bound { pods: plan.bound, node: plan.node, node_claim }, plan.trace);
    }

    /// Tells the pod's span: in the trace of the claim that it was expected at, or else of the packing. Where it is not
    /// known to be expected, as an earlier leader planned it, it belongs to a claim that was made while it waited.
    fn tell_bound(&self, pod: &PodBound, target: Option<&Target>) {
        let made_later = |claim: &&Arc<NodeClaim>| {
            claim
                .metadata
                .creation_timestamp
                .as_ref()
                .is_some_and(|made| made.0.as_second() >= pod.waited.since.as_second())
        };
        let claim = match target {
            Some(Target::Claim(name)) => self.claims.get(name),
            Some(Target::Node(_)) => None,
            None => self.claim_on(&pod.node).and_then(|name| self.claims.get(&name)).filter(made_later),
        };
        let of_claim = claim.and_then(|claim| Some(traces::of_claim(traces::of_packing(claim)?, &claim.name_any())));
        let plan = || Some(self.plans.get(target?)?.trace);
        let inside = of_claim.or_else(plan).unwrap_or(pod.waited.trace);
        traces::pod_ended(&self.desk, &pod.waited, &pod.uid, inside, &pod.node);
    }

    /// The plan for a node, or else the pod's own.
    fn plan_of(&self, node: &str, own: &Target) -> Target {
        let by_claim = self.claim_on(node).map(Target::Claim);
        let mut known = by_claim.into_iter().chain([Target::Node(node.to_owned())]);
        known.find(|target| self.plans.contains_key(target)).unwrap_or_else(|| own.clone())
    }

    /// kube-scheduler has put a pod of one plan in the place of another plan's: their pods change plans.
    fn swap(&mut self, uid: &str, from: &Target, to: &Target) {
        let Some(other) = self.plans.get(to).and_then(|plan| plan.waiting.first().cloned()) else { return };
        for (target, leaves, comes) in [(from, uid, other.as_str()), (to, other.as_str(), uid)] {
            if let Some(plan) = self.plans.get_mut(target) {
                plan.waiting.remove(leaves);
                plan.waiting.insert(comes.to_owned());
            }
        }
    }
}
