//! Devices in the form that the search reads: properties by their full name, amounts as numbers, and no more of either than
//! Kubernetes allows.

use std::collections::BTreeMap;

use dovetail_api::resource::{CounterSet, DeviceAttribute, PublishedDevice};

use crate::quantity;

/// Most attributes and amounts of one device, together, as Kubernetes bounds them.
const MOST_PROPERTIES: usize = 32;
/// Longest name, and longest value of an attribute, in bytes; Kubernetes allows less of each.
pub(super) const LONGEST_TEXT: usize = 256;
/// Most counters that one device takes of.
const MOST_COUNTERS: usize = 64;
/// Parts of a unit in which counters are counted.
const COUNTER_SCALE: i64 = 1000;

/// Domain and name of a property.
pub type PropertyName = (String, String);

/// Set and name of a shared counter, within a pool.
pub type CounterName = (String, String);

/// A device, by which it is guided from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeValue {
    Bool(bool),
    Int(i64),
    Text(String),
    /// A semantic version.
    Version(String),
    /// A value that is known once the node runs. Devices of one template with the same number will have the same value; no
    /// selector can see it.
    Bound(u32),
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Its name in its pool.
    pub name: String,
    /// The rest, by which devices are alike.
    pub traits: DeviceTraits,
}

/// All that the search sees of a device but its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceTraits {
    pub attributes: BTreeMap<PropertyName, AttributeValue>,
    /// Quantities.
    pub capacity: BTreeMap<PropertyName, String>,
    /// Amounts that it takes of its pool's counters, in thousandths.
    pub consumes: BTreeMap<CounterName, i64>,
    /// The property for which it is never planned on, such as a taint.
    pub set_aside: Option<&'static str>,
}

impl Device {
    /// Reads a device that a driver publishes.
    ///
    /// # Errors
    /// Names what makes no sense in it.
    pub fn from_published(driver: &str, published: &PublishedDevice) -> Result<Self, String> {
        let name = published.name.clone();
        if name.is_empty() || name.len() > LONGEST_TEXT {
            return Err("a device has no name, or too long a one".into());
        }
        if published.attributes.len() + published.capacity.len() > MOST_PROPERTIES {
            return Err(format!("device {name} has more than {MOST_PROPERTIES} attributes and capacities"));
        }
        let mut traits = DeviceTraits { set_aside: set_aside(published), ..DeviceTraits::default() };
        for (written, attribute) in &published.attributes {
            let Some(value) = value_of(attribute)? else { continue };
            traits.attributes.insert(full_name(driver, written), value);
        }
        for (written, capacity) in &published.capacity {
            quantity::parse(&capacity.value, 1).map_err(|error| format!("device {name}: {written}: {error}"))?;
            traits.capacity.insert(full_name(driver, written), capacity.value.clone());
        }
        for set in &published.consumes_counters {
            traits.consumes.extend(read_counters(&set.counter_set, set)?);
        }
        if traits.consumes.len() > MOST_COUNTERS {
            return Err(format!("device {name} takes of more than {MOST_COUNTERS} counters"));
        }
        Ok(Self { name, traits })
    }
}

/// The amounts of a set, in thousandths.
pub(super) fn read_counters(set: &str, written: &CounterSet) -> Result<Vec<(CounterName, i64)>, String> {
    let each = written.counters.iter().map(|(name, amount)| {
        let amount =
            quantity::parse(&amount.value, COUNTER_SCALE).map_err(|error| format!("counter {name}: {error}"))?;
        Ok(((set.to_owned(), name.clone()), amount))
    });
    each.collect()
}

/// The full name of a property: without a domain it is in the driver's.
#[must_use]
pub fn full_name(driver: &str, written: &str) -> PropertyName {
    match written.split_once('/') {
        Some((domain, name)) => (domain.to_owned(), name.to_owned()),
        None => (driver.to_owned(), written.to_owned()),
    }
}

/// The value of an attribute; `None` for one of a kind that is not known.
fn value_of(attribute: &DeviceAttribute) -> Result<Option<AttributeValue>, String> {
    let long = |text: &String| text.len() > LONGEST_TEXT;
    Ok(match attribute {
        DeviceAttribute { int: Some(int), .. } => Some(AttributeValue::Int(*int)),
        DeviceAttribute { bool: Some(truth), .. } => Some(AttributeValue::Bool(*truth)),
        DeviceAttribute { string: Some(text), .. } | DeviceAttribute { version: Some(text), .. } if long(text) => {
            return Err(format!("an attribute is longer than {LONGEST_TEXT} bytes"));
        }
        DeviceAttribute { string: Some(text), .. } => Some(AttributeValue::Text(text.clone())),
        DeviceAttribute { version: Some(text), .. } => Some(AttributeValue::Version(text.clone())),
        _ => None,
    })
}

/// The first property of a device that keeps it out of plans.
fn set_aside(published: &PublishedDevice) -> Option<&'static str> {
    let keeps_out = |taint: &serde_json::Value| {
        let effect = taint.get("effect").and_then(serde_json::Value::as_str);
        effect.is_none_or(|effect| effect != "None")
    };
    if published.taints.iter().any(keeps_out) {
        Some("taints")
    } else if published.binding_conditions.is_empty() {
        None
    } else {
        Some("bindingConditions")
    }
}
