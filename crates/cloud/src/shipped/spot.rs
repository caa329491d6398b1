//! The synthetic spot model: a median discount and an interruption rate a family. Not a price list, and never shown as one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::offerings::RegionOfferings;
use super::prices::to_micros;
use crate::hash::fnv;
use crate::info::InstanceTypeInfo;

static MODEL: &[u8] = include_bytes!("../../data/spot-model.json");

/// A family's figures in the synthetic model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpotModel {
    /// Median discount on the on-demand price, 0 to 1.
    pub discount: f64,
    /// Standard deviation of the discount from zone to zone.
    pub deviation: f64,
    /// Interruptions an hour and instance.
    pub interruptions_per_hour: f64,
}

/// For a family that the model does not know: the middle of those that it knows.
const TYPICAL: SpotModel = SpotModel { discount: 0.64, deviation: 0.07, interruptions_per_hour: 0.000_25 };

#[derive(Deserialize, Default)]
struct Table {
    families: BTreeMap<String, (f64, f64, f64)>,
}

/// The model's figures for a family (`m5`).
pub fn spot_model(family: &str) -> SpotModel {
    static PARSED: OnceLock<Table> = OnceLock::new();
    let table = PARSED.get_or_init(|| super::parse(MODEL));
    table.families.get(family).map_or(TYPICAL, |&(discount, deviation, interruptions_per_hour)| SpotModel {
        discount,
        deviation,
        interruptions_per_hour,
    })
}

/// $/h by (type, zone) for every type that can be spot: the same in every process.
pub(super) fn prices(
    types: &[Arc<InstanceTypeInfo>],
    on_demand: &BTreeMap<String, f64>,
    offered: &RegionOfferings,
) -> BTreeMap<(String, String), f64> {
    let mut prices = BTreeMap::new();
    for info in types.iter().filter(|t| t.usage_classes.iter().any(|c| c == "spot")) {
        let (Some(usd), Some(zones)) = (on_demand.get(&info.name), offered.zones_of.get(&info.name)) else { continue };
        let model = spot_model(info.family());
        for zone in zones {
            let discount = model.discount + model.deviation * bell(&info.name, zone);
            let price = usd * (1.0 - discount.clamp(0.0, 0.92));
            prices.insert((info.name.clone(), zone.clone()), to_micros(price));
        }
    }
    prices
}

/// About a normal deviate (a sum of twelve uniform ones), from the names alone.
fn bell(name: &str, zone: &str) -> f64 {
    let mut rng = fastrand::Rng::with_seed(fnv(name) ^ fnv(zone).rotate_left(32));
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::shipped::catalogue;

    #[test]
    fn spot_is_never_dearer_than_on_demand_and_varies_by_zone() {
        let catalogue = catalogue("us-east-1");
        for ((name, _), usd) in &catalogue.spot {
            assert!(*usd > 0.0 && *usd <= catalogue.on_demand[name] + 1e-9, "{name}");
        }
        let m5 = |zone: &str| catalogue.spot[&("m5.large".to_owned(), zone.to_owned())];
        assert_ne!(m5("us-east-1a"), m5("us-east-1b"));
    }

    #[test]
    fn the_model_is_the_same_in_every_run() {
        let price = catalogue("us-east-1").spot[&("m5.large".to_owned(), "us-east-1a".to_owned())];
        assert!((0.02..0.06).contains(&price), "{price}");
        assert_eq!(catalogue("us-east-1").spot, catalogue("us-east-1").spot);
    }
}
