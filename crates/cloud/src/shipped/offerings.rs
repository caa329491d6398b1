//! Zones of a region, by the types that they offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Deserialize;

use crate::catalogue::Zone;

static OFFERINGS: &[u8] = include_bytes!("../../data/offerings.json.gz");

/// As in the file: zones with their ids and, by the letters of the zones, the types offered in just those.
#[derive(Deserialize)]
struct Region {
    zones: Vec<(String, String)>,
    types: BTreeMap<String, Vec<String>>,
}

/// A region's zones and what each type is offered in.
pub(super) struct RegionOfferings {
    pub zones: Vec<Zone>,
    pub zones_of: BTreeMap<String, BTreeSet<String>>,
}

fn all() -> &'static BTreeMap<String, Region> {
    static PARSED: OnceLock<BTreeMap<String, Region>> = OnceLock::new();
    PARSED.get_or_init(|| super::unpack(OFFERINGS))
}

pub(super) fn regions() -> impl Iterator<Item = &'static str> {
    all().keys().map(String::as_str)
}

/// The region's offerings; those of us-east-1 in three zones for a region that the file does not know.
pub(super) fn region_offerings(region: &str) -> RegionOfferings {
    match all().get(region) {
        Some(known) => known_region(region, known),
        None => unknown_region(region),
    }
}

fn known_region(region: &str, known: &Region) -> RegionOfferings {
    let zones = known.zones.iter().map(|(name, id)| Zone { name: name.clone(), id: id.clone() }).collect();
    let mut zones_of = BTreeMap::new();
    for (letters, names) in &known.types {
        let offered_in: BTreeSet<String> = letters.chars().map(|c| format!("{region}{c}")).collect();
        zones_of.extend(names.iter().map(|name| (name.clone(), offered_in.clone())));
    }
    RegionOfferings { zones, zones_of }
}

fn unknown_region(region: &str) -> RegionOfferings {
    let id = short_name(region);
    let zones: Vec<Zone> = ('a'..='c')
        .zip(1..)
        .map(|(letter, n)| Zone { name: format!("{region}{letter}"), id: format!("{id}-az{n}") })
        .collect();
    let names: BTreeSet<String> = zones.iter().map(|z| z.name.clone()).collect();
    let types = all().get("us-east-1").into_iter().flat_map(|r| r.types.values().flatten());
    RegionOfferings { zones, zones_of: types.map(|t| (t.clone(), names.clone())).collect() }
}

/// The region as zone ids write it: `us-gov-west-1` is `usgw1`, `ap-southeast-2` is `apse2`.
fn short_name(region: &str) -> String {
    region
        .split('-')
        .enumerate()
        .map(|(i, part)| match part {
            "northeast" => "ne".to_owned(),
            "northwest" => "nw".to_owned(),
            "southeast" => "se".to_owned(),
            "southwest" => "sw".to_owned(),
            _ if i == 0 || part.starts_with(|c: char| c.is_ascii_digit()) => part.to_owned(),
            _ => part.chars().take(1).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn zone_ids_abbreviate_the_region_as_aws_does() {
        assert_eq!(short_name("ap-southeast-2"), "apse2");
        assert_eq!(short_name("us-gov-west-1"), "usgw1");
        assert_eq!(short_name("eu-central-1"), "euc1");
    }
}
