//! Volumes and namespaces among manifests, as a cluster would have them once their controllers have been at work.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::manifest::Manifest;
use dovetail_core::cluster_state::ClusterState;
use dovetail_core::volumes::EBS;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;

use super::admitted::Admitted;

/// The class of claims that name none where the manifests have no default one, as EKS clusters have it.
const ASSUMED_CLASS: &str = "gp2";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// Puts them into the state. A storage class that is not among the manifests is taken as EBS, made where the pod goes, and that
/// is said.
pub fn apply(state: &mut ClusterState, manifests: &[Manifest], pods: &[Admitted], warnings: &mut Vec<String>) {
    apply_namespaces(state, manifests);
    all::<LimitRange>(manifests, "LimitRange").iter().for_each(|range| {
        state.apply(range);
    });
    all::<RuntimeClass>(manifests, "RuntimeClass").iter().for_each(|class| {
        state.apply(class);
    });
    let classes: Vec<StorageClass> = all(manifests, "StorageClass");
    let volumes: Vec<PersistentVolume> = all(manifests, "PersistentVolume");
    classes.iter().for_each(|class| {
        state.apply(class);
    });
    volumes.iter().for_each(|volume| {
        state.apply(volume);
    });
    let is_default = |class: &&StorageClass| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.and_then(|own| own.get(IS_DEFAULT)).is_some_and(|value| value == "true")
    };
    let default = classes.iter().find(is_default).and_then(|class| class.metadata.name.clone());
    let known: BTreeSet<_> = classes.iter().filter_map(|class| class.metadata.name.clone()).collect();
    let mut assumed = BTreeSet::new();
    for mut claim in claims(manifests, pods) {
        let meta = &mut claim.metadata;
        let spec = claim.spec.get_or_insert_default();
        if spec.volume_name.is_none() {
            spec.volume_name = reserved_for(&volumes, meta.namespace.as_ref(), meta.name.as_ref());
        }
        if spec.volume_name.is_some() {
            meta.annotations.get_or_insert_default().insert(BOUND.to_owned(), "yes".to_owned());
        } else if spec.storage_class_name.as_deref() != Some("") {
            let class = spec.storage_class_name.take().or_else(|| default.clone());
            let class = class.unwrap_or_else(|| ASSUMED_CLASS.to_owned());
            if !known.contains(&class) {
                assumed.insert(class.clone());
            }
            spec.storage_class_name = Some(class);
        }
        state.apply(&claim);
    }
    for name in assumed {
        state.apply(&ebs_class(&name));
        warnings.push(format!(
            "StorageClass {name} is not among the manifests; taken as EBS volumes, made where their pods go"
        ));
    }
}

/// The namespaces written; with them those that are only used, so that none is missing once any is known.
fn apply_namespaces(state: &mut ClusterState, manifests: &[Manifest]) {
    let written: Vec<Namespace> = all(manifests, "Namespace");
    if written.is_empty() {
        return;
    }
    for used in manifests.iter().filter_map(|manifest| manifest.namespace.clone()) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(used);
        state.apply(&namespace);
    }
    written.iter().for_each(|namespace| {
        state.apply(namespace);
    });
}

/// The claims written, those that StatefulSets would make, and those of generic ephemeral volumes, which come with their
/// pods (Kubernetes, "Ephemeral Volumes").
fn claims(manifests: &[Manifest], pods: &[Admitted]) -> Vec<PersistentVolumeClaim> {
    let mut found: BTreeMap<(String, String), PersistentVolumeClaim> = BTreeMap::new();
    let mut templates: BTreeMap<usize, Vec<PersistentVolumeClaim>> = BTreeMap::new();
    for (at, manifest) in manifests.iter().enumerate().filter(|(_, one)| one.kind == "StatefulSet") {
        let set: Option<StatefulSet> = serde_json::from_value(manifest.object.clone()).ok();
        let own = set.and_then(|set| set.spec).and_then(|spec| spec.volume_claim_templates).unwrap_or_default();
        templates.insert(at, own);
    }
    for admitted in pods {
        let meta = &admitted.pod.metadata;
        let (pod, namespace) = (meta.name.clone().unwrap_or_default(), meta.namespace.clone().unwrap_or_default());
        let mut put = |name: String, mut claim: PersistentVolumeClaim| {
            (claim.metadata.name, claim.metadata.namespace) = (Some(name.clone()), Some(namespace.clone()));
            found.insert((namespace.clone(), name), claim);
        };
        for template in templates.get(&admitted.manifest).into_iter().flatten() {
            let stem = template.metadata.name.clone().unwrap_or_default();
            put(format!("{stem}-{pod}"), template.clone());
        }
        let volumes = admitted.pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            let Some(template) = volume.ephemeral.as_ref().and_then(|own| own.volume_claim_template.as_ref()) else {
                continue;
            };
            let spec = Some(template.spec.clone());
            put(format!("{pod}-{}", volume.name), PersistentVolumeClaim { spec, ..PersistentVolumeClaim::default() });
        }
    }
    for claim in all::<PersistentVolumeClaim>(manifests, "PersistentVolumeClaim") {
        let meta = &claim.metadata;
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        found.insert(key, claim);
    }
    found.into_values().collect()
}

/// The volume that was made for a claim.
fn reserved_for(volumes: &[PersistentVolume], namespace: Option<&String>, name: Option<&String>) -> Option<String> {
    let names = |volume: &&PersistentVolume| {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        reference.is_some_and(|reference| reference.namespace.as_ref() == namespace && reference.name.as_ref() == name)
    };
    volumes.iter().find(names).and_then(|volume| volume.metadata.name.clone())
}

fn ebs_class(name: &str) -> StorageClass {
    let mut class = StorageClass {
        provisioner: EBS.to_owned(),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..StorageClass::default()
    };
    class.metadata.name = Some(name.to_owned());
    class
}

/// The manifests of a kind, which were read and checked as that before, with their namespace.
fn all<K: DeserializeOwned>(manifests: &[Manifest], kind: &str) -> Vec<K> {
    let read = |manifest: &Manifest| {
        let mut object = manifest.object.clone();
        if let Some(namespace) = &manifest.namespace {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        serde_json::from_value(object).ok()
    };
    manifests.iter().filter(|manifest| manifest.kind == kind).filter_map(read).collect()
}
