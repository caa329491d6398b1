//! Pods on their way to nodes: their places are kept until kube-scheduler binds them, and it is told when the last pod of a plan
//! is bound.
//!
//! ```text
//! Planned ─► plan (`dovetail_core::binding`): waits for its pods ─────────► PodBound, PodGone: settled ─► Bound is told
//! a claim about to be ready ─► kept_places: its pods are nominated ─► until the node is ready, or another place is planned
//! ```

mod kept_places;

use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::binding::{BoundPods, Plans};
use dovetail_core::cluster_state::NominationTarget;
use kube::ResourceExt;

use super::Registrar;
use crate::context::traces;
use crate::messages::{Planned, PodBound, PodGone, TraceContext};
use crate::telemetry::log_event::LogEvent;
use kept_places::KeptPlaces;
pub(super) use kept_places::{COMES_LAST, NominationWrite, nominate_pods};

/// State of the pods that nodes are for.
#[derive(Default)]
pub(super) struct Binder {
    /// Pods that each target waits for.
    plans: Plans<TraceContext>,
    /// Pods that are nominated to their nodes.
    kept: KeptPlaces,
}

impl Binder {
    /// Number of plans whose pods are not all bound.
    pub fn plans(&self) -> usize {
        self.plans.len()
    }
}

impl Handler<Planned> for Registrar {
    type Result = ();

    fn handle(&mut self, planned: Planned, _: &mut Self::Context) {
        for over in self.binder.plans.plan(planned.target, &planned.pods, planned.trace) {
            self.emit_bound(over);
        }
    }
}

impl Handler<PodBound> for Registrar {
    type Result = ();

    fn handle(&mut self, pod: PodBound, _: &mut Self::Context) {
        let claim = self.claim_on(&pod.node);
        let settled = self.binder.plans.settle(&pod.uid, Some(&pod.node), claim.as_deref());
        self.tell_bound(&pod, claim.as_deref(), settled.plan.as_ref());
        settled.over.into_iter().for_each(|over| self.emit_bound(over));
    }
}

impl Handler<PodGone> for Registrar {
    type Result = ();

    fn handle(&mut self, pod: PodGone, _: &mut Self::Context) {
        let settled = self.binder.plans.settle(&pod.uid, None, None);
        settled.over.into_iter().for_each(|over| self.emit_bound(over));
    }
}

impl Registrar {
    /// No more pods are bound by the plan for a claim or Node that is gone.
    pub(super) fn finish_plan(&mut self, target: &NominationTarget) {
        let over = self.binder.plans.finish(target);
        over.into_iter().for_each(|over| self.emit_bound(over));
    }

    /// Emits the number of pods that each node got by a plan that is over.
    fn emit_bound(&self, over: BoundPods<TraceContext>) {
        for (node, pods) in over.bound {
            let planned =
                || if let NominationTarget::Claim(name) = &over.target { name.clone() } else { String::new() };
            let node_claim = self.claim_on(&node).unwrap_or_else(planned);
            self.env.emit_in(LogEvent::Bound { pods, node, node_claim }, over.carried);
        }
    }

    /// Tells the pod's span: in the trace of the claim that it was expected at, or else of the packing. Where it is not
    /// known to be expected, as an earlier leader planned it, it belongs to a claim that was made while it waited.
    fn tell_bound(&self, pod: &PodBound, on_node: Option<&str>, plan: Option<&(NominationTarget, TraceContext)>) {
        let made_later = |claim: &&Arc<NodeClaim>| {
            claim
                .metadata
                .creation_timestamp
                .as_ref()
                .is_some_and(|made| made.0.as_second() >= pod.waited.since.as_second())
        };
        let claim = match plan {
            Some((NominationTarget::Claim(name), _)) => self.known.claim(name),
            Some((NominationTarget::Node(_), _)) => None,
            None => on_node.and_then(|name| self.known.claim(name)).filter(made_later),
        };
        let of_claim = claim.and_then(|claim| Some(traces::of_claim(traces::of_packing(claim)?, &claim.name_any())));
        let inside = of_claim.or(plan.map(|(_, trace)| *trace)).unwrap_or(pod.waited.trace);
        traces::pod_ended(&self.env, &pod.waited, &pod.uid, inside, &pod.node);
    }
}
