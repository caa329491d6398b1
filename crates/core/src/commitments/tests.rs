//! Sums by hand, and properties over drawn clusters.
#![allow(clippy::unwrap_used, clippy::float_cmp)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use crate::pack::{Options, Packing, solve};
use crate::paid_machines::Running;
use crate::problem::Problem;

fn read(all: Value) -> Commitments {
    Commitments::from_written(&serde_json::from_value::<Vec<WrittenCommitment>>(all).unwrap(), 1.0).unwrap()
}

fn plan(id: &str, dollars: f64, family: Option<&str>) -> Value {
    let kind = if family.is_some() { "ec2InstanceSavingsPlan" } else { "computeSavingsPlan" };
    let mut one = json!({"id": id, "type": kind, "dollarsPerHour": dollars, "discount": 0.5});
    if let Some(family) = family {
        one["family"] = json!(family);
    }
    one
}

fn instances(id: &str, instance_type: &str, zone: Option<&str>, count: u32) -> Value {
    let mut one =
        json!({"id": id, "type": "reservedInstances", "instanceType": instance_type, "count": count, "price": 0.06});
    if let Some(zone) = zone {
        one["zone"] = json!(zone);
    }
    one
}

fn usage(instance_type: &str, zone: &str, price: f64) -> Usage {
    Usage { instance_type: instance_type.into(), zone: zone.into(), price, linux: true }
}

fn uses(all: &[(&str, &str, f64, u32)]) -> Uses {
    let mut uses = Uses::default();
    all.iter().for_each(|(name, zone, price, count)| uses.add(usage(name, zone, *price), *count));
    uses
}

/// Prices: m5.large 0.1, m5.xlarge 0.2, c5.large 0.08.
#[test]
fn ten_bills_are_as_by_hand() {
    let large = |count| ("m5.large", "a", 0.1, count);
    let xlarge = |count| ("m5.xlarge", "b", 0.2, count);
    let other = |count| ("c5.large", "a", 0.08, count);
    for (name, all, uses_of, bill, unused) in [
        ("nothing runs", json!([plan("s", 0.1, None)]), vec![], 0.0, 0.1),
        // 0.1 dollars at half the price cover 0.2 of on-demand prices.
        ("two of three", json!([plan("s", 0.1, None)]), vec![large(3)], 0.1, 0.0),
        ("a half", json!([plan("s", 0.1, None)]), vec![large(1)], 0.0, 0.05),
        ("another family", json!([plan("s", 0.1, Some("c5"))]), vec![large(2)], 0.2, 0.1),
        ("its family alone", json!([plan("s", 0.1, Some("m5"))]), vec![large(1), other(2)], 0.16, 0.05),
        // The family's plan covers 0.2 of the 0.3, the other 0.1 of the rest.
        (
            "family first",
            json!([plan("s", 0.05, None), plan("t", 0.1, Some("m5"))]),
            vec![large(3), other(1)],
            0.08,
            0.0,
        ),
        ("zonal", json!([instances("r", "m5.large", Some("b"), 2)]), vec![large(2)], 0.2, 0.12),
        ("regional", json!([instances("r", "m5.large", None, 2)]), vec![large(3)], 0.1, 0.0),
        // Two of large are one of xlarge, and smaller sizes come first: one large, half an xlarge.
        ("sizes", json!([instances("r", "m5.large", None, 2)]), vec![large(1), xlarge(1)], 0.1, 0.0),
        // The zonal one covers one, the plan 0.1 of what remains.
        (
            "all kinds",
            json!([plan("s", 0.05, None), instances("r", "m5.large", Some("a"), 1)]),
            vec![large(2), other(1)],
            0.08,
            0.0,
        ),
    ] {
        let (all, uses) = (read(all), uses(&uses_of));
        assert!((all.bill(&uses) - bill).abs() < 1e-9, "{name}: {}", all.bill(&uses));
        let sum: f64 = all.unused(&uses).iter().map(|one| one.dollars).sum();
        assert!((sum - unused).abs() < 1e-9, "{name}: {sum} unused");
    }
}

