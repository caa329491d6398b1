//! Commands are begun and carried on: the claims are held, what is launched in their stead comes first, and they are removed when
//! it is initialized. What comes next is decided by `dovetail_core::disruption::commands`.

use std::collections::{BTreeMap, BTreeSet};

use actix::prelude::*;
use dovetail_api::v1::{ConsolidationPolicy, NodeClaim};
use dovetail_core::Resources;
use dovetail_core::cluster_state::{NominationTarget, Planning, Snapshot};
use dovetail_core::disruption::commands::{CommandStep, DisruptionCommand, Ended, HeldClaim, Running, WantedRemoval};
use dovetail_core::disruption::{DisruptedClaim, RemovalReason};
use kube::ResourceExt;

use super::report::{NAMES_LISTED, claim_object};
use super::{Disruptor, writes};
use crate::context::plan::{Plans, request_drivers};
use crate::context::traces;
use crate::messages::{
    ClaimRef, DisruptionFacts, HoldClaims, LaunchClaims, LaunchOrder, PlanClaims, Record, Remove, TraceContext, Wrote,
};
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// The replacements of nodes: the order to the launcher, the claims for the cluster state, and the pods expected there.
#[derive(Default)]
struct Replacements {
    orders: Vec<LaunchOrder>,
    planned: Vec<(NodeClaim, Resources)>,
    expected: Vec<(Vec<String>, NominationTarget)>,
}

/// A command that is found, and the cluster that it is about.
pub(super) struct FoundCommand {
    pub snapshot: Snapshot,
    pub planning: Planning,
    pub command: DisruptionCommand,
}

impl Disruptor {
    pub(super) fn begin(&mut self, answer: FoundCommand, ctx: &mut Context<Self>) {
        let command = &answer.command;
        // It was computed for a while: what goes by now goes without this, and may have used the budget up.
        let going = self.about_to_go();
        let goes = command.wanted.claims.iter().any(|claim| going.contains(&claim.uid));
        if goes || !command.wanted.within_budgets(&answer.snapshot, &going, self.env.wall()) {
            return;
        }
        let trace = TraceContext::root(&mut self.rng);
        let replacements = self.replacements(&answer, command, trace);
        if replacements.orders.len() != command.replacements.len() {
            return;
        }
        // A claim that is on its way for other pods and takes some of these is waited for as well.
        let coming = command.on_existing.iter().map(|(node, _)| &answer.planning.existing[*node]);
        let coming = coming.filter(|node| !node.initialized).filter_map(|node| node.claim_name().map(str::to_owned));
        let names: Vec<String> = replacements.orders.iter().map(|order| order.claim.name_any()).chain(coming).collect();
        let now = self.env.wall();
        let id = self.consolidation.queue.begin(command, names.clone(), &answer.snapshot, now);
        self.consolidation.traces.insert(id, trace);
        self.tell_command(command, trace);
        let on_existing = command.on_existing.iter();
        let expected = on_existing.map(|(node, pods)| (pods.clone(), answer.planning.existing[*node].target()));
        let (term, cluster) = (self.env.term, &self.links.cluster);
        self.env.post(cluster, HoldClaims { term, claims: names_of(&command.wanted.claims), held: true });
        // Before anything else is planned: nothing is planned twice, and pools' limits know of it.
        let Replacements { orders, planned, expected: on_new } = replacements;
        self.env.post(cluster, PlanClaims { term, claims: planned, expected: expected.chain(on_new).collect() });
        if names.is_empty() {
            return self.remove_claims(&command.wanted, true, trace, &answer.snapshot);
        }
        // Queued writes of earlier looks would undo this command's writes.
        let objects: BTreeSet<String> = command.wanted.claims.iter().flat_map(objects_of).collect();
        self.queue.retain(|write| !objects.contains(&write.object()));
        let held = command.wanted.claims.iter().filter_map(|claim| {
            let there = answer.snapshot.claims.get(&claim.claim)?.claim.clone();
            let reason = command.wanted.reason;
            let held =
                HeldClaim { claim: claim.claim.clone(), uid: claim.uid.clone(), reason, replacements: names.clone() };
            Some((there, held, claim.node.clone(), claim.node_uid.clone()))
        });
        let writing = writes::hold(self.links.clone(), held.collect(), now).into_actor(self);
        let snapshot = answer.snapshot.clone();
        ctx.spawn(writing.map(move |written, disruptor, _| match written {
            Ok(()) => disruptor.launch(id, orders, trace),
            Err(error) => {
                disruptor.not_made(orders);
                let step = disruptor.consolidation.queue.give_up(id, error.to_string(), disruptor.env.wall());
                step.into_iter().for_each(|step| disruptor.step(step, &snapshot));
            }
        }));
    }

