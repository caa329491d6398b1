#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        }}, "limits": {"cpu": 1000, "memory": "1Ti"}}
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-demo",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        }
    })
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Object(map) => drop(map.insert(last.into(), value)),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value,
        _ => panic!("{pointer}"),
    }
}

/// Mistakes as paths, CEL included once the rest is right.
fn mistakes(object: &Value, old: Option<&Value>) -> Vec<String> {
    let text = |name: &str| object[name].as_str().unwrap().to_string();
    let schema = schema_for(&text("apiVersion"), &text("kind")).expect("known kind with a schema");
    let mut errors = schema.validate(object, UnknownFields::Refuse);
    if errors.is_empty() {
        errors = schema.check_rules(object, old);
    }
    errors.into_iter().map(|error| error.path.to_string()).collect()
}

#[test]
fn every_known_kind_has_a_schema_that_compiles() {
    for (api_version, kind) in accepted_kinds() {
        assert!(schema_for(api_version, kind).is_some(), "{api_version} {kind}");
    }
}

#[test]
fn valid_objects_pass() {
    assert_eq!(mistakes(&pool(), None), [""; 0]);
    assert_eq!(mistakes(&class(), None), [""; 0]);
}

#[test]
fn a_budget_may_name_karpenters_reasons_and_no_other() {
    for (reason, wrong) in [
        ("Underutilized", false),
        ("Empty", false),
        ("Drifted", false),
        ("Unhealthy", false),
        ("unhealthy", true),
        ("Expired", true),
    ] {
        let mut pool = pool();
        let budgets = json!([{"nodes": "1", "reasons": [reason]}]);
        set(&mut pool, "/spec/disruption", json!({"consolidateAfter": "0s", "budgets": budgets}));
        let expected: &[&str] = if wrong { &["spec.disruption.budgets[0].reasons[0]"] } else { &[] };
        assert_eq!(mistakes(&pool, None), expected, "{reason}");
    }
}

#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn a_mistake_in_a_pool_is_found_where_it_is() {
    let requirement = "/spec/template/spec/requirements/0";
    let cases: &[(&str, Value, &str)] = &[
        ("/spec/weight", json!(101), "spec.weight"),
        ("/spec/weight", json!("5"), "spec.weight"),
        ("/spec/wieght", json!(5), "spec.wieght"),
        ("/spec/limits", json!({"cpu": "10 cores"}), "spec.limits.cpu"),
        ("/spec/limits", json!({"cpu": 0.5}), "spec.limits.cpu"),
        ("/spec/disruption", json!({"consolidateAfter": "1d"}), "spec.disruption.consolidateAfter"),
        (
            "/spec/disruption",
            json!({"consolidateAfter": "0s", "budgets": [{"nodes": "101%"}]}),
            "spec.disruption.budgets[0].nodes",
        ),
        (
            "/spec/disruption",
            json!({"consolidateAfter": "0s", "budgets": [{"nodes": "1", "schedule": "@daily"}]}),
            "spec.disruption.budgets[0]",
        ),
        (
            "/spec/disruption",
            json!({"consolidateAfter": "0s", "budgets": [{"nodes": "1", "reasons": ["Empty", "Empty"]}]}),
            "spec.disruption.budgets[0].reasons[1]",
        ),
        (
            requirement,
            json!({"key": "a", "operator": "in", "values": ["x"]}),
            "spec.template.spec.requirements[0].operator",
        ),
        (requirement, json!({"key": "a", "values": ["x"]}), "spec.template.spec.requirements[0].operator"),
        (requirement, json!({"key": " a", "operator": "Exists"}), "spec.template.spec.requirements[0].key"),
        (requirement, json!({"key": "a", "operator": "In"}), "spec.template.spec.requirements[0]"),
        (requirement, json!({"key": "a", "operator": "In", "values": []}), "spec.template.spec.requirements[0]"),
        (requirement, json!({"key": "a", "operator": "Gt", "values": ["x"]}), "spec.template.spec.requirements[0]"),
        (
            requirement,
            json!({"key": "a", "operator": "Lte", "values": ["1", "2"]}),
            "spec.template.spec.requirements[0]",
        ),
        (
            requirement,
            json!({"key": "a", "operator": "In", "values": ["1"], "minValues": 2}),
            "spec.template.spec.requirements[0]",
        ),
        (
            requirement,
            json!({"key": "a", "operator": "In", "values": ["1"], "minValues": 51}),
            "spec.template.spec.requirements[0].minValues",
        ),
        (
            requirement,
            json!({"key": "karpenter.sh/nodepool", "operator": "Exists"}),
            "spec.template.spec.requirements[0].key",
        ),
        (
            requirement,
            json!({"key": "x.karpenter.sh/y", "operator": "Exists"}),
            "spec.template.spec.requirements[0].key",
        ),
        (
            requirement,
            json!({"key": "karpenter.k8s.aws/instance-pods", "operator": "Exists"}),
            "spec.template.spec.requirements[0].key",
        ),
        (
            "/spec/template/metadata",
            json!({"labels": {"kubernetes.io/hostname": "x"}}),
            "spec.template.metadata.labels",
        ),
        ("/spec/template/metadata", json!({"labels": {"team": "a b"}}), "spec.template.metadata.labels.team"),
        (
            "/spec/template/spec/nodeClassRef",
            json!({"group": "a/b", "kind": "c", "name": "d"}),
            "spec.template.spec.nodeClassRef.group",
        ),
        (
            "/spec/template/spec/taints",
            json!([{"key": "a", "effect": "NoExec"}]),
            "spec.template.spec.taints[0].effect",
        ),
        ("/spec/template/spec/expireAfter", json!("never"), "spec.template.spec.expireAfter"),
        ("/metadata/lables", json!({}), "metadata.lables"),
    ];
    for (pointer, value, path) in cases {
        let mut object = pool();
        set(&mut object, pointer, value.clone());
        assert_eq!(mistakes(&object, None), [*path], "{pointer} = {value}");
    }
}

