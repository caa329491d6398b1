//! Rules of single words, such as the keys of requirements: each word is asked about once, as most are met again and again
//! and a rule with a regular expression compiles it every time.

use std::{
    borrow::{Borrow, ToOwned},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube_cel::CompiledSchema;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};

use super::{
    CompileError, SchemaError,
    cel::{compile, evaluate, is_transition},
    path::Trail,
};

/// Most values that are remembered as right; then all are forgotten.
const REMEMBERED: usize = 512;

/// Values that were found to be right.
#[derive(Debug)]
pub(super) struct Passed<T>(Mutex<FxHashSet<T>>);

impl<T> Default for Passed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash> Passed<T> {
    /// True if the value was found to be right before.
    pub fn has<Q: Eq + Hash + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.all().contains(value)
    }

    /// Remembers a value as right.
    pub fn add<Q: ToOwned<Owned = T> + ?Sized>(&self, value: &Q) {
        let mut all = self.all();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(value.to_owned());
    }

    fn all(&self) -> MutexGuard<'_, FxHashSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A word's rules.
pub(super) struct Leaf {
    way: Vec<Way>,
    rules: CompiledSchema,
    passed: Passed<String>,
}

/// A step from a schema to one that lies in it.
#[derive(Clone)]
enum Way {
    Field(String),
    Items,
}

/// A schema without the rules of its words, and those. What compares with what was there before stays where it is, and so
/// does what lies below a default: it may not be written.
pub(super) fn without_leaves(schema: &Value) -> Result<(Value, Vec<Leaf>), CompileError> {
    let mut leaves = Vec::new();
    let rest = strip(schema, &mut Vec::new(), &mut leaves);
    let compiled = leaves
        .into_iter()
        .map(|(way, schema)| Ok(Leaf { way, rules: compile(&schema)?, passed: Passed::default() }))
        .collect::<Result<_, _>>()?;
    Ok((rest, compiled))
}

fn strip(schema: &Value, way: &mut Vec<Way>, leaves: &mut Vec<(Vec<Way>, Value)>) -> Value {
    let Some(members) = schema.as_object().filter(|members| !members.contains_key("default")) else {
        return schema.clone();
    };
    if is_leaf(members) {
        leaves.push((way.clone(), schema.clone()));
        return members
            .iter()
            .filter(|(name, _)| *name != RULES)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
    }
    let mut below = |step: Way, inner: &Value| {
        way.push(step);
        let rest = strip(inner, way, leaves);
        way.pop();
        rest
    };
    let rest = members.iter().map(|(name, value)| {
        let rest = match (name.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().map(|(field, inner)| (field.clone(), below(Way::Field(field.clone()), inner))).collect()
            }
            ("items", inner) => below(Way::Items, inner),
            (_, other) => other.clone(),
        };
        (name.clone(), rest)
    });
    rest.collect()
}

const RULES: &str = "x-kubernetes-validations";

fn is_leaf(schema: &Map<String, Value>) -> bool {
    let text = schema.get("type").is_some_and(|kind| kind == "string");
    text && schema.get(RULES).and_then(Value::as_array).is_some_and(|rules| !rules.iter().any(is_transition))
}

impl Leaf {
    /// Violations of the rules by the words below the value of the root's field `name`.
    pub fn check(&self, value: &Value, name: &str) -> Vec<SchemaError> {
        let mut errors = Vec::new();
        self.walk(&self.way, value, &Trail::default().key(name), &mut errors);
        errors
    }

    fn walk(&self, way: &[Way], value: &Value, trail: &Trail<'_>, errors: &mut Vec<SchemaError>) {
        let Some((step, rest)) = way.split_first() else { return self.word(value, trail, errors) };
        match (step, value) {
            (Way::Field(name), Value::Object(fields)) => {
                if let Some(inner) = fields.get(name) {
                    self.walk(rest, inner, &trail.key(name), errors);
                }
            }
            (Way::Items, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(rest, item, &trail.index(index), errors);
                }
            }
            _ => {}
        }
    }

    fn word(&self, value: &Value, trail: &Trail<'_>, errors: &mut Vec<SchemaError>) {
        if value.as_str().is_some_and(|word| self.passed.has(word)) {
            return;
        }
        let found = evaluate(&self.rules, value, None, &trail.path().to_string());
        if let (true, Some(word)) = (found.is_empty(), value.as_str()) {
            self.passed.add(word);
        }
        errors.extend(found);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use crate::schema::Schema;

    fn told(schema: &Schema, keys: &[&str]) -> Vec<String> {
        let list: Vec<Value> = keys.iter().map(|key| json!({"key": key})).collect();
        let errors = schema.check_rules(&json!({"spec": {"list": list}}), None);
        errors.iter().map(|error| format!("{}: {}", error.path, error.what)).collect()
    }

    #[test]
    fn a_word_is_judged_the_same_each_time_and_where_it_stands() {
        let rule = json!({"rule": "!self.matches('^bad')", "message": "it is bad"});
        let key = json!({"type": "string", "x-kubernetes-validations": [rule]});
        let item = json!({"type": "object", "properties": {"key": key}});
        let list = json!({"type": "array", "items": item, "x-kubernetes-validations": [{"rule": "self.size() < 4", "message": "too many"}]});
        let spec = json!({"type": "object", "properties": {"list": list}});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
        for _ in 0..2 {
            assert_eq!(told(&schema, &["good"]), Vec::<String>::new());
            assert_eq!(told(&schema, &["good", "bad"]), ["spec.list[1].key: it is bad"]);
            assert_eq!(told(&schema, &["a", "b", "c", "d"]), ["spec.list: too many"]);
        }
    }

    #[test]
    fn what_did_not_change_is_not_looked_into_again() {
        let word = json!({"type": "string", "pattern": "^a"});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"x": word, "y": word}})).unwrap();
        let (old, new) = (json!({"x": "b", "y": "a"}), json!({"x": "b", "y": "c"}));
        let errors = schema.validate_change(&new, Some(&old), crate::schema::UnknownFields::Ignore);
        assert_eq!(errors.iter().map(|error| error.path.to_string()).collect::<Vec<_>>(), ["y"]);
    }
}
