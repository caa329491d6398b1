//! Pods are sent away: evicted or deleted, one attempt each, when `dovetail_core::termination::evictions` lets it begin. Each
//! attempt is reported.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_core::cluster_state::PodEntry;
use dovetail_core::termination::evictions::{AttemptEnd, Candidate, Ended};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::steps::StepEnv;
use super::{Key, SETTLING_TIME, Terminator};
use crate::context::refusals::is_said;
use crate::context::traces;
use crate::kube::evict::{self, EvictionOutcome};
use crate::kube::woken::when_woken;
use crate::messages::Record;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use crate::telemetry::span::names;

/// Draws of the pauses of one pod's attempts.
pub(super) type Draws = Box<dyn FnMut() -> f64>;

/// A pod that leaves its node now.
pub(super) struct EvictedPod {
    pub pod: Arc<PodEntry>,
    /// The PodDisruptionBudget that an eviction asks; none for a deletion.
    pub budget: Option<String>,
    /// Seconds that the pod has to end, where it is deleted because its node's time is up; none for an eviction.
    pub grace: Option<u32>,
}

/// An eviction or deletion that was sent.
struct EvictionAttempt<'a> {
    pod: &'a PodEntry,
    /// Time at which it was sent.
    begun: Timestamp,
    /// True for a deletion, which asks no budget.
    forced: bool,
}

impl Terminator {
    /// Evicts or deletes a pod, unless that is under way.
    pub(super) fn send_away(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        evicted: EvictedPod,
        ctx: &mut Context<Self>,
    ) {
        let EvictedPod { pod, budget, grace } = evicted;
        let (uid, now) = (pod.pod.uid.clone(), self.env.now());
        let env = self.env.clone();
        let (name, budget) = (node.name_any(), budget.as_deref());
        let candidate = Candidate { uid: &uid, node: &name, forced: grace.is_some(), budget };
        let draws = || -> Draws {
            let mut rng = env.rng(&uid);
            Box::new(move || rng.f64())
        };
        if !self.evictions.begin_attempt(&candidate, now, draws) {
            return;
        }
        let begun = self.env.wall();
        let (calls, target) = (self.links.calls.clone(), pod.clone());
        // A deletion that asks no budget has to rest on current facts.
        let (claim, going) = (self.own_claims(node).first().cloned(), step_env.clone());
        let attempt = async move {
            let Some(seconds) = grace else { return evict::evict(&calls, &target.pod).await };
            let stands = match &claim {
                Some(claim) => going.still_goes(claim).await,
                None => Ok(()),
            };
            match stands {
                Ok(()) => evict::delete(&calls, &target.pod, seconds).await,
                Err(error) => EvictionOutcome::Failed(error.to_string()),
            }
        };
        let (step_env, node) = (step_env.clone(), node.clone());
        ctx.spawn(when_woken(attempt).into_actor(self).map(move |outcome, terminator, ctx| {
            let attempt = EvictionAttempt { pod: &pod, begun, forced: grace.is_some() };
            terminator.end_sending(&step_env, &node, &attempt, &outcome, ctx);
        }));
    }

