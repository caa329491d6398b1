//! Reboot of an unwell node's instance, behind the gate RebootForRepair: for reasons that a restart mends (Karpenter 1.15).
//!
//! ```text
//! Rebooting=True ──► taint, boot ID noted ──► drained ──► issued ──► EC2 asked ──► another boot ID, Ready ──► False, Succeeded
//! RebootRequested                                │              RebootIssued         │ not within 20 minutes, or EC2 refuses
//!                                                ├──► vetoed: called off             └──► False, Failed: replaced
//!                                                └──► no bound, and not within 10 minutes: called off, False, Failed: replaced
//! ```
//!
//! A reboot that has begun is carried out though the condition goes: a fault may show under load alone, and the pods that are that
//! load have left. At the bound of the drain those that are left stay, and start anew with the node.
//!
//! The claim's condition and the Node's annotations are all that is known of it, so that a later leader goes on. Each look
//! decides the next step of each reboot; a step that has not come to pass is decided again. While it lasts the node counts as
//! one that becomes ready: pods that have left it wait for it, and launch nothing.

mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::conditions::{self, REBOOTING};
use dovetail_api::names::taints;
use jiff::{SignedDuration, Timestamp};

pub use self::written::{on_claim, on_node};
use super::diagnosis::Diagnosis;
use super::find_veto;
use crate::clock::later;
use crate::cluster_state::{NodeEntry, PodEntry, RebootNote, RebootState, Snapshot};
use crate::disruption::blocked;
use crate::disruption::cause::DisruptionCause;
use crate::disruption::look::{DisruptedClaim, Look, disrupted};
use crate::disruption::machines::NodeAndClaim;
use crate::interruption::LONGEST_PLACE_WAIT;
use crate::termination::drain::{Drain, Latecomers, drain};

/// Longest time from the call to EC2 until the node is back.
const BACK_WITHIN: SignedDuration = SignedDuration::from_mins(20);
/// Time from the call in which a node that is well by then may go down yet.
const GONE_DOWN_WITHIN: SignedDuration = SignedDuration::from_mins(1);
/// Time within which a node is rebooted twice at most, then replaced (as Karpenter 1.15 does).
const TWICE_WITHIN: SignedDuration = SignedDuration::from_hours(24);
/// Shortest drain, in which pods show that were bound while the taint was written (as long as Karpenter's).
const LEAST_DRAIN: SignedDuration = SignedDuration::from_secs(5);
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
    /// The claim gets the condition, then the Node the taint, and notes.
    Request {
        /// `type` of the Node's condition that is to be mended.
        condition: &'static str,
        /// The Node's boot ID by now.
        boot_id: String,
        /// Bound of the drain.
        grace: Option<SignedDuration>,
    },
    /// The Node's part of the request, if that was not written with the claim's.
    Prepare {
        /// Its boot ID by now.
        boot_id: String,
        /// Bound of the drain.
        grace: Option<SignedDuration>,
    },
    /// Its pods leave.
    Drain {
        /// Pods to evict.
        evict: Vec<Arc<PodEntry>>,
    },
    /// The Node notes the time of the call.
    Note,
    /// EC2 is asked, and the claim says so.
    Call,
    /// It is over: the claim is written, then the Node.
    End(RebootEnd),
    /// It is over on the claim, and not on the Node yet.
    Tidy,
}

impl RebootStep {
    /// True if the Node is written.
    #[must_use]
    pub fn is_about_node(&self) -> bool {
        use RebootEnd::{CalledOff, Succeeded, Undrained};
        let ends = matches!(self, Self::Tidy | Self::End(Succeeded | CalledOff | Undrained));
        ends || matches!(self, Self::Request { .. } | Self::Prepare { .. } | Self::Note)
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
    /// EC2 will not have it.
    Refused,
    /// Its pods have not left in time: there was no call.
    Undrained,
    /// Somebody forbids it before the call, or it has become healthy by itself while EC2 could not be asked.
    CalledOff,
}

impl RebootEnd {
    /// Its name, as a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed | Self::Refused | Self::Undrained => "failed",
            Self::CalledOff => "called_off",
        }
    }

    /// The condition's message.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Succeeded => "the node is back",
            Self::Failed => "the node is not back after 20 minutes",
            Self::Refused => "EC2 refuses to reboot the instance",
            Self::Undrained => "its pods have not left within 10 minutes",
            Self::CalledOff => "the node needs no reboot any more",
        }
    }

    /// The condition's reason.
    fn reason(self) -> &'static str {
        match self {
            Self::Failed | Self::Refused | Self::Undrained => conditions::REBOOT_FAILED,
            Self::Succeeded | Self::CalledOff => conditions::REBOOT_SUCCEEDED,
        }
    }
}

