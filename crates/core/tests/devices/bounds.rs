//! Objects that lie, and searches without an end: they are refused with the reason, and others are not affected.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::resource::ResourceSlice;
use dovetail_core::dra::{DeviceBook, Devices, Place, Search, Selectors, Wanted, gather_pools};
use serde_json::{Value, json};

use crate::{book, claim, class, slice};

const STEPS: u64 = 5_000_000;

/// The number of devices that each claim gets out of all slices, or the reason that there are none.
fn take_all(known: &DeviceBook) -> Result<Vec<usize>, String> {
    let pools = gather_pools(known.slices.all().values(), |_| true);
    let mut selectors = Selectors::default();
    let mut place = Place::new(Arc::new(Devices::new(pools, &mut selectors)), &BTreeSet::new());
    let mut wishes = Vec::new();
    for one in known.claims.all().values() {
        wishes.push(Wanted { claim: &one.name, wish: one.wish.as_ref().map_err(Clone::clone)? });
    }
    let mut search = Search { classes: known.classes.all(), selectors: &mut selectors, steps: STEPS };
    let found = search.take_devices(&wishes, &mut place)?;
    Ok(found.iter().map(Vec::len).collect())
}

fn gpu() -> Value {
    class("gpu", &[r#"device.driver == "gpu.nvidia.com""#])
}

fn of_gpu(count: u32) -> Value {
    json!({"deviceClassName": "gpu", "count": count})
}

#[test]
fn slices_that_lie_spoil_their_own_pool_alone() {
    let spoiled = |change: fn(&mut Value)| {
        let mut bad = slice("bad", 8);
        change(&mut bad["spec"]);
        bad
    };
    let devices = |count: usize| -> Value { slice("bad", count)["spec"]["devices"].clone() };
    let mut many = slice("bad", 8);
    many["spec"]["devices"] = devices(129);
    for bad in [
        many,
        spoiled(|spec| spec["devices"][1]["name"] = json!("gpu-0")),
        spoiled(|spec| spec["pool"]["resourceSliceCount"] = json!(3)),
        spoiled(|spec| spec["devices"][0]["capacity"] = json!({"memory": {"value": "-1"}})),
        spoiled(|spec| spec["devices"][0]["attributes"]["x"] = json!({"string": "y".repeat(10_000)})),
        spoiled(|spec| {
            spec["devices"][0]["consumesCounters"] = json!([{"counterSet": "no", "counters": {"a": {"value": "1"}}}])
        }),
        spoiled(|spec| spec["driver"] = json!("")),
    ] {
        let few = book(&[bad.clone(), slice("good", 2)], &[gpu()], &[claim("a", &of_gpu(2))]);
        assert_eq!(take_all(&few), Ok(vec![2]), "{bad:.200}");
        let more = book(&[bad.clone(), slice("good", 2)], &[gpu()], &[claim("a", &of_gpu(3))]);
        assert!(take_all(&more).is_err(), "{bad:.200}");
    }
}

#[test]
fn devices_without_number_are_not_kept() {
    let mut known = book(&[], &[gpu()], &[claim("a", &of_gpu(1))]);
    let mut object: ResourceSlice = serde_json::from_value(slice("node", 100)).unwrap();
    for at in 0..2_100 {
        object.metadata.name = Some(format!("node-{at}-gpus"));
        known.apply_slice(&object);
    }
    let kept: usize = known.slices.all().values().map(|one| one.devices.len()).sum();
    assert_eq!(kept, 200_000);
    known.retain_slices(|name| name == "node-1-gpus");
    known.apply_slice(&serde_json::from_value(slice("later", 100)).unwrap());
    assert_eq!(known.slices.all()["later-gpus"].devices.len(), 100);
}

#[test]
fn hostile_searches_end_with_the_reason() {
    // Devices that are all different, and a rule that no two of them keep: every pair is tried.
    let devices: Vec<Value> = (0..100)
        .map(|at| json!({"name": format!("d{at}"), "attributes": {"index": {"int": at}, "half": {"int": at / 50}}}))
        .collect();
    let mut one = slice("node", 0);
    one["spec"]["devices"] = json!(devices);
    let mut other = one.clone();
    other["metadata"]["name"] = json!("other");
    other["spec"]["pool"]["name"] = json!("other");
    let mut hostile = claim("a", &json!({"deviceClassName": "gpu", "count": 32}));
    let requests =
        |claim: &mut Value, more: Value| claim["spec"]["devices"]["requests"].as_array_mut().unwrap().push(more);
    requests(
        &mut hostile,
        json!({"name": "s", "exactly": {"deviceClassName": "gpu", "count": 1,
        "selectors": [{"cel": {"expression": r#"device.attributes["gpu.nvidia.com"].index < 0"#}}]}}),
    );
    let error = take_all(&book(&[one.clone(), other.clone()], &[gpu()], &[hostile])).unwrap_err();
    assert!(error.contains("asks for 33 devices"), "{error}");
    let mut hostile = claim("a", &json!({"deviceClassName": "gpu", "count": 16}));
    requests(&mut hostile, json!({"name": "s", "exactly": {"deviceClassName": "gpu", "count": 16}}));
    hostile["spec"]["devices"]["constraints"] = json!([
        {"matchAttribute": "gpu.nvidia.com/half", "requests": ["r"]}, {"matchAttribute": "gpu.nvidia.com/index", "requests": ["s"]}]);
    let error = take_all(&book(&[one, other], &[gpu()], &[hostile])).unwrap_err();
    assert!(error.contains("too many steps") || error.contains("constraints"), "{error}");
}

#[test]
fn claims_with_unsupported_fields_name_the_field() {
    for (exactly, part) in [
        (json!({"deviceClassName": "gpu", "adminAccess": true}), "adminAccess"),
        (json!({"deviceClassName": "gpu", "tolerations": [{"operator": "Exists"}]}), "tolerations"),
        (json!({"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}}), "capacity"),
        (json!({"deviceClassName": "gpu", "allocationMode": "Some"}), "allocationMode"),
        (json!({"deviceClassName": "gpu", "count": 0}), "count"),
        (json!({"deviceClassName": "gpu", "count": 33}), "at most 32"),
        (json!({"deviceClassName": "tpu"}), "DeviceClass tpu"),
        (json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.("}}]}), "device.("),
        (
            json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.driver == \"x\""}}]}),
            "met by 0 of 4",
        ),
    ] {
        let error = take_all(&book(&[slice("node", 4)], &[gpu()], &[claim("a", &exactly)])).unwrap_err();
        assert!(error.contains(part), "{exactly}: {error}");
    }
    let mut distinct = claim("a", &of_gpu(1));
    distinct["spec"]["devices"]["constraints"] = json!([{"distinctAttribute": "gpu.nvidia.com/index"}]);
    let error = take_all(&book(&[slice("node", 4)], &[gpu()], &[distinct])).unwrap_err();
    assert!(error.contains("distinctAttribute"), "{error}");
}
