//! Ceiling on the price of a node's instance types, as a multiple of its cheapest one (setting `MAX_OPTION_PRICE`).
//!
//! EC2 Fleet chooses among all the types that a claim names, by capacity as well as by price. So every type that is named has
//! to be worth its price.

use serde::Serialize;

use crate::instance_type::InstanceType;

/// Usual largest price of a type, as a multiple of the cheapest, unless the setting says otherwise.
const USUAL: f64 = 1.5;
/// Usual largest price for types with GPUs or other accelerators: there are few of them, and their prices lie far apart.
const WITH_DEVICES: f64 = 2.0;

/// Largest mean price of a claim's types, as a multiple of the cheapest.
const MEAN: f64 = 1.25;

/// The ceiling on the price of a claim's instance types, as a multiple of the claim's cheapest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct MaxOptionPrice(Option<f64>);

impl MaxOptionPrice {
    /// The same multiple for every claim. `None` where it is below one, or not a number.
    #[must_use]
    pub fn times(times: f64) -> Option<Self> {
        (times.is_finite() && times >= 1.0).then_some(Self(Some(times)))
    }

    /// Largest price of another type of a claim whose cheapest type is `cheapest`, as a multiple of its price.
    #[must_use]
    pub fn factor_for(self, cheapest: &InstanceType) -> f64 {
        self.0.unwrap_or(if cheapest.has_devices() { WITH_DEVICES } else { USUAL })
    }

    /// Largest mean price of a claim's types, as a multiple of the cheapest, as far as they are kept for variety alone. A
    /// ceiling that is set higher than usual lifts this as well.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.0.map_or(MEAN, |times| MEAN.max(f64::midpoint(1.0, times)))
    }
}

#[cfg(test)]
mod tests {
    use super::MaxOptionPrice;

    #[test]
    fn a_ceiling_below_the_cheapest_type_is_none() {
        let good = [1.0, 1.5, 40.0].map(|times| MaxOptionPrice::times(times).is_some());
        let bad = [0.99, 0.0, -2.0, f64::NAN, f64::INFINITY].map(|times| MaxOptionPrice::times(times).is_none());
        assert_eq!((good, bad), ([true; 3], [true; 5]));
    }
}
