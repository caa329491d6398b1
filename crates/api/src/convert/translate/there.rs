//! The next step for an object that an alpha object means, given the object of its name in the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::v1::{EC2NodeClass, NodePool};

/// A step towards the object that an alpha object means.
#[derive(Clone, Debug, PartialEq)]
pub enum TranslationStep<K> {
    /// Create it.
    Create(K),
    /// Write it as this, on the version that was read.
    Replace(K),
    /// Nothing: it is as it should be.
    Keep,
    /// Nothing: somebody else made it.
    Taken(String),
    /// Nothing yet: what stands there is going.
    Wait,
}

impl<K> TranslationStep<K> {
    /// True if something is to be written.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Replace(_))
    }
}

/// The next step for a pool.
pub fn next_pool(wanted: &NodePool, there: Option<&NodePool>) -> TranslationStep<NodePool> {
    let Some(there) = there else { return TranslationStep::Create(wanted.clone()) };
    let mut written = there.clone();
    written.spec = wanted.spec.clone();
    next(&wanted.metadata, &there.metadata, written.spec == there.spec, |metadata| NodePool {
        metadata,
        ..written.clone()
    })
}

/// The next step for a class.
pub fn next_class(wanted: &EC2NodeClass, there: Option<&EC2NodeClass>) -> TranslationStep<EC2NodeClass> {
    let Some(there) = there else { return TranslationStep::Create(wanted.clone()) };
    let mut written = there.clone();
    written.spec = wanted.spec.clone();
    next(&wanted.metadata, &there.metadata, written.spec == there.spec, |metadata| EC2NodeClass {
        metadata,
        ..written.clone()
    })
}

fn next<K>(
    wanted: &ObjectMeta,
    there: &ObjectMeta,
    same: bool,
    write: impl FnOnce(ObjectMeta) -> K,
) -> TranslationStep<K> {
    let owner = wanted.owner_references.iter().flatten().next();
    if !owner.is_some_and(|owner| is_owned(there, &owner.uid)) {
        // The owner may be an earlier one of that name, whose objects the API server's garbage collection takes.
        let earlier = owner.is_some_and(|owner| {
            let mut others = there.owner_references.iter().flatten();
            others.any(|other| other.kind == owner.kind && other.name == owner.name)
        });
        return if earlier || there.deletion_timestamp.is_some() {
            TranslationStep::Wait
        } else {
            TranslationStep::Taken(whose(there))
        };
    }
    if there.deletion_timestamp.is_some() {
        return TranslationStep::Wait;
    }
    let mut metadata = there.clone();
    let notes = metadata.annotations.get_or_insert_default();
    notes.extend(wanted.annotations.clone().unwrap_or_default());
    if same && there.annotations.as_ref() == Some(notes) {
        TranslationStep::Keep
    } else {
        TranslationStep::Replace(write(metadata))
    }
}

/// True if the object with that uid owns it.
pub fn is_owned(metadata: &ObjectMeta, uid: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

/// The maker of an object, as far as it says.
fn whose(metadata: &ObjectMeta) -> String {
    match metadata.owner_references.iter().flatten().next() {
        Some(owner) => format!("made from {} {}", owner.kind, owner.name),
        None => "there and was not made from this object".to_owned(),
    }
}
