//! The search against kube-scheduler's own allocator (tests/devices/README.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use dovetail_core::dra::{DeviceId, Devices, Place, Reach, Search, Selectors, Wanted, gather_pools};
use dovetail_core::requirements::Requirements;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::book;

/// Steps of a search: no drawn set needs as many.
const STEPS: u64 = 5_000_000;

/// Answer of our search for a set: the devices of each claim, or the reason.
fn search(set: &Value) -> Result<Vec<Vec<DeviceId>>, String> {
    let list = |key: &str| set[key].as_array().unwrap().clone();
    let known = book(&list("slices"), &list("classes"), &list("claims"));
    let zone = Requirements::from_labels(&BTreeMap::from([("zone".to_owned(), "a".to_owned())]));
    let pools = gather_pools(known.slices.all().values(), |slice| match &slice.reach {
        Reach::Nowhere => false,
        Reach::Everywhere => true,
        Reach::Node(name) => name == "node-1",
        Reach::Terms(terms) => terms.iter().any(|term| zone.compatible(term, &BTreeSet::new()).is_ok()),
    });
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    let written = list("taken");
    let taken = written.iter().map(|one| DeviceId {
        driver: text(one, "driver"),
        pool: text(one, "pool"),
        device: text(one, "device"),
    });
    let taken: BTreeSet<DeviceId> = taken.collect();
    let mut selectors = Selectors::default();
    let mut place = Place::new(Arc::new(Devices::new(pools, &mut selectors)), &taken);
    let claims: Vec<_> = known.claims.all().values().collect();
    let mut wishes = Vec::new();
    for claim in &claims {
        wishes.push(Wanted { claim: &claim.name, wish: claim.wish.as_ref().map_err(Clone::clone)? });
    }
    let found = Search { classes: known.classes.all(), selectors: &mut selectors, steps: STEPS }
        .take_devices(&wishes, &mut place)?;
    let all: Vec<&DeviceId> = found.iter().flatten().collect();
    let each: BTreeSet<&DeviceId> = all.iter().copied().collect();
    assert!(each.len() == all.len() && each.is_disjoint(&taken.iter().collect()), "a device is given twice");
    Ok(found)
}

#[test]
fn searches_answer_as_kube_schedulers_allocator() {
    let packed: &[u8] = include_bytes!("../../../../tests/devices/allocator-1.36.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let (mut sets, mut allocated, mut differ) = (0, 0, Vec::new());
    for line in text.lines() {
        let set: Value = serde_json::from_str(line).unwrap();
        let (ours, theirs) = (search(&set), set["allocated"].as_bool().unwrap());
        sets += 1;
        allocated += usize::from(theirs);
        if ours.is_ok() != theirs {
            differ.push(format!("set {sets}: theirs {theirs} {}, ours {ours:?}\n{line}", set["error"]));
        }
    }
    assert!(differ.is_empty(), "{} of {sets} differ; the first: {}", differ.len(), differ[0]);
    assert!(sets == 1000 && allocated > 200 && allocated < 800, "{allocated} of {sets} sets can be allocated");
}
