//! v1alpha1 as it is read: an AWSNodeTemplate, or a Provisioner's inline provider, becomes an EC2NodeClass
//! ([`crate::convert`]).

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::v1::{BlockDeviceMapping, EC2NodeClassStatus};

/// Settings by which instances are launched.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "karpenter.k8s.aws", version = "v1alpha1", kind = "AWSNodeTemplate", plural = "awsnodetemplates")]
#[kube(
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[kube(status = "EC2NodeClassStatus", derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[serde(rename_all = "camelCase", default)]
pub struct AWSNodeTemplateSpec {
    /// Fields that an inline provider has as well.
    #[serde(flatten)]
    pub aws: Aws,
    /// The user's own user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Tags, `aws-ids`, `aws::name`, `aws::owners` of the image.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ami_selector: BTreeMap<String, String>,
    /// CloudWatch's detailed monitoring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
}

/// Fields that a node template and an inline provider share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Aws {
    /// Family of the images, by which user data is made; AL2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    /// Tags or `aws-ids` of subnets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subnet_selector: BTreeMap<String, String>,
    /// Tags or `aws-ids` of security groups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_selector: BTreeMap<String, String>,
    /// Instance profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// A launch template of the user's own; no longer supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_template: Option<String>,
    /// Tags of everything that is made.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// CreateFleet's Context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Access to the instance's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<AlphaMetadataOptions>,
    /// Disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
}

/// Access to the instance's metadata; what is not given is left to EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AlphaMetadataOptions {
    /// `enabled` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<String>,
    /// `enabled` or `disabled`.
    #[serde(rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    pub http_protocol_ipv6: Option<String>,
    /// 1 to 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_put_response_hop_limit: Option<i64>,
    /// `required` or `optional`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_tokens: Option<String>,
}
