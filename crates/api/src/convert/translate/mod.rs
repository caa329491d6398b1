//! What a live cluster's alpha objects mean together in v1: the decisions of the actor `translator`, pure.
//!
//! ```text
//! Provisioners, AWSNodeTemplates ──► convert, one by one ──► kubelet blocks into classes ──► one object a name
//!        └── one that cannot be converted: a problem of its own; what was made from it before stays as it was
//! ```

#[cfg(test)]
mod tests;
mod there;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

pub use there::{TranslationStep, is_owned, next_class, next_pool};

use super::{ConversionContext, ConvertError, Converted, node_template, provisioner, settle_kubelets};
use crate::{
    names::{GROUP, annotations},
    v1::{EC2NodeClass, NodePool},
    v1alpha1::AWSNodeTemplate,
    v1alpha5::Provisioner,
};

/// An alpha object: templates come before Provisioners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An AWSNodeTemplate, by name.
    Template(String),
    /// A Provisioner, by name.
    Provisioner(String),
}

impl Source {
    /// Kind and name, as people call it.
    pub fn shown(&self) -> String {
        match self {
            Self::Template(name) => format!("AWSNodeTemplate {name}"),
            Self::Provisioner(name) => format!("Provisioner {name}"),
        }
    }
}

/// What an alpha object means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The classes, of a template one; of a Provisioner its own, and copies for its kubelet block.
    pub classes: Vec<EC2NodeClass>,
    /// The pool of a Provisioner.
    pub pool: Option<NodePool>,
    /// What it does not say, and what that means.
    pub defaults: Vec<String>,
    /// Fields without a counterpart.
    pub left_out: Vec<String>,
}

/// Why an alpha object is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationProblem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Which field, what is wrong, and what to do.
    pub message: String,
}

impl TranslationProblem {
    /// Something in the object has no meaning in v1.
    fn invalid(error: &ConvertError) -> Self {
        Self { reason: "Invalid", message: error.to_string() }
    }

    /// An object of that name belongs to somebody else.
    pub fn taken(kind: &str, name: &str, by: &str) -> Self {
        let message = format!(
            "metadata.name: {kind} {name} is {by}, and is left as it is; rename one of the two, or delete the {kind}"
        );
        Self { reason: "NameTaken", message }
    }
}

/// What each alpha object means, or why it means nothing. Objects that are being deleted mean nothing any more and are left
/// out; `unreadable` are the names of AWSNodeTemplates that are there and cannot be read.
pub fn translate<'a>(
    templates: impl IntoIterator<Item = &'a AWSNodeTemplate>,
    provisioners: impl IntoIterator<Item = &'a Provisioner>,
    unreadable: &BTreeSet<&str>,
    context: &ConversionContext,
) -> BTreeMap<Source, Result<Translation, TranslationProblem>> {
    let problem = || TranslationProblem { reason: "Unreadable", message: "it cannot be read".to_owned() };
    let unread = |name: &&str| (Source::Template((*name).to_owned()), Err(problem()));
    let mut all: BTreeMap<Source, Result<Translation, TranslationProblem>> = unreadable.iter().map(unread).collect();
    let mut owners: BTreeMap<String, (Source, String)> = BTreeMap::new();
    for old in templates.into_iter().filter(|old| is_alive(*old)) {
        let source = Source::Template(old.name_any());
        let converted = node_template(old, context).map_err(|error| TranslationProblem::invalid(&error));
        if converted.is_ok() {
            owners.insert(old.name_any(), (source.clone(), since(old)));
        }
        all.insert(source, converted.map(|converted| made(converted, old)));
    }
    for old in provisioners.into_iter().filter(|old| is_alive(*old)) {
        let source = Source::Provisioner(old.name_any());
        let made = provisioner_of(old, context, &all, &mut owners);
        all.insert(source, made);
    }
    lose_names(&mut all, &owners);
    settle(&mut all);
    all
}

fn is_alive<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_none()
}

fn since<K: Resource>(object: &K) -> String {
    object.meta().creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default()
}

fn provisioner_of(
    old: &Provisioner,
    context: &ConversionContext,
    all: &BTreeMap<Source, Result<Translation, TranslationProblem>>,
    owners: &mut BTreeMap<String, (Source, String)>,
) -> Result<Translation, TranslationProblem> {
    let converted = provisioner(old, context).map_err(|error| TranslationProblem::invalid(&error))?;
    let template = old.spec.provider_ref.as_ref().map(|reference| reference.name.clone());
    // Its pool would change for what is wrong with another object: it stays as it was.
    if let Some(name) = template
        && matches!(all.get(&Source::Template(name.clone())), Some(Err(_)))
    {
        let message = format!("spec.providerRef: AWSNodeTemplate {name} is not translated; its conditions say why");
        return Err(TranslationProblem { reason: "TemplateNotTranslated", message });
    }
    if let Some(class) = &converted.node_class {
        let own = (Source::Provisioner(old.name_any()), since(old));
        // Of two that make one class the older keeps it.
        let holder = owners.entry(class.name_any()).or_insert_with(|| own.clone());
        if own.1 < holder.1 {
            *holder = own;
        }
    }
    Ok(made(converted, old))
}

