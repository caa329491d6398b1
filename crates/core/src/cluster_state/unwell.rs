//! Repair policies, and the conditions of a Node that they are about (core spec 5.10, aws spec 4.10; Karpenter 1.15).
//!
//! A condition is listed if a policy has its type and status. The policies whose expression its reason matches apply; where
//! there is none, the one policy without an expression does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use dovetail_api::names::provider::Provider;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use regex_lite::Regex;

use crate::clock::later;

/// A rule for one condition of nodes. The provider has them; nobody sets them.
#[derive(Clone, Copy, Debug)]
pub struct RepairPolicy {
    /// `type` of the condition.
    pub condition: &'static str,
    /// `status` that is unhealthy.
    pub status: &'static str,
    /// Expression that has to match somewhere in the condition's reason. Exactly one policy has an empty one.
    pub reasons: &'static str,
    /// Time for which the condition is tolerated.
    pub toleration: SignedDuration,
    /// Upper bound of the drain: `None` leaves it to the NodeClaim, zero forces it.
    pub grace: Option<SignedDuration>,
    /// Weight in the order of repairs, 0 to 100.
    pub priority: u8,
    pub action: RepairAction,
}

/// Remedy for an unwell Node. The later is the harsher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    /// Its instance is rebooted, with the gate RebootForRepair.
    Reboot,
    /// A new node takes its place.
    Replace,
}

const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);
const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);
/// Reasons of accelerators that no restart mends: memory that cannot be corrected, a device that has vanished.
const BROKEN_ACCELERATOR: &str = "DoubleBit|Uncorrectable|DeviceCountMismatch|XID(48|63|64|74|79|94)Error";
/// Reasons of accelerators for which NVIDIA names a reset or a restart of the machine as the remedy: the first are as surely
/// broken as the above until then.
const HUNG_ACCELERATOR: &str = "XID(95|119|120)Error";
const STALE_ACCELERATOR: &str = "XID(46|62|109|110|136|140|143|151|155|156|158)Error";

const fn policy(condition: &'static str, priority: u8) -> RepairPolicy {
    RepairPolicy {
        condition,
        status: "False",
        reasons: ".*",
        toleration: HALF_AN_HOUR,
        grace: None,
        priority,
        action: RepairAction::Replace,
    }
}

const fn rebooted(reasons: &'static str, priority: u8) -> RepairPolicy {
    let one = policy("AcceleratedHardwareReady", priority);
    RepairPolicy { reasons, toleration: TEN_MINUTES, action: RepairAction::Reboot, ..one }
}

/// Policies for EC2's nodes. A kubelet that is silent cannot drain, and one that is not Ready may not be able to.
const POLICIES: [RepairPolicy; 10] = [
    RepairPolicy { status: "Unknown", grace: Some(SignedDuration::ZERO), ..policy("Ready", 80) },
    RepairPolicy { grace: Some(TEN_MINUTES), ..policy("Ready", 70) },
    RepairPolicy { reasons: BROKEN_ACCELERATOR, toleration: TEN_MINUTES, ..policy("AcceleratedHardwareReady", 90) },
    rebooted(HUNG_ACCELERATOR, 90),
    rebooted(STALE_ACCELERATOR, 60),
    RepairPolicy { reasons: "", toleration: TEN_MINUTES, ..policy("AcceleratedHardwareReady", 60) },
    policy("KernelReady", 50),
    policy("StorageReady", 40),
    policy("ContainerRuntimeReady", 40),
    policy("NetworkingReady", 30),
];

/// Condition of kwok's nodes that is unhealthy while it is True, and the one that a reboot mends. kwok knows neither: whoever tries
/// repair writes them, by the names that Karpenter's own test provider has.
const KWOK_UNHEALTHY: &str = "KWOKUnhealthy";
const KWOK_REBOOT_REQUIRED: &str = "KWOKRebootRequired";
/// Time for which kwok's own conditions are tolerated: nobody tries for long.
const HALF_A_MINUTE: SignedDuration = SignedDuration::from_secs(30);