/// Reboots that EC2 has refused for good in a term.
#[derive(Clone, Debug, Default)]
pub struct RefusedReboots {
    /// Claims, by uid, with their names.
    claims: BTreeMap<String, String>,
    all: bool,
}

impl RefusedReboots {
    /// Notes that EC2 refuses a claim's reboot for good; `all`: and any other, as it does not let us ask.
    pub fn note(&mut self, disrupted: &DisruptedClaim, all: bool) {
        self.claims.insert(disrupted.uid.clone(), disrupted.claim.clone());
        self.all |= all;
    }

    /// Forgets claims that are gone.
    pub fn retain(&mut self, there: impl Fn(&str, &str) -> bool) {
        self.claims.retain(|uid, name| there(uid, name));
    }

    fn has(&self, uid: &str) -> bool {
        self.all || self.claims.contains_key(uid)
    }
}

/// True if a node's instance may be rebooted rather than replaced: EC2 lets us, it has not been twice lately, its Node has a boot ID,
/// and no pod on it moves by its rollout, which makes its place on another node.
pub(super) fn may_help(look: &Look<'_>, machine: &NodeAndClaim<'_>) -> bool {
    let again = match machine.claim.reboot {
        None => true,
        Some(RebootState::Succeeded(at)) => !machine.claim.rebooted_again || !is_lately(at, look.now),
        Some(_) => false,
    };
    let mut pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    again
        && !machine.node.boot_id.is_empty()
        && !look.memory.refused_reboots.has(&machine.claim.uid)
        && !pods.any(|pod| look.snapshot.moves_by_rollout(pod))
}

/// True while a reboot that ended then counts against the next.
fn is_lately(ended: Timestamp, now: Timestamp) -> bool {
    now.duration_since(ended) < TWICE_WITHIN
}

/// Begins a reboot, with a bound of its drain.
pub(super) fn request(
    look: &mut Look<'_>,
    machine: &NodeAndClaim<'_>,
    condition: &'static str,
    grace: Option<SignedDuration>,
) {
    let disrupted = disrupted(machine);
    look.memory.ask(&disrupted, look.now);
    push(look, disrupted, RebootStep::Request { condition, boot_id: machine.node.boot_id.clone(), grace });
}

fn push(look: &mut Look<'_>, disrupted: DisruptedClaim, step: RebootStep) {
    look.out.drift.reboots.push(RebootOrder { disrupted, step });
    look.look_again(Some(later(look.now, AGAIN)));
}

/// Number of reboots of a pool's nodes that this look begins.
pub(in crate::disruption) fn begun_now(orders: &[RebootOrder], pool: &str) -> usize {
    let begins = |one: &&RebootOrder| matches!(one.step, RebootStep::Request { .. }) && one.disrupted.pool == pool;
    orders.iter().filter(begins).count()
}

/// Goes on with the reboots that are under way, and replaces nodes that are not back.
pub(in crate::disruption) fn go_on_with_reboots<'a>(look: &mut Look<'a>, machines: &[NodeAndClaim<'a>]) {
    for machine in machines.iter().filter(|machine| !machine.claim.deleting && !machine.node.deleting) {
        match (machine.claim.reboot, &machine.node.reboot) {
            (Some(state), _) if state.is_running() => go_on(look, machine, state),
            (Some(RebootState::Succeeded(_)), Some(_)) => push(look, disrupted(machine), RebootStep::Tidy),
            (Some(RebootState::Failed(_)), Some(note)) => replace(look, machine, note),
            _ => {}
        }
    }
}

