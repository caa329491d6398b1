//! The order of things: existing nodes, then new nodes pool by pool, then the reasons for what is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::Bits;
use super::classes::Class;
use super::context::Context;
use super::draft::Draft;
use super::finish::Finisher;
use super::item::Item;
use super::limits::Limits;
use super::plan::{Options, Packing, PlannedClaim};
use super::reason::Reason;
use super::{cost, existing, explain, fewest, taints};
use crate::problem::{Policy, Problem};

/// Packs. The answer depends on the problem only, and not on the order of its pods.
#[must_use]
pub fn solve(problem: &Problem, options: &Options) -> Packing {
    let context = Context::new(problem, options);
    let mut left: Vec<u32> = context.classes.iter().map(|class| class.pods.len() as u32).collect();
    let mut hand = Hand { next: vec![0; left.len()], classes: &context.classes };
    let mut packing = Packing::default();
    let mut on_existing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, class, count) in existing::fill(&context, &mut left) {
        on_existing.entry(node).or_default().extend(hand.deal(class, count));
    }
    packing.on_existing = on_existing.into_iter().collect();
    let mut limits: Vec<Limits> = context.pools.iter().map(|pool| pool.limits.clone()).collect();
    let mut finisher = Finisher::new(&context);
    while new_nodes(&context, &mut left, &mut limits, &mut finisher, &mut hand, &mut packing.claims) {}
    packing.total_price = packing.claims.iter().map(|claim| claim.price).sum();
    packing.expected_price = packing.claims.iter().map(PlannedClaim::expected_price).sum();
    packing.unscheduled = left_over(&context, &left, &limits, &mut hand);
    packing
}

/// One pass over the pools; says whether anything was placed, so that what one pool could not take comes to the next.
fn new_nodes(
    context: &Context<'_>,
    left: &mut [u32],
    limits: &mut [Limits],
    finisher: &mut Finisher<'_, '_>,
    hand: &mut Hand<'_>,
    claims: &mut Vec<PlannedClaim>,
) -> bool {
    let mut by_pool: Vec<Vec<Item<'_>>> = context.pools.iter().map(|_| vec![]).collect();
    for (at, class) in context.classes.iter().enumerate() {
        if left[at] > 0
            && class.refused.is_none()
            && let Some((pool, item)) = assign(context, at as u32, class, left[at], limits)
        {
            by_pool[pool].push(item);
        }
    }
    let mut progress = false;
    for (pool, mut items) in by_pool.into_iter().enumerate() {
        if items.is_empty() {
            continue;
        }
        let policy = context.problem.node_pools[context.pools[pool].index].policy;
        let drafts = match policy {
            Policy::FewestNodes => {
                let drafts = fewest::pack(context, pool, &mut items, &mut limits[pool]);
                drafts.into_iter().map(|draft| (draft, 1)).collect()
            }
            Policy::Cost => {
                let mut open = context.pools[pool].types.clone();
                limits[pool].keep(context.problem, &mut open);
                cost::pack(context, pool, &open, &mut items)
            }
        };
        for (draft, times) in drafts {
            progress |= admit(context, draft, times, policy, &mut limits[pool], finisher, hand, left, claims);
        }
    }
    progress
}

/// Turns a planned node into claims as far as limits allow; says whether there was any.
#[allow(clippy::too_many_arguments, reason = "one caller; a struct would only name what is named here")]
fn admit(
    context: &Context<'_>,
    mut draft: Draft,
    times: u32,
    policy: Policy,
    limits: &mut Limits,
    finisher: &mut Finisher<'_, '_>,
    hand: &mut Hand<'_>,
    left: &mut [u32],
    claims: &mut Vec<PlannedClaim>,
) -> bool {
    let mut known: Option<PlannedClaim> = None;
    for time in 0..times {
        // `fewest-nodes` keeps to the limits while it plans.
        if policy == Policy::Cost && !limits.are_far() {
            limits.keep(context.problem, &mut draft.types);
            known = None;
        }
        if known.is_none() {
            known = finisher.claim(&draft, policy);
        }
        let Some(claim) = &known else { return time > 0 };
        if policy == Policy::Cost {
            limits.take(context.problem, claim.options.iter().map(|option| option.instance_type));
        }
        let mut claim = claim.clone();
        for share in &draft.shares {
            left[share.class as usize] -= share.count;
            claim.pods.extend(hand.deal(share.class, share.count));
        }
        claims.push(claim);
    }
    times > 0
}

/// The first alternative of a class for which a pool has a node, and the first such pool.
fn assign<'c>(
    context: &'c Context<'_>,
    at: u32,
    class: &Class,
    left: u32,
    limits: &[Limits],
) -> Option<(usize, Item<'c>)> {
    let tolerations = &class.example(context.problem).tolerations;
    for (set, forgiving) in &class.alternatives {
        for (pool, view) in context.pools.iter().enumerate() {
            let of = &context.problem.node_pools[view.index];
            if taints::untolerated(&of.taints, tolerations, *forgiving).is_some() {
                continue;
            }
            let Some(selection) = context.selection(*set, pool) else { continue };
            let mut types: Bits = selection.types.clone();
            context.fitting(pool, &class.requests, &mut types);
            limits[pool].keep(context.problem, &mut types);
            if !types.is_empty() && super::options::enough_values(context, pool, &types, selection.cells) {
                return Some((pool, Item { class: at, set: *set, selection, left }));
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

fn left_over(context: &Context<'_>, left: &[u32], limits: &[Limits], hand: &mut Hand<'_>) -> Vec<(usize, Arc<Reason>)> {
    let mut all = Vec::new();
    for (class, count) in left.iter().enumerate().filter(|(_, count)| **count > 0) {
        let reason = Arc::new(explain::reason(context, &context.classes[class], limits));
        all.extend(hand.deal(class as u32, *count).map(|pod| (pod, Arc::clone(&reason))));
    }
    all
}
