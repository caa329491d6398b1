//! v1beta1 as it is read: accepted, converted to v1 ([`crate::convert`]), never stored.

use k8s_openapi::api::core::v1::Taint;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::v1::{
    AmiSelectorTerm, BlockDeviceMapping, Budget, DurationOrNever, EC2NodeClassStatus, Kubelet, MetadataOptions,
    NodeClaimResources, NodeClaimStatus, NodePoolStatus, NodeSelectorRequirementWithMinValues, ResourceList,
    SecurityGroupSelectorTerm, SubnetSelectorTerm, TemplateMetadata,
};

/// A NodePool's template of nodes, with its limits and disruption rules.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "karpenter.sh", version = "v1beta1", kind = "NodePool", plural = "nodepools", status = "NodePoolStatus")]
#[kube(derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// Template of the claims made for this pool.
    pub template: NodeClaimTemplate,
    /// Rules for taking nodes away.
    #[serde(default)]
    pub disruption: Disruption,
    /// Ceilings on what the pool's nodes have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// 1 to 100, higher is tried first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Template of the claims made for a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    /// Labels and annotations.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// `spec` of each NodeClaim of the pool.
    pub spec: NodeClaimSpec,
}

/// The spec of a claim, and of a pool's template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1beta1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    status = "NodeClaimStatus"
)]
#[kube(derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Requirements on the node's labels.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Requests of the pods planned for it together; a claim's only.
    #[serde(default, skip_serializing_if = "NodeClaimResources::is_empty")]
    pub resources: NodeClaimResources,
    /// Taints for the node's whole life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something else takes away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// The kubelet's configuration; v1 has it in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<Kubelet>,
    /// The class that says how an instance is launched.
    pub node_class_ref: NodeClassRef,
}

/// A reference to a class; `apiVersion` and `kind` may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    /// `karpenter.k8s.aws/v1beta1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `EC2NodeClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `metadata.name` of the class.
    pub name: String,
}

/// Rules for taking nodes away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// Time since the last pod went; with WhenEmpty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidate_after: Option<DurationOrNever>,
    /// `WhenEmpty` or `WhenUnderutilized` (the default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation_policy: Option<String>,
    /// Age at which a node is replaced; 720h unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationOrNever>,
    /// Most nodes at once; `10%` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Vec<Budget>>,
}

/// Settings by which instances are launched.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "karpenter.k8s.aws", version = "v1beta1", kind = "EC2NodeClass", plural = "ec2nodeclasses")]
#[kube(status = "EC2NodeClassStatus", derive = "PartialEq", schema = "disabled", category = "karpenter")]
#[kube(shortname = "ec2nc", shortname = "ec2ncs")]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassSpec {
    /// Subnets in which instances may be.
    #[serde(default)]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Their security groups.
    #[serde(default)]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// True to give them a public address.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Their image; none leaves it to the family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Family of their images, by which user data is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    /// The user's own user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// IAM role of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Instance profile that is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Tags of everything that is made.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub tags: std::collections::BTreeMap<String, String>,
    /// Disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// `RAID0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<String>,
    /// CloudWatch's detailed monitoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Access to the instance's metadata; hop limit 2 unless said.
    #[serde(default, deserialize_with = "two_hops", skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    /// CreateFleet's Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// Fills the fields that are not given as v1beta1's schema did.
fn two_hops<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<MetadataOptions>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Written {
        http_endpoint: Option<String>,
        #[serde(rename = "httpProtocolIPv6")]
        http_protocol_ipv6: Option<String>,
        http_put_response_hop_limit: Option<i64>,
        http_tokens: Option<String>,
    }
    let default = MetadataOptions::default();
    Ok(Option::<Written>::deserialize(deserializer)?.map(|written| MetadataOptions {
        http_endpoint: written.http_endpoint.unwrap_or(default.http_endpoint),
        http_protocol_ipv6: written.http_protocol_ipv6.unwrap_or(default.http_protocol_ipv6),
        http_put_response_hop_limit: written.http_put_response_hop_limit.unwrap_or(2),
        http_tokens: written.http_tokens.unwrap_or(default.http_tokens),
    }))
}
