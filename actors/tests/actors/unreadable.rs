//! An unreadable object exists without being understood: it is named, it keeps its resources, and all others continue.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dovetail_actors::{ClusterClock, InlineSolver, ReplicaHandle, ReplicaParts, Settings};
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, Gvr, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use serde_json::{Value, json};
use world::{World, minutes, on_demand_m5, run, wire};

const FOREVER: &str = "9999-12-31T23:59:59Z";

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "500m"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}});
    change(&mut pod);
    pod
}

fn events(world: &World, reason: &str) -> Vec<Arc<Value>> {
    let all = world.api.list(&Gvr::new("", "v1", "events"));
    all.into_iter().filter(|event| event["reason"] == reason).collect()
}

/// An empty node of the default pool goes after ten seconds.
fn empty_nodes_go_soon(world: &World) {
    let disruption = json!({"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10s"}}});
    world.api.patch(&NODE_POOLS, "", "default", &disruption).unwrap();
}

async fn cluster(replica: &ReplicaHandle) -> Value {
    replica.state().await["cluster_watcher"].clone()
}

fn told(world: &World, event: &str) -> usize {
    world.journal.count(event)
}

#[test]
fn managed_fields_that_any_user_may_write_stop_nobody() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let deep = (0..130).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let evil = json!([{"manager": "evil", "operation": "Update", "apiVersion": "v1", "time": FOREVER,
            "fieldsType": "FieldsV1", "fieldsV1": deep}]);
        world
            .api
            .create(&PODS, "default", pod("bad-before", |pod| pod["metadata"]["managedFields"] = evil.clone()))
            .unwrap();
        let replica = world.replica(0);
        world.pods(3, "500m");
        world.until_bound(4, minutes(2)).await;
        for n in 0..20 {
            let bad = pod(&format!("bad-{n}"), |pod| pod["metadata"]["managedFields"] = evil.clone());
            world.api.create(&PODS, "default", bad).unwrap();
        }
        world.pods_of("late", 3, "500m");
        world.until_bound(27, minutes(2)).await;
        assert_eq!(told(&world, "retrying"), 0, "{}", world.log_events().join("\n"));
        assert_eq!(cluster(&replica).await["unreadable"], json!({}));
    });
}

#[test]
fn unreadable_watch_event_costs_no_backoff_and_is_named_once() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        let replica = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        let odd = pod("odd", |pod| pod["metadata"]["annotations"] = wire::spoilt());
        world.api.create(&PODS, "default", odd).unwrap();
        for n in 0..50 {
            let patch = json!({"metadata": {"labels": {"n": format!("{n}")}}});
            world.api.patch(&PODS, "default", "odd", &patch).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        world.pods_of("late", 1, "500m");
        world.until_bound(2, Duration::from_secs(20)).await;
        assert_eq!((told(&world, "retrying"), told(&world, "unreadable")), (0, 1), "{}", world.log_events().join("\n"));
        assert_eq!(cluster(&replica).await["unreadable"], json!({"Pod": 1}));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let said = events(&world, "Unreadable");
        assert_eq!(said.len(), 1);
        assert_eq!((&said[0]["involvedObject"]["name"], &said[0]["type"]), (&json!("odd"), &json!("Warning")));
        // It may have a node, and nobody here ends the pods of nodes.
        let at_once = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        world.api.delete(&PODS, "default", "odd", &at_once).unwrap();
        world.until(minutes(2), || world.api.get(&PODS, "default", "odd").is_none()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(cluster(&replica).await["unreadable"], json!({}), "counted down when it is gone");
    });
}

#[test]
fn unreadable_running_pod_keeps_its_node_until_it_goes() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        empty_nodes_go_soon(&world);
        let replica = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        let node = world.api.list(&NODES)[0]["metadata"]["name"].clone();
        let odd = pod("odd", |pod| {
            pod["metadata"]["annotations"] = wire::spoilt();
            pod["spec"]["nodeName"] = node.clone();
            pod["status"] = json!({"phase": "Running"});
        });
        world.api.create(&PODS, "default", odd).unwrap();
        world.api.delete(&PODS, "default", "pod-0000", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(minutes(10)).await;
        assert_eq!(world.claims().len(), 1, "the node is not empty:\n{}", world.log_events().join("\n"));
        assert!(world.claims()[0]["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(cluster(&replica).await["unreadable"], json!({"Pod": 1}));
        world.api.delete(&PODS, "default", "odd", &DeleteOptions::default()).unwrap();
        world.until(minutes(5), || world.claims().is_empty()).await;
    });
}

