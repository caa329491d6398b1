//! Allowed values, in words.

use serde_json::Value;

use super::compile::{SchemaNode, Type};
use crate::crds::patterns;

/// A pattern in words; one that nobody has words for is shown itself.
pub(super) fn pattern(pattern: &str) -> String {
    let words = match pattern {
        patterns::DURATION => "a duration of hours, minutes and seconds, such as 1h30m",
        patterns::DURATION_OR_NEVER => "a duration of hours, minutes and seconds, such as 1h30m, or Never",
        patterns::BUDGET_NODES => "a count of nodes or a percentage from 0% to 100%",
        patterns::BUDGET_DURATION => "a duration of hours and minutes, such as 1h30m",
        patterns::SCHEDULE => "a cron line of five fields, or @hourly, @daily, @weekly, @monthly, @yearly",
        patterns::KEY => "a name of letters, digits, '-', '_' and '.', after an optional lower-case domain and '/'",
        patterns::LABEL_VALUE => "nothing, or letters, digits, '-', '_' and '.', first and last a letter or digit",
        patterns::QUANTITY => QUANTITY,
        patterns::TIME => "a time as RFC 3339 writes it, such as 2026-01-02T15:04:05Z",
        other => return format!("text that matches {other}"),
    };
    words.to_string()
}

/// Form of a quantity, in words.
pub(super) const QUANTITY: &str =
    "a quantity: a number, then nothing or one of m k M G T P E Ki Mi Gi Ti Pi Ei, such as 500m or 2Gi";

/// Values that a level of a schema allows, in words.
pub(super) fn allowed(node: &SchemaNode) -> String {
    if !node.enumeration.is_empty() {
        return values(&node.enumeration);
    }
    if node.quantity {
        return QUANTITY.into();
    }
    if let Some(pattern) = &node.pattern {
        return pattern.hint.clone();
    }
    if node.int_or_string {
        return "an integer or text".into();
    }
    node.type_.map_or_else(|| "a value".into(), |type_| type_name(type_).into())
}

/// Values in a row.
pub(super) fn values(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), String::from))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A type in words.
pub(super) fn type_name(type_: Type) -> &'static str {
    match type_ {
        Type::Object => "a mapping",
        Type::Array => "a list",
        Type::String => "text",
        Type::Integer => "an integer",
        Type::Number => "a number",
        Type::Boolean => "true or false",
    }
}

/// A value in words, short.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Object(_) => "a mapping".into(),
        Value::Array(_) => "a list".into(),
        Value::String(text) if text.chars().count() > 80 => format!("{:?}…", text.chars().take(80).collect::<String>()),
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// The known names, the nearest first if one is near, at most 30.
pub(super) fn fields<'a>(known: impl Iterator<Item = &'a str>, written: &str) -> (Option<String>, String) {
    let mut names: Vec<&str> = known.collect();
    names.sort_unstable();
    let near = names
        .iter()
        .filter(|name| is_near(name, written))
        .map(|name| (distance(&name.to_ascii_lowercase(), &written.to_ascii_lowercase()), *name))
        .min()
        .map(|(_, name)| name.to_string());
    let more = names.len().saturating_sub(30);
    names.truncate(30);
    let mut list = names.join(", ");
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    (near, list)
}

/// True if a name is likely a slip of a known one.
pub(crate) fn is_near(known: &str, written: &str) -> bool {
    distance(&known.to_ascii_lowercase(), &written.to_ascii_lowercase()) <= 1 + known.len() / 5
}

/// Edit distance; texts above 64 bytes count as far apart.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