    fn replacements(
        &mut self,
        answer: &FoundCommand,
        command: &DisruptionCommand,
        trace: TraceContext,
    ) -> Replacements {
        let plans = Plans::new(&answer.snapshot, &answer.planning, self.env.term);
        let mut all = Replacements::default();
        for (planned, drivers) in command.replacements.iter().zip(&command.drivers) {
            let Some(mut order) = plans.order(planned, &trace.to_string(), &mut self.rng) else { continue };
            request_drivers(&mut order.claim, drivers.iter().map(String::as_str));
            all.expected.push((plans.uids(&planned.pods), NominationTarget::Claim(order.claim.name_any())));
            all.planned.push((order.claim.clone(), plans.most_capacity(planned)));
            all.orders.push(order);
        }
        all
    }

    /// Reports that none of the planned claims is made.
    fn not_made(&self, orders: Vec<LaunchOrder>) {
        for order in orders {
            self.env.post(&self.links.cluster, Wrote::NotMade(order.claim.name_any()));
        }
    }

    /// The claims say that they are held: what is launched in their stead is.
    fn launch(&mut self, id: u64, orders: Vec<LaunchOrder>, trace: TraceContext) {
        let Some(command) = self.consolidation.queue.marked(id) else {
            return self.not_made(orders);
        };
        let term = self.env.term;
        let message = format!("Launched to replace {}: {}", in_short(&command), command.wanted.reason.label());
        for order in &orders {
            let object = claim_object(&order.claim.name_any(), "");
            self.env.post(&self.links.recorder, Record::normal(object, "DisruptionLaunching", &*message));
        }
        let message = format!("Waiting for its replacement {} to be initialized", command.replacements.join(", "));
        command.wanted.claims.iter().for_each(|claim| self.record(claim, "DisruptionWaitingReadiness", &message));
        if !orders.is_empty() {
            self.env.post(&self.links.launcher, LaunchClaims { term, orders, trace });
        }
    }

    /// Claims, by uid, that are about to go for whatever reason.
    pub(super) fn about_to_go(&self) -> BTreeSet<String> {
        let mut going = self.memory.about_to_go();
        going.extend(self.consolidation.queue.held().map(str::to_owned));
        going
    }

    /// Carries on what is under way.
    pub(super) fn carry_on(&mut self, snapshot: &Snapshot) {
        self.restore(snapshot);
        let going = self.about_to_go();
        for step in self.consolidation.queue.next(snapshot, &going, self.env.wall()) {
            self.step(step, snapshot);
        }
    }

    fn step(&mut self, step: CommandStep, snapshot: &Snapshot) {
        match step {
            CommandStep::Remove(command, first) => self.remove_held(&command, first, snapshot),
            CommandStep::End(command, Ended::Done) => drop(self.consolidation.traces.remove(&command.id)),
            CommandStep::End(command, Ended::Undone(why, pause)) => {
                self.undo(&command, why, pause.as_secs());
            }
        }
    }

    fn remove_held(&mut self, command: &Running, first: bool, snapshot: &Snapshot) {
        let traces = &mut self.consolidation.traces;
        let trace = *traces.entry(command.id).or_insert_with(|| TraceContext::root(&mut self.rng));
        self.remove_claims(&command.wanted, first, trace, snapshot);
    }

