//! Reading and writing a JSON object's metadata.
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The string at `metadata.<field>`, empty when absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata` as a map to write to; made when it is missing or no map.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    member(object, "metadata")
}

/// A member map of an object, made when it is missing or no map.
pub fn member<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let slot = &mut object[field];
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Sets or removes `metadata.<field>`.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let meta = metadata_mut(object);
    match value {
        Some(value) => meta.insert(field.to_owned(), value),
        None => meta.remove(field),
    };
}

/// True if the object waits for its deletion.
pub fn deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    strings(&object["metadata"]["finalizers"])
}

/// A JSON list of strings.
pub fn strings(list: &Value) -> Vec<&str> {
    list.as_array().map(|items| items.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

pub fn owner_uids(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.map(|list| list.iter().filter_map(|o| o["uid"].as_str()).collect()).unwrap_or_default()
}

/// `metadata.generation`, 0 when absent.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// A time as Kubernetes writes it in metadata: RFC 3339 with whole seconds.
pub fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// A version-4 uid from the seeded generator.
pub fn uid(rng: &mut fastrand::Rng) -> String {
    let bits = (rng.u128(..) & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The five characters that `generateName` appends (the alphabet of apimachinery's `rand`).
pub fn suffix(rng: &mut fastrand::Rng) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..5).map(|_| char::from(ALPHABET[rng.usize(..ALPHABET.len())])).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_uid_is_a_version_4_uuid_and_comes_from_the_seed() {
        let (mut a, mut b) = (fastrand::Rng::with_seed(7), fastrand::Rng::with_seed(7));
        let id = uid(&mut a);
        assert_eq!(id, uid(&mut b));
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'));
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{id}");
    }

    #[test]
    fn times_have_whole_seconds() {
        let at: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(seconds(at), "2026-01-02T03:04:05Z");
    }
}
