//! Names: of resources (`Gvr`) and of objects within one (`Key`).
use std::borrow::Cow;

/// A resource by group, version and plural name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version, as `v1`.
    pub version: Cow<'static, str>,
    /// Plural, lower-case name, as `pods`.
    pub resource: Cow<'static, str>,
}

impl Gvr {
    /// A resource known at compile time.
    pub const fn from_static(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        Gvr { group: Cow::Borrowed(group), version: Cow::Borrowed(version), resource: Cow::Borrowed(resource) }
    }

    /// A resource known at run time.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Gvr {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            resource: Cow::Owned(resource.to_owned()),
        }
    }
}

pub const PODS: Gvr = Gvr::from_static("", "v1", "pods");
pub const NODES: Gvr = Gvr::from_static("", "v1", "nodes");
pub const NAMESPACES: Gvr = Gvr::from_static("", "v1", "namespaces");
pub const SERVICES: Gvr = Gvr::from_static("", "v1", "services");
/// Core events.
pub const EVENTS: Gvr = Gvr::from_static("", "v1", "events");
pub const CONFIG_MAPS: Gvr = Gvr::from_static("", "v1", "configmaps");
pub const SECRETS: Gvr = Gvr::from_static("", "v1", "secrets");
pub const SERVICE_ACCOUNTS: Gvr = Gvr::from_static("", "v1", "serviceaccounts");
pub const REPLICATION_CONTROLLERS: Gvr = Gvr::from_static("", "v1", "replicationcontrollers");
pub const PERSISTENT_VOLUME_CLAIMS: Gvr = Gvr::from_static("", "v1", "persistentvolumeclaims");
pub const PERSISTENT_VOLUMES: Gvr = Gvr::from_static("", "v1", "persistentvolumes");
pub const DEPLOYMENTS: Gvr = Gvr::from_static("apps", "v1", "deployments");
pub const REPLICA_SETS: Gvr = Gvr::from_static("apps", "v1", "replicasets");
pub const STATEFUL_SETS: Gvr = Gvr::from_static("apps", "v1", "statefulsets");
pub const DAEMON_SETS: Gvr = Gvr::from_static("apps", "v1", "daemonsets");
pub const CONTROLLER_REVISIONS: Gvr = Gvr::from_static("apps", "v1", "controllerrevisions");
pub const JOBS: Gvr = Gvr::from_static("batch", "v1", "jobs");
pub const POD_DISRUPTION_BUDGETS: Gvr = Gvr::from_static("policy", "v1", "poddisruptionbudgets");
pub const STORAGE_CLASSES: Gvr = Gvr::from_static("storage.k8s.io", "v1", "storageclasses");
pub const CSI_NODES: Gvr = Gvr::from_static("storage.k8s.io", "v1", "csinodes");
pub const VOLUME_ATTACHMENTS: Gvr = Gvr::from_static("storage.k8s.io", "v1", "volumeattachments");
pub const RESOURCE_CLAIMS: Gvr = Gvr::from_static("resource.k8s.io", "v1", "resourceclaims");
pub const RESOURCE_CLAIM_TEMPLATES: Gvr = Gvr::from_static("resource.k8s.io", "v1", "resourceclaimtemplates");
pub const DEVICE_CLASSES: Gvr = Gvr::from_static("resource.k8s.io", "v1", "deviceclasses");
pub const RESOURCE_SLICES: Gvr = Gvr::from_static("resource.k8s.io", "v1", "resourceslices");
/// VerticalPodAutoscalers, where their CRD is installed.
pub const VERTICAL_POD_AUTOSCALERS: Gvr = Gvr::from_static("autoscaling.k8s.io", "v1", "verticalpodautoscalers");
/// PodGroups of Kubernetes 1.36.
pub const POD_GROUPS: Gvr = Gvr::from_static("scheduling.k8s.io", "v1alpha2", "podgroups");
pub const LEASES: Gvr = Gvr::from_static("coordination.k8s.io", "v1", "leases");
pub const PRIORITY_CLASSES: Gvr = Gvr::from_static("scheduling.k8s.io", "v1", "priorityclasses");
pub const CUSTOM_RESOURCE_DEFINITIONS: Gvr =
    Gvr::from_static("apiextensions.k8s.io", "v1", "customresourcedefinitions");
pub const NODE_POOLS: Gvr = Gvr::from_static("karpenter.sh", "v1", "nodepools");
pub const NODE_CLAIMS: Gvr = Gvr::from_static("karpenter.sh", "v1", "nodeclaims");
/// EC2NodeClasses of Karpenter's AWS provider.
pub const EC2_NODE_CLASSES: Gvr = Gvr::from_static("karpenter.k8s.aws", "v1", "ec2nodeclasses");

/// An object within a resource. Orders as etcd's keys do: by namespace, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace; empty for cluster-wide kinds.
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}
