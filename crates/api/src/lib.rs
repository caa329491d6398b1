//! Kubernetes types of karpenter.sh and karpenter.k8s.aws, their CRDs, conversions and the reading of manifests.

pub mod convert;
pub mod crds;
pub mod manifest;
pub mod names;
pub mod quantity;
pub mod schema;
pub mod unimplemented;
pub mod v1;
pub mod v1alpha1;
pub mod v1alpha5;
pub mod v1beta1;
pub mod validation;
