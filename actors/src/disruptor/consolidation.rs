//! When consolidation is asked what it would do, and what follows: what it finds is looked at again after a while, on the newest
//! snapshot and for the same nodes alone, and then done (core spec 5.8). Nothing of it holds up a look: it is computed where packings
//! are, one question at a time, and waiting is an alarm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{PlanningInput, Snapshot};
use dovetail_core::disruption::DisruptedClaim;
use dovetail_core::disruption::commands::{
    CommandAnswer, DisruptionCommand, Question, Queue, StayingNode, any_consolidates, held_by_commands, kept_by_policy,
};
use dovetail_core::disruption::methods::ConsolidationSettings;
use jiff::{SignedDuration, Timestamp};

use super::commands::FoundCommand;
use super::report::{NAMES_LISTED, claim_object, node_object};
use super::{Disruptor, POLL};
use crate::context::solver::{Solver, consolidate};
use crate::messages::{HoldClaims, Record, TraceContext};
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// Consolidation is asked this often at most (core spec 5.1).
const PAUSE: Duration = Duration::from_secs(10);
/// And this often while nothing changes: time alone lets nodes go.
const IDLE: Duration = Duration::from_secs(60);
/// After an answer that took long it is not asked for so many times as long; after none for the longest rest.
const REST: u32 = 10;
/// But for no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// What is found is looked at again after this (core spec 5.8).
const VALIDATION: Duration = Duration::from_secs(15);
/// Of a node it is said this often at most what stands in the way (core spec 7.2).
const SAID: SignedDuration = SignedDuration::from_mins(15);
/// What was said longer ago is forgotten where more nodes are known.
const MOST_KNOWN: usize = 10_000;
/// Of so many nodes in one answer.
const MOST_SAID: usize = 100;

/// What is known of consolidation in a term.
pub(super) struct ConsolidationState {
    pub solver: Arc<dyn Solver>,
    pub queue: Queue,
    /// Traces of the commands under way, by their numbers.
    pub traces: BTreeMap<u64, TraceContext>,
    restored: bool,
    /// A question is being computed.
    pub asking: bool,
    /// Something has changed since it was last asked.
    news: bool,
    /// Before this it is not asked again. Monotonic time.
    next: Duration,
    /// What was found, by the uids of its claims, and when it is looked at again.
    found: Option<(Vec<DisruptedClaim>, &'static str, Duration)>,
    /// What was last said to stand in the way, by the uid of the claim.
    said: BTreeMap<String, (Timestamp, String)>,
}

impl ConsolidationState {
    /// Nothing yet; a pod that was moved to save money rests for so long.
    pub fn new(solver: Arc<dyn Solver>, rest: SignedDuration) -> Self {
        Self {
            solver,
            queue: Queue::resting(rest),
            traces: BTreeMap::new(),
            restored: false,
            asking: false,
            news: true,
            next: Duration::ZERO,
            found: None,
            said: BTreeMap::new(),
        }
    }

    /// The cluster has changed.
    pub fn changed(&mut self) {
        self.news = true;
    }

    /// How many commands are under way.
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
        if self.consolidation.asking || !known {
            return POLL;
        }
        let now = self.env.now();
        if !any_consolidates(snapshot) {
            if self.consolidation.next <= now {
                self.consolidation.next = now + IDLE;
                self.say_what_stays(&kept_by_policy(snapshot, &self.rules(), self.env.moment()));
            }
            return POLL;
        }
        if let Some((_, _, due)) = &self.consolidation.found {
            if let Some(left) = due.checked_sub(now).filter(|left| !left.is_zero()) {
                return left;
            }
            if let Some((claims, method, _)) = self.consolidation.found.take() {
                self.ask(snapshot, Some((claims, method)), ctx);
            }
            return POLL;
        }
        let due = self.consolidation.next + if self.consolidation.news { Duration::ZERO } else { IDLE - PAUSE };
        if let Some(left) = due.checked_sub(now).filter(|left| !left.is_zero()) {
            return left;
        }
        self.consolidation.news = false;
        self.ask(snapshot, None, ctx);
        POLL
    }

    fn ask(&mut self, snapshot: &Snapshot, only: Option<(Vec<DisruptedClaim>, &'static str)>, ctx: &mut Context<Self>) {
        let begun = self.env.now();
        let uids = only.as_ref().map(|(claims, _)| claims.iter().map(|claim| claim.uid.clone()).collect());
        let question = self.question(snapshot, uids);
        self.consolidation.asking = true;
        let computing = consolidate(self.consolidation.solver.clone(), question).into_actor(self);
        ctx.spawn(computing.map(move |answer, disruptor, ctx| {
            let now = disruptor.env.now();
            let rest = (now.saturating_sub(begun) * REST).clamp(PAUSE, LONGEST_REST);
            disruptor.consolidation.asking = false;
            disruptor.consolidation.next = now + rest;
            match answer {
                Err(error) => {
                    disruptor.consolidation.next = now + LONGEST_REST;
                    disruptor.env.emit(LogEvent::ConsolidationFailed { error: error.to_string() });
                }
                Ok(answer) if disruptor.links.calls.may_act() => disruptor.answered(answer, only, ctx),
                Ok(_) => {}
            }
        }));
    }

    /// What packing is asked with.
    pub(super) fn planning_input(&self) -> PlanningInput {
        let (settings, now) = (&self.env.settings, self.env.moment());
        PlanningInput {
            instance_types: self.offers.clone(),
            preferences: settings.preferences,
            min_values: settings.min_values,
            policy: settings.policy,
            default_spread: settings.default_spread.clone(),
            now,
            only: None,
        }
    }

    /// The rules that the settings give consolidation.
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
            settings: ConsolidationSettings {
                price_moves: ConsolidationSettings::price_moves_within(
                    snapshot.claims.len(),
                    self.env.settings.churn.price_moves,
                )
                .saturating_sub(queue.price_moves()),
                ..self.rules()
            },
            moved: queue.moved(),
            refused: queue.refused(snapshot, now.wall),
            asked: self.about_to_go(),
            only,
            now,
        }
    }

    fn answered(
        &mut self,
        answer: CommandAnswer,
        only: Option<(Vec<DisruptedClaim>, &'static str)>,
        ctx: &mut Context<Self>,
    ) {
        let Some((wanted, method)) = only else {
            self.say_what_stays(&answer.stays);
            let Some(command) = answer.command else { return };
            let DisruptionCommand { wanted, .. } = command;
            let due = self.env.now() + VALIDATION;
            self.consolidation.found = Some((wanted.claims, wanted.method, due));
            return self.look_in(VALIDATION, ctx);
        };
        // What has come of it is for the next question.
        self.consolidation.news = true;
        let CommandAnswer { snapshot, planning, command, .. } = answer;
        if let Some(command) = command {
            return self.begin(FoundCommand { snapshot, planning, command }, ctx);
        }
        self.env.measure(&Measure::ValidationFailed { consolidation_type: method });
        for claim in &wanted {
            self.record(claim, "ConsolidationRejected", "Not consolidated: what was found is no longer so");
        }
        let node_claims = Names::first(NAMES_LISTED, wanted.iter().map(|claim| claim.claim.clone()));
        self.env.emit(LogEvent::ConsolidationRejected { nodes: wanted.len(), node_claims });
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
