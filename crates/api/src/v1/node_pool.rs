//! NodePool: what nodes may be made, within which limits, and when they may be taken away (core spec 1.1).

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Condition};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{DurationOrNever, KubeDuration, NodeClassRef, NodeSelectorRequirementWithMinValues, ResourceList};

/// A NodePool's template of nodes, with its limits and disruption rules.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    status = "NodePoolStatus",
    derive = "PartialEq",
    schema = "disabled",
    category = "karpenter",
    doc = "NodePool says which nodes may be made for pending pods, within which limits, and when they may be taken away",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// Template of the claims made for this pool.
    pub template: NodeClaimTemplate,
    /// Rules for taking nodes away.
    #[serde(default)]
    pub disruption: Disruption,
    /// Ceilings on what the pool's nodes have together; the resource `nodes` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// 1 to 100, higher is tried first; unset is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Number of nodes of a static pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// Template of the claims made for a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    /// Labels and annotations.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// `spec` of each NodeClaim of the pool.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of a pool's claims and nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels of claim and node; they are requirements as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of claim and node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The spec of a pool's claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Requirements on the nodes' labels.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Taints for the node's whole life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something else takes away before the node counts as initialized.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// The class that says how an instance is launched.
    pub node_class_ref: NodeClassRef,
    /// Longest time of draining; then pods are deleted regardless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<KubeDuration>,
    /// Age at which a node is drained; 720h unless said.
    #[serde(default = "month")]
    pub expire_after: DurationOrNever,
}

/// The default of expireAfter.
pub(super) fn month() -> DurationOrNever {
    DurationOrNever::parse("720h").unwrap_or(DurationOrNever::Never)
}

impl Default for DurationOrNever {
    /// expireAfter's default, 720h.
    fn default() -> Self {
        month()
    }
}

/// Rules for taking nodes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// Time from the last coming or going of a pod; Never also disables emptiness.
    pub consolidate_after: DurationOrNever,
    /// Nodes that consolidation looks at.
    pub consolidation_policy: ConsolidationPolicy,
    /// Most nodes at once; an empty list is without limit.
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: DurationOrNever::from_secs(0),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: vec![Budget::default()],
        }
    }
}

/// Nodes that consolidation looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Empty ones only.
    WhenEmpty,
    /// Empty and under-used ones.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Under-used ones where the saving is worth the disruption.
    Balanced,
}

/// A bound on the nodes of a pool that may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// A count or a percentage.
    pub nodes: String,
    /// Reasons that it bounds (`Underutilized`, `Empty`, `Drifted`); none is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Cron line (UTC) at which it starts to hold; together with duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Time for which it holds from each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<KubeDuration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: "10%".into(), reasons: Vec::new(), schedule: None, duration: None }
    }
}

/// Status of a NodePool: its nodes and conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Resources of the pool's nodes together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
    /// Number of its nodes.
    #[serde(default)]
    pub nodes: i64,
    /// Generation of the class that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
