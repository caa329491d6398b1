//! Bodies of requests: JSON, or YAML or protobuf where the content type says so.
use crate::apiserver::error::{ApiError, Result};
use dovetail_api::convert::webhook::depth;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;

/// The most that a request's body may have, as in kube-apiserver.
pub const MOST: usize = 3 * 1024 * 1024;
/// The most that an object may have when it is stored, as in etcd.
pub const MOST_STORED: usize = 1536 * 1024;
/// Deepest nesting of JSON. kube-apiserver takes ten thousand; deeper than a few hundred is one of a kind.
const DEEPEST: usize = 512;

/// A body, and the fields that stand in it twice (looked for only when `twice` says so).
#[derive(Debug, Default)]
pub struct Sent {
    /// The body as JSON.
    pub value: Value,
    /// Paths of the fields that stand twice; the later one counts.
    pub duplicates: Vec<String>,
}

/// Reads a body by its content type.
///
/// # Errors
/// 413 when it is too large, 415 for a type that is not read here, 400 when it is not what it says.
pub fn read_body(body: &[u8], content_type: &str, twice: bool) -> Result<Sent> {
    if body.is_empty() {
        return Ok(Sent::default());
    }
    if body.len() > MOST {
        return Err(too_large(MOST));
    }
    if content_type.ends_with("protobuf") {
        return Ok(Sent { value: crate::apiserver::protobuf::decode_body(body)?, duplicates: Vec::new() });
    }
    if content_type.ends_with("cbor") || content_type.starts_with("text/") {
        let why = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf; got";
        return Err(ApiError::new(415, "UnsupportedMediaType", format!("{why} {content_type:?}")));
    }
    if content_type.ends_with("yaml") && body.trim_ascii_start().first() != Some(&b'{') {
        let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the request body is not UTF-8"))?;
        let value = serde_saphyr::from_str::<Value>(text).map_err(|why| {
            ApiError::bad_request(format!("the request body is no YAML: {}", first_line(&why.to_string())))
        })?;
        return Ok(Sent { value, duplicates: Vec::new() });
    }
    let no_json = |why: serde_json::Error| ApiError::bad_request(format!("the request body is no JSON: {why}"));
    // A shorter body cannot be so deep.
    if body.len() > DEEPEST && depth(body) > DEEPEST {
        return Err(ApiError::bad_request(format!("the request body is nested more than {DEEPEST} deep")));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    reader.disable_recursion_limit();
    if !twice {
        let value = Value::deserialize(&mut reader).map_err(no_json)?;
        reader.end().map_err(no_json)?;
        return Ok(Sent { value, duplicates: Vec::new() });
    }
    let found = RefCell::default();
    let value = Watchful { path: String::new(), found: &found }.deserialize(&mut reader).map_err(no_json)?;
    reader.end().map_err(no_json)?;
    Ok(Sent { value, duplicates: found.into_inner() })
}

/// 413: larger than so many bytes.
pub fn too_large(most: usize) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {most}"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Reads a value and notes the fields that stand twice in a map.
struct Watchful<'a> {
    path: String,
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Watchful<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> std::result::Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Watchful<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> std::result::Result<Value, D::Error> {
        Value::deserialize(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(Watchful { path: format!("{}[{}]", self.path, list.len()), found: self.found })?
        {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            if map.contains_key(&name) {
                self.found.borrow_mut().push(path.clone());
            }
            let value = members.next_value_seed(Watchful { path, found: self.found })?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_stand_twice_are_named_and_the_later_counts() {
        let sent = read_body(br#"{"a": 1, "b": [{"c": 1.5, "c": "x"}], "a": null}"#, "application/json", true).unwrap();
        assert_eq!(sent.value, json!({"a": null, "b": [{"c": "x"}]}));
        assert_eq!(sent.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn yaml_is_read_where_the_type_says_so_and_json_in_its_place() {
        let yaml = read_body(b"a: {b: [1, two]}\n", "application/yaml", true).unwrap();
        assert_eq!(yaml.value, json!({"a": {"b": [1, "two"]}}));
        assert_eq!(read_body(b" {\"a\": 1}", "application/apply-patch+yaml", true).unwrap().value, json!({"a": 1}));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_kind() {
        assert_eq!(read_body(b"{", "application/json", false).unwrap_err().code(), 400);
        assert_eq!(read_body(b"a: [", "application/yaml", false).unwrap_err().code(), 400);
        assert_eq!(read_body(b"k8s", "application/vnd.kubernetes.protobuf", false).unwrap_err().code(), 400);
        assert_eq!(read_body(b"x", "application/cbor", false).unwrap_err().code(), 415);
        assert_eq!(read_body(&vec![b' '; MOST + 1], "application/json", false).unwrap_err().code(), 413);
    }
}
