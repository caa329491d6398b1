//! A live cluster of Karpenter's, taken over and given back: no node is replaced by it, what Karpenter had begun is gone on with,
//! and what it finds when it comes back is as it expects it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::world;

use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_api::names::tags;
use dovetail_cloud::Instance;
use dovetail_core::adoption::AdoptAs;
use dovetail_core::clock::Clock as _;
use dovetail_core::lifecycle::hash::{OF_CLASS, OF_POOL};
use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, LEASES, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use jiff::SignedDuration;
use serde_json::{Value, json};
use world::{SpoilEnd, World, minutes, on_demand_m5, run, seconds};

/// Traces of a Karpenter release on objects: the versions of its hashes, and the tag that names the cluster.
#[derive(Clone, Copy)]
struct Release {
    pool_version: Option<&'static str>,
    class_version: &'static str,
    cluster_tag: &'static str,
}

/// Karpenter 1.14, 1.0, 0.37 and 0.32.
const RELEASES: [Release; 4] = [
    Release { pool_version: Some("v3"), class_version: "v6", cluster_tag: tags::CLUSTER_NAME },
    Release { pool_version: Some("v3"), class_version: "v4", cluster_tag: tags::CLUSTER_NAME },
    Release { pool_version: Some("v2"), class_version: "v2", cluster_tag: tags::MANAGED_BY },
    Release { pool_version: None, class_version: "v1", cluster_tag: tags::MANAGED_BY },
];

const NEWEST: Release = RELEASES[0];

fn adopts() -> Settings {
    Settings { adopt_karpenter_instances: true, ..Settings::default() }
}

