//! Provisioner to NodePool, with the class that an inline provider means (aws spec 10.1, 10.3).

use std::collections::{BTreeMap, BTreeSet};

use super::{ConversionContext, ConvertError, Converted, kubelet, metadata, template};
use crate::{
    names::{alias, annotations, labels},
    v1::{
        Budget, ConsolidationPolicy, Disruption, DurationOrNever, NodeClaimTemplate, NodeClaimTemplateSpec,
        NodeClassRef, NodePool, NodePoolSpec, NodeSelectorOperator, NodeSelectorRequirementWithMinValues,
        TemplateMetadata,
    },
    v1alpha5::{Provisioner, ProvisionerSpec},
    v1beta1,
};

/// Converts a Provisioner. What alpha's webhook added when it was absent is added here: os linux, arch amd64, capacity type
/// on-demand, and categories c, m, r above generation 2 unless type, family, category or generation is named.
///
/// # Errors
/// Its provider names a launch template, which v1 does not know.
pub fn provisioner(old: &Provisioner, context: &ConversionContext) -> Result<Converted, ConvertError> {
    let spec = &old.spec;
    let mut said = Converted::default();
    let mut pool_metadata = metadata(old);
    let notes = pool_metadata.annotations.get_or_insert_default();
    if let Some(ttl) = spec.ttl_seconds_after_empty {
        notes.insert(annotations::TTL_SECONDS_AFTER_EMPTY.into(), ttl.to_string());
    }
    let kubelet = spec.kubelet_configuration.clone().map(|written| kubelet::without_runtime(written, &mut said));
    let (node_class_ref, node_class) = if let Some(reference) = &spec.provider_ref {
        if let Some(kubelet) = &kubelet {
            kubelet::note(notes, kubelet);
        }
        (class_ref(reference), None)
    } else {
        if spec.provider.is_none() {
            said.defaults.push("spec.provider: this cluster's subnets, security groups and nodes' role".into());
        }
        let aws = spec.provider.clone().unwrap_or_default();
        let mut class = template::inline(&aws, metadata(old), context, &mut said)?;
        class.spec.kubelet = kubelet;
        (NodeClassRef::ec2(old.metadata.name.clone().unwrap_or_default()), Some(class))
    };
    let template = NodeClaimTemplate {
        metadata: TemplateMetadata { labels: spec.labels.clone(), annotations: renamed(&spec.annotations) },
        spec: NodeClaimTemplateSpec {
            requirements: requirements(spec, &mut said),
            taints: spec.taints.clone(),
            startup_taints: spec.startup_taints.clone(),
            node_class_ref,
            termination_grace_period: None,
            expire_after: spec.ttl_seconds_until_expired.map_or(DurationOrNever::Never, DurationOrNever::from_secs),
        },
    };
    let limits = spec.limits.clone().map(|limits| limits.resources);
    let pool = NodePoolSpec { template, disruption: disruption(spec), limits, weight: spec.weight, replicas: None };
    let node_pool = NodePool { metadata: pool_metadata, spec: pool, status: None };
    Ok(Converted { node_pool: Some(node_pool), node_class, ..said })
}

/// The class that an older reference means: without a group ours, AWSNodeTemplate its successor.
pub(super) fn class_ref(old: &v1beta1::NodeClassRef) -> NodeClassRef {
    let group =
        old.api_version.as_deref().and_then(|version| version.split('/').next()).filter(|group| !group.is_empty());
    let kind = old.kind.as_deref().filter(|kind| !kind.is_empty() && *kind != "AWSNodeTemplate");
    NodeClassRef {
        group: group.unwrap_or(crate::names::AWS_GROUP).into(),
        kind: kind.unwrap_or("EC2NodeClass").into(),
        name: old.name.clone(),
    }
}

/// Annotations under their names of today.
fn renamed(old: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    old.iter()
        .map(|(key, value)| match key.as_str() {
            annotations::DO_NOT_CONSOLIDATE | annotations::DO_NOT_EVICT => {
                (annotations::DO_NOT_DISRUPT.into(), value.clone())
            }
            _ => (key.clone(), value.clone()),
        })
        .collect()
}

/// True for a label that nodes do not have any more.
pub(crate) fn is_gone(key: &str) -> bool {
    matches!(key, labels::INSTANCE_PODS | labels::INSTANCE_AMI_ID)
}

fn requirements(spec: &ProvisionerSpec, said: &mut Converted) -> Vec<NodeSelectorRequirementWithMinValues> {
    let mut all = Vec::new();
    for (at, written) in spec.requirements.iter().enumerate() {
        if is_gone(&written.key) {
            said.warnings.push(format!("label {} is gone; the requirement is left out", written.key));
            said.left_out.push(format!("spec.requirements[{at}]: nodes have no label {} any more", written.key));
            continue;
        }
        all.push(NodeSelectorRequirementWithMinValues {
            key: alias::normalize(&written.key).into(),
            ..written.clone()
        });
    }
    let named: BTreeSet<String> = all
        .iter()
        .map(|written| written.key.clone())
        .chain(spec.labels.keys().map(|key| alias::normalize(key).into()))
        .collect();
    let absent = |keys: &[&str]| keys.iter().all(|key| !named.contains(*key));
    let written = all.len();
    for (key, value) in [(labels::OS, "linux"), (labels::ARCH, "amd64"), (labels::CAPACITY_TYPE, labels::ON_DEMAND)] {
        if absent(&[key]) {
            all.push(NodeSelectorRequirementWithMinValues::new(key, NodeSelectorOperator::In, [value]));
        }
    }
    let kinds =
        [labels::INSTANCE_TYPE, labels::INSTANCE_FAMILY, labels::INSTANCE_CATEGORY, labels::INSTANCE_GENERATION];
    if absent(&kinds) {
        all.push(NodeSelectorRequirementWithMinValues::new(
            labels::INSTANCE_CATEGORY,
            NodeSelectorOperator::In,
            ["c", "m", "r"],
        ));
        all.push(NodeSelectorRequirementWithMinValues::new(
            labels::INSTANCE_GENERATION,
            NodeSelectorOperator::Gt,
            ["2"],
        ));
    }
    said.defaults.extend(
        all.iter().skip(written).map(|added| {
            format!("spec.requirements: {} {:?} [{}]", added.key, added.operator, added.values.join(", "))
        }),
    );
    all
}

/// The disruption block of a Provisioner's pool. Alpha knew no budgets, so there is no limit on how many nodes go at once. A TTL
/// is exact: the annotation on the pool says so besides.
fn disruption(spec: &ProvisionerSpec) -> Disruption {
    let consolidates = spec.consolidation.and_then(|consolidation| consolidation.enabled) == Some(true);
    let (consolidate_after, consolidation_policy) = match spec.ttl_seconds_after_empty {
        Some(ttl) => (DurationOrNever::from_secs(ttl), ConsolidationPolicy::WhenEmpty),
        None if consolidates => (DurationOrNever::from_secs(0), ConsolidationPolicy::WhenEmptyOrUnderutilized),
        None => (DurationOrNever::Never, ConsolidationPolicy::WhenEmpty),
    };
    let budgets = vec![Budget { nodes: "100%".into(), ..Budget::default() }];
    Disruption { consolidate_after, consolidation_policy, budgets }
}
