//! The order in which nodes are to lose their pods: that in which disruption would take them.

use std::collections::BTreeMap;

use dovetail_api::names::taints;
use jiff::Timestamp;

use crate::cluster_state::Snapshot;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::NodeAndClaim;
use crate::disruption::pools::{DisruptionPool, Observing, pools};
use crate::disruption::{OffersByClass, RemovalReason, allowed, blocked, price};

/// Nodes that have a value.
pub(super) struct RankedNodes<'m, 'a> {
    /// Nodes that are being disrupted, whatever for.
    pub leaving: Vec<&'m NodeAndClaim<'a>>,
    /// Others in the order in which they are to lose their pods.
    pub in_order: Vec<&'m NodeAndClaim<'a>>,
}

/// A node that could be ranked.
struct Candidate<'m, 'a> {
    machine: &'m NodeAndClaim<'a>,
    /// Dollars an hour that it costs, for each unit of what its end would disturb.
    worth: f64,
}

/// Ranks all nodes: first drifted ones, then others that consolidation may take, each as many as their pool's budgets allow.
pub(super) fn rank_nodes<'m, 'a>(
    snapshot: &'a Snapshot,
    machines: &'m [NodeAndClaim<'a>],
    offers: &OffersByClass,
    now: Timestamp,
) -> RankedNodes<'m, 'a> {
    let views = pools(snapshot);
    let mut totals: BTreeMap<&str, PoolNodeTotals> = BTreeMap::new();
    let (mut leaving, mut drifted, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for machine in machines {
        let pool = machine.claim.pool.as_str();
        totals.entry(pool).or_default().count(machine, is_deleting(machine));
        if is_deleting(machine) {
            leaving.push(machine);
            continue;
        }
        let Some(view) = views.get(pool).filter(|view| may_go(machine, view, snapshot, now)) else { continue };
        let price = price::node_price(machine.node, view.pool, offers);
        if price <= 0.0 {
            // Among those whose price is known it would have no place.
            continue;
        }
        let worth = price / price::disturbance(machine, now);
        let has_drifted = machine.claim.drifted.is_some() && view.pool.spec.replicas.is_none();
        if has_drifted {
            drifted.push(Candidate { machine, worth });
        } else if view.after.is_some() || view.ttl.is_some() {
            others.push(Candidate { machine, worth });
        }
    }
    let room = |reason: RemovalReason, pool: &str| {
        let own = totals.get(pool).copied().unwrap_or_default();
        views.get(pool).map_or(0, |view| allowed(view.pool, reason, own.nodes, now).after(own.disrupting))
    };
    let mut in_order = within(drifted, |pool| room(RemovalReason::Drifted, pool));
    in_order.extend(within(others, |pool| room(RemovalReason::Underutilized, pool)));
    RankedNodes { leaving, in_order }
}

/// True if a node is on its way out, or its successor is.
fn is_deleting(machine: &NodeAndClaim<'_>) -> bool {
    machine.deleting || machine.node.taints.iter().any(|taint| taints::is_of_disruption(&taint.key))
}

/// True if nothing forbids that a node goes by our own decision, and scale-in alone can empty it.
fn may_go(machine: &NodeAndClaim<'_>, view: &DisruptionPool<'_>, snapshot: &Snapshot, now: Timestamp) -> bool {
    let pinned = || {
        let mut pods = machine.load.into_iter().flat_map(|load| load.pods.values());
        pods.any(|pod| pod.is_active() && pod.stays_for_good)
    };
    machine.initialized()
        && !machine.nominated
        && !machine.reboots()
        && view.observing == Observing::No
        && !pinned()
        && blocked::why(machine, snapshot, now).is_none()
}

/// The first of each pool in consolidation's order, as many as there is room for.
fn within<'m, 'a>(mut candidates: Vec<Candidate<'m, 'a>>, room: impl Fn(&str) -> usize) -> Vec<&'m NodeAndClaim<'a>> {
    let name = |one: &Candidate<'m, 'a>| one.machine.node.name.as_str();
    candidates.sort_by(|a, b| b.worth.total_cmp(&a.worth).then_with(|| name(a).cmp(name(b))));
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let mut taken = Vec::new();
    for Candidate { machine, .. } in candidates {
        let pool = machine.claim.pool.as_str();
        let left = left.entry(pool).or_insert_with(|| room(pool));
        if *left > 0 {
            *left -= 1;
            taken.push(machine);
        }
    }
    taken
}
