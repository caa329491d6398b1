//! Packing in rounds: what one has shown to mislead others is left out of the next.
//!
//! Places are chosen before there are nodes, by what is believed then. Four kinds of beliefs can turn out wrong, and each has
//! its loop, the innermost first:
//! - [`planned`] plans once; a second time by priority if a less urgent pod got what a more urgent one needed.
//! - [`opened`]: pods were counted in a zone and got no node there, so that others hang on nobody. They are held back.
//! - [`settled`]: a pool's limit was reached, and a pod got a lighter pool in its zone than it would have had in another.
//! - [`counted`]: nodes were planned for others in zones that a spread did not count, as its own pods cannot be there.
//!
//! The order matters: an outer loop may only learn from a plan that kube-scheduler could bind, which the inner ones make.
//! What an outer loop learns stays known, while pods are held back anew each time: with other beliefs they may get a node.

mod assigner;
pub(in crate::pack) mod failure;
mod fold;
mod gathering;
pub(in crate::pack) mod isolation;
pub(in crate::pack) mod memory;
pub(in crate::pack) mod solve;
pub(in crate::pack) mod steps;
mod together;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::pack::explain::reason::Reason;
use crate::pack::filter::soft;
use crate::pack::filter::topology::any_soft_spread;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, DomainId, GroupId, IndexVec};
use crate::pack::model::plan::{Options, Packing};
use crate::pack::policy::node_groups;
use crate::pack::rounds::failure::PackingError;
use crate::pack::rounds::memory::RoundMemory;
use crate::pack::rounds::solve::RoundPlan;
use crate::problem::Problem;

/// Packs. The answer depends on the problem only, and not on the order of its pods. Where packing meets its bound every pod is
/// left over with that for its reason; a caller that can leave pods out uses [`crate::pack::Isolation`] instead.
#[must_use]
pub fn solve(problem: &Problem, options: &Options) -> Packing {
    solve_within(problem, options).unwrap_or_else(|error| {
        let reason = Arc::new(Reason::PackingFailed { error: error.to_string() });
        let waiting = (0..problem.pods.len()).filter(|pod| !problem.pods[*pod].to_come);
        Packing { unscheduled: waiting.map(|pod| (pod, Arc::clone(&reason))).collect(), ..Packing::default() }
    })
}

/// Packs within a bound on the work, which is by the problem's size or by the options.
///
/// # Errors
/// [`PackingError::Bound`] when that is met. The same problem meets it always, or never.
pub fn solve_within(problem: &Problem, options: &Options) -> Result<Packing, PackingError> {
    if let Some(policy) = options.policy {
        let mut other = problem.clone();
        other.node_pools.iter_mut().for_each(|pool| pool.policy = policy);
        return solve_within(&other, &Options { policy: None, ..options.clone() });
    }
    // Before anything is compiled: each soft term multiplies the alternatives of its pod.
    let problem = &*soft::with_heaviest(problem);
    let packing = solve_once(problem, options)?;
    if packing.unscheduled.is_empty() || !options.soft_spread_on_new_nodes || !any_soft_spread(problem) {
        return Ok(packing);
    }
    // Soft spread on new nodes is a wish. It may cost nodes, but never a pod its place, so it is given up where
    // pods are left over.
    let loose = solve_once(problem, &Options { soft_spread_on_new_nodes: false, ..options.clone() })?;
    Ok(if loose.unscheduled.len() < packing.unscheduled.len() { loose } else { packing })
}

fn solve_once(problem: &Problem, options: &Options) -> Result<Packing, PackingError> {
    let context = Context::new(problem, options)?;
    let mut plan = counted(&context);
    // First each node gets back the options that limits leave, then nodes are given up for each other, and groups
    // are filled up last: each step changes what the next one looks at.
    plan.relax();
    plan.fold();
    for planned in node_groups::missing(&context, &plan.claims) {
        plan.admit(planned, 1);
    }
    context.steps.bound_met()?;
    // A plan that met its bound stopped halfway: it is no answer, not even in part.
    let answer = plan.answer();
    context.steps.bound_met()?;
    let answer = crate::pack::place::to_come::taken_out(problem, answer);
    Ok(crate::pack::place::zone_balance::balanced(problem, answer))
}

