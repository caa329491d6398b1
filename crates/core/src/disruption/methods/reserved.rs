//! Moves into capacity reservations: what is paid for and stands empty takes the pods of nodes that are bought, in pools of any
//! policy but node groups.
//!
//! Where no whole node fits, a part of a larger one's pods does, and the rest gets a node that is cheaper by enough: the one
//! command that launches two nodes without the gate ManyToManyConsolidation, as one of them is paid for.
//!
//! A reserved instance costs nothing at the margin, so a command saves all that its nodes cost. It takes one free instance of one
//! reservation. The nodes that save the most for what they disturb come first, as many as fill it; pods that it has no room for
//! go to other nodes that are worth their price.

use std::collections::BTreeSet;

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::delete::receivers;
use super::pass::Pass;
use super::replace::bound;
use super::{Method, RemovalReason, balanced};
use crate::instance_type::is_marked;
use crate::labels;
use crate::pack::fleet::Fleet;
use crate::pack::fleet::launch::{Bound, FreeSlot, TrialNode};
use crate::pack::model::ids::{NodeId, PodId};
use crate::problem::Policy;

/// Moves nodes that are bought into free instances of capacity reservations.
pub(super) struct Reserved;

/// Number of nodes that one pass tries to move at most: each is a trial with all rules.
const MOST_TRIALS: usize = 2000;
/// Bounds of the tries to fill an instance with a part of a node's pods: instances, nodes for each, and types of the node for the
/// rest. It is tried only where no whole node fits.
const MOST_SLOTS_IN_PART: usize = 4;
const MOST_IN_PART: usize = 16;
const TYPES_IN_PART: usize = 40;

impl Method for Reserved {
    fn name(&self) -> &'static str {
        "reserved"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        let mut slots = pass.fleet.free_slots(&pass.reserved_taken);
        // Reservations first, which stand empty for sure. The rest of commitments is a sum that others may take.
        let offers = &pass.fleet.context.offers;
        let is_covered = |slot: &FreeSlot| {
            offers.within(slot.offering_bits).any(|(_, one)| one.reservation().is_some_and(is_marked))
        };
        slots.sort_by_key(is_covered);
        let candidates = if slots.is_empty() { vec![] } else { bought(pass) };
        if candidates.is_empty() {
            return None;
        }
        let stay: Vec<NodeId> = {
            let all: BTreeSet<NodeId> = candidates.iter().copied().collect();
            receivers(pass, true).into_iter().filter(|node| !all.contains(node)).collect()
        };
        let mut best: Option<ConsolidationCommand> = None;
        // Each of the many slots of commitments has its part.
        let mut trials = MOST_TRIALS;
        let each = if pass.cluster.bill.is_some() { MOST_TRIALS.div_ceil(slots.len()) } else { MOST_TRIALS };
        for slot in &slots {
            let mut own = each.min(trials);
            let before = own;
            let found = self.attempt(pass, slot, (&candidates, &stay), &mut own);
            trials -= before - own;
            let better = |found: &ConsolidationCommand| best.as_ref().is_none_or(|best| found.saving() > best.saving());
            best = found.filter(better).or(best);
        }
        best.or_else(|| self.in_part(pass, &slots, (&candidates, &stay)))
    }
}

impl Reserved {
    /// Fills one instance of a reservation; its changes are undone.
    fn attempt(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        slot: &FreeSlot,
        (candidates, stay): (&[NodeId], &[NodeId]),
        trials: &mut usize,
    ) -> Option<ConsolidationCommand> {
        let mut launch = pass.fleet.launch_reserved(slot)?;
        let start = pass.fleet.mark();
        let taken = fill(pass, &mut launch, (candidates, stay), trials);
        let (price, _) = pass.weighed(&taken, &[]);
        let bound = Bound { price, spot: true, types: None };
        // Without a pod on it, it is a deletion, which is another method's.
        let claim = Some(&launch).filter(|launch| !launch.pods.is_empty());
        let claim = claim.and_then(|launch| pass.fleet.claim(launch, bound));
        let command = claim.map(|claim| pass.command(RemovalReason::Underutilized, self.name(), taken, vec![claim]));
        pass.fleet.abandon(&mut launch);
        pass.fleet.rollback(start);
        command.filter(|command| balanced::approves(pass, command) && pass.lowers_bill(command))
    }
}

