//! A planned node as a NodeClaim (core spec 3.10, 1.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::convert::provisioner_of;
use dovetail_api::names::annotations as keys;
use dovetail_api::names::labels::PROVISIONER_NAME;
use dovetail_api::names::{TERMINATION_FINALIZER, labels};
use dovetail_api::overlays::RESTRICTED_RESOURCES;
use dovetail_api::resource::DRANET;
use dovetail_api::v1::{
    self, EC2NodeClass, NodeClaim, NodeClaimResources, NodeClaimSpec, NodeClassRef, NodePool, ResourceList,
};
use dovetail_api::validation::MOST_REQUIREMENTS;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::hash;
use crate::instance_type::{InstanceType, is_marked};
use crate::requirements::{NodeSelectorRequirement, Operator, RequirementError, Requirements};
use crate::resources::{EFA, Resources, format_amount, parse_amount};

/// Most instance types that a claim names, the cheapest (core spec 3.10).
pub const MOST_TYPES: usize = 600;

/// The input for a new claim.
#[derive(Debug)]
pub struct ClaimPlan<'a> {
    /// `metadata.name`, which no claim has yet.
    pub name: &'a str,
    /// The pool it is of.
    pub pool: &'a NodePool,
    /// The complete requirements on its node.
    pub requirements: &'a [NodeSelectorRequirement],
    /// The instance types that fit, cheapest first.
    pub instance_types: Vec<String>,
    /// Requests of pods and daemons.
    pub requests: &'a Resources,
    /// The term of the leader that makes it.
    pub term: u64,
    /// Trace context of the batch.
    pub traceparent: &'a str,
    /// The pool's hash ([`hash::HashKeys::for_claims`]).
    pub pool_hash: &'a str,
    /// The hash that stands on the class; `None` where none is settled: the launch stamps it ([`class_stamps`]).
    pub class_hash: Option<&'a str>,
}

/// The claim to be created.
#[must_use]
pub fn node_claim(plan: ClaimPlan<'_>) -> NodeClaim {
    let template = &plan.pool.spec.template;
    let requirements = requirements(&plan);
    let spec = NodeClaimSpec {
        resources: NodeClaimResources { requests: to_quantities(plan.requests) },
        taints: template.spec.taints.clone(),
        startup_taints: template.spec.startup_taints.clone(),
        node_class_ref: template.spec.node_class_ref.clone(),
        termination_grace_period: template.spec.termination_grace_period.clone(),
        expire_after: template.spec.expire_after.clone(),
        requirements: requirements.iter().map(written).collect(),
    };
    let mut claim = NodeClaim::new(plan.name, spec);
    claim.metadata.labels = Some(claim_labels(plan.pool, &requirements));
    claim.metadata.annotations = Some(claim_annotations(&plan));
    claim.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.into()]);
    claim.metadata.owner_references = Some(vec![owner(plan.pool)]);
    claim
}

/// The plan's requirements with the instance types named and without the host name; a custom label with several values keeps
/// the first.
fn requirements(plan: &ClaimPlan<'_>) -> Vec<NodeSelectorRequirement> {
    // The label of a Provisioner's nodes is a label of the claim, and no requirement that a claim may have.
    let ours = [labels::HOSTNAME, labels::INSTANCE_TYPE, PROVISIONER_NAME];
    let open = |key: &str| !ours.contains(&key);
    let min_values =
        plan.requirements.iter().find(|one| one.key == labels::INSTANCE_TYPE).and_then(|one| one.min_values);
    let class = &plan.pool.spec.template.spec.node_class_ref;
    let resolve = |one| resolved(one, class);
    let mut types =
        NodeSelectorRequirement::one_of(labels::INSTANCE_TYPE, plan.instance_types.iter().take(MOST_TYPES).cloned());
    types.min_values = min_values;
    // Commitments cover what is bought on demand: the cloud is not asked for them.
    let covers = |one: &NodeSelectorRequirement| {
        one.key == labels::CAPACITY_RESERVATION_ID && one.values.iter().any(|id| is_marked(id))
    };
    let own = plan.requirements.iter().filter(|one| open(&one.key) && !covers(one));
    let mut all: Vec<_> = own.cloned().map(resolve).collect();
    all.push(types);
    all.sort();
    within_schema(all)
}

