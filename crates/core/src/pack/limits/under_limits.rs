//! Packing where a limit binds: nodes give up options that take more of it than they need, and pods that it left over join
//! nodes planned for others. Limits count a planned node at its largest option (spec core 3.11).
//!
//! Say a pool has 20 cpu left, and two pods that ask for 6 cpu each may not share a node. A node for one has options of 8 and
//! of 16 cpu. The first node counts as 16, so that the second pod is left over with 4. Under limits the first node keeps its
//! options of 8 alone, 12 are left, and the second pod gets a node of 8. In the end 4 are left: relaxed, each node gets back
//! its cheapest option first and then whatever fits into those 4, which no option of 16 does.
//!
//! The order matters: all places are found before any option is given back, as an option that is given back early takes what a
//! pod still waits for.

use std::rc::Rc;

use crate::pack::filter::topology::domains::{Chance, PodsInBin};
use crate::pack::limits::shared::PoolLimits as _;
use crate::pack::limits::{LimitsLeft, NodeOptions};
use crate::pack::model::bits::Bits;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, IndexVec, InstanceTypeId, PoolId};
use crate::pack::model::item::Item;
use crate::pack::model::options::varied_enough;
use crate::pack::model::plan::PlannedClaim;
use crate::pack::model::reserved::Room;
use crate::pack::place::assign::{WaitingPods, assign, item};
use crate::pack::place::planned_node::{Candidate, PlannedNode};
use crate::pack::rounds::solve::RoundPlan;
use crate::problem::Policy;

/// Largest number of examinations of planned nodes in one pass: the bound on work.
const MOST_LOOKS: usize = 200_000;

/// Largest number of times that pods left over choose their places again.
const MOST_ROUNDS: usize = 4;

