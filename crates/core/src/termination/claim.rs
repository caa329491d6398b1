//! The end of a NodeClaim: its Nodes go first, then its instance (core spec 4, "NodeClaim deletion").

use dovetail_api::names::conditions::{INSTANCE_TERMINATING, REGISTERED, TRUE};
use dovetail_api::names::{TERMINATION_FINALIZER, taints};
use dovetail_api::v1::{NodeClaim, is_true};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{ClaimCondition, InstanceObservation, deadline, instance, unsaid};

/// Conditions to write once the cloud has accepted the instance's end.
pub(super) const TERMINATING: [ClaimCondition; 1] =
    [ClaimCondition { condition: INSTANCE_TERMINATING, status: TRUE, reason: "" }];

/// The next step of a claim's end.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimStep {
    /// It is not being deleted, or nothing of ours holds it.
    NotOurs,
    /// Write on it the deadline of its node.
    SetDeadline(Timestamp),
    /// Delete these Nodes, by name.
    DeleteNodes(Vec<String>),
    /// Its Nodes are on their way out.
    AwaitNodes,
    /// End its instance, or see how far that is.
    Terminate,
    /// Write these conditions.
    Say(Vec<ClaimCondition>),
    /// Take the finalizer off: nothing is left.
    Release,
}

/// The next step for a claim with the Nodes that carry its provider id; `seen` is the cloud's answer of the time `asked`.
#[must_use]
pub fn next_step(claim: &NodeClaim, nodes: &[&Node], seen: InstanceObservation, asked: Timestamp) -> ClaimStep {
    if claim.metadata.deletion_timestamp.is_none() || !is_held(claim) {
        return ClaimStep::NotOurs;
    }
    if let Some(deadline) = deadline::to_write(claim) {
        return ClaimStep::SetDeadline(deadline);
    }
    if nodes.iter().any(|node| is_drained_first(claim, node)) {
        let staying = nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none());
        let staying: Vec<_> = staying.filter_map(|node| node.metadata.name.clone()).collect();
        return if staying.is_empty() { ClaimStep::AwaitNodes } else { ClaimStep::DeleteNodes(staying) };
    }
    if instance::is_gone(claim, seen, asked) {
        return ClaimStep::Release;
    }
    let unsaid = unsaid(Some(claim), &TERMINATING);
    if seen == InstanceObservation::Ending && !unsaid.is_empty() {
        return ClaimStep::Say(unsaid);
    }
    ClaimStep::Terminate
}

/// True if our finalizer is on it.
fn is_held(claim: &NodeClaim) -> bool {
    claim.metadata.finalizers.iter().flatten().any(|one| one == TERMINATION_FINALIZER)
}

/// True if a claim's instance ends only when this Node of it has been drained.
#[must_use]
pub fn is_drained_first(claim: &NodeClaim, node: &Node) -> bool {
    is_registered(claim) || is_let_in(node)
}

fn is_registered(claim: &NodeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| is_true(&status.conditions, REGISTERED))
}

/// True if the Node takes pods, and is therefore to be drained: it is written before its claim, which may have been deleted
/// in between and then never says so.
fn is_let_in(node: &Node) -> bool {
    !is_unregistered(node) && node.metadata.finalizers.iter().flatten().any(|one| one == TERMINATION_FINALIZER)
}

