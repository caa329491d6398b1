//! Quotas with what a plan adds to them.

use crate::pack::model::plan::Packing;
use crate::problem::Problem;
use crate::quotas::{Quota, QuotaSelector};
use crate::requirements::Requirements;
use crate::resources::Resources;

/// The quotas of a problem, with what its nodes have and the most that those of the plan may get.
#[must_use]
pub fn quotas_with_plan(problem: &Problem, packing: &Packing) -> Vec<Quota> {
    let add = |quota: &Quota| {
        let (selector, mut usage) = (QuotaSelector::new(quota, &problem.instance_types), quota.usage.clone());
        for claim in &packing.claims {
            let own = Requirements::from_written(&claim.requirements).unwrap_or_default();
            if !selector.may_count(&own) {
                continue;
            }
            let mut most = Resources::new();
            let types = claim.options.iter().filter_map(|option| problem.instance_types.get(option.instance_type));
            let counted = types.filter(|one| {
                selector.may_count_type(&one.name) && selector.may_be_bought(&own, one, |offering| offering.available)
            });
            counted.for_each(|one| most.max(&quota.taken(&one.capacity)));
            usage.add(&most);
        }
        Quota { usage, ..quota.clone() }
    };
    problem.quotas.iter().map(add).collect()
}
