//! The kubelet block: older pools have it, v1 has it in the class. A conversion notes it on the pool; when pools and classes
//! are together, it moves.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde_json::Value;

use super::Converted;
use crate::hash::fnv;
use crate::{
    names::{AWS_GROUP, annotations},
    v1::{EC2NodeClass, Kubelet, NodePool},
};

/// Writes the block down on a pool, as Karpenter's webhook did.
pub(super) fn note(notes: &mut BTreeMap<String, String>, kubelet: &Kubelet) {
    if let Ok(text) = serde_json::to_string(&with_amounts_as_texts(kubelet)) {
        notes.insert(annotations::V1BETA1_KUBELET.into(), text);
    }
}

/// Older versions took whole numbers for amounts too; v1 takes texts alone.
fn with_amounts_as_texts(kubelet: &Kubelet) -> Kubelet {
    let mut kubelet = kubelet.clone();
    for field in ["kubeReserved", "systemReserved"] {
        let amounts = kubelet.0.get_mut(field).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(serde_json::Map::values_mut).filter(|amount| amount.is_number()) {
            *amount = Value::String(amount.to_string());
        }
    }
    kubelet
}

/// Takes alpha's containerRuntime away.
pub(super) fn without_runtime(mut kubelet: Kubelet, said: &mut Converted) -> Kubelet {
    if kubelet.0.remove("containerRuntime").is_some() {
        said.left_out.push("spec.kubeletConfiguration.containerRuntime: nodes run containerd".into());
        said.warnings.push("kubeletConfiguration.containerRuntime has no effect any more; it is left out".into());
    }
    kubelet
}

/// Longest name of a class: nodes carry it as a label's value.
const LONGEST_NAME: usize = super::MOST_OF_LABEL_VALUE;

/// The name of a copy of a class for a kubelet block, which rests on these two alone: whoever means the same block shares the
/// copy, and nothing that is said elsewhere changes its name. The next one is tried while a name is not free.
pub(super) fn copy_name(class: &str, block: &str, is_free: impl Fn(&str) -> bool) -> String {
    let named = |at: u64| {
        let number = at.to_string();
        // A zero after each text makes the texts' boundaries count.
        let of = fnv([class, block, &number].into_iter().flat_map(|part| part.bytes().chain([0])));
        let short: String = class.chars().take(LONGEST_NAME - 11).collect();
        format!("{}-{:010x}", short.trim_end_matches(['-', '.']), of & 0xff_ffff_ffff)
    };
    (0..).map(named).find(|name| is_free(name)).unwrap_or_default()
}

/// Moves the kubelet blocks that conversions noted on pools into the pools' classes. Where the pools of one class disagree,
/// each block gets a copy of the class, and its pools are pointed at it. It is named `<class>-<pool>`; where that name is
/// another's, or too long, by the block ([`copy_name`]).
pub fn settle_kubelets(pools: &mut [NodePool], classes: &mut Vec<EC2NodeClass>) {
    let mut noted: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
    for pool in pools.iter() {
        noted.entry(class_of(pool)).or_default().insert(note_of(pool));
    }
    // A class that a pool names and that is not here has its name all the same.
    let mut named: BTreeSet<String> = noted.keys().cloned().chain(classes.iter().map(ResourceExt::name_any)).collect();
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
            let of_block = |pool: &&mut NodePool| class_of(pool) == class && note_of(pool).as_ref() == Some(&text);
            let mut name = None;
            for pool in pools.iter_mut().filter(of_block) {
                let name = name.get_or_insert_with(|| free_name(&class, &text, &pool.name_any(), &named));
                pool.spec.template.spec.node_class_ref.name.clone_from(name);
            }
            named.extend(name.clone());
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

fn free_name(class: &str, block: &str, pool: &str, named: &BTreeSet<String>) -> String {
    let plain = format!("{class}-{pool}");
    let is_free = |name: &str| !named.contains(name);
    if plain.len() <= LONGEST_NAME && is_free(&plain) { plain } else { copy_name(class, block, is_free) }
}

/// Name of the pool's EC2NodeClass; empty for a class of another group.
pub(super) fn class_of(pool: &NodePool) -> String {
    let reference = &pool.spec.template.spec.node_class_ref;
    if reference.group == AWS_GROUP { reference.name.clone() } else { String::new() }
}

pub(super) fn note_of(pool: &NodePool) -> Option<String> {
    pool.annotations().get(annotations::V1BETA1_KUBELET).cloned()
}