/// Replaces a node whose reboot has failed, unless it is back after all or its repair is vetoed.
fn replace<'a>(look: &mut Look<'a>, machine: &NodeAndClaim<'a>, note: &RebootNote) {
    let node = machine.node;
    if node.ready && has_rebooted(node, note) {
        return push(look, disrupted(machine), RebootStep::End(RebootEnd::Succeeded));
    }
    if note.issued.is_none() || node.ready && is_well(machine, look.now) {
        return push(look, disrupted(machine), RebootStep::Tidy);
    }
    if let Some(why) = find_veto(machine) {
        return look.block(machine, why, None);
    }
    if !look.memory.is_asked(&machine.claim.uid) {
        let grace = if node.ready { None } else { Some(SignedDuration::ZERO) };
        look.go(DisruptionCause::Unhealthy { condition: REBOOTING, grace }, disrupted(machine));
    }
}

fn is_well(machine: &NodeAndClaim<'_>, now: Timestamp) -> bool {
    Diagnosis::from_conditions(&machine.node.unwell, None, now).is_none()
}

fn has_rebooted(node: &NodeEntry, note: &RebootNote) -> bool {
    !node.boot_id.is_empty() && node.boot_id != note.pre_boot_id
}

fn go_on<'a>(look: &mut Look<'a>, machine: &NodeAndClaim<'a>, state: RebootState) {
    let course = Course {
        node: machine.node,
        state,
        drain: drain_of(machine, state, look.snapshot, look.now),
        well: is_well(machine, look.now),
        vetoed: find_veto(machine).is_some(),
        refused: look.memory.refused_reboots.has(&machine.claim.uid),
        now: look.now,
    };
    let step = match course.next_step() {
        Ok(step) => step,
        Err(until) => return look.look_again(Some(until)),
    };
    match &step {
        RebootStep::Drain { .. } => {
            if let Some((why, until)) = blocked::by_pods(machine, look.snapshot, look.now) {
                look.block(machine, why, until);
            }
        }
        RebootStep::End(_) => {
            look.memory.repairs.called_off(&machine.claim.uid);
            look.memory.unask(&machine.claim.uid);
        }
        _ => {}
    }
    let grace = look.claims_grace(machine);
    let step = match step {
        RebootStep::Prepare { boot_id, .. } => RebootStep::Prepare { boot_id, grace },
        step => step,
    };
    push(look, disrupted(machine), step);
}

/// The drain as the terminator would have it, but for DaemonSets' pods, which stay. Pods that come although they are told to
/// leave end with the reboot, or are waited for if they are protected.
fn drain_of(machine: &NodeAndClaim<'_>, state: RebootState, snapshot: &Snapshot, now: Timestamp) -> Drain {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    let pods: Vec<Arc<PodEntry>> = pods.filter(|pod| !pod.daemon).cloned().collect();
    let since = state.since();
    let taints = [taints::rebooting(), taints::disrupted(), taints::disruption()];
    let late = Latecomers::tolerating(&taints, &pods, since, snapshot, now);
    drain(pods, &late, None, now)
}

/// Everything that the next step of a reboot is decided by.
struct Course<'a> {
    node: &'a NodeEntry,
    state: RebootState,
    drain: Drain,
    /// True if it needs no repair.
    well: bool,
    /// True if it must not be repaired.
    vetoed: bool,
    /// True if EC2 refuses it for good.
    refused: bool,
    now: Timestamp,
}

