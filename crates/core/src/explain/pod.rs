//! Answers about a pod: why it waits, and what would let it run.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use serde::Serialize;

use super::ExplainInput;
use super::change::Suggestion;
use super::claim::pending_step;
use super::outcome::Placement;
use super::suggest::suggest;
use super::words::why_not;
use crate::cluster_state::{ClaimEntry, NominationTarget, Planning, PlanningInput, PodEntry};
use crate::pack::{PoolReason, Reason};
use crate::pod_groups::pack_gangs;
use crate::problem::Problem;

/// A place that an event says a pod is nominated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NominatedTo {
    /// Name of the NodeClaim.
    pub claim: String,
    /// Time of the first such event.
    pub since: Timestamp,
}

/// A pod's state, as far as nodes are concerned.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PodVerdict {
    /// It is bound to a node.
    Bound { node: String },
    /// It has ended, or is being deleted.
    Over,
    /// It waits for something else than a node.
    NotForNodes,
    /// It has a place, on a node that is there or to be launched.
    Placed { place: Placement },
    /// It gets no node.
    Unschedulable,
}

/// The claim whose node a pod waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedClaim {
    pub claim: String,
    /// Time since which the pod waits for it.
    pub since: Option<Timestamp>,
    /// The step that the claim waits for, as a sentence.
    pub waits_for: String,
}

/// The answer about a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAnswer {
    /// Namespace and name, with a slash between.
    pub pod: String,
    pub verdict: PodVerdict,
    /// The verdict as a sentence without its end; for a pod without a node the words of its event `FailedScheduling`.
    pub sentence: String,
    /// The rule that keeps it off each pool, the nearest first.
    pub pools: Vec<PoolReason>,
    /// The remedy that the event names; empty where there is none.
    pub remedy: String,
    /// Changes that let it run by trial, the smallest.
    pub changes: Vec<Suggestion>,
    pub waits_for: Option<AwaitedClaim>,
    pub created: Option<Timestamp>,
    /// The message of kube-scheduler.
    pub scheduler: Option<String>,
}

/// Explains a pod. `nominated` is what its events say.
#[must_use]
pub fn explain_pod(input: &ExplainInput<'_>, pod: &KubePod, nominated: Option<&NominatedTo>) -> PodAnswer {
    let entry = PodEntry::as_it_is(pod);
    let known = input.snapshot.pods.get(&entry.pod.uid).map_or(&entry, AsRef::as_ref);
    answer(input, Some(pod), known, nominated)
}

/// Explains a pod of the snapshot as far as that is kept, for a control plane that asks nobody; `None` if there is none of that
/// name. Scheduling gates and other schedulers are not told apart.
#[must_use]
pub fn explain_known_pod(input: &ExplainInput<'_>, namespace: &str, name: &str) -> Option<PodAnswer> {
    let own = |entry: &&std::sync::Arc<PodEntry>| entry.pod.name == name && entry.pod.namespace == namespace;
    let entry = input.snapshot.pods.values().find(own)?;
    Some(answer(input, None, entry, None))
}

fn answer(
    input: &ExplainInput<'_>,
    pod: Option<&KubePod>,
    entry: &PodEntry,
    nominated: Option<&NominatedTo>,
) -> PodAnswer {
    if let Some((verdict, sentence)) = before_packing(input, pod, entry) {
        return PodAnswer { verdict, sentence, ..blank(entry) };
    }
    // A place that the control plane has in mind already is planned no more.
    let expected = input.snapshot.expected_on(&entry.pod.uid, input.planning.now);
    let Some(NominationTarget::Claim(node) | NominationTarget::Node(node)) = expected else {
        return packed(input, entry, nominated);
    };
    let place = Placement::Existing { node: node.clone() };
    let sentence = format!("{}{}", place.sentence(), gang_note(input, entry));
    let waits_for = awaited(input, Some(node), nominated);
    PodAnswer { verdict: PodVerdict::Placed { place }, sentence, waits_for, ..blank(entry) }
}

fn blank(entry: &PodEntry) -> PodAnswer {
    PodAnswer {
        pod: format!("{}/{}", entry.pod.namespace, entry.pod.name),
        verdict: PodVerdict::NotForNodes,
        sentence: String::new(),
        pools: vec![],
        remedy: String::new(),
        changes: vec![],
        waits_for: None,
        created: entry.pod.created,
        scheduler: entry.words.clone(),
    }
}

/// The verdict on a pod that packing is not asked about.
fn before_packing(input: &ExplainInput<'_>, pod: Option<&KubePod>, entry: &PodEntry) -> Option<(PodVerdict, String)> {
    if entry.terminal {
        return Some((PodVerdict::Over, "it has ended".into()));
    }
    if !entry.node_name.is_empty() {
        let node = entry.node_name.clone();
        let leaves = if input.snapshot.deleting.nodes.contains(&node) { ", which is going" } else { "" };
        let refused = entry.refused.as_ref().map(|why| format!("; its kubelet did not let it run: {why}"));
        let unread = entry.spot_share.wrong().map(|why| format!("; {why}"));
        let sentence =
            format!("it is on node {node}{leaves}{}{}", refused.unwrap_or_default(), unread.unwrap_or_default());
        return Some((PodVerdict::Bound { node }, sentence));
    }
    if entry.deleting {
        return Some((PodVerdict::Over, "it is being deleted".into()));
    }
    other_wait(input, pod, entry).map(|sentence| (PodVerdict::NotForNodes, sentence))
}

