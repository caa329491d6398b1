//! Instance types that a claim keeps as options: none far dearer than its cheapest, and nothing unusual unless it has to be.
#![allow(clippy::unwrap_used)]

use dovetail_core::pack::{Options, solve};
use dovetail_core::{MaxOptionPrice, Problem};
use serde_json::{Value, json};

use crate::cost::{machine, packed, problem, workload};
use crate::made;

/// The names of the options of the only claim, cheapest first, and how many types were too dear.
fn options(problem: &Problem, options: &Options) -> (Vec<String>, usize) {
    let packing = solve(problem, options);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (1, 0));
    let claim = &packing.claims[0];
    let name = |at: usize| problem.instance_types[at].name.clone();
    (claim.options.iter().map(|one| name(one.instance_type)).collect(), claim.too_dear)
}

/// A type that has so much of something besides.
fn with(mut machine: Value, resource: &str, count: u32) -> Value {
    machine["capacity"][resource] = json!(count.to_string());
    machine
}

fn uncommon(mut machine: Value) -> Value {
    machine["uncommon"] = json!(true);
    machine
}

/// Six types that cost 1, 1.2, 1.4, … times the cheapest as spot.
fn stairs() -> Vec<Value> {
    (0..6).map(|at| machine(&format!("f{at}.4"), 4, 9.0, Some(0.1 * (1.0 + 0.2 * f64::from(at))))).collect()
}

#[test]
fn price_ceiling_outweighs_keeping_fifteen_types() {
    let problem = problem(&stairs(), &[workload("web", 1, 3500)]);
    assert_eq!(options(&problem, &Options::default()), (["f0.4", "f1.4", "f2.4"].map(String::from).to_vec(), 3));
    for (times, kept) in [(1.0, 1), (1.2, 2), (1.9, 5), (2.0, 6)] {
        let ceiling = Options { max_option_price: MaxOptionPrice::times(times).unwrap(), ..Options::default() };
        assert_eq!(options(&problem, &ceiling).0.len(), kept, "{times}");
    }
}

#[test]
fn a_type_with_gpus_may_cost_twice_the_cheapest() {
    let same = (0..4).map(|at| machine(&format!("f{at}.4"), 4, 9.0, Some(0.1)));
    let types: Vec<Value> = same
        .chain([machine("g.4", 4, 9.0, Some(0.19)), machine("h.4", 4, 9.0, Some(0.21))])
        .map(|one| with(one, "nvidia.com/gpu", 1))
        .collect();
    let kept = |gpus: i64| {
        let mut problem = problem(&types, &[workload("train", 1, 3500)]);
        problem.pods[0].requests.set("nvidia.com/gpu", gpus);
        options(&problem, &Options::default()).0
    };
    assert_eq!(kept(1), ["f0.4", "f1.4", "f2.4", "f3.4", "g.4"]);
}

#[test]
fn types_kept_for_variety_average_at_most_a_quarter_dearer() {
    let types: Vec<Value> = (0..20)
        .map(|at| machine(&format!("f{at}.4"), 4, 9.0, Some(if at == 0 { 0.1 } else { 0.14 + 0.0001 * f64::from(at) })))
        .collect();
    let (names, too_dear) = options(&problem(&types, &[workload("web", 1, 3500)]), &Options::default());
    assert_eq!((names.len(), too_dear), (2, 18));
}

#[test]
fn min_values_are_kept_above_the_ceiling() {
    let mut problem = problem(&stairs(), &[workload("web", 1, 3500)]);
    let families = json!({"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": 5});
    problem.node_pools[0].requirements.push(serde_json::from_value(families).unwrap());
    assert_eq!(options(&problem, &Options::default()).0.len(), 5);
}

#[test]
fn by_fewest_nodes_the_ceiling_holds_too() {
    let mut problem = problem(&stairs(), &[workload("web", 1, 3500)]);
    problem.node_pools[0].policy = dovetail_core::Policy::FewestNodes;
    assert_eq!(options(&problem, &Options::default()).0.len(), 3);
}

#[test]
fn devices_bare_metal_and_old_generations_are_a_last_resort() {
    let types = [
        machine("m4.4", 4, 0.4, Some(0.10)),
        machine("m4.metal", 4, 0.4, Some(0.101)),
        machine("g5.4", 4, 0.4, Some(0.102)),
        machine("m3.4", 4, 0.4, Some(0.103)),
        machine("m7.4", 4, 0.4, Some(0.104)),
    ];
    let types = types.map(|one| match one["name"].as_str().unwrap() {
        "g5.4" => with(one, "nvidia.com/gpu", 1),
        "m3.4" => uncommon(one),
        _ => one,
    });
    let only = |names: &[&str], gpus: i64, asked: Option<Value>| {
        let left: Vec<Value> =
            types.iter().filter(|one| names.contains(&one["name"].as_str().unwrap())).cloned().collect();
        let mut problem = problem(&left, &[workload("web", 1, 3500)]);
        problem.pods[0].requests.set("nvidia.com/gpu", gpus);
        problem.node_pools[0].requirements.extend(asked.map(|one| serde_json::from_value(one).unwrap()));
        options(&problem, &Options::default()).0
    };
    let all = ["m4.4", "m4.metal", "g5.4", "m3.4", "m7.4"];
    assert_eq!(only(&all, 0, None), ["m4.4", "m7.4"]);
    assert_eq!(only(&all, 1, None), ["g5.4"], "asked for");
    for last in ["m4.metal", "g5.4", "m3.4"] {
        assert_eq!(only(&[last], 0, None), [last], "nothing else fits");
    }
    let family =
        |names: &[&str]| json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": names});
    assert_eq!(only(&all, 0, Some(family(&["m3", "m4", "m7"]))), ["m4.4", "m3.4", "m7.4"], "named by its family");
    let not = json!({"key": "karpenter.k8s.aws/instance-family", "operator": "NotIn", "values": ["m4"]});
    assert_eq!(only(&all, 0, Some(not)), ["m7.4"], "not to be excluded is not to be asked for");
}

#[test]
fn mean_option_of_gpu_workload_is_at_most_a_quarter_dearer() {
    let mut problem: Problem = serde_json::from_slice(&made::workload("batch-1-5000")).unwrap();
    problem.pods.truncate(300);
    problem.node_pools[0].requirements.retain(|said| !said.key.starts_with("karpenter.k8s.aws/instance-"));
    for (at, pod) in problem.pods.iter_mut().enumerate() {
        pod.requests.set("nvidia.com/gpu", 1 << (at % 4));
    }
    let packing = packed(&problem);
    let mean = packing.expected_price / packing.total_price;
    assert!(packing.total_price > 10.0 && mean <= 1.25, "the mean option costs {mean:.3} times the cheapest");
    for claim in &packing.claims {
        assert!(claim.options.iter().all(|one| one.price <= 2.0 * claim.price), "{:?}", claim.options);
    }
}