/// The pool and the class, as Karpenter leaves them.
fn pool(world: &World, release: Release) {
    world.pool("default", on_demand_m5());
    let mut stamps = json!({"karpenter.sh/nodepool-hash": "7061396432467889021",
        "karpenter.sh/stored-version-migrated": "true"});
    if let Some(version) = release.pool_version {
        stamps["karpenter.sh/nodepool-hash-version"] = json!(version);
    }
    let disruption = json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"});
    let patch = json!({"metadata": {"annotations": stamps}, "spec": {"disruption": disruption}});
    world.api.patch(&NODE_POOLS, "", "default", &patch).unwrap();
    let (when, generation) = (world.clock_text(), pool_now(world)["metadata"]["generation"].clone());
    let conditions: Vec<Value> = [("ValidationSucceeded", "True"), ("NodeClassReady", "True"), ("NodeRegistrationHealthy", "True"), ("Ready", "True")]
        .map(|(type_, status)| json!({"type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": when, "observedGeneration": generation}))
        .into();
    let status = json!({"status": {"conditions": conditions, "nodes": 3, "nodeClassObservedGeneration": 1,
        "resources": {"cpu": "6", "memory": "24Gi", "pods": "87", "nodes": "3", "ephemeral-storage": "60Gi"}}});
    world.api.patch_status(&NODE_POOLS, "", "default", &status).unwrap();
    let stamps = json!({"karpenter.k8s.aws/ec2nodeclass-hash": "4950366118253097694",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": release.class_version});
    let patch = json!({"metadata": {"annotations": stamps, "finalizers": ["karpenter.k8s.aws/termination"]}});
    let class = world.api.patch(&EC2_NODE_CLASSES, "", "default", &patch).unwrap();
    let seen = json!({"type": "SubnetsReady", "status": "True", "reason": "SubnetsReady", "message": "",
        "lastTransitionTime": when, "observedGeneration": class["metadata"]["generation"]});
    let status = json!({"status": {"conditions": [seen]}});
    world.api.patch_status(&EC2_NODE_CLASSES, "", "default", &status).unwrap();
}

/// An instance that Karpenter has launched; `claim` is whom its tagging controller says that it is of.
fn instance(world: &World, release: Release, number: u32, claim: Option<&str>) -> Instance {
    let mut own = vec![
        ("kubernetes.io/cluster/demo", "owned"),
        (release.cluster_tag, "demo"),
        (tags::NODE_POOL, "default"),
        (tags::NODE_CLASS, "default"),
    ];
    own.extend(claim.map(|claim| (tags::NODE_CLAIM, claim)));
    world.cloud.strange(&format!("i-{number:017x}"), &own)
}

/// A NodeClaim as Karpenter leaves it: passed are these stages, the others are Unknown.
fn claim(world: &World, release: Release, name: &str, instance: &Instance, passed: &[&str]) -> Value {
    let mut annotations = json!({"karpenter.sh/nodepool-hash": "7061396432467889021",
        "karpenter.k8s.aws/ec2nodeclass-hash": "4950366118253097694",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": release.class_version, "karpenter.k8s.aws/tagged": "true"});
    if let Some(version) = release.pool_version {
        annotations["karpenter.sh/nodepool-hash-version"] = json!(version);
    }
    let owner = world.api.get(&NODE_POOLS, "", "default").unwrap()["metadata"]["uid"].clone();
    let there = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "generateName": "default-", "finalizers": ["karpenter.sh/termination"],
            "annotations": annotations, "labels": labels(),
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": owner,
                "blockOwnerDeletion": true}]},
        "spec": {"expireAfter": "720h", "requirements": on_demand_m5(), "resources": {"requests": {"cpu": "1"}},
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
    });
    world.api.create(&NODE_CLAIMS, "", there).unwrap();
    let when = (world.clock.wall() - SignedDuration::from_mins(60)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let stages = ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound", "Consolidatable"];
    let condition = |stage: &&str| {
        let status = if passed.contains(stage) { "True" } else { "Unknown" };
        json!({"type": stage, "status": status, "reason": stage, "message": "", "observedGeneration": 1,
            "lastTransitionTime": when})
    };
    let conditions: Vec<Value> = stages.iter().map(condition).collect();
    let registered = passed.contains(&"Registered");
    let status = json!({"status": {"providerID": instance.provider_id(), "imageID": "ami-1",
        "nodeName": if registered { instance.private_dns_name.as_str() } else { "" }, "conditions": conditions,
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": "29"}}});
    world.api.patch_status(&NODE_CLAIMS, "", name, &status).unwrap();
    Value::clone(&world.api.get(&NODE_CLAIMS, "", name).unwrap())
}

fn labels() -> Value {
    json!({"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-cpu": "2",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a",
        "topology.kubernetes.io/region": "us-east-1", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
}

/// Its Node; one that has not registered is guarded.
fn node(world: &World, claim: &Value, instance: &Instance, registered: bool) {
    let name = &instance.private_dns_name;
    let mut own = labels();
    own["kubernetes.io/hostname"] = json!(name);
    let mut metadata = json!({"name": name, "labels": own});
    let mut taints = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
    if registered {
        metadata["labels"]["karpenter.sh/registered"] = json!("true");
        metadata["labels"]["karpenter.sh/initialized"] = json!("true");
        metadata["annotations"] = claim["metadata"]["annotations"].clone();
        metadata["finalizers"] = json!(["karpenter.sh/termination"]);
        metadata["ownerReferences"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}]);
        taints = json!([]);
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
        "spec": {"providerID": instance.provider_id(), "taints": taints}});
    world.api.create(&NODES, "", node).unwrap();
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": "29"}}});
    world.api.patch_status(&NODES, "", name, &status).unwrap();
}

const DONE: [&str; 5] = ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound"];

/// Three nodes of Karpenter's; two pods are on the first, the others are empty.
async fn cluster(world: &World, release: Release) -> Vec<Value> {
    pool(world, release);
    let mut claims = Vec::new();
    for number in 1..=3 {
        let name = format!("default-{number}");
        let instance = instance(world, release, number, Some(&name));
        let claim = claim(world, release, &name, &instance, &DONE);
        node(world, &claim, &instance, true);
        claims.push(claim);
    }
    world.pods(2, "500m");
    // They are nobody's who would make them anew.
    let stay = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    for number in 0..2 {
        world.api.patch(&PODS, "default", &format!("pod-{number:04}"), &stay).unwrap();
    }
    world.until_bound(2, seconds(30)).await;
    claims
}

fn told(world: &World) -> String {
    world.log_events().join("\n")
}

fn count(world: &World, event: &str) -> usize {
    world.journal.entries().iter().filter(|entry| entry.log_event.event() == event).count()
}

fn pool_now(world: &World) -> Value {
    Value::clone(&world.api.get(&NODE_POOLS, "", "default").unwrap())
}

fn annotation(object: &Value, key: &str) -> Option<String> {
    object["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == type_)
}

/// The claims' uids, and their instances.
fn those_there(world: &World) -> (Vec<Value>, Vec<String>) {
    let claims = world.claims();
    assert!(claims.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()), "{}", told(world));
    let uids = claims.iter().map(|claim| claim["metadata"]["uid"].clone()).collect();
    (uids, world.cloud.living().into_iter().map(|one| one.id).collect())
}

fn annotate(world: &World, key: &str, value: &Value) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    world.api.patch(&NODE_POOLS, "", "default", &patch).unwrap();
}

/// Karpenter comes back, computes its own hashes, and stamps where they are others.
fn karpenter_stamps(world: &World) {
    let hashes = |pool: bool| match pool {
        true => {
            json!({"karpenter.sh/nodepool-hash": "7061396432467889021", "karpenter.sh/nodepool-hash-version": "v3"})
        }
        false => json!({"karpenter.k8s.aws/ec2nodeclass-hash": "4950366118253097694",
            "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"}),
    };
    world.api.patch(&NODE_POOLS, "", "default", &json!({"metadata": {"annotations": hashes(true)}})).unwrap();
    world.api.patch(&EC2_NODE_CLASSES, "", "default", &json!({"metadata": {"annotations": hashes(false)}})).unwrap();
    for claim in world.claims() {
        let name = claim["metadata"]["name"].as_str().unwrap();
        for pool in [true, false] {
            world.api.patch(&NODE_CLAIMS, "", name, &json!({"metadata": {"annotations": hashes(pool)}})).unwrap();
        }
    }
}

#[test]
fn adopted_karpenter_cluster_loses_no_node_in_its_first_hour() {
    for release in RELEASES {
        run(|world| async move {
            cluster(&world, release).await;
            let before = those_there(&world);
            let _replica = world.replica_with(0, adopts());
            tokio::time::sleep(minutes(61)).await;
            assert_eq!(those_there(&world), before, "{}", told(&world));
            assert_eq!((world.cloud.calls().len(), count(&world, "instance_not_owned")), (0, 0), "{}", told(&world));
            let pool = pool_now(&world);
            assert_eq!(annotation(&pool, OF_POOL.version).as_deref(), Some(OF_POOL.current));
            assert_eq!(annotation(&pool, "dovetail.dev/disruption").as_deref(), Some("observe"));
            assert_eq!(annotation(&pool, "dovetail.dev/packing-policy").as_deref(), Some("fewest-nodes"));
            let adopted = condition(&pool, "dovetail.dev/Adopted").unwrap();
            assert!(adopted["status"] == "True" && adopted["message"].as_str().unwrap().contains("only observed"));
            assert_eq!(condition(&pool, "Ready").unwrap()["status"], "True");
            let version = release.pool_version.unwrap_or_default();
            assert!(annotation(&pool, "dovetail.dev/adopted").unwrap().ends_with(format!("Z {version}").trim_end()));
            assert_eq!(
                (world.messages("AdoptedFromKarpenter", "default").len(), count(&world, "pool_adopted")),
                (1, 1)
            );
            for claim in world.claims() {
                for keys in [OF_POOL, OF_CLASS] {
                    assert_eq!(annotation(&claim, keys.version).as_deref(), Some(keys.current));
                }
                assert!(condition(&claim, "Drifted").is_none(), "{claim:#}");
                assert!(condition(&claim, "ConsistentStateFound").is_some(), "what we do not know is left");
            }
            // The removals that are not made are reported.
            assert!(count(&world, "would_disrupt") > 0, "{}", told(&world));
            annotate(&world, "dovetail.dev/disruption", &Value::Null);
            world.until(minutes(15), || world.cloud.living().len() == 1).await;
            tokio::time::sleep(minutes(2)).await;
            assert_eq!(world.bound(), 2, "{}", told(&world));
            assert_eq!(count(&world, "pool_released"), 1, "{}", told(&world));
            assert_eq!(world.api.list(&NODES).len(), 1, "{}", told(&world));
        });
    }
}

#[test]
fn drift_that_karpenter_has_not_replaced_yet_is_remembered() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        // The third has the hash of no template that anybody knows, and Karpenter has not marked it.
        let all = [
            ("default-1", OF_POOL, Some("NodePoolDrifted")),
            ("default-2", OF_CLASS, Some("NodeClassDrift")),
            ("default-3", OF_POOL, None),
        ];
        for (name, keys, drifted) in all {
            let patch = json!({"metadata": {"annotations": {keys.hash: "1"}}});
            let claim = world.api.patch(&NODE_CLAIMS, "", name, &patch).unwrap();
            let mut conditions = claim["status"]["conditions"].as_array().unwrap().clone();
            conditions.extend(drifted.map(|reason| {
                json!({"type": "Drifted", "status": "True", "reason": reason, "message": reason,
                    "lastTransitionTime": conditions[0]["lastTransitionTime"]})
            }));
            let status = json!({"status": {"conditions": conditions}});
            world.api.patch_status(&NODE_CLAIMS, "", name, &status).unwrap();
        }
        let _replica = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(2)).await;
        let drifted = |claim: &Arc<Value>| condition(claim, "Drifted").map(|one| one["reason"].clone());
        let reasons: Vec<_> = world.claims().iter().map(drifted).collect();
        assert_eq!(reasons, [Some(json!("NodePoolDrifted")), Some(json!("NodeClassDrift")), None], "{}", told(&world));
        assert_eq!(world.cloud.living().len(), 3, "the pool is only observed");
    });
}

