//! Hard cases of a pool's limits, `minValues` and weights, one claim a test.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::collections::BTreeSet;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, solve};
use serde_json::{Value, json};

/// A type of so many cores, four GiB for each, at so many dollars an hour, spot in two zones.
fn machine(name: &str, cpu: u32, price: f64) -> Value {
    let offering = |zone: &str, kind: &str, price: f64| json!({"zone": zone, "capacityType": kind, "price": price, "available": true});
    let offerings: Vec<Value> = ["zone-a", "zone-b"]
        .iter()
        .flat_map(|zone| [offering(zone, "spot", price), offering(zone, "on-demand", price * 3.0)])
        .collect();
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "name": name,
        "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "100"},
        "requirements": [
            is("karpenter.k8s.aws/instance-family", name.split('.').next().unwrap()),
            is("node.kubernetes.io/instance-type", name),
        ],
        "offerings": offerings,
    })
}

fn pods(app: &str, count: usize, cpu: &str, more: &Value) -> Vec<Value> {
    let pod = |at: usize| {
        let mut pod = json!({"name": format!("{app}-{at}"), "uid": format!("{app}-{at}"), "labels": {"app": app},
            "requests": {"cpu": cpu}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| pod[key] = value.clone());
        pod
    };
    (0..count).map(pod).collect()
}

fn problem(pools: &Value, types: &[Value], pods: &[Vec<Value>]) -> Problem {
    let pods: Vec<&Value> = pods.iter().flatten().collect();
    serde_json::from_value(json!({"nodePools": pools, "instanceTypes": types, "pods": pods,
        "wellKnownLabels": ["karpenter.k8s.aws/instance-family"]}))
    .unwrap()
}

fn limited(limits: &Value) -> Value {
    json!([{"name": "default", "limits": limits}])
}

/// The packing, which keeps all rules and all limits with every node at its largest option.
fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    for (at, pool) in problem.node_pools.iter().enumerate() {
        for (name, limit) in pool.limits.iter() {
            let of_pool = packing.claims.iter().filter(|claim| claim.pool == at);
            let taken: i64 = match name {
                "nodes" => of_pool.count() as i64,
                _ => of_pool
                    .map(|claim| {
                        let options = claim.options.iter();
                        options.map(|one| problem.instance_types[one.instance_type].capacity.get(name)).max().unwrap()
                    })
                    .sum(),
            };
            assert!(taken <= limit, "{taken} {name} of {limit} in {}", pool.name);
        }
    }
    packing
}

fn left_over<'p>(problem: &'p Problem, packing: &Packing) -> BTreeSet<&'p str> {
    packing.unscheduled.iter().map(|(pod, _)| problem.pods[*pod].name.as_str()).collect()
}

/// The pool of the node that a pod is planned on.
fn pool_of<'p>(problem: &'p Problem, packing: &Packing, pod: &str) -> &'p str {
    let holds = |pods: &[usize]| pods.iter().any(|at| problem.pods[*at].name == pod);
    let claim = packing.claims.iter().find(|claim| holds(&claim.pods)).unwrap();
    &problem.node_pools[claim.pool].name
}

/// Pods that have to be in a zone with one of the app `a`.
fn with_a() -> Value {
    let term = json!([{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "a"}}}]);
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}})
}

/// A requirement, or a node selector's terms, of one zone.
fn zone(zone: &str) -> Value {
    json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}])
}

/// Pods that have to be on a node with one of their own app.
fn together() -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}})
}

#[test]
fn node_of_pods_kept_together_meets_limit_under_either_policy() {
    for policy in ["fewest-nodes", "cost"] {
        let pools = json!([{"name": "default", "policy": policy, "limits": {"cpu": "30"}}]);
        let pods = [pods("b", 1, "1", &json!({})), pods("a", 1, "1", &together())];
        let problem = problem(&pools, &[machine("m.16", 16, 1.0)], &pods);
        let packing = packed(&problem);
        assert_eq!((packing.claims.len(), packing.unscheduled.len()), (1, 0), "{policy}");
    }
}

#[test]
fn self_affine_pod_joins_urgent_pods_node_under_a_limit() {
    let pods = [pods("b", 1, "1", &json!({"priority": 9})), pods("a", 2, "8", &together())];
    let problem = problem(&limited(&json!({"cpu": "16"})), &[machine("m.16", 16, 1.0)], &pods);
    let packing = packed(&problem);
    assert_eq!(left_over(&problem, &packing), BTreeSet::from(["a-1"]));
}

#[test]
fn a_pod_left_over_joins_the_node_of_more_urgent_ones() {
    let pods = [pods("big", 2, "4", &json!({})), pods("small", 1, "100m", &json!({"priority": 9}))];
    let problem = problem(&limited(&json!({"nodes": "1"})), &[machine("m.8", 8, 1.0)], &pods);
    let packing = packed(&problem);
    assert_eq!(left_over(&problem, &packing), BTreeSet::from(["big-1"]));
}