/// A plan in which spreads count the domains of nodes planned for others, or as near as rounds come to it.
fn counted<'c, 'a>(context: &'c Context<'a>) -> RoundPlan<'c, 'a> {
    let mut known = BTreeSet::new();
    let mut plan = settled(context, &known);
    for _ in 0..ROUNDS {
        // A domain once counted stays counted: taking it back could go on forever.
        let found = plan.counted_for_others();
        if found.is_empty() {
            break;
        }
        known.extend(found);
        plan = settled(context, &known);
    }
    plan
}

/// A plan in which no pod was put where it gets a lighter pool than elsewhere, or as near as rounds come to it.
fn settled<'c, 'a>(context: &'c Context<'a>, counted: &BTreeSet<(GroupId, DomainId)>) -> RoundPlan<'c, 'a> {
    let held_back = IndexVec::from_elem(0, context.classes.len());
    let mut memory = RoundMemory { held_back, counted: counted.clone(), ..RoundMemory::default() };
    let mut plan = opened(context, memory.clone());
    for _ in 0..ROUNDS {
        let lighter = plan.lighter_than_believed();
        // The plan got what it believed in.
        if lighter.is_empty() {
            break;
        }
        memory.lighter.extend(lighter);
        let next = opened(context, memory.clone());
        // The memory left over more pods than it helped: the plan before was better, and so is what it believed.
        if next.left_over() > plan.left_over() {
            break;
        }
        plan = next;
    }
    plan
}

/// The first plan in which no pod was misled by another, or as near as rounds come to it.
fn opened<'c, 'a>(context: &'c Context<'a>, mut memory: RoundMemory) -> RoundPlan<'c, 'a> {
    let mut plan = planned(context, &memory);
    let mut before_invalidated: Option<RoundPlan<'c, 'a>> = None;
    let mut invalidated = 0;
    for round in 0..=2 * ROUNDS {
        let mut misled = plan.depended_on();
        if misled.is_empty() {
            // Pods that nobody can open a node for mislead as well; they are looked for only where no pod hangs on
            // another.
            misled = plan.unopened();
        }
        let depended_on = !misled.is_empty();
        if !depended_on {
            misled = plan.invalidated();
            if misled.is_empty() {
                break;
            }
            invalidated += misled.iter().map(|(_, count)| count).sum::<u32>();
        }
        let held_back = &mut memory.held_back;
        misled.into_iter().for_each(|(class, count)| held_back[class] += count);
        // Four rounds of holding back single pods did not settle it: whole classes that need others are held back,
        // which surely ends it.
        if depended_on && round >= ROUNDS {
            let needs_others = |class: &ClassId| {
                context.topology.follows(*class) || !context.topology.of_class[*class].pod_affinity.is_empty()
            };
            let followers = held_back.ids().filter(needs_others);
            followers.for_each(|class| held_back[class] = context.classes[class].count());
        }
        memory.strictly = round >= ROUNDS;
        let next = planned(context, &memory);
        // The first plan in which no pod depended on another: plans with pods held back for broken rules are compared with it.
        let last = std::mem::replace(&mut plan, next);
        if !depended_on {
            before_invalidated.get_or_insert(last);
        }
    }
    // Pods whose rules are broken are held back so that they are left over, and nobody else. For as many as are held back as
    // many more may be left over, and no more than that.
    before_invalidated.filter(|before| plan.left_over() > before.left_over() + invalidated).unwrap_or(plan)
}

/// Packs once, with what earlier rounds have shown.
fn planned<'c, 'a>(context: &'c Context<'a>, memory: &RoundMemory) -> RoundPlan<'c, 'a> {
    let mut plan = RoundPlan::new(context, memory);
    plan.place(&|_| true);
    // Most plans place everything, and then the order by size is the better one. By priority it is planned only
    // where that failed the urgent.
    if plan.passed_over_the_urgent() {
        plan = RoundPlan::new(context, memory);
        for priority in priorities(context) {
            plan.place(&|class| class.example(context.problem).priority == priority);
        }
        // Places of less urgent pods may have room left for more urgent ones.
        for priority in priorities(context) {
            plan.find_room(&plan.open(&|class| class.example(context.problem).priority == priority));
        }
    }
    plan
}

/// All priorities, the most urgent first.
fn priorities(context: &Context<'_>) -> Vec<i32> {
    let all: BTreeSet<i32> = context.classes.iter().map(|class| class.example(context.problem).priority).collect();
    // Ascending in the set, so the most urgent are last there.
    all.into_iter().rev().collect()
}

/// Number of rounds in which packing is begun again without the pods that others were placed beside and that got no node; then
/// of rounds without any that has to be beside another; and of those with places known where a pool gives less than was
/// believed.
const ROUNDS: u32 = 4;