impl<'c> RoundPlan<'c, '_> {
    /// Finds places for those of the classes chosen that limits left over: on planned nodes first, then on new ones, for
    /// which the others take as little of the limits as they can until [`Self::relax`].
    pub(in crate::pack) fn place_under_limits(&mut self, chosen: &[ClassId]) {
        // Nothing to do where no limit is near, or where pods are left over for other reasons.
        if self.limits.iter().all(LimitsLeft::are_far) || !self.any_hindered(chosen) {
            return;
        }
        self.place_anew(chosen);
        if !self.under_limits {
            if !self.any_hindered(chosen) {
                return;
            }
            // From here on each claim is written with the options that take least, those planned already first.
            self.under_limits = true;
            (0..self.claims.len()).for_each(|node| self.rewrite(node, None));
        }
        self.place_anew(chosen);
    }

    /// Lets pods left over choose their places again and looks for room, as long as any finds it: what one takes, the limits
    /// do not leave for the place that another chose.
    fn place_anew(&mut self, chosen: &[ClassId]) {
        for _ in 0..MOST_ROUNDS {
            // Each round places at least one pod more, or is the last.
            let before = self.left_over();
            self.choose_anew(chosen);
            // Chosen places are planned as at first, while limits leave new nodes for them.
            while self.plan_together(chosen) | self.new_nodes(chosen) {}
            self.find_room(chosen);
            if self.left_over() == before {
                break;
            }
        }
    }

    /// Puts pods left over on planned nodes, but for those that would leave a node that may be spot too few types, and on new
    /// ones; on any planned node only where limits leave no other.
    pub(in crate::pack) fn find_room(&mut self, chosen: &[ClassId]) {
        for selective in [true, false] {
            // Choice among spot types is given up only after every place has been looked at that leaves it.
            self.selective = selective;
            while self.join(chosen) | self.plan_together(chosen) | self.new_nodes(chosen) {}
        }
    }

    /// Lets pods whose place was chosen and that got no node there choose again, as limits are now.
    fn choose_anew(&mut self, chosen: &[ClassId]) {
        let context = self.context;
        for at in chosen.iter().copied().filter(|at| context.topology.of_class[*at].is_zonal()) {
            for WaitingPods { candidate, count, .. } in self.waiting(at) {
                // Out of the counts first: a spread would otherwise see the pod where it is not, and refuse the bin
                // that it is to get.
                (0..count).for_each(|_| self.domains.forget(at, candidate.bin));
                self.forgotten.push(PodsInBin { class: at, bin: candidate.bin, count });
                self.pinned.remove(&(at, candidate));
            }
            self.place_zonal(at);
        }
    }

    /// Gives nodes back what options limits allow: each its cheapest type first, then whatever there is room for.
    pub(in crate::pack) fn relax(&mut self) {
        if !std::mem::take(&mut self.under_limits) {
            return;
        }
        for node in 0..self.claims.len() {
            let planned = Rc::clone(&self.planned_nodes[node]);
            let mut open = self.allowed(node, &planned);
            let order = self.context.bought(planned.offering_bits);
            // The first round gives each node its cheapest type, before the second gives any node a choice:
            // otherwise the first nodes would take all that is left.
            let Some(first) = order.order.iter().find(|at| open.has(**at)) else { continue };
            open.clear();
            open.insert(*first);
            if planned.may_be(self.context, &open) {
                self.rewrite(node, Some(&open));
            }
        }
        for node in 0..self.claims.len() {
            // In order of planning: what one node gets back is gone for the next.
            let open = self.allowed(node, &Rc::clone(&self.planned_nodes[node]));
            self.rewrite(node, Some(&open));
        }
    }

    /// True if a pod of the classes waits that could have a node but for limits.
    fn any_hindered(&self, chosen: &[ClassId]) -> bool {
        let unlimited = IndexVec::from_elem(LimitsLeft::none(), self.limits.len());
        chosen.iter().filter(|at| self.left[**at] > 0).any(|at| {
            // With all limits lifted: a pod that has no node even then is not hindered by them.
            let candidates = self.waiting(*at).into_iter().map(|one| one.candidate).chain([Candidate::ANYWHERE]);
            let room = Room { limits: &unlimited, ..self.room() };
            candidates
                .into_iter()
                .any(|candidate| assign(self.context, WaitingPods::one(*at, candidate), room, None).is_some())
        })
    }

    /// The claim of a node, without its pods; under limits, with as few types as take least of the limits.
    pub(in crate::pack) fn claim(&mut self, planned: &PlannedNode, policy: Policy) -> Option<PlannedClaim> {
        let limits = &self.limits[planned.pool];
        if !self.under_limits || policy == Policy::NodeGroups || !limits.bound_resources() {
            return self.finisher.claim(planned, policy);
        }
        let mut narrow = planned.clone();
        narrow.types = least(self.context, planned, limits);
        self.finisher.claim(&narrow, policy)
    }

    pub(in crate::pack) fn policy(&self, pool: PoolId) -> Policy {
        self.context.problem.node_pools[self.context.pools[pool].index].policy
    }

    /// The types that a planned node may be within the limits, what it takes itself apart.
    fn allowed(&self, node: usize, planned: &PlannedNode) -> Bits {
        // Its own share is free to itself: the node goes back into the room that it has now.
        let mut limits = self.limits[planned.pool].clone();
        limits.give_back(self.context.problem, options_of(&self.claims[node], planned));
        let mut types = planned.types.clone();
        limits.retain_within(self.context.problem, &mut types, planned.offering_bits);
        types
    }

    /// Writes a claim anew, out of some of its node's types or of all; leaves it as it is if none remains.
    fn rewrite(&mut self, node: usize, types: Option<&Bits>) {
        let mut planned = PlannedNode::clone(&self.planned_nodes[node]);
        let policy = self.policy(planned.pool);
        if policy == Policy::NodeGroups || !self.limits[planned.pool].bound_resources() {
            return;
        }
        types.into_iter().for_each(|types| planned.types.clone_from(types));
        if let Some(claim) = self.claim(&planned, policy) {
            self.replace(node, claim, None);
        }
    }

    /// Puts a claim in another's place, with that one's pods before its own, and the node that it is written from, if that is
    /// another one.
    pub(in crate::pack) fn replace(&mut self, node: usize, mut claim: PlannedClaim, planned: Option<PlannedNode>) {
        let before = Rc::clone(&self.planned_nodes[node]);
        self.limits.return_node(before.pool, self.context, options_of(&self.claims[node], &before));
        if let Some(planned) = planned {
            self.planned_nodes[node] = Rc::new(planned);
        }
        self.limits.take_node(before.pool, self.context, options_of(&claim, &self.planned_nodes[node]));
        // Pods keep their node: the new claim has those of the old one, then its own.
        claim.pods.splice(..0, std::mem::take(&mut self.claims[node].pods));
        self.claims[node] = claim;
    }

    /// Puts pods left over on planned nodes that still take them; true if any was put.
    fn join(&mut self, chosen: &[ClassId]) -> bool {
        let mut looks = MOST_LOOKS;
        let mut moved = false;
        for at in chosen.iter().copied() {
            for WaitingPods { candidate, count: mut left, .. } in self.waiting(at) {
                let asked = self.asked(at, candidate);
                for node in 0..self.claims.len() {
                    if left == 0 || looks == 0 {
                        break;
                    }
                    looks -= 1;
                    let count = self.put(node, &asked, left);
                    left -= count;
                    moved |= count > 0;
                }
            }
            // One by one: each pod changes the counts by which the next one chooses its domain.
            while self.join_somewhere(at, &mut looks) {
                moved = true;
            }
        }
        moved
    }

    /// Puts one pod of a class for which rules between pods have chosen no place yet on a planned node.
    fn join_somewhere(&mut self, at: ClassId, looks: &mut usize) -> bool {
        let context = self.context;
        let part = &context.topology.of_class[at];
        let held_back = if self.memory.strictly { self.memory.held_back[at] } else { 0 };
        if !part.is_zonal() || self.without_place(at) <= held_back {
            return false;
        }
        for tier in context.classes[at].alternatives.ids() {
            let mut feasible = Vec::new();
            for bin in context.bins.for_keys(part.keys).ids() {
                let asked = self.asked(at, Candidate { tier, bin });
                let nodes = (0..self.claims.len()).take(*looks);
                *looks = looks.saturating_sub(nodes.len());
                let node = nodes.into_iter().find(|node| self.grown(*node, &asked, 1).is_some());
                feasible.extend(node.map(|node| {
                    let weight = context.weight(self.planned_nodes[node].pool);
                    Chance { bin, weight, price: self.claims[node].price }
                }));
            }
            let Some(Chance { bin, .. }) = self.domains.best(at, tier, &feasible, |_| false) else { continue };
            self.domains.put(at, bin);
            let candidate = Candidate { tier, bin };
            *self.pinned.entry((at, candidate)).or_insert(0) += 1;
            let asked = self.asked(at, candidate);
            return (0..self.claims.len()).any(|node| self.put(node, &asked, 1) > 0);
        }
        false
    }

    /// Items of a class for each pool, by each of its alternatives.
    fn asked(&self, at: ClassId, candidate: Candidate) -> IndexVec<PoolId, Vec<Item<'c>>> {
        let context = self.context;
        let alternatives = context.classes[at].open_alternatives(candidate);
        let one = WaitingPods::one(at, candidate);
        let unlimited = IndexVec::from_elem(LimitsLeft::none(), self.limits.len());
        // A planned node has its instance already, whether reserved or bought.
        let reserved = context.offers.reserved;
        let rooms = [!reserved, reserved].map(|open| Room { limits: &unlimited, open });
        let of_pool = |pool: PoolId| {
            let asked = alternatives.iter().flat_map(|alternative| rooms.map(|room| (*alternative, room)));
            asked.filter_map(|(alternative, room)| Some(item(context, one, alternative, pool, room)?.0)).collect()
        };
        context.pools.ids().map(of_pool).collect()
    }

    /// Puts as many pods on a planned node as it takes within the limits; returns their number.
    fn put(&mut self, node: usize, asked: &IndexVec<PoolId, Vec<Item<'_>>>, wanted: u32) -> u32 {
        let Some((planned, count, item)) = self.grown(node, asked, wanted) else { return 0 };
        let (class, candidate) = (item.class, item.candidate);
        let Some(mut claim) = self.claim(&planned, self.policy(planned.pool)) else { return 0 };
        self.assign_class(class, candidate, count, &mut claim);
        self.replace(node, claim, Some(planned));
        count
    }

    /// A planned node with as many more pods as it takes within the limits, by the first alternative that it takes any by.
    fn grown<'i, 'k>(
        &self,
        node: usize,
        asked: &'i IndexVec<PoolId, Vec<Item<'k>>>,
        wanted: u32,
    ) -> Option<(PlannedNode, u32, &'i Item<'k>)> {
        // Items come by alternative, so the pod keeps as much of what it prefers as this node allows.
        asked[self.planned_nodes[node].pool].iter().find_map(|item| {
            let (planned, count) = self.grown_by(node, item, wanted)?;
            Some((planned, count, item))
        })
    }

    /// True if pods leave a node that may be spot too few types where it has enough without them.
    fn narrows(&self, before: &PlannedNode, after: &PlannedNode) -> bool {
        let varied = |planned: &PlannedNode| varied_enough(self.context, &planned.types, planned.offering_bits);
        self.policy(before.pool) == Policy::Cost && varied(before) && !varied(after)
    }

    fn grown_by(&self, node: usize, item: &Item<'_>, wanted: u32) -> Option<(PlannedNode, u32)> {
        let context = self.context;
        let rules = context.node_rules(item.class);
        let there = &self.planned_nodes[node];
        if !context.work(there.tally.work(rules)) {
            return None;
        }
        let first = there.tally.allows(rules, 1) == 0;
        if there.tally.opens(rules, 1) == 0 || (first && !self.may_be_first(item.class)) {
            return None;
        }
        let one =
            |planned: &mut PlannedNode| if first { planned.open(context, item) } else { planned.add(context, item, 1) };
        // Most nodes are full whatever the limits.
        let mut unlimited = PlannedNode::clone(there);
        if !one(&mut unlimited) || (self.selective && self.narrows(there, &unlimited)) {
            return None;
        }
        let mut planned = PlannedNode::clone(there);
        planned.types = self.allowed(node, there);
        if !one(&mut planned) {
            return None;
        }
        // One pod fits. The step is what could fit at most, halved each time that it does not: 1 + 40, 20, 10, … finds a count in few tries.
        let mut count = 1;
        let mut step = planned.tally.allows(rules, wanted - 1);
        while step > 0 && count < wanted {
            step = step.min(wanted - count);
            let mut more = PlannedNode::clone(&planned);
            if more.add(context, item, step) && !(self.selective && self.narrows(there, &more)) {
                planned = more;
                count += step;
            } else {
                step /= 2;
            }
        }
        Some((planned, count))
    }
}

