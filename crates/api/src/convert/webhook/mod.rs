//! v1beta1 and v1 in both directions, as a conversion webhook needs it: on the objects that the API server has, whole or in
//! parts, and without loss (aws spec 10.4). `dovetail run` serves it where WEBHOOK_ENABLED is set.
//!
//! What one version cannot hold travels in an annotation ([`annotations::OTHER_VERSION`]) beside what the other version
//! makes of it. On the way back only what was changed meanwhile is changed in it.
//!
//! ```
//! use dovetail_api::convert::webhook::{WebhookVersion, converted};
//! use serde_json::json;
//! let old = json!({
//!     "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "default"},
//!     "spec": {"disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}},
//! });
//! let new = converted(&old, WebhookVersion::V1)?;
//! assert_eq!(new["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");
//! assert_eq!(new["spec"]["template"]["spec"]["expireAfter"], "720h");
//! assert_eq!(converted(&new, WebhookVersion::V1Beta1)?, old);
//! # Ok::<(), dovetail_api::convert::webhook::NotConverted>(())
//! ```

mod class;
mod merge;
mod parts;
mod pool;
mod review;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{
    names::{AWS_GROUP, GROUP, annotations},
    schema,
};

pub use parts::depth;
pub use review::reply;

/// A version that the webhook knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookVersion {
    /// The version that is stored.
    V1,
    /// The version that Karpenter 0.32 to 1.0 served.
    V1Beta1,
}

impl WebhookVersion {
    /// The version of an apiVersion such as `karpenter.sh/v1`.
    fn from_api_version(api_version: &str) -> Option<Self> {
        match api_version.split_once('/')? {
            (GROUP | AWS_GROUP, "v1") => Some(Self::V1),
            (GROUP | AWS_GROUP, "v1beta1") => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A version or kind that is not converted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{api_version} {kind} cannot be converted; allowed: NodePool and NodeClaim of {GROUP}, EC2NodeClass of {AWS_GROUP}, \
     of v1 and v1beta1"
)]
pub struct NotConverted {
    api_version: String,
    kind: String,
}

/// The annotations by which the versions know of each other, apart from all others.
struct Notes(Map<String, Value>);

/// Annotations that a conversion writes or reads.
const NOTES: [&str; 4] = [
    annotations::V1BETA1_KUBELET,
    annotations::V1BETA1_NODE_CLASS_REF,
    annotations::V1BETA1_UBUNTU,
    annotations::ALIAS_VERSION,
];

impl Notes {
    /// Takes them off an object's annotations.
    fn taken(from: &mut Map<String, Value>) -> Self {
        Self(NOTES.iter().filter_map(|name| from.remove_entry(*name)).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), Value::String(value));
    }

    fn take_annotation(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).and_then(|value| value.as_str().map(str::to_owned))
    }

    /// Takes one that holds JSON; one that does not says nothing.
    fn take_json(&mut self, name: &str) -> Option<Value> {
        parts::built(&self.take_annotation(name)?).ok()
    }
}

/// An object in the version `to`. One that has it already is answered as it is.
///
/// # Errors
/// The object is of a kind or a version that is none of ours.
pub fn converted(object: &Value, to: WebhookVersion) -> Result<Value, NotConverted> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let from = version_of(text("apiVersion"), text("kind"))?;
    if from == to {
        return Ok(object.clone());
    }
    let mut plain = object.clone();
    let original = original_of(&mut plain, to);
    let mut answer = translated(&plain, to);
    if let Some(original) = original {
        restore(&mut answer, &original, from, to);
    }
    if translated(&answer, from) != plain {
        let kept = json!({
            "version": from.name(),
            "spec": plain.get("spec").cloned().unwrap_or_default(),
            "annotations": noted(&plain),
        });
        annotate(&mut answer, |all| drop(all.insert(annotations::OTHER_VERSION.into(), kept.to_string().into())));
    }
    Ok(answer)
}

