//! CapacityQuotas in `plan`: they hold, and what is used of them is shown, where the feature gate is open.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};
use crate::web::Web;

/// Six pods that each need a node of its own, and these quotas.
fn manifests(quotas: &str) -> String {
    Web { pool: String::new(), types: "m5.large", replicas: 6, cpu: "1500m" }.with(quotas)
}

fn quota(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityQuota\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

#[test]
fn plan_holds_quotas_and_shows_what_is_used_of_them() {
    let quotas = [
        quota("all", "limits: {resources: {cpu: 9, nodes: 20}}"),
        quota(
            "metal",
            "selector: {matchLabels: {karpenter.k8s.aws/instance-size: metal}}, limits: {resources: {nodes: 0}}",
        ),
        quota("bad", "selector: {matchExpressions: [{key: a, operator: Near}]}, limits: {resources: {nodes: 1}}"),
    ];
    let file = write("plan-quotas/all.yaml", &manifests(&quotas.concat()));
    let plan =
        |more: &[&str]| dovetail(&[&["plan", "-f", &file, "--feature-gates", "CapacityQuota=true"], more].concat());
    let output = plan(&["--json"]);
    assert_eq!(output.status.code(), Some(1), "two pods are left over: {}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["numNodeClaims"], 4, "{answer}");
    let of = |name: &str| {
        let all = answer["capacityQuotas"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("all")["used"]["cpu"], &of("all")["used"]["nodes"]), (&"8".into(), &"4".into()));
    assert_eq!((&of("metal")["held"], &of("bad")["held"]), (&true.into(), &false.into()));
    let reasons = answer["unscheduled"].to_string();
    assert!(reasons.contains("CapacityQuota all of 9 cpu reached: 1 left"), "{reasons}");
    let text = stdout(&plan(&[]));
    for line in [
        "capacityquota all: 8 of 9 cpu, 4 of 20 nodes with this plan",
        "capacityquota metal: 0 of 0 nodes with this plan",
        "capacityquota bad: it is not held: spec.selector: operator \"Near\" of a",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}

/// A static pool's nodes count, too: two of five, so that pods get three more.
#[test]
fn plan_counts_nodes_of_static_pools_against_quotas() {
    let all = manifests(&quota("all", "limits: {resources: {nodes: 5}}"));
    let (pool, rest) = all.split_once("---\n").unwrap();
    let fixed = pool.replace("name: base", "name: fixed").replacen("spec:\n", "spec:\n  replicas: 2\n", 1);
    let file = write("plan-quotas/static.yaml", &format!("{pool}---\n{fixed}---\n{rest}"));
    let gates = ["--feature-gates", "CapacityQuota=true,StaticCapacity=true"];
    let output = dovetail(&[&["plan", "-f", &file, "--json"], gates.as_slice()].concat());
    assert_eq!(output.status.code(), Some(1), "one pod is left over: {}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["numNodeClaims"], 3, "{answer}");
    assert_eq!(answer["capacityQuotas"][0]["used"]["nodes"], "5", "{answer}");
}

/// Gate closed: the same plan byte for byte as without quotas.
#[test]
fn plan_with_the_gate_closed_reads_no_quota() {
    let with = write("plan-quotas/with.yaml", &manifests(&quota("all", "limits: {resources: {nodes: 0}}")));
    let without = write("plan-quotas/without.yaml", &manifests(""));
    let plan = |file: &str, more: &[&str]| {
        let output = dovetail(&[&["plan", "-f", file], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(plan(&with, &[]), plan(&without, &[]));
    let gate = ["--feature-gates", "CapacityQuota=true"];
    assert_eq!(plan(&without, &gate), plan(&without, &[]), "without quotas the gate changes nothing");
}
