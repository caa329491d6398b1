#![allow(clippy::unwrap_used, clippy::panic)]

use dovetail_api::v1::ConsolidationPolicy;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::Problem;
use crate::problem::Policy;

mod bill;
mod reserved;

const NOW: &str = "2026-03-10T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Instance types of 2, 4, 8 and 16 cpus at 5 cents an hour for each, 2 cents as spot; `kinds` of each size.
fn types(kinds: usize) -> Vec<Value> {
    let sizes = [2, 4, 8, 16];
    let kinds = (0..kinds).flat_map(|kind| sizes.map(move |cpus| (kind, cpus)));
    kinds
        .map(|(kind, cpus)| {
            let name = format!("k{kind}.{cpus}");
            let price = f64::from(cpus) * (0.05 + 0.0001 * kind as f64);
            json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "50"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
                "offerings": [
                    {"zone": "a", "capacityType": "on-demand", "price": price, "available": true},
                    {"zone": "a", "capacityType": "spot", "price": price * 0.4, "available": true}]})
        })
        .collect()
}

/// A node with `cpus` cpus, and pods that each ask for as many thousandths as given.
fn node(name: &str, cpus: i64, capacity_type: &str, pods: &[i64]) -> Value {
    let all: Vec<Value> = pods
        .iter()
        .enumerate()
        .map(|(at, milli)| json!({"name": format!("{name}-{at}"), "uid": format!("{name}-{at}"), "requests": {"cpu": format!("{milli}m")}}))
        .collect();
    json!({"name": name, "initialized": true, "pods": all,
        "labels": {"node.kubernetes.io/instance-type": format!("k0.{cpus}"), "topology.kubernetes.io/zone": "a",
            "karpenter.sh/capacity-type": capacity_type, "karpenter.sh/nodepool": "default"},
        "allocatable": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "50"},
        "used": {"cpu": format!("{}m", pods.iter().sum::<i64>()), "pods": pods.len().to_string()}})
}

fn problem(capacity_types: &[&str], kinds: usize, nodes: &[Value]) -> Problem {
    serde_json::from_value(json!({
        "nodePools": [{"name": "default", "requirements":
            [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}]}],
        "instanceTypes": types(kinds), "pods": [], "existingNodes": nodes,
    }))
    .unwrap()
}

fn on_demand(nodes: &[Value]) -> ClusterView {
    ClusterView::of_workload(problem(&["on-demand"], 1, nodes))
}

fn decided(cluster: &ClusterView) -> ConsolidationDecision {
    decide(cluster, &ConsolidationSettings::default(), now()).unwrap()
}

fn command(cluster: &ClusterView) -> Option<ConsolidationCommand> {
    decided(cluster).command
}

/// The reason that keeps a node.
fn why(cluster: &ClusterView, node: usize) -> String {
    let decision = decided(cluster);
    let found = decision.unconsolidatable.into_iter().find(|one| one.node == node);
    found.map(|one| one.why).unwrap_or_default()
}

#[test]
fn empty_nodes_go_within_budget_whatever_the_policy() {
    let mut cluster = on_demand(&[node("a", 2, "on-demand", &[]), node("b", 4, "on-demand", &[])]);
    cluster.pools[0].policy = ConsolidationPolicy::WhenEmpty;
    let all = command(&cluster).unwrap();
    assert_eq!((all.reason, all.decision(), all.candidates.len()), (RemovalReason::Empty, "delete", 2));
    cluster.pools[0].empty = Some(1);
    assert_eq!(command(&cluster).unwrap().candidates.len(), 1);
    assert!(why(&cluster, 0).contains("budgets allow no more"), "{}", why(&cluster, 0));
}

#[test]
fn node_whose_pods_fit_elsewhere_is_deleted_with_places_for_all() {
    let cluster = on_demand(&[node("a", 4, "on-demand", &[3000]), node("b", 2, "on-demand", &[500])]);
    let command = command(&cluster).unwrap();
    assert_eq!((command.decision(), command.candidates.as_slice()), ("delete", &[1][..]));
    assert_eq!(command.moves, [(1, Some(0))]);
    assert!((command.saving() - 0.1).abs() < 1e-9);
}

