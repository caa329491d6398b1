//! Overlays at a few types and pools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::overlays::NodeOverlay;
use dovetail_api::v1::NodePool;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster_state::{ClusterState, PlanningInput};
use crate::instance_type::Offering;
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ON_DEMAND, SPOT, ZONE};
use crate::resources::MEMORY;

fn overlay(name: &str, spec: Value) -> WrittenOverlay {
    let mut spec = spec;
    if spec.get("requirements").is_none() {
        spec["requirements"] = json!([]);
    }
    let object =
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec});
    WrittenOverlay::new(serde_json::from_value::<NodeOverlay>(object).unwrap())
}

/// An instance type in two zones, spot and on demand.
fn kind(name: &str, price: f64) -> Arc<InstanceType> {
    let offering = |zone: &str, capacity_type: &str, price: f64| json!({"zone": zone, "capacityType": capacity_type, "price": price, "available": true});
    let family = name.split('.').next().unwrap();
    let one_of = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let written = json!({"name": name, "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "requirements": [one_of(INSTANCE_TYPE, json!([name])), one_of("karpenter.k8s.aws/instance-family", json!([family])),
            one_of(CAPACITY_TYPE, json!([SPOT, ON_DEMAND])), one_of(ZONE, json!(["a", "b"])),
            one_of("karpenter.k8s.aws/instance-cpu", json!(["2"]))],
        "offerings": [offering("a", SPOT, price / 2.0), offering("b", SPOT, price / 2.0),
            offering("a", ON_DEMAND, price), offering("b", ON_DEMAND, price)]});
    Arc::new(serde_json::from_value(written).unwrap())
}

fn pool(name: &str, types: &ClassTypes) -> OverlaidPool {
    let labels = BTreeMap::from([(NODE_POOL.to_owned(), name.to_owned()), ("team".to_owned(), "a".to_owned())]);
    OverlaidPool { name: name.to_owned(), labels, types: types.clone() }
}

fn catalogue() -> ClassTypes {
    Arc::new(vec![kind("m5.large", 0.1), kind("c5.large", 0.08), kind("r5.large", 0.12)])
}

fn outcome(overlays: &[WrittenOverlay], pools: &[OverlaidPool]) -> Overlaid {
    let all: BTreeMap<String, KnownOverlay> =
        overlays.iter().map(|one| (one.object.metadata.name.clone().unwrap(), one.read.clone())).collect();
    evaluate(&all, pools)
}

fn offering<'a>(all: &'a Overlaid, pool: &str, name: &str, zone: &str, kind: &str) -> Option<&'a Offering> {
    let one = all.types.get(pool)?.iter().find(|one| one.name == name)?;
    one.offerings.iter().find(|one| one.zone == zone && one.capacity_type == kind)
}

fn price(all: &Overlaid, name: &str, kind: &str) -> f64 {
    offering(all, "p", name, "a", kind).unwrap().price
}

fn named(key: &str, values: &[&str]) -> Value {
    json!([{"key": key, "operator": "In", "values": values}])
}

#[test]
fn prices_are_set_added_and_scaled_and_never_negative() {
    let pools = [pool("p", &catalogue())];
    for (spec, expected) in [
        (json!({"price": "0.5"}), 0.5),
        (json!({"priceAdjustment": "+0.5"}), 0.6),
        (json!({"priceAdjustment": "-0.04"}), 0.06),
        (json!({"priceAdjustment": "-7"}), 0.0),
        (json!({"priceAdjustment": "-68%"}), 0.032),
        (json!({"priceAdjustment": "+250%"}), 0.35),
        (json!({"priceAdjustment": "-100%"}), 0.0),
    ] {
        let all = outcome(&[overlay("one", spec.clone())], &pools);
        let own = offering(&all, "p", "m5.large", "a", ON_DEMAND).unwrap();
        assert!((own.price - expected).abs() < 1e-9 && own.billed_price() == 0.1, "{spec}: {own:?}");
    }
}

