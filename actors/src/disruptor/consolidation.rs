//! Consolidation is asked what it would do, and what follows: what it finds is looked at again after a while, on the newest
//! snapshot and for the same nodes alone, and then done (core spec 5.8). When is for `Rhythm` and `WaitingCommands` to say. Nothing
//! of it holds up a look: it is computed where packings are, one question at a time, and waiting is an alarm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{Moment, PlanningInput, Snapshot};
use dovetail_core::disruption::commands::{
    CommandAnswer, Demand, Question, Queue, Rhythm, StayingNode, WaitingCommand, WaitingCommands, WaitingStep,
    WantedRemoval, any_consolidates, held_by_commands, kept_by_policy,
};
use dovetail_core::disruption::methods::ConsolidationSettings;
use jiff::{SignedDuration, Timestamp};

use super::commands::FoundCommand;
use super::report::{NAMES_LISTED, claim_object, node_object};
use super::{Disruptor, POLL, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::context::solver::{Solver, consolidate};
use crate::messages::{HoldClaims, Record, TraceContext};
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// Interval at which the nodes that the pools' policies keep are determined.
const KEPT_SAID: Duration = Duration::from_secs(60);
/// Minimum time between two events that say why a node stays (core spec 7.2).
const SAID: SignedDuration = SignedDuration::from_mins(15);
/// Number of known nodes above which events older than [`SAID`] are forgotten.
const MOST_KNOWN: usize = 10_000;
/// Most nodes of one answer that get such an event.
const MOST_SAID: usize = 100;

/// State of consolidation in a term.
pub(super) struct ConsolidationState {
    pub solver: Arc<dyn Solver>,
    pub queue: Queue,
    /// Traces of the commands under way, by their numbers.
    pub traces: BTreeMap<u64, TraceContext>,
    restored: bool,
    /// A question is being computed.
    pub asking: bool,
    /// True while there may be commitments that are not known: prices alone would move pods away from what is paid for.
    pub held: bool,
    /// Schedule of the questions to the solver.
    rhythm: Rhythm,
    /// Commands that were found and wait for their validation.
    waiting: WaitingCommands,
    /// Recent resource requests of pods.
    demand: Demand,
    /// Time at which the nodes kept by the pools' policies were last determined. Monotonic.
    kept: Option<Duration>,
    /// Time and words of the last event that said why a node stays, by the uid of its claim.
    said: BTreeMap<String, (Timestamp, String)>,
}

impl ConsolidationState {
    /// State at the start of a term; a pod that was moved to save money stays for the time `rest`.
    pub fn new(solver: Arc<dyn Solver>, rest: SignedDuration) -> Self {
        Self {
            solver,
            queue: Queue::resting(rest),
            traces: BTreeMap::new(),
            restored: false,
            asking: false,
            held: false,
            rhythm: Rhythm::default(),
            waiting: WaitingCommands::default(),
            demand: Demand::default(),
            kept: None,
            said: BTreeMap::new(),
        }
    }

    pub fn changed(&mut self, now: Moment) {
        self.rhythm.changed(now);
    }

    /// Number of commands under way.
    pub fn running(&self) -> usize {
        self.queue.running().len()
    }
}

impl Disruptor {
    /// Takes over what an earlier leader has begun.
    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        if std::mem::replace(&mut self.consolidation.restored, true) {
            return;
        }
        let commands = held_by_commands(snapshot);
        let claims: Vec<String> =
            commands.iter().flat_map(|one| &one.wanted.claims).map(|claim| claim.claim.clone()).collect();
        if !claims.is_empty() {
            self.env.post(&self.links.cluster, HoldClaims { term: self.env.term, claims, held: true });
        }
        self.consolidation.queue.restore(commands);
    }

    /// Asks what is due; answers when to look again.
    pub(super) fn weigh(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) -> Duration {
        let known = self.offers.values().any(|types| !types.is_empty());
        if self.consolidation.asking || self.consolidation.held || !known {
            return POLL;
        }
        let now = self.env.moment();
        let waits = match self.consolidation.waiting.next(snapshot, now) {
            WaitingStep::Validate(command) => {
                self.ask(snapshot, Some(command), ctx);
                return POLL;
            }
            WaitingStep::Wait(left) => left,
            WaitingStep::Nothing => POLL,
        };
        if !any_consolidates(snapshot) {
            if self.consolidation.kept.is_none_or(|kept| now.monotonic.saturating_sub(kept) >= KEPT_SAID) {
                self.consolidation.kept = Some(now.monotonic);
                self.say_what_stays(&kept_by_policy(snapshot, &self.rules(), now));
            }
            return waits;
        }
        let left = self.consolidation.rhythm.due().saturating_sub(now.monotonic);
        if !left.is_zero() {
            return left.min(waits);
        }
        self.consolidation.rhythm.asks(now);
        self.consolidation.demand.observe(snapshot, now);
        self.ask(snapshot, None, ctx);
        POLL
    }

    /// Asks about all nodes, or again about those of a command that has waited.
    fn ask(&mut self, snapshot: &Snapshot, again: Option<WaitingCommand>, ctx: &mut Context<Self>) {
        let begun = self.env.moment();
        let blind = again.as_ref().map(|one| one.blind);
        let uids = again.as_ref().map(|one| one.wanted.claims.iter().map(|claim| claim.uid.clone()).collect());
        let question = Question { blind, ..self.question(snapshot, uids) };
        self.consolidation.asking = true;
        let computing = consolidate(self.consolidation.solver.clone(), question).into_actor(self);
        ctx.spawn(computing.map(move |answer, disruptor, ctx| {
            let now = disruptor.env.moment();
            let state = &mut disruptor.consolidation;
            state.asking = false;
            state.rhythm.computed(begun, now);
            match answer {
                Err(error) => {
                    state.rhythm.failed(now);
                    state.waiting.found_nothing();
                    disruptor.env.emit(LogEvent::ConsolidationFailed { error: error.to_string() });
                }
                Ok(answer) if disruptor.links.calls.may_act() => match again {
                    None => disruptor.answered(&answer),
                    Some(command) => disruptor.validated(answer, command, ctx),
                },
                Ok(_) => {}
            }
            // A waiting command may be due, and so may a question that was put off for this one.
            disruptor.look_in(SETTLING_TIME, ctx);
        }));
    }

    /// Input of packing.
    pub(super) fn planning_input(&self) -> PlanningInput {
        let (instance_types, commitments) = (self.offers.clone(), self.commitments.clone());
        PlanningInput { instance_types, commitments, ..self.env.planning_input() }
    }

    fn rules(&self) -> ConsolidationSettings {
        let settings = &self.env.settings;
        let many_to_many = settings.many_to_many();
        ConsolidationSettings {
            many_to_many,
            max_option_price: settings.max_option_price,
            ..settings.churn.rules(settings.price_per_node, settings.spot_to_spot())
        }
    }

    fn question(&self, snapshot: &Snapshot, only: Option<BTreeSet<String>>) -> Question {
        let now = self.env.moment();
        let queue = &self.consolidation.queue;
        Question {
            snapshot: snapshot.clone(),
            input: self.planning_input(),
            settings: self.consolidation.demand.adapted(ConsolidationSettings {
                price_moves: ConsolidationSettings::price_moves_within(
                    snapshot.claims.len(),
                    self.env.settings.churn.price_moves,
                )
                .saturating_sub(queue.price_moves()),
                ..self.rules()
            }),
            moved: queue.moved(),
            spare: self.consolidation.demand.spare(),
            refused: queue.refused(snapshot, now.wall),
            kept_slots: self.memory.kept_slots(),
            reserved_lately: queue.reserved_lately(),
            asked: self.about_to_go(),
            waiting: self.consolidation.waiting.commands().to_vec(),
            only,
            blind: None,
            now,
        }
    }

    /// The question about all nodes has this answer.
    fn answered(&mut self, answer: &CommandAnswer) {
        let (now, state) = (self.env.moment(), &mut self.consolidation);
        state.demand.answered(answer, &state.waiting, now);
        match &answer.command {
            Some(command) => {
                state.rhythm.found();
                state.waiting.found(command, &answer.planning, now);
            }
            None => state.waiting.found_nothing(),
        }
        self.say_what_stays(&answer.stays);
    }

    /// A command that has waited is begun as it comes out now, or is dropped.
    fn validated(&mut self, answer: CommandAnswer, waited: WaitingCommand, ctx: &mut Context<Self>) {
        // The outcome decides when the next question is due.
        self.consolidation.changed(self.env.moment());
        let CommandAnswer { snapshot, planning, command, .. } = answer;
        if let Some(command) = command {
            return self.begin(FoundCommand { snapshot, planning, command }, ctx);
        }
        let WantedRemoval { claims, method, .. } = waited.wanted;
        self.env.measure(&Measure::ValidationFailed { consolidation_type: method });
        for claim in &claims {
            self.record(claim, "ConsolidationRejected", "Not consolidated: the command is no longer valid");
        }
        let node_claims = Names::first(NAMES_LISTED, claims.iter().map(|claim| claim.claim.clone()));
        self.env.emit(LogEvent::ConsolidationRejected { nodes: claims.len(), node_claims });
    }

    /// Says of nodes that stay what stands in the way: when it is another thing than before, and now and then at most.
    pub(super) fn say_what_stays(&mut self, stays: &[StayingNode]) {
        let now = self.env.wall();
        let said = &mut self.consolidation.said;
        if said.len() > MOST_KNOWN {
            said.retain(|_, (when, _)| now.duration_since(*when) < SAID);
        }
        let mut count = 0;
        for StayingNode { node, why, blocked } in stays {
            let known = said.get(&node.uid);
            if known.is_some_and(|(when, before)| before == why || now.duration_since(*when) < SAID) {
                continue;
            }
            count += 1;
            if count > MOST_SAID {
                break;
            }
            said.insert(node.uid.clone(), (now, why.clone()));
            let (reason, message) = match blocked {
                true => ("DisruptionBlocked", format!("Cannot disrupt: {why}")),
                false => ("Unconsolidatable", format!("Not consolidated: {why}")),
            };
            for object in [node_object(&node.node, &node.node_uid), claim_object(&node.claim, &node.uid)] {
                self.env.post(&self.links.recorder, Record::normal(object, reason, &*message));
            }
            let (node, node_claim, why) = (node.node.clone(), node.claim.clone(), why.clone());
            self.env.emit(match blocked {
                true => LogEvent::DisruptionBlocked { node, node_claim, why },
                false => LogEvent::Unconsolidatable { node, node_claim, why },
            });
        }
    }
}
