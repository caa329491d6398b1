//! Nodes of a gang of which not all can be had: they are given back at once, as no pod was ever to be on a part of them.

use std::collections::BTreeSet;

use dovetail_api::names::annotations::LAUNCHED_FOR_POD_GROUP;
use dovetail_api::v1::NodeClaim;

use super::gangs::GangTable;
use crate::cluster_state::{Moment, NominationTarget, Snapshot};

/// Most groups that a claim names.
const MOST_NAMED: usize = 50;

/// The text by which [`claims_to_return`] knows the gangs of these pods; `None` if there are none.
#[must_use]
pub fn write_groups(table: &GangTable, pods: &[usize]) -> Option<String> {
    let in_gang = |waiting: &[usize]| pods.iter().any(|pod| waiting.binary_search(pod).is_ok());
    let own = table.gangs.iter().filter(|gang| in_gang(&gang.waiting)).take(MOST_NAMED);
    let keys: Vec<&str> = own.map(|gang| gang.key.as_str()).collect();
    (!keys.is_empty()).then(|| keys.join(","))
}

/// Namespaces and names of the groups that a claim was launched for.
fn groups_of(claim: &NodeClaim) -> BTreeSet<&str> {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(LAUNCHED_FOR_POD_GROUP));
    written.into_iter().flat_map(|text| text.split(',')).take(MOST_NAMED).collect()
}

/// Claims that were launched for a gang and on which no other pod is or is expected, name and uid.
#[must_use]
pub fn claims_to_return(snapshot: &Snapshot, key: &str, now: Moment) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, entry) in snapshot.claims.iter().filter(|(_, entry)| !entry.facts.deleting && !entry.is_planned()) {
        if !groups_of(&entry.claim).contains(key) || snapshot.deleting.claims.contains(name) {
            continue;
        }
        let node = &entry.facts.node;
        let targets = [NominationTarget::Claim(name.clone()), NominationTarget::Node(node.clone())];
        let of_others = |target: &NominationTarget| {
            let expected = snapshot.expected_at(target).filter(|pod| snapshot.expected_on(&pod.pod.uid, now).is_some());
            expected.into_iter().any(|pod| snapshot.pod_group_of(pod).as_deref() != Some(key))
        };
        let is_used = snapshot.loads.get(node).is_some_and(|load| load.visitors > 0);
        if let Some(uid) = entry.claim.metadata.uid.clone().filter(|_| !is_used && !targets.iter().any(of_others)) {
            all.push((name.clone(), uid));
        }
    }
    all
}
