//! The one way in for what comes from the API server. Every object of every list and watch, and of every answer, is read by
//! itself: one that cannot be read never costs the others (docs/unreadable.md).
//!
//! ```text
//! text of one object ──managedFields cut off──► its type ──────────────────────────────► Read::Object
//!                                                  └─ refused ──► mended ──► its type ─► Read::Object
//!                                                                               └──────► Read::Unreadable: metadata, why
//! ```
//!
//! An object is cut out of its list or watch as raw text, which costs no recursion however deep it is. `managedFields`, which
//! nobody here looks at and any user may write, is cut off before anything is parsed. What its type refuses is mended where
//! Kubernetes means one thing by it ([`mend`]); what is still refused is reported as [`Unreadable`].

mod api;
mod mend;
mod metadata;
pub mod report;
mod served;
#[cfg(test)]
mod tests;
mod text;

use dovetail_api::names::annotations::POD_GROUP;
use dovetail_api::scheduling::GROUP_FIELD;
use dovetail_core::cluster_state::Unreadable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use api::{LenientApi, ObjectPage};
pub use served::kinds_served;
pub use text::without_managed_fields;

/// An object of the API server, or what could be read of it.
#[derive(Clone, Debug)]
pub enum ReadObject<K> {
    Object(K),
    /// The object exists and cannot be read.
    Unreadable(Box<Unreadable>),
}

impl<K> ReadObject<K> {
    /// The object, if it was read whole.
    ///
    /// # Errors
    /// The readable parts of an object that cannot be read.
    pub fn object(self) -> Result<K, Box<Unreadable>> {
        match self {
            Self::Object(object) => Ok(object),
            Self::Unreadable(unreadable) => Err(unreadable),
        }
    }
}

pub fn read_object<K>(text: &str) -> ReadObject<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let cut = text::without_managed_fields(text);
    match serde_json::from_str(&cut) {
        Ok(object) => ReadObject::Object(with_group(object, &cut)),
        Err(refused) => mend::read_mended(&cut, &refused).map_or_else(
            |why| ReadObject::Unreadable(Box::new(metadata::unreadable::<K>(&cut, why))),
            |object| ReadObject::Object(with_group(object, &cut)),
        ),
    }
}

/// Keeps the PodGroup that a pod's field names as an annotation of the object that is read: its type does not have the field.
fn with_group<K: Resource<DynamicType = ()>>(mut object: K, text: &str) -> K {
    if K::kind(&()) != "Pod" || !text.contains(GROUP_FIELD[1]) {
        return object;
    }
    let name = text::member_at(text, &GROUP_FIELD).and_then(|name| serde_json::from_str::<String>(name).ok());
    if let Some(name) = name {
        object.meta_mut().annotations.get_or_insert_default().insert(POD_GROUP.to_owned(), name);
    }
    object
}

impl<'de, K> Deserialize<'de> for ReadObject<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| read_object(raw.get()))
    }
}

impl<K: Serialize> Serialize for ReadObject<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(object) => object.serialize(serializer),
            Self::Unreadable(unreadable) => Err(serde::ser::Error::custom(&unreadable.why)),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Resource for ReadObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(dt: &()) -> std::borrow::Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &()) -> std::borrow::Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &()) -> std::borrow::Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &()) -> std::borrow::Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.meta(),
            Self::Unreadable(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Object(object) => object.meta_mut(),
            Self::Unreadable(unreadable) => &mut unreadable.metadata,
        }
    }
}
