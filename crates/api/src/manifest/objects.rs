//! Manifests sorted by what they are for.

use super::Manifest;
use crate::{
    convert::settle_kubelets,
    v1::{EC2NodeClass, NodeClaim, NodePool},
};

/// Objects of a set of files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Pools, older ones converted.
    pub node_pools: Vec<NodePool>,
    /// Classes, older ones and those of inline providers converted; kubelet blocks of older pools are in them.
    pub node_classes: Vec<EC2NodeClass>,
    /// Claims.
    pub node_claims: Vec<NodeClaim>,
    /// Pods, and what makes pods.
    pub workloads: Vec<Manifest>,
    /// Everything else, in the order of the files; kinds that nobody here knows are left out.
    pub others: Vec<Manifest>,
    /// Warnings for the user, with file and line.
    pub warnings: Vec<String>,
}

/// Kinds that are pods or make them.
const WORKLOADS: [&str; 8] =
    ["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"];

impl Objects {
    /// Sorts manifests; the order of the files is kept.
    pub fn from_manifests(manifests: &[Manifest]) -> Self {
        let mut objects = Self::default();
        for manifest in manifests.iter().filter(|manifest| !manifest.foreign) {
            if let Some(v1) = &manifest.v1 {
                objects.node_pools.extend(v1.node_pool.clone());
                objects.node_classes.extend(v1.node_class.clone());
                objects.node_claims.extend(v1.node_claim.clone());
                let with_place = |warning| format!("{}:{}: {}: {warning}", manifest.file, manifest.line, manifest.name);
                objects.warnings.extend(v1.warnings.iter().map(with_place));
            } else if WORKLOADS.contains(&manifest.kind.as_str()) {
                objects.workloads.push(manifest.clone());
            } else {
                objects.others.push(manifest.clone());
            }
        }
        objects
    }
}

/// Moves kubelet blocks of older pools into their classes; a copy of a class that this takes belongs to the pool's manifest.
pub(super) fn settle(manifests: &mut [Manifest]) {
    let converted = |manifest: &Manifest| manifest.v1.clone().unwrap_or_default();
    let mut pools: Vec<NodePool> = manifests.iter().filter_map(|manifest| converted(manifest).node_pool).collect();
    let mut classes: Vec<EC2NodeClass> =
        manifests.iter().filter_map(|manifest| converted(manifest).node_class).collect();
    settle_kubelets(&mut pools, &mut classes);
    let (mut pools, mut classes) = (pools.into_iter(), classes.into_iter());
    for v1 in manifests.iter_mut().filter_map(|manifest| manifest.v1.as_mut()) {
        if let Some(pool) = &mut v1.node_pool {
            *pool = pools.next().unwrap_or_else(|| pool.clone());
        }
        if let Some(class) = &mut v1.node_class {
            *class = classes.next().unwrap_or_else(|| class.clone());
        }
    }
    for copy in classes {
        let name = copy.metadata.name.clone().unwrap_or_default();
        let of_pool = manifests.iter_mut().filter_map(|manifest| manifest.v1.as_mut()).find(|v1| {
            v1.node_class.is_none()
                && v1.node_pool.as_ref().is_some_and(|pool| pool.spec.template.spec.node_class_ref.name == name)
        });
        if let Some(v1) = of_pool {
            v1.node_class = Some(copy);
        }
    }
}
