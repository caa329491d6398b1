//! Policy `Balanced` (core spec 5.7): a command has to save as much of a pool's cost as half of what it disturbs of it.

use dovetail_api::v1::ConsolidationPolicy;

use super::command::ConsolidationCommand;
use super::pass::Pass;
use crate::pack::model::ids::NodeId;

/// Smallest score of a command.
const LEAST: f64 = 0.5;

/// True if every pool with that policy, of which a node goes, approves. Pools with another always do.
pub(super) fn approves(pass: &Pass<'_, '_, '_>, command: &ConsolidationCommand) -> bool {
    let pools = command.candidates.iter().filter_map(|node| pass.nodes[NodeId::from(*node)].pool);
    let mut pools: Vec<usize> =
        pools.filter(|pool| pass.cluster.pools[*pool].policy == ConsolidationPolicy::Balanced).collect();
    pools.sort_unstable();
    pools.dedup();
    pools.into_iter().all(|pool| score(pass, command, pool) >= LEAST)
}

/// Part of the pool's price that is saved, divided by the part of its disruption cost that is spent. A saving is shared among
/// pools by what they pay for the nodes that go.
fn score(pass: &Pass<'_, '_, '_>, command: &ConsolidationCommand, pool: usize) -> f64 {
    let all = pass.nodes.iter().zip(&pass.fleet.nodes).filter(|(view, node)| view.pool == Some(pool) && !node.gone);
    let (price, cost) = all.fold((0.0, 0.0), |(price, cost), (view, _)| (price + view.price, cost + view.cost));
    let own =
        command.candidates.iter().map(|node| &pass.nodes[NodeId::from(*node)]).filter(|view| view.pool == Some(pool));
    let (own_price, own_cost) = own.fold((0.0, 0.0), |(price, cost), view| (price + view.price, cost + view.cost));
    if price <= 0.0 || cost <= 0.0 || own_cost <= 0.0 || command.price_before <= 0.0 {
        return 0.0;
    }
    let saving = command.saving().max(0.0) * own_price / command.price_before;
    (saving / price) / (own_cost / cost)
}
