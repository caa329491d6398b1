//! A NodePool's readiness, and writing it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::conditions::{
    ANNOTATIONS_KNOWN, BUDGETS_VALID, CLOCK_IN_SYNC, FALSE, NODE_CLASS_READY, READY, TRUE, UNKNOWN,
    VALIDATION_SUCCEEDED,
};
use dovetail_api::names::labels;
use dovetail_api::names::provider::{ClassKind, Provider};
use dovetail_api::unimplemented;
use dovetail_api::v1::{EC2NodeClass, NewCondition, NodePool, condition, set_condition};
use dovetail_api::validation::own;
use dovetail_core::Requirements;
use dovetail_core::cluster_state::{Unreadable, WatchedKind};
use dovetail_core::lifecycle::{claim, hash, patch, readiness};
use dovetail_core::validity;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use serde_json::json;

use crate::kube::calls::{CallError, Calls};
use crate::kube::node_classes::NodeClassApi;
use crate::node_class::said::{self, INVALID_ANNOTATION};
use crate::reading::LenientApi;

/// The pool with its conditions and hash as they are to be, given its class.
pub fn judged(pool: &NodePool, class: Option<&EC2NodeClass>, provider: Provider, now: Timestamp) -> NodePool {
    let mut pool = pool.clone();
    let (hash, at, generation) = (hash::of_pool(&pool), hash::Generations::of_pool(&pool), pool.metadata.generation);
    hash::OF_POOL.settle(pool.annotations_mut(), &hash, at);
    let ((says, reason, message), class_ready) = (validity::verdict(&pool), class_readiness(&pool, class, provider));
    let (valid, unread) = ((says, reason.to_owned(), message), validity::budgets(&pool));
    let misspelt = own::of_pool(&pool);
    let missing = unimplemented::of_pool(&pool);
    let status = pool.status.get_or_insert_default();
    status.node_class_observed_generation = class.and_then(|class| class.metadata.generation);
    let judgements = [(VALIDATION_SUCCEEDED, valid), (NODE_CLASS_READY, class_ready)];
    for (type_, (says, reason, message)) in &judgements {
        set_condition(&mut status.conditions, NewCondition::new(type_, says).because(reason, message), generation, now);
    }
    match unread.is_empty() {
        true => status.conditions.retain(|one| one.type_ != BUDGETS_VALID),
        false => {
            let message = nothing_goes(&unread);
            let says = NewCondition::new(BUDGETS_VALID, FALSE).because(INVALID_BUDGET, &message);
            set_condition(&mut status.conditions, says, generation, now);
        }
    }
    said::write(&mut status.conditions, misspelt, &missing, generation, now);
    readiness::set_root_of(&mut status.conditions, &readiness::OF_POOL, generation, now);
    pool
}

