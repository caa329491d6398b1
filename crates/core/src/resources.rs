//! Amounts of resources as exact integers: cpu in thousandths of a core, everything else in whole units.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use dovetail_api::names::annotations;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{self, QuantityError};

/// Processor time, in thousandths of a core.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Number of pods on a node.
pub const PODS: &str = "pods";
/// Local disk, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of EFA interfaces.
pub const EFA: &str = "vpc.amazonaws.com/efa";
/// Number of nodes, in a NodePool's limits only.
pub const NODES: &str = "nodes";

/// Dollars an hour in millionths, in a NodePool's limits only: the annotation of that name.
pub const DOLLARS: &str = annotations::MAX_COST_PER_HOUR;
/// Units of [`DOLLARS`] in a dollar.
const UNITS_OF_A_DOLLAR: i64 = 1_000_000;

/// A price in units of [`DOLLARS`]; 0 for one that is not known.
#[must_use]
pub fn amount_of_dollars(price: f64) -> i64 {
    (price * UNITS_OF_A_DOLLAR as f64).round() as i64
}

/// The resources that nearly everything names, in order of name.
const COMMON: [&str; 4] = [CPU, EPHEMERAL_STORAGE, MEMORY, PODS];

/// The place of a name in [`COMMON`].
fn common(name: &str) -> Option<usize> {
    match name {
        CPU => Some(0),
        EPHEMERAL_STORAGE => Some(1),
        MEMORY => Some(2),
        PODS => Some(3),
        _ => None,
    }
}

/// Amounts by resource name. A resource that is not there counts as zero. In JSON and YAML a map of quantity
/// strings; plain numbers are read too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Amounts of the common ones, zero where not named: there are thousands of these maps, and nearly all hold
    /// nothing else.
    common: [i64; 4],
    /// True for each common resource that is named.
    named: [bool; 4],
    others: BTreeMap<String, i64>,
}

impl Resources {
    /// A map without resources.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Amounts from quantity text.
    ///
    /// # Errors
    /// [`QuantityError`] for the first text that is no quantity.
    pub fn parse<'a>(amounts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, QuantityError> {
        amounts.into_iter().map(|(name, text)| Ok((name.to_owned(), parse_amount(name, text)?))).collect()
    }

    /// The amount of one resource, zero when it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match common(name) {
            Some(at) => self.common[at],
            None => self.others.get(name).copied().unwrap_or(0),
        }
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<i64> {
        match common(name) {
            Some(at) => self.named[at].then_some(self.common[at]),
            None => self.others.get(name).copied(),
        }
    }

    pub fn set(&mut self, name: impl Into<String> + AsRef<str>, amount: i64) {
        match common(name.as_ref()) {
            Some(at) => (self.common[at], self.named[at]) = (amount, true),
            None => {
                self.others.insert(name.into(), amount);
            }
        }
    }

    /// The amount of [`DOLLARS`] alone, if there is one.
    #[must_use]
    pub fn of_dollars(&self) -> Self {
        let dollars = self.find(DOLLARS);
        dollars.map(|amount| (DOLLARS.to_owned(), amount)).into_iter().collect()
    }

    pub fn remove(&mut self, name: &str) {
        match common(name) {
            Some(at) => (self.common[at], self.named[at]) = (0, false),
            None => {
                self.others.remove(name);
            }
        }
    }

    /// True if no resource is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named == [false; 4] && self.others.is_empty()
    }

    /// The named resources in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let named = COMMON.iter().zip(self.common).zip(self.named).filter(|(_, named)| *named);
        let mut common = named.map(|((name, amount), _)| (*name, amount)).peekable();
        let mut others = self.others.iter().map(|(name, amount)| (name.as_str(), *amount)).peekable();
        std::iter::from_fn(move || match (common.peek(), others.peek()) {
            (Some(one), Some(other)) if one.0 > other.0 => others.next(),
            (Some(_), _) => common.next(),
            _ => others.next(),
        })
    }

    /// The resources that few things name, in order of name.
    pub(crate) fn uncommon(&self) -> impl Iterator<Item = (&str, i64)> {
        self.others.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds every amount of `other`; saturates at `i64::MAX`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts every amount of `other`; amounts may fall below zero.
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Adds `other`, multiplied by `times`.
    pub fn add_times(&mut self, other: &Self, times: i64) {
        self.combine(other, |a, b| a.saturating_add(b.saturating_mul(times)));
    }

    /// Raises every amount to that of `other`, where that is larger.
    pub fn max(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// Lowers every amount to that of `other`; a resource that only one of them names becomes zero.
    pub fn min(&mut self, other: &Self) {
        for (own, other) in
            self.common.iter_mut().zip(other.common).zip(self.named).filter_map(|(pair, named)| named.then_some(pair))
        {
            *own = (*own).min(other);
        }
        for (name, amount) in &mut self.others {
            *amount = (*amount).min(other.get(name));
        }
    }

    /// True if every amount is there in `available`, and nothing available is below zero (spec core 3.9).
    #[must_use]
    pub fn fits_in(&self, available: &Self) -> bool {
        available.iter().all(|(_, amount)| amount >= 0)
            && self.iter().all(|(name, amount)| amount <= available.get(name))
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        for at in (0..COMMON.len()).filter(|at| other.named[*at]) {
            self.common[at] = with(self.common[at], other.common[at]);
            self.named[at] = true;
        }
        for (name, amount) in &other.others {
            match self.others.get_mut(name) {
                Some(own) => *own = with(*own, *amount),
                None => {
                    self.others.insert(name.clone(), with(0, *amount));
                }
            }
        }
    }
}

impl FromIterator<(String, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(amounts: I) -> Self {
        let mut all = Self::new();
        amounts.into_iter().for_each(|(name, amount)| all.set(name, amount));
        all
    }
}

/// `cpu: 2, memory: 1Gi`.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {}", format_amount(name, amount))?;
        }
        Ok(())
    }
}

