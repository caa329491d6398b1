//! Between a claim and the cloud's words: the request for a claim, and what is written of its instance on the claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::{LaunchRequest, LaunchedInstance};
use dovetail_core::launch_limits::PoolAndClass;
use dovetail_core::lifecycle::claim::{
    has_relaxed_min_values, launch_requests, named_types, packing_requirement, to_quantities,
};
use dovetail_core::lifecycle::launch::InstanceFacts as Facts;
use dovetail_core::{InstanceType, Offering, Operator};
use kube::ResourceExt;

pub type ClassTypes = Arc<Vec<Arc<InstanceType>>>;

pub fn pool_of(claim: &NodeClaim) -> String {
    claim.labels().get(labels::NODE_POOL).cloned().unwrap_or_default()
}

pub fn origin(claim: &NodeClaim) -> PoolAndClass {
    (pool_of(claim), claim.spec.node_class_ref.name.clone())
}

/// The launch of a claim. A claim that names no types may be any of its class's.
pub fn request(claim: &NodeClaim, token: &str, class: Arc<EC2NodeClass>, types: &ClassTypes) -> LaunchRequest {
    let mut request = LaunchRequest::new(token, pool_of(claim), class);
    let named = named_types(claim);
    let by_name: BTreeMap<&str, &Arc<InstanceType>> = types.iter().map(|one| (one.name.as_str(), one)).collect();
    request.requirements = claim.spec.requirements.iter().map(packing_requirement).collect();
    request.candidates = if named.is_empty() {
        types.to_vec()
    } else {
        // A named type that the catalogue does not know is left out: EC2 is asked for the others.
        named.iter().filter_map(|name| by_name.get(name.as_str()).map(|one| Arc::clone(one))).collect()
    };
    request.requests = launch_requests(claim, &request.candidates);
    request.labels = claim.labels().clone();
    request.taints = claim.spec.taints.clone();
    request.startup_taints = claim.spec.startup_taints.clone();
    request.min_values_relaxed = has_relaxed_min_values(claim);
    request
}

/// Facts of the instance for its claim: the labels that its type and offering define, capacity, allocatable.
pub fn facts(instance: &LaunchedInstance, types: &ClassTypes) -> Facts {
    let kind = types.iter().find(|one| one.name == instance.instance_type);
    let same = |one: &&Offering| {
        // Two reservations of one type and zone differ in their ids alone.
        let reservation = one.reservation() == instance.reservation_id.as_deref();
        one.zone == instance.zone && one.capacity_type == instance.capacity_type && reservation
    };
    let offering = kind.and_then(|kind| kind.offerings.iter().find(same));
    let of_type = kind.iter().flat_map(|kind| &kind.requirements);
    let settled = of_type.chain(offering.iter().flat_map(|offering| &offering.requirements)).filter_map(|one| {
        match (one.operator, one.values.as_slice()) {
            (Operator::In, [only]) => Some((one.key.clone(), only.clone())),
            _ => None,
        }
    });
    let mut own: BTreeMap<String, String> = settled.collect();
    // The type says which reservations and partitions there are; the node is of one at most.
    labels::OF_LAUNCHES.iter().for_each(|key| drop(own.remove(*key)));
    let pinned = offering.iter().flat_map(|one| &one.requirements);
    own.extend(
        pinned
            .filter(|one| labels::OF_RESERVATIONS.contains(&one.key.as_str()))
            .filter_map(|one| Some((one.key.clone(), one.values.first()?.clone()))),
    );
    if let Some(id) = &instance.reservation_id {
        own.insert(labels::CAPACITY_RESERVATION_ID.into(), id.clone());
    }
    // A provider whose types say nothing of tenancy has none.
    let says_tenancy =
        |kind: &Arc<InstanceType>| kind.requirements.iter().any(|one| one.key == labels::INSTANCE_TENANCY);
    if kind.is_none_or(says_tenancy) {
        own.insert(labels::INSTANCE_TENANCY.into(), instance.placing.tenancy().into());
    }
    if let Some(partition) = instance.placing.partition {
        own.insert(labels::PLACEMENT_GROUP_PARTITION.into(), partition.to_string());
    }
    if let Some(group) = &instance.placing.group {
        own.insert(labels::PLACEMENT_GROUP_ID.into(), group.clone());
    }
    own.insert(labels::INSTANCE_TYPE.into(), instance.instance_type.clone());
    own.insert(labels::ZONE.into(), instance.zone.clone());
    own.insert(labels::CAPACITY_TYPE.into(), instance.capacity_type.clone());
    Facts {
        provider_id: instance.provider_id(),
        image_id: instance.image_id.clone(),
        labels: own,
        annotations: BTreeMap::new(),
        capacity: kind.map(|kind| to_quantities(&kind.capacity)).unwrap_or_default(),
        allocatable: kind.map(|kind| to_quantities(&kind.allocatable())).unwrap_or_default(),
    }
}
