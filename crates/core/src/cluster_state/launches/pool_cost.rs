//! Cost of a NodePool's nodes together, for its ceiling `dovetail.dev/max-cost-per-hour` (docs/decisions/078): of a machine that
//! is there the price of its offering, of one on its way the dearest that it may become.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels;
use dovetail_api::v1::NodeClaim;

use crate::cluster_state::{JoinedNode, NodeSource};
use crate::instance_type::InstanceType;
use crate::lifecycle::claim::packing_requirement;
use crate::requirements::Requirements;
use crate::resources::amount_of_dollars;

/// Cost of machines in units of [`crate::resources::DOLLARS`]. Those that leave count until their instances end. A machine of
/// a type that the catalogue does not know has no price that we know, and counts nothing.
pub(in crate::cluster_state) fn cost<'a>(
    machines: impl Iterator<Item = &'a JoinedNode>,
    types: &[Arc<InstanceType>],
) -> i64 {
    machines.fold(0, |sum: i64, node| sum.saturating_add(cost_of(node, types)))
}

fn cost_of(node: &JoinedNode, types: &[Arc<InstanceType>]) -> i64 {
    match &node.source {
        NodeSource::Claim(entry) if entry.provider_id().is_empty() => {
            let wanted = requirements(&entry.claim);
            let named = wanted.get(labels::INSTANCE_TYPE);
            let may_be = types.iter().filter(|one| named.is_none_or(|named| named.has(&one.name)));
            may_be.map(|one| dearest(&wanted, one)).max().unwrap_or(0)
        }
        NodeSource::Claim(entry) | NodeSource::Both(_, entry) if entry.facts.terminating => 0,
        _ => {
            let label = |key: &str| node.labels.get(key).map(String::as_str).unwrap_or_default();
            let own = types.iter().find(|one| one.name == label(labels::INSTANCE_TYPE));
            own.map_or(0, |own| bought(own, label(labels::ZONE), label(labels::CAPACITY_TYPE)))
        }
    }
}

/// The price of a type's offering; where there is none any more, that of its dearest.
fn bought(own: &InstanceType, zone: &str, capacity_type: &str) -> i64 {
    match own.offering(zone, capacity_type) {
        Some(offering) => amount_of_dollars(offering.billed_price()),
        None => dearest(&Requirements::new(), own),
    }
}

/// Requirements of a claim; none where they cannot be read.
pub(in crate::cluster_state) fn requirements(claim: &NodeClaim) -> Requirements {
    let written: Vec<_> = claim.spec.requirements.iter().map(packing_requirement).collect();
    Requirements::from_written(&written).unwrap_or_default()
}

/// Requirements of a claim, its labels among them.
pub(in crate::cluster_state) fn requirements_with_labels(claim: &NodeClaim) -> Requirements {
    let mut all = requirements(claim);
    all.intersect(&Requirements::from_labels(claim.metadata.labels.as_ref().unwrap_or(&BTreeMap::new())));
    all
}

/// The most that a claim's node of a type may cost, in units of [`crate::resources::DOLLARS`].
pub(in crate::cluster_state) fn dearest(wanted: &Requirements, one: &InstanceType) -> i64 {
    amount_of_dollars(one.dearest_price(wanted))
}
