//! NodeOverlays that the CRD takes, and those that it refuses, as Karpenter's does.

use dovetail_api::crds;
use dovetail_api::overlays::{API_VERSION, KIND, NodeOverlay};
use dovetail_api::schema::{Schema, UnknownFields};
use serde_json::{Value, json};

/// True if an API server with the CRD stores an overlay of that spec.
fn is_taken(schema: &Schema, spec: &Value) -> bool {
    let object = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "one"}, "spec": spec});
    let taken =
        schema.validate(&object, UnknownFields::Ignore).is_empty() && schema.check_rules(&object, None).is_empty();
    assert!(!taken || serde_json::from_value::<NodeOverlay>(object).is_ok(), "{spec}");
    taken
}

fn of(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"requirements": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn crd_of_node_overlays_takes_and_refuses_as_karpenters() {
    let schema = Schema::compile(&crds::schema_of(API_VERSION, KIND).unwrap()).unwrap();
    let with = |field: &str, value: Value| json!({"requirements": [], field: value});
    let cases = [
        (true, json!({"requirements": []})),
        (false, json!({})),
        (true, with("price", json!("0.5"))),
        (true, with("price", json!("5"))),
        (false, with("price", json!("-5"))),
        (false, with("price", json!("5."))),
        (false, with("price", json!(5))),
        (true, with("priceAdjustment", json!("+0.5"))),
        (true, with("priceAdjustment", json!("-0.5"))),
        (true, with("priceAdjustment", json!("+150%"))),
        (true, with("priceAdjustment", json!("-99.9%"))),
        (true, with("priceAdjustment", json!("-100%"))),
        (false, with("priceAdjustment", json!("-101%"))),
        (false, with("priceAdjustment", json!("15%"))),
        (false, with("priceAdjustment", json!("+"))),
        (false, json!({"requirements": [], "price": "1", "priceAdjustment": "+1"})),
        (true, with("capacity", json!({"example.com/fuse": "1", "hugepages-2Mi": "1Gi"}))),
        (false, with("capacity", json!({"cpu": "1"}))),
        (false, with("capacity", json!({"memory": "1Gi"}))),
        (false, with("capacity", json!({"ephemeral-storage": "1Gi"}))),
        (false, with("capacity", json!({"pods": "1"}))),
        (true, with("weight", json!(1))),
        (true, with("weight", json!(10_000))),
        (false, with("weight", json!(0))),
        (false, with("weight", json!(10_001))),
        (true, of("karpenter.sh/nodepool", "In", &["a"])),
        (true, of("karpenter.sh/capacity-type", "NotIn", &["spot"])),
        (true, of("node.kubernetes.io/instance-type", "Exists", &[])),
        (true, of("example.com/team", "DoesNotExist", &[])),
        (true, of("karpenter.k8s.aws/instance-cpu", "Gt", &["3"])),
        (true, of("karpenter.k8s.aws/instance-cpu", "Lte", &["3"])),
        (false, of("karpenter.k8s.aws/instance-cpu", "Gt", &["3", "4"])),
        (false, of("karpenter.k8s.aws/instance-cpu", "Lt", &["-1"])),
        (false, of("karpenter.sh/custom", "In", &["a"])),
        (false, of("karpenter.k8s.aws/custom", "In", &["a"])),
        (false, of("kubernetes.io/hostname", "In", &["a"])),
        (false, of("example.com/team", "In", &[])),
        (false, of("example.com/team", "NotIn", &[])),
        (false, of("example.com/team", "Near", &["a"])),
    ];
    for (taken, spec) in cases {
        assert_eq!(is_taken(&schema, &spec), taken, "{spec}");
    }
}
