//! Reboot of an unwell node's instance, behind the gate RebootForRepair: for reasons that a restart mends (Karpenter 1.15).
//!
//! ```text
//! Rebooting=True ──► taint, boot ID noted ──► drained ──► issued ──► EC2 asked ──► another boot ID, Ready ──► False, Succeeded
//! RebootRequested                                │              RebootIssued         │ not within 20 minutes
//!                                                └──► healthy again: called off      └──► False, Failed: replaced
//! ```
//!
//! The claim's condition and the Node's annotations are all that is known of it, so that a later leader goes on. Each look
//! decides the next step of each reboot; a step that has not come to pass is decided again. While it lasts the node counts as
//! one that becomes ready: pods that have left it wait for it, and launch nothing.

use std::sync::Arc;

use dovetail_api::names::annotations::{REBOOT_GRACE, REBOOT_ISSUED, REBOOT_PRE_BOOT_ID};
use dovetail_api::names::conditions::{self, FALSE, INITIALIZED, REBOOTING, TRUE, UNKNOWN};
use dovetail_api::names::{labels, taints};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::diagnosis::Diagnosis;
use super::find_veto;
use crate::clock::later;
use crate::cluster_state::{PodEntry, RebootState};
use crate::disruption::blocked;
use crate::disruption::cause::DisruptionCause;
use crate::disruption::look::{DisruptedClaim, Look, disrupted};
use crate::disruption::machines::NodeAndClaim;
use crate::lifecycle::readiness::set_root;
use crate::termination::drain::ends_with_its_node;

/// Longest time from the call to EC2 until the node is back.
const BACK_WITHIN: SignedDuration = SignedDuration::from_mins(20);
/// Time after a reboot in which another would not help: the node is replaced.
const NOT_AGAIN_WITHIN: SignedDuration = SignedDuration::from_hours(24);
/// Time until the next look while a step is under way.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// The next step of a reboot.
#[derive(Clone, Debug, PartialEq)]
pub struct RebootOrder {
    /// The node and its claim.
    pub disrupted: DisruptedClaim,
    pub step: RebootStep,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RebootStep {
    /// The claim gets the condition.
    Request {
        /// `type` of the Node's condition that is to be mended.
        condition: &'static str,
    },
    /// The Node gets the taint, and notes.
    Prepare {
        /// Its boot ID by now.
        boot_id: String,
        /// Bound of the drain.
        grace: Option<SignedDuration>,
    },
    /// Its pods leave; `force`: whatever their budgets say.
    Drain { pods: Vec<Arc<PodEntry>>, force: bool },
    /// The Node notes the time of the call.
    Note,
    /// EC2 is asked, and the claim says so.
    Call,
    /// It is over.
    End(RebootEnd),
}

impl RebootStep {
    /// True if the Node is written.
    #[must_use]
    pub fn is_about_node(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Note | Self::End(RebootEnd::Succeeded | RebootEnd::CalledOff))
    }

    /// True if the claim is written.
    #[must_use]
    pub fn is_about_claim(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Call | Self::End(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootEnd {
    /// The node is back.
    Succeeded,
    /// It is not back in time.
    Failed,
    /// It has become healthy by itself before the call.
    CalledOff,
}

impl RebootEnd {
    /// Its name, as a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::CalledOff => "called_off",
        }
    }

    /// The condition's message.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Succeeded => "the node is back",
            Self::Failed => "the node is not back after 20 minutes",
            Self::CalledOff => "the node needs no reboot any more",
        }
    }

    /// The condition's reason.
    fn reason(self) -> &'static str {
        match self {
            Self::Failed => conditions::REBOOT_FAILED,
            Self::Succeeded | Self::CalledOff => conditions::REBOOT_SUCCEEDED,
        }
    }
}

