//! Older versions to v1 (aws spec 10.1 to 10.5). A conversion writes every value out that the older version meant, so that
//! v1's defaults never change the meaning.
//!
//! ```
//! use dovetail_api::{convert, v1::ConsolidationPolicy, v1alpha5::{Provisioner, ProvisionerSpec}};
//! let old = Provisioner::new("default", ProvisionerSpec { ttl_seconds_after_empty: Some(30), ..Default::default() });
//! let converted = convert::provisioner(&old, &convert::ConversionContext::new("demo"))?;
//! let pool = converted.node_pool.ok_or("a pool")?;
//! assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmpty);
//! assert_eq!(converted.node_class.ok_or("a class")?.spec.role.as_deref(), Some("KarpenterNodeRole-demo"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alpha;
mod beta;
mod family;
mod kubelet;
mod machine;
mod selector;
mod template;
#[cfg(test)]
mod tests;
pub mod translate;
pub mod webhook;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

pub(crate) use alpha::is_gone;
pub use alpha::provisioner;
pub use beta::{node_claim, node_class, node_pool};
pub use kubelet::settle_kubelets;
pub use machine::machine;
pub use template::node_template;

use crate::{
    names::{annotations, tags},
    schema::FieldPath,
    v1,
};

/// Facts of the cluster that a conversion depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversionContext {
    /// Name of the cluster: what discovery tags and the node role are called by.
    pub cluster_name: String,
    /// Minor version of Kubernetes 1.x; AL2 images end at 1.32. `None` when not known.
    pub kubernetes_minor: Option<u32>,
    /// The instance profile of nodes when an alpha object names none (setting `DEFAULT_INSTANCE_PROFILE`); `None` means the
    /// role [`ConversionContext::node_role`].
    pub default_instance_profile: Option<String>,
    /// True if a subnet has the tag `kubernetes.io/cluster/<name>`: an alpha object without selectors means that tag then.
    pub cluster_tagged: bool,
}

impl ConversionContext {
    /// A context without a known version of Kubernetes.
    pub fn new(cluster_name: impl Into<String>) -> Self {
        Self { cluster_name: cluster_name.into(), ..Self::default() }
    }

    /// The role of nodes when none is named.
    pub fn node_role(&self) -> String {
        format!("KarpenterNodeRole-{}", self.cluster_name)
    }

    /// The tags by which the cluster's subnets and security groups are found when no selector is named.
    fn discovery(&self) -> std::collections::BTreeMap<String, String> {
        if self.cluster_tagged {
            return [(tags::owned_by(&self.cluster_name), "*".to_owned())].into();
        }
        [(tags::DISCOVERY.to_string(), self.cluster_name.clone())].into()
    }
}

/// An older object's meaning in v1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// The pool, of a Provisioner or an older NodePool.
    pub node_pool: Option<v1::NodePool>,
    /// The class: of an AWSNodeTemplate or an older EC2NodeClass, or of a Provisioner that references none.
    pub node_class: Option<v1::EC2NodeClass>,
    /// The claim, of an older NodeClaim.
    pub node_claim: Option<v1::NodeClaim>,
    /// Warnings for the user: fields that mean nothing any more, choices made for them.
    pub warnings: Vec<String>,
    /// Meanings of fields that an alpha object leaves out, as `spec.requirements: kubernetes.io/os In [linux]`.
    pub defaults: Vec<String>,
    /// Fields of the older object that have no counterpart, each with what is so instead.
    pub left_out: Vec<String>,
}

/// The Provisioner that a pool stands for, by its annotation `dovetail.dev/converted-from`: its nodes have the label
/// `karpenter.sh/provisioner-name` as well, which pods of that time select by. `None` for other pools, and where the name is no
/// label's value.
///
/// ```
/// use dovetail_api::{convert, v1alpha5::{Provisioner, ProvisionerSpec}};
/// let converted = convert::provisioner(&Provisioner::new("blue", ProvisionerSpec::default()), &convert::ConversionContext::new("demo"))?;
/// assert_eq!(convert::provisioner_of(&converted.node_pool.ok_or("a pool")?), Some("blue"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn provisioner_of(pool: &v1::NodePool) -> Option<&str> {
    let from = pool.metadata.annotations.as_ref()?.get(annotations::CONVERTED_FROM)?;
    let name = from.strip_prefix("karpenter.sh/v1alpha5/Provisioner/")?;
    (!name.is_empty() && name.len() <= MOST_OF_LABEL_VALUE).then_some(name)
}

