//! Replacement of nodes whose pods one cheaper new node takes, beside what others have room for: one or many by one, in pools
//! that are packed by price.
//!
//! The type to buy is chosen as packing chooses it: by what a node carries for what it costs, at the prices that the best mix
//! of nodes puts on each resource. For each instance type worth buying the nodes that save the most for what they disturb are
//! taken as long as their pods fit; the type that is filled best becomes the command.

use std::cmp::Reverse;

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::delete::receivers;
use super::pass::Pass;
use super::{Method, RemovalReason, balanced};
use crate::pack::PlannedClaim;
use crate::pack::fleet::launch::{Bound, TrialNode};
use crate::pack::model::ids::{IndexVec, InstanceTypeId, NodeId, PodId};
use crate::pack::model::kinds::NodeKind;

/// Replaces nodes by one new node that carries their pods for less.
pub(super) struct Replace;

/// Number of instance types that are tried of each number of cpus.
const TYPES_OF_A_SIZE: usize = 3;
/// Number of the types that are filled best that are tried with all rules.
const TRIES: usize = 6;
/// Part of a node's worth from which it counts as full.
const FULL: f64 = 0.985;

/// The reason that keeps a spot node which something cheaper might replace.
const NO_SPOT_TO_SPOT: &str =
    "it is a spot node, which is replaced by a cheaper spot node only with the feature gate SpotToSpotConsolidation";

/// The reason that keeps a node which several smaller ones might replace.
const NO_SINGLE_ONE: &str = "no single node that is cheaper by enough takes its pods; several new ones are tried only with the feature gate ManyToManyConsolidation";

/// An instance type that may be bought.
struct Offer {
    at: InstanceTypeId,
    cost: f64,
    price: f64,
    room: Vec<i64>,
    worth: f64,
}

/// A type with its score as a replacement, as far as amounts tell.
struct Sketch {
    offer: usize,
    score: f64,
}

impl Method for Replace {
    fn name(&self) -> &'static str {
        "replace"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        pass.cost_pools().into_iter().find_map(|pool| self.in_pool(pass, pool))
    }
}

impl Replace {
    fn in_pool(&self, pass: &mut Pass<'_, '_, '_>, pool: usize) -> Option<ConsolidationCommand> {
        let candidates = pass.replaceable(pool);
        if candidates.is_empty() {
            return None;
        }
        // Pools of the same weight are as good: pods are with the one that costs less.
        let targets = std::iter::once(pool).chain(pass.fleet.equals_of(pool)).collect::<Vec<_>>();
        for target in targets {
            if let Some(command) = self.by_nodes_of(pass, (pool, target), &candidates) {
                return Some(command);
            }
        }
        let offers = offers(pass, pool);
        for node in candidates {
            if !pass.settings.spot_to_spot && is_spot(pass, node) {
                pass.bar(node, NO_SPOT_TO_SPOT.into());
            }
            let open = pass.settings.many_to_many || (!pass.settings.spot_to_spot && is_spot(pass, node));
            if !open && might_be_several(pass, pool, &offers, node) {
                pass.bar(node, NO_SINGLE_ONE.into());
            }
            pass.note(node, nothing_cheaper(pass, node));
        }
        None
    }

    /// Replaces nodes of a pool by one of another, or of its own.
    fn by_nodes_of(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        (pool, target): (usize, usize),
        candidates: &[NodeId],
    ) -> Option<ConsolidationCommand> {
        let offers = offers(pass, target);
        let sketches = sketches(pass, pool, &offers, candidates);
        let mut tried = sketches.into_iter().take(TRIES);
        tried.find_map(|sketch| self.attempt(pass, (pool, target), &offers[sketch.offer], candidates))
    }

    /// Fills a node of the type by all rules; returns the command if it pays.
    fn attempt(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        (pool, target): (usize, usize),
        offer: &Offer,
        candidates: &[NodeId],
    ) -> Option<ConsolidationCommand> {
        let mut launch = pass.fleet.launch(pass.fleet.pool_at(target)?, Some(offer.at))?;
        let start = pass.fleet.mark();
        let taken = fill(pass, &mut launch, pool, offer, candidates);
        let command = self.finish(pass, pool, &mut launch, taken);
        pass.fleet.abandon(&mut launch);
        pass.fleet.rollback(start);
        command.filter(|command| balanced::approves(pass, command))
    }

