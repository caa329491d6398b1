//! YAML as a tree that knows its lines, built from the parser's events.

use serde_json::{Map, Value};

use crate::schema::{FieldPath, PathStep};

/// A value with the line that it starts on.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub line: usize,
    pub content: Content,
}

/// A value's content: a list, a mapping or a scalar.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Text, number, boolean or null.
    Scalar(Value),
    /// A list.
    List(Vec<YamlNode>),
    /// A mapping, as written: keys may stand twice.
    Mapping(Vec<MapEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct MapEntry {
    pub key: String,
    pub line: usize,
    pub value: YamlNode,
}

impl YamlNode {
    /// The value without lines; of a key that stands twice the last counts.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Content::Mapping(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// The entries of a mapping, none of anything else.
    pub fn entries(&self) -> &[MapEntry] {
        match &self.content {
            Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list, none of anything else.
    pub fn items(&self) -> &[YamlNode] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().rev().find(|entry| entry.key == key)
    }

    /// True if it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.content, Content::Scalar(Value::Null))
    }

    /// The line of a path, or of what is there on the way to it.
    pub fn line_of(&self, path: &FieldPath) -> usize {
        let mut node = self;
        let mut line = self.line;
        for step in &path.0 {
            let next = match step {
                PathStep::Key(key) => node.entry(key).map(|entry| (entry.line, &entry.value)),
                PathStep::Index(index) => node.items().get(*index).map(|item| (item.line, item)),
            };
            let Some((at, inner)) = next else { break };
            (line, node) = (at, inner);
        }
        line
    }

    /// Number of values that it holds, itself included, and bytes of its texts and keys.
    pub fn size(&self) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            count += 1;
            if let Content::Scalar(Value::String(text)) = &node.content {
                bytes += text.len();
            }
            bytes += node.entries().iter().map(|entry| entry.key.len()).sum::<usize>();
            open.extend(node.items());
            open.extend(node.entries().iter().map(|entry| &entry.value));
        }
        (count, bytes)
    }
}
