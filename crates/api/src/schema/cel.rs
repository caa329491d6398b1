//! CEL rules (`x-kubernetes-validations`), evaluated by kube-cel with Kubernetes' functions.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use kube_cel::{CompiledSchema, ErrorKind as CelKind, Validator};
use serde_json::{Map, Value};

use super::{
    CompileError, ErrorKind, FieldPath, Schema, SchemaError,
    cel_leaves::{Leaf, Passed, without_leaves},
};

/// Holds Kubernetes' functions; the same for every schema.
static VALIDATOR: LazyLock<Validator> = LazyLock::new(Validator::new);

/// The compiled rules of a schema.
pub(super) enum SchemaRules {
    /// The schema has rules of its own, or fills in parts: it is evaluated as a whole.
    Whole(CompiledSchema),
    /// All rules are below its properties: each property by itself.
    ByProperty(BTreeMap<String, PropertyRules>),
}

/// The rules below one property of a schema.
pub(super) struct PropertyRules {
    /// All but those of the leaves.
    all: Option<CompiledSchema>,
    leaves: Vec<Leaf>,
    /// Those that compare with what was there before, if there are any: what did not change need not satisfy the others
    /// again (Kubernetes' validation ratcheting, stable since 1.33).
    transitions: Option<CompiledSchema>,
    /// Values that were right as new ones, and those that were right as ones that did not change.
    passed: [Passed<Value>; 2],
}

impl fmt::Debug for SchemaRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

impl SchemaRules {
    /// Compiles the rules; `None` when there are none.
    pub fn compile(openapi: &Value) -> Result<Option<Self>, CompileError> {
        if !mentions_rules(openapi) {
            return Ok(None);
        }
        if let Some(properties) = only_below_properties(openapi) {
            let parts = properties.iter().filter(|(_, property)| mentions_rules(property));
            let parts = parts.map(|(name, property)| {
                let (rest, leaves) = without_leaves(property)?;
                let (all, transitions) = (compile_some(&rest)?, compile_some(&only_transitions(property))?);
                Ok((name.clone(), PropertyRules { all, leaves, transitions, passed: Default::default() }))
            });
            return parts.collect::<Result<_, _>>().map(|parts| Some(Self::ByProperty(parts)));
        }
        compile(openapi).map(|all| Some(Self::Whole(all)))
    }
}

fn compile_some(openapi: &Value) -> Result<Option<CompiledSchema>, CompileError> {
    mentions_rules(openapi).then(|| compile(openapi)).transpose()
}

pub(super) fn compile(openapi: &Value) -> Result<CompiledSchema, CompileError> {
    let compiled = kube_cel::compile_schema(openapi);
    first_error(&compiled).map_or(Ok(compiled), Err)
}

/// The properties of a schema that has no rules itself and gives none of them a default.
fn only_below_properties(openapi: &Value) -> Option<&Map<String, Value>> {
    let root = openapi.as_object()?;
    let plain = root.iter().all(|(key, value)| key == "properties" || !mentions_rules(value))
        && !root.contains_key("x-kubernetes-validations");
    let properties = root.get("properties")?.as_object()?;
    let filled_in = properties.values().any(|property| property.get("default").is_some());
    (plain && !filled_in).then_some(properties)
}

/// The schema without the rules that look at the new value alone.
fn only_transitions(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object.iter().map(|(key, value)| {
                let value = match value {
                    Value::Array(rules) if key == "x-kubernetes-validations" => {
                        rules.iter().filter(|rule| is_transition(rule)).cloned().collect()
                    }
                    value => only_transitions(value),
                };
                (key.clone(), value)
            });
            // An empty list of rules would still count as a mention of some.
            kept.filter(|(key, value)| key != "x-kubernetes-validations" || *value != Value::Array(vec![])).collect()
        }
        Value::Array(items) => items.iter().map(only_transitions).collect(),
        other => other.clone(),
    }
}

pub(super) fn is_transition(rule: &Value) -> bool {
    rule.get("rule").and_then(Value::as_str).is_some_and(|text| text.contains("oldSelf"))
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.contains_key("x-kubernetes-validations") || object.values().any(mentions_rules),
        Value::Array(items) => items.iter().any(mentions_rules),
        _ => false,
    }
}

fn first_error(schema: &CompiledSchema) -> Option<CompileError> {
    if let Some(error) = schema.compilation_errors().first() {
        return Some(CompileError { path: String::new(), what: format!("rule: {error}") });
    }
    let inner =
        schema.properties.values().chain(schema.items.as_deref()).chain(schema.additional_properties.as_deref());
    inner.filter_map(first_error).min_by(|a, b| a.what.cmp(&b.what))
}

impl Schema {
    /// Evaluates the CEL rules of an object that [`Schema::validate`] found nothing wrong with; `old` is what was stored
    /// before, for transition rules. Sorted by path.
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<SchemaError> {
        let mut errors = match &self.rules {
            None => return Vec::new(),
            Some(SchemaRules::Whole(all)) => evaluate(all, object, old, ""),
            Some(SchemaRules::ByProperty(parts)) => parts
                .iter()
                .filter_map(|(name, part)| {
                    let value = object.get(name)?;
                    let before = old.and_then(|old| old.get(name));
                    Some(part.evaluate(value, before, name))
                })
                .flatten()
                .collect(),
        };
        errors.sort_by(|a, b| (&a.path, &a.what).cmp(&(&b.path, &b.what)));
        errors.dedup();
        errors
    }
}

impl PropertyRules {
    fn evaluate(&self, value: &Value, before: Option<&Value>, name: &str) -> Vec<SchemaError> {
        let unchanged = before == Some(value);
        let rules = if unchanged { &self.transitions } else { &self.all };
        // A value that is new, or unchanged, is right or wrong by itself.
        let passed = (unchanged || before.is_none()).then_some(&self.passed[usize::from(unchanged)]);
        if passed.is_some_and(|passed| passed.has(value)) {
            return Vec::new();
        }
        let mut errors = rules.as_ref().map_or_else(Vec::new, |rules| evaluate(rules, value, before, name));
        if !unchanged {
            errors.extend(self.leaves.iter().flat_map(|leaf| leaf.check(value, name)));
        }
        if let Some(passed) = passed.filter(|_| errors.is_empty()) {
            passed.add(value);
        }
        errors
    }
}

/// Violations of the rules by the value at `path`.
pub(super) fn evaluate(rules: &CompiledSchema, value: &Value, old: Option<&Value>, path: &str) -> Vec<SchemaError> {
    let Err(failures) = VALIDATOR.validate_compiled(rules, value, old) else { return Vec::new() };
    let messages = failures.into_vec().into_iter().map(|failure| {
        let what = match failure.kind {
            CelKind::ValidationFailure => failure.message,
            _ => format!("rule {:?} cannot be evaluated: {}", failure.rule, failure.message),
        };
        let below = failure.field_path;
        let dot = if path.is_empty() || below.is_empty() || below.starts_with('[') { "" } else { "." };
        SchemaError::new(FieldPath::parse(&format!("{path}{dot}{below}")), ErrorKind::Rule, what, "")
    });
    messages.collect()
}
