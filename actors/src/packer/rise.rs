//! Reports of plans that cost much more than the first plan for the same pods (`dovetail_core::price_rise`).

use std::time::Duration;

use dovetail_core::cluster_state::Planning;
use dovetail_core::price_rise::DearNode;
use kube::ResourceExt;

use super::Packer;
use crate::messages::{Record, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};

/// Pods that a report names, and that get an event.
const MOST_NAMED: usize = 5;
/// Minimum time between two events about one pod.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

impl Packer {
    /// Reports nodes that cost much more than the first plans for their pods, launched or not. Pods of those that are not
    /// launched get their event with the others that wait.
    pub(super) fn report_dear_nodes(&mut self, planning: &Planning, dear: &[DearNode], trace: TraceContext) {
        for DearNode { pool, pods, rise, held, message } in dear {
            let pods: Vec<_> = pods.iter().map(|pod| &planning.problem.pods[*pod]).collect();
            let names = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
            let log_event = LogEvent::PriceRise {
                node_pool: planning.pools[*pool].name_any(),
                price: rise.now,
                first: rise.first,
                names: Names::first(MOST_NAMED, names),
                message: message.clone(),
            };
            let repeated = pods.iter().map(|pod| format!("{} dear, held: {held}", pod.uid));
            if self.repeats.are_reported(repeated, self.env.now()) {
                self.env.emit_in(log_event, trace);
            }
            for pod in pods.iter().take(MOST_NAMED).filter(|_| !held) {
                let event = Record::warning(object::pod(pod), "PriceRise", message.clone()).quiet_for(REPEAT_INTERVAL);
                self.env.post(&self.links.recorder, event);
            }
        }
    }
}