#[test]
fn running_pod_asking_for_more_than_there_is_keeps_its_node() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        empty_nodes_go_soon(&world);
        let _replica = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        let node = world.api.list(&NODES)[0]["metadata"]["name"].clone();
        let huge = pod("huge", |pod| {
            pod["spec"]["nodeName"] = node.clone();
            pod["spec"]["containers"][0]["resources"] =
                json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "10P", "memory": "9e30"}});
            pod["status"] = json!({"phase": "Running"});
        });
        world.api.create(&PODS, "default", huge).unwrap();
        world.api.delete(&PODS, "default", "pod-0000", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(minutes(5)).await;
        assert_eq!(world.claims().len(), 1, "{}", world.log_events().join("\n"));
        assert!(world.claims()[0]["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_pool_that_cannot_be_read_is_not_ready_and_the_others_serve() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        world.pool("odd", on_demand_m5());
        world.api.patch(&NODE_POOLS, "", "odd", &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        let replica = world.replica(0);
        world.pods(2, "500m");
        world.until_bound(2, minutes(2)).await;
        assert_eq!(cluster(&replica).await["unreadable"], json!({"NodePool": 1}));
        let odd = world.api.get(&NODE_POOLS, "", "odd").unwrap();
        let ready =
            odd["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap().clone();
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Unreadable")));
        let skipped =
            world.log_events().into_iter().filter(|line| line.contains("nodepool odd is left out: it cannot be read"));
        assert_eq!(skipped.count(), 1, "{}", world.log_events().join("\n"));
        world.api.patch(&NODE_POOLS, "", "odd", &json!({"metadata": {"annotations": {"test/odd": null}}})).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster(&replica).await["unreadable"], json!({}), "what can be read again counts no more");
    });
}

#[test]
fn unreadable_claim_is_known_to_new_leader_and_never_collected() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let first = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        first.shutdown().await;
        drop(first);
        let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.api.patch(&NODE_CLAIMS, "", &name, &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        world.spoils();
        let second = world.replica(1);
        world.pods_of("late", 40, "1");
        world.until_bound(41, minutes(4)).await;
        let living = world.cloud.living().len();
        tokio::time::sleep(minutes(15)).await;
        assert_eq!(world.cloud.living().len(), living, "its instance is no orphan:\n{}", world.log_events().join("\n"));
        assert!(world.claims().iter().any(|claim| claim["metadata"]["name"] == name.as_str()));
        assert_eq!(cluster(&second).await["unreadable"], json!({"NodeClaim": 1}));
        assert_eq!(told(&world, "collected") + told(&world, "collection_braked"), 0);
    });
}

#[test]
fn unreadable_node_is_not_removed_even_when_empty() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        empty_nodes_go_soon(&world);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        let node = world.api.list(&NODES)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.api.patch(&NODES, "", &node, &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        world.api.delete(&PODS, "default", "pod-0000", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(minutes(20)).await;
        let there = world.api.get(&NODES, "", &node).unwrap();
        assert!(there["metadata"]["deletionTimestamp"].is_null());
        let taints = there["spec"]["taints"].as_array().into_iter().flatten();
        assert_eq!(taints.filter(|taint| taint["key"] == "karpenter.sh/disrupted").count(), 0, "{there}");
        assert_eq!((world.claims().len(), world.cloud.living().len()), (1, 1));
        assert_eq!(told(&world, "gave_up") + told(&world, "removing"), 0, "{}", world.log_events().join("\n"));
        // It stays for that reason alone.
        world.api.patch(&NODES, "", &node, &json!({"metadata": {"annotations": {"test/odd": null}}})).unwrap();
        tokio::time::sleep(minutes(5)).await;
        assert!(world.api.get(&NODES, "", &node).is_none(), "{}", world.log_events().join("\n"));
        assert_eq!(world.cloud.living().len(), 0);
    });
}

