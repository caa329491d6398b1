//! Kubernetes types of karpenter.sh and karpenter.k8s.aws, their CRDs, conversions and the reading of manifests.
//!
//! - [`autoscaling`]: CapacityBuffer, CapacityQuota; [`provisioning`]: ProvisioningRequest; [`overlays`]: NodeOverlay; [`kwok`]: the node class of Karpenter's test provider.
//! - [`resource`]: what is read of `resource.k8s.io`, dynamic resource allocation.
//! - [`v1`] is what is stored; [`v1beta1`], [`v1alpha5`] and [`v1alpha1`] are converted to it by [`convert`].
//! - [`crds`]: the schemas, with their CEL rules, from which `deploy/crds` is written; [`schema`] judges objects by them.
//! - [`validation`]: rules of single fields that no schema can say; [`unimplemented`]: fields that nothing is done about.
//! - [`hash`]: a hash that never changes, for names and seeds.
//! - [`manifest`]: files of users, read with their line numbers; [`names`]: labels, annotations, taints, tags, conditions.

// Others read these docs: the types are what users write.
#![warn(missing_docs)]

pub mod autoscaling;
pub mod convert;
pub mod crds;
pub mod hash;
pub mod kwok;
pub mod manifest;
pub mod names;
pub mod overlays;
pub mod provisioning;
pub mod quantity;
pub mod resource;
pub mod scheduling;
pub mod schema;
pub mod unimplemented;
pub mod v1;
pub mod v1alpha1;
pub mod v1alpha5;
pub mod v1beta1;
pub mod validation;
pub mod vertical;