#[test]
fn overlay_acts_on_the_types_and_offerings_it_names() {
    let types = catalogue();
    let pools = [pool("p", &types), pool("q", &types)];
    let requirements = json!([{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
        {"key": CAPACITY_TYPE, "operator": "NotIn", "values": [SPOT]}, {"key": ZONE, "operator": "In", "values": ["b"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["1"]},
        {"key": NODE_POOL, "operator": "In", "values": ["p"]}, {"key": "team", "operator": "Exists"}]);
    let all = outcome(&[overlay("one", json!({"requirements": requirements, "price": "9"}))], &pools);
    assert!(!all.types.contains_key("q"));
    let prices: Vec<f64> = all.types["p"].iter().flat_map(|one| one.offerings.iter().map(|one| one.price)).collect();
    assert_eq!(prices.iter().filter(|price| **price == 9.0).count(), 1);
    assert_eq!(offering(&all, "p", "m5.large", "b", ON_DEMAND).unwrap().price, 9.0);
    // Types that nothing is said of are the catalogue's own.
    assert!(Arc::ptr_eq(&all.types["p"][1], &types[1]) && all.types["p"][1].offerings[0].list_price.is_none());
    let reach = OverlayReach { pools: ["p".to_owned()].into(), types: 1, offerings: 1 };
    assert_eq!(all.effects["one"], OverlayEffect::Applied(reach));
}

#[test]
fn key_that_a_type_lacks_selects_nothing_but_for_absence() {
    let pools = [pool("p", &catalogue())];
    for (operator, values, selects) in [
        ("In", json!(["x"]), false),
        ("Exists", json!([]), false),
        ("Gt", json!(["1"]), false),
        ("NotIn", json!(["x"]), true),
        ("DoesNotExist", json!([]), true),
    ] {
        let requirements = json!([{"key": "example.com/rack", "operator": operator, "values": values}]);
        let all = outcome(&[overlay("one", json!({"requirements": requirements, "price": "1"}))], &pools);
        assert_eq!(all.types.contains_key("p"), selects, "{operator}");
    }
    let none = outcome(&[overlay("one", json!({"requirements": named(INSTANCE_TYPE, &["x9"]), "price": "1"}))], &pools);
    let verdict = judge_overlay(&none.effects["one"]);
    assert_eq!((verdict.status, verdict.reason), ("True", "ValidationSucceeded"));
    assert_eq!(verdict.message, "it selects no instance type of any NodePool");
}

#[test]
fn offering_of_no_reservation_has_no_label_of_one() {
    let pools = [pool("p", &catalogue())];
    let of_block = json!([{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]);
    assert!(outcome(&[overlay("one", json!({"requirements": of_block, "price": "0"}))], &pools).types.is_empty());
}

#[test]
fn heavier_overlay_wins_by_field_and_resource() {
    let pools = [pool("p", &catalogue())];
    let heavy = json!({"weight": 10, "priceAdjustment": "+1", "requirements": named(INSTANCE_TYPE, &["m5.large"]),
        "capacity": {"example.com/fuse": "4"}});
    let light = json!({"price": "2", "capacity": {"example.com/fuse": "1", "hugepages-2Mi": "1Gi"}});
    let all = outcome(&[overlay("z-light", light), overlay("a-heavy", heavy)], &pools);
    assert!((price(&all, "m5.large", SPOT) - 1.05).abs() < 1e-9 && price(&all, "c5.large", SPOT) == 2.0);
    let [m5, c5] = [&all.types["p"][0], &all.types["p"][1]];
    assert_eq!((m5.capacity.get("example.com/fuse"), c5.capacity.get("example.com/fuse")), (4, 1));
    let page = 1 << 30;
    assert_eq!((m5.capacity.get("hugepages-2Mi"), m5.allocatable().get(MEMORY)), (page, 7 * page));
    assert!(all.effects.values().all(|effect| matches!(effect, OverlayEffect::Applied(_))));
}

#[test]
fn conflict_refuses_the_later_as_a_whole_and_names_the_other() {
    let types = catalogue();
    let pools = [pool("p", &types), pool("q", &types)];
    let both = json!({"weight": 5, "price": "3", "requirements": named(NODE_POOL, &["p"])});
    let first = overlay("later-name", both);
    let second = overlay("early-name", json!({"weight": 5, "price": "4", "capacity": {"example.com/fuse": "1"}}));
    let all = outcome(&[second, first], &pools);
    assert_eq!(price(&all, "m5.large", SPOT), 3.0);
    assert!(!all.types.contains_key("q"), "refused in all pools");
    assert!(all.types["p"].iter().all(|one| one.capacity.get("example.com/fuse") == 0), "refused with all it says");
    let verdict = judge_overlay(&all.effects["early-name"]);
    assert_eq!((verdict.status, verdict.reason), ("False", "Conflict"));
    assert!(verdict.message.starts_with("conflict with another overlay: later-name"), "{}", verdict.message);
    assert_eq!(judge_overlay(&all.effects["later-name"]).status, "True");
}

#[test]
fn conflict_behind_a_heavier_overlay_is_one_too() {
    let pools = [pool("p", &catalogue())];
    let heavy = overlay("h", json!({"weight": 9, "price": "1"}));
    let (b, c) = (overlay("b", json!({"price": "2"})), overlay("c", json!({"price": "3"})));
    let all = outcome(&[heavy.clone(), b.clone(), c.clone()], &pools);
    assert!(matches!(&all.effects["b"], OverlayEffect::Conflict(with) if with.other == "c"), "{all:?}");
    // Two resources of one weight are in conflict only if they are the same.
    let fuse = overlay("b", json!({"capacity": {"example.com/fuse": "1"}}));
    let rack = overlay("c", json!({"capacity": {"example.com/rack": "1"}}));
    let all = outcome(&[fuse.clone(), rack], &pools);
    assert_eq!((all.types["p"][0].overlaid_resources.len(), all.effects.len()), (2, 2));
    let all = outcome(&[fuse, overlay("c", json!({"capacity": {"example.com/fuse": "2"}}))], &pools);
    let conflict =
        OverlayConflict { other: "c".into(), weight: 0, both_say: "example.com/fuse of m5.large in nodepool p".into() };
    assert_eq!(all.effects["b"], OverlayEffect::Conflict(conflict));
}

#[test]
fn mistake_is_named_and_others_go_on() {
    let pools = [pool("p", &catalogue())];
    for (spec, says) in [
        (json!({"price": "1", "priceAdjustment": "+1"}), "exclude each other"),
        (json!({"price": "-1"}), "spec.price"),
        (json!({"price": "1e3"}), "spec.price"),
        (json!({"price": "99999999"}), "spec.price"),
        (json!({"priceAdjustment": "15%"}), "spec.priceAdjustment"),
        (json!({"priceAdjustment": "-100.5%"}), "spec.priceAdjustment"),
        (json!({"priceAdjustment": "+"}), "spec.priceAdjustment"),
        (json!({"capacity": {"cpu": "8"}}), "spec.capacity[cpu]"),
        (json!({"capacity": {"example.com/fuse": "-1"}}), "spec.capacity[example.com/fuse]"),
        (json!({"capacity": {"a b": "1"}}), "spec.capacity[a b]"),
        (json!({"weight": -3}), "spec.weight"),
        (json!({"weight": 10_001}), "spec.weight"),
        (json!({"requirements": [{"key": "a", "operator": "NotIn"}]}), "NotIn has no value"),
        (json!({"requirements": [{"key": "a", "operator": "In"}]}), "In has no value"),
        (json!({"requirements": [{"key": "a", "operator": "Gt", "values": ["x"]}]}), "one integer"),
        (json!({"requirements": named("kubernetes.io/hostname", &["x"])}), "spec.requirements[0]"),
        (json!({"requirements": named("karpenter.sh/other", &["x"])}), "spec.requirements[0]"),
        (json!({"requirements": named(CAPACITY_TYPE, &["sport"])}), "capacity types"),
        (json!({"requirements": named(ZONE, &["a zone"])}), "no label's value"),
    ] {
        let good = overlay("good", json!({"weight": 2, "price": "7"}));
        let all = outcome(&[overlay("bad", spec.clone()), good], &pools);
        let verdict = judge_overlay(&all.effects["bad"]);
        assert_eq!((verdict.status, verdict.reason), ("False", "RuntimeValidation"), "{spec}");
        assert!(verdict.message.contains(says), "{spec}: {}", verdict.message);
        assert_eq!(price(&all, "m5.large", SPOT), 7.0, "{spec}");
    }
}

#[test]
fn book_works_an_outcome_out_once_and_forgets_the_removed() {
    let types = catalogue();
    let mut book = OverlayBook::default();
    assert!(book.insert(overlay("one", json!({"price": "7"}))));
    let first = book.outcome(vec![pool("p", &types)]);
    assert!(Arc::ptr_eq(&first, &book.clone().outcome(vec![pool("p", &types)])), "nothing has changed");
    assert!(!Arc::ptr_eq(&first, &book.outcome(vec![pool("p", &catalogue())])), "the types are others");
    assert!(!book.insert(overlay("one", json!({"price": "7"}))), "the same is no news");
    assert!(Arc::ptr_eq(&first, &book.outcome(vec![pool("p", &types)])));
    assert!(book.remove("one") && book.is_empty() && !book.remove("one"));
    assert!(book.outcome(vec![pool("p", &types)]).types.is_empty());
}

fn ready_pool(name: &str) -> NodePool {
    serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [], "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
    .unwrap()
}

#[test]
fn plan_has_each_pools_types_and_is_as_before_once_overlays_go() {
    let mut state = ClusterState::new();
    for name in ["p", "q", "r"] {
        state.apply_pool(ready_pool(name));
    }
    let input =
        PlanningInput { instance_types: [("default".to_owned(), catalogue())].into(), ..PlanningInput::default() };
    let problem = |state: &ClusterState| state.snapshot().planning(&input).problem;
    let before = format!("{:?}", problem(&state));
    let spec = json!({"requirements": named(NODE_POOL, &["p"]), "price": "9", "capacity": {"example.com/fuse": "1"}});
    assert!(state.apply_overlay(overlay("one", spec)));
    let with = problem(&state);
    let own = |nth: usize| with.node_pools[nth].instance_types.clone().unwrap();
    assert_eq!((own(0), own(1), own(2)), (vec![0, 1, 2], vec![3, 4, 5], vec![3, 4, 5]));
    assert!(with.instance_types[0].offerings.iter().all(|one| one.price == 9.0));
    assert_eq!(with.instance_types[0].allocatable().get("example.com/fuse"), 1);
    assert!(!with.instance_types[3].is_overlaid());
    assert!(state.delete_overlay("one"));
    assert_eq!(format!("{:?}", problem(&state)), before);
    // A late answer to a write of its status brings it not back.
    assert!(!state.overlay_written(overlay("one", json!({"price": "1"}))));
    assert_eq!(format!("{:?}", problem(&state)), before);
}

fn any_overlay() -> impl Strategy<Value = Value> {
    let of_type = prop_oneof![
        Just(json!([])),
        prop::sample::subsequence(vec!["m5.large", "c5.large", "r5.large"], 1..3)
            .prop_map(|names| named(INSTANCE_TYPE, &names)),
        Just(named(CAPACITY_TYPE, &[SPOT])),
        Just(named(NODE_POOL, &["q"])),
        Just(json!([{"key": ZONE, "operator": "NotIn", "values": ["a"]}])),
    ];
    let says = prop_oneof![
        (1..9_u32).prop_map(|price| json!({"price": price.to_string()})),
        (1..99_u32).prop_map(|part| json!({"priceAdjustment": format!("-{part}%")})),
        (1..9_u32).prop_map(|count| json!({"capacity": {"example.com/fuse": count.to_string()}})),
    ];
    (of_type, says, prop::option::of(1..4_i32)).prop_map(|(requirements, mut spec, weight)| {
        spec["requirements"] = requirements;
        spec["weight"] = json!(weight);
        spec
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// OVL-1 and OVL-3: the naive rule, offering by offering, has the same outcome in whatever order overlays come.
    #[test]
    fn order_in_which_overlays_come_changes_nothing(
        (specs, order) in prop::collection::vec(any_overlay(), 0..7).prop_flat_map(|specs| {
            let order = Just((0..specs.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(specs), order)
        }),
    ) {
        let all: Vec<_> = specs.iter().enumerate().map(|(nth, spec)| overlay(&format!("o{nth}"), spec.clone())).collect();
        let types = catalogue();
        let pools = [pool("p", &types), pool("q", &types)];
        let expected = outcome(&all, &pools);
        let (mut book, mut shuffled) = (OverlayBook::default(), OverlayBook::default());
        for one in &all {
            book.insert(one.clone());
        }
        for at in &order {
            shuffled.insert(all[*at].clone());
        }
        let reversed = [pools[1].clone(), pools[0].clone()];
        prop_assert_eq!(&*book.outcome(pools.to_vec()), &expected);
        prop_assert_eq!(&*shuffled.outcome(pools.to_vec()), &expected);
        prop_assert_eq!(shuffled.outcome(reversed.to_vec()).types.clone(), expected.types.clone());
        // The heaviest that counts has the say.
        let counts = |one: &&WrittenOverlay| {
            let own = one.read.as_ref().unwrap();
            matches!(expected.effects[&own.name], OverlayEffect::Applied(_)) && own.price.is_some()
        };
        for pool in &pools {
            let own = expected.types.get(&pool.name).unwrap_or(&types);
            for (overlaid, plain) in own.iter().zip(types.iter()) {
                for (offering, listed) in overlaid.offerings.iter().zip(&plain.offerings) {
                    let says = all.iter().filter(counts).filter(|one| selects(one, pool, plain, listed));
                    let heaviest = says.max_by_key(|one| one.read.as_ref().unwrap().weight);
                    let price = heaviest.map_or(listed.price, |one| one.read.as_ref().unwrap().price.unwrap().apply(listed.price));
                    prop_assert!((offering.price - price).abs() < 1e-12);
                    prop_assert_eq!(offering.billed_price(), listed.price);
                }
            }
        }
    }
}

/// True if an overlay of [`any_overlay`] selects an offering, looked at by itself.
fn selects(one: &WrittenOverlay, pool: &OverlaidPool, kind: &InstanceType, offering: &Offering) -> bool {
    one.read.as_ref().unwrap().requirements.iter().all(|(key, wanted)| match key {
        NODE_POOL => wanted.has(&pool.name),
        INSTANCE_TYPE => wanted.has(&kind.name),
        ZONE => wanted.has(&offering.zone),
        _ => wanted.has(&offering.capacity_type),
    })
}

/// A thousand overlays on a catalogue of 800 types: work, not time, is bounded here; the time is in docs/overlays.md.
#[test]
fn thousand_overlays_are_evaluated() {
    let types: ClassTypes = Arc::new((0..800).map(|nth| kind(&format!("m{}.s{nth}", nth % 40), 0.1)).collect());
    let pools: Vec<_> = (0..5).map(|nth| pool(&format!("p{nth}"), &types)).collect();
    let mut book = OverlayBook::default();
    for nth in 0..1_000 {
        let requirements = match nth % 3 {
            0 => named(INSTANCE_TYPE, &[&format!("m{}.s{}", nth % 40, nth % 800)]),
            1 => named("karpenter.k8s.aws/instance-family", &[&format!("m{}", nth % 40)]),
            _ => json!([{"key": CAPACITY_TYPE, "operator": "In", "values": [SPOT]}]),
        };
        let spec = json!({"weight": nth + 1, "priceAdjustment": "-1%", "requirements": requirements});
        book.insert(overlay(&format!("o{nth}"), spec));
    }
    let begun = std::env::var_os("OVERLAY_TIMES").map(|_| stopwatch());
    let all = book.outcome(pools.clone());
    if let Some(begun) = begun {
        eprintln!("1,000 overlays, 800 types, 5 pools: {:?}", begun());
    }
    assert_eq!((all.types.len(), all.effects.len()), (5, 1_000));
    assert!(Arc::ptr_eq(&all.types["p0"], &all.types["p4"]), "pools that are alike share the list");
    assert!(Arc::ptr_eq(&all, &book.outcome(pools)));
}

/// Time since the call, for figures.
fn stopwatch() -> impl Fn() -> std::time::Duration {
    #[allow(clippy::disallowed_methods)]
    let begun = std::time::Instant::now();
    move || begun.elapsed()
}