/// The version of an object of ours.
fn version_of(api_version: &str, kind: &str) -> Result<WebhookVersion, NotConverted> {
    let ours = match kind {
        "NodePool" | "NodeClaim" => api_version.starts_with(&format!("{GROUP}/")),
        "EC2NodeClass" => api_version.starts_with(&format!("{AWS_GROUP}/")),
        _ => false,
    };
    let not = || NotConverted { api_version: api_version.to_owned(), kind: kind.to_owned() };
    WebhookVersion::from_api_version(api_version).filter(|_| ours).ok_or_else(not)
}

/// Takes what an object says of itself in the other version off it; what makes no sense says nothing.
fn original_of(object: &mut Value, other: WebhookVersion) -> Option<Value> {
    let mut text = None;
    annotate(object, |all| text = all.remove(annotations::OTHER_VERSION));
    let original = parts::built(text?.as_str()?).ok()?;
    (original.get("version") == Some(&json!(other.name()))).then_some(original)
}

/// Makes the change that an object has had in the version `from` to what it was in the version `to`.
fn restore(answer: &mut Value, original: &Value, from: WebhookVersion, to: WebhookVersion) {
    let mut before = answer.clone();
    replace(&mut before, "spec", original.get("spec").cloned());
    let known = original.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let noted = |all: &mut Map<String, Value>| {
        let _ = Notes::taken(all);
        all.extend(known.clone());
    };
    annotate(&mut before, noted);
    let there_and_back = translated(&translated(&before, from), to);
    let spec = merge::merged(there_and_back.get("spec"), answer.get("spec"), original.get("spec"));
    replace(answer, "spec", spec);
    annotate(answer, noted);
}

/// An object in another version, without what that cannot hold.
fn translated(object: &Value, to: WebhookVersion) -> Value {
    let mut answer = object.clone();
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let group = if kind == "EC2NodeClass" { AWS_GROUP } else { GROUP };
    let api_version = format!("{group}/{}", to.name());
    answer["apiVersion"] = json!(api_version);
    let mut spec = answer.get("spec").and_then(Value::as_object).cloned();
    annotate(&mut answer, |all| {
        let mut notes = Notes::taken(all);
        if let Some(spec) = &mut spec {
            match (kind, to) {
                ("NodePool", WebhookVersion::V1) => pool::pool_up(spec, &mut notes),
                ("NodePool", WebhookVersion::V1Beta1) => pool::pool_down(spec, &mut notes),
                ("NodeClaim", WebhookVersion::V1) => pool::claim_up(spec, &mut notes),
                ("NodeClaim", WebhookVersion::V1Beta1) => pool::claim_down(spec, &mut notes),
                (_, WebhookVersion::V1) => class::class_up(spec, &mut notes),
                (_, WebhookVersion::V1Beta1) => class::class_down(spec, &mut notes),
            }
        }
        all.append(&mut notes.0);
    });
    if let Some(spec) = spec {
        let mut one = json!({"spec": spec});
        if let Some(schema) = schema::schema_for(&api_version, kind) {
            schema.prune(&mut one);
        }
        replace(&mut answer, "spec", one.get("spec").cloned());
    }
    answer
}

/// The annotations of an object that a conversion writes or reads.
fn noted(object: &Value) -> Map<String, Value> {
    let all = object.get("metadata").and_then(|one| one.get("annotations")).and_then(Value::as_object);
    let known = all.into_iter().flatten().filter(|(name, _)| NOTES.contains(&name.as_str()));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Changes an object's annotations. None are none: an empty map goes.
fn annotate(object: &mut Value, change: impl FnOnce(&mut Map<String, Value>)) {
    let Some(object) = object.as_object_mut() else { return };
    let mut none = Map::new();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let made = metadata.is_none();
    let metadata = metadata.unwrap_or(&mut none);
    let mut all = match metadata.remove("annotations") {
        Some(Value::Object(all)) => all,
        _ => Map::new(),
    };
    change(&mut all);
    if !all.is_empty() {
        metadata.insert("annotations".into(), all.into());
    }
    if made && !none.is_empty() {
        object.insert("metadata".into(), none.into());
    }
}

/// Sets or removes a field.
fn replace(object: &mut Value, name: &str, value: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(object.insert(name.to_owned(), value)),
        None => drop(object.remove(name)),
    }
}
