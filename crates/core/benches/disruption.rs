//! A look at 5,000 nodes with 50,000 pods: all occupied, and half of them empty.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use dovetail_core::InstanceType;
use dovetail_core::cluster_state::{ClusterState, Moment};
use dovetail_core::disruption::{Memory, OffersByClass, decide_disruption, usage};
use jiff::Timestamp;
use serde_json::{Value, json};

const NODES: usize = 5_000;
const PODS: usize = 10;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn cluster(occupied: usize, ttl: bool) -> ClusterState {
    let mut state = ClusterState::new();
    let annotations = if ttl { json!({"dovetail.dev/ttl-seconds-after-empty": "30"}) } else { json!({}) };
    state.apply_pool(read(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "annotations": annotations},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
    })));
    let time = "2026-01-01T00:00:00Z";
    for n in 0..NODES {
        let (name, id) =
            (format!("ip-10-0-{}-{}.ec2.internal", n / 250, n % 250), format!("aws:///us-east-1a/i-{n:017x}"));
        let labels: std::collections::BTreeMap<String, String> =
            (0..25).map(|n| (format!("karpenter.k8s.aws/label-{n}"), "value".to_owned())).collect();
        let conditions: Vec<_> = ["Initialized", "Launched", "Ready", "Registered"]
            .iter()
            .map(|name| json!({"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": time}))
            .collect();
        state.apply_claim(Arc::new(read(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("default-{n:05}"), "uid": format!("claim-{n}"), "creationTimestamp": time,
                "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": id, "nodeName": name, "conditions": conditions},
        }))));
        let capacity = json!({"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "20Gi"});
        state.apply_node(&read(json!({
            "metadata": {"name": name, "uid": format!("node-{n}"), "labels": labels}, "spec": {"providerID": id},
            "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
        })));
        for pod in 0..PODS {
            let daemon = pod < 2 || n >= occupied;
            let (api, kind) = if daemon { ("apps/v1", "DaemonSet") } else { ("apps/v1", "ReplicaSet") };
            let pod = read(json!({
                "metadata": {"name": format!("p-{n}-{pod}"), "namespace": "default", "uid": format!("pod-{n}-{pod}"),
                    "ownerReferences": [{"apiVersion": api, "kind": kind, "name": "x", "uid": "x"}]},
                "spec": {"nodeName": name, "containers": []}, "status": {"phase": "Running"},
            }));
            state.apply_pod(&pod).unwrap();
        }
    }
    state
}

fn looking(criterion: &mut Criterion) {
    let large: InstanceType = read(json!({"name": "m5.large", "capacity": {}, "requirements": [], "offerings": []}));
    let offers: OffersByClass = [("default".to_owned(), Arc::new(vec![Arc::new(large)]))].into();
    let mut group = criterion.benchmark_group("disruption");
    let start: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
    for (name, occupied, ttl) in
        [("all occupied", NODES, false), ("half empty", NODES / 2, false), ("half empty, with a TTL", NODES / 2, true)]
    {
        let state = cluster(occupied, ttl);
        let mut memory = Memory::new();
        let now = Moment { monotonic: Duration::from_secs(10), wall: start };
        let snapshot = state.snapshot();
        group.bench_function(name, |bench| bench.iter(|| decide_disruption(&snapshot, &offers, &mut memory, now)));
    }
    let state = cluster(NODES, false);
    group.bench_function("usage", |bench| bench.iter(|| usage(&state.snapshot())));
    group.finish();
}

criterion_group!(benches, looking);
criterion_main!(benches);
