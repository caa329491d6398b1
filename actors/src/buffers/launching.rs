//! Orders of a look: nodes for room that has no place, and where the rest is held.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{HeldRoom, NominationTarget};
use kube::ResourceExt;

use super::{Buffers, POLL, Planned};
use crate::context::plan::Plans;
use crate::messages::{LaunchClaims, PlanClaims, Record, TraceContext};
use crate::telemetry::log_event::{LogEvent, Names};

/// Most claims that one look orders.
const MOST_AT_ONCE: usize = 100;
/// Most names that a log line gives.
const NAMES_LISTED: usize = 20;
/// Pause before the next look while nodes for room wait for those of real pods, or there are more to be ordered.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Buffers {
    /// Does what a look has found; answers when to look again. The cluster state hears of it before anything is created: the next
    /// look counts it.
    pub(super) fn act_on(&mut self, planned: Planned, ctx: &mut Context<Self>) -> Duration {
        let now = self.env.now();
        self.sources = planned.sources.clone();
        self.memory.look_back(&planned.snapshot, &planned.plan, now);
        let needs = !planned.plan.new.is_empty();
        let waits = self.memory.waits_for_pods(needs, planned.asked.pods_wait(), now);
        let mut room = planned.plan.places.clone();
        let ordered = if waits { 0 } else { self.order(&planned, &mut room) };
        self.hold_room(room);
        self.report(&planned, ctx);
        if waits || ordered == MOST_AT_ONCE { RETRY_DELAY } else { POLL }
    }

    /// Orders nodes for room that has no place; answers their number.
    fn order(&mut self, planned: &Planned, room: &mut HeldRoom) -> usize {
        let Planned { snapshot, asked, packing, plan, .. } = planned;
        let (now, term) = (self.env.now(), self.env.term);
        let trace = TraceContext::root(&mut self.rng);
        let plans = Plans::new(snapshot, &asked.planning, term);
        let (mut claims, mut orders) = (Vec::new(), Vec::new());
        let mut nodes: BTreeMap<&String, Vec<String>> = BTreeMap::new();
        let free = plan.new.iter().filter(|new| new.buffers.keys().all(|key| self.memory.paused(key, now).is_none()));
        let free: Vec<_> = free.take(MOST_AT_ONCE).collect();
        for new in free {
            let one = &packing.claims[new.claim];
            let Some(order) = plans.order(one, &trace.to_string(), &mut self.rng) else { continue };
            let name = order.claim.name_any();
            for key in new.buffers.keys() {
                self.memory.note_ordered(key, &name);
                nodes.entry(key).or_default().push(name.clone());
            }
            room.insert(NominationTarget::Claim(name), new.chunks.clone());
            claims.push((order.claim.clone(), plans.most_capacity(one)));
            orders.push(order);
        }
        let number = orders.len();
        for (key, names) in nodes {
            self.tell_launched(planned, key, names, trace);
        }
        if !orders.is_empty() {
            self.env.post(&self.links.cluster, PlanClaims { term, claims, expected: Vec::new() });
            self.env.post(&self.links.launcher, LaunchClaims { term, orders, trace });
        }
        number
    }

    fn tell_launched(&self, planned: &Planned, key: &str, names: Vec<String>, trace: TraceContext) {
        let Some((buffer, _)) = planned.demands.get(key) else { return };
        let (nodes, node_claims) = (names.len(), Names::first(NAMES_LISTED, names));
        let message = format!("Launching {nodes} node(s) for its room: {node_claims}");
        self.env
            .post(&self.links.recorder, Record::normal(super::condition::object(buffer), "TriggeredScaleUp", message));
        self.env.emit_in(LogEvent::BufferLaunched { buffer: key.to_owned(), nodes, node_claims }, trace);
    }
}
