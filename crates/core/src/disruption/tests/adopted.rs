//! Pools that Karpenter has had: nothing goes before somebody has taken them over, nor while they are held back.

use super::*;
use crate::adoption::{AdoptAs, Annotations, settle};
use crate::lifecycle::hash::{Computed, Generations, OF_POOL};

/// Annotations that Karpenter has written on its pools, by its versions.
const STAMPS: [&[(&str, &str)]; 3] = [
    &[("karpenter.sh/nodepool-hash", "1234567")],
    &[("karpenter.sh/nodepool-hash", "1234567"), ("karpenter.sh/nodepool-hash-version", "v2")],
    &[("karpenter.sh/nodepool-hash", "1234567"), ("karpenter.sh/nodepool-hash-version", "v3")],
];

/// Three empty nodes and an expired one, of a pool that Karpenter has stamped.
fn karpenters(stamp: &[(&str, &str)]) -> World {
    let mut world = World::new(json!({})).machines(&["n0", "n1", "n2"]);
    world.machine("old", |claim, _| claim["spec"]["expireAfter"] = json!("1m"));
    stamp.iter().for_each(|(key, value)| world.annotate(key, value));
    world
}

fn taken_over(world: &mut World, wanted: AdoptAs) {
    let mut own: Annotations = serde_json::from_value(world.pool["metadata"]["annotations"].clone()).unwrap();
    assert!(settle(&mut own, wanted, at(world.seconds)).is_some());
    let computed = Computed { same: "2".into(), fresh: "2".into(), of: String::new() };
    OF_POOL.settle(&mut own, &computed, Generations::default());
    let mut pool = world.pool.clone();
    pool["metadata"]["annotations"] = json!(own);
    pool["metadata"]["resourceVersion"] = json!(world.next().to_string());
    world.apply_pool(pool);
}

fn looked_at(world: &mut World, from: f64, to: f64) -> usize {
    let mut removed = 0;
    let mut seconds = from;
    while seconds < to {
        removed += world.look(seconds).removals.iter().map(|one| one.claims.len()).sum::<usize>();
        seconds += 5.0;
    }
    removed
}

#[test]
fn nothing_goes_before_a_pool_of_karpenters_is_taken_over() {
    for stamp in STAMPS {
        let mut world = karpenters(stamp);
        assert_eq!(looked_at(&mut world, 0.0, 3600.0), 0, "{stamp:?}");
    }
}

#[test]
fn a_pool_that_was_taken_over_is_observed_until_it_is_released() {
    for stamp in STAMPS {
        let mut world = karpenters(stamp);
        taken_over(&mut world, AdoptAs::default());
        assert_eq!(looked_at(&mut world, 0.0, 3600.0), 0, "{stamp:?}");
        world.annotate("dovetail.dev/disruption", "");
        assert!(looked_at(&mut world, 3600.0, 3700.0) > 0, "{stamp:?}: released");
    }
}

#[test]
fn a_pool_that_is_taken_as_it_is_goes_on_at_once() {
    let mut world = karpenters(STAMPS[2]);
    taken_over(&mut world, AdoptAs::NOTHING);
    assert!(looked_at(&mut world, 0.0, 100.0) > 0);
}

#[test]
fn an_operator_who_says_beforehand_that_nodes_go_is_heeded() {
    let mut world = karpenters(STAMPS[2]);
    world.annotate("dovetail.dev/disruption", "");
    assert!(looked_at(&mut world, 0.0, 100.0) > 0);
}
