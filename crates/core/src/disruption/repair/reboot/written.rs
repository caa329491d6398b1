//! A reboot as it is written on the claim and the Node.

use dovetail_api::names::annotations::{REBOOT_GRACE, REBOOT_ISSUED, REBOOT_PRE_BOOT_ID};
use dovetail_api::names::conditions::{
    self, DISRUPTION_REASON, FALSE, INITIALIZED, REBOOTED_AGAIN, REBOOTING, TRUE, UNKNOWN,
};
use dovetail_api::names::{labels, taints};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{RebootEnd, RebootOrder, RebootStep, is_lately};
use crate::clock::{CLOCKS_APART, later, signed};
use crate::cluster_state::RebootState;
use crate::disruption::RemovalReason;
use crate::disruption::claim_status::with_status;
use crate::lifecycle::readiness::set_root;

/// True if a time is none that another replica can have noted by now.
pub(super) fn is_to_come(noted: Timestamp, now: Timestamp) -> bool {
    noted > later(now, signed(CLOCKS_APART))
}

/// The claim with the condition, as a step has it. Another claim of its name is left alone.
#[must_use]
pub fn on_claim(order: &RebootOrder, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
    with_status(claim, &order.disrupted.uid, |status, generation| {
        let conditions = &mut status.conditions;
        let state = RebootState::from_conditions(conditions);
        let is_running = state.is_some_and(RebootState::is_running);
        let mut set = |status, reason, message: &str| {
            set_condition(conditions, NewCondition::new(REBOOTING, status).because(reason, message), generation, now);
        };
        match &order.step {
            RebootStep::Request { condition, .. } if !is_running => {
                let why = format!("its node's condition {condition} calls for a reboot");
                set(TRUE, conditions::REBOOT_REQUESTED, &why);
                let reason = RemovalReason::Unhealthy.budget_key().unwrap_or_default();
                let disrupted = NewCondition::new(DISRUPTION_REASON, TRUE).because(reason, &why);
                set_condition(conditions, disrupted, generation, now);
                let again = state.and_then(RebootState::succeeded).is_some_and(|at| is_lately(at, now));
                let second = match again {
                    true => NewCondition::new(REBOOTED_AGAIN, TRUE).because("", "the second reboot within a day"),
                    false => NewCondition::new(REBOOTED_AGAIN, FALSE).because("", "the first reboot within a day"),
                };
                if again || conditions.iter().any(|one| one.type_ == REBOOTED_AGAIN) {
                    set_condition(conditions, second, generation, now);
                }
                let waits = NewCondition::new(INITIALIZED, UNKNOWN).because(REBOOTING, "the node is rebooted");
                set_condition(conditions, waits, generation, now);
                set_root(conditions, generation, now);
            }
            // A call that is answered late says nothing of a reboot that has ended.
            RebootStep::Call if is_running => {
                set(TRUE, conditions::REBOOT_ISSUED, "EC2 has been asked to reboot the instance");
            }
            RebootStep::End(end) if is_running || matches!((end, state), (RebootEnd::Succeeded, Some(_))) => {
                set(FALSE, end.reason(), end.message());
                conditions.retain(|one| one.type_ != DISRUPTION_REASON);
            }
            _ => {}
        }
    })
}

