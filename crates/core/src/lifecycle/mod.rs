//! The life of a NodeClaim: launched, registered, initialized, or given up; one stage a file (core spec 4).
//!
//! ```text
//! created ── launch ──► Launched ── registration ──► Registered ── initialization ──► Initialized
//!    │ 5 m                  │ 15 m                        │ 5 m without its Node      │
//!    └──── liveness ────────┴──── 30 m uninitialized ─────┴───────────────────────────┴──► deleted
//! ```
//!
//! Each stage is pure: a claim, the Nodes with its provider id and the time give the objects to write, or the event to wait for.

pub mod claim;
pub mod creations;
pub mod deadline;
pub mod hash;
pub mod initialization;
pub mod launch;
pub mod launch_phase;
pub mod liveness;
pub mod nodeless;
pub mod pace;
pub mod patch;
pub mod protocol;
pub mod readiness;
pub mod registration;
pub mod shared_call;
pub mod tagging;

use std::time::Duration;

use dovetail_api::{
    names::{conditions, taints},
    v1::{NodeClaim, condition_status, is_true},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;

pub use creations::Creations;
pub use liveness::Timeout;

/// The next step of a claim's life.
#[derive(Clone, Debug, PartialEq)]
pub enum LifecycleStep {
    /// Write these, the Node first; then decide again.
    Write(Box<Writes>),
    /// Nothing to write until something changes.
    Wait(ClaimWait),
    /// Delete the claim: it has had its time.
    GiveUp(Timeout),
    /// The claim is being deleted, which is the terminator's work.
    Deleting,
    /// The claim is initialized: its life has no further stage.
    Settled,
}

/// Objects as they are to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// The stages that are passed once these are written, in their order.
    pub passes: &'static [ClaimStage],
    /// The Node, metadata and taints.
    pub node: Option<Node>,
    /// The claim, metadata and status.
    pub claim: NodeClaim,
    /// True if the Node came without the taint that guards it until registration.
    pub guard_missing: bool,
}

impl Writes {
    /// Writes that pass no stage and leave the Node as it is: a condition says what else is lacking.
    fn of_reason(claim: NodeClaim) -> Self {
        Self { passes: &[], node: None, claim, guard_missing: false }
    }

    /// True if the claim registers by them, and pods may come to its Node.
    #[must_use]
    pub fn lets_pods_in(&self) -> bool {
        self.passes.contains(&ClaimStage::Registered)
    }

    /// True if nothing but the reason of a condition is written, which another may follow before long.
    #[must_use]
    pub fn is_reason(&self) -> bool {
        self.passes.is_empty() && self.node.is_none()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimStage {
    /// The cloud has made the instance.
    Launched,
    /// Its Node is there and carries the claim's labels, annotations and taints.
    Registered,
    /// Pods can run on it.
    Initialized,
}

/// The event that a claim waits for; the reasons of its conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimWait {
    /// An instance, from the cloud.
    Launch,
    /// A Node with its provider id.
    Node,
    /// All Nodes with its provider id but one to go.
    OneNode,
    /// The Node to be Ready.
    Ready,
    /// A startup taint or an ephemeral one, to be taken away by its owner.
    Taint(String),
    /// A requested resource to appear on the Node.
    Resource(String),
}

/// The next step for `claim`, given the Nodes that carry its provider id, and for how long there has been none.
#[must_use]
pub fn next(claim: &NodeClaim, nodes: &[&Node], nodeless: Duration, now: Timestamp) -> LifecycleStep {
    if claim.metadata.deletion_timestamp.is_some() {
        return LifecycleStep::Deleting;
    }
    // Its Node is there: it is late only because nobody was there to register it, and nothing is wrong with it.
    let registers = stage(claim) == Some(ClaimStage::Launched) && matches!(nodes, [_]);
    if let Some(timeout) = liveness::expired(claim, nodeless, now).filter(|_| !registers) {
        return LifecycleStep::GiveUp(timeout);
    }
    let passed = match stage(claim) {
        None => return LifecycleStep::Wait(ClaimWait::Launch),
        Some(ClaimStage::Launched) => return registration::register(claim, nodes, now),
        Some(passed) => passed,
    };
    if let Some(again) = registration::let_in_again(claim, nodes, passed) {
        return again;
    }
    if passed == ClaimStage::Registered && is_rebooting(claim) {
        LifecycleStep::Wait(ClaimWait::Taint(taints::REBOOTING.into()))
    } else if passed == ClaimStage::Registered {
        initialization::initialize(claim, nodes, now)
    } else {
        LifecycleStep::Settled
    }
}

/// True while its instance is rebooted as a repair: it is initialized again when that is over.
#[must_use]
pub fn is_rebooting(claim: &NodeClaim) -> bool {
    is_true(claim.status.as_ref().map_or(&[], |status| &status.conditions), conditions::REBOOTING)
}

/// The last stage that the claim has passed.
#[must_use]
pub fn stage(claim: &NodeClaim) -> Option<ClaimStage> {
    let conditions = &claim.status.as_ref()?.conditions;
    let passed = |type_: &str| is_true(conditions, type_);
    if !passed(conditions::LAUNCHED) {
        None
    } else if !passed(conditions::REGISTERED) {
        Some(ClaimStage::Launched)
    } else if !passed(conditions::INITIALIZED) {
        Some(ClaimStage::Registered)
    } else {
        Some(ClaimStage::Initialized)
    }
}

/// True if the claim is not to be planned on: it is being deleted or its instance is.
#[must_use]
pub fn is_deleting(claim: &NodeClaim) -> bool {
    let terminating = |status: &dovetail_api::v1::NodeClaimStatus| {
        condition_status(&status.conditions, conditions::INSTANCE_TERMINATING) == conditions::TRUE
    };
    claim.metadata.deletion_timestamp.is_some() || claim.status.as_ref().is_some_and(terminating)
}

#[cfg(test)]
pub(crate) mod fixtures {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::v1::{NodeClaim, NodeClaimSpec, NodeClassRef};
    use jiff::{Timestamp, ToSpan};
    use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
    use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};

