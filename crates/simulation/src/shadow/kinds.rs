//! Kinds that are copied from a cluster, in the order in which one thing needs another.

use dovetail_sandbox::apiserver::{
    DAEMON_SETS, EC2_NODE_CLASSES, Gvr, NAMESPACES, NODE_CLAIMS, NODE_POOLS, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, STORAGE_CLASSES,
};
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct CopiedKind {
    /// The resource that is listed and watched.
    pub gvr: Gvr,
    /// The kind as manifests write it.
    pub kind: &'static str,
    /// Without it there is nothing to say: it is waited for. What else cannot be read is taken as not there, which is said.
    pub needed: bool,
}

const fn kind(gvr: Gvr, kind: &'static str, needed: bool) -> CopiedKind {
    CopiedKind { gvr, kind, needed }
}

pub static KINDS: [CopiedKind; 14] = [
    kind(NAMESPACES, "Namespace", false),
    kind(PRIORITY_CLASSES, "PriorityClass", false),
    kind(RUNTIME_CLASSES, "RuntimeClass", false),
    kind(STORAGE_CLASSES, "StorageClass", false),
    kind(PERSISTENT_VOLUMES, "PersistentVolume", false),
    kind(PERSISTENT_VOLUME_CLAIMS, "PersistentVolumeClaim", false),
    kind(EC2_NODE_CLASSES, "EC2NodeClass", true),
    kind(NODE_POOLS, "NodePool", true),
    kind(NODE_CLAIMS, "NodeClaim", true),
    kind(NODES, "Node", true),
    kind(DAEMON_SETS, "DaemonSet", false),
    kind(POD_DISRUPTION_BUDGETS, "PodDisruptionBudget", false),
    kind(PODS, "Pod", true),
    // Defaults for the requests of a DaemonSet's pods.
    kind(Gvr::from_static("", "v1", "limitranges"), "LimitRange", false),
];

pub const RUNTIME_CLASSES: Gvr = Gvr::from_static("node.k8s.io", "v1", "runtimeclasses");

/// A text in an object; empty where there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(value, |at, key| &at[*key]).as_str().unwrap_or_default()
}
