//! The catalogue that the binary carries: instance types, where they are offered, what they cost.
//!
//! Made by `tools/catalogue/make.py` from moto 5.2.5 (Apache-2.0, see NOTICE), a few types of our own and AWS's public on-demand list of July 2026.
//! It serves `plan`, the sandbox's region, and the control plane until the first answers of EC2 and Pricing.

mod offerings;
mod prices;
mod spot;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use crate::catalogue::{RegionCatalogue, Zone};
use crate::info::InstanceTypeInfo;

pub use prices::{on_demand_price, price_source};
pub use spot::{SpotModel, spot_model};

static TYPES: &[u8] = include_bytes!("../../data/instance-types.json.gz");
static BRANCHES: &[u8] = include_bytes!("../../data/branch-interfaces.json.gz");

/// A [`RegionCatalogue`] whose figures all come from the binary; spot prices are synthetic.
pub type ShippedCatalogue = RegionCatalogue;

/// Every instance type known, by name, whatever the region. Read once a process.
pub fn instance_types() -> &'static [Arc<InstanceTypeInfo>] {
    static PARSED: OnceLock<Vec<Arc<InstanceTypeInfo>>> = OnceLock::new();
    PARSED.get_or_init(|| unpack::<Vec<InstanceTypeInfo>>(TYPES).into_iter().map(Arc::new).collect())
}

/// One instance type by name.
pub fn instance_type(name: &str) -> Option<&'static Arc<InstanceTypeInfo>> {
    let types = instance_types();
    types.binary_search_by(|t| t.name.as_str().cmp(name)).ok().map(|i| &types[i])
}

/// Branch interfaces that a type's trunk can carry (`vpc.amazonaws.com/pod-eni`); 0 where it cannot trunk.
pub fn branch_interfaces(name: &str) -> u32 {
    static PARSED: OnceLock<BTreeMap<String, u32>> = OnceLock::new();
    let by_name = PARSED.get_or_init(|| {
        let by_count: BTreeMap<u32, Vec<String>> = unpack(BRANCHES);
        by_count.into_iter().flat_map(|(n, names)| names.into_iter().map(move |name| (name, n))).collect()
    });
    by_name.get(name).copied().unwrap_or(0)
}

/// The regions whose offerings are known.
pub fn regions() -> impl Iterator<Item = &'static str> {
    offerings::regions()
}

/// The zones of a region by name. A region that the catalogue does not know has three zones, `a` to `c`.
pub fn zones(region: &str) -> Vec<Zone> {
    offerings::region_offerings(region).zones
}

/// A region's offer, with prices. An unknown region offers what us-east-1 offers, at its prices (karpenter-aws 3.5).
pub fn catalogue(region: &str) -> ShippedCatalogue {
    let offered = offerings::region_offerings(region);
    let types: Vec<_> = instance_types().iter().filter(|t| offered.zones_of.contains_key(&t.name)).cloned().collect();
    let on_demand: BTreeMap<String, f64> =
        types.iter().filter_map(|t| Some((t.name.clone(), on_demand_price(t, region)?))).collect();
    let spot = spot::prices(&types, &on_demand, &offered);
    RegionCatalogue {
        region: region.to_owned(),
        zones: offered.zones,
        types,
        offered: offered.zones_of,
        on_demand,
        spot,
    }
}

/// The same, made once a process for each region: it never changes, and a process may play thousands of worlds in one.
pub fn catalogue_once(region: &str) -> Arc<ShippedCatalogue> {
    static MADE: Mutex<BTreeMap<String, Arc<ShippedCatalogue>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(made.entry(region.to_owned()).or_insert_with(|| Arc::new(catalogue(region))))
}

/// Reads gzipped JSON that the build put into the binary. The data is ours and tested: what cannot be read is empty.
fn unpack<T: DeserializeOwned + Default>(bytes: &[u8]) -> T {
    let mut text = Vec::with_capacity(bytes.len() * 40);
    if GzDecoder::new(bytes).read_to_end(&mut text).is_err() {
        return T::default();
    }
    parse(&text)
}

/// Reads JSON that the build put into the binary; see [`unpack`].
fn parse<T: DeserializeOwned + Default>(text: &[u8]) -> T {
    serde_json::from_slice(text).unwrap_or_else(|error| {
        tracing::error!(%error, "the shipped catalogue cannot be read");
        T::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_type_of_the_source_is_there_with_its_figures() {
        assert_eq!(instance_types().len(), 1401);
        let m5 = instance_type("m5.large").unwrap();
        assert_eq!(
            (m5.vcpus, m5.memory_mib, m5.network.max_interfaces, m5.network.ipv4_per_interface),
            (2, 8192, 3, 10)
        );
        assert_eq!(m5.network_mbps(), Some(750));
        let p5 = instance_type("p5.48xlarge").unwrap();
        assert_eq!(
            (p5.default_card_interfaces(), p5.network.efa_max, p5.network_mbps()),
            (2, Some(32), Some(3_200_000))
        );
        assert_eq!(p5.gpus[0].name, "H100");
        assert_eq!(instance_type("trn1.32xlarge").unwrap().neuron[0].cores, 2);
        assert_eq!(instance_type("x1.large"), None);
    }

    /// As Karpenter 1.14's reference table has them. What the table has otherwise is older there than at AWS: the bandwidth of
    /// g7.2xlarge to g7.8xlarge and i8g.metal-48xl, and the second network card of the largest i7ie and i8ge, by which they have
    /// more bandwidth, fewer pods, and so more memory for these.
    #[test]
    fn bandwidth_is_what_aws_says_of_the_whole_type() {
        let mbps = |name: &str| instance_type(name).unwrap().network_mbps();
        for (name, bandwidth) in [
            ("c6in.32xlarge", Some(200_000)),
            ("c8gb.16xlarge", Some(133_330)),
            ("g6e.48xlarge", Some(400_000)),
            ("i3.8xlarge", Some(10_000)),
            ("p4d.24xlarge", Some(400_000)),
            ("p6-b300.48xlarge", Some(6_400_000)),
            ("c8gb.large", Some(4_166)),
            ("i7i.12xlarge", Some(28_120)),
            ("i8g.12xlarge", Some(28_120)),
            ("i7i.24xlarge", Some(56_250)),
            ("t3.nano", Some(32)),
            ("m4.large", None),
        ] {
            assert_eq!(mbps(name), bandwidth, "{name}");
        }
    }

    #[test]
    fn the_region_says_which_types_it_offers_and_where() {
        let catalogue = catalogue("us-east-1");
        assert_eq!(catalogue.types.len(), 1381);
        assert_eq!(catalogue.zones.len(), 6);
        assert_eq!(catalogue.zones[0], Zone { name: "us-east-1a".into(), id: "use1-az6".into() });
        assert!(catalogue.offered["m5.large"].contains("us-east-1a"));
    }

    #[test]
    fn an_unknown_region_has_three_zones_and_the_types_of_us_east_1() {
        let catalogue = catalogue("mx-central-1");
        assert_eq!(catalogue.zones.len(), 3);
        assert_eq!(catalogue.zones[2], Zone { name: "mx-central-1c".into(), id: "mxc1-az3".into() });
        assert_eq!(catalogue.on_demand["m5.large"], 0.096);
        assert!(catalogue.offered["m5.large"].contains("mx-central-1b"));
    }

    #[test]
    fn trunks_carry_as_many_branches_as_the_table_says() {
        assert_eq!(
            (branch_interfaces("m5.large"), branch_interfaces("a1.medium"), branch_interfaces("t3.large")),
            (9, 10, 0)
        );
    }
}