    fn remove_claims(&mut self, wanted: &WantedRemoval, first: bool, trace: TraceContext, snapshot: &Snapshot) {
        let (term, reason, claims) = (self.env.term, wanted.reason, refs(&wanted.claims));
        let disrupted = facts(&wanted.claims, reason, snapshot);
        if first {
            *self.removed.entry(reason.label()).or_default() += claims.len();
        }
        self.env.post(&self.links.terminator, Remove { term, claims, reason, grace: None, disrupted, trace });
    }

    /// A command is over and its claims stay: what is written on them goes with the next look.
    fn undo(&mut self, command: &Running, why: String, pause_seconds: i64) {
        let (term, claims) = (self.env.term, names_of(&command.wanted.claims));
        self.env.post(&self.links.cluster, HoldClaims { term, claims, held: false });
        let reason = command.wanted.reason.label();
        let decision = if command.replacements.is_empty() { "delete" } else { "replace" };
        let consolidation_type = command.wanted.method;
        self.env.measure(&Measure::CommandFailed { decision, reason, consolidation_type });
        let message = format!("Not disrupted any more: {why}");
        command.wanted.claims.iter().for_each(|claim| self.record(claim, "DisruptionUndone", &message));
        let trace = self.consolidation.traces.remove(&command.id);
        let node_claims = Names::first(NAMES_LISTED, names_of(&command.wanted.claims));
        let id = trace.map(|trace| trace.trace_id()).unwrap_or_default();
        let log_event =
            LogEvent::DisruptionUndone { command: id, reason: reason.to_owned(), why, pause_seconds, node_claims };
        self.env.emit_in(log_event, trace);
    }

    fn tell_command(&self, command: &DisruptionCommand, trace: TraceContext) {
        let claims = &command.wanted.claims;
        let log_event = LogEvent::Disrupting {
            command: trace.trace_id(),
            decision: command.decision().into(),
            reason: command.wanted.reason.label().into(),
            disrupted_node_count: claims.len(),
            replacement_node_count: command.replacements.len(),
            pod_count: command.pods.len(),
            disrupted_nodes: Names::first(NAMES_LISTED, claims.iter().map(|claim| claim.node.clone())),
        };
        self.env.emit_in(log_event, trace);
        traces::command(&self.env, trace, command);
    }
}

/// Names of a claim's and its Node's objects as in [`writes::Write::object`].
fn objects_of(claim: &dovetail_core::disruption::DisruptedClaim) -> [String; 2] {
    [format!("node/{}", claim.node), format!("nodeclaim/{}", claim.claim)]
}

fn names_of(claims: &[dovetail_core::disruption::DisruptedClaim]) -> Vec<String> {
    claims.iter().map(|claim| claim.claim.clone()).collect()
}

/// Facts about claims that go, for metrics. A policy is given for consolidation alone, as in Karpenter.
pub(super) fn facts(
    claims: &[DisruptedClaim],
    reason: RemovalReason,
    snapshot: &Snapshot,
) -> BTreeMap<String, DisruptionFacts> {
    let consolidates = matches!(reason, RemovalReason::Empty | RemovalReason::Underutilized);
    let policy = |pool: &str| {
        let pool = snapshot.pools.get(pool).filter(|_| consolidates);
        pool.map_or("", |pool| policy_label(pool.spec.disruption.consolidation_policy))
    };
    let of_claim = |one: &DisruptedClaim| {
        let facts = DisruptionFacts { pods: one.pods as u64, policy: policy(&one.pool) };
        (one.claim.clone(), facts)
    };
    claims.iter().map(of_claim).collect()
}

/// Value of the label `consolidation_policy`, as Karpenter has it.
fn policy_label(policy: ConsolidationPolicy) -> &'static str {
    match policy {
        ConsolidationPolicy::WhenEmpty => "when_empty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "when_empty_or_underutilized",
        ConsolidationPolicy::Balanced => "balanced",
    }
}

pub(super) fn refs(claims: &[DisruptedClaim]) -> Vec<ClaimRef> {
    claims.iter().map(|claim| ClaimRef { name: claim.claim.clone(), uid: claim.uid.clone() }).collect()
}

fn in_short(command: &Running) -> String {
    Names::first(NAMES_LISTED, names_of(&command.wanted.claims)).to_string()
}
