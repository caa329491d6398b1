//! Consolidation to its end: each command is done at once, until none is left.

use jiff::Timestamp;

use super::cluster::{ClusterView, NodeState, PodState, PoolState};
use super::command::ConsolidationCommand;
use super::foresight::settle_lower;
use super::pass::Pass;
use super::settings::ConsolidationSettings;
use super::{fleet, next, options};
use crate::instance_type::subtract_reserved;
use crate::pack::PackingError;
use crate::pack::model::context::Context;
use crate::pack::model::ids::NodeId;
use crate::problem::{ExistingNode, Problem};

/// Largest number of passes.
const MOST_ROUNDS: usize = 50;

#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// The cluster at the end, with the pods that moved where they are now. Nodes that were launched are ordinary ones.
    pub cluster: ClusterView,
    /// Passes, the last of which found nothing.
    pub rounds: usize,
    /// Commands that were carried out, in order. Indices are of the cluster as it was in that pass.
    pub commands: Vec<ConsolidationCommand>,
    /// Number of nodes that went.
    pub removed: usize,
    /// Number of nodes that were launched.
    pub launched: usize,
    /// Number of moves of pods.
    pub moved: usize,
    /// Dollars an hour before and after.
    pub price: (f64, f64),
}

/// Consolidates until nothing more is proposed. `allowed` returns the number of a pool's nodes, given how many it has, that may
/// go at once.
///
/// # Errors
/// [`PackingError::Bound`] where reading the cluster met a bound; none is set yet, as each method bounds its own trials.
pub fn settle(
    cluster: ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
    allowed: &dyn Fn(usize) -> usize,
) -> Result<Settled, PackingError> {
    match cluster.bill {
        Some(_) => Ok(settle_lower(cluster, settings, now, allowed)?.0),
        None => settle_once(cluster, settings, now, allowed),
    }
}

/// The same by one way of weighing.
pub(super) fn settle_once(
    cluster: ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
    allowed: &dyn Fn(usize) -> usize,
) -> Result<Settled, PackingError> {
    let mut settled = Settled { cluster, ..Settled::default() };
    let mut settings = settings.clone();
    for round in 0..MOST_ROUNDS {
        let done = one_round(&mut settled, &mut settings, now, allowed)?;
        settled.rounds = round + 1;
        if done == 0 {
            break;
        }
    }
    Ok(settled)
}

/// One pass with all its commands; returns their number.
fn one_round(
    settled: &mut Settled,
    settings: &mut ConsolidationSettings,
    now: Timestamp,
    allowed: &dyn Fn(usize) -> usize,
) -> Result<usize, PackingError> {
    let cluster = std::mem::take(&mut settled.cluster);
    let options = options(settings);
    let context = Context::new(&cluster.problem, &options)?;
    let mut pass = Pass::new(&cluster, settings, fleet(&cluster, &context), now);
    if settled.rounds == 0 {
        settled.price.0 = cluster.hourly_bill().unwrap_or_else(|| price(&pass));
    }
    let mut commands = Vec::new();
    loop {
        refill(&mut pass, allowed);
        let Some(command) = next(&mut pass) else { break };
        settled.removed += command.candidates.len();
        settled.moved += command.moves.len();
        pass.apply(&command, || {
            settled.launched += 1;
            format!("new-{:05}", settled.launched)
        });
        commands.push(command);
    }
    let after_prices = price(&pass);
    let price_moves = pass.price_moves;
    let after = (!commands.is_empty()).then(|| rebuilt(&pass, now));
    drop(pass);
    drop(context);
    let done = commands.len();
    settled.commands.extend(commands);
    settled.cluster = after.unwrap_or(cluster);
    settled.price.1 = settled.cluster.hourly_bill().unwrap_or(after_prices);
    settings.price_moves = price_moves;
    Ok(done)
}

fn price(pass: &Pass<'_, '_, '_>) -> f64 {
    let there = pass.nodes.iter().zip(&pass.fleet.nodes).filter(|(_, node)| !node.gone);
    there.map(|(view, _)| view.price).fold(0.0, |sum, price| sum + price)
}

/// Every command is over before the next begins, so each has the budgets anew.
fn refill(pass: &mut Pass<'_, '_, '_>, allowed: &dyn Fn(usize) -> usize) {
    for pool in 0..pass.left.len() {
        let own = pass.nodes.iter().zip(&pass.fleet.nodes).filter(|(view, node)| view.pool == Some(pool) && !node.gone);
        let allowed = Some(allowed(own.count()));
        (pass.left[pool].empty, pass.left[pool].underutilized) = (allowed, allowed);
    }
}

/// The cluster as the pass has left it.
fn rebuilt(pass: &Pass<'_, '_, '_>, now: Timestamp) -> ClusterView {
    let old = pass.cluster;
    let (mut nodes, mut states) = (Vec::new(), Vec::new());
    let rest: Vec<NodeId> = pass.fleet.nodes.ids().filter(|at| !pass.fleet.nodes[*at].gone).collect();
    for at in rest.iter().copied() {
        let node = pass.node_now(at, true);
        let known = old.nodes.get(at.index());
        let mut state = known.cloned().unwrap_or_else(|| NodeState {
            pool: pass.nodes[at].pool,
            consolidatable: true,
            initialized: Some(now),
            ..NodeState::default()
        });
        let arrived = pass.arrived(at).into_iter();
        state.pods.extend(arrived.map(|pod| PodState { moved: Some(now), ..old.pod(pod).clone() }));
        nodes.push(node);
        states.push(state);
    }
    let pools: Vec<PoolState> = old.pools.clone();
    let mut problem = Problem { existing_nodes: nodes, pods: vec![], ..shell(&old.problem) };
    subtract_reserved(&mut problem.instance_types, &pass.reserved_taken);
    ClusterView::new(problem, states, pools, old.pdbs.clone()).with_bill(pass.bill_of_rest(&rest))
}

/// A problem without its pods and nodes.
pub(super) fn shell(problem: &Problem) -> Problem {
    Problem {
        name: problem.name.clone(),
        description: problem.description.clone(),
        preference_policy: problem.preference_policy,
        min_values_policy: problem.min_values_policy,
        well_known_labels: problem.well_known_labels.clone(),
        node_pools: problem.node_pools.clone(),
        left_out: problem.left_out.clone(),
        instance_types: problem.instance_types.clone(),
        daemon_pods: problem.daemon_pods.clone(),
        daemon_share: problem.daemon_share,
        namespaces: problem.namespaces.clone(),
        ..Problem::default()
    }
}

/// A node without the list of its pods; what they use is still used.
pub(super) fn bare(node: &ExistingNode) -> ExistingNode {
    ExistingNode {
        name: node.name.clone(),
        labels: node.labels.clone(),
        taints: node.taints.clone(),
        allocatable: node.allocatable.clone(),
        used: node.used.clone(),
        initialized: node.initialized,
        pods: vec![],
        daemon_requests: node.daemon_requests.clone(),
        volumes: node.volumes.clone(),
        changed: node.changed,
    }
}