    use super::launch::{InstanceFacts, launched};

    /// The time `seconds` after the claims of these tests were created.
    pub fn second(seconds: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
    }

    /// A claim as created.
    pub fn claim(name: &str) -> NodeClaim {
        let spec = NodeClaimSpec { node_class_ref: NodeClassRef::ec2("default"), ..NodeClaimSpec::default() };
        let mut claim = NodeClaim::new(name, spec);
        claim.metadata.uid = Some(format!("uid-{name}"));
        claim.metadata.creation_timestamp = Some(Time(second(0)));
        claim.metadata.resource_version = Some("1".into());
        claim
    }

    /// The cloud's answer in these tests.
    pub fn instance() -> InstanceFacts {
        let amounts = |list: &[(&str, &str)]| {
            list.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect()
        };
        InstanceFacts {
            provider_id: "aws:///us-east-1a/i-1".into(),
            image_id: "ami-1".into(),
            labels: [("node.kubernetes.io/instance-type".to_owned(), "m5.large".to_owned())].into(),
            annotations: [("cloud".to_owned(), "says".to_owned())].into(),
            capacity: amounts(&[("cpu", "2"), ("memory", "8Gi")]),
            allocatable: amounts(&[("cpu", "1930m"), ("memory", "7Gi")]),
        }
    }

    /// A claim whose instance is there.
    pub fn launched_claim(name: &str) -> NodeClaim {
        launched(&claim(name), &instance(), second(2))
    }

    /// The Node that the instance registers: tainted, not ready.
    pub fn node(name: &str) -> Node {
        let mut node = Node {
            spec: Some(NodeSpec {
                provider_id: Some("aws:///us-east-1a/i-1".into()),
                taints: Some(vec![dovetail_api::names::taints::unregistered()]),
                ..NodeSpec::default()
            }),
            ..Node::default()
        };
        node.metadata.name = Some(name.into());
        node
    }