#[test]
fn successor_adopts_nothing_again_and_released_stays_released() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        let first = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(2)).await;
        first.shutdown().await;
        let second = world.replica_with(1, adopts());
        tokio::time::sleep(minutes(10)).await;
        assert_eq!((world.cloud.living().len(), count(&world, "pool_adopted")), (3, 1), "{}", told(&world));
        annotate(&world, "dovetail.dev/disruption", &json!(""));
        annotate(&world, "dovetail.dev/packing-policy", &json!("cost"));
        world.until(minutes(15), || world.cloud.living().len() == 1).await;
        second.shutdown().await;
        let _third = world.replica_with(2, adopts());
        tokio::time::sleep(minutes(5)).await;
        let pool = pool_now(&world);
        assert_eq!(annotation(&pool, "dovetail.dev/disruption").as_deref(), Some(""));
        assert_eq!(annotation(&pool, "dovetail.dev/packing-policy").as_deref(), Some("cost"));
        assert!(condition(&pool, "dovetail.dev/Adopted").is_none(), "{pool:#}");
        assert_eq!(count(&world, "pool_adopted"), 1, "{}", told(&world));
    });
}

#[test]
fn as_is_setting_keeps_pools_and_releases_those_adopted_before() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        let first = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(20)).await;
        assert_eq!(world.cloud.living().len(), 3, "{}", told(&world));
        first.shutdown().await;
        let _second = world.replica_with(1, Settings { adopt_as: AdoptAs::NOTHING, ..adopts() });
        world.until(minutes(15), || world.cloud.living().len() == 1).await;
        let pool = pool_now(&world);
        for key in ["dovetail.dev/disruption", "dovetail.dev/packing-policy"] {
            assert_eq!(annotation(&pool, key), None, "{pool:#}");
        }
        assert_eq!(annotation(&pool, "dovetail.dev/adopted-as").as_deref(), Some("as-is"));
        assert_eq!(world.messages("Released", "default").len(), 1, "{}", told(&world));
    });
}

