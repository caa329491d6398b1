//! Random small problems, packed and checked naively: every answer valid, nothing left that fits somewhere alone, the
//! same answer for shuffled pods.
#![allow(clippy::unwrap_used)]

use crate::common;

use dovetail_core::pack::{Options, solve};
use dovetail_core::{Policy, Problem};
use proptest::prelude::*;
use serde_json::{Value, json};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const KINDS: [&str; 2] = ["spot", "on-demand"];

fn machine() -> impl Strategy<Value = Value> {
    let offers = prop::collection::vec((0..3usize, 0..2usize, 1u32..1000, prop::bool::weighted(0.85)), 1..5);
    (1u32..9, 1u32..33, 3u32..20, 0..2usize, 0u32..500, offers).prop_map(|(cpu, gib, pods, arch, kube, offers)| {
        let offers = offers.into_iter().map(|(zone, kind, price, available)| {
            json!({"zone": ZONES[zone], "capacityType": KINDS[kind], "price": f64::from(price) / 100.0, "available": available})
        });
        json!({
            "capacity": {"cpu": cpu.to_string(), "memory": format!("{gib}Gi"), "pods": pods.to_string()},
            "overhead": {"kubeReserved": {"cpu": format!("{kube}m"), "memory": "100Mi"}},
            "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": vec![["amd64", "arm64"][arch]]},
                {"key": "kubernetes.io/os", "operator": "In", "values": if cpu % 3 == 0 { vec!["linux", "windows"] } else { vec!["linux"] }},
                {"key": "cores", "operator": "In", "values": [cpu.to_string()]},
            ],
            "offerings": offers.collect::<Vec<_>>(),
        })
    })
}

fn expression() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::subsequence(&ZONES[..], 1..3)
            .prop_map(|values| json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": values})),
        (0..2usize).prop_map(
            |kind| json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": vec![KINDS[kind]]})
        ),
        (0..2usize).prop_map(
            |os| json!({"key": "kubernetes.io/os", "operator": "In", "values": vec![["linux", "windows"][os]]})
        ),
        (1u32..8).prop_map(|cores| json!({"key": "cores", "operator": "Gt", "values": [cores.to_string()]})),
        (0..3usize).prop_map(|team| json!({"key": "team", "operator": "In", "values": vec![["a", "b", "c"][team]]})),
        Just(json!({"key": "team", "operator": "DoesNotExist"})),
        Just(json!({"key": "nowhere", "operator": "NotIn", "values": ["x"]})),
    ]
}

fn pod() -> impl Strategy<Value = Value> {
    let affinity = prop::option::weighted(0.5, prop::collection::vec(prop::collection::vec(expression(), 1..3), 1..3));
    (1u32..40, 1u32..60, affinity, any::<bool>(), 0..2).prop_map(|(cpu, quarter_gib, affinity, tolerates, priority)| {
        let mut pod = json!({"requests": {"cpu": format!("{}m", cpu * 100), "memory": format!("{}Mi", quarter_gib * 256)}, "priority": priority});
        if let Some(terms) = affinity {
            let terms: Vec<Value> = terms.into_iter().map(|list| json!({"matchExpressions": list})).collect();
            pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        }
        if tolerates {
            pod["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
        }
        pod
    })
}

fn pool() -> impl Strategy<Value = Value> {
    let requirements = prop::collection::vec(expression(), 0..2);
    (requirements, any::<bool>(), 0..3i32, any::<bool>(), prop::option::weighted(0.3, 1u32..30)).prop_map(
        |(requirements, tainted, weight, fewest, cpu)| {
            let mut pool = json!({"requirements": requirements, "weight": weight});
            if tainted {
                pool["taints"] = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
            }
            if fewest {
                pool["policy"] = json!("fewest-nodes");
            }
            if let Some(cpu) = cpu {
                pool["limits"] = json!({"cpu": cpu});
            }
            pool
        },
    )
}

fn named(prefix: &str, mut all: Vec<Value>) -> Vec<Value> {
    for (at, one) in all.iter_mut().enumerate() {
        one["name"] = json!(format!("{prefix}{at}"));
        if prefix == "p" {
            one["uid"] = json!(format!("uid{at}"));
        }
    }
    all
}

fn problem() -> impl Strategy<Value = Problem> {
    let types = prop::collection::vec(machine(), 1..12);
    let copies = prop::collection::vec((pod(), 1..6usize), 0..8);
    (types, prop::collection::vec(pool(), 0..3), copies).prop_map(|(types, pools, pods)| {
        let pods = pods.into_iter().flat_map(|(pod, count)| std::iter::repeat_n(pod, count)).collect();
        serde_json::from_value(json!({
            "wellKnownLabels": ["cores"], "nodePools": named("pool", pools),
            "instanceTypes": named("t", types), "pods": named("p", pods),
        }))
        .unwrap()
    })
}

/// The names on each node, in any order of nodes.
fn told(problem: &Problem) -> Vec<Vec<String>> {
    let packing = solve(problem, &Options::default());
    let name = |pod: &usize| problem.pods[*pod].name.clone();
    let mut nodes: Vec<Vec<String>> =
        packing.claims.iter().map(|claim| claim.pods.iter().map(name).collect()).collect();
    nodes.push(packing.unscheduled.iter().map(|(pod, _)| name(pod)).collect());
    nodes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_valid(problem in problem()) {
        let packing = solve(&problem, &Options::default());
        prop_assert_eq!(common::violations(&problem, &packing), Vec::<String>::new());
    }

    #[test]
    fn without_limits_nothing_is_left_that_fits_alone(mut problem in problem()) {
        for pool in &mut problem.node_pools {
            pool.limits = dovetail_core::Resources::new();
        }
        for (pod, reason) in solve(&problem, &Options::default()).unscheduled {
            for policy in [Policy::Cost, Policy::FewestNodes] {
                let mut alone = problem.clone();
                alone.pods = vec![problem.pods[pod].clone()];
                alone.node_pools.iter_mut().for_each(|pool| pool.policy = policy);
                prop_assert!(solve(&alone, &Options::default()).claims.is_empty(), "{}", reason);
            }
        }
    }

    #[test]
    fn the_order_of_the_pods_does_not_matter(problem in problem(), turn in 0..40usize) {
        let mut other = problem.clone();
        let count = other.pods.len().max(1);
        other.pods.rotate_left(turn % count);
        other.pods.reverse();
        prop_assert_eq!(told(&problem), told(&other));
    }

    #[test]
    fn limits_are_kept(problem in problem()) {
        let packing = solve(&problem, &Options::default());
        for (at, pool) in problem.node_pools.iter().enumerate() {
            let Some(limit) = pool.limits.find("cpu") else { continue };
            let most = |claim: &dovetail_core::pack::PlannedClaim| {
                claim.options.iter().map(|one| problem.instance_types[one.instance_type].capacity.get("cpu")).max()
            };
            let used: i64 = packing.claims.iter().filter(|claim| claim.pool == at).filter_map(most).sum();
            prop_assert!(used <= limit, "{} of {}", used, limit);
        }
    }
}
