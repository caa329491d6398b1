//! Reason for a node's end, for its first log line: the decision of this leader or an earlier one, the cloud's announcement, or
//! the deletion by somebody else.

use dovetail_api::names::annotations::END_REASON;
use dovetail_api::v1::NodeClaim;
use dovetail_core::clock::CLOCKS_APART;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::termination::node::NodeStep;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::places::DrainProgress;
use super::steps::StepEnv;
use crate::launcher::facts::pool_of;
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
        if matches!(step, NodeStep::NotOurs) {
            // A backup shows it as it was before: should it go later, that is another end.
            self.progress.remove(&name);
            return;
        }
        if self.progress.contains_key(&name) {
            return;
        }
        let decided = claim.and_then(|claim| self.decided(claim));
        let by_user = decided.is_none();
        let reason = decided.unwrap_or_else(|| who_asked(node, claim, snapshot));
        self.progress.insert(name.clone(), DrainProgress::begun(reason.clone()));
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
        let known = self.progress.get(node).map(|progress| progress.reason.clone());
        known.filter(|reason| !reason.is_empty()).unwrap_or_else(|| ASKED.to_owned())
    }

    pub(super) fn reason_of(&self, claim: &NodeClaim) -> String {
        self.decided(claim).unwrap_or_else(|| ASKED.to_owned())
    }

    /// Reason why a claim goes, if Dovetail or the cloud has decided it.
    fn decided(&self, claim: &NodeClaim) -> Option<String> {
        // From the nearest to the farthest: what this term decided, what an earlier leader wrote, what the cloud announced.
        let here = self.reasons.get(&claim.name_any()).map(|(reason, _)| reason.label().to_owned());
        let before = || written(claim);
        here.or_else(before).or_else(|| InterruptionNotice::on(claim).map(|notice| notice.kind.label().to_owned()))
    }
}

/// Text of a claim's annotation for the reason of its deletion.
pub(super) fn end_reason(reason: &str, now: Timestamp) -> String {
    format!("{reason} {now}")
}

/// Reason for which an earlier leader has deleted a claim. That leader may have written it without deleting, and somebody else
/// may have deleted later: then it counts for nothing.
fn written(claim: &NodeClaim) -> Option<String> {
    let (reason, when) = claim.annotations().get(END_REASON)?.split_once(' ')?;
    let (when, deleted) = (when.parse::<Timestamp>().ok()?, claim.metadata.deletion_timestamp.as_ref()?.0);
    // Two clocks are compared: the leader's, which wrote the reason, and the API server's, which dates the deletion.
    let apart = SignedDuration::try_from(CLOCKS_APART).ok()?;
    (deleted.duration_since(when).abs() <= apart).then(|| reason.to_owned())
}

/// Sentence on the deletion that takes a Node along without a decision of ours.
fn who_asked(node: &Node, claim: Option<&NodeClaim>, snapshot: &Snapshot) -> String {
    let Some(claim) = claim else { return format!("the deletion of node {} was asked for", node.name_any()) };
    let pool = pool_of(claim);
    let there = snapshot.pools.get(&pool).is_some_and(|pool| pool.metadata.deletion_timestamp.is_none());
    if !pool.is_empty() && !there {
        return format!("its nodepool {pool} is deleted");
    }
    let since = |meta: &kube::api::ObjectMeta| meta.deletion_timestamp.as_ref().map(|time| time.0);
    // Deleting either deletes the other a moment later: the earlier one is what somebody asked for.
    match (since(&node.metadata), since(&claim.metadata)) {
        (Some(_), None) => format!("the deletion of node {} was asked for", node.name_any()),
        (Some(of_node), Some(of_claim)) if of_node < of_claim => {
            format!("the deletion of node {} was asked for", node.name_any())
        }
        _ => format!("the deletion of nodeclaim {} was asked for", claim.name_any()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn claim(reason: &str, deleted: &str) -> NodeClaim {
        serde_json::from_value(serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "annotations": {END_REASON: reason}, "deletionTimestamp": deleted},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}}))
        .unwrap()
    }

    #[test]
    fn written_end_reason_holds_for_next_deletion_and_no_later_one() {
        let said = end_reason("expired", "2026-03-02T10:17:00.25Z".parse().unwrap());
        assert_eq!(written(&claim(&said, "2026-03-02T10:17:01Z")).as_deref(), Some("expired"));
        assert_eq!(written(&claim(&said, "2026-03-02T10:16:30Z")).as_deref(), Some("expired"), "clocks are apart");
        assert_eq!(written(&claim(&said, "2026-03-02T10:27:01Z")), None);
        assert_eq!(written(&claim("expired", "2026-03-02T10:17:01Z")), None);
    }
}
