//! The kubelet block: older pools have it, v1 has it in the class. A conversion notes it on the pool; when pools and classes
//! are together, it moves.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use super::Converted;
use crate::{
    names::{AWS_GROUP, annotations},
    v1::{EC2NodeClass, Kubelet, NodePool},
};

/// Writes the block down on a pool, as Karpenter's webhook did.
pub(super) fn note(notes: &mut BTreeMap<String, String>, kubelet: &Kubelet) {
    if let Ok(text) = serde_json::to_string(kubelet) {
        notes.insert(annotations::V1BETA1_KUBELET.into(), text);
    }
}

/// Takes alpha's containerRuntime away.
pub(super) fn without_runtime(mut kubelet: Kubelet, said: &mut Converted) -> Kubelet {
    if kubelet.0.remove("containerRuntime").is_some() {
        said.left_out.push("spec.kubeletConfiguration.containerRuntime: nodes run containerd".into());
        said.warnings.push("kubeletConfiguration.containerRuntime has no effect any more; it is left out".into());
    }
    kubelet
}

/// Moves the kubelet blocks that conversions noted on pools into the pools' classes. Where the pools of one class disagree,
/// each block gets a copy of the class, named `<class>-<pool>`, and its pools are pointed at it.
pub fn settle_kubelets(pools: &mut [NodePool], classes: &mut Vec<EC2NodeClass>) {
    let mut noted: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
    for pool in pools.iter() {
        noted.entry(class_of(pool)).or_default().insert(note_of(pool));
    }
    for (class, notes) in noted {
        let Some(at) = classes.iter().position(|one| one.name_any() == class) else { continue };
        if notes.len() == 1 {
            if let Some(text) = notes.iter().next().and_then(Option::as_ref) {
                classes[at].spec.kubelet = serde_json::from_str(text).ok();
            }
            continue;
        }
        for text in notes.into_iter().flatten() {
            let mut copy = classes[at].clone();
            copy.spec.kubelet = serde_json::from_str(&text).ok();
            let mut name = None;
            for pool in pools.iter_mut().filter(|pool| class_of(pool) == class && note_of(pool).as_ref() == Some(&text))
            {
                let name = name.get_or_insert_with(|| format!("{class}-{}", pool.name_any())).clone();
                pool.spec.template.spec.node_class_ref.name = name;
            }
            copy.metadata.name = name;
            classes.push(copy);
        }
    }
    for pool in pools.iter_mut() {
        if classes.iter().any(|class| class.name_any() == class_of(pool)) {
            pool.metadata.annotations.as_mut().and_then(|notes| notes.remove(annotations::V1BETA1_KUBELET));
        }
    }
}

/// Name of the pool's EC2NodeClass; empty for a class of another group.
fn class_of(pool: &NodePool) -> String {
    let reference = &pool.spec.template.spec.node_class_ref;
    if reference.group == AWS_GROUP { reference.name.clone() } else { String::new() }
}

fn note_of(pool: &NodePool) -> Option<String> {
    pool.annotations().get(annotations::V1BETA1_KUBELET).cloned()
}