/// Leaves out requirements for which the schema has no room and which follow from the named instance types: pods may ask for
/// each of the cloud's labels in several ways, and a claim with more than a hundred requirements would be refused for ever.
fn within_schema(mut all: Vec<NodeSelectorRequirement>) -> Vec<NodeSelectorRequirement> {
    if all.len() > MOST_REQUIREMENTS {
        all.retain(|one| one.min_values.is_some() || !follows_from_types(&one.key));
    }
    let mut at = all.len();
    while all.len() > MOST_REQUIREMENTS && at > 0 {
        at -= 1;
        // Values that are excluded for a label which the node does not get yet.
        let twice = all.iter().filter(|one| one.key == all[at].key).count() > 1;
        if twice && all[at].operator == Operator::NotIn {
            all.remove(at);
        }
    }
    all
}

/// True if a requirement follows from the names of instance types.
fn follows_from_types(key: &str) -> bool {
    labels::AWS_WELL_KNOWN.contains(&key) && !labels::OF_LAUNCHES.contains(&key)
}

fn resolved(mut requirement: NodeSelectorRequirement, class: &NodeClassRef) -> NodeSelectorRequirement {
    if requirement.operator == Operator::In && !class.is_well_known(&requirement.key) {
        requirement.values.truncate(1);
    }
    requirement
}

fn claim_labels(pool: &NodePool, requirements: &[NodeSelectorRequirement]) -> BTreeMap<String, String> {
    let class = &pool.spec.template.spec.node_class_ref;
    let custom = requirements.iter().filter(|one| one.operator == Operator::In && !class.is_well_known(&one.key));
    let mut all: BTreeMap<_, _> =
        custom.filter_map(|one| Some((one.key.clone(), one.values.first()?.clone()))).collect();
    all.extend(pool.spec.template.metadata.labels.clone());
    all.insert(labels::NODE_POOL.into(), pool.metadata.name.clone().unwrap_or_default());
    all.insert(class.label(), class.name.clone());
    all.extend(provisioner_of(pool).map(|of| (PROVISIONER_NAME.to_owned(), of.to_owned())));
    all
}

fn claim_annotations(plan: &ClaimPlan<'_>) -> BTreeMap<String, String> {
    let mut all = plan.pool.spec.template.metadata.annotations.clone();
    all.extend(hash::OF_POOL.stamp(plan.pool_hash));
    all.extend(plan.class_hash.into_iter().flat_map(|hash| hash::OF_CLASS.stamp(hash)));
    all.insert(keys::TERM.into(), plan.term.to_string());
    all.insert(keys::TRACEPARENT.into(), plan.traceparent.into());
    all
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".into(),
        kind: "NodePool".into(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

/// A requirement as the API's kinds write it.
#[must_use]
pub fn written(requirement: &NodeSelectorRequirement) -> v1::NodeSelectorRequirementWithMinValues {
    v1::NodeSelectorRequirementWithMinValues {
        key: requirement.key.clone(),
        operator: requirement.operator,
        values: requirement.values.clone(),
        min_values: requirement.min_values.and_then(|count| i32::try_from(count).ok()),
    }
}

/// A requirement of the API's kinds as packing reads it.
#[must_use]
pub fn packing_requirement(requirement: &v1::NodeSelectorRequirementWithMinValues) -> NodeSelectorRequirement {
    let v1::NodeSelectorRequirementWithMinValues { key, operator, values, min_values } = requirement;
    let mut read = NodeSelectorRequirement::new(key.clone(), *operator, values.iter().cloned());
    read.min_values = min_values.and_then(|count| u32::try_from(count).ok());
    read
}

/// Requirements of the API's kinds as packing reads them.
///
/// # Errors
/// One of them makes no sense.
pub fn packing_requirements(
    written: &[v1::NodeSelectorRequirementWithMinValues],
) -> Result<Requirements, RequirementError> {
    Requirements::from_written(&written.iter().map(packing_requirement).collect::<Vec<_>>())
}

/// Amounts as the API's quantities.
#[must_use]
pub fn to_quantities(resources: &Resources) -> ResourceList {
    resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(format_amount(name, amount)))).collect()
}

/// Amounts read from the API's quantities; text that makes no sense counts as zero.
#[must_use]
pub fn from_quantities(list: &ResourceList) -> Resources {
    list.iter().map(|(name, quantity)| (name.clone(), parse_amount(name, &quantity.0).unwrap_or(0))).collect()
}

/// The instance types that a claim names, cheapest first.
#[must_use]
pub fn named_types(claim: &NodeClaim) -> Vec<String> {
    let named = claim.spec.requirements.iter().find(|one| one.key == labels::INSTANCE_TYPE);
    named.map(|named| named.values.clone()).unwrap_or_default()
}

