//! Consolidation: nodes that are worth taking away, and the places of their pods (core spec 5.4 to 5.7).
//!
//! ```text
//! Cluster ──► Pass (packing's own engine, compiled once) ──► methods in order ──► at most one Command
//!             order, worth, what keeps each node              │  a trial moves pods in place and is undone
//!                                                             └► what stands in the way of each node
//! ```
//!
//! Everything here is pure: [`decide`] answers for one moment. [`settle`] does each command at once until none is left, which
//! is what `dovetail plan --consolidate` shows.
//!
//! 1. A command never makes the cluster dearer; in `cost` it saves a part of what it replaces.
//! 2. Every pod that moves has a place by packing's rules, as if its node were gone.
//! 3. No command takes more nodes of a pool than its budgets allow, or more pods of a PodDisruptionBudget than that.
//! 4. A node with an arrival of the same pass does not go in it: no pod moves twice.
//! 5. A pod that claims devices moves only to where the search for devices finds them.

mod balanced;
mod bill;
mod budget;
mod cluster;
mod command;
mod delete;
mod devices;
mod empty;
mod foresight;
mod karpenter;
mod many;
mod outcome;
mod pass;
mod replace;
mod reserved;
mod savings;
mod settings;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;

pub use cluster::{ClusterView, NodeState, PodBudget, PodState, PoolState};
pub use command::{ConsolidationCommand, ConsolidationDecision, Unconsolidatable, takes_reserved};
use pass::Pass;
pub use settings::{ConsolidationSettings, PRICE_MOVES};
pub use settle::{Settled, settle};

use super::RemovalReason;
use crate::pack::fleet::Fleet;
use crate::pack::model::context::Context;
use crate::pack::{NodePrice, PackingError};

/// A way to find nodes that may go.
trait Method {
    /// The name in docs/consolidation.md and in a command's `method`. Metrics say `single` or `multi`, as Karpenter's do.
    fn name(&self) -> &'static str;

    /// The next command, if this method has any. The pass is left as it was, but for the notes on nodes that stay.
    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand>;
}

/// All methods, in the order in which they are tried.
const METHODS: [&dyn Method; 8] = [
    &empty::Empty,
    &reserved::Reserved,
    &delete::Delete { to_efficient: true },
    &many::Many,
    &replace::Replace,
    &delete::Delete { to_efficient: false },
    &karpenter::Multi,
    &karpenter::Single,
];

fn next(pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
    METHODS.iter().find_map(|method| method.propose(pass).filter(|command| pass.lowers_bill(command)))
}

/// The decision of consolidation for now: one command at most, and the reasons that keep the other nodes.
///
/// Where there are commitments, nodes are weighed in the way by which the bill ends lower.
///
/// # Errors
/// [`PackingError::Bound`] where reading the cluster met a bound; none is set yet, as each method bounds its own trials.
pub fn decide(
    cluster: &ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
) -> Result<ConsolidationDecision, PackingError> {
    let blind = cluster.bill.is_some() && foresight::blind_ends_lower(cluster, settings, now)?;
    decide_by(cluster, settings, now, blind)
}

/// The decision by one way of weighing: `blind` leaves commitments out.
///
/// # Errors
/// As [`decide`].
pub fn decide_by(
    cluster: &ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
    blind: bool,
) -> Result<ConsolidationDecision, PackingError> {
    if !blind || cluster.bill.is_none() {
        return decide_as_is(cluster, settings, now);
    }
    Ok(ConsolidationDecision { blind, ..decide_as_is(&cluster.as_blind(), settings, now)? })
}

fn decide_as_is(
    cluster: &ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
) -> Result<ConsolidationDecision, PackingError> {
    let options = options(settings);
    let context = Context::new(&cluster.problem, &options)?;
    let mut pass = Pass::new(cluster, settings, fleet(cluster, &context), now);
    if let Some(command) = next(&mut pass) {
        return Ok(decision(&pass, Some(command)));
    }
    let moves = devices::find_move(&mut pass, now)?;
    let own = decision(&pass, None);
    let spare: BTreeSet<usize> = own.spare.into_iter().chain(moves.spare).collect();
    let (command, price_move) = (moves.command, moves.price_move);
    let goes = |one: &Unconsolidatable| command.as_ref().is_some_and(|command| command.candidates.contains(&one.node));
    let unconsolidatable = own.unconsolidatable.into_iter().filter(|one| !goes(one)).collect();
    Ok(ConsolidationDecision {
        command,
        unconsolidatable,
        spare: spare.into_iter().collect(),
        price_move,
        blind: false,
    })
}

fn decision(pass: &Pass<'_, '_, '_>, command: Option<ConsolidationCommand>) -> ConsolidationDecision {
    let price_move = command.as_ref().is_some_and(|command| pass.is_price_move(command));
    let unconsolidatable = pass.unconsolidatable(command.as_ref());
    let spare = pass.spare.iter().map(|node| node.index()).collect();
    ConsolidationDecision { command, unconsolidatable, spare, price_move, blind: false }
}

/// Dollars an hour below which no nodes of its pools carry the pods that may move, by amounts and the cheapest prices alone: the
/// bound of a linear program.
///
/// # Errors
/// As [`decide`].
pub fn price_bound(cluster: &ClusterView) -> Result<f64, PackingError> {
    let options = options(&ConsolidationSettings { price_per_node: 0.0, ..ConsolidationSettings::default() });
    let context = Context::new(&cluster.problem, &options)?;
    let fleet = fleet(cluster, &context);
    let mut asked = vec![0.0; context.names.0.len()];
    for node in &fleet.nodes {
        asked.iter_mut().zip(node.asked()).for_each(|(sum, amount)| *sum += amount as f64);
    }
    // Worth of a unit in each pool bounds what its nodes carry; the least of these bounds what those of any do.
    let worth = context.pools.ids().map(|pool| fleet.worth(pool, &asked, NodePrice::default()));
    let least = worth.reduce(|one, other| one.iter().zip(&other).map(|(a, b)| a.min(*b)).collect());
    Ok(least.iter().flatten().zip(&asked).map(|(worth, amount)| worth * amount).sum())
}

fn options(settings: &ConsolidationSettings) -> crate::pack::Options {
    crate::pack::Options {
        price_per_node: settings.price_per_node,
        max_option_price: settings.max_option_price,
        // Each method bounds its own trials; what is counted here would only stop them halfway.
        most_steps: Some(u64::MAX),
        ..crate::pack::Options::default()
    }
}

fn fleet<'c, 'a>(cluster: &ClusterView, context: &'c Context<'a>) -> Fleet<'c, 'a> {
    Fleet::new(context, cluster.home.iter().map(|(node, _)| *node).collect())
}
