#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};

use super::*;

/// A pool that is valid, with parts replaced by their JSON pointer.
fn pool(parts: &[(&str, Value)]) -> NodePool {
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"},
        "spec": {
            "disruption": {"consolidateAfter": "10s", "budgets": [{"nodes": "10%"}]},
            "limits": {"cpu": "1000"},
            "weight": 10,
            "template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x y z"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}],
                    "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
                    "expireAfter": "720h",
                },
            },
        },
    });
    for (pointer, value) in parts {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[last] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Paths of the faults in a pool.
fn wrong(parts: &[(&str, Value)]) -> Vec<String> {
    node_pool_with_claim(&pool(parts)).iter().map(|error| error.path.to_string()).collect()
}

const SPEC: &str = "/spec/template/spec";
const METADATA: &str = "/spec/template/metadata";

fn of_spec_field(field: &str, value: Value) -> Vec<String> {
    wrong(&[(&format!("{SPEC}/{field}"), value)])
}

fn requirements(all: &[(&str, &str, &[&str])]) -> Value {
    let one =
        |(key, operator, values): &(&str, &str, &[&str])| json!({"key": key, "operator": operator, "values": values});
    all.iter().map(one).collect()
}

#[test]
fn a_pool_of_every_field_is_valid_and_so_are_its_edges() {
    assert_eq!(wrong(&[]), [""; 0]);
    for parts in [
        ("/metadata/name", json!("a".repeat(63))),
        ("/metadata/name", json!("a.b-c.d")),
        ("/spec/weight", json!(1)),
        ("/spec/weight", json!(100)),
        ("/spec/limits", json!({"cpu": "0", "nodes": 0, "memory": "1e3"})),
        ("/spec/template/spec/expireAfter", json!("Never")),
        ("/spec/template/spec/expireAfter", json!("5m")),
        ("/spec/template/spec/expireAfter", json!("2562047h")),
        ("/spec/template/metadata/labels", json!({})),
        ("/spec/template/metadata/labels", json!({"kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "windows"})),
        ("/spec/template/metadata/labels", json!({"topology.kubernetes.io/zone": "us-east-1a"})),
        ("/spec/template/metadata/annotations", json!({"Example.com/Note": "x".repeat(200_000)})),
        ("/spec/template/spec/requirements", json!([])),
        (
            "/spec/template/spec/taints",
            json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
        ),
    ] {
        assert_eq!(wrong(std::slice::from_ref(&parts)), [""; 0], "{parts:?}");
    }
}

#[test]
fn names_that_no_label_can_carry_make_a_pool_invalid() {
    for name in
        ["a".repeat(64), format!("{}.{}", "a".repeat(40), "b".repeat(40)), "a".repeat(253), "-a".into(), "a b".into()]
    {
        assert_eq!(wrong(&[("/metadata/name", json!(name))])[0], "metadata.name", "{name}");
    }
    for class in ["a".repeat(64), "a b".into()] {
        let found =
            of_spec_field("nodeClassRef", json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class}));
        assert_eq!(found[0], "spec.template.spec.nodeClassRef.name");
    }
}

#[test]
fn labels_or_annotations_no_claim_can_carry_make_pool_invalid() {
    for (key, value) in [
        ("a b", "c"),
        ("a/b/c", "c"),
        ("t", "a value"),
        ("t", "-"),
        ("kubernetes.io/hostname", "h"),
        ("karpenter.sh/nodepool", "p"),
        ("karpenter.k8s.aws/ec2nodeclass", "c"),
        ("karpenter.sh/capacity-type", "gratis"),
        ("kubernetes.io/os", "plan9"),
        ("kubernetes.io/arch", "x86_64"),
    ] {
        let found = wrong(&[(&format!("{METADATA}/labels"), json!({key: value}))]);
        assert!(
            found.first().is_some_and(|path| path.starts_with("spec.template.metadata.labels")),
            "{key}={value}: {found:?}"
        );
    }
    for annotations in
        [json!({"a b": "c"}), json!({"dovetail.dev/launch-token": "x"}), json!({"a": "x".repeat(260_000)})]
    {
        let found = wrong(&[(&format!("{METADATA}/annotations"), annotations)]);
        assert!(found[0].starts_with("spec.template.metadata.annotations"), "{found:?}");
    }
}

#[test]
fn labels_that_contradict_requirements_make_a_pool_invalid() {
    for (label, all) in [
        (("kubernetes.io/os", "windows"), requirements(&[("kubernetes.io/os", "In", &["linux"])])),
        (("beta.kubernetes.io/arch", "arm64"), requirements(&[("kubernetes.io/arch", "In", &["amd64"])])),
        (("team", "a"), requirements(&[("team", "NotIn", &["a", "b"])])),
        (("team", "a"), requirements(&[("team", "DoesNotExist", &[])])),
        (("cores", "4"), requirements(&[("cores", "Gt", &["4"])])),
        (
            ("topology.kubernetes.io/zone", "z-a"),
            requirements(&[("topology.kubernetes.io/zone", "In", &["z-b", "z-c"])]),
        ),
        (
            ("node.kubernetes.io/instance-type", "a"),
            requirements(&[("node.kubernetes.io/instance-type", "In", &["b"])]),
        ),
    ] {
        let parts = [(format!("{METADATA}/labels"), json!({label.0: label.1})), (format!("{SPEC}/requirements"), all)];
        let parts: Vec<_> = parts.iter().map(|(at, value)| (at.as_str(), value.clone())).collect();
        assert_eq!(wrong(&parts), ["spec.template.spec.requirements[0]"], "{label:?}");
    }
}

#[test]
fn requirements_that_no_node_meets_make_a_pool_invalid() {
    for (all, at) in [
        (requirements(&[("team", "In", &["a"]), ("team", "In", &["b"])]), 1),
        (requirements(&[("team", "Exists", &[]), ("team", "DoesNotExist", &[])]), 1),
        (requirements(&[("n", "Gt", &["5"]), ("n", "Lt", &["6"])]), 1),
        (requirements(&[("n", "Gte", &["5"]), ("n", "Lte", &["5"]), ("n", "NotIn", &["5"])]), 2),
        (requirements(&[("kubernetes.io/arch", "In", &["s390x"])]), 0),
        (requirements(&[("kubernetes.io/os", "NotIn", &["linux", "windows"])]), 0),
    ] {
        let found = of_spec_field("requirements", all.clone());
        assert_eq!(found, [format!("spec.template.spec.requirements[{at}]")], "{all}");
    }
    for (one, part) in [
        (json!({"key": "a b", "operator": "Exists"}), ".key"),
        (json!({"key": "team", "operator": "In", "values": []}), ".values"),
        (json!({"key": "team", "operator": "In", "values": ["a", "b c"]}), ".values[1]"),
        (json!({"key": "team", "operator": "Gt", "values": ["a"]}), ".values"),
        (json!({"key": "team", "operator": "Exists", "values": ["a"]}), ".values"),
        (json!({"key": "team", "operator": "In", "values": ["a"], "minValues": 2}), ".minValues"),
        (json!({"key": "team", "operator": "Exists", "minValues": 51}), ".minValues"),
    ] {
        let found = of_spec_field("requirements", json!([one]));
        assert_eq!(found[0], format!("spec.template.spec.requirements[0]{part}"), "{one}");
    }
}

#[test]
fn unsatisfiable_min_values_make_pool_invalid() {
    let both = json!([
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"], "minValues": 2},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b", "c"]},
    ]);
    assert_eq!(of_spec_field("requirements", both), ["spec.template.spec.requirements"]);
}