#[test]
fn a_new_pool_beside_karpenters_is_nobodys_to_take_over() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        world.pool("new", on_demand_m5());
        let _replica = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(2)).await;
        let new = world.api.get(&NODE_POOLS, "", "new").unwrap();
        assert_eq!(annotation(&new, "dovetail.dev/disruption"), None);
        assert!(condition(&new, "dovetail.dev/Adopted").is_none());
        assert_eq!(world.messages("AdoptedFromKarpenter", "new").len(), 0);
    });
}

#[test]
fn node_joined_while_nobody_led_is_registered_and_kept() {
    for release in RELEASES {
        run(|world| async move {
            pool(&world, release);
            // Karpenter tags an instance only after its Node has registered.
            let instance = instance(&world, release, 1, None);
            let claim = claim(&world, release, "default-1", &instance, &["Launched"]);
            node(&world, &claim, &instance, false);
            world.pods(1, "500m");
            let _replica = world.replica_with(0, adopts());
            world.until_bound(1, minutes(2)).await;
            tokio::time::sleep(minutes(20)).await;
            let claims = world.claims();
            assert_eq!(claims.len(), 1, "{}", told(&world));
            assert_eq!(condition(&claims[0], "Initialized").unwrap()["status"], "True", "{}", told(&world));
            assert_eq!((world.cloud.calls().len(), world.cloud.living().len()), (0, 1), "{}", told(&world));
        });
    }
}

