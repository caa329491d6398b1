//! Plans that cost much more than the first plan for the same pods: reported, and not launched beyond the setting
//! `MAX_PRICE_RISE`.

use std::time::Duration;

use dovetail_core::cluster_state::{Planning, Snapshot};
use dovetail_core::pack::{Packing, Reason};
use dovetail_core::price_rise::PriceRise;
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
    /// Reports plans that cost much more than the first for their pods. Those beyond the bound are taken out of the packing, and
    /// their pods wait with that reason.
    pub(super) fn hold_dear(
        &mut self,
        snapshot: &Snapshot,
        planning: &mut Planning,
        packing: &mut Packing,
        trace: TraceContext,
    ) {
        let waiting = |uid: &&str| snapshot.pods.get(*uid).is_some_and(|entry| entry.node_name.is_empty());
        self.first_prices.retain_waiting(&snapshot.pods.keys().map(String::as_str).filter(waiting).collect());
        let problem = planning.problem.clone();
        let mut dear = Vec::new();
        packing.claims.retain(|claim| {
            let uids: Vec<String> = claim.pods.iter().map(|pod| problem.pods[*pod].uid.clone()).collect();
            let Some(rise) = self.first_prices.planned(&uids, claim.price) else { return true };
            let most = self.env.settings.max_price_rise;
            let message = sentence(&rise, most);
            let names = claim.pods.iter().map(|pod| &problem.pods[*pod]);
            let log_event = LogEvent::PriceRise {
                node_pool: planning.pools[claim.pool].name_any(),
                price: rise.now,
                first: rise.first,
                names: Names::first(MOST_NAMED, names.clone().map(|pod| format!("{}/{}", pod.namespace, pod.name))),
                message: message.clone(),
            };
            let held = rise.is_beyond(most);
            let repeated = uids.iter().map(|uid| format!("{uid} dear, held: {held}"));
            if self.repeats.are_reported(repeated, self.env.now()) {
                self.env.emit_in(log_event, trace);
            }
            if held {
                dear.extend(claim.pods.iter().map(|pod| (*pod, message.clone())));
                return false;
            }
            for pod in names.take(MOST_NAMED) {
                let event = Record::warning(object::pod(pod), "PriceRise", message.clone()).quiet_for(REPEAT_INTERVAL);
                self.env.post(&self.links.recorder, event);
            }
            true
        });
        for (pod, message) in dear {
            planning.held.insert(problem.pods[pod].uid.clone(), message);
            packing.unscheduled.push((pod, Reason::NoPoolFits { pools: Vec::new() }.into()));
        }
    }
}

/// Sentence on the rise of a price and its consequence.
fn sentence(rise: &PriceRise, most: f64) -> String {
    let (now, first, times) = (rise.now, rise.first, rise.times());
    let follows = if rise.is_beyond(most) {
        format!("it is not launched, as MAX_PRICE_RISE allows {most} times")
    } else {
        "it is launched".to_owned()
    };
    format!(
        "the cheapest node that can be had for it costs ${now:.2}/h, {times:.0} times the ${first:.2}/h of the first plan for the same \
         pods; {follows}"
    )
}
