//! Spot prices: read again and again, without anybody waiting for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;
use played::{Played, manifests, play_over};

/// A workload of pods with a node each, of spot capacity of two instance types that cost about the same.
fn on_spot(name: &str, scenario: &str) -> Played {
    let manifests = manifests(1).replace("values: [on-demand]", "values: [spot]");
    play_over(name, &manifests, scenario)
}

fn instance_types(played: &Played) -> Vec<String> {
    let nodes = played.report["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["instanceType"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn fourfold_spot_rise_costs_less_where_prices_are_read_again() {
    let first = &instance_types(&on_spot("market-before", "settings: {MAX_OPTION_PRICE: '1'}\nuntil: 10m\n"))[0];
    let bill = |name: &str, refresh: &str| {
        let played = on_spot(
            name,
            &format!(
                "settings: {{MAX_OPTION_PRICE: '1', SPOT_PRICE_REFRESH_INTERVAL: {refresh}}}
faults: {{ec2: {{spotRise: {{types: ['{first}'], times: 4, within: 1h}}}}}}
steps:
  - {{at: 55m, scale: {{kind: Deployment, name: web, replicas: 30}}}}
until: 80m
"
            ),
        );
        played.came_out_well();
        assert_eq!(played.report["pods"]["bound"], 30);
        let dear = instance_types(&played).iter().filter(|one| *one == first).count();
        (played.report["costTotal"].as_f64().unwrap(), dear)
    };
    let (looks, never) = (bill("market-looks", "10m"), bill("market-never", "never"));
    println!(
        "{first} grows fourfold in an hour: ${:.2} where prices are read every ten minutes, ${:.2} where never again",
        looks.0, never.0
    );
    assert_eq!((looks.1, never.1), (1, 30), "nodes of the type that has become dear");
    assert!(looks.0 < never.0 * 0.9, "{looks:?} {never:?}");
}

/// Ten nodes of two types in three zones, the pools of one zone two and three deep and the cheapest of all; its deeper pool is
/// interrupted whole, and sold out for ten minutes.
#[test]
fn spot_pools_have_depths_and_are_interrupted_whole() {
    let pools = "m5.large/ca-west-1a: {times: 0.3, depth: 3}, m6i.large/ca-west-1a: {times: 0.3, depth: 2}";
    let played = on_spot(
        "spot-pools",
        &format!(
            "faults: {{ec2: {{spotPools: {{{pools}}}}}}}
steps:
  - {{at: 30s, scale: {{kind: Deployment, name: web, replicas: 10}}}}
  - {{at: 5m, interrupt: {{pool: m5.large/ca-west-1a, for: 10m}}}}
  - {{at: 5m, interrupt: {{pool: c6i.large/ca-west-1a}}}}
until: 12m
"
        ),
    );
    played.came_out_well();
    assert_eq!(played.report["pods"]["bound"], 10);
    let begun = |name: &str, before: f64| {
        let begun = played.seen("instance", &[("change", "pending"), ("instanceType", name), ("zone", "ca-west-1a")]);
        begun.into_iter().filter(|event| played::at(event) < before).count()
    };
    assert_eq!((begun("m5.large", 300.0), begun("m6i.large", 300.0)), (3, 2), "as many as fit, as they are cheap");
    assert_eq!(begun("m5.large", 720.0), 3, "none while the pool is sold out");
    let interrupted = played.seen("instance", &[("change", "interrupted"), ("zone", "ca-west-1a")]);
    assert_eq!(interrupted.len(), 3, "{interrupted:?}");
    assert!(interrupted.iter().all(|event| event["instanceType"] == "m5.large"), "{interrupted:?}");
}

#[test]
fn nobody_waits_for_a_spot_price_history_that_is_slow() {
    let played = on_spot("slow-spot-history", "faults: {ec2: {slowSpotHistory: 15s}}\nuntil: 20m\n");
    played.came_out_well();
    assert_eq!(played.report["pods"]["bound"], 1);
    let read = played.times("catalogue_read");
    assert!(read[0] < 30.0, "first by other prices: {read:?}");
    assert!(read.len() >= 2 && read[1] > 12.0, "then by those that came: {read:?}");
    assert!(played.times("launched")[0] < 60.0, "{:?}", played.times("launched"));
}
