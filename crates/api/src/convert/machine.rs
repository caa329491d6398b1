//! Machine to NodeClaim (aws spec 10.5).

use super::{Converted, alpha::class_ref, kubelet, metadata};
use crate::{
    names::{alias, labels},
    v1::{DurationOrNever, NodeClaim, NodeClaimSpec, NodeClassRef, NodeSelectorRequirementWithMinValues},
    v1alpha5::Machine,
};

/// Converts a Machine. Its age limit was the Provisioner's, so it has none of its own; what its status says stays.
pub fn machine(old: &Machine) -> Converted {
    let mut converted = Converted::default();
    let mut metadata = metadata(old);
    metadata.generate_name.clone_from(&old.metadata.generate_name);
    if let Some(pool) = metadata.labels.as_ref().and_then(|labels| labels.get(labels::PROVISIONER_NAME)).cloned() {
        let labels = metadata.labels.get_or_insert_default();
        labels.remove(labels::PROVISIONER_NAME);
        labels.entry(labels::NODE_POOL.into()).or_insert(pool);
    }
    if let Some(written) = old.spec.kubelet.clone() {
        let kubelet = kubelet::without_runtime(written, &mut converted);
        if !kubelet.0.is_empty() {
            converted.left_out.push("spec.kubelet: v1 has it in the EC2NodeClass".into());
        }
    }
    let requirements = old.spec.requirements.iter();
    let spec = NodeClaimSpec {
        requirements: requirements
            .map(|one| NodeSelectorRequirementWithMinValues { key: alias::normalize(&one.key).into(), ..one.clone() })
            .collect(),
        resources: old.spec.resources.clone(),
        taints: old.spec.taints.clone(),
        startup_taints: old.spec.startup_taints.clone(),
        node_class_ref: match &old.spec.machine_template_ref {
            Some(reference) => class_ref(reference),
            // A Machine without a template is of its Provisioner's own class, which has the same name.
            None => NodeClassRef::ec2(
                metadata.labels.as_ref().and_then(|all| all.get(labels::NODE_POOL)).cloned().unwrap_or_default(),
            ),
        },
        termination_grace_period: None,
        expire_after: DurationOrNever::Never,
    };
    let node_claim = NodeClaim { metadata, spec, status: old.status.clone() };
    Converted { node_claim: Some(node_claim), ..converted }
}
