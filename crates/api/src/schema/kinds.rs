//! The kinds that are known, with their schemas: ours from the CRDs, Kubernetes' own from k8s-openapi. A schema is made when
//! it is first asked for.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

use k8s_openapi::{api, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::Schema;
use crate::crds;
use crate::scheduling::GROUP_FIELD;

/// The scope of a kind: in namespaces, or of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects live in namespaces.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

struct Entry {
    scope: Scope,
    make: fn(&str, &str) -> Value,
    schema: OnceLock<Option<Schema>>,
}

/// By apiVersion, then by kind.
static KINDS: LazyLock<BTreeMap<&'static str, BTreeMap<&'static str, Entry>>> = LazyLock::new(|| {
    let mut kinds: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (version, kind) in OWN_KINDS {
        kinds.entry(*version).or_default().insert(*kind, entry(Scope::Cluster, our_schema));
    }
    for (version, kind, scope, make) in core_kinds() {
        kinds.entry(version).or_default().insert(kind, entry(scope, make));
    }
    kinds
});

fn find(api_version: &str, kind: &str) -> Option<&'static Entry> {
    KINDS.get(api_version)?.get(kind)
}

/// The kinds of Karpenter's groups, with their apiVersions: those whose schemas are ours.
pub const OWN_KINDS: &[(&str, &str)] = &[
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.sh/v1", "NodeClaim"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("karpenter.sh/v1beta1", "NodePool"),
    ("karpenter.sh/v1beta1", "NodeClaim"),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
    ("karpenter.sh/v1alpha5", "Provisioner"),
    ("karpenter.sh/v1alpha5", "Machine"),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
];

fn entry(scope: Scope, make: fn(&str, &str) -> Value) -> Entry {
    Entry { scope, make, schema: OnceLock::new() }
}

fn our_schema(api_version: &str, kind: &str) -> Value {
    crds::schema_of(api_version, kind).unwrap_or_else(|| json!({"x-kubernetes-preserve-unknown-fields": true}))
}

fn openapi<T: JsonSchema>(_: &str, _: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let pod_specs = schema["$defs"].as_object_mut().into_iter().flatten().filter(|(name, _)| name.ends_with("PodSpec"));
    for (_, pod_spec) in pod_specs {
        // Kubernetes 1.36 has it; the types here are older.
        pod_spec["properties"][GROUP_FIELD[1]] = json!({"type": "object",
            "description": "schedulingGroup names the PodGroup of the pod's namespace with which it is scheduled.",
            "properties": {GROUP_FIELD[2]: {"type": "string"}}});
    }
    schema
}

/// A kind whose schema refers to itself, or is of no use here.
fn open(_: &str, _: &str) -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"metadata": {"type": "object"}}})
}

/// eksctl's kind, whose metadata is no object's.
fn cluster_config(_: &str, _: &str) -> Value {
    let text = json!({"type": "string"});
    let metadata = json!({"type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": text, "region": text, "version": text}});
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"metadata": metadata}})
}

type Core = (&'static str, &'static str, Scope, fn(&str, &str) -> Value);

/// Kubernetes' own kinds.
fn core_kinds() -> Vec<Core> {
    macro_rules! kinds {
        ($($scope:ident: $($group:ident::$kind:ident in $version:literal),* $(,)?;)*) => {
            vec![$($(($version, stringify!($kind), Scope::$scope, openapi::<api::$group::v1::$kind> as fn(&str, &str) -> Value)),*),*]
        };
    }
    let mut all = kinds! {
        Namespaced:
            core::Pod in "v1", core::Service in "v1", core::ConfigMap in "v1", core::Secret in "v1", core::ServiceAccount in "v1",
            core::PersistentVolumeClaim in "v1", core::ReplicationController in "v1", core::PodTemplate in "v1",
            core::ResourceQuota in "v1", core::LimitRange in "v1", core::Endpoints in "v1", core::Event in "v1",
            apps::Deployment in "apps/v1", apps::ReplicaSet in "apps/v1", apps::StatefulSet in "apps/v1",
            apps::DaemonSet in "apps/v1", apps::ControllerRevision in "apps/v1",
            batch::Job in "batch/v1", batch::CronJob in "batch/v1",
            policy::PodDisruptionBudget in "policy/v1",
            autoscaling::HorizontalPodAutoscaler in "autoscaling/v1",
            networking::Ingress in "networking.k8s.io/v1", networking::NetworkPolicy in "networking.k8s.io/v1",
            rbac::Role in "rbac.authorization.k8s.io/v1", rbac::RoleBinding in "rbac.authorization.k8s.io/v1",
            coordination::Lease in "coordination.k8s.io/v1", discovery::EndpointSlice in "discovery.k8s.io/v1",
            storage::CSIStorageCapacity in "storage.k8s.io/v1";
        Cluster:
            core::Namespace in "v1", core::Node in "v1", core::PersistentVolume in "v1",
            storage::StorageClass in "storage.k8s.io/v1", storage::VolumeAttachment in "storage.k8s.io/v1",
            storage::CSINode in "storage.k8s.io/v1", storage::CSIDriver in "storage.k8s.io/v1",
            scheduling::PriorityClass in "scheduling.k8s.io/v1", node::RuntimeClass in "node.k8s.io/v1",
            rbac::ClusterRole in "rbac.authorization.k8s.io/v1", rbac::ClusterRoleBinding in "rbac.authorization.k8s.io/v1",
            networking::IngressClass in "networking.k8s.io/v1",
            admissionregistration::ValidatingAdmissionPolicy in "admissionregistration.k8s.io/v1",
            admissionregistration::ValidatingAdmissionPolicyBinding in "admissionregistration.k8s.io/v1",
            admissionregistration::ValidatingWebhookConfiguration in "admissionregistration.k8s.io/v1",
            admissionregistration::MutatingWebhookConfiguration in "admissionregistration.k8s.io/v1";
    };
    all.push((
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        Scope::Namespaced,
        openapi::<api::autoscaling::v2::HorizontalPodAutoscaler>,
    ));
    all.push(("apiextensions.k8s.io/v1", "CustomResourceDefinition", Scope::Cluster, open));
    // No object of a cluster: what eksctl makes one from, with the node groups that `plan` compares with.
    all.push(("eksctl.io/v1alpha5", "ClusterConfig", Scope::Cluster, cluster_config));
    all
}

/// The schema of a kind, `None` when the kind is not known.
pub fn schema_for(api_version: &str, kind: &str) -> Option<&'static Schema> {
    let entry = find(api_version, kind)?;
    entry.schema.get_or_init(|| Schema::compile(&(entry.make)(api_version, kind)).ok()).as_ref()
}

/// The schema of a kind as JSON Schema, with its descriptions; made anew at each call.
pub fn written(api_version: &str, kind: &str) -> Option<Value> {
    find(api_version, kind).map(|entry| (entry.make)(api_version, kind))
}

/// The scope of a kind, `None` when the kind is not known.
pub fn scope_of(api_version: &str, kind: &str) -> Option<Scope> {
    find(api_version, kind).map(|entry| entry.scope)
}

/// Every known kind as (apiVersion, kind), sorted.
pub fn accepted_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().flat_map(|(version, kinds)| kinds.keys().map(|kind| (*version, *kind)))
}

/// The schema of `metadata`.
pub(super) fn object_meta() -> Option<&'static Schema> {
    static META: OnceLock<Option<Schema>> = OnceLock::new();
    META.get_or_init(|| Schema::compile(&openapi::<ObjectMeta>("", "")).ok()).as_ref()
}