/// Parses one amount in the unit of its resource.
///
/// # Errors
/// [`QuantityError`] for text that is no quantity, or below zero.
pub fn parse_amount(name: &str, text: &str) -> Result<i64, QuantityError> {
    let units = match name {
        CPU => 1000,
        DOLLARS => UNITS_OF_A_DOLLAR,
        _ => 1,
    };
    quantity::parse(text, units)
}

/// One amount in Kubernetes' canonical form: `250m`, `1536Mi`, `58`.
#[must_use]
pub fn format_amount(name: &str, amount: i64) -> String {
    match name {
        CPU => quantity::format_milli(amount),
        DOLLARS => format!("{:.4}", amount as f64 / UNITS_OF_A_DOLLAR as f64),
        MEMORY | EPHEMERAL_STORAGE => quantity::format_binary(amount),
        other if other.starts_with("hugepages-") => quantity::format_binary(amount),
        _ => quantity::format_decimal(amount),
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, amount) in self.iter() {
            map.serialize_entry(name, &format_amount(name, amount))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmountsVisitor)
    }
}

struct AmountsVisitor;

impl<'de> Visitor<'de> for AmountsVisitor {
    type Value = Resources;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of resource names to quantities")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Resources, A::Error> {
        let mut amounts = Resources::new();
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let amount = map.next_value_seed(AmountSeed(&name))?;
            if amounts.find(&name).is_some() {
                return Err(serde::de::Error::custom("a resource is named twice"));
            }
            amounts.set(name, amount);
        }
        Ok(amounts)
    }
}

/// A resource's name, borrowed from the text where that is possible.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct AmountSeed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for AmountSeed<'_> {
    type Value = i64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for AmountSeed<'_> {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a quantity of {} such as \"500m\" or \"1Gi\"", self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<i64, E> {
        parse_amount(self.0, text).map_err(|error| E::custom(format_args!("{}: {error}", self.0)))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<i64, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<i64, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<i64, E> {
        self.visit_str(&value.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_map_of_quantities_reads_and_writes_canonically() {
        let read: Resources = serde_json::from_str(r#"{"cpu": 0.5, "memory": "1024Mi", "pods": 58}"#).unwrap();
        assert_eq!(read.get(CPU), 500);
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"cpu":"500m","memory":"1Gi","pods":"58"}"#);
    }

    #[test]
    fn a_bad_quantity_names_its_resource_and_its_place() {
        let error = serde_json::from_str::<Resources>("{\"cpu\":\n\"two\"}").unwrap_err().to_string();
        assert!(error.contains("cpu") && error.contains("line 2") && error.contains("allowed"), "{error}");
    }

    #[test]
    fn nothing_fits_where_something_is_below_zero() {
        let available = Resources::from_iter([("cpu".to_owned(), 5), ("memory".to_owned(), -1)]);
        assert!(!Resources::new().fits_in(&available));
    }

    #[test]
    fn what_only_one_side_names_has_a_minimum_of_zero() {
        let mut left = Resources::parse([("cpu", "2"), ("memory", "1Gi")]).unwrap();
        left.min(&Resources::parse([("cpu", "1")]).unwrap());
        assert_eq!((left.get(CPU), left.get(MEMORY)), (1000, 0));
    }
}
