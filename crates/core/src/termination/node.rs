//! The end of a Node: its claim goes with it; cordon, drain, volumes, instance (core spec 4, "Node deletion").

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::conditions::{DRAINED, FALSE, TRUE, UNKNOWN, VOLUMES_DETACHED};
use dovetail_api::names::{TERMINATION_FINALIZER, labels, taints};
use dovetail_api::v1::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::claim::TERMINATING;
use super::drain::{Drain, Latecomers, drain};
use super::{ClaimCondition, InstanceObservation, deadline, instance, unsaid};
use crate::cluster_state::PodEntry;
use crate::lifecycle::initialization::is_ready;

/// Minimum time of a drain: kube-scheduler may bind a pod to a node whose taint it has not seen yet.
const SHORTEST_DRAIN: SignedDuration = SignedDuration::from_secs(5);

pub(super) const DRAINING: [ClaimCondition; 1] =
    [ClaimCondition { condition: DRAINED, status: UNKNOWN, reason: "Draining" }];
pub(super) const IS_DRAINED: ClaimCondition = ClaimCondition { condition: DRAINED, status: TRUE, reason: "" };
const DETACHING: ClaimCondition =
    ClaimCondition { condition: VOLUMES_DETACHED, status: UNKNOWN, reason: "AwaitingVolumeDetachment" };
const DETACHED: ClaimCondition = ClaimCondition { condition: VOLUMES_DETACHED, status: TRUE, reason: "" };
const NOT_DETACHED: ClaimCondition =
    ClaimCondition { condition: VOLUMES_DETACHED, status: FALSE, reason: "TerminationGracePeriodElapsed" };

/// Facts about a Node that is being deleted.
#[derive(Clone, Debug, Default)]
pub struct DeletingNode<'a> {
    /// The claims that carry its provider id: one, unless somebody has written the same id on others.
    pub claims: &'a [&'a NodeClaim],
    pub pods: Vec<Arc<PodEntry>>,
    /// Those of its pods that have come since its deletion began and tolerate that.
    pub late: Latecomers,
    /// The volumes that it holds and that have to be detached; unknown until they have been listed.
    pub volumes: Option<BTreeSet<String>>,
    /// The cloud's last answer about its instance.
    pub seen: InstanceObservation,
    /// Time at which the cloud was asked for that.
    pub asked: Timestamp,
}

/// The next step of a Node's end.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeStep {
    /// It is not being deleted, or nothing of ours holds it.
    NotOurs,
    /// Delete its claim: both go, whichever was deleted.
    DeleteClaim,
    /// Ask the cloud whether its instance is still there.
    Ask,
    /// Write the Node: tainted, and out of the load balancers.
    Cordon(Box<Node>),
    /// Write these conditions on the claim.
    Say(Vec<ClaimCondition>),
    /// Evict and delete these pods, and wait for all.
    Drain(Drain),
    /// The pods are gone; wait until the drain has lasted long enough.
    Settle,
    /// Wait until these volumes are detached.
    AwaitVolumes(BTreeSet<String>),
    /// End its instance, or see how far that is.
    Terminate,
    /// Take the finalizer off.
    Release,
}

#[must_use]
pub fn next_step(node: &Node, known: &DeletingNode<'_>, now: Timestamp) -> NodeStep {
    let Some(since) = node.metadata.deletion_timestamp.as_ref().filter(|_| is_held(node)) else {
        return NodeStep::NotOurs;
    };
    let claim = match known.claims {
        [only] => Some(*only),
        _ => None,
    };
    if claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()) {
        return NodeStep::DeleteClaim;
    }
    // Its instance is gone: no kubelet ends its pods, and no controller confirms that a volume is detached.
    let gone = |claim: &NodeClaim| instance::is_gone(claim, known.seen, known.asked);
    if !is_ready(node) {
        let missing = matches!(known.seen, InstanceObservation::Missing | InstanceObservation::Terminated);
        match claim.map_or(missing, gone) {
            true => return NodeStep::Release,
            false if known.seen == InstanceObservation::Unknown => return NodeStep::Ask,
            false => {}
        }
    }
    if let Some(cordoned) = cordoned(node) {
        return NodeStep::Cordon(Box::new(cordoned));
    }
    let deadline = claim.and_then(deadline::carried_deadline);
    let drain = drain(known.pods.iter().cloned(), &known.late, claim.and_then(deadline::of_machine), now);
    let begun = claim.map_or(Some(since.0), began);
    let Some(begun) = begun else { return NodeStep::Say(DRAINING.to_vec()) };
    if !drain.waiting.is_empty() {
        return NodeStep::Drain(drain);
    }
    if now.duration_since(begun) < SHORTEST_DRAIN {
        return NodeStep::Settle;
    }
    let Some(volumes) = &known.volumes else { return NodeStep::Settle };
    let expired = deadline.is_some_and(|deadline| now > deadline);
    let detachment = match (volumes.is_empty(), expired) {
        (true, _) => DETACHED,
        (false, true) => NOT_DETACHED,
        (false, false) => DETACHING,
    };
    let unsaid_yet = unsaid(claim, &[IS_DRAINED, detachment]);
    // An instance that ends takes its volumes along: the condition that was written stands.
    let ending = claim.is_some_and(|claim| TERMINATING[0].stands(claim));
    if !unsaid_yet.is_empty() && !ending {
        return NodeStep::Say(unsaid_yet);
    }
    if detachment == DETACHING && !ending {
        return NodeStep::AwaitVolumes(volumes.clone());
    }
    let Some(claim) = claim else { return NodeStep::Release };
    if gone(claim) {
        return NodeStep::Release;
    }
    let unsaid_yet = unsaid(Some(claim), &TERMINATING);
    if known.seen == InstanceObservation::Ending && !unsaid_yet.is_empty() {
        return NodeStep::Say(unsaid_yet);
    }
    NodeStep::Terminate
}