/// The resources that a claim's instance has to have, by the types that it may be. Of a claim that was planned with an overlay's
/// resources those are left out that no type has any more: a launch fails for no overlay, and the node waits for them.
#[must_use]
pub fn launch_requests(claim: &NodeClaim, types: &[Arc<InstanceType>]) -> Resources {
    let mut all = from_quantities(&claim.spec.resources.requests);
    if claims_efa(claim) && all.get(EFA) == 0 && types.iter().all(|one| one.capacity.get(EFA) > 0) {
        all.set(EFA, 1);
    }
    if !has_overlaid_capacity(claim) {
        return all;
    }
    let offered = |name: &str| types.iter().any(|one| one.capacity.get(name) > 0);
    let stays = |(name, _): &(&str, i64)| RESTRICTED_RESOURCES.contains(name) || offered(name);
    all.iter().filter(stays).map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// True if pods of a claim will have network interfaces as devices: EFA's are only attached where they are asked for.
fn claims_efa(claim: &NodeClaim) -> bool {
    let own = claim.metadata.annotations.as_ref();
    let drivers = own.and_then(|own| own.get(keys::REQUESTED_DRA_DRIVERS));
    drivers.is_some_and(|drivers| drivers.split(',').any(|driver| driver.trim() == DRANET))
}

/// True if overlays add to the resources of one of the claim's types.
#[must_use]
pub fn has_overlaid_capacity(claim: &NodeClaim) -> bool {
    let own = claim.metadata.annotations.as_ref();
    own.and_then(|own| own.get(keys::CAPACITY_OVERLAY)).is_some_and(|says| says == "true")
}

/// True if the claim was launched with lowered `minValues`.
#[must_use]
pub fn has_relaxed_min_values(claim: &NodeClaim) -> bool {
    claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|own| own.get(keys::MIN_VALUES_RELAXED))
        .is_some_and(|says| says == "true")
}

/// The `minValues` of a claim for which they have been lowered, `key >= 3`; none of another.
#[must_use]
pub fn lowered_min_values(claim: &NodeClaim) -> Option<String> {
    let all = claim.spec.requirements.iter();
    let kept: Vec<String> = all.filter_map(|one| Some(format!("{} >= {}", one.key, one.min_values?))).collect();
    has_relaxed_min_values(claim)
        .then(|| if kept.is_empty() { "no minValues are left".to_owned() } else { kept.join(", ") })
}