    fn finish(
        &self,
        pass: &mut Pass<'_, '_, '_>,
        pool: usize,
        launch: &mut TrialNode,
        taken: Vec<NodeId>,
    ) -> Option<ConsolidationCommand> {
        if taken.is_empty() {
            return None;
        }
        if launch.pods.is_empty() {
            let command = pass.command(RemovalReason::Underutilized, self.name(), taken.clone(), vec![]);
            return Some(command).filter(|command| pass.has_paid(&taken, command.saving()));
        }
        let (price, most) = pass.at_most(pool, &taken);
        let bound = bound(pass, launch, &taken, most)?;
        let claim = any_type(pass, launch, bound, price).or_else(|| pass.fleet.claim(launch, bound))?;
        Some(pass.command(RemovalReason::Underutilized, self.name(), taken.clone(), vec![claim]))
            .filter(|command| pass.within_price_moves(command) && pass.has_paid(&taken, command.saving()))
    }
}

/// The reason that keeps a node for whose pods nothing cheaper is found, with the number of those that only nodes other than spot
/// ones may take.
fn nothing_cheaper(pass: &Pass<'_, '_, '_>, node: NodeId) -> String {
    let off_spot = |pod: &&PodId| pass.fleet.context.problem.pods[**pod].off_spot;
    let kept_off = pass.fleet.nodes[node].pods.iter().filter(off_spot).count();
    let why = "nothing that is cheaper by enough takes its pods";
    if kept_off == 0 {
        return why.to_owned();
    }
    format!("{why}, {kept_off} of which may be on no spot node (dovetail.dev/spot-share)")
}

/// True if several new nodes could be cheaper by enough than a node that no single one replaces, as far as prices tell.
fn might_be_several(pass: &Pass<'_, '_, '_>, pool: usize, offers: &[Offer], node: NodeId) -> bool {
    let (price, pods) = (pass.nodes[node].price, pass.fleet.nodes[node].pods.len());
    let cheapest = offers.iter().map(|offer| offer.price).fold(f64::INFINITY, f64::min);
    pods > 1 && 2.0 * cheapest + pass.node_prices(2.0 * cheapest, 2, 1) <= price - pass.least(pool, price, pods)
}

/// The types worth buying: of each number of cpus those that carry the most for what they cost.
fn offers(pass: &Pass<'_, '_, '_>, pool: usize) -> Vec<Offer> {
    let Some(at) = pass.fleet.pool_at(pool) else { return vec![] };
    let context = pass.fleet.context;
    let mut all: Vec<Offer> = Vec::new();
    for (one, price) in pass.fleet.prices(at) {
        let room = context.room(NodeKind::any(at), one).to_vec();
        let worth = pass.value(pool, room.iter().copied());
        all.push(Offer { at: one, cost: pass.node_price().with(price), price, room, worth });
    }
    let name = |offer: &Offer| &context.problem.instance_types[offer.at].name;
    let cpus = |offer: &Offer| context.problem.instance_types[offer.at].capacity.get(crate::resources::CPU);
    all.sort_by(|a, b| {
        let by_size = cpus(a).cmp(&cpus(b));
        by_size.then((b.worth / b.cost).total_cmp(&(a.worth / a.cost))).then_with(|| name(a).cmp(name(b)))
    });
    let (mut kept, mut size, mut count): (Vec<Offer>, i64, usize) = (vec![], -1, 0);
    for offer in all {
        (size, count) = if cpus(&offer) == size { (size, count + 1) } else { (cpus(&offer), 1) };
        if count <= TYPES_OF_A_SIZE {
            kept.push(offer);
        }
    }
    kept
}

/// The types scored by the candidates that fill them, by amounts alone; the best first.
fn sketches(pass: &Pass<'_, '_, '_>, pool: usize, offers: &[Offer], candidates: &[NodeId]) -> Vec<Sketch> {
    let asked: Vec<(f64, Vec<i64>)> =
        candidates.iter().map(|node| (pass.nodes[*node].price, pass.fleet.nodes[*node].asked().collect())).collect();
    let mut all: Vec<Sketch> = Vec::with_capacity(offers.len());
    for (at, offer) in offers.iter().enumerate() {
        let (mut left, mut price, mut count) = (offer.room.clone(), 0.0, 0);
        for (own, asked) in &asked {
            if asked.iter().zip(&left).all(|(asked, left)| asked <= left) {
                left.iter_mut().zip(asked).for_each(|(left, asked)| *left -= asked);
                price += own;
                count += 1;
                if count >= pass.settings.most_candidates
                    || pass.value(pool, left.iter().copied()) < (1.0 - FULL) * offer.worth
                {
                    break;
                }
            }
        }
        let used = offer.room.iter().zip(&left).map(|(room, left)| room - left);
        let score = pass.value(pool, used) / offer.cost;
        if count > 0 && offer.price < price {
            all.push(Sketch { offer: at, score });
        }
    }
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then(Reverse(a.offer).cmp(&Reverse(b.offer))));
    all
}