#[test]
fn a_mistake_in_a_class_is_found_where_it_is() {
    let cases: &[(&str, Value, &str)] = &[
        ("/spec/instanceProfile", json!("p"), "spec"),
        ("/spec/amiSelectorTerms", json!([{"alias": "al2023@latest"}, {"id": "ami-1"}]), "spec.amiSelectorTerms"),
        ("/spec/amiSelectorTerms", json!([{"alias": "ubuntu@latest"}]), "spec.amiSelectorTerms[0].alias"),
        ("/spec/amiSelectorTerms", json!([{"alias": "windows2022@v1"}]), "spec.amiSelectorTerms[0].alias"),
        ("/spec/amiSelectorTerms", json!([{"id": "ami-1"}]), "spec"),
        ("/spec/securityGroupSelectorTerms", json!([{}]), "spec.securityGroupSelectorTerms[0]"),
        ("/spec/amiFamily", json!("Bottlerocket"), "spec"),
        ("/spec/subnetSelectorTerms", json!([]), "spec.subnetSelectorTerms"),
        ("/spec/subnetSelectorTerms", json!([{"id": "subnet-1", "tags": {"a": "b"}}]), "spec.subnetSelectorTerms[0]"),
        ("/spec/subnetSelectorTerms", json!([{"tags": {"a": ""}}]), "spec.subnetSelectorTerms[0].tags"),
        ("/spec/tags", json!({"eks:eks-cluster-name": "x"}), "spec.tags"),
        ("/spec/tags", json!({"kubernetes.io/cluster/x": "owned"}), "spec.tags"),
        (
            "/spec/metadataOptions",
            json!({"httpPutResponseHopLimit": 65}),
            "spec.metadataOptions.httpPutResponseHopLimit",
        ),
        (
            "/spec/blockDeviceMappings",
            json!([{"ebs": {"volumeSize": "65Ti"}}]),
            "spec.blockDeviceMappings[0].ebs.volumeSize",
        ),
        ("/spec/blockDeviceMappings", json!([{"ebs": {"encrypted": true}}]), "spec.blockDeviceMappings[0].ebs"),
        ("/spec/blockDeviceMappings", json!([{"rootVolume": true}, {"rootVolume": true}]), "spec.blockDeviceMappings"),
        (
            "/spec/networkInterfaces",
            json!([{"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface"}]),
            "spec.networkInterfaces",
        ),
        ("/spec/placementGroupSelector", json!({}), "spec.placementGroupSelector"),
        ("/spec/connectionTracking", json!({}), "spec.connectionTracking"),
    ];
    for (pointer, value, path) in cases {
        let mut object = class();
        set(&mut object, pointer, value.clone());
        assert_eq!(mistakes(&object, None), [*path], "{pointer} = {value}");
    }
}