fn forbidden(world: &World, path: &'static str, on: &Arc<AtomicBool>) -> ReplicaHandle {
    replica_by(world, |client| wire::forbidding(client, path, on.clone()))
}

/// A replica on a way of the test's own to the API server.
fn replica_by(world: &World, way: impl Fn(kube::Client) -> kube::Client) -> ReplicaHandle {
    let client = |name: &str| way(world.api.client(Caller::replica(0, name)));
    dovetail_actors::start(ReplicaParts {
        identity: "replica-0".into(),
        kube: client("controller"),
        lease_kube: world.api.client(Caller::replica(0, "lease")),
        cloud: world.cloud.clone(),
        clock: ClusterClock::over(world.clock.clone()),
        streams_lists: false,
        rng_seed: 0,
        settings: Settings { cluster_name: "demo".into(), ..Settings::default() },
        identities: None,
        solver: Arc::new(InlineSolver),
        journal: world.journal.clone(),
    })
}

#[test]
fn unlistable_kind_is_named_everywhere_and_pod_is_told_once() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let first = world.replica(1);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        first.shutdown().await;
        drop(first);
        world.pods_of("late", 2, "96");
        let on = Arc::new(AtomicBool::new(true));
        let replica = forbidden(&world, "/nodepools", &on);
        tokio::time::sleep(minutes(3)).await;
        let state = cluster(&replica).await;
        assert_eq!(state["notListed"], json!(["nodepools"]));
        assert!(
            state["watchesFailing"]["nodepools"]["error"].as_str().unwrap().contains("the test forbids it"),
            "{state}"
        );
        assert_eq!(told(&world, "watch_failing"), 1, "{}", world.log_events().join("\n"));
        let line =
            world.log_events().into_iter().find(|line| line.contains("watching nodepools has failed for")).unwrap();
        assert!(line.contains("the test forbids it"), "{line}");
        let said = events(&world, "FailedScheduling");
        let said: Vec<_> = said.iter().filter(|one| one.to_string().contains("nodepools cannot be watched")).collect();
        assert_eq!(said.len(), 2, "once a pod");
        on.store(false, Ordering::Relaxed);
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(cluster(&replica).await["notListed"], json!([]));
        assert_eq!(cluster(&replica).await["watchesFailing"], json!({}));
    });
}

#[test]
fn new_leader_with_failing_watches_says_what_api_server_says() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let first = world.replica(1);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        first.shutdown().await;
        drop(first);
        let _second = forbidden(&world, "/persistentvolumes", &Arc::new(AtomicBool::new(true)));
        world.until(Duration::from_secs(40), || told(&world, "not_synced") > 0).await;
        let line = world
            .log_events()
            .into_iter()
            .find(|line| line.contains("leads, and waits for the state of the cluster"))
            .unwrap();
        assert!(line.contains("persistentvolumes") && line.contains("the test forbids it"), "{line}");
    });
}

/// Pools and classes that are told to be there and unreadable.
async fn unusable(replica: &ReplicaHandle) -> Value {
    replica.state().await["node_class"]["unreadable"].clone()
}

fn delete(world: &World, kind: &Gvr, name: &str) {
    // It got a finalizer while it was readable, which waits for its claims.
    world.api.patch(kind, "", name, &json!({"metadata": {"finalizers": null}})).unwrap();
    if world.api.get(kind, "", name).is_some() {
        world.api.delete(kind, "", name, &DeleteOptions::default()).unwrap();
    }
    assert!(world.api.get(kind, "", name).is_none());
}

#[test]
fn object_deleted_while_unreadable_does_not_stay_unreadable() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        world.pool("odd", on_demand_m5());
        let replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        for kind in [&EC2_NODE_CLASSES, &NODE_POOLS] {
            world.api.patch(kind, "", "odd", &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        }
        tokio::time::sleep(minutes(1)).await;
        assert_eq!(unusable(&replica).await, json!(["nodepools/odd", "ec2nodeclasses/odd"]));
        for kind in [&EC2_NODE_CLASSES, &NODE_POOLS] {
            delete(&world, kind, "odd");
        }
        tokio::time::sleep(minutes(1)).await;
        assert_eq!(unusable(&replica).await, json!([]));
        // Others of their names are used.
        world.pool("odd", on_demand_m5());
        world.until(minutes(1), || ready(&world, "odd").0 == "True").await;
    });
}

