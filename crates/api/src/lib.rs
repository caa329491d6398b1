//! Kubernetes types of karpenter.sh and karpenter.k8s.aws, their CRDs, conversions and the reading of manifests.

pub mod names;
pub mod v1;
