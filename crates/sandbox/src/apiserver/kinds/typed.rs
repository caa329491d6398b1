//! Built-in kinds as kube-apiserver's Go types take them: a field that is null is not there, a time has one form, an integer
//! its range, a quantity its form. What does not fit is a body that cannot be decoded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dovetail_api::schema::written;
use serde_json::{Map, Value, json};

use crate::apiserver::kinds::forms::{micro_time, quantity, time};
use crate::apiserver::registry::ResourceDef;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    /// Anything; nothing is looked at.
    Open,
    Text,
    Int32,
    Int64,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    List(Box<Type>),
    Map(Box<Type>),
    /// A Go struct, by its name among those of the kind.
    Struct(String),
}

/// The types of a kind: structs by name, each with its fields.
#[derive(Debug, Default)]
struct Kind {
    structs: BTreeMap<String, BTreeMap<String, Type>>,
    root: Option<Type>,
}

/// The name of the root among the structs.
const ROOT: &str = "";

/// Brings an object of a built-in kind to the form in which it is stored.
///
/// # Errors
/// The field that cannot be decoded, and why.
pub fn decode(def: &ResourceDef, object: &mut Value) -> Result<(), String> {
    let kind = kind(&def.api_version(), &def.kind);
    let Some(root) = &kind.root else { return Ok(()) };
    // A struct that is always there.
    if kind.structs.get(ROOT).is_some_and(|fields| fields.contains_key("spec")) && object["spec"].is_null() {
        object["spec"] = json!({});
    }
    kind.walk(root, object, &mut String::new())
}

fn kind(api_version: &str, name: &str) -> Arc<Kind> {
    type Known = BTreeMap<(String, String), Arc<Kind>>;
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (api_version.to_owned(), name.to_owned());
    known.entry(key).or_insert_with(|| Arc::new(Kind::from_schema(written(api_version, name)))).clone()
}

impl Kind {
    fn from_schema(schema: Option<Value>) -> Self {
        let mut kind = Kind::default();
        let Some(schema) = schema else { return kind };
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            if part["properties"].is_object() {
                kind.structs.insert(name.clone(), fields(&schema, part));
            }
        }
        kind.structs.insert(ROOT.to_owned(), fields(&schema, &schema));
        kind.root = schema["properties"].is_object().then(|| Type::Struct(ROOT.to_owned()));
        kind
    }

    fn walk(&self, of: &Type, value: &mut Value, path: &mut String) -> Result<(), String> {
        let wrong = |path: &str, what: &str| Err(format!("json: cannot unmarshal {path}: {what}"));
        match (of, value) {
            (Type::Struct(name), Value::Object(map)) => self.fields(name, map, path),
            (Type::Map(of), Value::Object(map)) => {
                let mut each = map.iter_mut();
                each.try_for_each(|(name, one)| {
                    zero(of, one);
                    within(path, name, |path| self.walk(of, one, path))
                })
            }
            (Type::List(of), Value::Array(items)) => {
                let mut each = items.iter_mut();
                each.try_for_each(|one| {
                    zero(of, one);
                    self.walk(of, one, path)
                })
            }
            (Type::Int32, value) => {
                whole(value, i64::from(i32::MIN), i64::from(i32::MAX)).or_else(|why| wrong(path, &why))
            }
            (Type::Int64, value) => whole(value, i64::MIN, i64::MAX).or_else(|why| wrong(path, &why)),
            (Type::IntOrString, value) if value.is_number() => {
                whole(value, i64::from(i32::MIN), i64::from(i32::MAX)).or_else(|why| wrong(path, &why))
            }
            (Type::Time, value) => time(value).or_else(|why| wrong(path, &why)),
            (Type::MicroTime, value) => micro_time(value).or_else(|why| wrong(path, &why)),
            (Type::Quantity, value) => quantity(value).or_else(|why| wrong(path, &why)),
            _ => Ok(()),
        }
    }

    fn fields(&self, name: &str, map: &mut Map<String, Value>, path: &mut String) -> Result<(), String> {
        map.retain(|_, value| !value.is_null());
        let Some(fields) = self.structs.get(name) else { return Ok(()) };
        for (name, value) in map.iter_mut() {
            if let Some(of) = fields.get(name) {
                within(path, name, |path| self.walk(of, value, path))?;
            }
        }
        Ok(())
    }
}

/// Does something at a member of where one is.
fn within<T>(path: &mut String, name: &str, mut what: impl FnMut(&mut String) -> T) -> T {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    let done = what(path);
    path.truncate(length);
    done
}

/// A null among the members of a map or a list is what Go has for nothing.
fn zero(of: &Type, value: &mut Value) {
    if value.is_null() {
        *value = match of {
            Type::Text => json!(""),
            Type::Quantity => json!("0"),
            Type::Struct(_) => json!({}),
            _ => return,
        };
    }
}

/// `-0` is zero, and an integer.
pub fn zeros(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(zeros),
        Value::Object(map) => map.values_mut().for_each(zeros),
        Value::Number(number) if number.as_f64().is_some_and(|float| float == 0.0 && float.is_sign_negative()) => {
            *value = json!(0);
        }
        _ => {}
    }
}

/// An integer in its range.
fn whole(value: &Value, least: i64, most: i64) -> Result<(), String> {
    match value.as_i64() {
        Some(number) if (least..=most).contains(&number) => Ok(()),
        None if !value.is_number() => Ok(()),
        _ => Err(format!("number {value} is out of range")),
    }
}

fn fields(schema: &Value, part: &Value) -> BTreeMap<String, Type> {
    let properties = part["properties"].as_object().into_iter().flatten();
    properties.map(|(name, property)| (name.clone(), property_type(schema, property))).collect()
}

fn property_type(schema: &Value, property: &Value) -> Type {
    if let Some(name) = property["$ref"].as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
        return match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "Time" => Type::Time,
            "MicroTime" => Type::MicroTime,
            _ if schema["$defs"][name]["properties"].is_object() => Type::Struct(name.to_owned()),
            _ => Type::Open,
        };
    }
    // A field that has a description besides.
    if let [one] = property["allOf"].as_array().map_or(&[][..], Vec::as_slice) {
        return property_type(schema, one);
    }
    match (property["type"].as_str(), property["format"].as_str()) {
        (Some("integer"), Some("int32")) => Type::Int32,
        (Some("integer"), _) => Type::Int64,
        (Some("string"), Some("byte")) => Type::Open,
        (Some("string"), _) => Type::Text,
        (Some("array"), _) => Type::List(Box::new(property_type(schema, &property["items"]))),
        (Some("object"), _) if property["additionalProperties"].is_object() => {
            Type::Map(Box::new(property_type(schema, &property["additionalProperties"])))
        }
        _ => Type::Open,
    }
}

/// Stores numbers of a custom kind without a fraction as integers, however they are written.
pub fn integers(value: &mut Value) {
    /// Beyond it Go writes an exponent.
    const LARGEST: f64 = 9.0e18;
    match value {
        Value::Array(items) => items.iter_mut().for_each(integers),
        Value::Object(map) => map.values_mut().for_each(integers),
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LARGEST);
            if let Some(whole) = whole {
                *value = json!(whole as i64);
            }
        }
        _ => {}
    }
}
