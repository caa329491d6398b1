//! The CustomResourceDefinitions: names, columns and subresources come from the types, the schemas from the builders here
//! (field by field after the specs' tables, with every default, pattern, bound and CEL rule).
//!
//! manifests are read). The alpha kinds are stored as they are
//! written.
//! v1 is what is stored and the only version that is served at first. v1beta1 is named, so that an API server takes the
//! definition where objects of it were stored once. It is served once a replica converts it: the leader then changes the
//! definition, which nobody else can, as it knows the certificates (docs/decisions/045). The alpha kinds are no CRDs of ours: their schemas are here for the reading of manifests.

mod alpha;
mod buffer;
mod claim;
mod class;
mod overlay;
pub(crate) mod parts;
pub mod patterns;
mod pool;
mod provisioning;
mod quota;
mod v1beta1;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::names::GROUP;
use crate::names::provider::Provider;
use crate::{autoscaling, overlays, provisioning as requests, v1, v1alpha1, v1alpha5, v1beta1 as beta, vertical};

/// All CRDs, in the order NodePool, NodeClaim, EC2NodeClass.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        versions(v1::NodePool::crd(), pool::schema(), beta::NodePool::crd(), v1beta1::pool()),
        versions(v1::NodeClaim::crd(), claim::schema(), beta::NodeClaim::crd(), v1beta1::claim()),
        versions(v1::EC2NodeClass::crd(), class::schema(), beta::EC2NodeClass::crd(), v1beta1::class()),
    ]
}

/// The CRDs of the alpha kinds, in the order Provisioner, Machine, AWSNodeTemplate: stored as they are written; the control
/// plane's `translator` keeps what they mean in v1 in step with them.
pub fn alpha_crds() -> Vec<CustomResourceDefinition> {
    vec![
        with_schema(v1alpha5::Provisioner::crd(), alpha::provisioner()),
        with_schema(v1alpha5::Machine::crd(), alpha::machine()),
        with_schema(v1alpha1::AWSNodeTemplate::crd(), alpha::node_template()),
    ]
}

/// File name (`<group>_<plural>.yaml`) and content of each CRD, that of NodeOverlay last and before it those of the alpha kinds.
///
/// # Errors
/// A CRD cannot be written as YAML, which would be a mistake of ours.
pub fn crd_files() -> Result<Vec<(String, String)>, serde_json::Error> {
    crds()
        .iter()
        .chain(&alpha_crds())
        .chain([&overlay_crd()])
        .map(|crd| Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml(crd)?)))
        .collect()
}

/// The CRDs that a provider's cluster has, as one stream of YAML documents: of EC2 all, of another the pools, the claims and its
/// own class; of each that of NodeOverlay.
///
/// # Errors
/// As [`crd_files`].
pub fn provider_crds_yaml(provider: Provider) -> Result<String, serde_json::Error> {
    let own = match provider {
        Provider::Ec2 => return crds_yaml(),
        Provider::Kwok => crate::kwok::crd()?,
    };
    let shared = crds().into_iter().filter(|crd| crd.spec.group == GROUP);
    shared.chain([overlay_crd(), own]).map(|crd| Ok(format!("---\n{}", yaml(&crd)?))).collect()
}

/// File name and content of the CRD of KWOKNodeClass, which no cluster on EC2 needs.
///
/// # Errors
/// As [`crd_files`].
pub fn kwok_crd_file() -> Result<(String, String), serde_json::Error> {
    let crd = crate::kwok::crd()?;
    Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml(&crd)?))
}

/// The CRD of CapacityBuffer: Cluster Autoscaler's kind, to be installed only where it is not there.
pub fn buffer_crd() -> CustomResourceDefinition {
    with_schema(autoscaling::CapacityBuffer::crd(), buffer::schema())
}

/// File name and content of the CRD of CapacityBuffer, which belongs to no chart of ours.
///
/// # Errors
/// As [`crd_files`].
pub fn buffer_crd_file() -> Result<(String, String), serde_json::Error> {
    let crd = buffer_crd();
    Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml(&crd)?))
}

/// The CRD of CapacityQuota: Cluster Autoscaler's kind, to be installed only where it is not there.
pub fn quota_crd() -> CustomResourceDefinition {
    with_schema(autoscaling::CapacityQuota::crd(), quota::schema())
}