/// Takes candidates as long as their pods have places on the new node, or on others that are worth their price.
fn fill(
    pass: &mut Pass<'_, '_, '_>,
    launch: &mut TrialNode,
    pool: usize,
    offer: &Offer,
    candidates: &[NodeId],
) -> Vec<NodeId> {
    // Nodes that go in this command take nothing in.
    let mut stays: IndexVec<NodeId, bool> = IndexVec::from_elem(true, pass.nodes.len());
    candidates.iter().for_each(|node| stays[*node] = false);
    let receivers: Vec<NodeId> = receivers(pass, true).into_iter().filter(|node| stays[*node]).collect();
    let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let mut left = offer.room.clone();
    let mut taken = Vec::new();
    for node in candidates {
        if allowance.is_spent() || pass.value(pool, left.iter().copied()) < (1.0 - FULL) * offer.worth {
            break;
        }
        let fits = pass.fleet.nodes[*node].asked().zip(&left).all(|(asked, left)| asked <= *left);
        let mut after = allowance.clone();
        // Beside those that go already it may be paid for.
        let saves = pass.nodes[*node].price <= 0.0 || pass.saved_beside(&taken, *node) > 0.0;
        if !fits || !saves {
            continue;
        }
        if let Err(why) = after.take_node(pass, *node) {
            pass.bar(*node, why);
            continue;
        }
        if take_away(pass, launch, *node, &receivers) {
            taken.push(*node);
            allowance = after;
            left = pass.fleet.left(launch, offer.at);
        }
    }
    taken
}

/// Takes one candidate away, its pods to others or onto the new node; true if all have a place. Changes nothing where not.
fn take_away(pass: &mut Pass<'_, '_, '_>, launch: &mut TrialNode, node: NodeId, receivers: &[NodeId]) -> bool {
    let mark = pass.fleet.mark();
    let saved = crate::pack::fleet::Fleet::saved(launch);
    pass.fleet.clear(node);
    for pod in pass.fleet.nodes[node].pods.clone() {
        if !pass.fleet.put(pod, receivers) && !pass.fleet.load(launch, pod) {
            pass.fleet.unload(launch, saved);
            pass.fleet.rollback(mark);
            return false;
        }
    }
    true
}

pub(super) fn is_spot(pass: &Pass<'_, '_, '_>, node: NodeId) -> bool {
    let node = pass.fleet.nodes[node].node();
    node.labels.get(crate::labels::CAPACITY_TYPE).is_some_and(|kind| kind == crate::labels::SPOT)
}

/// Bounds of a replacement of these nodes; `None` where there may be none.
pub(super) fn bound(pass: &Pass<'_, '_, '_>, launch: &TrialNode, taken: &[NodeId], price: f64) -> Option<Bound> {
    let from_spot = taken.iter().all(|node| is_spot(pass, *node)) && pass.fleet.may_be_spot(launch);
    if from_spot && !pass.settings.spot_to_spot {
        return None;
    }
    let types = (from_spot && taken.len() == 1).then_some(pass.settings.spot_types);
    Some(Bound { price, spot: true, types })
}

/// The claim of a planned node: in all zones where it may be, or held to one. Where a spot node has too few types that save
/// enough, those come in as well that are no dearer than `whole`, the price of the nodes that it replaces: the mean of them
/// saves enough.
fn claim_of(pass: &Pass<'_, '_, '_>, launch: &TrialNode, bound: Bound, whole: f64) -> Option<PlannedClaim> {
    let strictly = pass.fleet.claim(launch, bound).or_else(|| pass.fleet.claim_in_one_zone(launch, bound));
    strictly.or_else(|| {
        bound.types?;
        let wider = Bound { price: whole, ..bound };
        let claim = pass.fleet.claim_in_one_zone(launch, wider)?;
        (claim.expected_price() <= bound.price).then_some(claim)
    })
}

/// The claim for the pods of a planned node on one that may be any type, in the same places: a node that is not quite full may
/// be had cheaper.
fn any_type(pass: &mut Pass<'_, '_, '_>, launch: &mut TrialNode, bound: Bound, whole: f64) -> Option<PlannedClaim> {
    let mut other = pass.fleet.instead_of(launch)?;
    let all = launch.pods.iter().all(|pod| pass.fleet.load(&mut other, *pod));
    let claim = if all { claim_of(pass, &other, bound, whole) } else { None };
    pass.fleet.abandon(&mut other);
    claim
}
