//! From a planned claim to the node that it becomes.

use crate::instance_type::is_marked;
use crate::labels;
use crate::pack::model::plan::PlannedClaim;
use crate::problem::{ExistingNode, Problem};
use crate::requirements::NodeSelectorRequirement;

/// The node that a claim of a problem becomes if it gets its cheapest option where that is cheapest, with nothing on it yet.
/// `None` where the claim names a type or a pool that the problem has not.
#[must_use]
pub fn node_of_claim(problem: &Problem, claim: &PlannedClaim, name: String) -> Option<ExistingNode> {
    let (one, pool) = (problem.instance_types.get(claim.cheapest_type()?)?, problem.node_pools.get(claim.pool)?);
    let mut own = pool.labels.clone();
    let bought = one.offerings.iter().find(|offering| {
        offering.zone == claim.cheapest_zone && offering.capacity_type == claim.cheapest_capacity_type
    });
    let offered = bought.into_iter().flat_map(|offering| &offering.requirements);
    // A node gets no label of a commitment.
    let covers = |said: &NodeSelectorRequirement| said.values.iter().any(|value| is_marked(value));
    for said in one.requirements.iter().chain(&claim.requirements).chain(offered).filter(|said| said.values.len() == 1)
    {
        if covers(said) {
            continue;
        }
        own.entry(labels::stable(&said.key).to_owned()).or_insert_with(|| said.values[0].clone());
    }
    for (key, value) in [
        (labels::INSTANCE_TYPE, &one.name),
        (labels::ZONE, &claim.cheapest_zone),
        (labels::CAPACITY_TYPE, &claim.cheapest_capacity_type),
        (labels::NODE_POOL, &pool.name),
        (labels::HOSTNAME, &name),
    ] {
        own.insert(key.to_owned(), value.clone());
    }
    let mut allocatable = one.allocatable();
    allocatable.add(&one.attachments);
    let taints = pool.taints.clone();
    Some(ExistingNode { name, labels: own, taints, allocatable, initialized: true, ..ExistingNode::default() })
}