/// True if a node's instance may be rebooted rather than replaced: it has not been lately, and its Node has a boot ID.
pub(super) fn may_help(machine: &NodeAndClaim<'_>, now: Timestamp) -> bool {
    let again = match machine.claim.reboot {
        None => true,
        Some(RebootState::Succeeded(at)) => now.duration_since(at) >= NOT_AGAIN_WITHIN,
        Some(_) => false,
    };
    again && !machine.node.boot_id.is_empty()
}

/// Begins a reboot.
pub(super) fn request(look: &mut Look<'_>, disrupted: DisruptedClaim, condition: &'static str) {
    look.memory.ask(&disrupted, look.now);
    look.out.drift.reboots.push(RebootOrder { disrupted, step: RebootStep::Request { condition } });
    look.look_again(Some(later(look.now, AGAIN)));
}

/// Goes on with the reboots that are under way, and replaces nodes that are not back.
pub(in crate::disruption) fn go_on_with_reboots<'a>(look: &mut Look<'a>, machines: &[NodeAndClaim<'a>]) {
    for machine in machines.iter().filter(|machine| !machine.claim.deleting && !machine.node.deleting) {
        match machine.claim.reboot {
            Some(state) if state.is_running() => go_on(look, machine, state),
            Some(RebootState::Failed(_))
                if machine.node.reboot.is_some() && !look.memory.is_asked(&machine.claim.uid) =>
            {
                let grace = if machine.node.ready { None } else { Some(SignedDuration::ZERO) };
                look.go(DisruptionCause::Unhealthy { condition: REBOOTING, grace }, disrupted(machine));
            }
            _ => {}
        }
    }
}

fn go_on<'a>(look: &mut Look<'a>, machine: &NodeAndClaim<'a>, state: RebootState) {
    let pods: Vec<Arc<PodEntry>> = leaving(machine).cloned().collect();
    let well =
        find_veto(machine).is_some() || Diagnosis::from_conditions(&machine.node.unwell, None, look.now).is_none();
    let step = match next_step(machine, state, &pods, well, look.now) {
        Ok(step) => step,
        Err(until) => return look.look_again(Some(until)),
    };
    match &step {
        RebootStep::Drain { force: false, .. } => {
            if let Some((why, until)) = blocked::by_pods(machine, look.snapshot, look.now) {
                look.block(machine, why, until);
            }
        }
        RebootStep::End(_) => look.memory.repairs.called_off(&machine.claim.uid),
        _ => {}
    }
    let grace = look.claims_grace(machine);
    let step = match step {
        RebootStep::Prepare { boot_id, .. } => RebootStep::Prepare { boot_id, grace },
        step => step,
    };
    look.out.drift.reboots.push(RebootOrder { disrupted: disrupted(machine), step });
    look.look_again(Some(later(look.now, AGAIN)));
}

/// Pods that have to leave before the reboot.
fn leaving<'a>(machine: &NodeAndClaim<'a>) -> impl Iterator<Item = &'a Arc<PodEntry>> {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    pods.filter(|pod| !pod.terminal && !pod.daemon && !ends_with_its_node(pod))
}

/// The next step, or the time until which there is none.
fn next_step(
    machine: &NodeAndClaim<'_>,
    state: RebootState,
    pods: &[Arc<PodEntry>],
    well: bool,
    now: Timestamp,
) -> Result<RebootStep, Timestamp> {
    let node = machine.node;
    let (requested, is_issued) = match state {
        RebootState::Requested(at) => (at, false),
        RebootState::Issued(at) | RebootState::Succeeded(at) | RebootState::Failed(at) => (at, true),
    };
    let Some(note) = &node.reboot else {
        // The Node's part is over, or has not begun.
        return Ok(match is_issued {
            true => RebootStep::End(RebootEnd::Succeeded),
            false if well => RebootStep::End(RebootEnd::CalledOff),
            false => RebootStep::Prepare { boot_id: node.boot_id.clone(), grace: None },
        });
    };
    let is_back = node.ready && !node.boot_id.is_empty() && node.boot_id != note.pre_boot_id;
    if is_back {
        return Ok(RebootStep::End(RebootEnd::Succeeded));
    }
    match note.issued {
        Some(at) if now.duration_since(at) >= BACK_WITHIN => Ok(RebootStep::End(RebootEnd::Failed)),
        Some(_) if !is_issued => Ok(RebootStep::Call),
        Some(at) => Err(later(at, BACK_WITHIN)),
        None if well => Ok(RebootStep::End(RebootEnd::CalledOff)),
        None if pods.is_empty() => Ok(RebootStep::Note),
        None => {
            let force = note.grace.is_some_and(|grace| now.duration_since(requested) >= grace);
            Ok(RebootStep::Drain { pods: pods.to_vec(), force })
        }
    }
}

