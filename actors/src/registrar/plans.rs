//! Pods expected on nodes. When the last pod of a plan is bound, an event says how many each node got. Each pod gets
//! a span in its own trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::NominationTarget;
use kube::ResourceExt;

use super::Registrar;
use crate::context::traces;
use crate::messages::{Planned, PodBound, TraceContext};
use crate::telemetry::log_event::LogEvent;

/// A plan whose pods are not all bound.
pub(super) struct PlanState {
    pub waiting: BTreeSet<String>,
    /// Number of pods that each node got: kube-scheduler may put some on others than the plan's.
    pub bound: BTreeMap<String, usize>,
    pub trace: TraceContext,
}

impl Registrar {
    /// A pod of a plan is bound or gone; the last bound one causes the event.
    pub(super) fn settle(&mut self, uid: &str, pod: Option<&PodBound>) {
        let node = pod.map(|pod| pod.node.as_str());
        let planned = self.plans.iter().find(|(_, plan)| plan.waiting.contains(uid)).map(|(target, _)| target.clone());
        let Some(planned) = planned else {
            let Some(pod) = pod else { return };
            self.count_unplanned(&pod.node);
            return self.tell_bound(pod, None);
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
            *plan.bound.entry(node.to_owned()).or_default() += 1;
        }
        if !plan.waiting.is_empty() {
            return;
        }
        self.finish(&target);
    }

    /// Pods are planned for a place; those of them that were planned for another are no longer waited for there.
    pub(super) fn plan(&mut self, planned: Planned) {
        for plan in self.plans.values_mut() {
            plan.waiting.retain(|uid| !planned.pods.contains(uid));
        }
        let left = |(target, plan): (&NominationTarget, &PlanState)| {
            (plan.waiting.is_empty() && *target != planned.target).then(|| target.clone())
        };
        let left: Vec<NominationTarget> = self.plans.iter().filter_map(left).collect();
        left.iter().for_each(|target| self.finish(target));
        let plan = self.plans.entry(planned.target).or_insert_with(|| PlanState {
            waiting: BTreeSet::new(),
            bound: BTreeMap::new(),
            trace: planned.trace,
        });
        plan.waiting.extend(planned.pods);
    }

    /// A plan is over: events say how many of its pods each node got.
    pub(super) fn finish(&mut self, target: &NominationTarget) {
        let Some(plan) = self.plans.remove(target) else { return };
        for (node, pods) in plan.bound {
            let planned = || if let NominationTarget::Claim(name) = target { name.clone() } else { String::new() };
            let node_claim = self.claim_on(&node).unwrap_or_else(planned);
            self.env.emit_in(LogEvent::Bound { pods, node, node_claim }, plan.trace);
        }
    }

    /// A pod that no plan has: one whose plan an earlier leader made, or that found room before it was planned. It
    /// counts with those that are planned for its node.
    fn count_unplanned(&mut self, node: &str) {
        let by_claim = self.claim_on(node).map(NominationTarget::Claim);
        let targets = by_claim.into_iter().chain([NominationTarget::Node(node.to_owned())]);
        let known = targets.into_iter().find(|target| self.plans.contains_key(target));
        if let Some(plan) = known.and_then(|target| self.plans.get_mut(&target)) {
            *plan.bound.entry(node.to_owned()).or_default() += 1;
        }
    }

    /// Tells the pod's span: in the trace of the claim that it was expected at, or else of the packing. Where it is not
    /// known to be expected, as an earlier leader planned it, it belongs to a claim that was made while it waited.
    fn tell_bound(&self, pod: &PodBound, target: Option<&NominationTarget>) {
        let made_later = |claim: &&Arc<NodeClaim>| {
            claim
                .metadata
                .creation_timestamp
                .as_ref()
                .is_some_and(|made| made.0.as_second() >= pod.waited.since.as_second())
        };
        let claim = match target {
            Some(NominationTarget::Claim(name)) => self.claims.get(name),
            Some(NominationTarget::Node(_)) => None,
            None => self.claim_on(&pod.node).and_then(|name| self.claims.get(&name)).filter(made_later),
        };
        let of_claim = claim.and_then(|claim| Some(traces::of_claim(traces::of_packing(claim)?, &claim.name_any())));
        let plan = || Some(self.plans.get(target?)?.trace);
        let inside = of_claim.or_else(plan).unwrap_or(pod.waited.trace);
        traces::pod_ended(&self.env, &pod.waited, &pod.uid, inside, &pod.node);
    }

    /// The plan for a node, or else the pod's own.
    fn plan_of(&self, node: &str, own: &NominationTarget) -> NominationTarget {
        let by_claim = self.claim_on(node).map(NominationTarget::Claim);
        let mut known = by_claim.into_iter().chain([NominationTarget::Node(node.to_owned())]);
        known.find(|target| self.plans.contains_key(target)).unwrap_or_else(|| own.clone())
    }

    /// kube-scheduler has put a pod of one plan in the place of another plan's: their pods change plans.
    fn swap(&mut self, uid: &str, from: &NominationTarget, to: &NominationTarget) {
        let Some(other) = self.plans.get(to).and_then(|plan| plan.waiting.first().cloned()) else { return };
        for (target, leaves, comes) in [(from, uid, other.as_str()), (to, other.as_str(), uid)] {
            if let Some(plan) = self.plans.get_mut(target) {
                plan.waiting.remove(leaves);
                plan.waiting.insert(comes.to_owned());
            }
        }
    }
}
