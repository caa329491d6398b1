//! Savings Plans and Reserved Instances: sets of nodes are weighed by the bill.

use std::sync::Arc;

use super::*;
use crate::commitments::{Commitments, OtherUses, Uses, WrittenCommitment, is_marked};
use crate::paid_machines::Running;

fn declared(all: Value) -> Arc<Commitments> {
    let written: Vec<WrittenCommitment> = serde_json::from_value(all).unwrap();
    Arc::new(Commitments::from_written(&written, 1.0).unwrap())
}

/// Reserved Instances of the type with so many cpus.
fn instances(cpus: i64, count: u32) -> Value {
    json!({"id": "r", "type": "reservedInstances", "instanceType": format!("k0.{cpus}"), "count": count})
}

fn savings_plan(dollars: f64) -> Value {
    json!({"id": "s", "type": "computeSavingsPlan", "dollarsPerHour": dollars, "discount": 0.5})
}

fn with(problem: Problem, commitments: Value) -> ClusterView {
    let running = Running::from_problem(&problem);
    ClusterView::of_workload(problem).with_commitments(&declared(commitments), &running)
}

/// The same, of which others of the account use so many instances, and so many more have lately.
fn beside(problem: Problem, commitments: Value, (now, lately): (u32, u32), like: &str) -> ClusterView {
    let running = Running::from_problem(&problem);
    let one = running.by_node.get(like).cloned();
    let theirs = |count: u32| {
        let mut uses = Uses::default();
        one.iter().for_each(|usage| uses.add(usage.clone(), count));
        uses
    };
    let all = Commitments::clone(&declared(commitments)).beside(OtherUses { now: theirs(now), lately: theirs(lately) });
    let running = running.beside(all.others());
    ClusterView::of_workload(problem).with_commitments(&Arc::new(all), &running)
}

fn bill_of(problem: &Problem, commitments: &Arc<Commitments>) -> f64 {
    let running = Running::from_problem(problem);
    let cluster = ClusterView::of_workload(problem.clone()).with_commitments(commitments, &running);
    cluster.hourly_bill().unwrap()
}

const BOTH: [&str; 2] = ["on-demand", "spot"];

#[test]
fn one_of_two_alike_nodes_goes_though_one_is_covered() {
    // Without commitments b goes, and 0.1 remain; with them nothing remains.
    let nodes = [node("a", 2, "on-demand", &[1000]), node("b", 2, "on-demand", &[100])];
    let cluster = with(problem(&["on-demand"], 1, &nodes), json!([instances(2, 1)]));
    let command = command(&cluster).unwrap();
    assert_eq!((command.candidates.len(), command.replacements.len()), (1, 0));
    assert!((command.price_before - 0.1).abs() < 1e-9 && command.price_after.abs() < 1e-9);
}

#[test]
fn covered_nodes_do_not_leave_for_spot_and_others_do() {
    let nodes = ["a", "b", "c"].map(|name| node(name, 2, "on-demand", &[1900]));
    for (count, stay) in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)] {
        let problem = problem(&BOTH, 20, &nodes);
        let cluster =
            if count == 0 { ClusterView::of_workload(problem) } else { with(problem, json!([instances(2, count)])) };
        let settings = ConsolidationSettings { price_moves: 100, ..ConsolidationSettings::default() };
        let settled = settle(cluster, &settings, now(), &|_| usize::MAX).unwrap();
        let nodes = settled.cluster.problem().existing_nodes.iter();
        let on_demand = nodes.filter(|node| node.labels["karpenter.sh/capacity-type"] == "on-demand").count();
        assert_eq!(on_demand, stay, "{count} Reserved Instances");
        assert_eq!(settled.commands.is_empty(), stay == 3, "{count} Reserved Instances");
    }
}

#[test]
fn what_is_unused_takes_the_pods_of_bought_nodes() {
    for kind in BOTH {
        let cluster = with(problem(&BOTH, 1, &[node("a", 2, kind, &[1900])]), json!([instances(4, 2)]));
        let found = command(&cluster);
        // The sizes of k0 are none that AWS has: its Reserved Instances cover their own size only.
        let command = found.unwrap();
        assert!(command.takes_reserved() && command.replacements[0].reservations().all(is_marked), "{kind}");
        assert_eq!(command.replacements[0].cheapest_capacity_type, "on-demand");
        assert!(command.price_after.abs() < 1e-9 && command.price_before > 0.03);
        // Once an hour at most.
        let mut lately = cluster.clone();
        lately.nodes[0].reserved_lately = true;
        assert_eq!(decided(&lately).command, None, "{kind}");
    }
}

