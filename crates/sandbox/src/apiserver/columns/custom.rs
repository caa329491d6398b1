//! The columns of custom kinds: `additionalPrinterColumns`, whose cells are JSONPaths.
use super::since;
use super::words::name;
use jiff::Timestamp;
use serde_json::{Value, json};

/// One of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: Vec<Step>,
}

/// One step of a JSONPath.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    /// `[?(@.field=="value")]`
    Where(Vec<String>, String),
}

/// The columns that a version of a CustomResourceDefinition asks for; the age alone when it asks for none.
pub fn of_definition(version: &Value) -> Vec<CustomColumn> {
    let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
    if columns.is_empty() {
        let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        return vec![column(&age)];
    }
    columns.iter().map(column).collect()
}

fn column(written: &Value) -> CustomColumn {
    let text = |field: &str| written[field].as_str().unwrap_or_default().to_owned();
    CustomColumn {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: written["priority"].as_i64().unwrap_or_default(),
        path: path(&text("jsonPath")),
    }
}

/// `columnDefinitions`; the name comes first.
pub(super) fn definitions(columns: &[CustomColumn]) -> Value {
    let mut list = vec![json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0})];
    list.extend(columns.iter().map(|c| {
        json!({"name": c.name, "type": c.kind, "format": c.format, "description": c.description, "priority": c.priority})
    }));
    Value::Array(list)
}

pub(super) fn cells(columns: &[CustomColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(columns.iter().map(|column| cell(column, object, now)));
    cells
}

fn cell(column: &CustomColumn, object: &Value, now: Timestamp) -> Value {
    let mut found = vec![object];
    for step in &column.path {
        found = found.into_iter().flat_map(|value| follow(step, value)).collect();
    }
    let Some(value) = found.first() else { return Value::Null };
    match (column.kind.as_str(), value) {
        (_, Value::Null) => Value::Null,
        ("date", Value::String(time)) => json!(since(time, now)),
        ("integer" | "number" | "boolean", value) => (*value).clone(),
        (_, Value::String(text)) => json!(text),
        (_, other) => json!(other.to_string()),
    }
}

fn follow<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::All => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Where(field, wanted) => {
            let items = value.as_array().into_iter().flatten();
            items
                .filter(|item| {
                    let found = field.iter().fold(*item, |at, name| &at[name]);
                    match found {
                        Value::String(text) => text == wanted,
                        other => other.to_string().as_str() == wanted,
                    }
                })
                .collect()
        }
    }
}

/// Reads the JSONPaths that columns use: fields, escaped dots, indices, `[*]` and one equality.
fn path(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text.trim().trim_start_matches('$');
    while let Some(first) = rest.chars().next() {
        match first {
            '.' => rest = &rest[1..],
            '[' => {
                let end = closing(rest);
                steps.extend(bracket(&rest[1..end]));
                rest = rest.get(end + 1..).unwrap_or_default();
            }
            _ => {
                let (field, after) = field(rest);
                steps.push(if field == "*" { Step::All } else { Step::Field(field) });
                rest = after;
            }
        }
    }
    steps
}

/// Index at which the bracket that a text begins with is closed.
fn closing(text: &str) -> usize {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (']', None) => return at,
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn bracket(inside: &str) -> Option<Step> {
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = inside.parse() {
        return Some(Step::Index(index));
    }
    let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) else {
        return Some(Step::Field(unquoted(inside)));
    };
    let (field, wanted) = filter.split_once("==")?;
    let field = field.trim().trim_start_matches('@').split('.').filter(|f| !f.is_empty()).map(str::to_owned);
    Some(Step::Where(field.collect(), unquoted(wanted)))
}

/// A field's name up to the next dot or bracket; a backslash takes the meaning from a dot.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, next)| next)),
            '.' | '[' => return (name, &text[at..]),
            letter => name.push(letter),
        }
    }
    (name, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_that_definitions_use_are_read() {
        let object = json!({"metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "default"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}], "count": 3}});
        let shown = |kind: &str, text: &str| {
            let written = json!({"name": "x", "type": kind, "jsonPath": text});
            cell(&column(&written), &object, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(shown("string", ".metadata.labels.karpenter\\.sh/nodepool"), "default");
        assert_eq!(shown("string", ".metadata.labels[\"karpenter.sh/nodepool\"]"), "default");
        assert_eq!(shown("string", ".status.conditions[?(@.type==\"Ready\")].status"), "True");
        assert_eq!(shown("string", ".status.conditions[?(@.type=='Ready')].status"), "True");
        assert_eq!(shown("string", ".status.conditions[0].type"), "A");
        assert_eq!(shown("integer", ".status.count"), 3);
        assert_eq!(shown("string", ".status.count"), "3");
        assert_eq!(shown("string", ".status.none"), Value::Null);
    }
}