    /// The same Node once its kubelet says that it is ready.
    pub fn ready(mut node: Node) -> Node {
        let condition = NodeCondition { type_: "Ready".into(), status: "True".into(), ..NodeCondition::default() };
        let allocatable = instance().allocatable;
        node.status = Some(NodeStatus {
            conditions: Some(vec![condition]),
            capacity: Some(allocatable.clone()),
            allocatable: Some(allocatable),
            ..NodeStatus::default()
        });
        node
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::taints;
    use k8s_openapi::api::core::v1::Taint;

    use super::{fixtures::*, *};

    fn written(decision: LifecycleStep) -> Writes {
        match decision {
            LifecycleStep::Write(writes) => *writes,
            other => panic!("nothing to write but {other:?}"),
        }
    }

    #[test]
    fn a_claim_goes_through_its_stages_in_order() {
        let mut claim = claim("a");
        assert_eq!(next(&claim, &[], Duration::ZERO, second(1)), LifecycleStep::Wait(ClaimWait::Launch));
        claim = launch::launched(&claim, &instance(), second(2));
        assert_eq!(stage(&claim), Some(ClaimStage::Launched));
        assert_eq!(next(&claim, &[], Duration::ZERO, second(3)), LifecycleStep::Wait(ClaimWait::Node));

        let writes = written(next(&claim, &[&node("n")], Duration::ZERO, second(30)));
        assert_eq!(writes.passes, [ClaimStage::Registered]);
        let (claim, node) = (writes.claim, writes.node.unwrap());
        assert_eq!(claim.status.as_ref().unwrap().node_name, "n");
        let waits = next(&claim, &[&node], Duration::ZERO, second(31));
        assert_eq!(waits, LifecycleStep::Wait(ClaimWait::Ready), "what it lacks was written when it registered");

        let mut tainted = ready(node.clone());
        let starting = Taint { key: taints::NOT_READY.into(), effect: taints::NO_SCHEDULE.into(), ..Taint::default() };
        tainted.spec.as_mut().unwrap().taints = Some(vec![starting]);
        let again = written(next(&claim, &[&tainted], Duration::ZERO, second(35)));
        assert!(again.is_reason(), "it lacks something else");

        let writes = written(next(&claim, &[&ready(node)], Duration::ZERO, second(40)));
        assert_eq!(writes.passes, [ClaimStage::Initialized]);
        assert!(is_true(&writes.claim.status.as_ref().unwrap().conditions, conditions::READY));
        assert_eq!(next(&writes.claim, &[], Duration::ZERO, second(9000)), LifecycleStep::Settled);
        let gone = next(&writes.claim, &[], liveness::NODE, second(9000));
        assert_eq!(gone, LifecycleStep::GiveUp(Timeout::NodeGone));
    }

    #[test]
    fn node_that_lacks_nothing_passes_both_stages_by_one_write() {
        let writes = written(next(&launched_claim("a"), &[&ready(node("n"))], Duration::ZERO, second(30)));
        assert_eq!(writes.passes, [ClaimStage::Registered, ClaimStage::Initialized]);
        assert!(writes.lets_pods_in() && stage(&writes.claim) == Some(ClaimStage::Initialized));
        let there = writes.node.unwrap();
        let labels = there.metadata.labels.as_ref().unwrap();
        assert!(labels.contains_key("karpenter.sh/registered") && labels.contains_key("karpenter.sh/initialized"));
        assert_eq!(next(&writes.claim, &[&there], Duration::ZERO, second(31)), LifecycleStep::Settled);
        let mut starts = launched_claim("a");
        starts.spec.startup_taints = vec![Taint { key: "cni".into(), effect: "NoSchedule".into(), ..Taint::default() }];
        let writes = written(next(&starts, &[&ready(node("n"))], Duration::ZERO, second(30)));
        assert_eq!(writes.passes, [ClaimStage::Registered], "registration itself puts its startup taint on it");
    }

    #[test]
    fn arrived_node_is_registered_however_late_it_is_seen() {
        let claim = launched_claim("a");
        let writes = written(next(&claim, &[&node("n")], Duration::ZERO, second(9000)));
        assert_eq!(writes.passes, [ClaimStage::Registered]);
        let two = next(&claim, &[&node("n"), &node("m")], Duration::ZERO, second(9000));
        assert_eq!(two, LifecycleStep::GiveUp(Timeout::RegistrationTimeout), "nobody knows which is its own");
    }

    #[test]
    fn a_node_that_is_guarded_again_is_let_in_again() {
        let claim = written(next(&launched_claim("a"), &[&node("n")], Duration::ZERO, second(30))).claim;
        for stage in [ClaimStage::Registered, ClaimStage::Initialized] {
            let claim = match stage {
                ClaimStage::Registered => claim.clone(),
                _ => {
                    let there = registration::synced(&ready(node("n")), &claim);
                    written(next(&claim, &[&there], Duration::ZERO, second(31))).claim
                }
            };
            // As a backup has it, or a kubelet that has made its Node anew.
            let again = written(next(&claim, &[&ready(node("n"))], Duration::ZERO, second(90)));
            assert_eq!((again.passes, &again.claim), (&[][..], &claim));
            let there = again.node.unwrap();
            assert!(there.spec.as_ref().unwrap().taints.as_ref().unwrap().is_empty(), "the guard is off");
            let settled = next(&claim, &[&there], Duration::ZERO, second(91));
            assert_eq!(settled == LifecycleStep::Settled, stage == ClaimStage::Initialized, "{settled:?}");
            // While it is not Ready it is let in, and gets its other label when it is.
            let there = written(next(&claim, &[&node("n")], Duration::ZERO, second(93))).node.unwrap();
            let labelled = |node: &k8s_openapi::api::core::v1::Node| {
                node.metadata.labels.as_ref().unwrap().contains_key("karpenter.sh/initialized")
            };
            assert!(!labelled(&there));
            if stage == ClaimStage::Initialized {
                assert!(labelled(&written(next(&claim, &[&ready(there)], Duration::ZERO, second(94))).node.unwrap()));
            }
            let mut goes = ready(node("n"));
            goes.metadata.deletion_timestamp = claim.metadata.creation_timestamp.clone();
            assert_eq!(registration::let_in_again(&claim, &[&goes], stage), None);
        }
    }

    #[test]
    fn a_claim_on_its_way_out_is_left_to_the_terminator() {
        let mut claim = launched_claim("a");
        claim.metadata.deletion_timestamp = claim.metadata.creation_timestamp.clone();
        assert_eq!(next(&claim, &[&node("n")], Duration::ZERO, second(99)), LifecycleStep::Deleting);
        assert!(is_deleting(&claim));
    }
}
