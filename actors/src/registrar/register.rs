//! The calls by which the registrar writes Node and claim, and what it reports of the answers.

use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_core::lifecycle::Writes;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::messages::Wrote;
use crate::registrar::RegistrarLinks;

/// Writes Node and claim, in this order: a claim is never said to be further than its Node.
pub async fn write(links: RegistrarLinks, writes: Writes) -> Result<(Option<Arc<Node>>, Arc<NodeClaim>), CallError> {
    let node = match &writes.node {
        // Registration removes taints alone, which are written as a whole: no label is to be removed.
        Some(wanted) => match Nodes::new(links.calls.clone()).write(wanted, wanted).await {
            Ok(node) => {
                let node = Arc::new(node);
                links.calls.env.post(&links.cluster, Wrote::Node(node.clone()));
                Some(node)
            }
            Err(CallError::Conflict(message)) => {
                if let Ok(there) = Nodes::new(links.calls.clone()).get(&wanted.name_any()).await {
                    links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(there)));
                }
                return Err(CallError::Conflict(message));
            }
            Err(error) => return Err(error),
        },
        None => None,
    };
    let wanted = &writes.claim;
    let claims = NodeClaimApi::new(links.calls.clone());
    match claims.write_status(wanted).await {
        Ok(claim) => {
            let claim = Arc::new(claim);
            links.calls.env.post(&links.cluster, Wrote::Claim(claim.clone()));
            Ok((node, claim))
        }
        Err(CallError::Conflict(message)) => {
            if let Ok(there) = claims.get(&wanted.name_any()).await {
                links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(there)));
            }
            Err(CallError::Conflict(message))
        }
        Err(error) => Err(error),
    }
}
