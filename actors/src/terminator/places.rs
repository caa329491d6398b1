//! Draining: pods whose places are ready are evicted, the others waited for as `dovetail_core::termination::places` says; who
//! holds the drain up is said, with the rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::lifecycle::initialization::is_ready;
use dovetail_core::termination::reports::DrainReport;
use dovetail_core::termination::{Drain, HeldPod, PlaceWait, SuccessorPlace, deadline, held};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::evictor::EvictedPod;
use super::look::NAMES_LISTED;
use super::rollouts::name_rollouts;
use super::steps::StepEnv;
use crate::messages::Record;
use crate::recorder::object;
use crate::settings::Interruptions;
use crate::telemetry::log_event::{LogEvent, Names};

/// A Node that is drained, and its claim.
pub(super) struct Drained<'a> {
    pub step_env: &'a StepEnv,
    pub node: &'a Arc<Node>,
    pub claim: Option<&'a NodeClaim>,
}

impl Drained<'_> {
    fn record_on_both(&self, event: impl Fn(k8s_openapi::api::core::v1::ObjectReference) -> Record) {
        let claim = self.claim.map(object::claim);
        [Some(object::node(self.node)), claim].into_iter().flatten().for_each(|one| self.step_env.record(event(one)));
    }

    fn claim_name(&self) -> String {
        self.claim.map(ResourceExt::name_any).unwrap_or_default()
    }
}

impl Terminator {
    pub(super) fn drain_node(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        claim: Option<&NodeClaim>,
        mut drain: Drain,
        snapshot: &Snapshot,
        ctx: &mut Context<Self>,
    ) {
        let (ends, now) = (claim.and_then(deadline::of_machine), self.env.moment());
        let mut waited = PlaceWait::default();
        if !snapshot.deleting.nodes.contains(&node.name_any()) {
            // The state does not count its pods among those that need a place before it knows that it goes.
            drain.evict.clear();
        } else if is_ready(node) && !self.goes_at_once(claim) {
            waited = self.patience.wait(&mut drain, snapshot, ends, now);
        }
        let drained = Drained { step_env, node, claim };
        // After the wait for places, which says who may leave: of these, the pods that go by a rollout are not evicted.
        let rules = self.by_rollout(&drained, &mut drain, snapshot, now, ctx);
        let mut held = held(&drain, &waited.awaiting, snapshot, ends, now.wall);
        name_rollouts(&mut held, &rules);
        self.report_draining(&drained, drain.waiting.len(), &held);
        self.report_waited(&drained, &waited);
        self.report_held(&drained, &held);
        // On a node that ends, a pod that takes two minutes to stop has to begin before one that takes two seconds.
        if ends.is_some() {
            drain.slow_first();
        }
        for pod in drain.evict {
            let budget = snapshot.budgets_of(&pod.pod).next().map(|budget| budget.name());
            self.send_away(step_env, node, EvictedPod { pod, budget, grace: None }, ctx);
        }
        for (pod, grace) in drain.delete {
            self.send_away(step_env, node, EvictedPod { pod, budget: None, grace: Some(grace) }, ctx);
        }
    }

    /// True if no places are awaited: its instance is ending already, or interrupted nodes are drained Karpenter's way.
    fn goes_at_once(&self, claim: Option<&NodeClaim>) -> bool {
        let Some(claim) = claim else { return false };
        let decided = self.own_decision(&claim.name_any()).map(|(reason, _)| reason);
        let evicts = self.env.settings.interruption == Interruptions::Evict;
        (evicts && decided == Some(RemovalReason::Interrupted))
            || InterruptionNotice::on(claim).is_some_and(|notice| notice.kind.is_over())
    }

    fn report_draining(&mut self, drained: &Drained<'_>, pods: usize, held: &[HeldPod]) {
        let (node, now) = (drained.node.name_any(), self.env.now());
        let reason = self.reason_of_node(&node);
        let Some(progress) = self.drain_progress(&node) else { return };
        match progress.reports.note_drain(now) {
            DrainReport::Begun => {
                drained.step_env.emit(LogEvent::Draining { node, node_claim: drained.claim_name(), pods, reason });
            }
            DrainReport::Slow => {
                let (first, others): (Vec<_>, Vec<_>) = held.iter().partition(|one| one.rule.holds());
                let remedy = first.first().and_then(|one| one.rule.remedy());
                let remedy = remedy.map(|remedy| format!("; to end that, {remedy}")).unwrap_or_default();
                let why = Names::first(NAMES_LISTED, first.into_iter().chain(others).map(ToString::to_string));
                let message = format!("Failed to drain node, {pods} pods are waiting to be evicted: {why}{remedy}");
                drained.step_env.record(Record::warning(object::node(drained.node), "FailedDraining", message));
            }
            DrainReport::None => {}
        }
    }

    fn report_waited(&mut self, drained: &Drained<'_>, waited: &PlaceWait) {
        let node = drained.node.name_any();
        let full = |pod: &dovetail_core::Pod| format!("{}/{}", pod.namespace, pod.name);
        if !waited.given_up.is_empty() {
            let names = Names::first(NAMES_LISTED, waited.given_up.iter().map(|pod| full(&pod.pod)));
            let message = format!("The places of these pods did not come in time, so they are evicted: {names}");
            drained.record_on_both(|one| Record::warning(one, "ReplacementGivenUp", &*message));
            let pods = waited.given_up.len();
            drained.step_env.emit(LogEvent::PlacesGivenUp { node: node.clone(), pods, names });
        }
        // Until packing has answered, which takes a moment, nobody knows until when.
        let known = waited.awaiting.iter().any(|one| one.place != SuccessorPlace::None);
        let Some(until) = waited.awaiting.iter().map(|one| one.until).max().filter(|_| known) else { return };
        if !self.drain_progress(&node).is_some_and(|progress| progress.reports.awaits_places()) {
            return;
        }
        let names = Names::first(NAMES_LISTED, waited.awaiting.iter().map(|one| full(&one.pod.pod)));
        let (pods, until) = (waited.awaiting.len(), until.to_string());
        let message = format!("{pods} pod(s) wait for their places until {until} at the latest: {names}");
        drained.record_on_both(|one| Record::normal(one, "AwaitingReplacement", &*message));
        let node_claim = drained.claim_name();
        drained.step_env.emit(LogEvent::AwaitingPlaces { node, node_claim, pods, names, until });
    }

    fn report_held(&mut self, drained: &Drained<'_>, held: &[HeldPod]) {
        let lines: BTreeSet<String> = held.iter().filter(|one| one.rule.holds()).map(ToString::to_string).collect();
        if lines.is_empty() {
            return;
        }
        let (node, now) = (drained.node.name_any(), self.env.now());
        let remedies: BTreeSet<&str> = held.iter().filter_map(|one| one.rule.remedy()).collect();
        let Some(progress) = self.drain_progress(&node) else { return };
        let due = progress.reports.note_obstacles(&lines, !remedies.is_empty(), now);
        let (pods, why, node_claim) = (lines.len(), Names::first(NAMES_LISTED, lines), drained.claim_name());
        if due.blocked {
            let (node, node_claim, why) = (node.clone(), node_claim.clone(), why.clone());
            let remedy = remedies.into_iter().collect::<Vec<_>>().join("; ");
            drained.step_env.emit(LogEvent::DrainBlocked { node, node_claim, pods, why, remedy });
        }
        if due.held {
            drained.step_env.emit(LogEvent::DrainHeld { node, node_claim, pods, why });
        }
    }
}
