//! A NodePool's readiness, and writing it.

use std::sync::Arc;

use dovetail_api::names::annotations;
use dovetail_api::names::conditions::{FALSE, NODE_CLASS_READY, READY, TRUE, UNKNOWN, VALIDATION_SUCCEEDED};
use dovetail_api::v1::{EC2NodeClass, NodePool, condition, set_condition};
use dovetail_core::Requirement;
use dovetail_core::lifecycle::claim::read;
use dovetail_core::lifecycle::{hash, readiness};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::calls::{CallError, Calls};

/// The pool with its conditions and hash as they are to be, given its class.
pub fn judged(pool: &NodePool, class: Option<&EC2NodeClass>, now: Timestamp) -> NodePool {
    let mut pool = pool.clone();
    let (hash, generation) = (hash::node_pool(&pool), pool.metadata.generation);
    let own = pool.annotations_mut();
    own.insert(annotations::NODE_POOL_HASH.into(), hash);
    own.insert(annotations::NODE_POOL_HASH_VERSION.into(), hash::VERSION.into());
    let (valid, class_ready) = (validity(&pool), class_readiness(class));
    let status = pool.status.get_or_insert_default();
    let judgements = [(VALIDATION_SUCCEEDED, valid), (NODE_CLASS_READY, class_ready)];
    for (type_, (says, reason, message)) in &judgements {
        set_condition(&mut status.conditions, (type_, says, reason, message), generation, now);
    }
    readiness::set_root_of(&mut status.conditions, &readiness::OF_POOL, generation, now);
    pool
}

type Judgement = (&'static str, String, String);

fn validity(pool: &NodePool) -> Judgement {
    let requirements = &pool.spec.template.spec.requirements;
    match requirements.iter().map(read).find_map(|one| Requirement::from_written(&one).err()) {
        Some(error) => (FALSE, "NodePoolValidationFailed".into(), error.to_string()),
        None => (TRUE, String::new(), String::new()),
    }
}

fn class_readiness(class: Option<&EC2NodeClass>) -> Judgement {
    let Some(class) = class else {
        return (FALSE, "NodeClassNotFound".into(), "the EC2NodeClass is not there".into());
    };
    if class.metadata.deletion_timestamp.is_some() {
        return (FALSE, "NodeClassTerminating".into(), "the EC2NodeClass is being deleted".into());
    }
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match condition(conditions, READY) {
        Some(ready) if ready.status == TRUE => (TRUE, String::new(), String::new()),
        Some(ready) if ready.status == FALSE => (FALSE, ready.reason.clone(), ready.message.clone()),
        _ => (UNKNOWN, "NodeClassReadinessUnknown".into(), "the EC2NodeClass is not resolved yet".into()),
    }
}

/// Writes what differs.
pub async fn write(calls: Calls, there: Arc<NodePool>, wanted: NodePool) -> Result<NodePool, CallError> {
    let (api, name) = (Api::<NodePool>::all(calls.client.clone()), wanted.name_any());
    let mut written = NodePool::clone(&there);
    if written.metadata.annotations != wanted.metadata.annotations {
        let patch = json!({"metadata": {
            "resourceVersion": written.metadata.resource_version, "annotations": wanted.metadata.annotations,
        }});
        written = calls.merge(&api, &name, patch).await?;
    }
    if written.status != wanted.status {
        let patch = json!({
            "metadata": {"resourceVersion": written.metadata.resource_version}, "status": wanted.status,
        });
        written = calls.merge_status(&api, &name, patch).await?;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn pool() -> NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        }))
        .unwrap()
    }

    fn ready(pool: &NodePool) -> (String, String) {
        let ready = condition(&pool.status.as_ref().unwrap().conditions, READY).unwrap();
        (ready.status.clone(), ready.message.clone())
    }

    #[test]
    fn a_pool_without_its_class_is_not_ready_and_says_so() {
        let judged = judged(&pool(), None, Timestamp::UNIX_EPOCH);
        assert_eq!(ready(&judged), (FALSE.into(), "NodeClassReady=False".into()));
        assert_eq!(super::judged(&judged, None, Timestamp::MAX), judged, "judging again changes nothing");
    }
}
