//! A packing afresh, carried out on the cluster by all of its rules, and bounded by the price of what it replaces.

use super::super::Pass;
use super::super::replace::bound;
use super::afresh::Afresh;
use crate::pack::PlannedClaim;
use crate::pack::fleet::launch::TrialNode;
use crate::pack::model::ids::{NodeId, PodId};

/// Place of a pod: a node that is there, or one of the new ones.
#[derive(Clone, Copy)]
enum Place {
    There(NodeId),
    New(usize),
}

/// Moves the pods of these nodes and returns the claims of the new ones, whose launch options cost less than `most` together
/// however dearly they are bought. `None` where a rule or a bound forbids it. The caller undoes the moves.
pub(super) fn launched(
    pass: &mut Pass<'_, '_, '_>,
    nodes: &[NodeId],
    plan: &Afresh,
    most: f64,
) -> Option<Vec<PlannedClaim>> {
    let mut launches = Vec::with_capacity(plan.claims.len());
    for claim in &plan.claims {
        launches.push(pass.fleet.launch_as(claim)?);
    }
    nodes.iter().for_each(|node| pass.fleet.clear(*node));
    let mut to_do: Vec<(PodId, Place)> =
        plan.on_existing.iter().map(|(pod, node)| (*pod, Place::There(*node))).collect();
    for (at, claim) in plan.claims.iter().enumerate() {
        to_do.extend(claim.pods.iter().map(|pod| (PodId::from(*pod), Place::New(at))));
    }
    let claims = place(pass, to_do, &mut launches).then(|| bounded(pass, nodes, plan, &launches, most)).flatten();
    launches.iter_mut().for_each(|launch| pass.fleet.abandon(launch));
    claims
}

/// Puts each pod in its place; true if all could be. Rules that count pods by domain may allow one only after another: refused
/// pods are tried again as long as that helps.
fn place(pass: &mut Pass<'_, '_, '_>, mut to_do: Vec<(PodId, Place)>, launches: &mut [TrialNode]) -> bool {
    while !to_do.is_empty() {
        let before = to_do.len();
        to_do.retain(|(pod, to)| match to {
            Place::There(node) => !pass.fleet.put(*pod, &[*node]),
            Place::New(at) => !pass.fleet.load(&mut launches[*at], *pod),
        });
        if to_do.len() == before {
            return false;
        }
    }
    true
}

/// The claims. The sum that may be spent is shared out by their cheapest prices. Where a single spot node has too few types for
/// that, its claims get the cheapest types there are, and keep to both bounds together.
fn bounded(
    pass: &Pass<'_, '_, '_>,
    nodes: &[NodeId],
    plan: &Afresh,
    launches: &[TrialNode],
    most: f64,
) -> Option<Vec<PlannedClaim>> {
    let each = |own: &dyn Fn(&TrialNode, f64) -> Option<PlannedClaim>| -> Option<Vec<PlannedClaim>> {
        launches.iter().zip(&plan.claims).map(|(launch, planned)| own(launch, planned.price)).collect()
    };
    let share = most / plan.price();
    let strictly = each(&|launch, price| {
        let bound = bound(pass, launch, nodes, price * share)?;
        pass.fleet.claim(launch, bound).or_else(|| pass.fleet.claim_in_one_zone(launch, bound))
    });
    let whole: f64 = nodes.iter().map(|node| pass.nodes[*node].price).sum();
    let together = || {
        let claims = each(&|launch, _| {
            let bound = bound(pass, launch, nodes, whole).filter(|bound| bound.types.is_some())?;
            pass.fleet.claim_in_one_zone(launch, bound)
        })?;
        let dearest = |claim: &PlannedClaim| claim.options.iter().map(|one| one.price).fold(0.0, f64::max);
        let (worst, mean): (f64, f64) =
            claims.iter().fold((0.0, 0.0), |sum, one| (sum.0 + dearest(one), sum.1 + one.expected_price()));
        (worst < whole && mean <= most).then_some(claims)
    };
    strictly.or_else(together).filter(|claims| pass.fleet.within_limits(claims))
}