#[test]
fn taints_that_no_node_can_carry_make_a_pool_invalid() {
    for (taint, field) in [
        (json!({"key": "a b", "effect": "NoSchedule"}), "taints"),
        (json!({"key": "a", "value": "b/c", "effect": "NoSchedule"}), "taints"),
        (json!({"key": "a", "value": "x".repeat(64), "effect": "NoSchedule"}), "startupTaints"),
        (json!({"key": "x".repeat(64), "effect": "NoSchedule"}), "startupTaints"),
        (json!({"key": "a", "effect": "Never"}), "taints"),
    ] {
        let found = of_spec_field(field, json!([taint]));
        assert_eq!(found[0], format!("spec.template.spec.{field}[0]"), "{taint}");
    }
    let twice = of_spec_field("startupTaints", json!([{"key": "dedicated", "effect": "NoSchedule"}]));
    assert_eq!(twice, ["spec.template.spec.startupTaints[0]"], "once over both lists");
}

#[test]
fn node_class_ref_of_other_kind_or_group_makes_pool_invalid() {
    for (group, kind) in
        [("other.io", "Foo"), ("karpenter.k8s.aws", "AKSNodeClass"), ("other.io", "EC2NodeClass"), ("", "")]
    {
        let found = of_spec_field("nodeClassRef", json!({"group": group, "kind": kind, "name": "default"}));
        assert_eq!(found[0], "spec.template.spec.nodeClassRef", "{group} {kind}");
    }
}

