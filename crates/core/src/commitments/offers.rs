//! Commitments in a packing problem: more offerings of on-demand capacity, whose price is next to nothing and of which there are
//! as many as commitments have left.
//!
//! The offerings of one id are of types of which about as many are left, up to twice the least number, which holds for all. Several ids together may promise more than there is. That shows in the bill, by which plans
//! are compared; a plan by one id alone promises no more than there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Commitment, Commitments, Coverage, Usage, Uses};
use crate::instance_type::{COMMITMENT_MARK, InstanceType, Offering, is_marked};
use crate::labels::{CAPACITY_RESERVATION_ID, ON_DEMAND, OS, RESERVED};
use crate::pack::{Packing, PlannedClaim};
use crate::problem::Problem;
use crate::requirements::NodeSelectorRequirement;

/// On-demand price of an instance, as a multiple of its price where commitments cover it: that of reserved capacity.
const COVERED_PRICE: f64 = 1e7;
/// Largest number of instances, as a power of two, that an offering promises.
const MOST_DOUBLINGS: usize = 8;

/// Adds what commitments have left beside these uses to a problem. Without any it is left as it is.
pub fn offer(problem: &mut Problem, commitments: &Commitments, uses: &Uses) {
    if commitments.is_empty() {
        return;
    }
    let left = commitments.allocate(uses).left;
    let left: Vec<(&Commitment, f64)> =
        commitments.iter().zip(left).filter(|(one, left)| one.offered && *left > 0.0).collect();
    if left.is_empty() {
        return;
    }
    for one in &mut problem.instance_types {
        let more: Vec<Offering> =
            one.offerings.iter().filter_map(|offering| covered_offering(one, offering, &left)).collect();
        if !more.is_empty() {
            Arc::make_mut(one).offerings.extend(more);
        }
    }
}

/// The problem with what commitments have left: by all ids, and by the one alone that the most types and zones have. None where
/// nothing is left.
#[must_use]
pub fn offered(problem: &Problem, commitments: &Commitments, uses: &Uses) -> Vec<Problem> {
    let mut all = problem.clone();
    offer(&mut all, commitments, uses);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let offerings = all.instance_types.iter().flat_map(|one| &one.offerings);
    for id in offerings.filter(|one| stands_for_commitment(one)).filter_map(Offering::reservation) {
        *counts.entry(id).or_default() += 1;
    }
    let Some(widest) = counts.iter().max_by_key(|(_, count)| **count).map(|(id, _)| (*id).to_owned()) else {
        return vec![];
    };
    let mut narrow = (counts.len() > 1).then(|| all.clone());
    for one in narrow.iter_mut().flat_map(|narrow| &mut narrow.instance_types) {
        if one.offerings.iter().any(stands_for_commitment) {
            let stays = |one: &Offering| !stands_for_commitment(one) || one.reservation() == Some(widest.as_str());
            Arc::make_mut(one).offerings.retain(stays);
        }
    }
    std::iter::once(all).chain(narrow).collect()
}

/// An offering of a type that commitments cover wholly; `None` where less is left than one instance takes.
fn covered_offering(one: &InstanceType, offering: &Offering, left: &[(&Commitment, f64)]) -> Option<Offering> {
    let bought = offering.capacity_type == ON_DEMAND && offering.available && offering.price.is_finite();
    if !bought || offering.price <= 0.0 || offering.reservation().is_some() {
        return None;
    }
    let usage = usage_of(one, offering);
    let (mut count, mut zone) = (1e-9, "");
    for (commitment, left) in left {
        let Some(taken) = commitment.taken_by(&usage) else { continue };
        count += left / taken;
        if matches!(commitment.covers, Coverage::Zonal { .. }) {
            // Other zones have fewer.
            zone = &offering.zone;
        }
    }
    if count < 1.0 {
        return None;
    }
    let whole = count.min(f64::from(1_u32 << (MOST_DOUBLINGS + 1))) as u32;
    let doublings = (1..=MOST_DOUBLINGS).take_while(|more| count >= f64::from(1_u32 << more)).count();
    let id = format!("{COMMITMENT_MARK}{zone}:{doublings}");
    let mut requirements = offering.requirements.clone();
    requirements.push(NodeSelectorRequirement::one_of(CAPACITY_RESERVATION_ID, [id.as_str()]));
    Some(Offering {
        price: offering.price / COVERED_PRICE,
        // The least of an id's numbers counts.
        reservation_capacity: Some(whole),
        requirements,
        ..offering.clone()
    })
}

