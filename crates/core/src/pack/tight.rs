//! Where a limit binds: nodes give up options that take more of it than they need, and pods that it left over join
//! nodes planned for others. Limits count a planned node at its largest option (spec core 3.11).

use std::rc::Rc;

use super::assign::{assign, item};
use super::bits::Bits;
use super::context::Context;
use super::draft::{Draft, Spot};
use super::item::Item;
use super::limits::Limits;
use super::plan::PlannedClaim;
use super::reserved::Room;
use super::solve::Plan;
use crate::problem::Policy;

/// So many times a planned node is looked at in one go: the bound on work.
const MOST_LOOKS: usize = 200_000;

impl<'c> Plan<'c, '_> {
    /// Finds places for those of the classes chosen that limits left over: on planned nodes first, then on new ones, for
    /// which the others take as little of the limits as they can until [`Self::loosen`].
    pub(super) fn tighten(&mut self, chosen: &[usize]) {
        if self.limits.iter().all(Limits::are_far) || !self.any_hindered(chosen) {
            return;
        }
        while self.join(chosen) | self.plan_together(chosen) | self.new_nodes(chosen) {}
        if !self.tight {
            if !self.any_hindered(chosen) {
                return;
            }
            self.tight = true;
            (0..self.claims.len()).for_each(|node| self.rewrite(node, None));
        }
        let wide: Vec<usize> =
            chosen.iter().copied().filter(|at| self.context.topology.of_class[*at].is_wide()).collect();
        loop {
            let moved = wide.iter().filter(|at| self.place_wide(**at)).count() > 0;
            if !(moved | self.join(chosen) | self.plan_together(chosen) | self.new_nodes(chosen)) {
                break;
            }
        }
    }

    /// Gives nodes back what options limits allow: each its cheapest type first, then whatever there is room for.
    pub(super) fn loosen(&mut self) {
        if !std::mem::take(&mut self.tight) {
            return;
        }
        for node in 0..self.claims.len() {
            let draft = Rc::clone(&self.drafts[node]);
            let mut open = self.allowed(node, &draft);
            let order = self.context.bought(draft.cells);
            let Some(first) = order.order.iter().find(|at| open.has(**at as usize)) else { continue };
            open.clear();
            open.insert(*first as usize);
            if draft.may_be(self.context, &open) {
                self.rewrite(node, Some(&open));
            }
        }
        for node in 0..self.claims.len() {
            let open = self.allowed(node, &Rc::clone(&self.drafts[node]));
            self.rewrite(node, Some(&open));
        }
    }

    /// Whether a pod of the classes waits that could have a node but for limits.
    fn any_hindered(&self, chosen: &[usize]) -> bool {
        let unlimited = vec![Limits::none(); self.limits.len()];
        chosen.iter().filter(|at| self.left[**at] > 0).any(|at| {
            let spots = self.waiting(*at).into_iter().map(|(spot, _)| spot).chain([Spot::ANYWHERE]);
            let room = Room { limits: &unlimited, ..self.room() };
            spots.into_iter().any(|spot| assign(self.context, *at as u32, 1, room, spot, None).is_some())
        })
    }

    /// The claim of a node, without its pods; while it is tight, with as few types as take least of the limits.
    pub(super) fn claim(&mut self, draft: &Draft, policy: Policy) -> Option<PlannedClaim> {
        let limits = &self.limits[draft.pool];
        if !self.tight || policy == Policy::NodeGroups || !limits.bound_resources() {
            return self.finisher.claim(draft, policy);
        }
        let mut narrow = draft.clone();
        narrow.types = least(self.context, draft, limits);
        self.finisher.claim(&narrow, policy)
    }

    fn policy(&self, pool: usize) -> Policy {
        self.context.problem.node_pools[self.context.pools[pool].index].policy
    }

    /// The types that a planned node may be within the limits, what it takes itself apart.
    fn allowed(&self, node: usize, draft: &Draft) -> Bits {
        let mut limits = self.limits[draft.pool].clone();
        limits.give_back(self.context.problem, types_of(&self.claims[node]));
        let mut types = draft.types.clone();
        limits.keep(self.context.problem, &mut types);
        types
    }

    /// Writes a claim anew, out of some of its node's types or of all; leaves it where that comes to nothing.
    fn rewrite(&mut self, node: usize, types: Option<&Bits>) {
        let mut draft = Draft::clone(&self.drafts[node]);
        let policy = self.policy(draft.pool);
        if policy == Policy::NodeGroups || !self.limits[draft.pool].bound_resources() {
            return;
        }
        types.into_iter().for_each(|types| draft.types.clone_from(types));
        if let Some(claim) = self.claim(&draft, policy) {
            self.replace(node, claim);
        }
    }

    /// Puts a claim in another's place, with that one's pods before its own.
    fn replace(&mut self, node: usize, mut claim: PlannedClaim) {
        let limits = &mut self.limits[self.drafts[node].pool];
        limits.give_back(self.context.problem, types_of(&self.claims[node]));
        limits.take(self.context.problem, types_of(&claim));
        claim.pods.splice(..0, std::mem::take(&mut self.claims[node].pods));
        self.claims[node] = claim;
    }

    /// Puts pods left over on planned nodes that still take them; says whether any did.
    fn join(&mut self, chosen: &[usize]) -> bool {
        let mut looks = 0;
        let mut moved = false;
        for at in chosen.iter().copied() {
            for (spot, mut left) in self.waiting(at) {
                let asked = self.asked(at, spot);
                for node in 0..self.claims.len() {
                    looks += 1;
                    if left == 0 || looks > MOST_LOOKS {
                        break;
                    }
                    let pool = self.drafts[node].pool;
                    let count = asked[pool].iter().map(|item| self.put(node, item, left)).find(|count| *count > 0);
                    left -= count.unwrap_or(0);
                    moved |= count.is_some();
                }
            }
        }
        moved
    }

    /// For each pool what a class asks of it, by each of its alternatives.
    fn asked(&self, at: usize, spot: Spot) -> Vec<Vec<Item<'c>>> {
        let context = self.context;
        let all = &context.classes[at].alternatives;
        let alternatives = match spot {
            Spot::ANYWHERE => all.as_slice(),
            Spot { level, .. } => all.get(level as usize..=level as usize).unwrap_or_default(),
        };
        let unlimited = vec![Limits::none(); self.limits.len()];
        // A planned node has its instance already, whether reserved or bought.
        let reserved = context.offers.reserved;
        let rooms = [!reserved, reserved].map(|open| Room { limits: &unlimited, open });
        let of_pool = |pool: usize| {
            let asked = alternatives.iter().flat_map(|one| rooms.map(|room| (*one, room)));
            asked.filter_map(|(one, room)| Some(item(context, (at as u32, 1, spot), one, pool, room)?.0)).collect()
        };
        (0..context.pools.len()).map(of_pool).collect()
    }

    /// Puts as many pods on a planned node as it takes within the limits, and says how many.
    fn put(&mut self, node: usize, item: &Item<'_>, wanted: u32) -> u32 {
        let (context, class) = (self.context, item.class as usize);
        let rules = context.node_rules(item.class);
        let tally = &self.drafts[node].tally;
        let first = tally.allows(rules, 1) == 0;
        if tally.opens(rules, 1) == 0 || (first && !self.may_be_first(class)) {
            return 0;
        }
        let mut draft = Draft::clone(&self.drafts[node]);
        // Most nodes are full whatever the limits.
        if !if first { draft.open(context, item) } else { draft.add(context, item, 1) } {
            return 0;
        }
        draft = Draft::clone(&self.drafts[node]);
        draft.types = self.allowed(node, &draft);
        let mut count = u32::from(first && draft.open(context, item));
        let mut step = draft.tally.allows(rules, wanted - count);
        while step > 0 && count < wanted {
            step = step.min(wanted - count);
            if draft.add(context, item, step) {
                count += step;
            } else {
                step /= 2;
            }
        }
        if count == 0 {
            return 0;
        }
        let Some(mut claim) = self.claim(&draft, self.policy(draft.pool)) else { return 0 };
        self.deal((item.class, item.spot), count, &mut claim);
        self.replace(node, claim);
        self.drafts[node] = Rc::new(draft);
        count
    }
}

fn types_of(claim: &PlannedClaim) -> impl Iterator<Item = usize> + Clone {
    claim.options.iter().map(|option| option.instance_type)
}

/// Of the types that a node may be those that take least of the limits, the cheapest of equals: as few as `minValues` allow.
fn least(context: &Context<'_>, draft: &Draft, limits: &Limits) -> Bits {
    let bought = context.bought(draft.cells);
    let all = bought.order.iter().map(|at| *at as usize).filter(|at| draft.types.has(*at));
    let mut order: Vec<(f64, usize)> = all.map(|at| (limits.share(context.problem, at), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut few = 1;
    loop {
        let mut types = Bits::empty(context.problem.instance_types.len());
        order.iter().take(few).for_each(|(_, at)| types.insert(*at));
        if few >= order.len() || draft.may_be(context, &types) {
            return types;
        }
        few *= 2;
    }
}