#[test]
fn an_untagged_instance_that_two_claims_name_is_neithers() {
    run(|world| async move {
        pool(&world, NEWEST);
        let instance = instance(&world, NEWEST, 1, None);
        for name in ["default-1", "default-2"] {
            claim(&world, NEWEST, name, &instance, &DONE);
        }
        let _replica = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(1)).await;
        world.api.delete(&NODE_CLAIMS, "", "default-2", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(seconds(20)).await;
        assert!(world.api.get(&NODE_CLAIMS, "", "default-2").is_none(), "{}", told(&world));
        assert!(world.cloud.living().iter().any(|one| one.id == instance.id), "{}", told(&world));
        assert!(!world.messages("InstanceNotOwned", "default-2").is_empty(), "{}", told(&world));
    });
}

#[test]
fn untagged_instance_named_by_unwatched_claim_is_not_ended() {
    run(|world| async move {
        pool(&world, NEWEST);
        let instance = instance(&world, NEWEST, 1, None);
        claim(&world, NEWEST, "default-1", &instance, &DONE);
        let _replica = world.replica_with(0, adopts());
        tokio::time::sleep(minutes(1)).await;
        let lives = || world.cloud.living().iter().any(|one| one.id == instance.id);
        // Its end is under way and has not been accepted.
        world.cloud.spoil_end(&instance.id, Some(SpoilEnd::Refused));
        world.api.delete(&NODE_CLAIMS, "", "default-1", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(seconds(20)).await;
        assert!(lives());
        world.faults.set_watches_late(minutes(60));
        claim(&world, NEWEST, "default-2", &instance, &DONE);
        world.cloud.spoil_end(&instance.id, None);
        tokio::time::sleep(seconds(40)).await;
        assert!(lives(), "{}", told(&world));
        // Named by one alone it goes.
        world.faults.set_watches_late(seconds(0));
        let freed = json!({"metadata": {"finalizers": []}});
        world.api.patch(&NODE_CLAIMS, "", "default-2", &freed).unwrap();
        world.api.delete(&NODE_CLAIMS, "", "default-2", &DeleteOptions::default()).unwrap();
        world.until(minutes(2), || !lives()).await;
    });
}

#[test]
fn deletion_karpenter_began_is_finished_and_tainted_node_stays() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        let named = |number: u32| format!("i-{number:017x}.ec2.internal");
        let tainted = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
        for number in [2, 3] {
            world.api.patch(&NODES, "", &named(number), &tainted).unwrap();
        }
        world.api.delete(&NODE_CLAIMS, "", "default-3", &DeleteOptions::default()).unwrap();
        world.api.delete(&NODES, "", &named(3), &DeleteOptions::default()).unwrap();
        let _replica = world.replica_with(0, adopts());
        world.until(minutes(5), || world.api.get(&NODE_CLAIMS, "", "default-3").is_none()).await;
        tokio::time::sleep(minutes(2)).await;
        assert_eq!(world.cloud.living().len(), 2, "{}", told(&world));
        let other = world.api.get(&NODES, "", &named(2)).expect("it stays");
        assert!(other["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "{other:#}");
    });
}

#[test]
fn karpenter_instances_stay_without_setting_and_pools_say_so() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        let before = those_there(&world);
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(30)).await;
        assert_eq!(those_there(&world), before, "{}", told(&world));
        let said = world.messages("AdoptedFromKarpenter", "default");
        assert!(said.len() == 1 && said[0].contains("ADOPT_KARPENTER_INSTANCES is off"), "{said:?}");
    });
}

