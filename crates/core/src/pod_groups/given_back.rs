//! Nodes of a gang of which not all can be had: they are given back at once, as no pod was ever to be on a part of them.

use std::collections::BTreeSet;

use dovetail_api::names::annotations::LAUNCHED_FOR_POD_GROUP;
use dovetail_api::v1::NodeClaim;

use super::gangs::GangTable;

/// Most groups that a claim names.
const MOST_NAMED: usize = 50;

/// The text by which [`crate::cluster_state::Snapshot::claims_to_return`] knows the gangs of these pods; `None` if there are none.
#[must_use]
pub fn write_groups(table: &GangTable, pods: &[usize]) -> Option<String> {
    let in_gang = |waiting: &[usize]| pods.iter().any(|pod| waiting.binary_search(pod).is_ok());
    let own = table.gangs.iter().filter(|gang| in_gang(&gang.waiting)).take(MOST_NAMED);
    let keys: Vec<&str> = own.map(|gang| gang.key.as_str()).collect();
    (!keys.is_empty()).then(|| keys.join(","))
}

/// Namespaces and names of the groups that a claim was launched for.
pub(crate) fn groups_of(claim: &NodeClaim) -> BTreeSet<&str> {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(LAUNCHED_FOR_POD_GROUP));
    written.into_iter().flat_map(|text| text.split(',')).take(MOST_NAMED).collect()
}