#[test]
fn transition_rules_compare_with_what_was_stored() {
    let old = pool();
    let mut new = pool();
    set(&mut new, "/spec/template/spec/nodeClassRef/kind", json!("Other"));
    assert_eq!(mistakes(&new, Some(&old)), ["spec.template.spec.nodeClassRef"]);
    let mut new = pool();
    set(&mut new, "/spec/replicas", json!(3));
    set(&mut new, "/spec/limits", json!({"nodes": 5}));
    assert_eq!(mistakes(&new, Some(&old)), ["spec"]);
    assert_eq!(mistakes(&new, None), [""; 0]);
    let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"}, "spec": old["spec"]["template"]["spec"]});
    let before = claim.clone();
    assert_eq!(mistakes(&claim, Some(&before)), [""; 0]);
    set(&mut claim, "/spec/expireAfter", json!("1h"));
    assert_eq!(mistakes(&claim, Some(&before)), ["spec"]);
}

#[test]
fn defaults_are_those_of_the_specification() {
    let mut object = pool();
    set(&mut object, "/spec/weight", Value::Null);
    schema_for("karpenter.sh/v1", "NodePool").unwrap().default(&mut object);
    assert_eq!(
        object["spec"]["disruption"],
        json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]})
    );
    assert_eq!(object["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(object["spec"].get("weight"), None);
    let mut object = class();
    schema_for("karpenter.k8s.aws/v1", "EC2NodeClass").unwrap().default(&mut object);
    assert_eq!(object["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 1);
}

#[test]
fn pruning_takes_unknown_fields_and_leaves_open_objects() {
    let mut object = class();
    set(&mut object, "/spec/kubelet", json!({"maxPods": 10, "anything": {"goes": 1}}));
    set(&mut object, "/spec/gone", json!(1));
    let dropped = schema_for("karpenter.k8s.aws/v1", "EC2NodeClass").unwrap().prune(&mut object);
    assert_eq!(dropped.iter().map(ToString::to_string).collect::<Vec<_>>(), ["spec.gone"]);
    assert_eq!(object["spec"]["kubelet"]["anything"]["goes"], 1);
    assert_eq!(object["metadata"]["name"], "default");
}

#[test]
fn kubernetes_own_kinds_are_checked_too() {
    let deployment = |container: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}}})
    };
    let container = "spec.template.spec.containers[0]";
    assert_eq!(
        mistakes(&deployment(json!({"name": "c", "resources": {"requests": {"cpu": 0.5, "memory": "1.5Gi"}}})), None),
        [""; 0]
    );
    for (bad, path) in [
        (json!({"image": "x"}), "name"),
        (json!({"name": "c", "resource": {}}), "resource"),
        (json!({"name": "c", "resources": {"requests": {"cpu": "1 core"}}}), "resources.requests.cpu"),
        (json!({"name": "c", "ports": [{"containerPort": "80"}]}), "ports[0].containerPort"),
    ] {
        assert_eq!(mistakes(&deployment(bad), None), [format!("{container}.{path}")]);
    }
}

#[test]
fn what_did_not_change_is_held_against_rules_of_change_alone() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "self < 10", "message": "too large"},
                {"rule": "self > oldSelf || self == 3", "message": "has to grow"},
            ]},
            "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'no'", "message": "a bad name"}]},
        }},
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    }}))
    .unwrap();
    let told = |object: Value, old: Option<Value>| {
        let errors = schema.check_rules(&object, old.as_ref());
        errors.into_iter().map(|error| format!("{}: {}", error.path, error.what)).collect::<Vec<_>>()
    };
    let of = |size: u64, name: &str, seen: u64| json!({"spec": {"size": size, "name": name}, "status": {"seen": seen}});
    assert_eq!(told(of(12, "no", 1), None), ["spec.name: a bad name", "spec.size: too large"], "new: all of them");
    assert_eq!(told(of(3, "no", 2), Some(of(3, "no", 1))), [""; 0], "stored before the rule: may stay");
    assert_eq!(told(of(12, "no", 2), Some(of(12, "no", 1))), ["spec.size: has to grow"], "of change: always");
    assert_eq!(told(of(4, "no", 1), Some(of(3, "yes", 1))), ["spec.name: a bad name"], "changed: all of them");
}
