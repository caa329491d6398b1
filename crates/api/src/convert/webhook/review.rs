//! The conversation of a conversion webhook: a ConversionReview with a request is answered by one with a response.
//!
//! A review is read in parts, and objects are converted one by one: at any time there are the values of one object at most.
//! Only specs and annotations are built at all; the rest of an object goes through as the text that came, however deep it is.
//!
//! An API server fails a whole list with one of its objects. So an object that is too deep or too large to be converted is
//! answered without its spec, with what an API server holds against the object it sent (apiVersion, kind, and the metadata's
//! name, namespace and uid) and the annotation [`annotations::NOT_CONVERTED`]. Nothing is ever stored like that: a single
//! object on its way to the stored version may be a write, and fails; so does one with that annotation.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::parts::{Fields, built, members};
use super::{WebhookVersion, converted, version_of};
use crate::names::annotations;

const KIND: &str = "ConversionReview";
const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// Objects of one review.
const OBJECTS_MOST: usize = 10_000;
/// An object's text. An API server takes no larger requests, and etcd stores half of that.
const OBJECT_MOST: usize = 3 << 20;
/// Most bytes of an object's annotations together, as an API server allows them.
const ANNOTATIONS_MOST: usize = 256 << 10;
/// An answer has so many times the bytes of its review at most, beside [`ANSWER_LEAST`]: an original of many quotes, in an
/// annotation, takes twice its length.
const ANSWER_TIMES: usize = 3;
/// An answer may always have so many bytes.
const ANSWER_LEAST: usize = 64 << 10;
/// Most bytes of a text that a message quotes.
const QUOTED_MOST: usize = 256;

