//! Schemas and types hold each other: what a schema admits, its type reads and writes again without loss; what a type has,
//! its schema has. The cases are generated from the schemas themselves, every field to its edge and beyond.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cases;
mod edges;
mod fields;
mod recorder;

use dovetail_api::{v1, v1alpha1, v1alpha5, v1beta1};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Reads an object as its type and writes it again.
pub fn through_type(api_version: &str, kind: &str, object: &Value) -> Result<Value, String> {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
        let read: T = serde_json::from_value(object.clone()).map_err(|why| why.to_string())?;
        serde_json::to_value(read).map_err(|why| why.to_string())
    }
    match (api_version, kind) {
        ("karpenter.sh/v1", "NodePool") => through::<v1::NodePool>(object),
        ("karpenter.sh/v1", "NodeClaim") => through::<v1::NodeClaim>(object),
        ("karpenter.k8s.aws/v1", _) => through::<v1::EC2NodeClass>(object),
        ("karpenter.sh/v1beta1", "NodePool") => through::<v1beta1::NodePool>(object),
        ("karpenter.sh/v1beta1", "NodeClaim") => through::<v1beta1::NodeClaim>(object),
        ("karpenter.k8s.aws/v1beta1", _) => through::<v1beta1::EC2NodeClass>(object),
        ("karpenter.sh/v1alpha5", "Machine") => through::<v1alpha5::Machine>(object),
        ("karpenter.sh/v1alpha5", _) => through::<v1alpha5::Provisioner>(object),
        ("karpenter.k8s.aws/v1alpha1", _) => through::<v1alpha1::AWSNodeTemplate>(object),
        _ => Err(format!("this test knows no type of {api_version} {kind}")),
    }
}