/// Annotations of a claim about the spec of its class, and the instance profile, that its instance is launched with. `authority` is
/// the cluster's certificate authority ([`hash::node_class`]).
#[must_use]
pub fn class_stamps(class: &EC2NodeClass, authority: &str) -> BTreeMap<String, String> {
    let profile = class.status.as_ref().map(|status| status.instance_profile.clone()).filter(|name| !name.is_empty());
    let profile = profile.map(|name| (keys::INSTANCE_PROFILE_NAME.to_owned(), name));
    let computed = hash::of_class(class, authority);
    let hash = hash::OF_CLASS.for_claims(&class.metadata, &computed, hash::Generations::of_class(class));
    hash::OF_CLASS.stamp(&hash).into_iter().chain(profile).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::provider::Provider;
    use serde_json::json;

    use super::*;

    fn pool() -> NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": {
                "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
                "taints": [{"key": "t", "effect": "NoSchedule"}],
            }}},
        }))
        .unwrap()
    }

    fn claim() -> NodeClaim {
        let requirements = [
            NodeSelectorRequirement::one_of("color", ["blue", "red"]),
            NodeSelectorRequirement::one_of(labels::CAPACITY_TYPE, ["spot", "on-demand"]),
            NodeSelectorRequirement::one_of(labels::HOSTNAME, ["planned-1"]),
        ];
        let mut requests = Resources::new();
        requests.set("cpu", 1500);
        node_claim(ClaimPlan {
            name: "default-abcde",
            pool: &pool(),
            requirements: &requirements,
            instance_types: (0..700).map(|n| format!("t{n:03}")).collect(),
            requests: &requests,
            term: 3,
            traceparent: "00-1-2-01",
            pool_hash: &hash::node_pool(&pool()),
            class_hash: None,
        })
    }

    #[test]
    fn a_claim_says_pool_class_term_and_trace() {
        let claim = claim();
        let labels = claim.metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels["karpenter.sh/nodepool"].as_str()), ("a", "default"));
        assert_eq!(labels["karpenter.k8s.aws/ec2nodeclass"], "c");
        let annotations = claim.metadata.annotations.unwrap();
        assert_eq!((annotations["dovetail.dev/term"].as_str(), annotations["note"].as_str()), ("3", "x"));
        assert_eq!(claim.metadata.owner_references.unwrap()[0].block_owner_deletion, Some(true));
        assert_eq!(claim.spec.resources.requests["cpu"].0, "1500m");
        assert_eq!(claim.spec.taints[0].key, "t");
    }

    #[test]
    fn provisioner_claim_has_its_label_and_does_not_require_it() {
        let mut old = pool();
        let from = (keys::CONVERTED_FROM.to_owned(), "karpenter.sh/v1alpha5/Provisioner/default".to_owned());
        old.metadata.annotations = Some([from].into());
        let requirements = [NodeSelectorRequirement::one_of(PROVISIONER_NAME, ["default"])];
        let claim = node_claim(ClaimPlan {
            name: "default-abcde",
            pool: &old,
            requirements: &requirements,
            instance_types: vec!["m5.large".into()],
            requests: &Resources::new(),
            term: 3,
            traceparent: "",
            pool_hash: &hash::node_pool(&old),
            class_hash: None,
        });
        assert_eq!(claim.metadata.labels.as_ref().unwrap()[PROVISIONER_NAME], "default");
        assert!(claim.spec.requirements.iter().all(|one| one.key != PROVISIONER_NAME));
        assert_eq!(crate::validity::claim(&claim), [], "the API server takes it");
    }

    #[test]
    fn a_label_of_another_providers_nodes_is_the_claims_own() {
        let of = |provider| {
            let mut pool = pool();
            pool.spec.template.spec.node_class_ref = NodeClassRef::for_provider(provider, "c");
            let requirements = [labels::INSTANCE_CPU, labels::KWOK_INSTANCE_CPU]
                .map(|key| NodeSelectorRequirement::one_of(key, ["4", "8"]));
            let claim = node_claim(ClaimPlan {
                name: "default-abcde",
                pool: &pool,
                requirements: &requirements,
                instance_types: vec!["a".into()],
                requests: &Resources::new(),
                term: 3,
                traceparent: "",
                pool_hash: "1",
                class_hash: None,
            });
            let own = claim.metadata.labels.clone().unwrap();
            [labels::INSTANCE_CPU, labels::KWOK_INSTANCE_CPU].map(|key| {
                let required = claim.spec.requirements.iter().find(|one| one.key == key).unwrap();
                (required.values.len(), own.get(key).cloned())
            })
        };
        let (custom, known) = ((1, Some("4".to_owned())), (2, None));
        assert_eq!(of(Provider::Ec2), [known.clone(), custom.clone()], "a label of the user's own");
        assert_eq!(of(Provider::Kwok), [custom, known]);
    }

    #[test]
    fn it_names_the_600_cheapest_types_and_settles_custom_labels() {
        let claim = claim();
        let find = |key: &str| claim.spec.requirements.iter().find(|one| one.key == key);
        assert_eq!(find(labels::INSTANCE_TYPE).unwrap().values.len(), MOST_TYPES);
        assert_eq!(find("color").unwrap().values, ["blue"]);
        assert_eq!(claim.metadata.labels.as_ref().unwrap()["color"], "blue");
        assert_eq!(find(labels::CAPACITY_TYPE).unwrap().values.len(), 2);
        assert!(find(labels::HOSTNAME).is_none());
    }

    #[test]
    fn claim_on_network_interfaces_asks_ec2_for_efa() {
        let kind = |efa: &str| -> Arc<InstanceType> {
            let one = json!({"name": "p5.48xlarge", "capacity": {"vpc.amazonaws.com/efa": efa}, "requirements": [], "offerings": []});
            Arc::new(serde_json::from_value(one).unwrap())
        };
        let mut claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        }))
        .unwrap();
        let asked = |claim: &NodeClaim, types: &[Arc<InstanceType>]| launch_requests(claim, types).get(EFA);
        assert_eq!(asked(&claim, &[kind("32")]), 0, "interfaces are attached where they are asked for");
        let own = claim.metadata.annotations.get_or_insert_default();
        own.insert(keys::REQUESTED_DRA_DRIVERS.to_owned(), "dra.net,gpu.nvidia.com".to_owned());
        assert_eq!(asked(&claim, &[kind("32"), kind("1")]), 1);
        assert_eq!(asked(&claim, &[kind("32"), kind("0")]), 0, "they are interfaces that every type has");
    }
}