const fn pretended(condition: &'static str, grace: i64, action: RepairAction) -> RepairPolicy {
    RepairPolicy {
        status: "True",
        toleration: HALF_A_MINUTE,
        grace: Some(SignedDuration::from_secs(grace)),
        action,
        ..policy(condition, 50)
    }
}

/// Policies for kwok's nodes. A node that is not Ready has nothing on it that could be drained.
const OF_KWOK: [RepairPolicy; 4] = [
    RepairPolicy {
        status: "Unknown",
        toleration: TEN_MINUTES,
        grace: Some(SignedDuration::ZERO),
        ..policy("Ready", 80)
    },
    RepairPolicy { reasons: "", toleration: TEN_MINUTES, grace: Some(SignedDuration::ZERO), ..policy("Ready", 70) },
    pretended(KWOK_UNHEALTHY, 45, RepairAction::Replace),
    pretended(KWOK_REBOOT_REQUIRED, 60, RepairAction::Reboot),
];

static EC2: LazyLock<PolicySet> = LazyLock::new(|| PolicySet::new(&POLICIES).unwrap_or_default());
static KWOK: LazyLock<PolicySet> = LazyLock::new(|| PolicySet::new(&OF_KWOK).unwrap_or_default());

/// A condition of a Node with a policy that applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhealthyCondition {
    /// `type` of the condition: `Ready`, `StorageReady`, …
    pub condition: &'static str,
    /// `status` that is unwell: `False` or `Unknown`.
    pub status: &'static str,
    /// `reason` of the condition.
    pub reason: String,
    /// Time since which it has been so.
    pub since: Timestamp,
    /// Time until which it is tolerated.
    pub until: Timestamp,
    /// Upper bound of the drain, as in the policy.
    pub grace: Option<SignedDuration>,
    /// Place of the policy's priority among all priorities, 0 for the lowest.
    pub rank: u8,
    /// Remedy, as in the policy.
    pub action: RepairAction,
}

/// Policies that go together, with their expressions compiled.
#[derive(Default)]
pub struct PolicySet {
    specific: Vec<(RepairPolicy, Regex)>,
    fallback: Option<RepairPolicy>,
    /// Ranks by priority.
    ranks: BTreeMap<u8, u8>,
}

impl PolicySet {
    /// # Errors
    /// The first mistake in the policies.
    pub fn new(policies: &[RepairPolicy]) -> Result<Self, String> {
        let priorities: BTreeSet<u8> = policies.iter().map(|one| one.priority).collect();
        let mut all = Self { ranks: priorities.into_iter().zip(0..).collect(), ..Self::default() };
        for one in policies {
            let named = format!("policy for {}={}", one.condition, one.status);
            if one.condition.is_empty() || !["True", "False", "Unknown"].contains(&one.status) {
                return Err(format!("{named}: no such condition"));
            }
            if one.priority > 100 || one.toleration.is_negative() || one.grace.is_some_and(|grace| grace.is_negative())
            {
                return Err(format!("{named}: a figure is out of its range"));
            }
            if !one.reasons.is_empty() {
                let expression = Regex::new(one.reasons).map_err(|error| format!("{named}: {error}"))?;
                all.specific.push((*one, expression));
            } else if one.action == RepairAction::Reboot {
                return Err(format!("{named}: the one without an expression replaces nodes"));
            } else if all.fallback.replace(*one).is_some() {
                return Err(format!("{named}: there is another policy without an expression"));
            }
        }
        match all.fallback {
            Some(_) => Ok(all),
            None => Err("no policy is without an expression".to_owned()),
        }
    }

    /// The listed conditions of a Node, each with every policy that applies to it.
    #[must_use]
    pub fn unhealthy(&self, node: &Node) -> Vec<UnhealthyCondition> {
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.flat_map(|one| self.of_condition(one, created)).collect()
    }