/// The claim with the condition, as a step has it. Another claim of its name is left alone.
#[must_use]
pub fn on_claim(order: &RebootOrder, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
    let mut claim = claim.clone();
    if claim.metadata.uid.as_ref() != Some(&order.disrupted.uid) || claim.metadata.deletion_timestamp.is_some() {
        return claim;
    }
    let generation = claim.metadata.generation;
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    let mut set = |status, reason, message: &str| {
        set_condition(conditions, NewCondition::new(REBOOTING, status).because(reason, message), generation, now);
    };
    match &order.step {
        RebootStep::Request { condition } => {
            set(TRUE, conditions::REBOOT_REQUESTED, &format!("its node's condition {condition} calls for a reboot"));
            let waits = NewCondition::new(INITIALIZED, UNKNOWN).because(REBOOTING, "the node is rebooted");
            set_condition(conditions, waits, generation, now);
            set_root(conditions, generation, now);
        }
        RebootStep::Call => set(TRUE, conditions::REBOOT_ISSUED, "EC2 has been asked to reboot the instance"),
        RebootStep::End(end) => {
            set(FALSE, end.reason(), end.message());
        }
        RebootStep::Prepare { .. } | RebootStep::Drain { .. } | RebootStep::Note => {}
    }
    claim
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
        RebootStep::Prepare { boot_id, grace } => {
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
            annotations.entry(REBOOT_ISSUED.into()).or_insert_with(|| format!("{now:.0}"));
        }
        RebootStep::End(RebootEnd::Succeeded | RebootEnd::CalledOff) => {
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
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster_state::{ClaimFacts, NodeEntry};

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
        assert!(prepared.metadata.labels.as_ref().unwrap().is_empty());
        let note = crate::cluster_state::RebootNote::from_node(&prepared).unwrap();
        assert_eq!((note.pre_boot_id.as_str(), note.grace, note.issued), ("b-1", grace, None));
        let issued = on_node(&order(RebootStep::Note), &prepared, now).unwrap();
        assert_eq!(crate::cluster_state::RebootNote::from_node(&issued).unwrap().issued, Some(now));
        assert_eq!(on_node(&order(RebootStep::Note), &issued, later(now, AGAIN)), None, "the first time counts");
        assert_eq!(on_node(&order(RebootStep::End(RebootEnd::Failed)), &issued, now), None, "nothing comes to it");
        for end in [RebootEnd::Succeeded, RebootEnd::CalledOff] {
            let over = on_node(&order(RebootStep::End(end)), &issued, now).unwrap();
            assert_eq!(keys(&over), keys(&node("uid-n")));
        }
        assert_eq!(on_node(&order(RebootStep::Note), &node("another"), now), None);
    }

    /// A Node with that boot ID and these annotations, Ready or not; its storage is not, if it is sick.
    fn machine(boot: &str, annotations: Value, ready: bool) -> NodeEntry {
        let node = json!({"metadata": {"name": "n", "uid": "uid-n", "annotations": annotations},
            "status": {"nodeInfo": {"bootID": boot, "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": ""}, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        NodeEntry::from_kube(&serde_json::from_value(node).unwrap())
    }

    fn claim() -> ClaimFacts {
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c", "uid": "uid-c"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
        ClaimFacts::from_claim(&serde_json::from_value(claim).unwrap())
    }

    fn pod() -> Arc<PodEntry> {
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running"}});
        Arc::new(PodEntry::as_it_is(&serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn each_state_has_its_next_step() {
        let zero: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let minute = |minutes: i64| later(zero, SignedDuration::from_mins(minutes));
        let (requested, issued) = (RebootState::Requested(zero), RebootState::Issued(zero));
        let noted = json!({REBOOT_PRE_BOOT_ID: "b-1"});
        let bounded = json!({REBOOT_PRE_BOOT_ID: "b-1", REBOOT_GRACE: "120s"});
        let called = json!({REBOOT_PRE_BOOT_ID: "b-1", REBOOT_ISSUED: minute(5).to_string()});
        let prepare = RebootStep::Prepare { boot_id: "b-1".into(), grace: None };
        let drain = |force| Ok(RebootStep::Drain { pods: vec![pod()], force });
        let end = |end| Ok(RebootStep::End(end));
        let sick = |state, boot, annotations: &Value, ready, pods: &[_], now| {
            let (node, claim) = (machine(boot, annotations.clone(), ready), claim());
            let machine =
                NodeAndClaim { node: &node, claim: &claim, load: None, moves: None, nominated: false, deleting: false };
            [false, true].map(|well| next_step(&machine, state, pods, well, minute(now)))
        };
        let none = json!({});
        let off = end(RebootEnd::CalledOff);
        assert_eq!(sick(requested, "b-1", &none, true, &[pod()], 0), [Ok(prepare), off.clone()]);
        assert_eq!(sick(requested, "b-1", &noted, true, &[pod()], 9), [drain(false), off.clone()], "for ever");
        assert_eq!(sick(requested, "b-1", &bounded, true, &[pod()], 1)[0], drain(false));
        assert_eq!(sick(requested, "b-1", &bounded, true, &[pod()], 2)[0], drain(true));
        assert_eq!(sick(requested, "b-1", &noted, true, &[], 9), [Ok(RebootStep::Note), off]);
        let call = Ok(RebootStep::Call);
        assert_eq!(sick(requested, "b-1", &called, true, &[], 6), [call.clone(), call], "it is under way");
        let waits = Err(minute(25));
        assert_eq!(sick(issued, "b-1", &called, true, &[], 6)[0], waits, "it has not gone down yet");
        assert_eq!(sick(issued, "b-2", &called, false, &[], 6)[0], waits, "it has come up and is not Ready");
        assert_eq!(sick(issued, "", &called, true, &[], 6)[0], waits, "a Node without a boot ID proves nothing");
        for state in [requested, issued] {
            assert_eq!(sick(state, "b-2", &called, true, &[], 6)[0], end(RebootEnd::Succeeded));
            assert_eq!(sick(state, "b-1", &called, true, &[], 25)[0], end(RebootEnd::Failed), "{state:?}");
        }
        assert_eq!(
            sick(issued, "b-2", &none, true, &[], 6)[0],
            end(RebootEnd::Succeeded),
            "the claim is left to write"
        );
    }

    #[test]
    fn one_reboot_a_day_and_none_after_one_that_failed() {
        let zero: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let day = later(zero, NOT_AGAIN_WITHIN);
        for (state, now, boot, may) in [
            (None, zero, "b-1", true),
            (None, zero, "", false),
            (Some(RebootState::Succeeded(zero)), later(day, -AGAIN), "b-1", false),
            (Some(RebootState::Succeeded(zero)), day, "b-1", true),
            (Some(RebootState::Failed(zero)), day, "b-1", false),
            (Some(RebootState::Issued(zero)), day, "b-1", false),
        ] {
            let (node, claim) = (machine(boot, json!({}), true), ClaimFacts { reboot: state, ..claim() });
            let machine =
                NodeAndClaim { node: &node, claim: &claim, load: None, moves: None, nominated: false, deleting: false };
            assert_eq!(may_help(&machine, now), may, "{state:?} {boot}");
        }
    }
}
