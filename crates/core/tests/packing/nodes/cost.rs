//! The policy `cost` weighs more than the price, one claim a test.
#![allow(clippy::unwrap_used)]

use crate::common;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, PlannedClaim, solve};
use serde_json::{Value, json};

/// A type of so many cores at so many dollars an hour on demand, and as spot if that has a price.
pub fn machine(name: &str, cpu: u32, price: f64, spot: Option<f64>) -> Value {
    let offering =
        |kind: &str, price: f64| json!({"zone": "zone-a", "capacityType": kind, "price": price, "available": true});
    let mut offerings = vec![offering("on-demand", price)];
    offerings.extend(spot.map(|price| offering("spot", price)));
    let family = name.split('.').next().unwrap();
    json!({
        "name": name,
        "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "200"},
        "requirements": [
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [family]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
        ],
        "offerings": offerings,
    })
}

/// So many pods of a workload, each with so many millicores.
pub fn workload(app: &str, count: usize, millicores: u32) -> Vec<Value> {
    let pod = |at: usize| {
        json!({"name": format!("{app}-{at}"), "uid": format!("{app}-{at}"), "labels": {"app": app},
            "requests": {"cpu": format!("{millicores}m"), "memory": "1Mi"}})
    };
    (0..count).map(pod).collect()
}

pub fn problem(types: &[Value], pods: &[Vec<Value>]) -> Problem {
    let pods: Vec<&Value> = pods.iter().flatten().collect();
    serde_json::from_value(json!({"nodePools": [{"name": "default"}], "instanceTypes": types, "pods": pods})).unwrap()
}

pub fn packed(problem: &Problem) -> Packing {
    let packing = solve(problem, &Options::default());
    assert_eq!(common::violations(problem, &packing), [""; 0]);
    assert!(packing.unscheduled.is_empty());
    packing
}

/// The most pods of a workload that one node holds.
fn most(problem: &Problem, packing: &Packing, app: &str) -> usize {
    let of = |claim: &PlannedClaim| claim.pods.iter().filter(|pod| problem.pods[**pod].labels["app"] == app).count();
    packing.claims.iter().map(of).max().unwrap()
}

fn said<'c>(claim: &'c PlannedClaim, key: &str) -> Vec<&'c str> {
    let said = claim.requirements.iter().find(|one| one.key == key);
    said.map(|one| one.values.iter().map(String::as_str).collect()).unwrap_or_default()
}

#[test]
fn node_holds_at_most_half_of_a_workload_where_that_is_cheap() {
    let types = [machine("m.8", 8, 0.8, None), machine("m.32", 32, 3.15, None)];
    let problem = problem(&types, &[workload("web", 12, 500), workload("jobs", 26, 1000)]);
    let packing = packed(&problem);
    assert!(most(&problem, &packing, "web") <= 6, "{} of 12", most(&problem, &packing, "web"));
    assert!(most(&problem, &packing, "jobs") <= 13, "{} of 26", most(&problem, &packing, "jobs"));
}

#[test]
fn a_workload_stays_on_one_node_where_splitting_it_is_dear() {
    let types = [machine("m.8", 8, 0.8, None), machine("m.32", 32, 2.4, None)];
    let problem = problem(&types, &[workload("web", 12, 500), workload("jobs", 26, 1000)]);
    assert_eq!(packed(&problem).claims.len(), 1);
}

#[test]
fn one_workload_alone_is_split_too() {
    let types = [machine("m.4", 4, 0.41, None), machine("m.8", 8, 0.8, None)];
    let problem = problem(&types, &[workload("web", 16, 500)]);
    let packing = packed(&problem);
    assert!(most(&problem, &packing, "web") <= 8, "{} of 16", most(&problem, &packing, "web"));
}

#[test]
fn fewer_than_ten_pods_may_share_a_node() {
    let types = [machine("m.4", 4, 0.41, None), machine("m.8", 8, 0.8, None)];
    assert_eq!(packed(&problem(&types, &[workload("web", 9, 500)])).claims.len(), 1);
}

#[test]
fn spot_that_saves_nothing_is_not_taken() {
    let types = [machine("m.8", 8, 0.8, Some(0.8)), machine("c.8", 8, 0.9, Some(0.95))];
    let packing = packed(&problem(&types, &[workload("web", 4, 500)]));
    assert_eq!(said(&packing.claims[0], "karpenter.sh/capacity-type"), ["on-demand"]);
}

#[test]
fn spot_that_saves_something_is() {
    let types = [machine("m.8", 8, 0.8, Some(0.3))];
    let packing = packed(&problem(&types, &[workload("web", 4, 500)]));
    assert!(said(&packing.claims[0], "karpenter.sh/capacity-type").contains(&"spot"));
    assert!((packing.claims[0].price - 0.3).abs() < 1e-9);
}

#[test]
fn a_dearer_node_makes_for_fewer() {
    let types = [machine("m.2", 2, 0.2, None), machine("m.16", 16, 1.7, None)];
    let problem = problem(&types, &[workload("web", 32, 1000)]);
    let nodes = |price_per_node: f64| {
        let options = Options { price_per_node, ..Options::default() };
        solve(&problem, &options).claims.len()
    };
    assert_eq!((nodes(0.0), nodes(0.05)), (16, 2));
}

#[test]
fn spot_claim_adds_dear_types_only_for_fifteen_of_five_families() {
    let mut types = Vec::new();
    for family in 0..16 {
        for cpu in [2, 4, 8, 16] {
            let price = f64::from(cpu) * (0.1 + 0.003 * f64::from(family));
            types.push(machine(&format!("f{family}.{cpu}"), cpu, price, Some(price / 3.0)));
        }
    }
    let problem = problem(&types, &[workload("web", 40, 250), workload("jobs", 30, 900)]);
    for claim in packed(&problem).claims {
        let names: Vec<&str> =
            claim.options.iter().map(|one| problem.instance_types[one.instance_type].name.as_str()).collect();
        let families: std::collections::BTreeSet<_> = names.iter().map(|name| name.split('.').next()).collect();
        assert!(names.len() >= 15 && families.len() >= 5, "{names:?}");
        let dear = claim.options.iter().filter(|option| option.price > claim.price * 1.25 * (1.0 + 1e-9)).count();
        assert!(dear == 0 || names.len() == 15, "{dear} of {}", names.len());
    }
}