#[test]
fn plans_cover_the_highest_discount_first() {
    let mut one = plan("s", 0.1, None);
    one["discounts"] = json!({"m5": 0.6, "c5": 0.2});
    // 0.1 dollars are two of m5.large at 0.04, and a quarter of c5.large at 0.08.
    let all = read(json!([one]));
    let bill = all.bill(&uses(&[("m5.large", "a", 0.1, 2), ("c5.large", "a", 0.1, 1)]));
    assert!((bill - 0.075).abs() < 1e-9, "{bill}");
}

#[test]
fn reserved_instances_cover_linux_and_zones_come_first() {
    let all = read(json!([instances("r", "m5.large", None, 1), instances("z", "m5.large", Some("a"), 1)]));
    assert_eq!(all.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["z", "r"]);
    // The zonal one covers a, the regional one b.
    assert!(all.bill(&uses(&[("m5.large", "a", 0.1, 1), ("m5.large", "b", 0.1, 1)])).abs() < 1e-9);
    let mut windows = Uses::default();
    windows.add(Usage { linux: false, ..usage("m5.large", "a", 0.1) }, 1);
    assert!((all.bill(&windows) - 0.1).abs() < 1e-9);
}

#[test]
fn sizes_count_by_their_normalisation_factors() {
    let all = ["m5.nano", "m5.large", "m5.12xlarge", "m5.metal-24xl", "m5.metal", "g5.xlarge", "m5.1e9xlarge", "m5"];
    let factors = all.map(size_factor);
    assert_eq!(factors, [Some(0.25), Some(4.0), Some(96.0), Some(192.0), None, None, None, None]);
}

#[test]
fn the_bill_of_nonsense_is_a_number() {
    let all = read(json!([plan("s", 1.0, None), instances("r", "m5.large", None, 1)]));
    for price in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let bill = all.bill(&uses(&[("m5.large", "a", price, u32::MAX), ("", "", price, 2)]));
        assert!(bill.is_finite() && bill >= 0.0, "{price}: {bill}");
    }
}

#[test]
fn mistakes_are_refused_and_named() {
    let good = plan("s", 0.1, None);
    let with = |field: &str, value: Value| {
        let mut one = good.clone();
        one[field] = value;
        one
    };
    for (one, says) in [
        (with("dollarsPerHour", json!(-1.0)), "dollarsPerHour is -1"),
        (with("dollarsPerHour", json!(1e9)), "dollarsPerHour"),
        (with("dollarsPerHour", json!(null)), "dollarsPerHour is missing"),
        (with("discount", json!(1.0)), "discount"),
        (with("share", json!(-0.1)), "share"),
        (with("share", json!(1.5)), "share"),
        (with("family", json!("m5")), "family says nothing"),
        (with("discounts", json!({"m5": 7.0})), "discounts.m5 is 7"),
        (with("begins", json!("2999-01-01T00:00:00Z")), ""),
        (with("count", json!(2)), "count says nothing"),
        (with("id", json!("")), "an id of its own"),
        (json!({"id": "f", "type": "ec2InstanceSavingsPlan", "dollarsPerHour": 1}), "family has to be"),
        (instances("r", "large", None, 1), "instanceType has to be"),
        (instances("r", "m5.large", None, 0), "count has to be"),
        (instances("r", "m5.large", Some(""), 1), "zone is empty"),
    ] {
        let mut written: WrittenCommitment = serde_json::from_value(one).unwrap();
        if written.begins.is_some() {
            written.ends = written.begins;
        }
        let said = Commitments::from_written(&[written], 1.0).unwrap_err();
        assert!(said[0].contains(says), "{says}: {said:?}");
    }
    let twice: Vec<WrittenCommitment> = serde_json::from_value(json!([good, good])).unwrap();
    assert_eq!(Commitments::from_written(&twice, 1.0).unwrap_err().len(), 1);
    assert!(serde_json::from_value::<WrittenCommitment>(with("dollars", json!(1))).is_err(), "an unknown field");
}

#[test]
fn a_share_is_this_clusters_part() {
    let all = json!([plan("s", 1.0, None), instances("r", "m5.large", Some("a"), 3)]);
    let written: Vec<WrittenCommitment> = serde_json::from_value(all).unwrap();
    let half = Commitments::from_written(&written, 0.5).unwrap();
    // 1.5 instances of a zone are one.
    assert!((half.bill(&uses(&[("m5.large", "a", 0.1, 20)])) - (2.0 - 0.1 - 1.0)).abs() < 1e-9);
    assert!((half.cost() - (0.5 + 1.5 * 0.06)).abs() < 1e-9);
}

