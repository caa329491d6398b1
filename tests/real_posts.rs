//! Trials of the posts' readers, on a real control plane, beside the other tests there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::real::{Real, pool_with};

/// 001: three nodes in each of two zones, and eight pods that have to be in one zone, then eight that would rather not be,
/// then forty, of which a limit leaves some pending.
#[test]
fn eight_pods_gather_or_keep_apart_and_a_limit_stops_forty() {
    let mut real = Real::start("affinity", &[]);
    real.ok(&[
        "apply",
        "-f",
        &pool_with("affinity", "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [\"1\"]}"),
    ]);
    real.two_replicas();
    real.ok(&["apply", "-f", "tests/real/manifests/six.yaml"]);
    real.until("six nodes hold a pod each", |real| real.ready() == 6);
    let six = zones(&real);
    assert_eq!(six.values().filter(|zone| *zone == "eu-west-1a").count(), 3, "{six:?}");

    real.ok(&["apply", "-f", "tests/fixtures/posts/001-pod-affinity.yaml"]);
    real.until("eight more are Ready", |real| real.ready() == 14);
    let (all, held) = (zones(&real), real.pods_by_node("inflate"));
    let theirs: BTreeSet<&String> = held.keys().map(|node| &all[node]).collect();
    assert_eq!(theirs.len(), 1, "{held:?} in {all:?}");
    let there = six.iter().filter(|(_, zone)| theirs.contains(zone));
    assert!(there.clone().all(|(node, _)| held[node] == 1), "{held:?} in {all:?}");
    assert_eq!((six.len(), all.len()), (6, 7), "{held:?}");
    real.ok(&["delete", "deployment", "inflate"]);
    real.until("six nodes are left", |real| zones(real) == six);

    real.ok(&["apply", "-f", "tests/fixtures/posts/001-pod-anti-affinity.yaml"]);
    real.until("eight more are Ready", |real| real.ready() == 14);
    let held = real.pods_by_node("inflate");
    assert!(six.keys().all(|node| held[node] == 1) && held.len() <= 7, "{held:?}");

    let limit = "{\"spec\": {\"limits\": {\"cpu\": 24}}}";
    real.ok(&["patch", "nodepool", "default", "--type=merge", "-p", limit]);
    real.ok(&["scale", "deployment", "inflate", "--replicas=40"]);
    let limited =
        |event: &serde_json::Value| event["message"].as_str().is_some_and(|said| said.contains("limit of 24 cpu"));
    real.until("a pod is told of the limit", |real| real.objects("events").iter().any(limited));
    real.until("every node is there", |real| real.names("nodes").len() == real.names("nodeclaims").len());
    let cores = |node: &serde_json::Value| node["status"]["capacity"]["cpu"].as_str().unwrap().parse::<u32>().unwrap();
    let cores: u32 = real.objects("nodes").iter().map(cores).sum();
    assert!((17..=24).contains(&cores), "{cores} cores");
    real.nothing_was_forbidden();
}

/// The nodes with their zones.
fn zones(real: &Real) -> BTreeMap<String, String> {
    let told = |node: &serde_json::Value| {
        let text = |path: &str| node.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        (text("/metadata/name"), text("/metadata/labels/topology.kubernetes.io~1zone"))
    };
    real.objects("nodes").iter().map(told).collect()
}