fn usage_of(one: &InstanceType, offering: &Offering) -> Usage {
    Usage {
        instance_type: one.name.clone(),
        zone: offering.zone.clone(),
        price: offering.billed_price(),
        linux: is_linux(&one.requirements),
    }
}

/// False for instance types whose nodes run Windows alone.
pub(crate) fn is_linux(requirements: &[NodeSelectorRequirement]) -> bool {
    let os = requirements.iter().find(|one| one.key == OS);
    os.is_none_or(|os| os.values.is_empty() || os.values.iter().any(|value| value != "windows"))
}

/// True if a problem has offerings that stand for commitments.
#[must_use]
pub fn takes_any(problem: &Problem) -> bool {
    problem.instance_types.iter().any(|one| one.offerings.iter().any(stands_for_commitment))
}

fn stands_for_commitment(one: &Offering) -> bool {
    one.reservation().is_some_and(is_marked)
}

/// Takes such offerings out of a problem's types.
pub fn without(types: &mut [Arc<InstanceType>]) {
    for one in types.iter_mut().filter(|one| one.offerings.iter().any(stands_for_commitment)) {
        Arc::make_mut(one).offerings.retain(|offering| !stands_for_commitment(offering));
    }
}

/// A plan's effect on the bill, in dollars an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlanBill {
    /// Amount that it adds to the bill.
    pub added: f64,
    /// Part of its nodes' on-demand prices that commitments cover.
    pub covered: f64,
    /// Part of the commitments' cost that stays unused with it.
    pub unused: f64,
}

/// The use that a planned node becomes at its cheapest; `None` where it is not bought on demand.
pub(crate) fn usage_of_claim(problem: &Problem, claim: &PlannedClaim) -> Option<Usage> {
    if claim.cheapest_capacity_type != ON_DEMAND {
        return None;
    }
    let one = problem.instance_types.get(claim.cheapest_type()?)?;
    let own = |offering: &&Offering| offering.capacity_type == ON_DEMAND && !stands_for_commitment(offering);
    let offering = one.offerings.iter().filter(own).find(|offering| offering.zone == claim.cheapest_zone)?;
    Some(usage_of(one, offering))
}

/// The effect of a plan on the bill of these uses. Each planned node is of its cheapest type, where that is cheapest.
#[must_use]
pub fn plan_bill(problem: &Problem, packing: &Packing, commitments: &Commitments, uses: &Uses) -> PlanBill {
    let mut all = uses.clone();
    let (mut others, mut on_demand) = (0.0, 0.0);
    for claim in &packing.claims {
        match usage_of_claim(problem, claim) {
            Some(usage) => {
                on_demand += usage.price;
                all.add(usage, 1);
            }
            // A reserved instance costs the same whether it runs or not.
            None if claim.cheapest_capacity_type == RESERVED => {}
            None => others += claim.price,
        }
    }
    let bought = commitments.bill(&all) - commitments.bill(uses);
    let unused = commitments.unused(&all).iter().map(|one| one.dollars).fold(0.0, |a, b| a + b);
    PlanBill { added: bought + others, covered: (on_demand - bought).max(0.0), unused }
}

/// Chooses between the plans with and without the offerings of commitments: the one that leaves fewer pods without a node, or
/// else costs less.
#[must_use]
pub fn choose(
    problem: &Problem,
    (commitments, uses): (&Commitments, &Uses),
    plain: &Packing,
    other: &Packing,
) -> ChosenPlan {
    let left_over = |packing: &Packing| packing.unscheduled.len();
    let bill = |packing: &Packing| plan_bill(problem, packing, commitments, uses).added;
    let better = match left_over(other).cmp(&left_over(plain)) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Equal => bill(other) < bill(plain) - 1e-9,
        std::cmp::Ordering::Greater => false,
    };
    if better { ChosenPlan::WithCommitments } else { ChosenPlan::Plain }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenPlan {
    Plain,
    WithCommitments,
}

/// Writes a plan as what it is for the cloud: nodes that commitments cover are bought on demand, at its prices.
pub fn as_bought(problem: &Problem, packing: &mut Packing) {
    for claim in packing.claims.iter_mut().filter(|claim| claim.reservations().any(is_marked)) {
        claim.requirements.retain(|one| one.key != CAPACITY_RESERVATION_ID);
        claim.options.iter_mut().for_each(|option| option.price *= COVERED_PRICE);
        claim.price = usage_of_claim(problem, claim).map_or(claim.price * COVERED_PRICE, |usage| usage.price);
    }
    packing.sum_prices();
}
