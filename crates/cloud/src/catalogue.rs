//! A region's offers at one moment: types, zones, prices. Shipped, or refreshed from EC2 and Pricing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::info::InstanceTypeInfo;

/// An availability zone by both its names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    /// `us-east-1a`: which zone that is differs from account to account.
    pub name: String,
    /// `use1-az6`: the same zone for every account.
    pub id: String,
}

/// Instance types, where they are offered and what they cost, in one region.
#[derive(Debug, Clone, Default)]
pub struct RegionCatalogue {
    /// `us-east-1`.
    pub region: String,
    /// The region's zones, by name.
    pub zones: Vec<Zone>,
    /// The types that the region offers, by name.
    pub types: Vec<Arc<InstanceTypeInfo>>,
    /// By type the names of the zones that offer it.
    pub offered: BTreeMap<String, BTreeSet<String>>,
    /// On-demand price by type, $/h; a type without one cannot be had on demand.
    pub on_demand: BTreeMap<String, f64>,
    /// Spot price by (type, zone name), $/h; without one it cannot be had there as spot.
    pub spot: BTreeMap<(String, String), f64>,
}

impl RegionCatalogue {
    /// One type by name.
    pub fn instance_type(&self, name: &str) -> Option<&Arc<InstanceTypeInfo>> {
        self.types.binary_search_by(|t| t.name.as_str().cmp(name)).ok().map(|i| &self.types[i])
    }

    /// The same region with only those types that `offers` says it has.
    pub fn narrowed(&self, offers: impl Fn(&str) -> bool) -> Self {
        let types: Vec<_> = self.types.iter().filter(|known| offers(&known.name)).cloned().collect();
        let names: BTreeSet<&str> = types.iter().map(|known| known.name.as_str()).collect();
        let has = |name: &String| names.contains(name.as_str());
        let offered = self.offered.iter().filter(|(name, _)| has(name));
        let on_demand = self.on_demand.iter().filter(|(name, _)| has(name));
        let spot = self.spot.iter().filter(|((name, _), _)| has(name));
        Self {
            region: self.region.clone(),
            zones: self.zones.clone(),
            offered: offered.map(|(name, zones)| (name.clone(), zones.clone())).collect(),
            on_demand: on_demand.map(|(name, price)| (name.clone(), *price)).collect(),
            spot: spot.map(|(place, price)| (place.clone(), *price)).collect(),
            types,
        }
    }

    /// The first `count` zones: where a cluster lives of which nothing else is known.
    pub fn first_zones(&self, count: usize) -> Vec<Zone> {
        self.zones.iter().take(count).cloned().collect()
    }
}
