//! An object as YAML, line by line, each line with the fields that begin on it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{manifest::scalar, schema::FieldPath};

/// A line of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EmittedLine {
    pub text: String,
    /// Fields that begin on it, outermost first.
    pub paths: Vec<FieldPath>,
}

/// The order of fields, and what the source wrote as it is.
pub(super) struct Order<'a> {
    /// Line of the source at which each field stands; fields that it does not have come after those that it has.
    pub lines: &'a BTreeMap<FieldPath, usize>,
}

/// A part of every name that stands in for a variable.
pub(super) const STAND_IN: &str = "variableqx";

/// First fields of objects, of their specs and of templates; others follow by the source's order, then by name.
const FIRST: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "template"];

/// An object's lines.
pub(super) fn emit(object: &Value, order: &Order<'_>) -> Vec<EmittedLine> {
    let mut lines = Vec::new();
    mapping(object, &FieldPath::root(), 0, order, &mut lines);
    lines
}

fn mapping(value: &Value, path: &FieldPath, indent: usize, order: &Order<'_>, lines: &mut Vec<EmittedLine>) {
    for key in keys(value, path, order) {
        let inner = &value[&key];
        let path = path.key(&key);
        let head = format!("{}{}:", " ".repeat(indent), plain_or_quoted(&key, true));
        field(head, inner, path, indent, order, lines);
    }
}

/// A field's lines, its key and what stands before it given.
fn field(head: String, value: &Value, path: FieldPath, indent: usize, order: &Order<'_>, lines: &mut Vec<EmittedLine>) {
    if let Some(text) = inline(value) {
        let paths = std::iter::once(path.clone()).chain(inner_paths(value, &path)).collect();
        lines.push(EmittedLine { text: format!("{head} {text}"), paths });
        return;
    }
    if let Some((style, body)) = block(value) {
        lines.push(EmittedLine { text: format!("{head} {style}"), paths: vec![path] });
        let pad = " ".repeat(indent + 2);
        let line = |line: &str| if line.is_empty() { String::new() } else { format!("{pad}{line}") };
        lines.extend(body.lines().map(|text| EmittedLine { text: line(text), paths: Vec::new() }));
        return;
    }
    lines.push(EmittedLine { text: head, paths: vec![path.clone()] });
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = path.index(index);
                let mut of_item = Vec::new();
                if item.is_object() && inline(item).is_none() {
                    mapping(item, &path, indent + 4, order, &mut of_item);
                } else {
                    let text = inline(item).unwrap_or_else(|| item.to_string());
                    of_item.push(EmittedLine { text: format!("{}{text}", " ".repeat(indent + 4)), paths: Vec::new() });
                }
                if let Some(first) = of_item.first_mut() {
                    first.text.replace_range(indent + 2..indent + 4, "- ");
                    first.paths.insert(0, path);
                }
                lines.extend(of_item);
            }
        }
        _ => mapping(value, &path, indent + 2, order, lines),
    }
}

/// The keys of a mapping in their order.
fn keys(value: &Value, path: &FieldPath, order: &Order<'_>) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    let outer = path.0.is_empty() || *path == FieldPath::from_fields(&["spec"]) || path.last_key() == Some("template");
    keys.sort_by_cached_key(|key| {
        let first = FIRST.iter().position(|first| outer && first == key).unwrap_or(FIRST.len());
        (first, order.lines.get(&path.key(key)).copied().unwrap_or(usize::MAX), key.clone())
    });
    keys
}

/// A value that fits behind its key: a scalar, a list of scalars, an empty mapping.
fn inline(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.contains('\n') && block(value).is_some() => None,
        Value::String(text) => Some(plain_or_quoted(text, false)),
        Value::Array(items) if items.iter().all(|item| !item.is_array() && !item.is_object()) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        Value::Object(map) if map.is_empty() => Some("{}".into()),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

/// A scalar in a list on one line; texts are quoted, as most people write them there.
fn flow(item: &Value) -> String {
    match item {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn inner_paths(value: &Value, path: &FieldPath) -> Vec<FieldPath> {
    value.as_array().map(|items| (0..items.len()).map(|index| path.index(index)).collect()).unwrap_or_default()
}

/// A text of several lines as a block: its header and what stands in it; none where a block cannot hold it as it is.
fn block(value: &Value) -> Option<(&'static str, &str)> {
    let text = value.as_str()?;
    let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t' || letter == '\u{feff}';
    let body = text.trim_end_matches('\n');
    if !text.contains('\n') || body.is_empty() || body.starts_with([' ', '\t', '\n']) || text.chars().any(odd) {
        return None;
    }
    match text.len() - body.len() {
        0 => Some(("|-", body)),
        1 => Some(("|", body)),
        // Lines that are empty at the end are kept by writing them.
        _ => Some(("|+", text)),
    }
}

/// A text as a plain scalar where every reader takes it for that text, else in quotes.
fn plain_or_quoted(text: &str, key: bool) -> String {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_./@+=".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let simple = begins && text.chars().all(letters);
    // A variable's value may be a number, and is text here.
    let text_to_all = scalar::plain(text).is_string() && !text.contains(STAND_IN);
    if text_to_all && (simple || !key && is_measure(text)) { text.to_owned() } else { quoted(text) }
}

/// A number with a unit, such as `30s`, `1000Gi` and `100%`: no reader takes that for a number.
fn is_measure(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && matches!(unit, "s" | "m" | "h" | "Ki" | "Mi" | "Gi" | "Ti" | "%")
}

/// In double quotes, with JSON's escapes, all of which are YAML's, too.
fn quoted(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    json.chars().fold(String::with_capacity(json.len()), |mut all, letter| {
        if letter.is_control() || letter == '\u{feff}' {
            all.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            all.push(letter);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_reads_as_what_it_was() {
        let object = json!({
            "kind": "X", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"yes": "no", "1": "2", "a.b/c": ""}},
            "spec": {
                "texts": ["true", "~", "0x1", "1e3", "a: b", "# x", "- y", "é", "${A}", " ", "\u{7f}", "2026-01-02", "1:30"],
                "block": "#!/bin/sh\n  indented\n\nend # no comment\n", "clipped": "a\nb", "kept": "a\nb\n\n\n",
                "odd": " begins\nwith a blank", "tabs": "\ta\n", "return": "a\r\nb", "only": "\n\n",
                "list": [{"a": 1, "b": [{"c": "30s"}]}, {}, [1, [2]], "x"], "empty": [], "none": {}, "n": 5, "b": true, "f": 1.5,
                "o": null, "quantity": "1000Gi", "percent": "100%", "number": "1000", "float": "1.5", "minus": "-5",
            },
        });
        let lines = emit(&object, &Order { lines: &BTreeMap::new() });
        let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
        let read = crate::manifest::parse::parse(&text, &crate::manifest::ReadOptions::default());
        assert_eq!(read.complaints, [], "{text}");
        assert_eq!(read.documents[0].to_value(), object, "{text}");
        assert!(text.starts_with("apiVersion: v1\nkind: X\nmetadata:\n"), "{text}");
        assert!(text.contains("\n  quantity: 1000Gi\n") && text.contains("\n  number: \"1000\"\n"), "{text}");
    }
}
