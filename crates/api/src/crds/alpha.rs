//! The schemas of Provisioner (v1alpha5) and AWSNodeTemplate (v1alpha1), aws spec 10.1 to 10.3. Neither `provider` nor
//! `providerRef` is required: the posts' manifests that name none mean the cluster's defaults.

use serde_json::{Value, json};

use super::{
    claim, class,
    parts::{self, object, rule, with},
    root,
};
use crate::names::labels;

/// Operators of the versions before v1.
pub(super) const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// Provisioner.
pub fn provisioner() -> Value {
    let seconds = json!({"type": "integer", "format": "int64", "minimum": 0});
    let properties = json!({
        "annotations": parts::text_map(),
        "labels": parts::template_labels(),
        "taints": parts::taints(),
        "startupTaints": parts::taints(),
        "requirements": parts::requirements(&OPERATORS, true, false, &[labels::INSTANCE_PODS, labels::INSTANCE_AMI_ID]),
        "kubeletConfiguration": kubelet(true),
        "provider": provider(),
        "providerRef": object(
            json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string", "minLength": 1}}),
            &["name"],
        ),
        "ttlSecondsAfterEmpty": seconds,
        "ttlSecondsUntilExpired": seconds,
        "consolidation": object(json!({"enabled": {"type": "boolean"}}), &[]),
        "limits": object(json!({"resources": parts::resource_list()}), &[]),
        "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
    });
    let rules = json!({"x-kubernetes-validations": [
        rule("!has(self.provider) || !has(self.providerRef)", "provider and providerRef exclude each other"),
        rule(
            "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) || !has(self.consolidation.enabled) || !self.consolidation.enabled",
            "ttlSecondsAfterEmpty and consolidation.enabled exclude each other",
        ),
    ]});
    let status = object(
        json!({
            "resources": parts::resource_list(),
            "lastScaleTime": parts::time(),
            "conditions": parts::conditions(false),
        }),
        &[],
    );
    root(
        "Provisioner of v1alpha5; Dovetail takes it for the NodePool it means",
        with(object(properties, &[]), rules),
        status,
    )
}

/// Machine.
pub fn machine() -> Value {
    let reference = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string", "minLength": 1}});
    let properties = json!({
        "requirements": parts::requirements(&OPERATORS, false, false, &[labels::INSTANCE_PODS, labels::INSTANCE_AMI_ID]),
        "resources": object(json!({"requests": parts::resource_list()}), &[]),
        "taints": parts::taints(),
        "startupTaints": parts::taints(),
        "kubelet": kubelet(true),
        "machineTemplateRef": object(reference, &["name"]),
    });
    root("Machine of v1alpha5; Dovetail reads it as the NodeClaim it means", object(properties, &[]), claim::status())
}

/// Fields that an inline provider and a node template share.
fn aws() -> Value {
    let selector =
        json!({"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string", "minLength": 1}});
    json!({
        "amiFamily": {"type": "string", "enum": ["AL2", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom"]},
        "subnetSelector": selector,
        "securityGroupSelector": selector,
        "instanceProfile": class::iam_name(128),
        "launchTemplate": {"type": "string"},
        "tags": parts::text_map(),
        "context": {"type": "string"},
        "metadataOptions": without_defaults(class::metadata_options(2)),
        "blockDeviceMappings": without_root_volume(class::shared()["blockDeviceMappings"].clone()),
    })
}

/// Inline `spec.provider`.
fn provider() -> Value {
    let mut properties = aws();
    class::merge(&mut properties, json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}}));
    object(properties, &[])
}

/// AWSNodeTemplate.
pub fn node_template() -> Value {
    let selector =
        json!({"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string", "minLength": 1}});
    let mut properties = aws();
    class::merge(
        &mut properties,
        json!({"userData": {"type": "string"}, "amiSelector": selector, "detailedMonitoring": {"type": "boolean"}}),
    );
    let rules = json!({"x-kubernetes-validations": [rule(
        "!has(self.amiFamily) || self.amiFamily != 'Custom' || has(self.amiSelector)",
        "amiSelector is required when amiFamily == 'Custom'",
    )]});
    root(
        "AWSNodeTemplate of v1alpha1; Dovetail takes it for the EC2NodeClass it means",
        with(object(properties, &[]), rules),
        class::status(),
    )
}

/// A partially filled alpha object fell to EC2's defaults, so the schema gives none.
fn without_defaults(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.remove("default");
        if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
            for property in properties.values_mut().filter_map(Value::as_object_mut) {
                property.remove("default");
            }
        }
    }
    schema
}

/// `rootVolume` came with v1beta1.
fn without_root_volume(mut schema: Value) -> Value {
    if let Some(properties) = schema["items"]["properties"].as_object_mut() {
        properties.remove("rootVolume");
    }
    if let Some(object) = schema.as_object_mut() {
        object.remove("x-kubernetes-validations");
    }
    schema
}

/// The kubelet block of pools, with alpha's `containerRuntime` if wanted.
pub fn kubelet(runtime: bool) -> Value {
    let count = json!({"type": "integer", "format": "int32", "minimum": 0});
    let mut properties = json!({
        "clusterDNS": {"type": "array", "items": {"type": "string"}},
        "maxPods": count,
        "podsPerCore": count,
        "systemReserved": parts::resource_list(),
        "kubeReserved": parts::resource_list(),
        "evictionHard": parts::text_map(),
        "evictionSoft": parts::text_map(),
        "evictionSoftGracePeriod": parts::text_map(),
        "evictionMaxPodGracePeriod": {"type": "integer", "format": "int32"},
        "imageGCHighThresholdPercent": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
        "imageGCLowThresholdPercent": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
        "cpuCFSQuota": {"type": "boolean"},
    });
    if runtime {
        properties["containerRuntime"] = json!({"type": "string", "enum": ["dockerd", "containerd"]});
    }
    object(properties, &[])
}
