//! One overlay, read from its object once: everything that is wrong with it is found here.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::overlays::{NodeOverlay, RESTRICTED_RESOURCES};
use dovetail_api::v1::NodeSelectorRequirementWithMinValues;
use dovetail_api::validation::{self, MOST_REQUIREMENTS, WrittenRequirement};

use crate::lifecycle::claim::packing_requirement;
use crate::requirements::{Operator, Requirement, Requirements};
use crate::resources::{Resources, parse_amount};

/// Highest price that is believed, dollars an hour.
const HIGHEST_PRICE: f64 = 1_000_000.0;
/// Largest part by which a price may be raised, in percent.
const MOST_PERCENT: f64 = 1_000_000.0;
/// Most extended resources of one overlay.
const MOST_RESOURCES: usize = 100;
/// Largest amount of a resource: sums of it stay far from overflow.
const LARGEST_AMOUNT: i64 = 1 << 50;
/// Highest weight.
const HIGHEST_WEIGHT: i32 = 10_000;

/// A rule by which a price is made of the catalogue's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriceRule {
    /// This price, dollars an hour.
    Fixed(f64),
    /// So many dollars an hour more.
    Added(f64),
    /// So many times the price.
    Scaled(f64),
}

impl PriceRule {
    /// The price that it makes, never below 0 (core spec 3.13).
    #[must_use]
    pub fn apply(self, price: f64) -> f64 {
        let made = match self {
            Self::Fixed(price) => price,
            Self::Added(more) => price + more,
            Self::Scaled(times) => price * times,
        };
        made.max(0.0)
    }
}

/// The reason that an overlay cannot be used, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayFault(pub String);

/// An overlay that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// `metadata.name`.
    pub name: String,
    /// Its weight; 0 if it has none.
    pub weight: i32,
    /// Types and offerings that it selects, by stable keys.
    pub requirements: Requirements,
    /// Its price, if it has one.
    pub price: Option<PriceRule>,
    /// Extended resources of each node.
    pub capacity: Resources,
}

impl Overlay {
    /// Order of application: the heavier first, of one weight the later name first.
    pub(super) fn turn(&self, other: &Self) -> Ordering {
        other.weight.cmp(&self.weight).then_with(|| other.name.cmp(&self.name))
    }
}

/// An overlay or its fault.
pub type KnownOverlay = Result<Overlay, OverlayFault>;

/// An overlay as it is known: its object, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenOverlay {
    /// The object; of one that cannot be read the metadata alone.
    pub object: Arc<NodeOverlay>,
    pub read: KnownOverlay,
}

impl WrittenOverlay {
    /// Reads an object.
    #[must_use]
    pub fn new(object: NodeOverlay) -> Self {
        Self { read: read_overlay(&object), object: Arc::new(object) }
    }

    /// An object that cannot be read, with the reason.
    #[must_use]
    pub fn unreadable(object: NodeOverlay, why: &str) -> Self {
        Self { object: Arc::new(object), read: Err(OverlayFault(format!("it cannot be read: {why}"))) }
    }
}

/// Reads an overlay. The API server checks nearly all of this; an older CRD, or values in a list, it does not.
///
/// # Errors
/// [`OverlayFault`] with the first mistake.
pub fn read_overlay(object: &NodeOverlay) -> KnownOverlay {
    let spec = &object.spec;
    if spec.requirements.len() > MOST_REQUIREMENTS {
        return Err(fault(format!("spec.requirements: more than {MOST_REQUIREMENTS}")));
    }
    let mut requirements = Requirements::new();
    for (at, written) in spec.requirements.iter().enumerate() {
        let own = requirement(written).map_err(|why| fault(format!("spec.requirements[{at}]: {why}")))?;
        requirements.add(&written.key, own);
    }
    let weight = spec.weight.unwrap_or(0);
    if !(0..=HIGHEST_WEIGHT).contains(&weight) {
        return Err(fault(format!("spec.weight: is {weight} (allowed: 1 to {HIGHEST_WEIGHT})")));
    }
    Ok(Overlay {
        name: object.metadata.name.clone().unwrap_or_default(),
        weight,
        requirements,
        price: price(spec.price.as_deref(), spec.price_adjustment.as_deref())?,
        capacity: capacity(spec.capacity.as_ref())?,
    })
}

