//! Static pools in `plan`: their nodes are there before any pod, where the feature gate is open.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};
use crate::web::Web;

/// A static pool of three nodes, and five pods.
fn manifests(limits: &str) -> String {
    let pool = format!("  replicas: 3\n{limits}");
    Web { pool, types: "m5.large, m5.xlarge", replicas: 5, cpu: "500m" }.with("")
}

#[test]
fn static_nodes_are_planned_over_the_zones_and_take_pods() {
    let file = write("plan-static/all.yaml", &manifests(""));
    let output = dovetail(&["plan", "-f", &file, "--feature-gates", "StaticCapacity=true", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let pool = &answer["staticPools"][0];
    let mut zones: Vec<&str> =
        pool["nodes"].as_array().unwrap().iter().map(|one| one["zone"].as_str().unwrap()).collect();
    zones.dedup();
    assert_eq!((zones.len(), pool["replicas"].as_u64()), (3, Some(3)), "{pool}");
    assert!((pool["hourlyPrice"].as_f64().unwrap() - 3.0 * 0.096).abs() < 1e-9, "{pool}");
    assert_eq!((answer["numNodeClaims"].as_u64(), answer["scheduledPods"].as_u64()), (Some(0), Some(5)));
    assert!(!stderr(&output).contains("left out"), "{}", stderr(&output));
    let text = stdout(&dovetail(&["plan", "-f", &file, "--feature-gates", "StaticCapacity=true"]));
    assert!(
        text.contains("static pool base: 3 replicas: 3 to launch (") && text.contains("$0.2880 an hour more"),
        "{text}"
    );
}

#[test]
fn static_pool_says_what_its_limit_leaves_out() {
    let file = write("plan-static-limit/all.yaml", &manifests("  limits: {nodes: 2}\n"));
    let text = stdout(&dovetail(&["plan", "-f", &file, "--feature-gates", "StaticCapacity=true"]));
    assert!(text.contains("2 to launch (") && text.contains("the rest is missing: spec.limits.nodes is 2"), "{text}");
}

#[test]
fn plan_without_the_gate_leaves_a_static_pool_out() {
    let file = write("plan-static-off/all.yaml", &manifests(""));
    for more in [&[][..], &["--feature-gates", "StaticCapacity=false"][..]] {
        let output = dovetail(&[&["plan", "-f", &file], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("nodepool base is left out: it is static"), "{}", stderr(&output));
        assert!(!stdout(&output).contains("static pool"), "{}", stdout(&output));
    }
    let output = dovetail(&["plan", "-f", &file, "--feature-gates", "StaticCapacity=maybe"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("--feature-gates"), "{}", stderr(&output));
}