#[test]
fn a_commitment_that_has_ended_covers_nothing() {
    let mut one = plan("s", 1.0, None);
    one["ends"] = json!("2026-03-10T00:00:00Z");
    let all = read(json!([one]));
    let at = |text: &str| all.in_force(text.parse().unwrap()).iter().map(|one| one.offered).collect::<Vec<_>>();
    assert_eq!(at("2026-03-09T22:59:59Z"), [true]);
    assert_eq!(at("2026-03-09T23:00:00Z"), [false], "it covers for an hour more, and nothing is moved for it");
    assert!(at("2026-03-10T00:00:00Z").is_empty());
}

#[test]
fn nothing_is_offered_of_a_commitment_that_ends_within_the_hour() {
    let mut problem = drawn(1).problem;
    problem.existing_nodes.clear();
    let mut one = plan("s", 10.0, None);
    one["ends"] = json!("2026-03-10T00:00:00Z");
    for (now, offered) in [("2026-03-09T22:00:00Z", true), ("2026-03-09T23:30:00Z", false)] {
        let mut own = problem.clone();
        offer(&mut own, &read(json!([one.clone()])).in_force(now.parse().unwrap()), &Uses::default());
        assert_eq!(takes_any(&own), offered, "{now}");
    }
}

/// Types of two families and three sizes, in two zones: memory twice or four times the cores.
fn types(spot: f64) -> Vec<Value> {
    let mut all = Vec::new();
    for (family, memory, price) in [("m5", 4, 0.05), ("c5", 2, 0.04)] {
        for (size, cores) in [("large", 2), ("xlarge", 4), ("2xlarge", 8)] {
            let price = price * f64::from(cores);
            let offering = |zone: &str, kind: &str, price: f64| json!({"zone": zone, "capacityType": kind, "price": price, "available": true});
            let name = format!("{family}.{size}");
            let offerings: Vec<Value> = ["a", "b"]
                .iter()
                .flat_map(|zone| [offering(zone, "on-demand", price), offering(zone, "spot", price * spot)])
                .collect();
            all.push(json!({"name": name, "offerings": offerings,
                "capacity": {"cpu": cores.to_string(), "memory": format!("{}Gi", cores * memory), "pods": "110"},
                "requirements": [{"key": INSTANCE_TYPE, "operator": "In", "values": [name]}]}));
        }
    }
    all
}

struct Drawn {
    problem: Problem,
    commitments: Commitments,
}

fn drawn(seed: u64) -> Drawn {
    let mut rng = fastrand::Rng::with_seed(seed);
    let kinds: &[&str] = if rng.bool() { &["on-demand"] } else { &["on-demand", "spot"] };
    let spot = 0.3 + 0.6 * rng.f64();
    let names = ["m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge", "c5.2xlarge"];
    let nodes: Vec<Value> = (0..rng.u32(0..5))
        .map(|at| {
            let name = names[rng.usize(..names.len())];
            let kind = kinds[rng.usize(..kinds.len())];
            json!({"name": format!("n{at}"), "initialized": true, "allocatable": {"cpu": "0", "memory": "0", "pods": "0"},
                "labels": {INSTANCE_TYPE: name, ZONE: if rng.bool() { "a" } else { "b" }, CAPACITY_TYPE: kind}})
        })
        .collect();
    let pods: Vec<Value> = (0..rng.u32(1..25))
        .map(|at| {
            let mut pod = json!({"name": format!("p{at}"), "namespace": "default",
                "requests": {"cpu": format!("{}m", rng.u32(1..20) * 200), "memory": format!("{}Mi", rng.u32(1..20) * 512)}});
            if rng.u8(..3) == 0 {
                pod["nodeSelector"] = json!({CAPACITY_TYPE: "on-demand"});
            }
            pod
        })
        .collect();
    let all: Vec<Value> = (0..rng.usize(0..4))
        .map(|at| match rng.u8(..4) {
            0 => plan(&format!("s{at}"), rng.f64(), None),
            1 => plan(&format!("s{at}"), rng.f64(), Some(["m5", "c5"][rng.usize(..2)])),
            2 => instances(&format!("r{at}"), names[rng.usize(..names.len())], Some("a"), rng.u32(1..5)),
            _ => instances(&format!("r{at}"), names[rng.usize(..names.len())], None, rng.u32(1..5)),
        })
        .collect();
    let pool = json!({"name": "default",
        "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": kinds}]});
    let problem = json!({"nodePools": [pool], "instanceTypes": types(spot), "pods": pods, "existingNodes": nodes});
    Drawn { problem: serde_json::from_value(problem).unwrap(), commitments: read(json!(all)) }
}