#[test]
fn oversized_node_is_replaced_by_a_cheaper_one_for_its_pods() {
    let cluster = on_demand(&[node("a", 16, "on-demand", &[1500])]);
    let command = command(&cluster).unwrap();
    let claim = command.replacements[0].clone();
    assert_eq!((command.decision(), claim.pods.as_slice()), ("replace", &[0][..]));
    assert_eq!(cluster.problem.instance_types[claim.cheapest_type().unwrap()].name, "k0.2");
    assert!(claim.options.iter().all(|option| option.price < 0.8 * 0.85));
}

#[test]
fn many_nodes_become_one_where_deleting_leaves_one_too_large() {
    let nodes: Vec<Value> = (0..4).map(|at| node(&format!("n{at}"), 16, "on-demand", &[1000])).collect();
    let command = command(&on_demand(&nodes)).unwrap();
    assert_eq!((command.decision(), command.candidates.len(), command.moves.len()), ("replace", 4, 4));
    assert!(command.price_after < 0.21, "{}", command.price_after);
}

fn many() -> ConsolidationSettings {
    ConsolidationSettings { many_to_many: true, ..ConsolidationSettings::default() }
}

#[test]
fn one_large_node_becomes_several_smaller_ones_only_with_gate() {
    // Nine cpus in two pods: one node of 16 is the smallest single one that holds them, two smaller ones cost less.
    let cluster = on_demand(&[node("a", 16, "on-demand", &[7500, 1500])]);
    assert_eq!(command(&cluster), None);
    assert!(why(&cluster, 0).contains("ManyToManyConsolidation"), "{}", why(&cluster, 0));
    let command = decide(&cluster, &many(), now()).unwrap().command.unwrap();
    assert_eq!(
        (command.method, command.decision(), command.candidates.as_slice()),
        ("many by many", "replace", &[0][..])
    );
    assert!(command.replacements.len() > 1 && command.moves.iter().all(|(_, to)| to.is_none()));
    let worst = |claim: &crate::pack::PlannedClaim| claim.options.iter().map(|one| one.price).fold(0.0, f64::max);
    let worst: f64 = command.replacements.iter().map(worst).sum();
    assert!(worst < 0.85 * command.price_before, "{worst} of {}", command.price_before);
    let mut planned: Vec<usize> = command.replacements.iter().flat_map(|claim| claim.pods.clone()).collect();
    planned.sort_unstable();
    assert_eq!(planned, [0, 1], "every pod has one place");
}

#[test]
fn several_by_several_keep_budgets_pdb_age_rest_do_not_disrupt() {
    // No other node takes the large pods, and no single new one those of two nodes.
    let nodes: Vec<Value> = (0..4).map(|at| node(&format!("n{at}"), 16, "on-demand", &[7500, 1500])).collect();
    let decided = |change: &dyn Fn(&mut ClusterView)| {
        let mut cluster = on_demand(&nodes);
        change(&mut cluster);
        let command = decide(&cluster, &many(), now()).unwrap().command;
        assert!(command.iter().all(|command| command.method == "many by many"), "{command:?}");
        command
    };
    let each = |cluster: &mut ClusterView, change: &dyn Fn(&mut NodeState)| cluster.nodes.iter_mut().for_each(change);
    let all = decided(&|_| ()).unwrap();
    assert!(all.candidates.len() == 4 && all.replacements.len() > 1 && all.saving() >= 0.15 * all.price_before);
    let one = decided(&|cluster| cluster.pools[0].underutilized = Some(1)).unwrap();
    assert_eq!(one.candidates.len(), 1);
    assert_eq!(decided(&|cluster| cluster.pools[0].underutilized = Some(0)), None);
    let by_pdb = decided(&|cluster| {
        cluster.pdbs = vec![PodBudget { name: "default/web".into(), allowed: 3 }];
        each(cluster, &|node| node.pods.iter_mut().for_each(|pod| pod.pdb = Some(0)));
    });
    assert_eq!(by_pdb.unwrap().moves.len(), 2);
    let young = |node: &mut NodeState| node.initialized = Some(now() - SignedDuration::from_mins(9));
    assert_eq!(decided(&|cluster| each(cluster, &young)), None);
    let moved = |node: &mut NodeState| node.pods[0].moved = Some(now() - SignedDuration::from_mins(59));
    assert_eq!(decided(&|cluster| each(cluster, &moved)), None);
    assert_eq!(decided(&|cluster| each(cluster, &|node| node.held = Some("do-not-disrupt".into()))), None);
}