impl Reserved {
    /// Fills one instance of a reservation with a part of a larger node's pods; what is left gets a smaller node.
    fn in_part(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        slots: &[FreeSlot],
        (candidates, stay): (&[NodeId], &[NodeId]),
    ) -> Option<ConsolidationCommand> {
        let allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
        let several = |pass: &Pass<'_, '_, '_>, node: NodeId| {
            pass.fleet.nodes[node].pods.len() > 1 && allowance.clone().take_node(pass, node).is_ok()
        };
        let mut candidates: Vec<NodeId> = candidates.iter().copied().filter(|node| several(pass, *node)).collect();
        candidates.sort_by(|a, b| pass.nodes[*b].price.total_cmp(&pass.nodes[*a].price));
        let pairs = slots.iter().take(MOST_SLOTS_IN_PART);
        let pairs = pairs.flat_map(|slot| candidates.iter().take(MOST_IN_PART).map(move |node| (slot, *node)));
        pairs.into_iter().find_map(|(slot, node)| self.part_of(pass, slot, node, stay))
    }

    /// The command for one node; its changes are undone.
    fn part_of(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        slot: &FreeSlot,
        node: NodeId,
        stay: &[NodeId],
    ) -> Option<ConsolidationCommand> {
        let mut launch = pass.fleet.launch_reserved(slot)?;
        let start = pass.fleet.mark();
        pass.fleet.clear(node);
        let mut rest = pass.fleet.nodes[node].pods.clone();
        rest.retain(|pod| !pass.fleet.load(&mut launch, *pod) && !pass.fleet.put(*pod, stay));
        let any = !launch.pods.is_empty() && !rest.is_empty();
        let command = any.then(|| self.with_the_rest(pass, (slot, &launch), node, &rest)).flatten();
        pass.fleet.abandon(&mut launch);
        pass.fleet.rollback(start);
        let pays = |command: &ConsolidationCommand, pass: &mut Pass<'_, '_, '_>| {
            balanced::approves(pass, command)
                && pass.within_price_moves(command)
                && pass.lowers_bill(command)
                && pass.has_paid(&[node], command.saving())
        };
        command.filter(|command| pays(command, pass))
    }

    /// The cheapest second node that takes the rest and costs less by enough than the one that goes.
    fn with_the_rest(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        (slot, launch): (&FreeSlot, &TrialNode),
        node: NodeId,
        rest: &[PodId],
    ) -> Option<ConsolidationCommand> {
        let (_, most) = pass.at_most(pass.nodes[node].pool?, &[node]);
        let mut types = pass.fleet.prices(slot.pool);
        types.retain(|(_, price)| *price <= most);
        types.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (at, _) in types.into_iter().take(TYPES_IN_PART) {
            let Some(mut second) = pass.fleet.launch(slot.pool, Some(at)) else { continue };
            let fits = rest.iter().all(|pod| pass.fleet.load(&mut second, *pod));
            let bound = bound(pass, &second, &[node], most).filter(|_| fits);
            let bought = bound.and_then(|bound| pass.fleet.claim(&second, bound));
            pass.fleet.abandon(&mut second);
            let free = Bound { price: most, spot: true, types: None };
            if let (Some(bought), Some(own)) = (bought, pass.fleet.claim(launch, free)) {
                return Some(pass.command(RemovalReason::Underutilized, self.name(), vec![node], vec![own, bought]));
            }
        }
        None
    }
}

/// Nodes that cost something and may go, in order.
fn bought(pass: &Pass<'_, '_, '_>) -> Vec<NodeId> {
    let mut all = pass.candidates(|policy| policy != Policy::NodeGroups);
    all.retain(|node| {
        let capacity_type = pass.fleet.nodes[*node].node().labels.get(labels::CAPACITY_TYPE);
        let reserved = capacity_type.is_some_and(|kind| kind == labels::RESERVED);
        let state = pass.cluster.nodes.get(node.index());
        !reserved && pass.nodes[*node].price > 0.0 && state.is_some_and(|state| !state.reserved_lately)
    });
    all
}

/// Takes candidates as long as their pods have places on the new node or on those that stay.
fn fill(
    pass: &mut Pass<'_, '_, '_>,
    launch: &mut TrialNode,
    (candidates, stay): (&[NodeId], &[NodeId]),
    trials: &mut usize,
) -> Vec<NodeId> {
    let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let pool = pass.fleet.pool_of(launch);
    let mut taken = Vec::new();
    for node in candidates {
        if allowance.is_spent() || *trials == 0 {
            break;
        }
        // Pods of a pool that comes first stay with it, as packing would have them.
        let weight = |pool: usize| pass.cluster.problem.node_pools[pool].weight;
        if pass.nodes[*node].pool.is_none_or(|own| weight(own) > weight(pool)) {
            continue;
        }
        if pass.saved_beside(&taken, *node) <= 0.0 {
            continue;
        }
        let mut after = allowance.clone();
        if let Err(why) = after.take_node(pass, *node) {
            pass.bar(*node, why);
            continue;
        }
        *trials -= 1;
        if take_away(pass, launch, *node, stay) {
            taken.push(*node);
            allowance = after;
        }
    }
    taken
}

/// Takes one candidate away, its pods onto the new node or to others; true if all have a place. Changes nothing where not.
fn take_away(pass: &mut Pass<'_, '_, '_>, launch: &mut TrialNode, node: NodeId, stay: &[NodeId]) -> bool {
    let (mark, saved) = (pass.fleet.mark(), Fleet::saved(launch));
    pass.fleet.clear(node);
    for pod in pass.fleet.nodes[node].pods.clone() {
        if !pass.fleet.load(launch, pod) && !pass.fleet.put(pod, stay) {
            pass.fleet.unload(launch, saved);
            pass.fleet.rollback(mark);
            return false;
        }
    }
    true
}