/// The plans without and with commitments, the last of these, and the bill of the one that is chosen.
fn plans(drawn: &Drawn) -> (Packing, Packing, f64) {
    let Drawn { problem, commitments } = drawn;
    let uses = Running::from_problem(problem).all_uses();
    let plain = solve(problem, &Options::default());
    let (mut chosen, mut other) = (plain.clone(), plain.clone());
    for with in offered(problem, commitments, &uses) {
        other = solve(&with, &Options::default());
        if choose(problem, (commitments, &uses), &chosen, &other) == ChosenPlan::WithCommitments {
            chosen = other.clone();
        }
    }
    let bill = plan_bill(problem, &chosen, commitments, &uses).added;
    (plain, other, bill)
}

#[test]
fn the_bill_of_200_drawn_launches_is_never_higher() {
    let (mut lower, mut more) = (0, 0);
    for seed in 0..200 {
        let drawn = drawn(seed);
        let (plain, other, bill) = plans(&drawn);
        let uses = Running::from_problem(&drawn.problem).all_uses();
        let added = |packing: &Packing| plan_bill(&drawn.problem, packing, &drawn.commitments, &uses).added;
        let before = added(&plain);
        assert!(bill <= before + 1e-9, "seed {seed}: {bill} instead of {before}");
        assert_eq!(plain.unscheduled.len(), other.unscheduled.len(), "seed {seed}: all have a place in either");
        lower += usize::from(bill < before - 1e-6);
        more += usize::from(added(&other) > before + 1e-6);
    }
    assert!(lower > 20, "only {lower} are lower");
    assert!(more < 40, "{more} plans with commitments cost more than without, and are not taken");
}

