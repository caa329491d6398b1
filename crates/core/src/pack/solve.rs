//! The order of things: existing nodes, then new nodes pool by pool, then the reasons for what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bits::Bits;
use super::classes::Class;
use super::context::Context;
use super::draft::{ANYWHERE, Draft};
use super::existing::Existing;
use super::finish::Finisher;
use super::item::Item;
use super::limits::Limits;
use super::offers::Mask;
use super::plan::{Options, Packing, PlannedClaim};
use super::topology::domains::{Domains, Place};
use super::{cost, explain, fewest, taints};
use crate::problem::{Policy, Problem};

/// Packs. The answer depends on the problem only, and not on the order of its pods.
#[must_use]
pub fn solve(problem: &Problem, options: &Options) -> Packing {
    let context = Context::new(problem, options);
    let mut plan = Plan::new(&context);
    plan.place(&|_| true);
    if plan.passed_over_the_urgent() {
        plan = Plan::new(&context);
        for priority in priorities(&context) {
            plan.place(&|class| class.example(problem).priority == priority);
        }
    }
    plan.answer()
}

/// All priorities, the most urgent first.
fn priorities(context: &Context<'_>) -> Vec<i32> {
    let all: BTreeSet<i32> = context.classes.iter().map(|class| class.example(context.problem).priority).collect();
    all.into_iter().rev().collect()
}

/// What is planned so far.
struct Plan<'c, 'a> {
    context: &'c Context<'a>,
    /// Pods not placed yet, by class.
    left: Vec<u32>,
    limits: Vec<Limits>,
    existing: Existing<'a>,
    /// Where the pods are that rules between pods speak of.
    domains: Domains<'c, 'a>,
    /// Pods whose place such rules chose and that have no node yet, by class and place.
    pinned: BTreeMap<(u32, u32), u32>,
    finisher: Finisher<'c, 'a>,
    hand: Hand<'c>,
    on_existing: BTreeMap<usize, Vec<usize>>,
    claims: Vec<PlannedClaim>,
}

impl<'c, 'a> Plan<'c, 'a> {
    fn new(context: &'c Context<'a>) -> Self {
        let left: Vec<u32> = context.classes.iter().map(|class| class.pods.len() as u32).collect();
        Self {
            context,
            limits: context.pools.iter().map(|pool| pool.limits.clone()).collect(),
            existing: Existing::of(context),
            domains: Domains::new(context),
            pinned: BTreeMap::new(),
            finisher: Finisher::new(context),
            hand: Hand { next: vec![0; left.len()], classes: &context.classes },
            left,
            on_existing: BTreeMap::new(),
            claims: vec![],
        }
    }

    /// Places the classes chosen: on existing nodes, then on new ones as long as any pool takes any.
    fn place(&mut self, chosen: &dyn Fn(&Class) -> bool) {
        let context = self.context;
        let open = |class: &Class| class.refused.is_none() && chosen(class);
        let classes = || context.classes.iter().enumerate().filter(|(_, class)| open(class));
        for (at, class) in classes().filter(|(at, _)| !context.topology.of_class[*at].is_wide()) {
            let rules = context.node_rules(at as u32);
            for (node, count) in self.existing.fill(context, class, rules, &mut self.left[at]) {
                self.on_existing.entry(node).or_default().extend(self.hand.deal(at as u32, count));
            }
        }
        // A pod may wait for another one to be placed: go round until nothing moves.
        while classes()
            .filter(|(at, _)| context.topology.of_class[*at].is_wide())
            .fold(false, |moved, (at, class)| self.place_wide(at, class) || moved)
        {}
        while self.new_nodes(chosen) {}
    }

    /// Gives pods of a class that rules over zones speak of their existing node, or at least their place; says whether
    /// any got one.
    fn place_wide(&mut self, at: usize, class: &Class) -> bool {
        let context = self.context;
        let mut waiting = self.left[at] - self.pinned_of(at as u32);
        let before = waiting;
        let mut feasible: Option<Vec<(u32, f64)>> = None;
        while waiting > 0 {
            if let Some(node) = self.existing.take_one(context, at, class, &mut self.domains) {
                self.left[at] -= 1;
                self.on_existing.entry(node).or_default().extend(self.hand.deal(at as u32, 1));
            } else {
                let feasible = feasible.get_or_insert_with(|| self.feasible_places(at as u32, class));
                let Some(place) = self.domains.choose(at, feasible) else { break };
                *self.pinned.entry((at as u32, place)).or_insert(0) += 1;
            }
            waiting -= 1;
        }
        waiting < before
    }

    fn pinned_of(&self, class: u32) -> u32 {
        self.pinned.range((class, 0)..=(class, u32::MAX)).map(|(_, count)| *count).sum()
    }

    /// The places in which a class could get a new node, and the price of the cheapest.
    fn feasible_places(&self, at: u32, class: &Class) -> Vec<(u32, f64)> {
        let places = self.domains.places.iter().enumerate();
        let price = |(place, one): (usize, &Place)| {
            let (_, item) = assign(self.context, at, class, 1, &self.limits, (place as u32, one.mask))?;
            let bought = self.context.bought(item.cells);
            let first = bought.order.iter().find(|at| item.selection.types.has(**at as usize))?;
            Some((place as u32, bought.price[*first as usize]))
        };
        places.filter_map(price).collect()
    }

    /// Whether a pod is left over while a less urgent one has a place, which limits may have caused.
    fn passed_over_the_urgent(&self) -> bool {
        if self.limits.iter().all(Limits::are_far) {
            return false;
        }
        let classes = self.context.classes.iter().zip(&self.left).filter(|(class, _)| class.refused.is_none());
        let priority = |class: &Class| class.example(self.context.problem).priority;
        let waiting = classes.clone().filter(|(_, left)| **left > 0).map(|(class, _)| priority(class)).max();
        let placed = classes.filter(|(class, left)| (**left as usize) < class.pods.len());
        waiting > placed.map(|(class, _)| priority(class)).min() && waiting.is_some()
    }

