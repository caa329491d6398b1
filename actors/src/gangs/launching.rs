//! Orders of a look: the nodes of the request that is tried, those that are given back, and where room is booked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{HeldRoom, NominationTarget};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::gangs::{GangOutcome, GangPlaces, claims_to_give_back, decide_gang, judge_fault};
use kube::ResourceExt;

use super::looking::{Planned, ReadRequest};
use super::{Gangs, POLL};
use crate::context::plan::Plans;
use crate::messages::{ClaimRef, LaunchClaims, PlanClaims, Record, Remove, TraceContext};
use crate::telemetry::log_event::{LogEvent, Names};

/// Most names that a log line gives.
const NAMES_LISTED: usize = 20;
/// Pause before the next look while other requests wait for their turn.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Gangs {
    /// Does what a look has found; answers when to look again. The cluster state hears of it before anything is created: the next
    /// look counts it.
    pub(super) fn act_on(&mut self, planned: Planned, ctx: &mut Context<Self>) -> Duration {
        self.templates = planned.templates.clone();
        let known: BTreeSet<String> = planned.requests.keys().cloned().collect();
        self.memory.look_back(&planned.snapshot, &known);
        let outcomes: BTreeMap<String, GangOutcome> =
            planned.requests.iter().map(|(key, one)| (key.clone(), self.decide(key, one, &planned))).collect();
        let mut room = planned.plan.held_room(|key| outcomes.get(key).is_some_and(GangOutcome::keeps_room));
        for (key, outcome) in &outcomes {
            let pods = planned.plan.gangs.get(key).filter(|_| outcome.keeps_room());
            self.memory.note_places(key, pods.map(|pods| pods.places.clone()).unwrap_or_default());
        }
        if let Some(key) = planned.plan.tried.as_ref().filter(|key| is_ordered(&outcomes, key)) {
            self.order(&planned, key, &mut room);
        }
        for (key, _) in outcomes.iter().filter(|(_, outcome)| outcome.gives_back()) {
            self.give_back(&planned, key, &room);
        }
        self.book_room(room);
        self.report(&planned, &outcomes, ctx);
        let waits = |key: &String| {
            let pods = planned.plan.gangs.get(key).filter(|pods| pods.left_over > 0);
            pods.is_some() && outcomes.get(key) == Some(&GangOutcome::Unchanged)
        };
        if planned.plan.gangs.keys().any(waits) { RETRY_DELAY } else { POLL }
    }

    fn decide(&mut self, key: &str, one: &ReadRequest, planned: &Planned) -> GangOutcome {
        let now = self.env.moment();
        match &one.gang {
            Err(fault) => judge_fault(fault, one.phase, now.wall),
            Ok(gang) => {
                let (pods, tried) = (planned.plan.gangs.get(key), planned.plan.tried.as_deref() == Some(key));
                decide_gang(gang, one.phase, one.wanted.iter().sum(), (pods, tried), &mut self.memory, now)
            }
        }
    }

    /// Orders the nodes of the request that is tried, all of them.
    fn order(&mut self, planned: &Planned, key: &str, room: &mut HeldRoom) {
        let Planned { snapshot, asked, packing, plan, .. } = planned;
        let term = self.env.term;
        let trace = TraceContext::root(&mut self.rng);
        let plans = Plans::new(snapshot, &asked.planning, term);
        let (traced, planned_claims) = (trace.to_string(), plan.new.keys().map(|at| &packing.claims[*at]));
        let orders: Option<Vec<_>> = planned_claims.map(|one| plans.order(one, &traced, &mut self.rng)).collect();
        // One that cannot be ordered, as its NodePool has just gone: the others alone are of no use.
        let Some(orders) = orders.filter(|orders| !orders.is_empty()) else { return };
        let (mut claims, mut names) = (Vec::new(), Vec::new());
        let mut places: GangPlaces = self.memory.places().get(key).cloned().unwrap_or_default();
        for ((at, pods), order) in plan.new.iter().zip(&orders) {
            let name = order.claim.name_any();
            let target = NominationTarget::Claim(name.clone());
            places.extend(pods.iter().map(|(set, _)| (target.clone(), *set)));
            room.insert(target, pods.iter().map(|(_, pod)| pod.clone()).collect());
            claims.push((order.claim.clone(), plans.most_capacity(&packing.claims[*at])));
            names.push(name);
        }
        self.memory.note_places(key, places);
        self.memory.note_ordered(key, names.iter().cloned());
        self.report_launched(planned, key, names, trace);
        self.env.post(&self.links.cluster, PlanClaims { term, claims, expected: Vec::new() });
        self.env.post(&self.links.launcher, LaunchClaims { term, orders, trace });
    }

    fn report_launched(&self, planned: &Planned, key: &str, names: Vec<String>, trace: TraceContext) {
        let Some(one) = planned.requests.get(key) else { return };
        let (nodes, node_claims) = (names.len(), Names::first(NAMES_LISTED, names));
        let message = format!("Launching {nodes} node(s) for all its pods: {node_claims}");
        let event = Record::normal(super::status::object(&one.request), "TriggeredScaleUp", message);
        self.env.post(&self.links.recorder, event);
        self.env.emit_in(LogEvent::RequestLaunched { request: key.to_owned(), nodes, node_claims }, trace);
    }

    /// Removes the nodes of a request that has come to nothing. `room` is that of the other requests.
    fn give_back(&mut self, planned: &Planned, key: &str, room: &HeldRoom) {
        let claims = claims_to_give_back(&planned.snapshot, key, room);
        if claims.is_empty() {
            return;
        }
        let (term, trace) = (self.env.term, TraceContext::root(&mut self.rng));
        let node_claims = Names::first(NAMES_LISTED, claims.iter().map(|(name, _)| name.clone()));
        let log_event = LogEvent::RequestGivenBack { request: key.to_owned(), nodes: claims.len(), node_claims };
        self.env.emit_in(log_event, trace);
        let claims = claims.into_iter().map(|(name, uid)| ClaimRef { name, uid }).collect();
        let (reason, disrupted) = (RemovalReason::Overprovisioned, BTreeMap::new());
        let remove = Remove { term, claims, reason, grace: None, disrupted, trace };
        self.env.post(&self.links.terminator, remove);
    }
}

/// True if the nodes that are planned for a request are ordered.
fn is_ordered(outcomes: &BTreeMap<String, GangOutcome>, key: &str) -> bool {
    matches!(outcomes.get(key), Some(GangOutcome::Coming(..)))
}
