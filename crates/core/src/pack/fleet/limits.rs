//! Limits of pools for several new nodes of a trial.

use super::Fleet;
use crate::pack::limits::shared::PoolLimits as _;
use crate::pack::limits::under_limits::types_of;
use crate::pack::limits::{LimitsLeft, NodeOptions};
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, PoolId};
use crate::pack::model::offers::Mask;
use crate::pack::model::plan::PlannedClaim;
use crate::requirements::Requirements;

/// True if the pools' limits allow all of these together, whichever of its types each gets.
pub(super) fn allow_all(fleet: &Fleet<'_, '_>, claims: &[PlannedClaim]) -> bool {
    let problem = fleet.context.problem;
    if fleet.limits.iter().any(LimitsLeft::shares_any) {
        return allow_all_shared(fleet, claims);
    }
    let mut limits: IndexVec<PoolId, Option<LimitsLeft>> = IndexVec::from_elem(None, fleet.limits.len());
    claims.iter().all(|claim| {
        let Some(pool) = fleet.pool_at(claim.pool) else { return false };
        // Copied when first needed, as most trials are of one pool.
        let left = limits[pool].get_or_insert_with(|| fleet.limits[pool].clone());
        let types = types_of(claim);
        let allowed = types.clone().all(|one| left.allow_type(problem, one, !0));
        left.subtract(problem, NodeOptions { types, bits: !0 });
        allowed
    })
}

/// As [`allow_all`], where a node of one pool takes of what others have.
fn allow_all_shared(fleet: &Fleet<'_, '_>, claims: &[PlannedClaim]) -> bool {
    let (problem, mut limits) = (fleet.context.problem, fleet.limits.clone());
    claims.iter().all(|claim| {
        let Some(pool) = fleet.pool_at(claim.pool) else { return false };
        let node = NodeOptions { types: types_of(claim), bits: bits_of(fleet.context, claim) };
        let allowed = node.types.clone().all(|one| limits[pool].allow_type(problem, one, node.bits));
        limits.take_node(pool, fleet.context, node);
        allowed
    })
}

/// The offering bits by which a claim's node may be bought.
pub(super) fn bits_of(context: &Context<'_>, claim: &PlannedClaim) -> Mask {
    context.offers.select(&Requirements::from_written(&claim.requirements).unwrap_or_default())
}
