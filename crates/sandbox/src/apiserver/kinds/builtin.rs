//! The built-in resources, a row each.
use crate::apiserver::registry::{ResourceDef, ScalePaths, ServedVersion};

/// Lives in a namespace.
const NS: u8 = 1;
/// Has the status subresource.
const STATUS: u8 = 2;
/// `metadata.generation` counts the changes of its spec.
const GEN: u8 = 4;
/// Has the scale subresource.
const SCALE: u8 = 8;
/// Leaves its dependents when a delete does not say otherwise.
const ORPHANS: u8 = 16;
/// A PUT has to carry the resourceVersion.
const VERSIONED: u8 = 32;
/// Belongs to kubectl's `all`.
const ALL: u8 = 64;
/// Is answered and never stored.
const REVIEW: u8 = 128;

type Row = (&'static str, &'static str, &'static str, &'static str, u8);

/// The version of PodGroups, which Kubernetes 1.36 serves behind its feature gate GenericWorkload.
const POD_GROUPS: &str = "v1alpha2";

/// group, plural, kind, short names, flags. Each has the one version `v1`, but for PodGroups.
const ROWS: &[Row] = &[
    ("", "configmaps", "ConfigMap", "cm", NS),
    ("", "endpoints", "Endpoints", "ep", NS),
    ("", "events", "Event", "ev", NS),
    ("", "limitranges", "LimitRange", "limits", NS),
    ("", "namespaces", "Namespace", "ns", STATUS),
    ("", "nodes", "Node", "no", STATUS),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", NS | STATUS),
    ("", "persistentvolumes", "PersistentVolume", "pv", STATUS),
    ("", "pods", "Pod", "po", NS | STATUS | GEN | ALL),
    ("", "podtemplates", "PodTemplate", "", NS),
    ("", "replicationcontrollers", "ReplicationController", "rc", NS | STATUS | GEN | SCALE | ORPHANS | ALL),
    ("", "resourcequotas", "ResourceQuota", "quota", NS | STATUS),
    ("", "secrets", "Secret", "", NS),
    ("", "serviceaccounts", "ServiceAccount", "sa", NS),
    ("", "services", "Service", "svc", NS | STATUS | ALL),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", GEN),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", STATUS | GEN),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", GEN),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", GEN),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd,crds",
        STATUS | GEN | VERSIONED,
    ),
    ("apps", "controllerrevisions", "ControllerRevision", "", NS),
    ("apps", "daemonsets", "DaemonSet", "ds", NS | STATUS | GEN | ALL),
    ("apps", "deployments", "Deployment", "deploy", NS | STATUS | GEN | SCALE | ALL),
    ("apps", "replicasets", "ReplicaSet", "rs", NS | STATUS | GEN | SCALE | ALL),
    ("apps", "statefulsets", "StatefulSet", "sts", NS | STATUS | GEN | SCALE | ALL),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", "", REVIEW),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", "", NS | REVIEW),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", REVIEW),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", REVIEW),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", "", REVIEW),
    ("batch", "cronjobs", "CronJob", "cj", NS | STATUS | GEN | ALL),
    ("batch", "jobs", "Job", "", NS | STATUS | GEN | ORPHANS | ALL),
    ("coordination.k8s.io", "leases", "Lease", "", NS | VERSIONED),
    ("discovery.k8s.io", "endpointslices", "EndpointSlice", "", NS | GEN),
    ("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol", NS | GEN),
    ("networking.k8s.io", "servicecidrs", "ServiceCIDR", "", STATUS),
    ("node.k8s.io", "runtimeclasses", "RuntimeClass", "", 0),
    ("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", NS | STATUS | GEN | VERSIONED),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", "", 0),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", "", 0),
    ("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", "", NS),
    ("rbac.authorization.k8s.io", "roles", "Role", "", NS),
    ("resource.k8s.io", "deviceclasses", "DeviceClass", "", GEN),
    ("resource.k8s.io", "resourceclaims", "ResourceClaim", "", NS | STATUS),
    ("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", "", NS),
    ("resource.k8s.io", "resourceslices", "ResourceSlice", "", GEN),
    ("scheduling.k8s.io", "podgroups", "PodGroup", "", NS | STATUS | GEN),
    ("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", GEN),
    ("storage.k8s.io", "csidrivers", "CSIDriver", "", 0),
    ("storage.k8s.io", "csinodes", "CSINode", "", 0),
    ("storage.k8s.io", "storageclasses", "StorageClass", "sc", 0),
    ("storage.k8s.io", "volumeattachments", "VolumeAttachment", "", STATUS),
];

/// The definitions of all rows.
pub fn resources() -> impl Iterator<Item = ResourceDef> {
    ROWS.iter().map(resource)
}

fn resource(&(group, plural, kind, short, flags): &Row) -> ResourceDef {
    let has = |flag: u8| flags & flag != 0;
    let scale = has(SCALE).then(|| ScalePaths {
        spec: "/spec/replicas".to_owned(),
        status: "/status/replicas".to_owned(),
        selector: Some("/spec/selector".to_owned()),
    });
    let version = ServedVersion {
        name: if kind == "PodGroup" { POD_GROUPS } else { "v1" }.to_owned(),
        served: true,
        status: has(STATUS),
        scale,
        openapi: None,
        schema: None,
        columns: Vec::new(),
    };
    ResourceDef {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
        categories: if has(ALL) { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: has(NS),
        versions: vec![version.into()],
        storage: 0,
        generation: has(GEN),
        custom: false,
        orphans: has(ORPHANS),
        needs_version: has(VERSIONED),
        review: has(REVIEW),
    }
}