/// The Node as a step has it; `None` where it is so already.
#[must_use]
pub fn on_node(order: &RebootOrder, node: &Node, now: Timestamp) -> Option<Node> {
    let mut wanted = node.clone();
    if node.metadata.uid.as_ref() != Some(&order.disrupted.node_uid) || node.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let annotations = wanted.metadata.annotations.get_or_insert_default();
    let own_taints = wanted.spec.get_or_insert_default().taints.get_or_insert_default();
    match &order.step {
        RebootStep::Request { boot_id, grace, .. } | RebootStep::Prepare { boot_id, grace } => {
            annotations.insert(REBOOT_PRE_BOOT_ID.into(), boot_id.clone());
            if let Some(grace) = grace {
                annotations.insert(REBOOT_GRACE.into(), format!("{}s", grace.as_secs()));
            }
            if !own_taints.iter().any(|taint| taint.key == taints::REBOOTING) {
                own_taints.push(taints::rebooting());
            }
            wanted.metadata.labels.get_or_insert_default().remove(labels::INITIALIZED);
        }
        RebootStep::Note => {
            // The first time counts, if it is one.
            let noted = annotations.get(REBOOT_ISSUED).and_then(|text| text.parse().ok());
            if noted.is_none_or(|noted| is_to_come(noted, now)) {
                annotations.insert(REBOOT_ISSUED.into(), format!("{now:.0}"));
            }
        }
        RebootStep::Tidy | RebootStep::End(RebootEnd::Succeeded | RebootEnd::CalledOff | RebootEnd::Undrained) => {
            [REBOOT_PRE_BOOT_ID, REBOOT_GRACE, REBOOT_ISSUED].iter().for_each(|key| drop(annotations.remove(*key)));
            own_taints.retain(|taint| taint.key != taints::REBOOTING);
        }
        _ => return None,
    }
    (wanted != *node).then_some(wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::disruption::look::DisruptedClaim;

    fn order(step: RebootStep) -> RebootOrder {
        let disrupted = DisruptedClaim {
            claim: "c".into(),
            uid: "uid-c".into(),
            pool: "p".into(),
            node: "n".into(),
            node_uid: "uid-n".into(),
            pods: 0,
        };
        RebootOrder { disrupted, step }
    }

    fn node(uid: &str) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n", "uid": uid, "labels": {"karpenter.sh/initialized": "true"},
            "annotations": {"other": "x"}}, "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}),
        )
        .unwrap()
    }

    fn keys(node: &Node) -> (Vec<String>, Value) {
        let own = node.metadata.annotations.clone().unwrap_or_default();
        (own.into_keys().collect(), json!(node.spec.as_ref().unwrap().taints))
    }

    #[test]
    fn steps_change_the_node_and_its_end_leaves_it_as_it_was() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let grace = Some(SignedDuration::from_mins(2));
        let prepared =
            on_node(&order(RebootStep::Prepare { boot_id: "b-1".into(), grace }), &node("uid-n"), now).unwrap();
        let request = RebootStep::Request { condition: "Ready", boot_id: "b-1".into(), grace };
        assert_eq!(on_node(&order(request), &node("uid-n"), now).as_ref(), Some(&prepared), "with the claim's part");
        assert!(prepared.metadata.labels.as_ref().unwrap().is_empty());
        let note = crate::cluster_state::RebootNote::from_node(&prepared).unwrap();
        assert_eq!((note.pre_boot_id.as_str(), note.grace, note.issued), ("b-1", grace, None));
        let issued = on_node(&order(RebootStep::Note), &prepared, now).unwrap();
        assert_eq!(crate::cluster_state::RebootNote::from_node(&issued).unwrap().issued, Some(now));
        assert_eq!(
            on_node(&order(RebootStep::Note), &issued, later(now, SignedDuration::from_secs(1))),
            None,
            "the first time counts"
        );
        assert_eq!(on_node(&order(RebootStep::End(RebootEnd::Failed)), &issued, now), None, "nothing comes to it");
        let ends = [RebootEnd::Succeeded, RebootEnd::CalledOff, RebootEnd::Undrained].map(RebootStep::End);
        for step in ends.into_iter().chain([RebootStep::Tidy]) {
            let over = on_node(&order(step), &issued, now).unwrap();
            assert_eq!(keys(&over), keys(&node("uid-n")));
        }
        assert_eq!(on_node(&order(RebootStep::Note), &node("another"), now), None);
    }

    #[test]
    fn a_time_of_the_call_that_is_none_is_written_anew() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let noted = |text: &str| {
            let mut there = node("uid-n");
            there.metadata.annotations.get_or_insert_default().insert(REBOOT_ISSUED.into(), text.into());
            let written = on_node(&order(RebootStep::Note), &there, now)?;
            written.metadata.annotations.unwrap().remove(REBOOT_ISSUED)
        };
        for text in ["", "soon", "2026-03-10T12:02:00Z", "2999-01-01T00:00:00Z"] {
            assert_eq!(noted(text).as_deref(), Some("2026-03-10T12:00:00Z"), "{text}");
        }
        assert_eq!(noted("2026-03-10T12:00:59Z"), None, "a clock that is ahead");
    }

    #[test]
    fn the_claim_says_that_it_is_disrupted_until_the_reboot_is_over() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let request = RebootStep::Request { condition: "Ready", boot_id: "b-1".into(), grace: None };
        let begun = on_claim(&order(request), &claim("False", "RebootSucceeded"), now);
        let own = &begun.status.as_ref().unwrap().conditions;
        let said = dovetail_api::v1::condition(own, DISRUPTION_REASON).unwrap();
        assert_eq!((said.status.as_str(), said.reason.as_str()), ("True", "Unhealthy"));
        let facts = crate::cluster_state::ClaimFacts::from_claim(&begun);
        assert!(!facts.disruption_reason && !facts.repaired, "no command holds it, and its node stays");
        for end in [RebootEnd::Succeeded, RebootEnd::Failed, RebootEnd::CalledOff] {
            let over = on_claim(&order(RebootStep::End(end)), &begun, now);
            assert!(dovetail_api::v1::condition(&over.status.unwrap().conditions, DISRUPTION_REASON).is_none());
        }
    }

    fn claim(status: &str, reason: &str) -> NodeClaim {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "uid": "uid-c"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"conditions": [{"type": "Rebooting", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-03-10T11:00:00Z"}]}}))
        .unwrap()
    }

    #[test]
    fn what_comes_late_says_nothing_of_a_reboot_that_has_ended() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let after = |status: &str, reason: &str, step: RebootStep| {
            let written = on_claim(&order(step), &claim(status, reason), now);
            let one = dovetail_api::v1::condition(&written.status.unwrap().conditions, REBOOTING).cloned().unwrap();
            (one.status, one.reason)
        };
        let is = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
        let failed = || RebootStep::End(RebootEnd::Failed);
        assert_eq!(after("True", "RebootRequested", RebootStep::Call), is("True", "RebootIssued"));
        assert_eq!(after("False", "RebootSucceeded", RebootStep::Call), is("False", "RebootSucceeded"));
        assert_eq!(after("False", "RebootSucceeded", failed()), is("False", "RebootSucceeded"));
        assert_eq!(after("True", "RebootIssued", failed()), is("False", "RebootFailed"));
        let succeeded = RebootStep::End(RebootEnd::Succeeded);
        assert_eq!(after("False", "RebootFailed", succeeded), is("False", "RebootSucceeded"), "it is back late");
        let again = RebootStep::Request { condition: "Ready", boot_id: "b-1".into(), grace: None };
        assert_eq!(after("True", "RebootIssued", again), is("True", "RebootIssued"));
    }
}