impl Course<'_> {
    /// The next step, or the time until which there is none.
    fn next_step(&self) -> Result<RebootStep, Timestamp> {
        let is_issued = !matches!(self.state, RebootState::Requested(_));
        let Some(note) = &self.node.reboot else {
            // The Node's part is over, or has not begun.
            return Ok(match is_issued {
                true => RebootStep::End(RebootEnd::Succeeded),
                false if self.vetoed => RebootStep::End(RebootEnd::CalledOff),
                false if self.refused => RebootStep::End(RebootEnd::Refused),
                false => RebootStep::Prepare { boot_id: self.node.boot_id.clone(), grace: None },
            });
        };
        if self.node.ready && has_rebooted(self.node, note) {
            return Ok(RebootStep::End(RebootEnd::Succeeded));
        }
        match note.issued {
            // A time that is none is noted anew: nothing would ever be over.
            Some(at) if written::is_to_come(at, self.now) => Ok(RebootStep::Note),
            None if is_issued => Ok(RebootStep::Note),
            Some(at) => self.after_note(at.min(self.now), is_issued, has_rebooted(self.node, note)),
            None => Ok(self.before_note(note.grace)),
        }
    }

    fn before_note(&self, grace: Option<SignedDuration>) -> RebootStep {
        let since = self.state.since();
        let drained_by = later(since, LONGEST_PLACE_WAIT);
        if self.vetoed {
            return RebootStep::End(RebootEnd::CalledOff);
        }
        if self.refused {
            return RebootStep::End(RebootEnd::Refused);
        }
        // Pods that are left at the bound stay, and start anew with the node.
        let is_drained = self.drain.waiting.is_empty() && self.now >= later(since, LEAST_DRAIN);
        if is_drained || grace.is_some_and(|grace| self.now >= later(since, grace)) {
            return RebootStep::Note;
        }
        // Those that are ending have a bound of their own.
        if self.now >= drained_by && self.drain.waiting.iter().any(|pod| !pod.deleting) {
            return RebootStep::End(RebootEnd::Undrained);
        }
        RebootStep::Drain { evict: self.drain.evict.clone() }
    }

    /// From the time at which the call is noted. EC2 is asked as long as the boot ID is the old one.
    fn after_note(&self, at: Timestamp, is_issued: bool, has_rebooted: bool) -> Result<RebootStep, Timestamp> {
        let back_by = later(at, BACK_WITHIN);
        if self.now >= back_by {
            let none_needed = self.node.ready && (self.well || self.vetoed);
            return Ok(RebootStep::End(if none_needed { RebootEnd::CalledOff } else { RebootEnd::Failed }));
        }
        if is_issued || has_rebooted {
            return Err(back_by);
        }
        if self.vetoed {
            // An answer of EC2 may have been lost.
            let down_by = later(at, GONE_DOWN_WITHIN);
            return if self.now >= down_by { Ok(RebootStep::End(RebootEnd::CalledOff)) } else { Err(down_by) };
        }
        Ok(if self.refused { RebootStep::End(RebootEnd::Refused) } else { RebootStep::Call })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::names::annotations::{REBOOT_GRACE, REBOOT_ISSUED, REBOOT_PRE_BOOT_ID};
    use serde_json::{Value, json};

    use super::*;

    /// A Node with that boot ID and these annotations, Ready or not; its storage is not, if it is sick.
    fn machine(boot: &str, annotations: Value, ready: bool) -> NodeEntry {
        let node = json!({"metadata": {"name": "n", "uid": "uid-n", "annotations": annotations},
            "status": {"nodeInfo": {"bootID": boot, "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": ""}, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        NodeEntry::from_kube(&serde_json::from_value(node).unwrap())
    }

    fn pod() -> Arc<PodEntry> {
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running"}});
        Arc::new(PodEntry::as_it_is(&serde_json::from_value(pod).unwrap()))
    }

    /// The step of a node whose reboot is `vetoed`, and `refused`.
    fn step_of(
        node: &NodeEntry,
        state: RebootState,
        pods: &[Arc<PodEntry>],
        (vetoed, refused): (bool, bool),
        now: Timestamp,
    ) -> Result<RebootStep, Timestamp> {
        let drain = drain(pods.to_vec(), &Latecomers::default(), None, now);
        Course { node, state, drain, well: vetoed, vetoed, refused, now }.next_step()
    }

    #[test]
    fn a_time_of_the_call_that_is_none_is_noted_anew() {
        let zero: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let (requested, issued) = (RebootState::Requested(zero), RebootState::Issued(zero));
        let noted = |text: &str| machine("b-1", json!({REBOOT_PRE_BOOT_ID: "b-1", REBOOT_ISSUED: text}), true);
        for (text, state) in [("2999-01-01T00:00:00Z", requested), ("2999-01-01T00:00:00Z", issued), ("soon", issued)] {
            let step = step_of(&noted(text), state, &[], (false, false), zero);
            assert_eq!(step, Ok(RebootStep::Note), "{text} {state:?}");
        }
        let ahead = later(zero, SignedDuration::from_secs(30)).to_string();
        assert_eq!(step_of(&noted(&ahead), issued, &[], (false, false), zero), Err(later(zero, BACK_WITHIN)));
    }

    #[test]
    fn a_reboot_that_ec2_refuses_fails_at_once() {
        let zero: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let (requested, refused) = (RebootState::Requested(zero), Ok(RebootStep::End(RebootEnd::Refused)));
        let called = json!({REBOOT_PRE_BOOT_ID: "b-1", REBOOT_ISSUED: zero.to_string()});
        for annotations in [json!({}), json!({REBOOT_PRE_BOOT_ID: "b-1"}), called.clone()] {
            let node = machine("b-1", annotations, true);
            assert_eq!(step_of(&node, requested, &[pod()], (false, true), zero), refused);
        }
        let on_its_way = step_of(&machine("b-1", called, true), RebootState::Issued(zero), &[], (false, true), zero);
        assert_eq!(on_its_way, Err(later(zero, BACK_WITHIN)), "EC2 has taken this one");
        let mut known = RefusedReboots::default();
        let of = |uid: &str| DisruptedClaim {
            claim: "c".into(),
            uid: uid.into(),
            pool: "p".into(),
            node: "n".into(),
            node_uid: "uid-n".into(),
            pods: 0,
        };
        known.note(&of("uid-1"), false);
        assert!(known.has("uid-1") && !known.has("uid-2"));
        known.note(&of("uid-2"), true);
        known.retain(|uid, _| uid != "uid-1");
        assert!(known.has("uid-3"), "none is rebooted in this term");
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
        let drain = || Ok(RebootStep::Drain { evict: vec![pod()] });
        let end = |end| Ok(RebootStep::End(end));
        let sick = |state, boot, annotations: &Value, ready, pods: &[_], now| {
            let node = machine(boot, annotations.clone(), ready);
            [false, true].map(|vetoed| step_of(&node, state, pods, (vetoed, false), minute(now)))
        };
        let none = json!({});
        let off = end(RebootEnd::CalledOff);
        assert_eq!(sick(requested, "b-1", &none, true, &[pod()], 0), [Ok(prepare), off.clone()]);
        assert_eq!(sick(requested, "b-1", &noted, true, &[pod()], 9), [drain(), off.clone()]);
        assert_eq!(sick(requested, "b-1", &noted, true, &[pod()], 10), [end(RebootEnd::Undrained), off.clone()]);
        assert_eq!(sick(requested, "b-1", &bounded, true, &[pod()], 1)[0], drain());
        assert_eq!(
            sick(requested, "b-1", &bounded, true, &[pod()], 2)[0],
            Ok(RebootStep::Note),
            "it stays on the node"
        );
        assert_eq!(sick(requested, "b-1", &noted, true, &[], 9), [Ok(RebootStep::Note), off.clone()]);
        let call = Ok(RebootStep::Call);
        assert_eq!(
            sick(requested, "b-1", &called, true, &[], 5),
            [call.clone(), Err(minute(6))],
            "it may be under way"
        );
        assert_eq!(sick(requested, "b-1", &called, true, &[], 6), [call, off.clone()]);
        let waits = Err(minute(25));
        assert_eq!(sick(requested, "b-2", &called, false, &[], 6)[0], waits, "it is not called a second time");
        assert_eq!(sick(issued, "b-1", &called, true, &[], 6)[0], waits, "it has not gone down yet");
        assert_eq!(sick(issued, "b-2", &called, false, &[], 6)[0], waits, "it has come up and is not Ready");
        assert_eq!(sick(issued, "", &called, true, &[], 6)[0], waits, "a Node without a boot ID proves nothing");
        for state in [requested, issued] {
            assert_eq!(sick(state, "b-2", &called, true, &[], 6)[0], end(RebootEnd::Succeeded));
            assert_eq!(sick(state, "b-1", &called, true, &[], 25), [end(RebootEnd::Failed), off.clone()], "{state:?}");
            assert_eq!(sick(state, "b-1", &called, false, &[], 25)[1], end(RebootEnd::Failed), "it is not Ready");
        }
        assert_eq!(
            sick(issued, "b-2", &none, true, &[], 6)[0],
            end(RebootEnd::Succeeded),
            "the claim is left to write"
        );
    }
}