#[test]
fn back_again_karpenter_finds_its_objects_as_it_expects_them() {
    run(|world| async move {
        cluster(&world, NEWEST).await;
        let replica = world.replica_with(0, adopts());
        world.pods_of("more", 3, "1");
        world.until_bound(5, minutes(5)).await;
        world.pods_of("waits", 1, "500");
        tokio::time::sleep(minutes(5)).await;
        let before = those_there(&world);
        replica.shutdown().await;
        let lease = world.api.get(&LEASES, "kube-system", "karpenter-leader-election").unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        assert_eq!(holder, "", "Karpenter need not wait for it");
        let own = ["karpenter.sh/termination", "karpenter.k8s.aws/termination"];
        for kind in [&NODE_POOLS, &EC2_NODE_CLASSES, &NODE_CLAIMS, &NODES] {
            for object in world.api.list(kind) {
                let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                assert!(finalizers.iter().all(|one| own.contains(&one.as_str().unwrap())), "{object:#}");
                let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
                assert!(taints.iter().all(|one| !one["key"].as_str().unwrap().contains("dovetail")), "{object:#}");
                let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                assert!(labels.keys().all(|key| !key.contains("dovetail")), "{object:#}");
            }
        }
        // The hash that it had written stays: it finds no claim drifted, of its own or of ours.
        let hashes = |object: &Value| [OF_POOL.hash, OF_POOL.version].map(|key| annotation(object, key));
        let of_pool = hashes(&pool_now(&world));
        assert_eq!(of_pool, ["7061396432467889021", "v3"].map(|text| Some(text.to_owned())));
        for claim in world.claims() {
            assert_eq!(hashes(&claim), of_pool, "{claim:#}");
            let launched = condition(&claim, "Launched").unwrap();
            assert_eq!(launched["status"], "True", "it launches nothing twice");
        }
        // A pod that has a nominated node is none that Karpenter provisions for.
        for pod in world.api.list(&PODS).iter().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            assert!(pod["status"]["nominatedNodeName"].as_str().is_none_or(str::is_empty), "{pod:#}");
        }
        karpenter_stamps(&world);
        let _again = world.replica_with(1, adopts());
        tokio::time::sleep(minutes(30)).await;
        assert_eq!(those_there(&world), before, "{}", told(&world));
        assert_eq!(annotation(&pool_now(&world), "dovetail.dev/disruption").as_deref(), Some("observe"));
    });
}