#[test]
fn nothing_covers_more_than_there_is() {
    for seed in 0..200 {
        let Drawn { problem, commitments } = drawn(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let types = &problem.instance_types;
        let offered: Vec<Usage> = types.iter().map(|one| usage(&one.name, "a", one.offerings[0].price)).collect();
        let uses: Uses = (0..rng.usize(0..40)).map(|_| offered[rng.usize(..offered.len())].clone()).collect();
        let (allocation, bill) = (commitments.allocate(&uses), commitments.bill(&uses));
        assert!(allocation.covered.iter().chain(&allocation.left).all(|part| *part >= 0.0), "{seed}");
        let sum = Commitments::default().bill(&uses);
        assert!((-1e-9..=sum + 1e-9).contains(&bill), "{seed}: {bill} of {sum}");
        // One use more never lowers the bill, one less never raises it.
        let mut more = uses.clone();
        let one = &offered[rng.usize(..offered.len())];
        more.add(one.clone(), 1);
        let added = commitments.bill(&more) - bill;
        assert!(added >= -1e-9, "{seed}: {added}");
        assert_eq!(more.without([one]), uses, "{seed}");
    }
}

#[test]
fn without_commitments_a_problem_is_left_as_it_is() {
    for seed in 0..20 {
        let Drawn { problem, commitments } = drawn(seed);
        let mut same = problem.clone();
        offer(&mut same, &Commitments::default(), &Uses::default());
        assert_eq!(json!(same), json!(problem));
        offer(&mut same, &commitments, &Uses::default());
        without(&mut same.instance_types);
        assert_eq!(json!(same), json!(problem));
    }
}

#[test]
fn a_plan_is_written_as_bought() {
    let mut drawn = drawn(3);
    drawn.commitments = read(json!([plan("s", 10.0, None)]));
    drawn.problem.existing_nodes.clear();
    let mut with = drawn.problem.clone();
    offer(&mut with, &drawn.commitments, &Uses::default());
    let mut other = solve(&with, &Options::default());
    assert!(other.claims.iter().all(|claim| claim.price < 1e-6 && claim.reservations().any(is_marked)));
    as_bought(&drawn.problem, &mut other);
    for claim in &other.claims {
        let one = &drawn.problem.instance_types[claim.cheapest_type().unwrap()];
        assert!((claim.price - one.offerings[0].price).abs() < 1e-12 && claim.reservations().next().is_none());
    }
}

fn node(name: &str, instance_type: &str, labels: Value) -> Value {
    let mut own = json!({INSTANCE_TYPE: instance_type, ZONE: "a"});
    own.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    json!({"name": name, "allocatable": {}, "labels": own})
}

#[test]
fn everything_that_runs_on_demand_takes_of_commitments() {
    let mut problem = drawn(1).problem;
    let group = json!({"eks.amazonaws.com/capacityType": "ON_DEMAND"});
    let spot_group = json!({"eks.amazonaws.com/capacityType": "SPOT"});
    let block = json!({CAPACITY_TYPE: "reserved", "karpenter.k8s.aws/capacity-reservation-type": "capacity-block"});
    let nodes = json!([
        node("of-a-group", "m5.large", group),
        node("by-hand", "m5.large", json!({})),
        node("pool", "m5.large", json!({CAPACITY_TYPE: "on-demand"})),
        node("spot", "m5.large", json!({CAPACITY_TYPE: "spot"})),
        node("spot-group", "m5.large", spot_group),
        node("reserved", "m5.xlarge", json!({CAPACITY_TYPE: "reserved"})),
        node("block", "m5.xlarge", block),
        node("fargate", "m5.large", json!({"eks.amazonaws.com/compute-type": "fargate"})),
    ]);
    problem.existing_nodes = serde_json::from_value(nodes).unwrap();
    let running = Running::from_problem(&problem);
    let names: Vec<&str> = running.by_node.keys().map(String::as_str).collect();
    assert_eq!((names, running.mistrust()), (vec!["by-hand", "of-a-group", "pool"], None));
    assert_eq!(running.fixed, uses(&[("m5.xlarge", "a", 0.2, 1)]));
    // One whose price nobody knows: nothing counts, and that is said.
    problem.existing_nodes.push(serde_json::from_value(node("strange", "x1.large", json!({}))).unwrap());
    let running = Running::from_problem(&problem);
    let why = running.mistrust().unwrap();
    assert!(running.counted(&read(json!([plan("s", 1.0, None)]))).is_none());
    assert!(why.contains("1 node(s) is not known, strange"), "{why}");
}

#[test]
fn places_of_reservations_that_stand_empty_take_too() {
    let mut problem = drawn(1).problem;
    problem.existing_nodes.clear();
    let mut place = |id: &str, kind: &str, left: u32| {
        let offering = json!({"zone": "a", "capacityType": "reserved", "price": 1e-8, "available": true, "reservationCapacity": left,
            "requirements": [{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": [id]},
                {"key": "karpenter.k8s.aws/capacity-reservation-type", "operator": "In", "values": [kind]}]});
        let one = Arc::make_mut(&mut problem.instance_types[0]);
        one.offerings.push(serde_json::from_value(offering).unwrap());
    };
    place("cr-1", "default", 3);
    place("cr-2", "capacity-block", 5);
    let running = Running::from_problem(&problem);
    assert_eq!(running.all_uses(), uses(&[("m5.large", "a", 0.1, 3)]));
}

#[test]
fn others_take_of_commitments_and_their_gaps_are_not_offered() {
    let mut problem = drawn(1).problem;
    problem.existing_nodes.clear();
    let large = |count: u32| uses(&[("m5.large", "b", 0.1, count)]);
    let commitments = read(json!([instances("r", "m5.large", None, 3)]));
    let left = |now: u32, lately: u32| {
        let others = OtherUses { now: large(now), lately: large(lately) };
        let commitments = commitments.clone().beside(others);
        let running = Running::from_problem(&problem).beside(commitments.others());
        let mut own = problem.clone();
        offer(&mut own, &commitments, &running.all_uses());
        let offerings = own.instance_types.iter().filter(|one| one.name == "m5.large").flat_map(|one| &one.offerings);
        offerings.filter_map(|one| one.reservation_capacity).max().unwrap_or(0)
    };
    assert_eq!((left(0, 0), left(1, 0), left(1, 1), left(2, 1), left(9, 0)), (3, 2, 1, 0, 0));
}

#[test]
fn contention_is_what_two_pay_beyond_each_alone() {
    let commitments = read(json!([instances("r", "m5.large", None, 2), plan("s", 0.04, Some("c5"))]));
    let contention = |own: &[(&str, &str, f64, u32)], others: &[(&str, &str, f64, u32)]| {
        (commitments.contention(&uses(own), &uses(others)) * 1e6).round() / 1e6
    };
    let large = |count: u32| [("m5.large", "a", 0.1, count)];
    assert_eq!(contention(&large(2), &[]), 0.0);
    assert_eq!(contention(&large(1), &large(1)), 0.0, "there is enough for both");
    assert_eq!(contention(&large(2), &large(1)), 0.1);
    assert_eq!(contention(&large(5), &large(5)), 0.2, "two are covered, and two more would be for each alone");
    assert_eq!(contention(&large(2), &[("c5.large", "a", 0.08, 3)]), 0.0, "they use others");
    assert_eq!(contention(&[("c5.large", "a", 0.08, 1)], &[("c5.large", "b", 0.08, 1)]), 0.08);
    assert_eq!(contention(&[("m5.large", "a", f64::NAN, 9)], &large(9)), 0.0);
}

#[test]
fn absurd_numbers_of_others_leave_a_bill_that_is_a_number() {
    let commitments = read(json!([plan("s", 1.0, None), instances("r", "m5.large", None, 1)]));
    for price in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        let absurd = uses(&[("m5.large", "a", price, u32::MAX), ("", "", price, u32::MAX)]);
        let contention = commitments.contention(&uses(&[("m5.large", "a", 0.1, 2)]), &absurd);
        assert!(contention.is_finite() && contention >= 0.0, "{price}: {contention}");
        let others = OtherUses { now: absurd.clone(), lately: absurd.clone() };
        let all = Running::default().beside(&others).all_uses();
        assert_eq!(absurd.count(), u32::MAX);
        assert!(commitments.allocate(&all).left.iter().all(|left| *left >= 0.0), "{price}");
    }
}

#[test]
fn more_pods_than_are_covered_take_what_is_left_and_no_more() {
    // Eight pods of a node each, and one type in two zones: three are covered, the others are spot.
    let mut problem = drawn(1).problem;
    problem.existing_nodes.clear();
    problem.instance_types.retain(|one| one.name == "m5.large");
    problem.node_pools = serde_json::from_value(json!([{"name": "default",
        "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}]}]))
    .unwrap();
    let pod = |at: u32| json!({"name": format!("p{at}"), "namespace": "default", "requests": {"cpu": "1500m"}});
    problem.pods = serde_json::from_value(json!((0..8).map(pod).collect::<Vec<_>>())).unwrap();
    let commitments = read(json!([instances("r", "m5.large", None, 3)]));
    let (plain, other, bill) = plans(&Drawn { problem, commitments });
    let on_demand =
        |packing: &Packing| packing.claims.iter().filter(|claim| claim.cheapest_capacity_type == "on-demand").count();
    assert_eq!((on_demand(&plain), on_demand(&other)), (0, 3));
    assert!((bill - 5.0 * plain.claims[0].price).abs() < 1e-9, "{bill}");
}

#[test]
fn offerings_promise_as_many_instances_as_are_left() {
    let mut problem = drawn(1).problem;
    problem.existing_nodes.clear();
    // 1.05 dollars at half the price: 2.1 of on-demand prices.
    offer(&mut problem, &read(json!([plan("s", 1.05, None)])), &Uses::default());
    let promised: BTreeMap<&str, u32> = problem
        .instance_types
        .iter()
        .filter_map(|one| {
            let mut own = one.offerings.iter().filter(|one| one.reservation_capacity.is_some());
            Some((one.name.as_str(), own.next()?.reservation_capacity?))
        })
        .collect();
    // m5 costs 0.1, 0.2 and 0.4, c5 0.08, 0.16 and 0.32.
    let expected = [
        ("c5.2xlarge", 6),
        ("c5.large", 26),
        ("c5.xlarge", 13),
        ("m5.2xlarge", 5),
        ("m5.large", 21),
        ("m5.xlarge", 10),
    ];
    assert_eq!(promised, BTreeMap::from(expected));
}