/// File name and content of the CRD of CapacityQuota, which belongs to no chart of ours.
///
/// # Errors
/// As [`crd_files`].
pub fn quota_crd_file() -> Result<(String, String), serde_json::Error> {
    let crd = quota_crd();
    Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml(&crd)?))
}

/// The CRD of ProvisioningRequest: Cluster Autoscaler's kind, to be installed only where it is not there.
pub fn request_crd() -> CustomResourceDefinition {
    with_schema(requests::ProvisioningRequest::crd(), provisioning::schema())
}

/// File name and content of the CRD of ProvisioningRequest, which belongs to no chart of ours.
///
/// # Errors
/// As [`crd_files`].
pub fn request_crd_file() -> Result<(String, String), serde_json::Error> {
    let crd = request_crd();
    Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml(&crd)?))
}

/// A CRD of VerticalPodAutoscaler that takes all that is written, for the sandbox: clusters have the autoscaler's own.
pub fn vertical_crd() -> CustomResourceDefinition {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    with_schema(vertical::VerticalPodAutoscaler::crd(), schema)
}

/// The CRD of NodeOverlay, which is read where the feature gate NodeOverlay is open.
pub fn overlay_crd() -> CustomResourceDefinition {
    with_schema(overlays::NodeOverlay::crd(), overlay::schema())
}

/// All CRDs as one stream of YAML documents.
///
/// # Errors
/// As [`crd_files`].
pub fn crds_yaml() -> Result<String, serde_json::Error> {
    Ok(crd_files()?.into_iter().map(|(_, text)| format!("---\n{text}")).collect())
}

/// The OpenAPI schema of a kind of ours, `None` when `api_version` and `kind` are none of ours.
pub fn schema_of(api_version: &str, kind: &str) -> Option<Value> {
    let schema = match (api_version, kind) {
        ("karpenter.sh/v1", "NodePool") => pool::schema(),
        ("karpenter.sh/v1", "NodeClaim") => claim::schema(),
        ("karpenter.k8s.aws/v1", "EC2NodeClass") => class::schema(),
        ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass") => crate::kwok::schema(),
        ("karpenter.sh/v1beta1", "NodePool") => v1beta1::pool(),
        ("karpenter.sh/v1beta1", "NodeClaim") => v1beta1::claim(),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass") => v1beta1::class(),
        ("karpenter.sh/v1alpha5", "Provisioner") => alpha::provisioner(),
        ("karpenter.sh/v1alpha5", "Machine") => alpha::machine(),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") => alpha::node_template(),
        (overlays::API_VERSION, overlays::KIND) => overlay::schema(),
        (version, "CapacityQuota") if autoscaling::VERSIONS.contains(&version) => quota::schema(),
        (version, requests::KIND) if requests::VERSIONS.contains(&version) => provisioning::schema(),
        (version, "CapacityBuffer") if autoscaling::VERSIONS.contains(&version) => buffer::schema(),
        _ => return None,
    };
    Some(schema)
}

/// The CRD as YAML; keys sorted.
fn yaml(crd: &CustomResourceDefinition) -> Result<String, serde_json::Error> {
    use serde::ser::Error;
    let mut value = serde_json::to_value(crd)?;
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    serde_saphyr::to_string(&value).map_err(serde_json::Error::custom)
}

/// Adds the older version, which is not served, to the CRD of the stored one.
fn versions(
    stored: CustomResourceDefinition,
    schema: Value,
    older: CustomResourceDefinition,
    older_schema: Value,
) -> CustomResourceDefinition {
    let mut crd = with_schema(stored, schema);
    let older = with_schema(older, older_schema);
    crd.spec.versions.extend(older.spec.versions.into_iter().map(|version| CustomResourceDefinitionVersion {
        storage: false,
        served: false,
        ..version
    }));
    crd
}

/// Gives the CRD's only version its schema.
fn with_schema(mut crd: CustomResourceDefinition, schema: Value) -> CustomResourceDefinition {
    let props = serde_json::from_value(schema).ok();
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: props.clone() });
        if version.additional_printer_columns.as_ref().is_some_and(Vec::is_empty) {
            version.additional_printer_columns = None;
        }
    }
    crd
}

/// The root of an object's schema.
pub(crate) fn root(description: &str, spec: Value, status: Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        }
    })
}
