//! Checks at the API server before an instance is ended, beside its claim: that no Node of it has to be drained first, and that
//! the instance is that claim's alone.
//!
//! Some instances are known to be a claim's by the claim's own words only: Karpenter tags what it launches only after its Node
//! has registered, and so do we if it was launched for several claims. One that two claims name that may have it is neither's
//! (OWN-2), and a watch may not have shown the second one yet. So the claims are listed before such an instance is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::Instance;
use dovetail_core::ownership::{OwnershipMarks, instance_of};
use dovetail_core::termination::claim::is_drained_first;
use k8s_openapi::api::core::v1::Node;

use super::TerminatorLinks;
use super::endings::SURE_WITHIN;
use super::removal::instance_id_of;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::messages::Wrote;

/// Returns the instances that no tag gives to a claim, and that more than one claim names now. Returns all of the untagged ones
/// if the API server does not answer in time. No call is made without untagged ones. A claim that cannot be read names nothing.
pub async fn shared_instances<'a>(
    links: &TerminatorLinks,
    machines: impl IntoIterator<Item = &'a Instance>,
) -> BTreeSet<&'a str> {
    let cluster = links.calls.env.cluster(&*links.cloud);
    let marks = |one: &Instance| OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name);
    let machines = machines.into_iter().map(|one| (one.id.as_str(), marks(one)));
    let mut untagged: BTreeMap<&str, OwnershipMarks> = machines.filter(|(_, marks)| marks.needs_sole_claim()).collect();
    if untagged.is_empty() {
        return BTreeSet::new();
    }
    // Without an answer all of them count as shared: nothing is ended on a guess.
    let claims = NodeClaimApi::new(links.calls.clone());
    if let Ok(Ok(all)) = tokio::time::timeout(SURE_WITHIN, claims.list()).await {
        let naming = |id: &str, marks: &OwnershipMarks| {
            all.items.iter().filter(|claim| instance_of(claim) == Some(id) && marks.is_of(claim).is_ok()).count()
        };
        untagged.retain(|id, marks| naming(id, marks) > 1);
    }
    untagged.into_keys().collect()
}

/// Those of these instances that a claim names now; none if the API server does not answer in time.
pub async fn named_by_claims<'a>(links: &TerminatorLinks, ids: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let ids: BTreeSet<&str> = ids.into_iter().collect();
    if ids.is_empty() {
        return ids;
    }
    let claims = NodeClaimApi::new(links.calls.clone());
    let Ok(Ok(all)) = tokio::time::timeout(SURE_WITHIN, claims.list()).await else { return BTreeSet::new() };
    let named: BTreeSet<&str> = all.items.iter().filter_map(instance_of).collect();
    ids.into_iter().filter(|id| named.contains(id)).collect()
}

/// True if machines have no Node that is drained first, by the name that their claim has registered or the one that they would
/// join with: a watch that lags may have shown the claim's end before its Node. An existing one is reported.
pub async fn have_no_node(links: &TerminatorLinks, claim: &NodeClaim, machines: &[Instance]) -> bool {
    let nodes = Nodes::new(links.calls.clone());
    let registered = claim.status.as_ref().map(|status| status.node_name.as_str());
    let names = registered.into_iter().chain(machines.iter().map(|one| one.private_dns_name.as_str()));
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    for name in names {
        match nodes.now(name).await {
            // The watch will show it as well: the cluster state is told now, so that its drain begins at once.
            Ok(node) if is_drained_first(claim, &node) && machines.iter().any(|one| is_of(&node, one)) => {
                links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(node)));
                return false;
            }
            Ok(_) | Err(CallError::NotFound(_)) => {}
            // Not known is not none.
            Err(_) => return false,
        }
    }
    true
}

fn is_of(node: &Node, machine: &Instance) -> bool {
    instance_id_of(node) == Some(&machine.id)
}
