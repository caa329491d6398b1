//! The order in which nodes are to lose their pods: that in which disruption would take them.

use std::collections::BTreeMap;

use dovetail_api::names::taints;

use super::memory::ValuedNodes;
use crate::cluster_state::{Moment, Snapshot};
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::NodeAndClaim;
use crate::disruption::pools::{DisruptionPool, Observing, pools};
use crate::disruption::{OffersByClass, RemovalReason, allowed, blocked, price};

/// Nodes that have a value.
pub(super) struct RankedNodes<'m, 'a> {
    /// Nodes that are being disrupted, whatever for.
    pub leaving: Vec<&'m NodeAndClaim<'a>>,
    /// Others in the order in which they are to lose their pods.
    pub in_order: Vec<RankedNode<'m, 'a>>,
}

/// A node in its place.
pub(super) struct RankedNode<'m, 'a> {
    pub machine: &'m NodeAndClaim<'a>,
    /// True if it may go now and is within the budget; otherwise it only keeps the values that it has for a while.
    pub may_go: bool,
    /// Dollars an hour that it costs, for each unit of what its end would disturb.
    worth: f64,
}

/// Answer to the question if a node may go by our own decision, so that scale-in is to empty it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    Now,
    /// Not now, for what comes and goes: pods that are expected on it, or a PodDisruptionBudget.
    NotNow,
    /// No: it asks to be left alone, or scale-in alone cannot empty it.
    No,
}

/// Ranks all nodes: first drifted ones, then others that consolidation may take, each as many as their pool's budgets allow.
/// `goes` answers for one node; it is dear, and is asked in order, and only until a budget is full.
pub(super) fn rank_nodes<'m, 'a>(
    snapshot: &'a Snapshot,
    machines: &'m [NodeAndClaim<'a>],
    offers: &OffersByClass,
    before: &ValuedNodes,
    now: Moment,
    mut goes: impl FnMut(&NodeAndClaim<'a>) -> Goes,
) -> RankedNodes<'m, 'a> {
    let views = pools(snapshot);
    let mut totals: BTreeMap<&str, PoolNodeTotals> = BTreeMap::new();
    let (mut leaving, mut drifted, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for machine in machines {
        let pool = machine.claim.pool.as_str();
        totals.entry(pool).or_default().count(machine, is_deleting(machine));
        let view = views.get(pool);
        if is_deleting(machine) {
            if view.is_none_or(|view| view.observing == Observing::No) {
                leaving.push(machine);
            }
            continue;
        }
        let Some(view) = view.filter(|view| machine.initialized() && view.observing == Observing::No) else { continue };
        let has_drifted = machine.claim.drifted.is_some() && view.pool.spec.replicas.is_none();
        if !has_drifted && !consolidates(view) {
            continue;
        }
        let price = price::node_price(machine.node, view.pool, offers);
        if price <= 0.0 {
            // Among those whose price is known it would have no place.
            continue;
        }
        let worth = price / price::disturbance(machine, now.wall);
        let own = if has_drifted { &mut drifted } else { &mut others };
        own.push(RankedNode { machine, may_go: false, worth });
    }
    let room = |reason: RemovalReason, pool: &str| {
        let own = totals.get(pool).copied().unwrap_or_default();
        views.get(pool).map_or(0, |view| allowed(view.pool, reason, own.nodes, now.wall).after(own.disrupting))
    };
    let mut in_order = within(drifted, |pool| room(RemovalReason::Drifted, pool), before, now, &mut goes);
    in_order.extend(within(others, |pool| room(RemovalReason::Underutilized, pool), before, now, &mut goes));
    RankedNodes { leaving, in_order }
}

/// True if a node is on its way out, or its successor is.
fn is_deleting(machine: &NodeAndClaim<'_>) -> bool {
    machine.deleting || machine.node.taints.iter().any(|taint| taints::is_of_disruption(&taint.key))
}

fn consolidates(view: &DisruptionPool<'_>) -> bool {
    view.after.is_some() || view.ttl.is_some()
}

/// Says if nothing forbids that a node goes by our own decision, and scale-in alone can empty it.
pub(super) fn judge(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, now: Moment) -> Goes {
    let pinned = || {
        let mut pods = machine.load.into_iter().flat_map(|load| load.pods.values());
        pods.any(|pod| pod.is_active() && pod.stays_for_good)
    };
    if machine.reboots() || pinned() || blocked::held(machine, now.wall).is_some() {
        return Goes::No;
    }
    let waits = machine.nominated || blocked::protected(machine, snapshot, now.wall).is_some();
    if waits { Goes::NotNow } else { Goes::Now }
}

/// The first of each pool, as many as there is room for: those that have values come before those that have none, so that the
/// edge of a budget does not move to and fro. Nodes that had values a short time ago keep them, and their room.
fn within<'m, 'a>(
    mut candidates: Vec<RankedNode<'m, 'a>>,
    room: impl Fn(&str) -> usize,
    before: &ValuedNodes,
    now: Moment,
    goes: &mut impl FnMut(&NodeAndClaim<'a>) -> Goes,
) -> Vec<RankedNode<'m, 'a>> {
    sort_by_worth(&mut candidates);
    let name = |one: &RankedNode<'m, 'a>| one.machine.node.name.as_str();
    let (had, new): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| before.has(name(one)));
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let mut taken = Vec::new();
    for mut one in had.into_iter().chain(new) {
        let pool = one.machine.claim.pool.as_str();
        let left = left.entry(pool).or_insert_with(|| room(pool));
        let keeps = before.keeps(name(&one), now.monotonic);
        if *left == 0 && !keeps {
            continue;
        }
        let goes = goes(one.machine);
        one.may_go = *left > 0 && goes == Goes::Now;
        if one.may_go || (keeps && goes != Goes::No) {
            *left = left.saturating_sub(1);
            taken.push(one);
        }
    }
    sort_by_worth(&mut taken);
    taken
}

/// Brings nodes into consolidation's order.
fn sort_by_worth(nodes: &mut [RankedNode<'_, '_>]) {
    nodes.sort_by(|a, b| b.worth.total_cmp(&a.worth).then_with(|| a.machine.node.name.cmp(&b.machine.node.name)));
}
