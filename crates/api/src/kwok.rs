//! KWOKNodeClass of `karpenter.kwok.sh/v1alpha1`, the class of Karpenter's own test provider. Inside, a class is known by the
//! record of an EC2NodeClass, whatever its provider: [`KWOKNodeClass::into_record`].

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crds::{self, parts};
use crate::names::provider::{ClassKind, Provider};
use crate::v1::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus, KubeDuration};

/// Class of nodes that kwok pretends to run. An object may have no `spec` at all, as in Karpenter's own examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KWOKNodeClass {
    /// Name, uid, annotations, finalizers.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Settings of its nodes.
    #[serde(default)]
    pub spec: KWOKNodeClassSpec,
    /// State, as the control plane writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<KWOKNodeClassStatus>,
}

/// Settings of nodes that kwok pretends to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassSpec {
    /// Time from the launch of a node until its Node is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_registration_delay: Option<KubeDuration>,
}

/// State of a KWOKNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

const KIND: &ClassKind = Provider::Kwok.class();

impl Resource for KWOKNodeClass {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.kind.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        KIND.group.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        KIND.version.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        KIND.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl KWOKNodeClass {
    /// The class as it is known inside: what only EC2 has is empty.
    pub fn into_record(self) -> EC2NodeClass {
        let status =
            self.status.map(|status| EC2NodeClassStatus { conditions: status.conditions, ..Default::default() });
        EC2NodeClass { metadata: self.metadata, spec: EC2NodeClassSpec::default(), status }
    }
}

/// The CRD of KWOKNodeClass.
///
/// # Errors
/// It is no CRD, which would be a mistake of ours.
pub fn crd() -> Result<CustomResourceDefinition, serde_json::Error> {
    let column = |name: &str, type_: &str, path: &str| json!({"name": name, "type": type_, "jsonPath": path});
    let version = json!({
        "name": KIND.version, "served": true, "storage": true, "subresources": {"status": {}},
        "additionalPrinterColumns": [
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        "schema": {"openAPIV3Schema": schema()},
    });
    let names = json!({"kind": KIND.kind, "plural": KIND.plural, "singular": "kwoknodeclass",
        "shortNames": ["kwoknc", "kwokncs"], "categories": ["karpenter"]});
    serde_json::from_value(json!({
        "metadata": {"name": format!("{}.{}", KIND.plural, KIND.group)},
        "spec": {"group": KIND.group, "names": names, "scope": "Cluster", "versions": [version]},
    }))
}

/// Schema of a KWOKNodeClass; no object needs a `spec`.
pub(crate) fn schema() -> Value {
    let delay = json!({
        "description": "Time from the launch of a node until its Node is created, such as 30s",
        "type": "string", "pattern": "^([0-9]+(s|m|h))+$", "maxLength": 32,
    });
    let spec = json!({"type": "object", "properties": {"nodeRegistrationDelay": delay}});
    let status = json!({"type": "object", "properties": {"conditions": parts::conditions(true)}});
    let mut root = crds::root("KWOKNodeClass says how a node of kwok is made", spec, status);
    root.as_object_mut().and_then(|root| root.remove("required"));
    root
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn record_of_a_class_keeps_its_name_and_conditions() {
        let class: KWOKNodeClass = serde_json::from_value(json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default", "uid": "u"},
            "spec": {"nodeRegistrationDelay": "1m30s"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2024-01-01T01:01:01Z"}]},
        }))
        .unwrap();
        assert_eq!(class.spec.node_registration_delay.as_ref().unwrap().get(), Duration::from_secs(90));
        let record = class.into_record();
        assert_eq!((record.metadata.name.as_deref(), record.metadata.uid.as_deref()), (Some("default"), Some("u")));
        assert_eq!(record.status.unwrap().conditions[0].type_, "Ready");
    }
}