#[test]
fn expire_after_too_short_to_initialize_makes_pool_invalid() {
    for after in ["0s", "1s", "30s", "4m", "4m59s"] {
        assert_eq!(of_spec_field("expireAfter", json!(after)), ["spec.template.spec.expireAfter"], "{after}");
    }
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let of_kwok = |after: &str| {
        let parts =
            [(&*format!("{SPEC}/expireAfter"), json!(after)), (&*format!("{SPEC}/nodeClassRef"), class.clone())];
        wrong(&parts)
    };
    assert!(!of_kwok("30s").iter().any(|path| path.ends_with("expireAfter")), "its nodes boot nothing");
    assert!(of_kwok("19s").iter().any(|path| path.ends_with("expireAfter")));
}

#[test]
fn numbers_out_of_range_make_a_pool_invalid() {
    for weight in [0, -1, 101, i32::MAX] {
        assert_eq!(wrong(&[("/spec/weight", json!(weight))]), ["spec.weight"], "{weight}");
    }
    for limit in ["-1", "-1m", "-5Gi"] {
        assert_eq!(wrong(&[("/spec/limits", json!({"memory": limit}))]), ["spec.limits.memory"], "{limit}");
    }
}

#[test]
fn a_pool_whose_claims_have_too_many_requirements_is_invalid() {
    let many = |count: usize| -> Value {
        (0..count).map(|n| json!({"key": format!("key-{n}"), "operator": "In", "values": ["a"]})).collect()
    };
    // Its name, the zone, the capacity type, the instance types and the label are requirements of a claim as well.
    assert_eq!(of_spec_field("requirements", many(95)), [""; 0]);
    assert_eq!(of_spec_field("requirements", many(96)), ["spec.requirements"]);
}

#[test]
fn unreadable_budgets_are_named_and_leave_pool_valid() {
    let bad = pool(&[(
        "/spec/disruption/budgets",
        json!([{"nodes": "10%"}, {"nodes": "1", "schedule": "99 99 * * *", "duration": "1h"}]),
    )]);
    assert!(node_pool_with_claim(&bad).is_empty());
    let said = budgets(&bad);
    assert!(said.len() == 1 && said[0].starts_with("spec.disruption.budgets[1]: schedule \"99 99 * * *\""), "{said:?}");
}

#[test]
fn what_is_said_has_bounds() {
    let long = pool(&[(
        &format!("{METADATA}/labels"),
        json!({"a": "x y".repeat(100_000), "b": "-", "c": "-", "d": "-", "e": "-"}),
    )]);
    let said = sentence(&node_pool(&long));
    assert!(said.len() < 1100 && said.ends_with("; and 2 more"), "{said}");
}

#[test]
fn claim_omits_type_implied_requirements_above_schema_limit() {
    use crate::lifecycle::claim::{ClaimPlan, node_claim};
    use crate::requirements::{NodeSelectorRequirement, Operator};
    let keys = dovetail_api::names::labels::AWS_WELL_KNOWN.iter();
    let asked: Vec<_> = keys
        .flat_map(|key| {
            [
                NodeSelectorRequirement::new(*key, Operator::NotIn, ["77", "78"]),
                NodeSelectorRequirement::new(*key, Operator::Gte, ["1"]),
                NodeSelectorRequirement::new(*key, Operator::Lte, ["99"]),
            ]
        })
        .chain((0..45).flat_map(|n| {
            [
                NodeSelectorRequirement::new(format!("team-{n}"), Operator::NotIn, ["x"]),
                NodeSelectorRequirement::new(format!("team-{n}"), Operator::Exists, [""; 0]),
            ]
        }))
        .chain([NodeSelectorRequirement::one_of("karpenter.sh/capacity-type", ["spot"])])
        .collect();
    let made = node_claim(ClaimPlan {
        name: "default-xxxxx",
        pool: &pool(&[]),
        requirements: &asked,
        instance_types: vec!["m5.large".into()],
        requests: &crate::Resources::new(),
        term: 1,
        traceparent: "",
        pool_hash: "1",
        class_hash: None,
    });
    assert!(claim(&made).is_empty(), "{:?}", claim(&made));
    let has = |key: &str| made.spec.requirements.iter().any(|one| one.key == key);
    assert!(has("node.kubernetes.io/instance-type") && has("karpenter.sh/capacity-type") && has("team-44"));
}

#[test]
fn pool_with_min_values_of_instance_types_is_valid_by_any_key() {
    for requirement in [
        json!({"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 10}),
        json!({"key": "beta.kubernetes.io/instance-type", "operator": "NotIn", "values": ["t3.nano"], "minValues": 50}),
        json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c5", "m5"], "minValues": 2}),
    ] {
        assert_eq!(wrong(&[("/spec/template/spec/requirements", json!([requirement]))]), [""; 0], "{requirement}");
    }
}