#[test]
fn irreplaceable_node_blocks_no_other_from_a_budget_of_one() {
    // The first in order, as only one pod moves; nine cpus in one pod have no smaller node.
    let mut cluster = on_demand(&[node("whole", 16, "on-demand", &[9000]), node("a", 16, "on-demand", &[7500, 1500])]);
    cluster.pools[0].underutilized = Some(1);
    let decision = decide(&cluster, &many(), now()).unwrap();
    assert_eq!(decision.command.unwrap().candidates, [1]);
}

#[test]
fn spot_node_becomes_several_only_with_gates_and_fifteen_types() {
    let cluster = |kinds| ClusterView::of_workload(problem(&["spot"], kinds, &[node("a", 16, "spot", &[7500, 1500])]));
    let with = |spot_to_spot, kinds| {
        decide(&cluster(kinds), &ConsolidationSettings { spot_to_spot, ..many() }, now()).unwrap().command
    };
    assert_eq!(with(false, 20), None);
    assert_eq!(with(true, 3), None, "too few types");
    let command = with(true, 20).unwrap();
    assert!(command.replacements.len() > 1);
    assert!(
        command.replacements.iter().all(|claim| claim.options.len() >= 15 && claim.cheapest_capacity_type == "spot")
    );
}

#[test]
fn several_new_nodes_exceed_no_limit_of_their_pool_together() {
    let nodes = [node("a", 16, "on-demand", &[7500, 1500])];
    let limited = |cpus: &str| {
        let mut problem = problem(&["on-demand"], 1, &nodes);
        problem.node_pools[0].limits = serde_json::from_value(json!({"cpu": cpus})).unwrap();
        problem.node_pools[0].usage = serde_json::from_value(json!({"cpu": "16"})).unwrap();
        decide(&ClusterView::of_workload(problem), &many(), now()).unwrap().command
    };
    let command = limited("26").expect("ten cpus beside the sixteen that are there");
    assert_eq!(command.replacements.len(), 2, "one of 8 and one of 2");
    assert_eq!(limited("25"), None, "each alone is within it, both together are not");
}

/// A node costs its dollars until it has gone: its pool has to have them for its successors beside it.
#[test]
fn replacements_keep_to_pool_dollars_beside_what_they_replace() {
    let is_replaced = |pods: &[i64], dollars: &str| {
        let mut problem = problem(&["on-demand"], 1, &[node("a", 16, "on-demand", pods)]);
        let amount = |text| crate::Resources::parse([(crate::resources::DOLLARS, text)]).unwrap();
        (problem.node_pools[0].limits, problem.node_pools[0].usage) = (amount(dollars), amount("0.8"));
        decide(&ClusterView::of_workload(problem), &many(), now()).unwrap().command.is_some()
    };
    let by_one = ["0.9", "0.89", "0.8"].map(|dollars| is_replaced(&[1500], dollars));
    assert_eq!(by_one, [true, false, false], "one of 0.10 $ beside one of 0.80 $");
    let by_two = ["1.3", "1.29"].map(|dollars| is_replaced(&[7500, 1500], dollars));
    assert_eq!(by_two, [true, false], "two of 0.40 $ and of 0.10 $");
}

