//! Instances that nothing but a claim's own words says whose they are: Karpenter tags what it launches only after its Node
//! has registered. One that two claims name is neither's (OWN-2), and a watch may not have shown the second one yet. So the
//! claims are listed before such an instance is ended.

use std::collections::BTreeSet;

use dovetail_cloud::Instance;
use dovetail_core::ownership::Marks;

use super::TerminatorLinks;
use super::endings::SURE_WITHIN;
use crate::kube::claims::Claims;
use crate::owner::owned::instance_of;

/// Of these instances those that no tag gives to a claim, and that more than one claim names now. All of the untagged ones
/// where the API server does not say in time. No call without one. A claim that cannot be read names nothing.
pub async fn shared<'a>(
    links: &TerminatorLinks,
    machines: impl IntoIterator<Item = &'a Instance>,
) -> BTreeSet<&'a str> {
    let cluster = links.calls.env.cluster(&*links.cloud);
    let is_untagged = |one: &&Instance| Marks::new(&cluster, &one.tags, &one.private_dns_name).is_untagged();
    let mut untagged: BTreeSet<&str> = machines.into_iter().filter(is_untagged).map(|one| one.id.as_str()).collect();
    if untagged.is_empty() {
        return untagged;
    }
    let claims = Claims::new(links.calls.clone());
    if let Ok(Ok(all)) = tokio::time::timeout(SURE_WITHIN, claims.list()).await {
        let naming = |id: &str| all.items.iter().filter(|claim| instance_of(claim) == Some(id)).count();
        untagged.retain(|id| naming(id) > 1);
    }
    untagged
}