    fn end_sending(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        ctx: &mut Context<Self>,
    ) {
        let EvictionAttempt { pod, forced, .. } = *attempt;
        let (name, full) = (node.name_any(), format!("{}/{}", pod.pod.namespace, pod.pod.name));
        let end = match outcome {
            EvictionOutcome::Going | EvictionOutcome::Gone => AttemptEnd::Accepted,
            EvictionOutcome::Refused(_) => AttemptEnd::OverBudget,
            EvictionOutcome::Failed(_) => AttemptEnd::Failed,
            EvictionOutcome::Denied(_) => AttemptEnd::Denied,
        };
        let Ended { pause, first_refusal, denials, next } =
            self.evictions.end_attempt(&pod.pod.uid, end, self.env.now());
        next.into_iter().for_each(|node| self.mark_if_going(Key::Node(node), ctx));
        self.report_attempt(step_env, node, attempt, outcome, first_refusal);
        match outcome {
            EvictionOutcome::Going => {
                self.add_to_count(if forced { "deleted" } else { "evicted" });
                if let Some(progress) = self.drain_progress(&name) {
                    if forced { &mut progress.deleted } else { &mut progress.evicted }.push(full);
                }
                let (reason, message) = match forced {
                    true => (
                        "Disrupted",
                        format!("Deleted the pod to accommodate the terminationGracePeriod of node {name}"),
                    ),
                    false => ("Evicted", format!("Evicted pod: node {name} is being terminated")),
                };
                step_env.record(Record::normal(object::pod(&pod.pod), reason, message));
            }
            EvictionOutcome::Refused(error) => {
                let message = format!("evicting pod {full}: {error}");
                step_env.record(Record::warning(object::node(node), "FailedDraining", message));
                // A budget may refuse a pod for hours: the log has the first, the event says that it goes on.
                if first_refusal {
                    let (pod, error) = (full, error.clone());
                    step_env.emit(LogEvent::EvictionRefused { pod, node: name.clone(), error });
                }
            }
            EvictionOutcome::Denied(error) if is_said(denials) => {
                let what = format!("{} pod {full} of node {name}", if forced { "deleting" } else { "evicting" });
                let (error, seconds) = (error.clone(), pause.as_secs_f64());
                step_env.emit(LogEvent::StillRefused { what, error, times: denials, seconds });
            }
            EvictionOutcome::Gone | EvictionOutcome::Failed(_) | EvictionOutcome::Denied(_) => {}
        }
        let (key, again) = (Key::Node(name), if end == AttemptEnd::Accepted { SETTLING_TIME } else { pause });
        ctx.run_later(again, move |terminator, ctx| terminator.mark_if_going(key, ctx));
    }

    /// Tells an attempt as a span: one that was accepted, or the first that was refused.
    fn report_attempt(
        &self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        attempt: &EvictionAttempt<'_>,
        outcome: &EvictionOutcome,
        first_refusal: bool,
    ) {
        let (pod, forced) = (&attempt.pod.pod, attempt.forced);
        let code = match outcome {
            EvictionOutcome::Going => 201,
            EvictionOutcome::Gone => 404,
            EvictionOutcome::Refused(_) => 429,
            EvictionOutcome::Denied(_) => 403,
            EvictionOutcome::Failed(_) => 500,
        };
        if !forced {
            self.env.measure(&Measure::EvictionAnswered { code });
        }
        let claim = self.own_claims(node).first().cloned();
        if matches!(outcome, EvictionOutcome::Going) {
            let decided = claim.as_ref().and_then(|claim| self.own_decision(&claim.name_any()));
            // Nobody of us has decided it: its deletion was asked for.
            let reason = decided.map_or("deletion_asked", |(reason, _)| reason.label());
            self.env.measure(&Measure::PodDrained { reason: if forced { "Forceful Termination" } else { reason } });
        }
        let (Some(cause), Some(claim)) = (step_env.trace, claim) else { return };
        let inside = traces::of_removal(cause, &claim.name_any());
        let span =
            |key: &str| self.env.span(inside, if forced { "delete pod" } else { "evict" }, key).since(attempt.begun);
        let span = match outcome {
            EvictionOutcome::Going => span(&pod.uid),
            EvictionOutcome::Refused(why) if first_refusal => {
                span(&format!("{} refused", pod.uid)).failed("429", why.as_str())
            }
            EvictionOutcome::Refused(_)
            | EvictionOutcome::Gone
            | EvictionOutcome::Failed(_)
            | EvictionOutcome::Denied(_) => return,
        };
        let span = span.remote().with(names::POD, &*pod.name).with(names::NAMESPACE, &*pod.namespace);
        span.with(names::NODE, node.name_any()).with(names::CLAIM, claim.name_any()).end();
    }
}