#[test]
fn less_urgent_spread_pod_joins_planned_node_under_a_limit() {
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "counted"}}}]});
    let pods = [
        pods("spread", 1, "100m", &spread),
        pods("plain", 1, "100m", &json!({})),
        pods("counted", 2, "100m", &json!({"priority": -1})),
    ];
    let problem = problem(&limited(&json!({"memory": "64Gi"})), &[machine("m.16", 16, 1.0)], &pods);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (1, 0));
}

#[test]
fn pods_a_limit_moves_to_another_zone_keep_a_spread_valid() {
    let even = json!({"labels": {"app": "plain"}, "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "plain"}}}]});
    let pods = [pods("plain", 4, "100m", &json!({})), pods("even", 4, "100m", &even)];
    let problem = problem(&limited(&json!({"nodes": "1"})), &[machine("m.16", 16, 1.0)], &pods);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.claims[0].pods.len()), (1, 4));
}

#[test]
fn a_pod_does_not_stay_where_a_limit_has_moved_its_company_away() {
    let evenly = json!({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "a"}}}]});
    // One of them is counted in the cheaper zone first; the node there is for the large pod, and it ends in the other.
    let mut one = machine("m.8", 8, 1.0);
    one["offerings"] = json!([one["offerings"][0], one["offerings"][2]]);
    one["offerings"][1]["price"] = json!(0.97);
    let pods = [pods("b", 1, "0", &with_a()), pods("a", 2, "1", &json!({})), pods("c", 1, "7500m", &evenly)];
    packed(&problem(&limited(&json!({"nodes": "2"})), &[one], &pods));
}

#[test]
fn pod_placed_in_a_used_up_pool_goes_to_another_pool() {
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "b"}}}]});
    let pools = json!([{"name": "other", "taints": [{"key": "x", "effect": "PreferNoSchedule"}]},
        {"name": "limited", "limits": {"cpu": "2"}}]);
    let pods = [pods("a", 3, "600m", &spread)];
    let problem = problem(&pools, &[machine("m.1", 1, 0.1)], &pods);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (3, 0));
}

#[test]
fn node_gives_up_option_that_leaves_no_room_for_another_node() {
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}});
    let types = [machine("m.8", 8, 1.0), machine("m.16", 16, 1.2)];
    let problem = problem(&limited(&json!({"cpu": "18"})), &types, &[pods("a", 2, "7", &apart)]);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (2, 0));
}

#[test]
fn options_given_up_return_where_limit_has_room_in_the_end() {
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}});
    let types = [machine("m.8", 8, 1.0), machine("m.16", 16, 1.2)];
    let problem = problem(&limited(&json!({"cpu": "24"})), &types, &[pods("a", 2, "7", &apart)]);
    let packing = packed(&problem);
    let mut options: Vec<usize> = packing.claims.iter().map(|claim| claim.options.len()).collect();
    options.sort_unstable();
    assert_eq!((options, packing.unscheduled.len()), (vec![1, 2], 0));
}

#[test]
fn pod_left_over_by_pool_limit_joins_node_of_another_pool() {
    let pools = json!([{"name": "heavy", "weight": 50, "limits": {"cpu": "2"}},
        {"name": "light", "limits": {"memory": "64Gi"}}]);
    let types = [machine("m.2", 2, 0.2), machine("m.16", 16, 1.6)];
    let pods = [pods("small", 2, "1500m", &json!({})), pods("big", 1, "7", &json!({}))];
    let problem = problem(&pools, &types, &pods);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (2, 0));
}

#[test]
fn limit_of_nodes_makes_nodes_fewer_at_little_cost() {
    let types = [machine("m.1", 1, 0.1), machine("m.4", 4, 0.41), machine("m.16", 16, 2.0)];
    let problem = problem(&limited(&json!({"nodes": "3"})), &types, &[pods("a", 12, "500m", &json!({}))]);
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty());
    assert!(packing.total_price < 0.9, "{} for {} nodes", packing.total_price, packing.claims.len());
}

#[test]
fn a_limit_of_nodes_comes_before_a_choice_of_types() {
    // Each pod alone could have fifteen types: nodes of one pod each keep them all.
    let mut types = Vec::new();
    for (at, family) in ["c6", "c7", "m6", "m7", "r6"].into_iter().enumerate() {
        for (cpu, price) in [(1, 0.013), (4, 0.051), (8, 0.124)] {
            types.push(machine(&format!("{family}.{cpu}"), cpu, price + 0.001 * at as f64));
        }
    }
    let problem = problem(&limited(&json!({"nodes": "3"})), &types, &[pods("a", 12, "600m", &json!({}))]);
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (2, 0), "{}", packing.total_price);
    assert!(packing.total_price < 0.11, "{}", packing.total_price);
}

fn at_best_effort(types: &[Value], key: &str, least: u32, pods: &[Vec<Value>]) -> Problem {
    let pools = json!([{"name": "default", "requirements": [{"key": key, "operator": "Exists", "minValues": least}]}]);
    let mut problem = problem(&pools, types, pods);
    problem.min_values_policy = dovetail_core::problem::MinValuesPolicy::BestEffort;
    problem
}