/// Those whose class is another's are not translated.
fn lose_names(
    all: &mut BTreeMap<Source, Result<Translation, TranslationProblem>>,
    owners: &BTreeMap<String, (Source, String)>,
) {
    for (source, made) in all.iter_mut() {
        let Ok(own) = made else { continue };
        let other = own.classes.iter().find_map(|class| {
            let (owner, _) = owners.get(&class.name_any())?;
            (owner != source).then(|| (class.name_any(), owner.clone()))
        });
        if let Some((name, owner)) = other {
            *made = Err(TranslationProblem::taken("EC2NodeClass", &name, &format!("made from {}", owner.shown())));
        }
    }
}

/// Moves kubelet blocks into the classes, as [`settle_kubelets`] does for manifests; a copy of a class belongs to the
/// Provisioner that it is made for.
fn settle(all: &mut BTreeMap<Source, Result<Translation, TranslationProblem>>) {
    let made = || all.values().filter_map(|made| made.as_ref().ok());
    let mut pools: Vec<NodePool> = made().filter_map(|made| made.pool.clone()).collect();
    let mut classes: Vec<EC2NodeClass> = made().flat_map(|made| made.classes.clone()).collect();
    settle_kubelets(&mut pools, &mut classes);
    let mut classes: BTreeMap<String, EC2NodeClass> =
        classes.into_iter().rev().map(|class| (class.name_any(), class)).collect();
    let mut pools: BTreeMap<String, NodePool> = pools.into_iter().map(|pool| (pool.name_any(), pool)).collect();
    for made in all.values_mut().filter_map(|made| made.as_mut().ok()) {
        for class in &mut made.classes {
            *class = classes.remove(&class.name_any()).unwrap_or_else(|| class.clone());
        }
    }
    for one in all.values_mut() {
        let Ok(made) = one else { continue };
        let Some(pool) = made.pool.as_mut() else { continue };
        let said = pool.spec.template.spec.node_class_ref.name.clone();
        *pool = pools.remove(&pool.name_any()).unwrap_or_else(|| pool.clone());
        let class = pool.spec.template.spec.node_class_ref.name.clone();
        match classes.remove(&class).filter(|_| class != said) {
            Some(mut copy) => {
                copy.metadata.owner_references.clone_from(&pool.metadata.owner_references);
                made.classes.push(copy);
            }
            None if class != said => {
                *one = Err(TranslationProblem::taken("EC2NodeClass", &class, "made from another object"));
                continue;
            }
            None => {}
        }
        if pool.annotations().contains_key(annotations::V1BETA1_KUBELET) {
            made.left_out.push(format!("spec.kubeletConfiguration: belongs into EC2NodeClass {class}, spec.kubelet"));
        }
    }
}

/// What is made of one object, owned by it.
fn made<K: Resource<DynamicType = ()>>(converted: Converted, old: &K) -> Translation {
    let owner = owner(old);
    let owned = |metadata: &mut ObjectMeta| {
        metadata.owner_references = Some(vec![owner.clone()]);
        own_metadata(metadata);
    };
    let (mut pool, mut class) = (converted.node_pool, converted.node_class);
    pool.iter_mut().for_each(|pool| owned(&mut pool.metadata));
    class.iter_mut().for_each(|class| owned(&mut class.metadata));
    Translation {
        classes: class.into_iter().collect(),
        pool,
        defaults: converted.defaults,
        left_out: converted.left_out,
    }
}

/// The owner's labels and foreign annotations are about the owner: what a delivery tool has marked would be taken for one of
/// its own objects, and removed.
fn own_metadata(metadata: &mut ObjectMeta) {
    metadata.labels = None;
    if let Some(notes) = &mut metadata.annotations {
        notes.retain(|key, _| {
            let domain = key.split('/').next().unwrap_or_default();
            domain == crate::names::OWN_DOMAIN || domain.ends_with(GROUP) || domain.ends_with(crate::names::AWS_GROUP)
        });
    }
}

/// The reference to an alpha object as an owner. It does not block: the owner's end waits for nobody.
fn owner<K: Resource<DynamicType = ()>>(old: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into(),
        kind: K::kind(&()).into(),
        name: old.name_any(),
        uid: old.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}