    fn of_condition(&self, one: &NodeCondition, created: Option<Timestamp>) -> Vec<UnhealthyCondition> {
        let is_about = |policy: &RepairPolicy| policy.condition == one.type_ && policy.status == one.status;
        let own: Vec<&(RepairPolicy, Regex)> = self.specific.iter().filter(|(policy, _)| is_about(policy)).collect();
        let listed = own.iter().map(|(policy, _)| policy).chain(&self.fallback).find(|policy| is_about(policy));
        // A condition is no older than its Node, and one without a time is as old.
        let changed = one.last_transition_time.as_ref().map(|time| time.0);
        let (Some(listed), Some(since)) = (listed, changed.max(created)) else { return Vec::new() };
        let reason = one.reason.as_deref().unwrap_or_default();
        let mut matched: Vec<&RepairPolicy> =
            own.iter().filter(|(_, expression)| expression.is_match(reason)).map(|(policy, _)| policy).collect();
        if matched.is_empty() {
            matched.extend(&self.fallback);
        }
        let unhealthy = |policy: &RepairPolicy| UnhealthyCondition {
            condition: listed.condition,
            status: listed.status,
            reason: reason.to_owned(),
            since,
            until: later(since, policy.toleration),
            grace: policy.grace,
            rank: self.ranks.get(&policy.priority).copied().unwrap_or_default(),
            action: policy.action,
        };
        matched.into_iter().map(unhealthy).collect()
    }
}

