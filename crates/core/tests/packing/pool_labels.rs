//! Template labels are requirements to the packer: what an instance type says of their keys has to agree.
#![allow(clippy::unwrap_used)]

use dovetail_core::Problem;
use dovetail_core::pack::{Options, solve};
use serde_json::{Value, json};

fn machine(name: &str, os: &str, zone: &str) -> Value {
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "name": name,
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "100"},
        "requirements": [is("kubernetes.io/os", os), is("node.kubernetes.io/instance-type", name)],
        "offerings": [{"zone": zone, "capacityType": "on-demand", "price": 0.2, "available": true}],
    })
}

/// The pools and instance types of what is planned for one pod, `heavy` having these labels and the greater weight.
fn planned(labels: &Value) -> Vec<(String, String)> {
    let problem: Problem = serde_json::from_value(json!({
        "nodePools": [{"name": "heavy", "weight": 100, "labels": labels}, {"name": "light", "weight": 1}],
        "instanceTypes": [machine("a.large", "linux", "zone-a"), machine("b.large", "linux", "zone-b")],
        "pods": [{"name": "p", "uid": "p", "requests": {"cpu": "1"}}],
    }))
    .unwrap();
    let packing = solve(&problem, &Options::default());
    let names = packing.claims.iter().map(|claim| {
        let types: Vec<_> =
            claim.options.iter().map(|option| problem.instance_types[option.instance_type].name.as_str()).collect();
        (problem.node_pools[claim.pool].name.clone(), types.join(" "))
    });
    names.collect()
}

#[test]
fn pool_label_contradicting_types_leaves_pods_to_another_pool() {
    for (key, value) in [
        ("kubernetes.io/os", "windows"),
        ("beta.kubernetes.io/os", "windows"),
        ("node.kubernetes.io/instance-type", "c.large"),
        ("topology.kubernetes.io/zone", "zone-c"),
        ("karpenter.sh/capacity-type", "spot"),
    ] {
        let planned = planned(&json!({key: value}));
        assert!(planned.len() == 1 && planned[0].0 == "light", "{key}={value}: {planned:?}");
    }
}

#[test]
fn pool_label_of_some_instance_types_narrows_choice_to_them() {
    for (key, value) in [("node.kubernetes.io/instance-type", "b.large"), ("topology.kubernetes.io/zone", "zone-b")] {
        assert_eq!(planned(&json!({key: value})), [("heavy".to_owned(), "b.large".to_owned())], "{key}={value}");
    }
    for labels in [json!({"team": "x"}), json!({"kubernetes.io/os": "linux"})] {
        assert_eq!(planned(&labels)[0].0, "heavy", "{labels}");
    }
}
