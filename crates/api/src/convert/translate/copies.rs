//! Copies of templates' classes for kubelet blocks: v1 has the block in the class, the alpha kinds in the Provisioner.
//!
//! The class of a template itself has no block, and each block has a copy that is named by template and block. So Provisioners
//! of one mind share a copy, and nothing that one of them says, nor that it comes or goes, changes the class of another's pool.
//! A copy belongs to the template, as the class does that it is a copy of.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use super::{Source, Translation, TranslationProblem};
use crate::{
    convert::kubelet::{class_of, copy_name, note_of},
    names::annotations,
    v1::{EC2NodeClass, Kubelet},
};

/// Points pools that have a kubelet block at copies of their templates' classes.
pub(super) fn give(all: &mut BTreeMap<Source, Result<Translation, TranslationProblem>>) {
    // Each alpha object may make a class of its name, also one that is refused at present.
    let mut named: BTreeSet<String> = all.keys().map(|source| source.name().to_owned()).collect();
    let mut copies: BTreeMap<(String, String), EC2NodeClass> = BTreeMap::new();
    let templates: BTreeMap<String, EC2NodeClass> = all
        .iter()
        .filter_map(|(source, made)| match (source, made) {
            (Source::Template(name), Ok(made)) => Some((name.clone(), made.classes.first()?.clone())),
            _ => None,
        })
        .collect();
    for made in all.values_mut().filter_map(|made| made.as_mut().ok()) {
        let Some(pool) = made.pool.as_mut() else { continue };
        let Some(block) = note_of(pool) else { continue };
        let class = class_of(pool);
        let Some(template) = templates.get(&class) else {
            made.left_out.push(format!("spec.kubeletConfiguration: belongs in EC2NodeClass {class}, spec.kubelet"));
            continue;
        };
        pool.metadata.annotations.as_mut().and_then(|notes| notes.remove(annotations::V1BETA1_KUBELET));
        let kubelet: Kubelet = serde_json::from_str(&block).unwrap_or_default();
        if kubelet.0.is_empty() {
            continue;
        }
        let copy = copies.entry((class.clone(), block.clone())).or_insert_with(|| {
            let mut copy = template.clone();
            let name = copy_name(&class, &block, |name| !named.contains(name));
            named.insert(name.clone());
            copy.metadata.name = Some(name);
            copy.spec.kubelet = Some(kubelet);
            copy
        });
        pool.spec.template.spec.node_class_ref.name = copy.name_any();
        made.classes.push(copy.clone());
    }
    for ((template, _), copy) in &copies {
        if let Some(Ok(made)) = all.get_mut(&Source::Template(template.clone())) {
            made.copies.insert(copy.name_any());
        }
    }
}