#[test]
fn a_saving_of_less_than_fifteen_percent_moves_nobody() {
    // 16 cpus, 15 of them used: nothing smaller holds them, and another kind is cheaper by too little.
    let mut problem = problem(&["on-demand"], 1, &[node("a", 16, "on-demand", &[15_000])]);
    let mut cheaper = (*problem.instance_types[3]).clone();
    cheaper.name = "cheaper.16".into();
    cheaper.requirements.clear();
    cheaper.offerings[0].price = 0.8 * 0.86;
    problem.instance_types.push(std::sync::Arc::new(cheaper));
    let settings = ConsolidationSettings { price_moves: 9, least_per_move: 0.0, ..ConsolidationSettings::default() };
    let cluster = ClusterView::of_workload(problem.clone());
    assert_eq!(decide(&cluster, &settings, now()).unwrap().command, None);
    let mut cheap = (*problem.instance_types[4]).clone();
    cheap.offerings[0].price = 0.8 * 0.84;
    problem.instance_types[4] = std::sync::Arc::new(cheap);
    let cluster = ClusterView::of_workload(problem);
    let command = decide(&cluster, &settings, now()).unwrap().command.unwrap();
    assert!(command.saving() >= 0.15 * command.price_before);
    let none_left = ConsolidationSettings { price_moves: 0, ..settings };
    assert_eq!(decide(&cluster, &none_left, now()).unwrap().command, None, "prices alone move too many nodes");
}

#[test]
fn what_keeps_a_node_is_named() {
    let nodes = [node("a", 16, "on-demand", &[500]), node("b", 16, "on-demand", &[500])];
    let keep = |change: &dyn Fn(&mut ClusterView)| {
        let mut cluster = on_demand(&nodes);
        change(&mut cluster);
        assert_eq!(command(&cluster), None);
        why(&cluster, 0)
    };
    let each = |cluster: &mut ClusterView, change: &dyn Fn(&mut NodeState)| cluster.nodes.iter_mut().for_each(change);
    let held = keep(&|cluster| each(cluster, &|node| node.held = Some("pod x/y has the annotation z".into())));
    assert_eq!(held, "pod x/y has the annotation z");
    let young = keep(&|cluster| each(cluster, &|node| node.initialized = Some(now() - SignedDuration::from_mins(9))));
    assert_eq!(young, "it is younger than 10m");
    let waits = keep(&|cluster| each(cluster, &|node| node.consolidatable = false));
    assert!(waits.contains("consolidateAfter has not passed"), "{waits}");
    let empty = keep(&|cluster| cluster.pools[0].policy = ConsolidationPolicy::WhenEmpty);
    assert!(empty.contains("WhenEmpty"), "{empty}");
    let moved = keep(&|cluster| {
        each(cluster, &|node| node.pods[0].moved = Some(now() - SignedDuration::from_mins(59)));
    });
    assert!(moved.starts_with("pod default/a-0 was moved less than 1h"), "{moved}");
    let pdb = keep(&|cluster| {
        cluster.pdbs = vec![PodBudget { name: "default/web".into(), allowed: 0 }];
        each(cluster, &|node| node.pods[0].pdb = Some(0));
    });
    assert_eq!(pdb, "pdb default/web prevents the eviction of pod default/a-0");
    let budget = keep(&|cluster| cluster.pools[0].underutilized = Some(0));
    assert!(budget.contains("budgets allow no more"), "{budget}");
    let off = keep(&|cluster| cluster.pools[0].consolidates = false);
    assert!(off.contains("does not consolidate"), "{off}");
    let unmanaged = keep(&|cluster| each(cluster, &|node| node.pool = None));
    assert_eq!(unmanaged, "no NodePool manages it");
}

#[test]
fn a_young_node_goes_when_it_is_empty() {
    let mut cluster = on_demand(&[node("a", 2, "on-demand", &[])]);
    cluster.nodes[0].initialized = Some(now());
    assert_eq!(command(&cluster).unwrap().reason, RemovalReason::Empty);
}

#[test]
fn unmoving_pod_neither_keeps_a_node_nor_goes_with_it() {
    let mut cluster = on_demand(&[node("a", 2, "on-demand", &[100])]);
    let mut nodes = cluster.nodes.clone();
    nodes[0].pods[0].moves = false;
    cluster = ClusterView::new(cluster.problem.clone(), nodes, cluster.pools.clone(), vec![]);
    let command = command(&cluster).unwrap();
    assert_eq!((command.reason, command.moves.len()), (RemovalReason::Empty, 0));
}

