//! CapacityQuotas that the CRD takes, and those that it refuses, as Cluster Autoscaler's does.

use dovetail_api::autoscaling::{CapacityQuota, CapacityQuotaAlpha, VERSIONS};
use dovetail_api::crds;
use dovetail_api::schema::{Schema, UnknownFields};
use serde_json::{Value, json};

/// True if an API server with the CRD stores a quota of that spec.
fn is_taken(schema: &Schema, spec: &Value) -> bool {
    let object = json!({"apiVersion": VERSIONS[0], "kind": "CapacityQuota", "metadata": {"name": "one"}, "spec": spec});
    let taken =
        schema.validate(&object, UnknownFields::Ignore).is_empty() && schema.check_rules(&object, None).is_empty();
    assert!(!taken || serde_json::from_value::<CapacityQuota>(object).is_ok(), "{spec}");
    taken
}

#[test]
fn crd_of_quotas_takes_and_refuses_as_cluster_autoscalers() {
    let schema = Schema::compile(&crds::schema_of(VERSIONS[0], "CapacityQuota").unwrap()).unwrap();
    let of = |name: &str, amount: Value| json!({"limits": {"resources": {name: amount}}});
    let many: serde_json::Map<String, Value> = (0..21).map(|at| (format!("r{at}"), json!(1))).collect();
    let expression = json!([{"key": "a", "operator": "In", "values": ["b"]}]);
    let cases = [
        (true, json!({"limits": {"resources": {}}})),
        (false, json!({})),
        (false, json!({"limits": {}})),
        (true, of("cpu", json!(10))),
        (true, of("nodes", json!("2k"))),
        (true, of("memory", json!("32Gi"))),
        (true, of("nvidia.com/gpu", json!(0))),
        (false, of("cpu", json!(-1))),
        (false, of("cpu", json!("-1"))),
        (false, of("cpu", json!("0.3"))),
        (false, of("cpu", json!("500m"))),
        (false, of(&"a".repeat(64), json!(1))),
        (true, of(&"a".repeat(63), json!(1))),
        (false, json!({"limits": {"resources": many}})),
        (true, json!({"selector": {}, "limits": {"resources": {"nodes": 1}}})),
        (true, json!({"selector": {"matchExpressions": expression}, "limits": {"resources": {}}})),
        (false, json!({"selector": {"matchExpressions": [{"operator": "In"}]}, "limits": {"resources": {}}})),
        (false, json!({"selector": {"matchLabels": {"a": 1}}, "limits": {"resources": {}}})),
    ];
    for (taken, spec) in cases {
        assert_eq!(is_taken(&schema, &spec), taken, "{spec}");
    }
}

#[test]
fn quota_of_the_older_version_is_read_as_the_newer() {
    let of = |version: &str| {
        json!({"apiVersion": version, "kind": "CapacityQuota", "metadata": {"name": "one"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "limits": {"resources": {"cpu": "4"}}}})
    };
    let older: CapacityQuotaAlpha = serde_json::from_value(of(VERSIONS[1])).unwrap();
    let newer: CapacityQuota = serde_json::from_value(of(VERSIONS[0])).unwrap();
    assert_eq!(CapacityQuota::from(older), newer);
}
