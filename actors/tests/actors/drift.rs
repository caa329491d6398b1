//! Nodes that are no longer what is asked for, and nodes that are unwell, against an API server and a cloud.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::world;

use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_core::lifecycle::hash::{OF_CLASS, OF_POOL};
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODE_POOLS, NODES};
use serde_json::{Value, json};
use world::{World, minutes, on_demand_m5, run, seconds};

/// A pool whose nodes nothing but drift takes away, with a node of four pods.
async fn one_node(world: &World, settings: Settings) -> (dovetail_actors::ReplicaHandle, String) {
    world.pool("default", on_demand_m5());
    let disruption = json!({"spec": {"disruption": {"consolidateAfter": "Never"}}});
    world.api.patch(&NODE_POOLS, "", "default", &disruption).unwrap();
    world.pods(4, "400m");
    let replica = world.replica_with(0, settings);
    world.until_bound(4, seconds(180)).await;
    tokio::time::sleep(seconds(60)).await;
    let claims = world.claims();
    assert_eq!(claims.len(), 1, "{}", world.log_events().join("\n"));
    (replica, name(&claims[0]))
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn condition<'a>(claim: &'a Value, type_: &str) -> Option<&'a Value> {
    claim["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == type_)
}

fn claim(world: &World, name: &str) -> Option<Arc<Value>> {
    world.api.get(&NODE_CLAIMS, "", name)
}

fn is_tainted(world: &World) -> bool {
    let disrupted = |taint: &Value| taint["key"] == "karpenter.sh/disrupted";
    let taints = |node: &Value| node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(disrupted));
    world.api.list(&NODES).iter().any(|node| taints(node))
}

fn label(world: &World, release: &str) {
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"release": release}}}}});
    world.api.patch(&NODE_POOLS, "", "default", &patch).unwrap();
}

fn told(world: &World, event: &str) -> usize {
    world.journal.entries().iter().filter(|entry| entry.log_event.event() == event).count()
}

#[test]
fn claim_of_other_hash_version_is_stamped_and_does_not_drift() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, Settings::default()).await;
        let patch = json!({"metadata": {"annotations": {
            "karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2",
            "karpenter.k8s.aws/ec2nodeclass-hash": "2", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"}}});
        world.api.patch(&NODE_CLAIMS, "", &old, &patch).unwrap();
        tokio::time::sleep(seconds(30)).await;
        let there = claim(&world, &old).unwrap();
        for keys in [OF_POOL, OF_CLASS] {
            assert_eq!(there["metadata"]["annotations"][keys.version], keys.current);
            assert!(there["metadata"]["annotations"][keys.hash].as_str().unwrap().len() > 3, "{there:#}");
        }
        let version = there["metadata"]["resourceVersion"].clone();
        tokio::time::sleep(minutes(10)).await;
        let later = claim(&world, &old).unwrap();
        assert!(condition(&later, "Drifted").is_none(), "{}", world.log_events().join("\n"));
        assert_eq!(later["metadata"]["resourceVersion"], version, "nothing more is written");
    });
}

#[test]
fn drifted_node_goes_only_when_replacement_is_initialized() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, Settings::default()).await;
        label(&world, "two");
        let drifted = || {
            claim(&world, &old).is_some_and(|claim| {
                condition(&claim, "Drifted")
                    .is_some_and(|one| one["reason"] == "NodePoolDrifted" && one["status"] == "True")
            })
        };
        world.until(seconds(30), drifted).await;
        world
            .until(minutes(5), || {
                claim(&world, &old).is_none_or(|one| one["metadata"]["deletionTimestamp"].is_string())
            })
            .await;
        let others: Vec<_> = world.claims().into_iter().filter(|one| name(one) != old).collect();
        assert_eq!(others.len(), 1, "{}", world.log_events().join("\n"));
        assert_eq!(condition(&others[0], "Initialized").unwrap()["status"], "True", "its place was ready");
        assert_eq!(others[0]["metadata"]["labels"]["release"], "two");
        world.until(minutes(5), || claim(&world, &old).is_none()).await;
    });
}

#[test]
fn node_without_replacement_is_tainted_meanwhile_and_stays() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, Settings::default()).await;
        world.nobody_joins(true);
        label(&world, "two");
        world.until(minutes(5), || is_tainted(&world)).await;
        world.until(minutes(15), || told(&world, "replacement_off") > 0).await;
        world.until(minutes(1), || !is_tainted(&world)).await;
        let there = claim(&world, &old).unwrap();
        assert!(there["metadata"]["deletionTimestamp"].is_null(), "{there:#}");
        assert_eq!(world.bound(), 4, "its pods serve");
        world.nobody_joins(false);
        world.until(minutes(40), || claim(&world, &old).is_none()).await;
    });
}

/// The storage of the only node is reported to be unwell.
fn unwell(world: &World) {
    let node = name(&world.api.list(&NODES)[0]);
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "x", "message": "", "lastTransitionTime": world.clock_text()});
    let status = json!({"status": {"conditions": [condition("Ready", "True"), condition("StorageReady", "False")]}});
    world.api.patch_status(&NODES, "", &node, &status).unwrap();
}

fn with_repair(legacy: bool) -> Settings {
    let mut settings = Settings::default();
    settings.churn.legacy_node_repair = legacy;
    settings.gates.insert("NodeRepair".to_owned());
    settings
}

fn goes(world: &World, old: &str) -> bool {
    claim(world, old).is_none_or(|one| one["metadata"]["deletionTimestamp"].is_string())
}

#[test]
fn an_unwell_node_stays_without_the_gate() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, Settings::default()).await;
        unwell(&world);
        tokio::time::sleep(minutes(45)).await;
        assert!(!goes(&world, &old), "the gate is off");
    });
}

#[test]
fn an_unwell_node_goes_once_its_successor_stands() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, with_repair(false)).await;
        unwell(&world);
        tokio::time::sleep(minutes(29)).await;
        assert!(!goes(&world, &old) && world.claims().len() == 1, "it is tolerated yet");
        let repaired = || {
            claim(&world, &old).is_some_and(|claim| {
                condition(&claim, "DisruptionReason").is_some_and(|one| one["reason"] == "Unhealthy")
            })
        };
        world.until(minutes(2), repaired).await;
        assert!(!is_tainted(&world) && world.bound() == 4, "its pods serve");
        world.until(minutes(5), || goes(&world, &old)).await;
        let others: Vec<_> = world.claims().into_iter().filter(|one| name(one) != old).collect();
        assert_eq!(others.len(), 1, "{}", world.log_events().join("\n"));
        assert_eq!(condition(&others[0], "Initialized").unwrap()["status"], "True", "its place was ready");
        if let Some(claim) = claim(&world, &old) {
            let own = &claim["metadata"]["annotations"];
            assert!(own["karpenter.sh/nodeclaim-termination-timestamp"].is_null(), "not by force: {own}");
        }
        world.until(minutes(5), || claim(&world, &old).is_none()).await;
    });
}

#[test]
fn legacy_repair_removes_an_unwell_node_by_force() {
    run(|world| async move {
        let (_replica, old) = one_node(&world, with_repair(true)).await;
        unwell(&world);
        tokio::time::sleep(minutes(29)).await;
        assert!(!goes(&world, &old));
        let forced = || {
            claim(&world, &old).is_none_or(|one| {
                let own = &one["metadata"]["annotations"];
                one["metadata"]["deletionTimestamp"].is_string()
                    && own["karpenter.sh/nodeclaim-termination-timestamp"].is_string()
            })
        };
        world.until(minutes(2), forced).await;
        world.until(minutes(5), || claim(&world, &old).is_none()).await;
    });
}