#[test]
fn no_command_evicts_more_pods_than_a_budget_of_theirs_allows() {
    let nodes: Vec<Value> = (0..5).map(|at| node(&format!("n{at}"), 8, "on-demand", &[1000])).collect();
    let mut cluster = on_demand(&nodes);
    cluster.pdbs = vec![PodBudget { name: "default/web".into(), allowed: 2 }];
    cluster.nodes.iter_mut().for_each(|node| node.pods[0].pdb = Some(0));
    let command = command(&cluster).unwrap();
    assert_eq!((command.candidates.len(), command.moves.len()), (2, 2));
    let in_waves = ConsolidationSettings { waves: 2, ..ConsolidationSettings::default() };
    let command = decide(&cluster, &in_waves, now()).unwrap().command.unwrap();
    assert_eq!((command.candidates.len(), command.moves.len()), (4, 4), "twice as many, in two waves");
    cluster.pdbs[0].allowed = 0;
    assert_eq!(decide(&cluster, &in_waves, now()).unwrap().command, None, "a budget that is used up has no waves");
}

#[test]
fn pods_come_to_no_node_within_its_consolidate_after() {
    let mut cluster = on_demand(&[node("a", 2, "on-demand", &[1000]), node("b", 2, "on-demand", &[500])]);
    cluster.nodes[0].consolidatable = false;
    assert_eq!(command(&cluster), None);
    assert_eq!(why(&cluster, 1), "pod default/b-0 fits on no other node");
}

#[test]
fn spot_deletion_needs_no_gate_and_replacement_gate_and_types() {
    let cluster = |kinds, nodes: &[Value]| ClusterView::of_workload(problem(&["spot"], kinds, nodes));
    let two = [node("a", 16, "spot", &[1000]), node("b", 16, "spot", &[1000])];
    let deleted = command(&cluster(5, &two)).unwrap();
    assert_eq!((deleted.decision(), deleted.candidates.len()), ("delete", 1));
    let one = [node("a", 16, "spot", &[1000])];
    assert_eq!(command(&cluster(5, &one)), None);
    let gate = ConsolidationSettings { spot_to_spot: true, ..ConsolidationSettings::default() };
    let with_gate = |kinds| decide(&cluster(kinds, &one), &gate, now()).unwrap().command;
    assert_eq!(with_gate(4), None, "twelve cheaper types are too few");
    let claim = with_gate(5).unwrap().replacements.remove(0);
    assert_eq!(claim.options.len(), 15);
    assert_eq!(claim.cheapest_capacity_type, "spot");
}

#[test]
fn too_few_saving_spot_types_are_joined_by_no_dearer_ones() {
    // 32 cents for the node; fifteen types hold its pod, three of which cost what is said.
    let with = |dollars: f64| {
        let mut problem = problem(&["spot"], 5, &[node("a", 16, "spot", &[1000])]);
        let large = problem.instance_types.iter_mut().filter(|one| one.name.ends_with(".8")).take(3);
        large.for_each(|one| std::sync::Arc::make_mut(one).offerings[1].price = dollars);
        let gate = ConsolidationSettings { spot_to_spot: true, ..ConsolidationSettings::default() };
        decide(&ClusterView::of_workload(problem), &gate, now()).unwrap().command
    };
    let claim = with(0.30).unwrap().replacements.remove(0);
    assert_eq!(claim.options.len(), 15);
    assert!(claim.expected_price() <= 0.85 * 0.32);
    assert_eq!(with(0.33), None);
}

#[test]
fn on_demand_node_is_replaced_by_spot_where_both_are_allowed() {
    let cluster = ClusterView::of_workload(problem(&["spot", "on-demand"], 1, &[node("a", 4, "on-demand", &[1500])]));
    let claim = command(&cluster).unwrap().replacements.remove(0);
    let said = claim.requirements.iter().find(|said| said.key == "karpenter.sh/capacity-type").unwrap();
    assert_eq!(said.values, ["spot"]);
}

#[test]
fn balanced_refuses_what_disturbs_more_than_it_saves() {
    // The small node is an eighth of the price and half of the pods.
    let nodes = [node("a", 16, "on-demand", &[1000]), node("b", 2, "on-demand", &[100; 10])];
    let mut cluster = on_demand(&nodes);
    cluster.pools[0].policy = ConsolidationPolicy::Balanced;
    cluster.nodes[0].held = Some("the test".into());
    assert_eq!(command(&cluster), None);
    cluster.pools[0].policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    assert_eq!(command(&cluster).unwrap().candidates, [1]);
}