    fn answer(mut self) -> Packing {
        let mut unscheduled = Vec::new();
        for (class, count) in self.left.iter().enumerate().filter(|(_, count)| **count > 0) {
            let told = self.context.topology.of_class[class].is_wide().then(|| self.domains.describe(class));
            let reason = explain::reason(self.context, &self.context.classes[class], &self.limits, told.as_deref());
            let reason = Arc::new(reason);
            unscheduled.extend(self.hand.deal(class as u32, *count).map(|pod| (pod, Arc::clone(&reason))));
        }
        Packing {
            total_price: self.claims.iter().map(|claim| claim.price).sum(),
            expected_price: self.claims.iter().map(PlannedClaim::expected_price).sum(),
            claims: self.claims,
            on_existing: self.on_existing.into_iter().collect(),
            unscheduled,
        }
    }

    /// One pass over the pools; says whether anything was placed, so that what one cannot take comes to the next.
    fn new_nodes(&mut self, chosen: &dyn Fn(&Class) -> bool) -> bool {
        let context = self.context;
        let mut by_pool: Vec<Vec<Item<'c>>> = context.pools.iter().map(|_| vec![]).collect();
        for (at, class) in context.classes.iter().enumerate() {
            if self.left[at] == 0 || class.refused.is_some() || !chosen(class) {
                continue;
            }
            let class_id = at as u32;
            let parts: Vec<(u32, Mask, u32)> = match context.topology.of_class[at].is_wide() {
                false => vec![(ANYWHERE, !0, self.left[at])],
                true => {
                    let pinned = self.pinned.range((class_id, 0)..=(class_id, u32::MAX));
                    pinned
                        .map(|((_, place), left)| (*place, self.domains.places[*place as usize].mask, *left))
                        .collect()
                }
            };
            for (place, mask, left) in parts.into_iter().filter(|(_, _, left)| *left > 0) {
                if let Some((pool, item)) = assign(context, class_id, class, left, &self.limits, (place, mask)) {
                    by_pool[pool].push(item);
                }
            }
        }
        let mut progress = false;
        for (pool, mut items) in by_pool.into_iter().enumerate().filter(|(_, items)| !items.is_empty()) {
            let policy = context.problem.node_pools[context.pools[pool].index].policy;
            match policy {
                Policy::FewestNodes => {
                    for draft in fewest::pack(context, pool, &mut items, &mut self.limits[pool]) {
                        progress |= self.admit(draft, 1, policy);
                    }
                }
                Policy::Cost => {
                    for (draft, times) in cost::pack(context, pool, &self.limits[pool], &mut items) {
                        progress |= self.admit(draft, times, policy);
                    }
                }
            }
        }
        progress
    }

    /// Turns a planned node into claims as far as limits allow; says whether there was any.
    fn admit(&mut self, mut draft: Draft, times: u32, policy: Policy) -> bool {
        let problem = self.context.problem;
        let limits = &mut self.limits[draft.pool];
        let mut known: Option<PlannedClaim> = None;
        for time in 0..times {
            // `fewest-nodes` keeps to the limits while it plans.
            if policy == Policy::Cost && !limits.are_far() {
                limits.keep(problem, &mut draft.types);
                known = None;
            }
            if known.is_none() {
                known = self.finisher.claim(&draft, policy);
            }
            let Some(claim) = &known else { return time > 0 };
            if policy == Policy::Cost {
                limits.take(problem, claim.options.iter().map(|option| option.instance_type));
            }
            let mut claim = claim.clone();
            for share in &draft.shares {
                self.left[share.class as usize] -= share.count;
                if let Some(pinned) = self.pinned.get_mut(&(share.class, share.place)) {
                    *pinned -= share.count;
                }
                claim.pods.extend(self.hand.deal(share.class, share.count));
            }
            self.claims.push(claim);
        }
        times > 0
    }
}

/// The first alternative of a class for which a pool has a node, and the first such pool.
fn assign<'c>(
    context: &'c Context<'_>,
    at: u32,
    class: &Class,
    left: u32,
    limits: &[Limits],
    (place, mask): (u32, Mask),
) -> Option<(usize, Item<'c>)> {
    let tolerations = &class.example(context.problem).tolerations;
    for (set, forgiving) in &class.alternatives {
        for (pool, view) in context.pools.iter().enumerate() {
            let of = &context.problem.node_pools[view.index];
            if taints::untolerated(&of.taints, tolerations, *forgiving).is_some() {
                continue;
            }
            let Some(selection) = context.selection(*set, pool) else { continue };
            let cells = selection.cells & mask;
            let mut types: Bits = selection.types.clone();
            if cells != selection.cells {
                types.and(&context.bought(cells).types);
            }
            context.fitting(pool, &class.requests, &mut types);
            limits[pool].keep(context.problem, &mut types);
            if !types.is_empty() && super::options::enough_values(context, pool, &types, cells) {
                return Some((pool, Item { class: at, set: *set, selection, place, cells, left }));
            }
        }
    }
    None
}

/// Hands out the pods of the classes, each once, in order.
struct Hand<'c> {
    next: Vec<usize>,
    classes: &'c [Class],
}

impl Hand<'_> {
    fn deal(&mut self, class: u32, count: u32) -> impl Iterator<Item = usize> {
        let first = self.next[class as usize];
        let end = first + count as usize;
        self.next[class as usize] = end;
        self.classes[class as usize].pods[first..end].iter().map(|pod| *pod as usize)
    }
}
