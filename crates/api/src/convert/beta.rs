//! v1beta1 to v1 (aws spec 10.4).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{ConversionContext, ConvertError, Converted, alpha::class_ref, family, kubelet, metadata};
use crate::{
    names::{alias, annotations},
    v1::{
        Budget, ConsolidationPolicy, Disruption, DurationOrNever, EC2NodeClass, EC2NodeClassSpec, MetadataOptions,
        NodeClaim, NodeClaimSpec, NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, NodePoolSpec,
        NodeSelectorRequirementWithMinValues,
    },
    v1beta1,
};

/// Converts a NodePool.
///
/// # Errors
/// WhenEmpty stands without consolidateAfter, which v1beta1 refused.
pub fn node_pool(old: &v1beta1::NodePool) -> Result<Converted, ConvertError> {
    let spec = &old.spec;
    let claim = &spec.template.spec;
    let mut metadata = metadata(old);
    note_class_ref(&mut metadata, &claim.node_class_ref);
    if let Some(written) = &claim.kubelet {
        kubelet::note(metadata.annotations.get_or_insert_default(), written);
    }
    let template = NodeClaimTemplate {
        metadata: spec.template.metadata.clone(),
        spec: NodeClaimTemplateSpec {
            requirements: normalized(&claim.requirements),
            taints: claim.taints.clone(),
            startup_taints: claim.startup_taints.clone(),
            node_class_ref: class_ref(&claim.node_class_ref),
            termination_grace_period: None,
            expire_after: spec.disruption.expire_after.clone().unwrap_or_default(),
        },
    };
    let pool = NodePoolSpec {
        template,
        disruption: disruption(&spec.disruption)?,
        limits: spec.limits.clone(),
        weight: spec.weight,
        replicas: None,
    };
    let node_pool = NodePool { metadata, spec: pool, status: None };
    Ok(Converted { node_pool: Some(node_pool), ..Converted::default() })
}

fn normalized(written: &[NodeSelectorRequirementWithMinValues]) -> Vec<NodeSelectorRequirementWithMinValues> {
    written
        .iter()
        .map(|one| NodeSelectorRequirementWithMinValues { key: alias::normalize(&one.key).into(), ..one.clone() })
        .collect()
}

/// Karpenter's webhook kept the older reference on the object; so do we.
fn note_class_ref(metadata: &mut ObjectMeta, reference: &v1beta1::NodeClassRef) {
    if let Ok(text) = serde_json::to_string(reference) {
        metadata.annotations.get_or_insert_default().insert(annotations::V1BETA1_NODE_CLASS_REF.into(), text);
    }
}

fn disruption(old: &v1beta1::Disruption) -> Result<Disruption, ConvertError> {
    let empty = old.consolidation_policy.as_deref() == Some("WhenEmpty");
    let consolidate_after = match (&old.consolidate_after, empty) {
        (Some(after), _) => after.clone(),
        (None, false) => DurationOrNever::from_secs(0),
        (None, true) => {
            return Err(ConvertError::new(
                &["spec", "disruption", "consolidateAfter"],
                "is required with WhenEmpty",
                "a duration such as 30s, or Never",
            ));
        }
    };
    Ok(Disruption {
        consolidate_after,
        consolidation_policy: if empty {
            ConsolidationPolicy::WhenEmpty
        } else {
            ConsolidationPolicy::WhenEmptyOrUnderutilized
        },
        budgets: old.budgets.clone().unwrap_or_else(|| vec![Budget::default()]),
    })
}

/// Converts an EC2NodeClass.
pub fn node_class(old: &v1beta1::EC2NodeClass, context: &ConversionContext) -> Converted {
    let spec = &old.spec;
    let mut metadata = metadata(old);
    let mut converted = Converted::default();
    let mut class = EC2NodeClassSpec {
        subnet_selector_terms: spec.subnet_selector_terms.clone(),
        security_group_selector_terms: spec.security_group_selector_terms.clone(),
        associate_public_ip_address: spec.associate_public_ip_address,
        ami_selector_terms: spec.ami_selector_terms.clone(),
        user_data: spec.user_data.clone(),
        role: spec.role.clone(),
        instance_profile: spec.instance_profile.clone(),
        tags: spec.tags.clone(),
        block_device_mappings: family::disks(&spec.block_device_mappings),
        instance_store_policy: spec.instance_store_policy.clone(),
        detailed_monitoring: spec.detailed_monitoring,
        metadata_options: spec
            .metadata_options
            .clone()
            .unwrap_or_else(|| MetadataOptions { http_put_response_hop_limit: 2, ..Default::default() }),
        context: spec.context.clone(),
        ..EC2NodeClassSpec::default()
    };
    let notes = metadata.annotations.get_or_insert_default();
    family::settle(&mut class, spec.ami_family.as_deref(), notes, context, &mut converted);
    let node_class = EC2NodeClass { metadata, spec: class, status: None };
    Converted { node_class: Some(node_class), ..converted }
}

/// Converts a NodeClaim. Its age limit was the pool's, so it has none of its own.
pub fn node_claim(old: &v1beta1::NodeClaim) -> Converted {
    let mut metadata = metadata(old);
    metadata.generate_name.clone_from(&old.metadata.generate_name);
    note_class_ref(&mut metadata, &old.spec.node_class_ref);
    let spec = NodeClaimSpec {
        requirements: normalized(&old.spec.requirements),
        resources: old.spec.resources.clone(),
        taints: old.spec.taints.clone(),
        startup_taints: old.spec.startup_taints.clone(),
        node_class_ref: class_ref(&old.spec.node_class_ref),
        termination_grace_period: None,
        expire_after: DurationOrNever::Never,
    };
    let node_claim = NodeClaim { metadata, spec, status: old.status.clone() };
    Converted { node_claim: Some(node_claim), ..Converted::default() }
}