/// Time at which draining began, by the claim's condition.
fn began(claim: &NodeClaim) -> Option<Timestamp> {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let drained = condition(conditions, DRAINED)?;
    match drained.status.as_str() {
        TRUE => Some(Timestamp::MIN),
        _ => Some(drained.last_transition_time.0),
    }
}

/// True if these conditions say that a node is drained.
#[must_use]
pub fn is_drained(said: &[ClaimCondition]) -> bool {
    said.contains(&IS_DRAINED)
}

/// True if these conditions say that a node's drain has begun.
pub(super) fn is_draining(said: &[ClaimCondition]) -> bool {
    said == DRAINING
}

/// True if these conditions say that a node's instance ends.
pub(super) fn is_ending(said: &[ClaimCondition]) -> bool {
    said == TERMINATING
}

/// The Node without our finalizer.
#[must_use]
pub fn released(node: &Node) -> Node {
    let mut node = node.clone();
    node.metadata.finalizers.get_or_insert_default().retain(|one| one != TERMINATION_FINALIZER);
    node
}

fn is_held(node: &Node) -> bool {
    node.metadata.finalizers.iter().flatten().any(|one| one == TERMINATION_FINALIZER)
}

/// The Node tainted and labelled; `None` if it is so already. A taint of the key with another effect is replaced.
#[must_use]
pub fn cordoned(node: &Node) -> Option<Node> {
    let mut wanted = node.clone();
    let all = wanted.spec.get_or_insert_default().taints.get_or_insert_default();
    let taint = taints::disrupted();
    if !all.iter().any(|one| one.key == taint.key && one.effect == taint.effect) {
        all.retain(|one| one.key != taint.key);
        all.push(taint);
    }
    let own = wanted.metadata.labels.get_or_insert_default();
    own.entry(labels::EXCLUDE_BALANCERS.into()).or_insert_with(|| labels::EXCLUDE_BALANCERS_VALUE.into());
    let same = wanted.metadata.labels == node.metadata.labels
        && wanted.spec.as_ref().and_then(|spec| spec.taints.as_ref())
            == node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    (!same).then_some(wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use k8s_openapi::api::core::v1::Taint;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::super::with;
    use super::*;
    use crate::lifecycle::fixtures::{launched_claim, node, ready, second};

    fn leaving_node() -> Node {
        let mut node = ready(node("n"));
        node.spec.as_mut().unwrap().taints = None;
        node.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.into()]);
        node.metadata.deletion_timestamp = Some(Time(second(100)));
        node
    }

    fn leaving_claim() -> NodeClaim {
        let mut claim = launched_claim("a");
        claim.metadata.deletion_timestamp = Some(Time(second(100)));
        claim
    }

    fn pod(name: &str) -> Arc<PodEntry> {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [], "nodeName": "n"},
            "status": {"phase": "Running"}});
        Arc::new(PodEntry::from_kube(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    fn volumes(names: &[&str]) -> Option<BTreeSet<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn said(step: NodeStep) -> Vec<ClaimCondition> {
        match step {
            NodeStep::Say(said) => said,
            other => panic!("nothing is said but {other:?}"),
        }
    }

    /// A Node, its claim, and what else is known, through which a test goes by steps.
    struct Story {
        node: Node,
        claim: NodeClaim,
        pods: Vec<Arc<PodEntry>>,
        volumes: Option<BTreeSet<String>>,
        seen: InstanceObservation,
    }

    impl Story {
        fn begin() -> Self {
            let (node, claim) = (leaving_node(), leaving_claim());
            Self { node, claim, pods: vec![pod("a")], volumes: volumes(&["data"]), seen: InstanceObservation::Unknown }
        }

        fn next(&self, seconds: i64) -> NodeStep {
            let known = DeletingNode {
                claims: &[&self.claim],
                pods: self.pods.clone(),
                late: Latecomers::default(),
                volumes: self.volumes.clone(),
                seen: self.seen,
                asked: second(seconds),
            };
            next_step(&self.node, &known, second(seconds))
        }

        fn say(&mut self, seconds: i64) {
            self.claim = with(&self.claim, &said(self.next(seconds)), second(seconds));
        }

        fn cordon(&mut self, seconds: i64) {
            let NodeStep::Cordon(node) = self.next(seconds) else { panic!("{:?}", self.next(seconds)) };
            self.node = *node;
        }
    }

    #[test]
    fn node_goes_by_cordon_drain_volumes_and_instance_in_order() {
        let mut story = Story::begin();
        story.cordon(100);
        story.say(101);
        let NodeStep::Drain(drain) = story.next(102) else { panic!("no drain") };
        assert_eq!(drain.evict.len(), 1);
        story.pods.clear();
        assert_eq!(story.next(105), NodeStep::Settle, "five seconds have not passed");
        story.say(106);
        let conditions = &story.claim.status.as_ref().unwrap().conditions;
        assert_eq!(condition(conditions, DRAINED).unwrap().status, TRUE);
        assert_eq!(condition(conditions, VOLUMES_DETACHED).unwrap().reason, "AwaitingVolumeDetachment");
        assert_eq!(story.next(107), NodeStep::AwaitVolumes(volumes(&["data"]).unwrap()));
        story.volumes = volumes(&[]);
        story.say(108);
        assert_eq!(story.next(109), NodeStep::Terminate);
        story.seen = InstanceObservation::Alive;
        assert_eq!(story.next(110), NodeStep::Terminate);
        story.seen = InstanceObservation::Ending;
        story.say(111);
        assert_eq!(story.next(112), NodeStep::Terminate);
        story.seen = InstanceObservation::Terminated;
        assert_eq!(story.next(113), NodeStep::Release);
        assert!(released(&story.node).metadata.finalizers.unwrap().is_empty());
    }

    #[test]
    fn a_node_takes_its_claim_along() {
        let mut story = Story::begin();
        story.claim.metadata.deletion_timestamp = None;
        assert_eq!(story.next(100), NodeStep::DeleteClaim);
        story.node.metadata.deletion_timestamp = None;
        assert_eq!(story.next(100), NodeStep::NotOurs);
    }

    #[test]
    fn a_node_that_is_not_ready_is_let_go_once_its_instance_is_gone() {
        let mut story = Story::begin();
        story.node.status = None;
        assert_eq!(story.next(100), NodeStep::Ask);
        story.seen = InstanceObservation::Terminated;
        assert_eq!(story.next(100), NodeStep::Release);
        story.seen = InstanceObservation::Alive;
        assert!(matches!(story.next(100), NodeStep::Cordon(_)), "it is drained like any other");
        story.node = leaving_node();
        story.seen = InstanceObservation::Terminated;
        assert!(
            matches!(story.next(100), NodeStep::Cordon(_)),
            "what EC2 says of a Ready node is not believed at once"
        );
    }

    #[test]
    fn node_without_one_claim_is_drained_and_its_instance_is_left() {
        let (node, one, two) = (leaving_node(), leaving_claim(), leaving_claim());
        let node = cordoned(&node).unwrap();
        for claims in [&[][..], &[&one, &two]] {
            let known = DeletingNode { claims, pods: vec![pod("a")], volumes: volumes(&[]), ..DeletingNode::default() };
            assert!(matches!(next_step(&node, &known, second(101)), NodeStep::Drain(_)));
            let known = DeletingNode { pods: Vec::new(), ..known };
            assert_eq!(next_step(&node, &known, second(104)), NodeStep::Settle);
            assert_eq!(next_step(&node, &known, second(105)), NodeStep::Release);
        }
    }

    #[test]
    fn volumes_are_not_waited_for_beyond_the_deadline() {
        let mut story = Story::begin();
        story.claim.metadata.annotations =
            Some([("karpenter.sh/nodeclaim-termination-timestamp".to_owned(), second(200).to_string())].into());
        story.pods.clear();
        story.cordon(100);
        story.say(101);
        story.say(107);
        assert!(matches!(story.next(200), NodeStep::AwaitVolumes(_)));
        story.say(201);
        let conditions = &story.claim.status.as_ref().unwrap().conditions;
        let detached = condition(conditions, VOLUMES_DETACHED).unwrap();
        assert_eq!((detached.status.as_str(), detached.reason.as_str()), (FALSE, "TerminationGracePeriodElapsed"));
        assert_eq!(story.next(202), NodeStep::Terminate);
    }

    #[test]
    fn nothing_is_concluded_from_attachments_that_nobody_has_listed() {
        let mut story = Story::begin();
        (story.pods, story.volumes) = (Vec::new(), None);
        story.cordon(100);
        story.say(101);
        assert_eq!(story.next(999), NodeStep::Settle);
    }

    #[test]
    fn the_taint_of_another_effect_is_replaced_and_others_are_kept() {
        let taint = |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
        let mut node = leaving_node();
        let before = vec![taint("team", "NoSchedule"), taint(taints::DISRUPTED, "PreferNoSchedule")];
        node.spec.as_mut().unwrap().taints = Some(before);
        let node = cordoned(&node).unwrap();
        let after = node.spec.as_ref().unwrap().taints.as_ref().unwrap();
        assert_eq!(after, &[taint("team", "NoSchedule"), taint(taints::DISRUPTED, "NoSchedule")]);
        assert_eq!(node.metadata.labels.as_ref().unwrap()[labels::EXCLUDE_BALANCERS], "karpenter");
        assert_eq!(cordoned(&node), None);
    }
}