#[test]
fn node_cheapest_to_disturb_for_its_price_goes_first() {
    let mut cluster = on_demand(&[
        node("a", 4, "on-demand", &[500, 500]),
        node("b", 4, "on-demand", &[1000]),
        node("c", 4, "on-demand", &[2500]),
    ]);
    cluster.pools[0].underutilized = Some(1);
    cluster.nodes[2].held = Some("the test".into());
    assert_eq!(command(&cluster).unwrap().candidates, [1]);
    cluster.nodes[1].pods[0].cost = 5.0;
    assert_eq!(command(&cluster).unwrap().candidates, [0]);
    // Its life is nearly over: what disturbs its pods is due anyway.
    let life = SignedDuration::from_hours(720);
    cluster.nodes[1].initialized = Some(now() - life + SignedDuration::from_mins(1));
    cluster.nodes[1].expires = Some(now() + SignedDuration::from_mins(1));
    assert_eq!(command(&cluster).unwrap().candidates, [1]);
}

fn fewest(nodes: &[Value]) -> ClusterView {
    let mut problem = problem(&["on-demand"], 1, nodes);
    problem.node_pools[0].policy = Policy::FewestNodes;
    ClusterView::of_workload(problem)
}

#[test]
fn fewest_nodes_replaces_largest_workable_prefix_by_one_cheaper() {
    let nodes: Vec<Value> = (0..3).map(|at| node(&format!("n{at}"), 8, "on-demand", &[3000])).collect();
    let command = command(&fewest(&nodes)).unwrap();
    assert_eq!((command.method, command.decision(), command.candidates.len()), ("multi", "replace", 3));
    assert!((command.price_after - 0.8).abs() < 1e-9);
    let alone = fewest(&[node("a", 16, "on-demand", &[3000])]);
    let command = self::command(&alone).unwrap();
    assert_eq!((command.method, command.decision()), ("single", "replace"));
    assert!(command.price_after < command.price_before);
}

#[test]
fn in_fewest_nodes_any_saving_is_enough_and_none_is_not() {
    let cluster = fewest(&[node("a", 2, "on-demand", &[1500])]);
    assert_eq!(command(&cluster), None);
    assert_eq!(why(&cluster, 0), "it cannot be replaced by a cheaper node");
}

#[test]
fn a_settled_cluster_is_at_rest() {
    let nodes: Vec<Value> = (0..12).map(|at| node(&format!("n{at:02}"), 16, "on-demand", &[1000, 2000])).collect();
    let end = settle(on_demand(&nodes), &ConsolidationSettings::default(), now(), &|nodes| nodes).unwrap();
    assert!(end.price.1 < end.price.0 / 2.0, "{:?}", end.price);
    let again = settle(end.cluster, &ConsolidationSettings::default(), now(), &|nodes| nodes).unwrap();
    assert_eq!((again.commands.len(), again.rounds), (0, 1));
}

#[test]
fn each_command_of_a_settling_keeps_to_the_budget_of_its_moment() {
    let nodes: Vec<Value> = (0..40).map(|at| node(&format!("n{at:02}"), 8, "on-demand", &[500])).collect();
    let end = settle(on_demand(&nodes), &ConsolidationSettings::default(), now(), &|nodes| nodes.div_ceil(10)).unwrap();
    let mut left = 40;
    for command in &end.commands {
        assert!(command.candidates.len() <= usize::div_ceil(left, 10), "{} of {left}", command.candidates.len());
        left = left - command.candidates.len() + command.replacements.len();
    }
    assert_eq!(left, end.cluster.nodes().len());
    assert!(left < 5, "{left}");
}

#[test]
fn document_has_the_methods_in_the_order_they_are_tried() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/consolidation.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| method |")).skip(2);
    let told: Vec<&str> = rows
        .take_while(|line| line.starts_with("| "))
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .collect();
    assert_eq!(told, METHODS.map(|method| method.name()));
}