#[test]
fn at_best_effort_families_that_there_are_not_leave_nobody_over() {
    // One node for both would have one family only.
    let types = [machine("c6.8", 8, 0.105), machine("c7.16", 16, 0.11)];
    let problem = at_best_effort(&types, "karpenter.k8s.aws/instance-family", 20, &[pods("a", 2, "7", &json!({}))]);
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty());
    assert!(packing.claims.iter().all(|claim| claim.min_values_relaxed && claim.options.len() == 2));
}

#[test]
fn best_effort_min_values_of_unknown_key_leave_no_pod_over() {
    let mut plain = machine("m.8", 8, 1.0);
    plain["requirements"] = json!([]);
    let problem = at_best_effort(&[plain], "node.kubernetes.io/instance-type", 2, &[pods("a", 1, "1", &json!({}))]);
    let packing = packed(&problem);
    assert!(packing.unscheduled.is_empty() && packing.claims[0].min_values_relaxed);
}

#[test]
fn a_pattern_that_min_values_forbid_is_planned_on_more_nodes() {
    let types = [machine("c6.8", 8, 0.105), machine("c7.16", 16, 0.11)];
    let mut problem = at_best_effort(&types, "karpenter.k8s.aws/instance-family", 2, &[pods("a", 2, "7", &json!({}))]);
    problem.min_values_policy = dovetail_core::problem::MinValuesPolicy::Strict;
    let packing = packed(&problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (2, 0));
}

#[test]
fn every_place_of_a_volume_is_tried_in_the_heavier_pool() {
    let pools = json!([{"name": "light"}, {"name": "heavy", "weight": 10, "requirements": zone("zone-b")}]);
    let volume = json!({"volumeTopology": [zone("zone-a"), zone("zone-b")]});
    let alone = problem(&pools, &[machine("m.2", 2, 0.2)], &[pods("a", 1, "1", &volume)]);
    assert_eq!(pool_of(&alone, &packed(&alone), "a-0"), "heavy");
    let followed = [pods("a", 1, "1", &volume), pods("b", 1, "1", &with_a())];
    let followed = problem(&pools, &[machine("m.2", 2, 0.2)], &followed);
    assert_eq!(pool_of(&followed, &packed(&followed), "a-0"), "heavy");
}

#[test]
fn pod_of_used_up_pool_moves_where_another_heavy_pool_is() {
    let mut one = machine("m.8", 8, 1.0);
    one["offerings"][2]["price"] = json!(1.1);
    let pools = json!([{"name": "light"}, {"name": "heavy", "weight": 10, "requirements": zone("zone-b")},
        {"name": "limited", "weight": 10, "limits": {"cpu": "8"}}]);
    let taken = pods("c", 1, "7", &json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-a"}}));
    let problem = problem(&pools, &[one], &[taken, pods("a", 1, "4", &json!({})), pods("b", 1, "1", &with_a())]);
    let packing = packed(&problem);
    let of = |pod| pool_of(&problem, &packing, pod);
    assert_eq!((of("c-0"), of("a-0"), of("b-0")), ("limited", "heavy", "heavy"));
}

#[test]
fn pods_a_limit_moves_to_another_zone_are_planned_cheaply_there() {
    let away = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "a"}}}]}}});
    let pools = json!([{"name": "elsewhere", "requirements": zone("zone-b"), "labels": {"rack": "e"}},
        {"name": "limited", "limits": {"cpu": "8"}}]);
    // A third zone is the cheapest, and only the limited pool, of which the first pod takes all, reaches it.
    let types = [("m.1", 1, 0.1), ("m.4", 4, 0.2), ("m.8", 8, 0.45)].map(|(name, cpu, price)| {
        let mut one = machine(name, cpu, price);
        let third = json!({"zone": "zone-c", "capacityType": "spot", "price": price * 0.9, "available": true});
        one["offerings"].as_array_mut().unwrap().push(third);
        one
    });
    let in_zone_a = json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-a"}});
    let there = json!({"nodeSelector": {"rack": "e"}});
    let pods = [pods("a", 1, "4", &in_zone_a), pods("b", 12, "500m", &away), pods("c", 1, "0", &there)];
    let packing = packed(&problem(&pools, &types, &pods));
    let sizes: Vec<usize> = packing.claims.iter().map(|claim| claim.pods.len()).collect();
    assert!(packing.claims.iter().all(|claim| claim.pods.len() < 12), "{sizes:?}");
}

#[test]
fn the_room_of_a_node_that_is_there_goes_to_the_most_urgent() {
    let urgent = pods("urgent", 1, "100m", &json!({"priority": 1000}));
    let mut problem = problem(&json!([{"name": "default"}]), &[], &[pods("other", 2, "500m", &json!({})), urgent]);
    let there = json!({"name": "there", "allocatable": {"cpu": "1", "memory": "8Gi", "pods": "6"}, "labels": {}});
    problem.existing_nodes.push(serde_json::from_value(there).unwrap());
    let packing = solve(&problem, &Options::default());
    let left: Vec<_> = packing.unscheduled.iter().map(|(pod, _)| problem.pods[*pod].name.as_str()).collect();
    assert_eq!(left, ["other-1"]);
}