fn fault(why: String) -> OverlayFault {
    OverlayFault(why)
}

fn requirement(written: &NodeSelectorRequirementWithMinValues) -> Result<Requirement, String> {
    let values: Vec<&str> = written.values.iter().map(String::as_str).collect();
    let asked = WrittenRequirement {
        key: &written.key,
        operator: written.operator,
        values: &values,
        min_values: None,
        of_claim: true,
    };
    if let Some((_, wrong)) = validation::requirement(&asked).into_iter().next() {
        return Err(match wrong.allowed.as_str() {
            "" => wrong.what,
            allowed => format!("{} (allowed: {allowed})", wrong.what),
        });
    }
    if written.operator == Operator::NotIn && values.is_empty() {
        return Err("operator NotIn has no value (allowed: one value or more)".to_owned());
    }
    Requirement::from_written(&packing_requirement(written)).map_err(|why| why.to_string())
}

fn price(fixed: Option<&str>, adjustment: Option<&str>) -> Result<Option<PriceRule>, OverlayFault> {
    let number = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|number| plain && number.is_finite())
    };
    match (fixed, adjustment) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(fault("spec: price and priceAdjustment exclude each other".to_owned())),
        (Some(text), None) => match number(text).filter(|price| *price <= HIGHEST_PRICE) {
            Some(price) => Ok(Some(PriceRule::Fixed(price))),
            None => Err(fault(format!(
                "spec.price: {text:?} is no price (allowed: dollars an hour, up to {HIGHEST_PRICE})"
            ))),
        },
        (None, Some(text)) => adjusted(text, number).map(Some).ok_or_else(|| {
            fault(format!(
                "spec.priceAdjustment: {text:?} is no change (allowed: +0.5, -0.5, +15%, -15%, not below -100%)"
            ))
        }),
    }
}

fn adjusted(text: &str, number: impl Fn(&str) -> Option<f64>) -> Option<PriceRule> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1.0, &text[1..]),
        b'-' => (-1.0, &text[1..]),
        _ => return None,
    };
    match rest.strip_suffix('%') {
        Some(rest) => {
            let percent = number(rest)?;
            let most = if sign < 0.0 { 100.0 } else { MOST_PERCENT };
            (percent <= most).then(|| PriceRule::Scaled(1.0 + sign * percent / 100.0))
        }
        None => number(rest).filter(|more| *more <= HIGHEST_PRICE).map(|more| PriceRule::Added(sign * more)),
    }
}

fn capacity(written: Option<&dovetail_api::v1::ResourceList>) -> Result<Resources, OverlayFault> {
    let mut all = Resources::new();
    let Some(written) = written else { return Ok(all) };
    if written.len() > MOST_RESOURCES {
        return Err(fault(format!("spec.capacity: more than {MOST_RESOURCES} resources")));
    }
    for (name, quantity) in written {
        let wrong = |why: &str| fault(format!("spec.capacity[{name}]: {why}"));
        if RESTRICTED_RESOURCES.contains(&name.as_str()) {
            return Err(wrong("the instance type decides it (allowed: extended resources)"));
        }
        if validation::label_key(name).is_some() {
            return Err(wrong("is no name of a resource"));
        }
        match parse_amount(name, &quantity.0) {
            Ok(amount) if (0..=LARGEST_AMOUNT).contains(&amount) => all.set(name.clone(), amount),
            _ => return Err(wrong(&format!("{:?} is no amount (allowed: 0 to 2^50)", quantity.0))),
        }
    }
    Ok(all)
}

/// Overlays in their order of application, and the faults of the others.
pub(super) fn in_order<'a>(
    all: impl IntoIterator<Item = (&'a String, &'a KnownOverlay)>,
) -> (Vec<&'a Overlay>, BTreeMap<String, &'a OverlayFault>) {
    let (mut usable, mut faults) = (Vec::new(), BTreeMap::new());
    for (name, one) in all {
        match one {
            Ok(one) => usable.push(one),
            Err(fault) => drop(faults.insert(name.clone(), fault)),
        }
    }
    usable.sort_by(|a, b| a.turn(b));
    (usable, faults)
}