/// The conditions for which a provider's Node is to be repaired.
#[must_use]
pub fn unwell(node: &Node, provider: Provider) -> Vec<UnhealthyCondition> {
    match provider {
        Provider::Ec2 => EC2.unhealthy(node),
        Provider::Kwok => KWOK.unhealthy(node),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn node(conditions: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-03-10T12:00:00Z"}, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn of_ec2(conditions: &Value) -> Vec<UnhealthyCondition> {
        unwell(&node(conditions), Provider::Ec2)
    }

    fn minutes(minutes: i64) -> SignedDuration {
        SignedDuration::from_mins(minutes)
    }

    /// Ranks of the policies that apply to a condition `A=False` with that reason.
    fn ranks(set: &PolicySet, reason: &str) -> Vec<u8> {
        let one =
            json!([{"type": "A", "status": "False", "reason": reason, "lastTransitionTime": "2026-03-10T13:00:00Z"}]);
        set.unhealthy(&node(&one)).iter().map(|one| one.rank).collect()
    }

    #[test]
    fn policies_of_every_provider_are_valid() {
        for policies in [&POLICIES[..], &OF_KWOK[..]] {
            assert_eq!(PolicySet::new(policies).err(), None);
        }
    }

    #[test]
    fn conditions_of_kwok_are_its_own() {
        let one = |condition: &str, status: &str| json!([{"type": condition, "status": status, "reason": "Tried"}]);
        let of = |provider, condition, status| unwell(&node(&one(condition, status)), provider);
        for (condition, action, grace) in
            [("KWOKUnhealthy", RepairAction::Replace, 45), ("KWOKRebootRequired", RepairAction::Reboot, 60)]
        {
            let found = of(Provider::Kwok, condition, "True");
            let facts: Vec<_> = found.iter().map(|one| (one.action, one.grace)).collect();
            assert_eq!(facts, [(action, Some(SignedDuration::from_secs(grace)))], "{condition}");
            assert_eq!(found[0].until, found[0].since + SignedDuration::from_secs(30));
            assert_eq!(
                (of(Provider::Kwok, condition, "False"), of(Provider::Ec2, condition, "True")),
                (vec![], vec![])
            );
        }
        assert_eq!(of(Provider::Kwok, "StorageReady", "False"), []);
        for status in ["False", "Unknown"] {
            assert_eq!(of(Provider::Kwok, "Ready", status)[0].grace, Some(SignedDuration::ZERO), "{status}");
        }
    }

    #[test]
    fn sets_of_policies_with_a_mistake_are_refused() {
        let good = RepairPolicy { reasons: "", ..policy("A", 1) };
        for (all, says) in [
            (vec![], "no policy is without"),
            (vec![policy("A", 1)], "no policy is without"),
            (vec![good, good], "another policy without"),
            (vec![RepairPolicy { condition: "", ..good }], "no such condition"),
            (vec![RepairPolicy { status: "Bad", ..good }], "no such condition"),
            (vec![RepairPolicy { priority: 101, ..good }], "out of its range"),
            (vec![RepairPolicy { toleration: minutes(-1), ..good }], "out of its range"),
            (vec![RepairPolicy { grace: Some(minutes(-1)), ..good }], "out of its range"),
            (vec![good, RepairPolicy { reasons: "(", ..good }], "policy for A=False"),
            (vec![RepairPolicy { action: RepairAction::Reboot, ..good }], "replaces nodes"),
        ] {
            let error = PolicySet::new(&all).err().unwrap();
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn every_matching_expression_applies_and_else_the_fallback() {
        let reasons = |reasons, priority| RepairPolicy { reasons, ..policy("A", priority) };
        let set = PolicySet::new(&[reasons("", 5), reasons("^Fan$", 20), reasons("Fan|Disk", 90)]).unwrap();
        assert_eq!(ranks(&set, "Fan"), [1, 2], "both");
        assert_eq!(ranks(&set, "BadDiskError"), [2], "it need not match from the beginning");
        assert_eq!(ranks(&set, "fan"), [0], "letters are told apart");
        assert_eq!(ranks(&set, ""), [0]);
    }

    #[test]
    fn the_fallback_is_for_any_listed_condition_and_no_other() {
        let set = PolicySet::new(&[
            RepairPolicy { reasons: "x", ..policy("A", 1) },
            RepairPolicy { reasons: "", ..policy("B", 2) },
        ]);
        let set = set.unwrap();
        assert_eq!(ranks(&set, "y"), [1]);
        for (type_, status) in [("A", "Unknown"), ("C", "False")] {
            assert_eq!(set.unhealthy(&node(&json!([{"type": type_, "status": status, "reason": "x"}]))), [], "{type_}");
        }
    }

    #[test]
    fn a_condition_is_no_older_than_its_node() {
        for (changed, since) in [
            (json!(null), "2026-03-10T12:00:00Z"),
            (json!("2026-03-09T12:00:00Z"), "2026-03-10T12:00:00Z"),
            (json!("2026-03-10T12:10:00Z"), "2026-03-10T12:10:00Z"),
        ] {
            let one = json!([{"type": "StorageReady", "status": "False", "lastTransitionTime": changed}]);
            let found = of_ec2(&one);
            assert_eq!(found[0].since, since.parse().unwrap());
            assert_eq!(found[0].until, found[0].since + minutes(30));
        }
    }

    #[test]
    fn reason_of_an_accelerator_decides_its_remedy() {
        let remedy = |reason: &str| {
            of_ec2(&json!([{"type": "AcceleratedHardwareReady", "status": "False", "reason": reason}]))[0].action
        };
        for reason in ["NvidiaXID46Error", "NvidiaXID119Error", "NvidiaXID143Error"] {
            assert_eq!(remedy(reason), RepairAction::Reboot, "{reason}");
        }
        for reason in ["NvidiaXID79Error", "NvidiaXID461Error", "NvidiaDoubleBitError", "DCGMError", ""] {
            assert_eq!(remedy(reason), RepairAction::Replace, "{reason}");
        }
    }

    #[test]
    fn reason_of_an_accelerator_decides_its_rank() {
        let rank = |reason: &str| {
            of_ec2(&json!([{"type": "AcceleratedHardwareReady", "status": "False", "reason": reason}]))[0].rank
        };
        assert!(rank("NvidiaDoubleBitError") > rank("DCGMError"));
        assert_eq!(rank("NvidiaXID79Error"), rank("NeuronHBMUncorrectableError"));
        assert_eq!(rank("NvidiaXID13Error"), rank(""));
        assert_eq!(rank("NvidiaXID119Error"), rank("NvidiaXID79Error"));
        assert_eq!(rank("NvidiaXID46Error"), rank(""));
    }
}
