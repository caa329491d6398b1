//! On-demand prices: a few numbers a family, a factor a region, and the exceptions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::info::InstanceTypeInfo;

static PRICES: &[u8] = include_bytes!("../../data/prices.json");

#[derive(Deserialize, Default)]
struct Table {
    source: String,
    date: String,
    families: BTreeMap<String, Rule>,
    exact: BTreeMap<String, f64>,
    regions: BTreeMap<String, Region>,
}

/// Within a family a price is proportional to vCPUs or to GiB, with a part for each accelerator, times a factor for metal.
#[derive(Deserialize)]
struct Rule {
    per: Unit,
    usd: f64,
    #[serde(default)]
    accelerator: f64,
    metal: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Vcpu,
    Gib,
}

/// Prices of a region as multiples of us-east-1's: as a rule, and for the families that differ.
#[derive(Deserialize)]
struct Region {
    factor: f64,
    families: BTreeMap<String, f64>,
}

fn table() -> &'static Table {
    static PARSED: OnceLock<Table> = OnceLock::new();
    PARSED.get_or_init(|| super::parse(PRICES))
}

/// Source and date of the prices, for whoever shows one.
pub fn price_source() -> String {
    format!("{}, {}", table().source, table().date)
}

/// $/h on demand for Linux, shared tenancy; `None` when the list has none. Outside us-east-1 it is an estimate.
pub fn on_demand_price(info: &InstanceTypeInfo, region: &str) -> Option<f64> {
    let usd = us_east_1(info)?;
    let factor =
        table().regions.get(region).map_or(1.0, |r| r.families.get(info.family()).copied().unwrap_or(r.factor));
    Some(to_micros(usd * factor))
}

fn us_east_1(info: &InstanceTypeInfo) -> Option<f64> {
    if let Some(usd) = table().exact.get(&info.name) {
        return (*usd > 0.0).then_some(*usd);
    }
    let rule = table().families.get(info.family())?;
    let units = match rule.per {
        Unit::Vcpu => f64::from(info.vcpus),
        Unit::Gib => info.memory_mib as f64 / 1024.0,
    };
    let usd = units * rule.usd + accelerators(info) * rule.accelerator;
    Some(if info.size().contains("metal") { usd * rule.metal.unwrap_or(1.0) } else { usd })
}

/// Whole devices: GPUs by the share of one that they are, or else neuron devices.
fn accelerators(info: &InstanceTypeInfo) -> f64 {
    let gpus: f64 = info.gpus.iter().map(|g| f64::from(g.count) * g.partition.unwrap_or(1.0)).sum();
    if gpus > 0.0 { gpus } else { info.neuron.iter().map(|d| f64::from(d.count)).sum() }
}

/// Six digits behind the point: what AWS's list has at most.
pub(super) fn to_micros(usd: f64) -> f64 {
    (usd * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shipped::instance_type;

    fn price(name: &str, region: &str) -> Option<f64> {
        on_demand_price(instance_type(name).unwrap(), region)
    }

    #[test]
    fn listed_prices_come_out_of_rule_and_exception() {
        assert_eq!(price("m5.large", "us-east-1"), Some(0.096));
        assert_eq!(price("g5.xlarge", "us-east-1"), Some(1.006));
        assert_eq!(price("c4.large", "us-east-1"), Some(0.1));
        assert_eq!(price("t3.medium", "us-east-1"), Some(0.0416));
    }

    #[test]
    fn a_type_that_is_not_on_the_list_has_no_price() {
        assert_eq!(price("mac1.metal", "us-east-1"), None);
    }

    #[test]
    fn other_region_costs_by_its_factor_and_unknown_as_us_east_1() {
        assert_eq!(price("m5.large", "eu-central-1"), Some(0.114998));
        assert_eq!(price("m5.large", "us-west-2"), Some(0.096));
        assert_eq!(price("m5.large", "xx-nowhere-1"), Some(0.096));
    }
}
