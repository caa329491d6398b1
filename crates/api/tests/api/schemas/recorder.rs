//! A deserializer that writes down which fields each type asks for, and where.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// Fields by the path at which a type asked for them.
pub type Asked = RefCell<BTreeMap<String, BTreeSet<&'static str>>>;

/// A value, where it stands, and what has been asked.
pub struct Recorder<'a> {
    pub value: &'a Value,
    pub path: String,
    pub asked: &'a Asked,
}

impl<'de> Deserializer<'de> for Recorder<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.iter(), path: format!("{}[]", self.path), asked: self.asked })
            }
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.iter(), next: None, path: self.path, asked: self.asked })
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.asked.borrow_mut().entry(self.path.clone()).or_default().extend(fields);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Value>,
    path: String,
    asked: &'a Asked,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.items.next() else { return Ok(None) };
        seed.deserialize(Recorder { value, path: self.path.clone(), asked: self.asked }).map(Some)
    }
}

struct Fields<'a> {
    fields: serde_json::map::Iter<'a>,
    next: Option<(&'a String, &'a Value)>,
    path: String,
    asked: &'a Asked,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.next = self.fields.next();
        let Some((name, _)) = self.next else { return Ok(None) };
        seed.deserialize(serde::de::value::StrDeserializer::<Error>::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, value) = self.next.take().expect("a key comes first");
        let dot = if self.path.is_empty() { "" } else { "." };
        seed.deserialize(Recorder { value, path: format!("{}{dot}{name}", self.path), asked: self.asked })
    }
}
