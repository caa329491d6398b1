//! Version 2 as protobuf: the messages of gnostic's `openapi.v2`, the form in which Go's clients ask for it.
use serde_json::{Map, Value};

pub fn document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, &info(&document["info"]));
    out.message(8, &named(&document["paths"], 2, path_item));
    out.message(9, &named(&document["definitions"], 1, schema));
    out.0
}

/// A message: its fields one after another, each with its number. What is not there or of another type is left out.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, values: &Value) {
        values.as_array().into_iter().flatten().for_each(|value| self.text(field, value));
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if value == true {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn integer(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_i64() {
            self.varint(field << 3);
            self.varint(number.cast_unsigned());
        }
    }

    fn double(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_f64() {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// `Any`: JSON is YAML.
    fn any(&mut self, field: u64, value: &Value) {
        if !value.is_null() {
            let mut any = Message::default();
            any.bytes(2, value.to_string().as_bytes());
            self.message(field, &any);
        }
    }

    /// The extensions of an object: `NamedAny`.
    fn extensions(&mut self, field: u64, object: &Value) {
        for (name, value) in members(object).filter(|(name, _)| name.starts_with("x-")) {
            let mut one = Message::default();
            one.bytes(1, name.as_bytes());
            one.any(2, value);
            self.message(field, &one);
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// A map: a repeated field of pairs of a name and a message.
fn named(map: &Value, field: u64, each: impl Fn(&Value) -> Message) -> Message {
    let mut out = Message::default();
    for (name, value) in members(map) {
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.message(2, &each(value));
        out.message(field, &pair);
    }
    out
}

fn wrapped(field: u64, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(field, inner);
    out
}

fn info(info: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &info["title"]);
    out.text(2, &info["version"]);
    out
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (field, verb) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[verb].is_object() {
            out.message(field, &operation(&item[verb]));
        }
    }
    out
}

fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    out.texts(7, &operation["consumes"]);
    for one in operation["parameters"].as_array().into_iter().flatten() {
        out.message(8, &wrapped(1, &parameter(one)));
    }
    let response = |response: &Value| {
        let mut out = Message::default();
        out.text(1, &response["description"]);
        wrapped(1, &out)
    };
    out.message(9, &named(&operation["responses"], 1, response));
    out.extensions(13, operation);
    out
}

fn parameter(parameter: &Value) -> Message {
    let mut out = Message::default();
    if parameter["in"] == "body" {
        out.text(2, &parameter["name"]);
        out.text(3, &parameter["in"]);
        out.flag(4, &parameter["required"]);
        out.message(5, &schema(&parameter["schema"]));
        return wrapped(1, &out);
    }
    out.text(2, &parameter["in"]);
    out.text(4, &parameter["name"]);
    out.text(6, &parameter["type"]);
    wrapped(2, &wrapped(3, &out))
}

fn schema(schema_: &Value) -> Message {
    let of = |name: &str| &schema_[name];
    let mut out = Message::default();
    for (field, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        out.text(field, of(name));
    }
    out.any(5, of("default"));
    for (field, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(field, of(name));
    }
    for (field, name) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems"), (27, "readOnly")] {
        out.flag(field, of(name));
    }
    let counts = ["maxLength", "minLength", "", "maxItems", "minItems", "", "maxProperties", "minProperties"];
    for (field, name) in (11..).zip(counts) {
        out.integer(field, of(name));
    }
    out.texts(19, of("required"));
    of("enum").as_array().into_iter().flatten().for_each(|value| out.any(20, value));
    match of("additionalProperties") {
        Value::Bool(allowed) => out.message(21, &{
            let mut item = Message::default();
            item.flag(2, &Value::Bool(*allowed));
            item
        }),
        Value::Object(_) => out.message(21, &wrapped(1, &schema(of("additionalProperties")))),
        _ => {}
    }
    if of("type").is_string() {
        out.message(22, &{
            let mut kind = Message::default();
            kind.text(1, of("type"));
            kind
        });
    }
    if of("items").is_object() {
        out.message(23, &wrapped(1, &schema(of("items"))));
    }
    of("allOf").as_array().into_iter().flatten().for_each(|one| out.message(24, &schema(one)));
    if of("properties").is_object() {
        out.message(25, &named(of("properties"), 1, schema));
    }
    out.extensions(31, schema_);
    out
}
