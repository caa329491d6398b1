//! Meaning in v1 of all alpha objects of a live cluster together: the decisions of the actor `translator`, pure.
//!
//! ```text
//! Provisioners, AWSNodeTemplates ──► convert, one by one ──► one object a name ──► a copy of a class for each kubelet block
//!        └── one that cannot be converted: a problem of its own; what was made from it before stays as it was
//! ```

mod copies;
mod own_fields;
#[cfg(test)]
mod tests;
mod there;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

pub use own_fields::OwnFields;
pub use there::{TranslationStep, is_owned, next_class, next_pool};

use super::{ConversionContext, ConvertError, Converted, node_template, provisioner};
use crate::{
    names::GROUP,
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
    /// The object's name; alpha kinds have no namespace.
    pub fn name(&self) -> &str {
        match self {
            Self::Template(name) | Self::Provisioner(name) => name,
        }
    }

    /// Kind and name, as people call it.
    pub fn display_name(&self) -> String {
        match self {
            Self::Template(name) => format!("AWSNodeTemplate {name}"),
            Self::Provisioner(name) => format!("Provisioner {name}"),
        }
    }
}

/// The objects of v1 that an alpha object means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The classes: of a template its own, of a Provisioner its own or the copy of a template's for its kubelet block.
    pub classes: Vec<EC2NodeClass>,
    /// Copies of a template's class that Provisioners mean.
    pub copies: BTreeSet<String>,
    /// The pool of a Provisioner.
    pub pool: Option<NodePool>,
    /// Meanings of fields that it leaves out.
    pub defaults: Vec<String>,
    /// Fields without a counterpart.
    pub left_out: Vec<String>,
    /// Its own names for fields of v1.
    pub fields: OwnFields,
}

/// A reason for which an alpha object is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationProblem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// The field, the mistake in it, and the way to mend it.
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

    /// The name of the copy of a class for its kubelet block belongs to somebody else.
    pub fn copy_taken(name: &str, by: &str) -> Self {
        let message = format!(
            "spec.kubeletConfiguration: the copy of its class for it is called {name}, and the EC2NodeClass of that name is {by}; delete that EC2NodeClass"
        );
        Self { reason: "NameTaken", message }
    }

    /// The name of the class is another alpha object's.
    fn of_another(class: &str, owner: &Source) -> Self {
        let owner = owner.display_name();
        let message = format!(
            "metadata.name: EC2NodeClass {class} is made from {owner}, and is left as it is; rename this object, or delete {owner}"
        );
        Self { reason: "NameTaken", message }
    }
}

/// The translation of each alpha object, or the reason for which it has none. Objects that are being deleted mean nothing any
/// more and are left out; `unreadable` are the names of AWSNodeTemplates that are there and cannot be read.
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
        all.insert(source, converted.map(|converted| made(converted, old, OwnFields::of_template)));
    }
    for old in provisioners.into_iter().filter(|old| is_alive(*old)) {
        let source = Source::Provisioner(old.name_any());
        let made = provisioner_of(old, context, &all, &mut owners);
        all.insert(source, made);
    }
    lose_names(&mut all, &owners);
    copies::give(&mut all);
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
        // The older of two that make one class keeps it.
        let holder = owners.entry(class.name_any()).or_insert_with(|| own.clone());
        if own.1 < holder.1 {
            *holder = own;
        }
    }
    let fields = |class: Option<&EC2NodeClass>| match (class, &old.spec.provider_ref) {
        (None, Some(reference)) => OwnFields::of_reference(&reference.name, all),
        (class, _) => OwnFields::of_provider(class),
    };
    Ok(made(converted, old, fields))
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
            *made = Err(TranslationProblem::of_another(&name, &owner));
        }
    }
}

/// The translation of one object: the objects made of it, owned by it.
fn made<K: Resource<DynamicType = ()>>(
    converted: Converted,
    old: &K,
    fields: impl FnOnce(Option<&EC2NodeClass>) -> OwnFields,
) -> Translation {
    let owner = owner(old);
    let owned = |metadata: &mut ObjectMeta| {
        metadata.owner_references = Some(vec![owner.clone()]);
        own_metadata(metadata);
    };
    let (mut pool, mut class) = (converted.node_pool, converted.node_class);
    pool.iter_mut().for_each(|pool| owned(&mut pool.metadata));
    class.iter_mut().for_each(|class| owned(&mut class.metadata));
    Translation {
        fields: fields(class.as_ref()),
        classes: class.into_iter().collect(),
        copies: BTreeSet::new(),
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