#[test]
fn pool_whose_unreadable_class_is_gone_is_told_it_has_none() {
    run(|world| async move {
        world.spoils();
        world.pool("odd", on_demand_m5());
        let _replica = world.replica(0);
        world.until(minutes(1), || ready(&world, "odd").0 == "True").await;
        let spoilt = json!({"metadata": {"annotations": wire::spoilt()}});
        world.api.patch(&EC2_NODE_CLASSES, "", "odd", &spoilt).unwrap();
        let class_ready = || condition(&world, "odd", "NodeClassReady");
        world.until(minutes(1), || class_ready().1.contains("cannot be read")).await;
        delete(&world, &EC2_NODE_CLASSES, "odd");
        world.until(minutes(1), || class_ready().1.contains("is not there")).await;
        assert_eq!((class_ready().0.as_str(), ready(&world, "odd").0.as_str()), ("False", "False"));
    });
}

/// Status and reason of a pool's Ready.
fn ready(world: &World, pool: &str) -> (String, String) {
    condition(world, pool, "Ready")
}

/// A condition of a pool: its status and its message.
fn condition(world: &World, pool: &str, type_: &str) -> (String, String) {
    let pool = world.api.get(&NODE_POOLS, "", pool).unwrap();
    let all = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

#[test]
fn what_a_list_shows_to_be_gone_is_not_unreadable_any_more() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pool("odd", on_demand_m5());
        world.api.patch(&NODE_POOLS, "", "odd", &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        let on = Arc::new(AtomicBool::new(false));
        let replica = replica_by(&world, |client| wire::spoiling(wire::forbidding(client, "/nodepools", on.clone())));
        tokio::time::sleep(minutes(1)).await;
        assert_eq!(unusable(&replica).await, json!(["nodepools/odd"]));
        on.store(true, Ordering::Relaxed);
        tokio::time::sleep(minutes(2)).await;
        delete(&world, &NODE_POOLS, "odd");
        on.store(false, Ordering::Relaxed);
        tokio::time::sleep(minutes(2)).await;
        assert_eq!(cluster(&replica).await["unreadable"], json!({}));
        assert_eq!(unusable(&replica).await, json!([]));
    });
}

#[test]
fn kubelet_writes_of_unreadable_node_pack_nothing_anew() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        let replica = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        world.pods_of("huge", 1, "999");
        let node = world.api.list(&NODES)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.api.patch(&NODES, "", &node, &json!({"metadata": {"annotations": wire::spoilt()}})).unwrap();
        tokio::time::sleep(minutes(2)).await;
        let packings = async || replica.state().await["packer"]["packings"].as_u64().unwrap();
        let quiet = packings().await;
        tokio::time::sleep(minutes(5)).await;
        let quiet = packings().await - quiet;
        let before = packings().await;
        for _ in 0..30 {
            let now = world.clock_text();
            let beat =
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]}});
            world.api.patch_status(&NODES, "", &node, &beat).unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        let with_beats = packings().await - before;
        assert!(with_beats <= quiet + 1, "{with_beats} packings in five minutes, {quiet} without a kubelet");
        // A change that somebody writes leads to a packing.
        let before = packings().await;
        world.api.patch(&NODES, "", &node, &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(packings().await > before);
    });
}

#[test]
fn unreadable_attachment_is_named_once_however_often_it_changes() {
    run(|world| async move {
        world.spoils();
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        let kind = Gvr::new("storage.k8s.io", "v1", "volumeattachments");
        let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": "odd", "annotations": wire::spoilt()},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        world.api.create(&kind, "", attachment).unwrap();
        for n in 0..200 {
            let patch = json!({"metadata": {"labels": {"n": format!("{n}")}}});
            world.api.patch(&kind, "", "odd", &patch).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(told(&world, "unreadable"), 1, "{}", world.log_events().join("\n"));
        assert_eq!(events(&world, "Unreadable").len(), 1);
    });
}
