//! Reason for a node's end, for its first log line: the decision of this leader or an earlier one, the cloud's announcement, or
//! the deletion by somebody else.

use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::termination::node::NodeStep;
use dovetail_core::termination::reports::reason::{asked_deletion, written_reason};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::removal::DrainProgress;
use super::steps::StepEnv;
use crate::context::book::Key;
use crate::messages::Record;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Reason of a claim that goes for no reason of ours, while no Node of it has said more.
const ASKED: &str = "its deletion was asked for";

impl Terminator {
    /// A Node that goes is looked at: at the first time, why is found out, and said where somebody else deletes it.
    pub(super) fn note_begin(
        &mut self,
        step_env: &StepEnv,
        node: &Node,
        claim: Option<&NodeClaim>,
        step: &NodeStep,
        snapshot: &Snapshot,
    ) {
        let name = node.name_any();
        let decided = claim.and_then(|claim| self.decided_reason(claim));
        let Some(removal) = self.known.get_mut(&Key::node(&name)) else { return };
        if matches!(step, NodeStep::NotOurs) {
            // A backup shows it as it was before: should it go later, that is another end.
            removal.drain = None;
            return;
        }
        if removal.drain.is_some() {
            return;
        }
        let by_user = decided.is_none();
        let reason = decided.unwrap_or_else(|| asked_deletion(node, claim, snapshot));
        removal.drain = Some(DrainProgress { reason: reason.clone(), ..DrainProgress::default() });
        // Later steps were begun by a leader that has said so.
        if !by_user || !matches!(step, NodeStep::DeleteClaim | NodeStep::Cordon(_)) {
            return;
        }
        let message = format!("Terminating: {reason}");
        for one in [Some(object::node(node)), claim.map(object::claim)].into_iter().flatten() {
            step_env.record(Record::normal(one, "TerminatingOnDeletion", &*message));
        }
        let node_claim = claim.map(ResourceExt::name_any).unwrap_or_default();
        step_env.emit(LogEvent::DeletionAsked { node: name, node_claim, reason });
    }

    pub(super) fn reason_of_node(&self, node: &str) -> String {
        let known = self.known.get(&Key::node(node)).and_then(|removal| removal.drain.as_ref());
        let known = known.map(|progress| progress.reason.clone());
        known.filter(|reason| !reason.is_empty()).unwrap_or_else(|| ASKED.to_owned())
    }

    pub(super) fn reason_of(&self, claim: &NodeClaim) -> String {
        self.decided_reason(claim).unwrap_or_else(|| ASKED.to_owned())
    }

    /// Reason why a claim goes, if Dovetail or the cloud has decided it.
    fn decided_reason(&self, claim: &NodeClaim) -> Option<String> {
        // From the nearest to the farthest: what this term decided, what an earlier leader wrote, what the cloud announced.
        let here = self.own_decision(&claim.name_any()).map(|(reason, _)| reason.label().to_owned());
        let before = || written_reason(claim);
        here.or_else(before).or_else(|| InterruptionNotice::on(claim).map(|notice| notice.kind.label().to_owned()))
    }
}
