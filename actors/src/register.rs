//! What the registrar does: writes of Node and claim, and the end of a claim that took too long.

use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::Cloud;
use dovetail_core::lifecycle::Writes;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::backoff::Backoff;
use crate::calls::CallError;
use crate::claims::Claims;
use crate::desk::Desk;
use crate::messages::Wrote;
use crate::nodes::Nodes;
use crate::registrar::RegistrarLinks;

/// Writes Node and claim, in this order: a claim is never said to be further than its Node.
pub async fn write(links: RegistrarLinks, writes: Writes) -> Result<(Option<Arc<Node>>, Arc<NodeClaim>), CallError> {
    let node = match &writes.node {
        Some(wanted) => match Nodes::new(links.calls.clone()).write(wanted).await {
            Ok(node) => {
                let node = Arc::new(node);
                links.cluster.do_send(Wrote::Node(node.clone()));
                Some(node)
            }
            Err(CallError::Conflict(message)) => {
                if let Ok(there) = Nodes::new(links.calls.clone()).get(&wanted.name_any()).await {
                    links.cluster.do_send(Wrote::Node(Arc::new(there)));
                }
                return Err(CallError::Conflict(message));
            }
            Err(error) => return Err(error),
        },
        None => None,
    };
    let wanted = &writes.claim;
    let claims = Claims::new(links.calls.clone());
    match claims.write_status(wanted).await {
        Ok(claim) => {
            let claim = Arc::new(claim);
            links.cluster.do_send(Wrote::Claim(claim.clone()));
            Ok((node, claim))
        }
        Err(CallError::Conflict(message)) => {
            if let Ok(there) = claims.get(&wanted.name_any()).await {
                links.cluster.do_send(Wrote::Claim(Arc::new(there)));
            }
            Err(CallError::Conflict(message))
        }
        Err(error) => Err(error),
    }
}

/// Ends whatever instance the claim has or may have, then the claim.
pub async fn give_up(links: RegistrarLinks, desk: Desk, claim: Arc<NodeClaim>) -> Result<(), CallError> {
    let mut backoff = Backoff::cloud(desk.rng(&claim.name_any()));
    while !end_instances(&*links.cloud, &claim).await {
        if !links.calls.may_act() {
            return Err(CallError::Deposed);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
    Claims::new(links.calls.clone()).delete_without_instance(&claim).await
}

/// Whether the claim has no instance that goes on.
async fn end_instances(cloud: &dyn Cloud, claim: &NodeClaim) -> bool {
    let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
    let mut ids: Vec<String> = dovetail_api::names::instance_id(provider_id).map(str::to_owned).into_iter().collect();
    if let Some(token) = claim.annotations().get(dovetail_api::names::annotations::LAUNCH_TOKEN) {
        match cloud.instances_with_token(token).await {
            Ok(found) => ids.extend(found.into_iter().filter(|one| !one.is_terminating()).map(|one| one.id)),
            Err(_) => return false,
        }
    }
    ids.sort();
    ids.dedup();
    for id in &ids {
        if cloud.terminate(id).await.is_err_and(|error| !error.is_not_found()) {
            return false;
        }
    }
    true
}
