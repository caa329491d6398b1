//! Hashes of values as Karpenter's Go has them: FNV-1 over the names and values of struct fields, as the library
//! `hashstructure` (version 2, format 2) computes it with its options SlicesAsSets, IgnoreZeroValue and ZeroNil.
//!
//! - A field of its type's zero value is left out. A pointer, a map and a list are zero only where they are absent.
//! - Maps and lists have no order: their entries are joined by XOR, so that an item that is listed twice counts as none.
//! - A struct begins with the hash of its type's name, and each field is mixed in: the order of fields counts.

use dovetail_api::hash::fnv_1;
use dovetail_api::quantity::{with_binary_suffix, with_decimal_suffix};
use dovetail_api::v1::parse_go_duration;
use jiff::Timestamp;
use serde_json::Value;

use crate::quantity;

/// A Go type, with what its JSON is.
#[derive(Debug)]
pub(super) enum GoType {
    /// `string`.
    Text,
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `map[string]string`.
    Words,
    /// A slice of structs or of pointers to them.
    List(&'static GoStruct),
    /// A struct.
    Struct(&'static GoStruct),
    /// A pointer: it counts whatever it points to.
    Pointer(&'static GoType),
    /// `*resource.Quantity` with the tag `hash:"string"`.
    Quantity,
    /// `time.Duration`; as JSON a text such as `1h30m`.
    Span,
    /// `*time.Duration`, absent where the text is `Never`.
    SpanOrNever,
    /// `time.Time` in a process whose zone is UTC.
    Time,
}

/// A Go struct: its name, and its hashed fields in the order of their declaration.
#[derive(Debug)]
pub(super) struct GoStruct {
    pub name: &'static str,
    pub fields: &'static [GoField],
}

/// A field: its name in Go, its key in JSON (empty for an embedded one, which has its struct's own JSON), its type.
#[derive(Debug)]
pub(super) struct GoField(pub &'static str, pub &'static str, pub GoType);

impl GoStruct {
    fn fields_of<'a>(&'static self, value: &'a Value) -> impl Iterator<Item = (&'static GoField, &'a Value)> {
        self.fields.iter().map(move |field| (field, if field.1.is_empty() { value } else { &value[field.1] }))
    }

    /// Hash of the struct with this JSON; absent fields are `null`.
    pub fn hash(&'static self, value: &Value) -> u64 {
        self.fields_of(value)
            .filter(|(GoField(.., kind), value)| !kind.is_zero(value))
            .fold(text(self.name), |hash, (GoField(name, _, kind), value)| {
                mixed(hash ^ pair(text(name), kind.hash(value)))
            })
    }
}

impl GoType {
    fn is_zero(&self, value: &Value) -> bool {
        match self {
            _ if value.is_null() => true,
            Self::Text => value.as_str().is_none_or(str::is_empty),
            Self::Bool => !is_true(value),
            Self::Int32 | Self::Int64 => number(value) == 0,
            Self::Span => nanos(value) == 0,
            Self::SpanOrNever => value == NEVER,
            Self::Struct(one) => one.fields_of(value).all(|(GoField(.., kind), value)| kind.is_zero(value)),
            Self::Words | Self::List(_) | Self::Pointer(_) | Self::Quantity | Self::Time => false,
        }
    }

    fn hash(&self, value: &Value) -> u64 {
        match self {
            Self::Text => text(value.as_str().unwrap_or_default()),
            Self::Bool => fnv_1([u8::from(is_true(value))]),
            Self::Int32 => fnv_1(i32::try_from(number(value)).unwrap_or_default().to_le_bytes()),
            Self::Int64 => fnv_1(number(value).to_le_bytes()),
            Self::Span | Self::SpanOrNever => fnv_1(nanos(value).to_le_bytes()),
            Self::Words => {
                let of_entry = |(key, value): (&String, &Value)| pair(text(key), Self::Text.hash(value));
                mixed(joined(value.as_object().into_iter().flatten().map(of_entry)))
            }
            Self::List(one) => joined(value.as_array().into_iter().flatten().map(|item| one.hash(item))),
            Self::Struct(one) => one.hash(value),
            Self::Pointer(to) => to.hash(value),
            Self::Quantity => text(&quantity_text(value.as_str().unwrap_or_default())),
            Self::Time => moment(value),
        }
    }
}

/// Text of a duration that is none.
const NEVER: &str = "Never";

/// Hash of a string.
pub(super) fn text(text: &str) -> u64 {
    fnv_1(text.bytes())
}

/// Hashes without an order.
pub(super) fn joined(all: impl IntoIterator<Item = u64>) -> u64 {
    all.into_iter().fold(0, |joined, one| joined ^ one)
}

fn pair(key: u64, value: u64) -> u64 {
    fnv_1(key.to_le_bytes().into_iter().chain(value.to_le_bytes()))
}

fn mixed(hash: u64) -> u64 {
    fnv_1(hash.to_le_bytes())
}

fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn nanos(value: &Value) -> i64 {
    let span = parse_go_duration(value.as_str().unwrap_or_default()).unwrap_or_default();
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Version of the bytes by which Go writes a time, and the time's distance from UTC in minutes.
const TIME_FORMAT: u8 = 1;
/// Seconds from the year 1, from which Go counts, to 1970.
const SECONDS_BEFORE_UNIX: i64 = 62_135_596_800;

fn moment(value: &Value) -> u64 {
    let time: Timestamp = value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
    let seconds = time.as_second().saturating_add(SECONDS_BEFORE_UNIX).to_be_bytes();
    let rest = [time.subsec_nanosecond().to_be_bytes().as_slice(), &[0, 0]].concat();
    fnv_1([TIME_FORMAT].into_iter().chain(seconds).chain(rest))
}

/// A quantity as Go writes it: with the largest suffix of its kind that leaves a whole number.
fn quantity_text(text: &str) -> String {
    match quantity::parse(text, 1).map(i128::from) {
        Ok(amount) if text.ends_with('i') => with_binary_suffix(amount),
        Ok(amount) => with_decimal_suffix(amount),
        Err(_) => text.to_owned(),
    }
}

/// JSON as Go writes it into a text: keys sorted, and `<`, `>`, `&` and two line ends of Unicode escaped.
pub(super) fn json(value: &Value) -> String {
    let mut text = String::new();
    for one in value.to_string().chars() {
        match one {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(one))),
            one => text.push(one),
        }
    }
    text
}