/// True if the Node carries the guard of one that has not registered.
#[must_use]
pub fn is_unregistered(node: &Node) -> bool {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    all.iter().any(|taint| taint.key == taints::UNREGISTERED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::annotations::LAUNCH_TOKEN;
    use dovetail_api::v1::KubeDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::super::with;
    use super::*;
    use crate::lifecycle::fixtures::{claim, launched_claim, node, ready, second};
    use crate::lifecycle::{LifecycleStep, registration};

    fn deleted(mut claim: NodeClaim) -> NodeClaim {
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        claim.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.into()]);
        claim
    }

    fn registered() -> (NodeClaim, Node) {
        match registration::register(&launched_claim("a"), &[&ready(node("n"))], second(10)) {
            LifecycleStep::Write(writes) => (deleted(writes.claim), writes.node.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nodes_go_first_then_the_instance_then_the_finalizer() {
        let (claim, mut node) = registered();
        assert_eq!(
            next_step(&claim, &[&node], InstanceObservation::Unknown, second(101)),
            ClaimStep::DeleteNodes(vec!["n".into()])
        );
        node.metadata.deletion_timestamp = Some(Time(second(101)));
        assert_eq!(next_step(&claim, &[&node], InstanceObservation::Terminated, second(102)), ClaimStep::AwaitNodes);
        assert_eq!(next_step(&claim, &[], InstanceObservation::Unknown, second(103)), ClaimStep::Terminate);
        assert_eq!(next_step(&claim, &[], InstanceObservation::Alive, second(104)), ClaimStep::Terminate);
        let ClaimStep::Say(said) = next_step(&claim, &[], InstanceObservation::Ending, second(105)) else {
            panic!("nothing is said")
        };
        let claim = with(&claim, &said, second(105));
        assert_eq!(next_step(&claim, &[], InstanceObservation::Ending, second(106)), ClaimStep::Terminate);
        assert_eq!(next_step(&claim, &[], InstanceObservation::Terminated, second(107)), ClaimStep::Release);
    }

    #[test]
    fn unregistered_node_is_left_to_cloud_controller() {
        let claim = deleted(launched_claim("a"));
        assert_eq!(next_step(&claim, &[&node("n")], InstanceObservation::Unknown, second(101)), ClaimStep::Terminate);
        assert!(is_unregistered(&node("n")));
    }

    #[test]
    fn registered_node_is_drained_though_claim_is_not_registered() {
        let (_, node) = registered();
        let claim = deleted(launched_claim("a"));
        assert_eq!(
            next_step(&claim, &[&node], InstanceObservation::Unknown, second(101)),
            ClaimStep::DeleteNodes(vec!["n".into()])
        );
    }

    #[test]
    fn unlaunched_claim_goes_at_once_unless_a_launch_token_exists() {
        let mut claim = deleted(claim("a"));
        assert_eq!(next_step(&claim, &[], InstanceObservation::Unknown, second(101)), ClaimStep::Release);
        claim.metadata.annotations = Some([(LAUNCH_TOKEN.to_owned(), "dt-1".to_owned())].into());
        for (seen, when) in [
            (InstanceObservation::Unknown, 999),
            (InstanceObservation::Missing, 159),
            (InstanceObservation::Alive, 999),
        ] {
            assert_eq!(next_step(&claim, &[], seen, second(when)), ClaimStep::Terminate, "{seen:?}");
        }
        assert_eq!(next_step(&claim, &[], InstanceObservation::Missing, second(160)), ClaimStep::Release);
    }

    #[test]
    fn claim_stays_if_instance_is_missing_only_just_after_launch() {
        let claim = deleted(launched_claim("a"));
        // Launched at 2: the cloud knows of it a minute later at the latest.
        assert_eq!(next_step(&claim, &[], InstanceObservation::Missing, second(61)), ClaimStep::Terminate);
        assert_eq!(next_step(&claim, &[], InstanceObservation::Missing, second(62)), ClaimStep::Release);
    }

    #[test]
    fn its_deadline_is_written_before_anything_else() {
        let (mut claim, node) = registered();
        claim.spec.termination_grace_period = Some(KubeDuration::from_secs(60));
        assert_eq!(
            next_step(&claim, &[&node], InstanceObservation::Unknown, second(101)),
            ClaimStep::SetDeadline(second(160))
        );
    }

    #[test]
    fn what_is_not_deleted_or_not_held_by_us_is_left_alone() {
        assert_eq!(next_step(&launched_claim("a"), &[], InstanceObservation::Unknown, second(1)), ClaimStep::NotOurs);
        let mut foreign = deleted(launched_claim("a"));
        foreign.metadata.finalizers = Some(vec!["somebody/else".into()]);
        assert_eq!(next_step(&foreign, &[], InstanceObservation::Unknown, second(101)), ClaimStep::NotOurs);
    }
}
