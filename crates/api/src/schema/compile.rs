//! Reading an OpenAPI schema into what the other parts walk.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{FieldPath, cel::SchemaRules, hints};

/// Deeper schemas are refused; those of Pods have about 15 levels.
const MAX_DEPTH: usize = 64;
/// Definition of Kubernetes' quantities in k8s-openapi.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("schema at {path}: {what}")]
pub struct CompileError {
    /// Place in the schema.
    pub path: String,
    /// A sentence that says what is wrong.
    pub what: String,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// A pattern and what it means to a person.
#[derive(Debug)]
pub(super) struct Pattern {
    pub regex: Regex,
    pub hint: String,
}

/// Least and most of a number of things; none is without limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountRange {
    pub least: Option<u64>,
    pub most: Option<u64>,
}

/// One level of a schema.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    pub type_: Option<Type>,
    pub int_or_string: bool,
    pub quantity: bool,
    pub nullable: bool,
    pub properties: BTreeMap<String, SchemaNode>,
    pub required: Vec<String>,
    pub additional: Option<Box<SchemaNode>>,
    pub items: Option<Box<SchemaNode>>,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub enumeration: Vec<Value>,
    pub pattern: Option<Pattern>,
    pub format: Option<String>,
    pub minimum: Option<(f64, bool)>,
    pub maximum: Option<(f64, bool)>,
    /// In characters.
    pub length: CountRange,
    pub item_count: CountRange,
    pub property_count: CountRange,
    pub unique: bool,
    pub set: bool,
    pub map_keys: Vec<String>,
    pub default: Option<Value>,
    pub all_of: Vec<SchemaNode>,
    pub any_of: Vec<SchemaNode>,
    pub one_of: Vec<SchemaNode>,
    pub not: Option<Box<SchemaNode>>,
}

/// A schema ready for use; cheap to share behind a reference, `Send` and `Sync`.
#[derive(Debug)]
pub struct Schema {
    pub(super) root: SchemaNode,
    pub(super) rules: Option<SchemaRules>,
}

impl Schema {
    /// Reads an OpenAPI v3 schema (`openAPIV3Schema` of a CRD), with `$ref` into `$defs` allowed.
    ///
    /// # Errors
    /// A keyword has an impossible value, a pattern does not compile, a CEL rule does not parse, or it is too deep.
    pub fn compile(openapi: &Value) -> Result<Self, CompileError> {
        let definitions = openapi.get("$defs").and_then(Value::as_object);
        let root = Reader { definitions }.node(openapi, &FieldPath::root(), 0)?;
        let rules = SchemaRules::compile(openapi)?;
        Ok(Self { root, rules })
    }
}

struct Reader<'a> {
    definitions: Option<&'a Map<String, Value>>,
}

impl Reader<'_> {
    fn node(&self, schema: &Value, path: &FieldPath, depth: usize) -> Result<SchemaNode, CompileError> {
        let fail = |what: &str| Err(CompileError { path: path.to_string(), what: what.to_string() });
        if depth > MAX_DEPTH {
            return fail("too deep");
        }
        let Some(object) = schema.as_object() else {
            return if schema.is_boolean() {
                Ok(SchemaNode { preserve_unknown: true, ..SchemaNode::default() })
            } else {
                fail("not an object")
            };
        };
        if let Some(name) = object.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/")) {
            let Some(target) = self.definitions.and_then(|definitions| definitions.get(name)) else {
                return fail(&format!("no definition {name}"));
            };
            let mut node = self.node(target, path, depth + 1)?;
            node.quantity = name == QUANTITY;
            node.preserve_unknown |= is_free(target);
            return Ok(node);
        }
        let mut node = scalars(object, path)?;
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                node.properties.insert(name.clone(), self.node(property, &path.key(name), depth + 1)?);
            }
        }
        node.items = self.inner(object.get("items"), path, depth)?;
        match object.get("additionalProperties") {
            Some(Value::Bool(open)) => node.preserve_unknown |= open,
            other => node.additional = self.inner(other, path, depth)?,
        }
        node.not = self.inner(object.get("not"), path, depth)?;
        node.all_of = self.list(object.get("allOf"), path, depth)?;
        node.any_of = self.list(object.get("anyOf"), path, depth)?;
        node.one_of = self.list(object.get("oneOf"), path, depth)?;
        Ok(node)
    }

    fn inner(
        &self,
        schema: Option<&Value>,
        path: &FieldPath,
        depth: usize,
    ) -> Result<Option<Box<SchemaNode>>, CompileError> {
        schema.map(|schema| self.node(schema, path, depth + 1).map(Box::new)).transpose()
    }

    fn list(&self, schemas: Option<&Value>, path: &FieldPath, depth: usize) -> Result<Vec<SchemaNode>, CompileError> {
        schemas
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|schema| self.node(schema, path, depth + 1))
            .collect()
    }
}

/// True if a definition of Kubernetes' says "any object": FieldsV1 and RawExtension do, by naming no field.
fn is_free(definition: &Value) -> bool {
    let names = ["properties", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref"];
    definition["type"] == "object" && names.iter().all(|name| definition.get(name).is_none())
}

/// The keywords that hold no schema.
fn scalars(object: &Map<String, Value>, path: &FieldPath) -> Result<SchemaNode, CompileError> {
    let flag = |name: &str| object.get(name).and_then(Value::as_bool).unwrap_or(false);
    let count = |name: &str| object.get(name).and_then(Value::as_u64);
    let range = |least: &str, most: &str| CountRange { least: count(least), most: count(most) };
    let texts = |name: &str| -> Vec<String> {
        object
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(String::from))
            .collect()
    };
    let number = |name: &str| object.get(name).and_then(Value::as_f64);
    let list_type = object.get("x-kubernetes-list-type").and_then(Value::as_str);
    let pattern =
        object.get("pattern").and_then(Value::as_str).map(|pattern| read_pattern(pattern, path)).transpose()?;
    Ok(SchemaNode {
        type_: read_type(object, path)?,
        int_or_string: flag("x-kubernetes-int-or-string"),
        nullable: flag("nullable"),
        required: texts("required"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        enumeration: object.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        pattern,
        format: object.get("format").and_then(Value::as_str).map(String::from),
        minimum: number("minimum").map(|bound| (bound, flag("exclusiveMinimum"))),
        maximum: number("maximum").map(|bound| (bound, flag("exclusiveMaximum"))),
        length: range("minLength", "maxLength"),
        item_count: range("minItems", "maxItems"),
        property_count: range("minProperties", "maxProperties"),
        unique: flag("uniqueItems"),
        set: list_type == Some("set"),
        map_keys: if list_type == Some("map") { texts("x-kubernetes-list-map-keys") } else { Vec::new() },
        default: object.get("default").cloned(),
        ..SchemaNode::default()
    })
}

fn read_pattern(pattern: &str, path: &FieldPath) -> Result<Pattern, CompileError> {
    let regex = Regex::new(pattern)
        .map_err(|error| CompileError { path: path.to_string(), what: format!("pattern {pattern:?}: {error}") })?;
    Ok(Pattern { regex, hint: hints::pattern(pattern) })
}

fn read_type(object: &Map<String, Value>, path: &FieldPath) -> Result<Option<Type>, CompileError> {
    let Some(name) = object.get("type") else { return Ok(None) };
    let type_ = match name.as_str() {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => return Err(CompileError { path: path.to_string(), what: format!("no type is called {name}") }),
    };
    Ok(Some(type_))
}