/// Longest value of a label.
const MOST_OF_LABEL_VALUE: usize = 63;

/// A field for which an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {what} (allowed: {allowed})")]
pub struct ConvertError {
    /// Path of the field in the object.
    pub path: FieldPath,
    /// A sentence that says what is wrong.
    pub what: String,
    /// Values that would be right.
    pub allowed: String,
}

impl ConvertError {
    fn new(path: &[&str], what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { path: FieldPath::from_fields(path), what: what.into(), allowed: allowed.into() }
    }
}

/// Converts any object of Karpenter's groups, of whichever version; one of v1 is only read. `None` when the object is of
/// another kind.
///
/// # Errors
/// The object is not what its schema says, or something in it has no meaning in v1 (`launchTemplate`).
pub fn to_v1(object: &Value, context: &ConversionContext) -> Option<Result<Converted, ConvertError>> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let converted = match (text("apiVersion"), text("kind")) {
        ("karpenter.sh/v1alpha5", "Provisioner") => read_typed(object).and_then(|old| provisioner(&old, context)),
        ("karpenter.sh/v1alpha5", "Machine") => read_typed(object).map(|old| machine(&old)),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") => {
            read_typed(object).and_then(|old| node_template(&old, context))
        }
        ("karpenter.sh/v1beta1", "NodePool") => read_typed(object).and_then(|old| node_pool(&old)),
        ("karpenter.sh/v1beta1", "NodeClaim") => read_typed(object).map(|old| node_claim(&old)),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass") => read_typed(object).map(|old| node_class(&old, context)),
        ("karpenter.sh/v1", "NodePool") => {
            read_typed(object).map(|pool| Converted { node_pool: Some(pool), ..Converted::default() })
        }
        ("karpenter.sh/v1", "NodeClaim") => {
            read_typed(object).map(|claim| Converted { node_claim: Some(claim), ..Converted::default() })
        }
        ("karpenter.k8s.aws/v1", "EC2NodeClass") => {
            read_typed(object).map(|class| Converted { node_class: Some(class), ..Converted::default() })
        }
        _ => return None,
    };
    Some(converted)
}

/// Reads the typed form; null fields count as not given.
fn read_typed<T: DeserializeOwned>(object: &Value) -> Result<T, ConvertError> {
    let mut object = object.clone();
    drop_nulls(&mut object);
    serde_json::from_value(object).map_err(|error| ConvertError {
        path: FieldPath::root(),
        what: error.to_string(),
        allowed: "what the schema of the kind says".into(),
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, inner| !inner.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Metadata of a converted object: name, labels and annotations stay, what belongs to the older one goes, and where it came
/// from is written down.
fn metadata<T: Resource<DynamicType = ()>>(old: &T) -> ObjectMeta {
    let meta = old.meta();
    let mut kept = meta.annotations.clone().unwrap_or_default();
    for gone in [
        "kubectl.kubernetes.io/last-applied-configuration",
        annotations::PROVISIONER_HASH,
        annotations::NODE_TEMPLATE_HASH,
        annotations::NODE_POOL_HASH,
        annotations::NODE_POOL_HASH_VERSION,
        annotations::NODE_CLASS_HASH,
        annotations::NODE_CLASS_HASH_VERSION,
        annotations::COMPUTED_HASH,
    ] {
        kept.remove(gone);
    }
    let name = meta.name.clone().unwrap_or_default();
    kept.insert(annotations::CONVERTED_FROM.into(), format!("{}/{}/{name}", T::api_version(&()), T::kind(&())));
    ObjectMeta {
        name: meta.name.clone(),
        labels: meta.labels.clone(),
        annotations: Some(kept),
        ..ObjectMeta::default()
    }
}
