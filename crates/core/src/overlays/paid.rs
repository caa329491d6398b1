//! The price that is paid for a planned node, beside the one that it was chosen by.

use crate::instance_type::Offering;
use crate::pack::PlannedClaim;
use crate::problem::Problem;

/// Dollars an hour that are paid for a planned node at its cheapest, where overlays say another price.
#[must_use]
pub fn list_price(problem: &Problem, claim: &PlannedClaim) -> Option<f64> {
    let own = problem.instance_types.get(claim.cheapest_type()?)?;
    let same = |one: &&Offering| {
        one.zone == claim.cheapest_zone
            && one.capacity_type == claim.cheapest_capacity_type
            && (one.price - claim.price).abs() < 1e-9
    };
    own.offerings.iter().find(same)?.list_price
}