/// The thing other than a node that a pod without a node waits for.
fn other_wait(input: &ExplainInput<'_>, pod: Option<&KubePod>, entry: &PodEntry) -> Option<String> {
    let spec = pod.and_then(|pod| pod.spec.as_ref());
    if entry.unreadable {
        return Some("it cannot be read: no node is planned for it".into());
    }
    if entry.daemon || entry.mirror {
        return Some("it belongs to its node: no node is launched for a DaemonSet's pod or a static pod".into());
    }
    let gates = spec.and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
    if !gates.is_empty() {
        let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
        return Some(format!("it waits for its scheduling gates to be removed: {}", names.join(", ")));
    }
    if entry.provisionable {
        let node = entry.nominated.as_ref().filter(|_| input.snapshot.is_made_room_for(entry))?;
        return Some(format!("kube-scheduler makes room for it on node {node} by preemption"));
    }
    if input.snapshot.pod_group_of(entry).is_some() && entry.group.as_ref().is_some_and(|own| own.may_wait) {
        // Its scheduler holds it, and says so of others of its group at most.
        return None;
    }
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref()).filter(|name| *name != "default-scheduler");
    if let Some(name) = scheduler {
        return Some(format!("its scheduler, {name}, has not said that it finds no node"));
    }
    if pod.is_none() && !entry.unmarked {
        return Some("no scheduler has said that it finds no node for it; it may have scheduling gates".into());
    }
    (!entry.unmarked).then(|| "kube-scheduler has not said that it finds no node for it".into())
}

/// The end of a sentence that names the PodGroup of a pod, if it is in one that is followed.
fn gang_note(input: &ExplainInput<'_>, entry: &PodEntry) -> String {
    let group = input.snapshot.pod_group_of(entry);
    group.map(|key| format!("; it is in PodGroup {key}, whose pods get nodes together")).unwrap_or_default()
}

/// The answer by packing, with all other pods that wait.
fn packed(input: &ExplainInput<'_>, entry: &PodEntry, nominated: Option<&NominatedTo>) -> PodAnswer {
    let uid = entry.pod.uid.as_str();
    let mut planning = plan_with(input, uid);
    let solve = |problem: &Arc<Problem>| (problem.clone(), (input.solve)(problem, input.options));
    let (problem, packing) = pack_gangs(&planning.gangs, &planning.problem, solve);
    planning.problem = problem;
    let problem = &planning.problem;
    let Some(pod) = problem.pods.iter().position(|pod| pod.uid == uid) else {
        let sentence = format!("it is not among the pods that are planned for now{}", gang_note(input, entry));
        return PodAnswer { waits_for: awaited(input, None, nominated), sentence, ..blank(entry) };
    };
    if let Some(place) = Placement::for_pod(problem, &packing, pod) {
        let node = match &place {
            Placement::Existing { node } => Some(node.as_str()),
            Placement::New { .. } => None,
        };
        let waits_for = awaited(input, node, nominated);
        let sentence = format!("{}{}", place.sentence(), gang_note(input, entry));
        return PodAnswer { verdict: PodVerdict::Placed { place }, sentence, waits_for, ..blank(entry) };
    }
    let none = Reason::PackingFailed { error: "packing says nothing of it".to_owned() };
    let found = packing.unscheduled.iter().find(|(at, _)| *at == pod);
    let reason = found.map_or(&none, |(_, reason)| reason.as_ref());
    let held = planning.held.get(uid);
    let pools = match reason {
        Reason::NoPoolFits { pools } => pools.clone(),
        _ => vec![],
    };
    PodAnswer {
        verdict: PodVerdict::Unschedulable,
        sentence: held.cloned().unwrap_or_else(|| why_not(&problem.pods[pod], reason, &planning)),
        remedy: if held.is_some() { String::new() } else { reason.remedy().to_owned() },
        changes: if held.is_some() { vec![] } else { suggest(input, problem, pod, reason) },
        pools,
        waits_for: awaited(input, None, nominated),
        ..blank(entry)
    }
}

/// The planning of all pods that wait, and of this one, which kube-scheduler may not have marked yet.
fn plan_with(input: &ExplainInput<'_>, uid: &str) -> Planning {
    let waiting = input.snapshot.unbound().filter(|entry| entry.provisionable);
    let mut only: BTreeSet<String> = waiting.map(|entry| entry.pod.uid.clone()).collect();
    only.insert(uid.to_owned());
    input.snapshot.planning(&PlanningInput { only: Some(only.into()), whole_gangs: true, ..input.planning.clone() })
}

/// The claim that a pod waits for: the one that its event names, else the one that packing puts it on.
fn awaited(input: &ExplainInput<'_>, place: Option<&str>, nominated: Option<&NominatedTo>) -> Option<AwaitedClaim> {
    let claims = &input.snapshot.claims;
    let named = nominated.and_then(|one| Some((claims.get(&one.claim)?, Some(one.since))));
    let placed = || {
        let own = |entry: &&std::sync::Arc<ClaimEntry>| {
            let facts = &entry.facts;
            facts.initialized.is_none() && place.is_some_and(|place| facts.name == place || facts.node == place)
        };
        claims.values().find(own).map(|entry| (entry, entry.facts.created))
    };
    let (entry, since) = named.or_else(placed)?;
    Some(AwaitedClaim { claim: entry.facts.name.clone(), since, waits_for: pending_step(&entry.claim) })
}