#[test]
fn nodes_that_others_uncover_cost_their_price() {
    let nodes = [node("a", 2, "on-demand", &[1900]), node("b", 2, "spot", &[1900])];
    let on_demand = |others: (u32, u32), count: u32| {
        let cluster = beside(problem(&BOTH, 20, &nodes), json!([instances(2, count)]), others, "a");
        let settings = ConsolidationSettings { price_moves: 100, ..ConsolidationSettings::default() };
        let settled = settle(cluster, &settings, now(), &|_| usize::MAX).unwrap();
        let left = settled.cluster.problem().existing_nodes.iter();
        left.filter(|node| node.labels["karpenter.sh/capacity-type"] == "on-demand").count()
    };
    assert_eq!(on_demand((0, 0), 1), 1, "a stays, which is covered");
    assert_eq!(on_demand((1, 0), 1), 0, "others use it: a costs its price");
    assert_eq!(on_demand((0, 1), 1), 1, "others have used it: a stays as long as they have not come back");
    assert_eq!(on_demand((0, 0), 2), 2, "b takes what is free");
    assert_eq!(on_demand((0, 1), 2), 1, "but not what others have just left");
    assert_eq!(on_demand((5, 0), 7), 2);
}

#[test]
fn the_bill_of_the_cluster_is_without_that_of_others() {
    let nodes = [node("a", 2, "on-demand", &[1900])];
    let hourly = |others: (u32, u32), count: u32| {
        beside(problem(&BOTH, 1, &nodes), json!([instances(2, count)]), others, "a").hourly_bill().unwrap()
    };
    let price = hourly((0, 0), 9) + 0.1;
    assert!(hourly((3, 0), 4).abs() < 1e-9);
    assert!((hourly((4, 0), 4) - price).abs() < 1e-9, "all is theirs");
    assert!((hourly((50, 50), 4) - price).abs() < 1e-9);
}

#[test]
fn nothing_moves_for_less_than_a_whole_instance() {
    let cluster = with(problem(&BOTH, 1, &[node("a", 2, "spot", &[1900])]), json!([savings_plan(0.04)]));
    assert_eq!(command(&cluster), None);
}

#[test]
fn without_commitments_the_decisions_are_the_same() {
    for seed in 0..20 {
        let problem = drawn(seed).0;
        let plain = ClusterView::of_workload(problem.clone());
        let none = ClusterView::of_workload(problem.clone())
            .with_commitments(&Arc::default(), &Running::from_problem(&problem));
        assert_eq!(json!(none.problem()), json!(plain.problem()), "{seed}");
        assert_eq!(decided(&none), decided(&plain), "{seed}");
    }
}

/// A cluster that wastes much, and commitments.
fn drawn(seed: u64) -> (Problem, Value) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let kinds: &[&str] = if rng.bool() { &["on-demand"] } else { &BOTH };
    let nodes: Vec<Value> = (0..rng.u32(1..9))
        .map(|at| {
            let cpus = [2, 4, 8, 16][rng.usize(..4)];
            let mut free = cpus * rng.i64(100..1000);
            let mut pods = Vec::new();
            while free > 100 && pods.len() < 6 {
                let asked = rng.i64(1..20) * 100;
                if asked <= free {
                    pods.push(asked);
                }
                free -= asked;
            }
            node(&format!("n{at}"), cpus, kinds[rng.usize(..kinds.len())], &pods)
        })
        .collect();
    let all: Vec<Value> = (0..rng.usize(1..4))
        .map(|at| {
            let mut one = match rng.bool() {
                true => savings_plan(0.6 * rng.f64()),
                false => instances([2, 4, 8, 16][rng.usize(..4)], rng.u32(1..4)),
            };
            one["id"] = json!(format!("c{at}"));
            one
        })
        .collect();
    (problem(kinds, 3, &nodes), json!(all))
}

#[test]
fn the_settled_bill_of_200_drawn_clusters_is_never_higher() {
    let (mut lower, mut higher_by_one_way) = (0, 0);
    for seed in 0..200 {
        let (problem, written) = drawn(seed);
        let commitments = declared(written.clone());
        let settings = ConsolidationSettings {
            price_moves: if seed % 2 == 0 { 1 } else { 100 },
            many_to_many: seed % 3 == 0,
            spot_to_spot: seed % 5 == 0,
            ..ConsolidationSettings::default()
        };
        let end = |cluster| settle(cluster, &settings, now(), &|_| usize::MAX).unwrap();
        let plain = end(ClusterView::of_workload(problem.clone()));
        let before = bill_of(plain.cluster.problem(), &commitments);
        let own = end(with(problem.clone(), written.clone()));
        let after = bill_of(own.cluster.problem(), &commitments);
        assert!(after <= before + 1e-6, "seed {seed}: {after} instead of {before}");
        assert!((own.price.1 - after).abs() < 1e-6, "seed {seed}: {} is said, {after} is right", own.price.1);
        lower += usize::from(after < before - 1e-6);
        let one_way = settle::settle_once(with(problem, written), &settings, now(), &|_| usize::MAX).unwrap();
        higher_by_one_way += usize::from(one_way.price.1 > before + 1e-6);
    }
    assert!(lower > 50, "only {lower} are lower");
    assert!(higher_by_one_way < 20, "{higher_by_one_way} end higher by the bill alone");
}
