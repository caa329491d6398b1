//! A JSON text in parts: an object's fields with their texts, and the values of a text that is known to be small. A text is
//! counted before anything is built of it: a map of one entry takes a hundred times as much memory as its text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The values of a text may take so much memory. A schema's largest objects have a tenth.
const WEIGHT_MOST: usize = 1 << 20;
/// Levels of maps and lists in a text that is built. Our schemas have 12.
const DEPTH_MOST: usize = 64;
/// Fields of one object that are kept beside those of [`KNOWN`]: an API server drops what a schema does not have.
const FIELDS_MOST: usize = 64;
/// Fields that mean something, in a review, an object, or its metadata.
const KNOWN: [&str; 16] = [
    "apiVersion",
    "kind",
    "request",
    "uid",
    "desiredAPIVersion",
    "objects",
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
];
/// A name or a version is shorter.
const TEXT_MOST: usize = 1024;

/// An object's fields by name, each as its text. Of two with one name the later counts.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// The fields of an object's text; none where it is no object.
    pub(super) fn from_text(text: &'a RawValue) -> Option<Self> {
        serde_json::from_str(text.get()).ok()
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// A field that is a text of a name's length; empty where it is none.
    pub(super) fn text(&self, name: &str) -> String {
        let short = self.get(name).filter(|text| text.get().len() <= TEXT_MOST);
        short.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, text)| (name.as_str(), *text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if kept.len() < FIELDS_MOST || KNOWN.contains(&name.as_str()) {
                kept.insert(name, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Fields(kept))
    }
}

/// The first members of a list as texts, `most` of them, and how many there are; none where the text is no list.
pub(super) fn members(text: &RawValue, most: usize) -> Option<(Vec<&RawValue>, usize)> {
    let mut reader = serde_json::Deserializer::from_str(text.get());
    reader.deserialize_seq(MembersVisitor(most)).ok()
}

struct MembersVisitor(usize);

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut first, mut count) = (Vec::new(), 0);
        while let Some(one) = list.next_element()? {
            count += 1;
            if count <= self.0 {
                first.push(one);
            }
        }
        Ok((first, count))
    }
}

/// The value of a text that is small enough.
///
/// # Errors
/// It is too deep or too large, or no JSON.
pub(super) fn built(text: &str) -> Result<Value, String> {
    let size = Size::count(text.as_bytes());
    if size.depth > DEPTH_MOST {
        return Err(format!("it is {} levels deep; {DEPTH_MOST} at most", size.depth));
    }
    if size.weight > WEIGHT_MOST {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        return Err(format!("its values take {} MiB; {} at most", mib(size.weight), mib(WEIGHT_MOST)));
    }
    serde_json::from_str(text).map_err(|why| format!("it is no JSON: {why}"))
}

/// An estimate of the values of a text, from above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    depth: usize,
    weight: usize,
}

impl Size {
    /// Counts over the bytes. In a text that is no JSON it means nothing, and nothing is built of that.
    fn count(text: &[u8]) -> Self {
        let (mut size, mut depth, mut at) = (Self::default(), 0_usize, 0);
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    let end = end_of_string(text, at + 1);
                    // The string's letters, and the allocator's own bytes.
                    size.weight += 16 + end - at;
                    at = end;
                }
                b'{' | b'[' => {
                    depth += 1;
                    size.depth = size.depth.max(depth);
                    // The first node of a tree; the first places of a list.
                    size.weight += if *byte == b'{' { 640 } else { 128 };
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                // One more entry of a node that is half full.
                b',' => size.weight += 112,
                _ => {}
            }
            at += 1;
        }
        size
    }
}

/// Depth of the maps and lists in a JSON text. Nothing is built to find it.
#[must_use]
pub fn depth(text: &[u8]) -> usize {
    Size::count(text).depth
}

/// Index of a string's closing quote, or the text's length.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_counted_outside_of_strings() {
        assert_eq!(Size::count(br#"{"a":[1,{"b":"{[,\"\\"}]}"#).depth, 3);
        assert_eq!(Size::count(br#""[[[[""#).depth, 0);
        assert_eq!(Size::count(b"\"open"), Size { depth: 0, weight: 16 + 5 });
        let (few, many) = (Size::count(b"[{}]").weight, Size::count(b"[{},{},{}]").weight);
        assert!(many > 2 * few, "{few} {many}");
    }

    #[test]
    fn text_of_few_bytes_and_many_values_is_not_built() {
        for (text, said) in [
            (format!("[{}0]", "{\"\":0},".repeat(10_000)), " MiB; 1 at most"),
            (format!("{}{}", "[".repeat(65), "]".repeat(65)), "it is 65 levels deep; 64 at most"),
            (format!("{}1{}", "{\"\":".repeat(2_000_000), "}".repeat(2_000_000)), "levels deep"),
            ("{".into(), "no JSON"),
        ] {
            let why = built(&text).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        assert!(built(&format!("[{}0]", "\"a\",".repeat(5_000))).is_ok());
    }

    #[test]
    fn fields_that_mean_something_are_kept_among_many() {
        let many: String = (0..5_000).map(|n| format!("\"n{n}\":{n},")).collect();
        let text = format!("{{{many}\"spec\":{{\"a\":1}},\"kind\":\"NodePool\",\"kind\":\"Other\"}}");
        let text = RawValue::from_string(text).unwrap();
        let fields = Fields::from_text(&text).unwrap();
        assert_eq!((fields.get("spec").unwrap().get(), fields.text("kind").as_str()), ("{\"a\":1}", "Other"));
        assert!(fields.iter().count() <= FIELDS_MOST + KNOWN.len());
        assert!(Fields::from_text(&RawValue::from_string("[1]".into()).unwrap()).is_none());
    }
}
