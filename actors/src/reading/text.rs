//! JSON as text: members of an object without parsing what is in them, however deep that is. Nothing here recurs, and nothing
//! is checked that whoever parses it afterwards checks.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

const MANAGED_FIELDS: &str = "managedFields";

/// The text without `metadata.managedFields`.
pub fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let Some(metadata) = members(text).find(|member| member.key == "metadata") else { return Cow::Borrowed(text) };
    let within = &text[metadata.value.clone()];
    let found = members(within).find(|member| member.key == MANAGED_FIELDS);
    let Some(found) = found else { return Cow::Borrowed(text) };
    let from = metadata.value.start;
    Cow::Owned(without(text, from + found.key_start..from + found.value.end))
}

/// The text without any member called `managedFields` that is a list, wherever it is: templates have metadata too.
pub fn without_any_managed_fields(text: &str) -> Cow<'_, str> {
    const NAME: &str = "\"managedFields\"";
    let mut text = Cow::Borrowed(text);
    let mut from = 0;
    while let Some((start, value)) = next_member(&text, from, NAME) {
        if text.as_bytes().get(value.start) == Some(&b'[') {
            text = Cow::Owned(without(&text, start..value.end));
            from = start;
        } else {
            from = value.start;
        }
    }
    text
}

/// The next member of that quoted name from a place on: where it starts, and its value.
fn next_member(text: &str, from: usize, name: &str) -> Option<(usize, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if bytes[at] != b'"' {
            at += 1;
            continue;
        }
        let end = string_end(bytes, at);
        let colon = blank_end(bytes, end);
        if bytes.get(colon) == Some(&b':') && text.get(at..end) == Some(name) {
            let value = blank_end(bytes, colon + 1);
            return Some((at, value..value_end(bytes, value)));
        }
        at = end;
    }
    None
}

/// The text without a member, and without the comma beside it.
fn without(text: &str, member: Range<usize>) -> String {
    let bytes = text.as_bytes();
    let after = blank_end(bytes, member.end);
    let (mut start, mut end) = (member.start, member.end);
    if bytes.get(after) == Some(&b',') {
        end = after + 1;
    } else if let Some(comma) = text[..start].rfind(|c: char| !c.is_ascii_whitespace())
        && bytes[comma] == b','
    {
        start = comma;
    }
    let mut left = String::with_capacity(text.len() - (end - start));
    left.push_str(&text[..start]);
    left.push_str(&text[end..]);
    left
}

pub struct JsonMember<'a> {
    /// Its name as it is written, without quotes.
    pub key: &'a str,
    /// Offset of its name.
    key_start: usize,
    pub value: Range<usize>,
}

/// The members of the object that the text is; none where it is no object.
pub fn members(text: &str) -> impl Iterator<Item = JsonMember<'_>> {
    let bytes = text.as_bytes();
    let start = blank_end(bytes, 0);
    let mut at = if bytes.get(start) == Some(&b'{') { start + 1 } else { bytes.len() };
    std::iter::from_fn(move || {
        at = blank_end(bytes, at);
        if bytes.get(at) == Some(&b',') {
            at = blank_end(bytes, at + 1);
        }
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let (key_start, key_end) = (at, string_end(bytes, at));
        let colon = blank_end(bytes, key_end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let value = blank_end(bytes, colon + 1);
        let end = value_end(bytes, value);
        at = end;
        let key = text.get(key_start + 1..key_end.saturating_sub(1))?;
        (end > value).then_some(JsonMember { key, key_start, value: value..end })
    })
}

/// The text of a member by its path, if every step of it is an object.
pub fn member_at<'a>(text: &'a str, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(text, |text, key| {
        let member = members(text).find(|member| member.key == *key)?;
        text.get(member.value)
    })
}

fn blank_end(bytes: &[u8], from: usize) -> usize {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    from + bytes.get(from..).unwrap_or_default().iter().take_while(blank).count()
}

/// Offset after the string that begins at `from`.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    // Most of an object's text is in strings, so it is passed over at memchr's pace.
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Offset after the value that begins at `from`.
fn value_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < bytes.len() {
        let byte = bytes[at];
        let ends_value = match byte {
            b'"' => {
                at = string_end(bytes, at);
                true
            }
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                false
            }
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                true
            }
            _ => {
                at += 1;
                false
            }
        };
        if ends_value && depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn managed_fields_are_cut_off_anywhere_and_nothing_else() {
        let field = json!([{"manager": "a \"quoted\\ one", "fieldsV1": {"f:metadata": {"]": "}"}}}]);
        for metadata in [
            json!({"managedFields": field, "name": "a"}),
            json!({"a": 1, "managedFields": field}),
            json!({"managedFields": field}),
            json!({"annotations": {"managedFields": "kept"}, "managedFields": field, "z": [1, 2]}),
        ] {
            let whole = json!({"kind": "Pod", "metadata": metadata, "spec": {"managedFields": [1]}});
            for text in [whole.to_string(), serde_json::to_string_pretty(&whole).unwrap()] {
                let mut left = whole.clone();
                left["metadata"].as_object_mut().unwrap().remove("managedFields");
                assert_eq!(parsed(&without_managed_fields(&text)), left);
                left["spec"] = json!({});
                assert_eq!(parsed(&without_any_managed_fields(&text)), left);
            }
        }
    }

    #[test]
    fn depth_costs_nothing() {
        let depth = 100_000;
        let deep = format!("{}{}", "{\"f:a\":".repeat(depth), "{}".to_owned() + &"}".repeat(depth));
        let text = format!("{{\"metadata\":{{\"managedFields\":[{{\"fieldsV1\":{deep}}}],\"name\":\"a\"}}}}");
        assert_eq!(without_managed_fields(&text), "{\"metadata\":{\"name\":\"a\"}}");
        assert_eq!(without_any_managed_fields(&text), "{\"metadata\":{\"name\":\"a\"}}");
    }

    #[test]
    fn members_are_found_by_their_path() {
        let text = "{ \"a\" : {\"b\": [1, {\"b\": 2}], \"c\": \"x,}\"}, \"d\":null}";
        assert_eq!(member_at(text, &["a", "b"]), Some("[1, {\"b\": 2}]"));
        assert_eq!(member_at(text, &["a", "c"]), Some("\"x,}\""));
        assert_eq!(member_at(text, &["d"]), Some("null"));
        assert_eq!(
            (member_at(text, &["a", "x"]), member_at(text, &["d", "x"]), member_at("[]", &["a"])),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}", from in 0usize..60) {
            let _ = (without_managed_fields(&text), without_any_managed_fields(&text), member_at(&text, &["a"]));
            let broken: String = "{\"metadata\":{\"managedFields\":[{\"a\":\"é\\\"\"}],\"name\":\"x\"}}".chars().take(from).collect();
            let _ = (without_managed_fields(&broken), without_any_managed_fields(&broken));
        }
    }
}