type Judgement = (&'static str, String, String);

/// The reason of the condition and of the event that the leader's clock is wrong.
pub const CLOCK_SKEWED: &str = "ClockSkewed";
/// The reason of the condition and of the event that a budget cannot be read.
const INVALID_BUDGET: &str = "InvalidBudget";

fn nothing_goes(unread: &[String]) -> String {
    format!("{}; no node of the pool is disrupted until that is mended", validity::sentence(unread))
}

/// Faults of a pool's spec, as events for people: reason and message.
pub fn complaints(pool: &NodePool) -> Vec<(&'static str, String)> {
    let known = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    // A reason that only sums up others, or that passes by (a class that comes after its pool), is no complaint.
    let of_class = condition(known, NODE_CLASS_READY)
        .filter(|one| one.status == FALSE && !PASSING.contains(&one.reason.as_str()))
        .map(|one| (NODE_CLASS_NOT_READY, one.message.clone()));
    let said = [
        (VALIDATION_SUCCEEDED, validity::REASON),
        (BUDGETS_VALID, INVALID_BUDGET),
        (ANNOTATIONS_KNOWN, INVALID_ANNOTATION),
        (CLOCK_IN_SYNC, CLOCK_SKEWED),
    ];
    let said = said.into_iter().filter_map(|(type_, reason)| {
        let wrong = condition(known, type_).filter(|one| one.status == FALSE)?;
        Some((reason, wrong.message.clone()))
    });
    said.chain(of_class).collect()
}

/// The reason of the event that a pool's class cannot be launched from.
const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";
/// Reasons for which a pool's class is not ready though nothing is wrong with it.
const PASSING: [&str; 2] = ["NodeClassNotFound", "NodeClassTerminating"];
/// The reason where a class has no image of an architecture that the pool allows.
const NO_IMAGE: &str = "ImageArchitectureMismatch";

/// Message if the pool allows architectures, and the class's images have others only.
fn image_mismatch(pool: &NodePool, class: &EC2NodeClass) -> Option<String> {
    let amis = &class.status.as_ref()?.amis;
    let of_images = amis.iter().flat_map(|ami| &ami.requirements).filter(|one| one.key == labels::ARCH);
    let images: BTreeSet<&str> = of_images.flat_map(|one| one.values.iter().flatten()).map(String::as_str).collect();
    let own = &pool.spec.template.spec.requirements;
    let written: Vec<_> = own.iter().filter(|one| one.key == labels::ARCH).map(claim::packing_requirement).collect();
    let wanted = Requirements::from_written(&written).ok()?;
    let wanted = wanted.get(labels::ARCH)?;
    let none = !images.is_empty() && images.iter().all(|arch| !wanted.has(arch));
    none.then(|| {
        let asked: Vec<&str> = written.iter().flat_map(|one| &one.values).map(String::as_str).collect();
        let images: Vec<&str> = images.into_iter().collect();
        format!(
            "spec.template.spec.requirements[{}] is {}, and the images that spec.amiSelectorTerms of EC2NodeClass {} finds are for {}",
            labels::ARCH,
            asked.join(", "),
            class.name_any(),
            images.join(", ")
        )
    })
}

/// True for a pool of another provider's class: a replica of that provider writes it, in another namespace, and two would write its
/// conditions in turn. A class of no known kind is nobody else's.
pub fn is_of_another(pool: &NodePool, provider: Provider) -> bool {
    pool.spec.template.spec.node_class_ref.provider().is_some_and(|own| own != provider)
}

fn class_readiness(pool: &NodePool, class: Option<&EC2NodeClass>, provider: Provider) -> Judgement {
    let named = &pool.spec.template.spec.node_class_ref;
    let ClassKind { kind, group, .. } = provider.class();
    if !named.is_of(provider) {
        let why = format!("{} of {} is no {kind} of {group}", named.kind, named.group);
        return (FALSE, "NodeClassNotFound".into(), why);
    }
    let name = &named.name;
    let Some(class) = class else {
        let why =
            format!("{kind} {name} is not there; create it, or name another in spec.template.spec.nodeClassRef.name");
        return (FALSE, "NodeClassNotFound".into(), why);
    };
    if class.metadata.deletion_timestamp.is_some() {
        let why = format!(
            "{kind} {name} is being deleted; name another in spec.template.spec.nodeClassRef.name, or create it again when it is gone"
        );
        return (FALSE, "NodeClassTerminating".into(), why);
    }
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match condition(conditions, READY) {
        Some(ready) if ready.status == TRUE => match image_mismatch(pool, class) {
            Some(why) => (FALSE, NO_IMAGE.into(), why),
            None => (TRUE, String::new(), String::new()),
        },
        Some(ready) if ready.status == FALSE => (FALSE, ready.reason.clone(), readiness::why(conditions)),
        _ => (UNKNOWN, "NodeClassReadinessUnknown".into(), format!("{kind} {name} is not resolved yet")),
    }
}

/// Marks a pool whose class exists and cannot be read.
pub fn of_unreadable_class(mut pool: NodePool, why: &str, now: Timestamp) -> NodePool {
    let kind = pool.spec.template.spec.node_class_ref.kind.clone();
    let generation = pool.metadata.generation;
    let status = pool.status.get_or_insert_default();
    let message = format!("the {kind} cannot be read: {why}");
    set_condition(
        &mut status.conditions,
        NewCondition::new(NODE_CLASS_READY, FALSE).because("NodeClassUnreadable", &message),
        generation,
        now,
    );
    readiness::set_root_of(&mut status.conditions, &readiness::OF_POOL, generation, now);
    pool
}

/// Writes on a pool or a class that cannot be read that it is not Ready, where the API server lets it be written.
pub async fn write_unreadable(calls: Calls, kind: WatchedKind, object: Arc<Unreadable>, now: Timestamp) {
    let condition = Condition {
        type_: READY.into(),
        status: FALSE.into(),
        reason: "Unreadable".into(),
        message: format!("it cannot be read: {}", object.why),
        last_transition_time: Time(now),
        observed_generation: object.metadata.generation,
    };
    let patch = json!({"metadata": {"uid": object.metadata.uid}, "status": {"conditions": [condition]}});
    let name = object.metadata.name.clone().unwrap_or_default();
    // The API server's answer cannot be read either.
    if kind == WatchedKind::NodePool {
        let _ = calls.merge_status(&LenientApi::<NodePool>::all(calls.client.clone()), &name, patch).await;
    } else {
        let _ = NodeClassApi::new(&calls).merge_status(&name, patch).await;
    }
}

/// Writes what differs.
pub async fn write(calls: Calls, there: Arc<NodePool>, wanted: NodePool) -> Result<NodePool, CallError> {
    let (api, name) = (LenientApi::<NodePool>::all(calls.client.clone()), wanted.name_any());
    let mut written = NodePool::clone(&there);
    if written.metadata.annotations != wanted.metadata.annotations {
        // As of a status: what is not wanted any more is taken off by name.
        let (before, after) = (written.metadata.annotations.as_ref(), wanted.metadata.annotations.as_ref());
        let patch = json!({"metadata": {
            "resourceVersion": written.metadata.resource_version, "annotations": patch::map(before, after),
        }});
        written = calls.merge(&api, &name, patch).await?;
    }
    if written.status != wanted.status {
        let patch = patch::status(&written.metadata, written.status.as_ref(), wanted.status.as_ref());
        written = calls.merge_status(&api, &name, patch).await?;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::v1::NodeClassRef;

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

    fn class(status: serde_json::Value) -> EC2NodeClass {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": []}, "status": status,
        }))
        .unwrap()
    }

    fn condition_of(type_: &str, status: &str, reason: &str, message: &str) -> serde_json::Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn unusable_class_is_event_on_its_pools_with_field_and_value() {
        let why = "spec.instanceProfile \"typo\": there is no such instance profile";
        let not_ready = class(json!({"conditions": [
            condition_of("Ready", "False", "UnhealthyDependents", "InstanceProfileReady=False"),
            condition_of("InstanceProfileReady", "False", "InstanceProfileNotFound", why),
        ]}));
        let told = complaints(&judged(&pool(), Some(&not_ready), Provider::Ec2, Timestamp::UNIX_EPOCH));
        assert!(told.len() == 1 && told[0].0 == "NodeClassNotReady" && told[0].1.contains(why), "{told:?}");
        assert_eq!(
            complaints(&judged(&pool(), None, Provider::Ec2, Timestamp::UNIX_EPOCH)),
            [],
            "the class may come yet"
        );
    }

    #[test]
    fn images_of_architecture_pool_forbids_are_told_by_both_fields() {
        let image = json!({"id": "ami-1", "requirements": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]});
        let ready = class(json!({"amis": [image], "conditions": [condition_of("Ready", "True", "Ready", "")]}));
        let mut pool = pool();
        assert_eq!(complaints(&judged(&pool, Some(&ready), Provider::Ec2, Timestamp::UNIX_EPOCH)), [], "any will do");
        for (operator, values, fits) in [("In", vec!["amd64"], false), ("NotIn", vec!["amd64"], true)] {
            let requirement = json!({"key": "kubernetes.io/arch", "operator": operator, "values": values});
            pool.spec.template.spec.requirements = vec![serde_json::from_value(requirement).unwrap()];
            let told = complaints(&judged(&pool, Some(&ready), Provider::Ec2, Timestamp::UNIX_EPOCH));
            assert_eq!(told.is_empty(), fits, "{told:?}");
            assert!(told.iter().all(|(_, why)| why.contains("amd64") && why.contains("default finds are for arm64")));
        }
    }

    #[test]
    fn only_a_pool_of_another_known_provider_is_passed_over() {
        let mut pool = pool();
        let of_another = |pool: &NodePool| Provider::ALL.map(|provider| is_of_another(pool, provider));
        assert_eq!(of_another(&pool), [false, true]);
        pool.spec.template.spec.node_class_ref = NodeClassRef::for_provider(Provider::Kwok, "default");
        assert_eq!(of_another(&pool), [true, false]);
        pool.spec.template.spec.node_class_ref.kind = "GCENodeClass".into();
        assert_eq!(of_another(&pool), [false, false], "somebody has to say that nobody knows it");
    }

    #[test]
    fn a_pool_without_its_class_is_not_ready_and_says_so() {
        let judged = judged(&pool(), None, Provider::Ec2, Timestamp::UNIX_EPOCH);
        assert_eq!(ready(&judged), (FALSE.into(), "NodeClassReady=False".into()));
        assert_eq!(
            super::judged(&judged, None, Provider::Ec2, Timestamp::MAX),
            judged,
            "judging again changes nothing"
        );
    }
}