/// Answers a review as it comes over the wire.
///
/// # Errors
/// It is no review that can be answered, and why.
pub fn reply(body: &[u8]) -> Result<Vec<u8>, String> {
    let review: &RawValue = serde_json::from_slice(body).map_err(|why| format!("the body is no JSON: {why}"))?;
    let review = Fields::from_text(review).unwrap_or_default();
    let (version, kind) = (review.text("apiVersion"), review.text("kind"));
    if (version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        let (version, kind) = (quoted(&version), quoted(&kind));
        return Err(format!("the body is {version:?} {kind:?}; allowed: {API_VERSION} {KIND}"));
    }
    let request = review.get("request").and_then(Fields::from_text).unwrap_or_default();
    let uid = request.text("uid");
    if uid.is_empty() || uid.len() > QUOTED_MOST {
        return Err("request.uid is missing, or too long to be one: there would be nothing to answer to".into());
    }
    let (head, tail) = (
        format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","response":{{"uid":{},"#, json!(uid)),
        r#"],"result":{"status":"Success"}}}"#,
    );
    let most = ANSWER_TIMES * body.len() + ANSWER_LEAST;
    let mut answer = Vec::with_capacity(most);
    answer.extend_from_slice(head.as_bytes());
    answer.extend_from_slice(br#""convertedObjects":["#);
    match write_objects(&request, &mut answer, most.saturating_sub(tail.len())) {
        Ok(()) => answer.extend_from_slice(tail.as_bytes()),
        Err(why) => {
            let result = json!({"status": "Failure", "message": why});
            answer = format!(r#"{head}"convertedObjects":[],"result":{result}}}}}"#).into_bytes();
        }
    }
    Ok(answer)
}

/// Writes a request's objects, converted. One that is not ours fails all of them, and is named: there is no answer to it.
fn write_objects(request: &Fields<'_>, answer: &mut Vec<u8>, most: usize) -> Result<(), String> {
    let desired = request.text("desiredAPIVersion");
    let Some(to) = WebhookVersion::from_api_version(&desired) else {
        let desired = quoted(&desired);
        let allowed = "v1 and v1beta1 of karpenter.sh and karpenter.k8s.aws";
        return Err(format!("desiredAPIVersion {desired:?} is none of ours; allowed: {allowed}"));
    };
    let objects = request.get("objects").and_then(|list| members(list, OBJECTS_MOST));
    let (objects, count) = objects.ok_or("request.objects is no list; allowed: the objects to convert")?;
    if count > OBJECTS_MOST {
        return Err(format!("request.objects has {count} objects; allowed: {OBJECTS_MOST} at most"));
    }
    let may_be_a_write = to == WebhookVersion::V1 && objects.len() == 1;
    for (at, object) in objects.into_iter().enumerate() {
        if at > 0 {
            answer.push(b',');
        }
        let object = ReviewedObject::from_text(object)?;
        match object.converted(to) {
            Ok(text) => answer.extend_from_slice(&text),
            Err(why) if may_be_a_write => return Err(format!("{}: {why}", quoted(&object.name()))),
            Err(why) => answer.extend_from_slice(&object.without_spec(to, &why)),
        }
        if answer.len() > most {
            return Err(format!("the answer would be larger than {most} bytes"));
        }
    }
    Ok(())
}

/// An object of a review, in parts. It is one of ours.
struct ReviewedObject<'a> {
    text: &'a RawValue,
    fields: Fields<'a>,
    metadata: Option<Fields<'a>>,
    from: WebhookVersion,
}

impl<'a> ReviewedObject<'a> {
    fn from_text(text: &'a RawValue) -> Result<Self, String> {
        let fields = Fields::from_text(text).unwrap_or_default();
        let metadata = fields.get("metadata").and_then(Fields::from_text);
        let from = version_of(&fields.text("apiVersion"), &fields.text("kind"));
        let name = metadata.as_ref().map(|metadata| metadata.text("name")).filter(|name| !name.is_empty());
        let named = quoted(name.as_deref().unwrap_or("without a name")).to_owned();
        let from = from.map_err(|why| format!("{named}: {why}"))?;
        Ok(Self { text, fields, metadata, from })
    }

    fn name(&self) -> String {
        self.metadata.as_ref().map(|metadata| metadata.text("name")).unwrap_or_default()
    }

    /// The object in the version `to`, as text.
    fn converted(&self, to: WebhookVersion) -> Result<Vec<u8>, String> {
        if self.from == to {
            return Ok(self.text.get().as_bytes().to_vec());
        }
        let bytes = self.text.get().len();
        if bytes > OBJECT_MOST {
            return Err(format!("it has {bytes} bytes; {OBJECT_MOST} at most"));
        }
        let part = |text: Option<&RawValue>, of: &str| {
            text.map(|text| built(text.get())).transpose().map_err(|why| format!("its {of} cannot be converted: {why}"))
        };
        let mut plain = json!({"apiVersion": self.fields.text("apiVersion"), "kind": self.fields.text("kind")});
        if let Some(spec) = part(self.fields.get("spec"), "spec")? {
            plain["spec"] = spec;
        }
        let noted = part(self.metadata.as_ref().and_then(|metadata| metadata.get("annotations")), "annotations")?;
        if let Some(noted) = noted {
            if to == WebhookVersion::V1 && noted.get(annotations::NOT_CONVERTED).is_some() {
                return Err("it could not be read in this version, and is not written in it: use v1".into());
            }
            plain["metadata"] = json!({"annotations": noted});
        }
        let answer = converted(&plain, to).map_err(|why| why.to_string())?;
        let noted = answer.get("metadata").and_then(|metadata| metadata.get("annotations"));
        if bytes_of(noted) > ANNOTATIONS_MOST {
            return Err("its annotations would have more than the 256 KiB that an API server allows".into());
        }
        Ok(self.written(&answer, noted))
    }

    /// An object without its spec, with the members that an API server needs and `why` it is not converted.
    fn without_spec(&self, to: WebhookVersion, why: &str) -> Vec<u8> {
        let group = self.fields.text("apiVersion").split('/').next().unwrap_or_default().to_owned();
        let noted = json!({annotations::NOT_CONVERTED: why});
        let head = json!({"apiVersion": format!("{group}/{}", to.name())});
        self.written(&head, Some(&noted))
    }

    /// The object's text with another version, spec and annotations.
    fn written(&self, converted: &Value, noted: Option<&Value>) -> Vec<u8> {
        let mut metadata = Object::default();
        for (name, text) in self.metadata.iter().flat_map(Fields::iter).filter(|(name, _)| *name != "annotations") {
            metadata.field(name, text.get());
        }
        if let Some(noted) = noted {
            metadata.field("annotations", &noted.to_string());
        }
        let has_metadata = self.metadata.is_some() || noted.is_some();
        let mut object = Object::default();
        object.field("apiVersion", &converted["apiVersion"].to_string());
        for (name, text) in self.fields.iter() {
            let other = match name {
                "apiVersion" | "spec" => false,
                "metadata" => !has_metadata,
                _ => true,
            };
            if other {
                object.field(name, text.get());
            }
        }
        if has_metadata {
            object.field("metadata", &metadata.closed());
        }
        if let Some(spec) = converted.get("spec") {
            object.field("spec", &spec.to_string());
        }
        object.closed().into_bytes()
    }
}

/// An object's text that is being written.
#[derive(Default)]
struct Object(String);

impl Object {
    fn field(&mut self, name: &str, text: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&json!(name).to_string());
        self.0.push(':');
        self.0.push_str(text);
    }

    fn closed(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

/// The bytes of annotations, as an API server counts them.
fn bytes_of(annotations: Option<&Value>) -> usize {
    let all = annotations.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    all.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}

/// The beginning of what somebody wrote, for a message.
fn quoted(text: &str) -> &str {
    &text[..text.floor_char_boundary(QUOTED_MOST)]
}

#[cfg(test)]
mod tests;