pub(in crate::pack) fn types_of(claim: &PlannedClaim) -> impl Iterator<Item = InstanceTypeId> + Clone {
    claim.options.iter().map(|option| InstanceTypeId::from(option.instance_type))
}

/// The types that a claim may be, and the offering bits of the node that it is written from.
pub(in crate::pack) fn options_of<'c>(
    claim: &'c PlannedClaim,
    planned: &PlannedNode,
) -> NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone + use<'c>> {
    NodeOptions { types: types_of(claim), bits: planned.offering_bits }
}

/// The types of a planned node that take least of the limits, the cheapest of equals: as few as `minValues` allow.
fn least(context: &Context<'_>, planned: &PlannedNode, limits: &LimitsLeft) -> Bits {
    let bought = context.bought(planned.offering_bits);
    let all = bought.order.iter().copied().filter(|at| planned.types.has(*at));
    let mut order: Vec<(f64, InstanceTypeId)> =
        all.map(|at| (limits.share(context.problem, at, planned.offering_bits), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    // One type, then two, four and so on, until they have the distinct values that `minValues` ask for.
    let mut few = 1;
    loop {
        let mut types = Bits::empty(context.problem.instance_types.len());
        order.iter().take(few).for_each(|(_, at)| types.insert(*at));
        if few >= order.len() || planned.may_be(context, &types) {
            return types;
        }
        few *= 2;
    }
}
