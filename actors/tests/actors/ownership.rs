//! Foreign objects are not touched, and our own are not stolen: users who may write NodeClaims, their status, or Nodes end,
//! drain, taint and take over no instance that is not theirs, and launch nothing past the ceilings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use dovetail_actors::Settings;
use dovetail_api::names::tags;
use dovetail_cloud::Instance;
use dovetail_core::launch_limits::Ceilings;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::{DeleteOptions, Gvr, NODE_CLAIMS, NODES};
use serde_json::{Value, json};
use world::{World, minutes, on_demand_m5, run};

/// This cluster's, as the world's cloud has it.
const UID: &str = "uid-of-this-cluster";

/// A claim that a person makes.
fn by_hand(world: &World, name: &str, annotations: &Value) -> Value {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}, "annotations": annotations,
            "finalizers": ["karpenter.sh/termination"]},
        "spec": {"requirements": on_demand_m5(), "expireAfter": "Never", "resources": {"requests": {"cpu": "1"}},
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
    });
    Value::clone(&world.api.create(&NODE_CLAIMS, "", claim).unwrap())
}

/// Writes an instance on a claim, as if it had been launched for it.
fn write_instance(world: &World, name: &str, provider_id: &str, node: &str, stages: &[&str]) {
    let when = world.clock_text();
    let condition = |stage: &&str| json!({"type": stage, "status": "True", "reason": stage, "message": "", "lastTransitionTime": when});
    let conditions: Vec<Value> = stages.iter().map(condition).collect();
    let status = json!({"status": {"providerID": provider_id, "nodeName": node, "conditions": conditions,
        "capacity": {"cpu": "96"}, "allocatable": {"cpu": "96"}}});
    world.api.patch_status(&NODE_CLAIMS, "", name, &status).unwrap();
}

/// A Node of an instance that is somebody else's.
fn node_of(world: &World, instance: &Instance) -> Value {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": instance.private_dns_name, "labels": {"team": "other"}},
        "spec": {"providerID": instance.provider_id()}});
    world.api.create(&NODES, "", node).unwrap();
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "capacity": {"cpu": "2", "pods": "100"}, "allocatable": {"cpu": "2", "pods": "100"}}});
    world.api.patch_status(&NODES, "", &instance.private_dns_name, &status).unwrap();
    node_as_it_is(world, &instance.private_dns_name)
}

/// Parts of a Node that others than its kubelet write.
fn node_as_it_is(world: &World, name: &str) -> Value {
    let node = world.api.get(&NODES, "", name).unwrap_or_else(|| panic!("node {name} is gone: {}", told(world)));
    let (meta, spec) = (&node["metadata"], &node["spec"]);
    json!([
        meta["uid"],
        meta["labels"],
        meta["annotations"],
        meta["finalizers"],
        meta["ownerReferences"],
        meta["deletionTimestamp"],
        spec["taints"]
    ])
}

fn delete(world: &World, kind: &Gvr, name: &str) {
    world.api.delete(kind, "", name, &DeleteOptions::default()).unwrap();
}

fn told(world: &World) -> String {
    world.log_events().join("\n")
}

fn lives(world: &World, id: &str) -> bool {
    world.cloud.living().iter().any(|one| one.id == id)
}

fn claim(world: &World, name: &str) -> Option<Value> {
    world.api.get(&NODE_CLAIMS, "", name).map(|claim| Value::clone(&claim))
}

/// Tags of instances that are not the claim `by-hand`'s, and the tag that a refusal names.
fn strangers() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let ours = |more: Vec<(&'static str, String)>| [vec![(tags::CLUSTER_UID, UID.to_owned())], more].concat();
    let named = vec![
        ("kubernetes.io/cluster/demo", "owned".to_owned()),
        (tags::CLUSTER_NAME, "demo".to_owned()),
        (tags::NODE_POOL, "default".to_owned()),
        (tags::NODE_CLAIM, "by-hand".to_owned()),
    ];
    let of_another = [named.clone(), vec![(tags::CLUSTER_UID, "uid-of-another".to_owned())]].concat();
    vec![
        (tags::CLUSTER_UID, vec![]),
        (tags::CLUSTER_UID, vec![("Name", "database".to_owned())]),
        (tags::CLUSTER_UID, named),
        (tags::CLUSTER_UID, of_another),
        (tags::LAUNCH_TOKEN, ours(vec![])),
        (tags::LAUNCH_TOKEN, ours(vec![(tags::LAUNCH_TOKEN, launch_token(["uid-of-another-claim"], 1))])),
        (tags::NODE_CLAIM, ours(vec![(tags::NODE_CLAIM, "another".to_owned())])),
    ]
}

fn with_tags(world: &World, id: &str, own: &[(&'static str, String)]) -> Instance {
    let own: Vec<(&str, &str)> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
    world.cloud.strange(id, &own)
}

#[test]
fn hand_written_provider_id_ends_nothing_and_claim_goes_alone() {
    for (at, (tag, own)) in strangers().into_iter().enumerate() {
        for stages in [&["Launched"][..], &["Launched", "Registered", "Initialized"]] {
            let own = own.clone();
            run(|world| async move {
                world.pool("default", on_demand_m5());
                let _replica = world.replica(0);
                tokio::time::sleep(minutes(1)).await;
                let instance = with_tags(&world, "i-0000000000000abcd", &own);
                let before = node_of(&world, &instance);
                let interrupted = json!({"dovetail.dev/interruption": "spot_interrupted 2030-01-01T00:00:00Z"});
                by_hand(&world, "by-hand", &interrupted);
                write_instance(&world, "by-hand", &instance.provider_id(), &instance.private_dns_name, stages);
                tokio::time::sleep(minutes(2)).await;
                let unchanged = |when: &str| {
                    let now = node_as_it_is(&world, &instance.private_dns_name);
                    assert_eq!(now, before, "{at} {stages:?} {when}: {}", told(&world));
                    assert!(lives(&world, &instance.id), "{at} {stages:?} {when}: {}", told(&world));
                };
                unchanged("while it is there");
                let said = world.messages("InstanceNotOwned", "by-hand");
                assert!(said.iter().any(|one| one.contains(&instance.id) && one.contains(tag)), "{at}: {said:?}");
                delete(&world, &NODE_CLAIMS, "by-hand");
                tokio::time::sleep(minutes(3)).await;
                assert_eq!(claim(&world, "by-hand"), None, "{at} {stages:?}: {}", told(&world));
                unchanged("after it is gone");
                assert!(world.journal.count("instance_not_owned") > 0);
            });
        }
    }
}

#[test]
fn what_is_no_instance_is_refused_without_asking_ec2() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        for (name, provider_id) in [("a", "kind://docker/kind/worker"), ("b", "aws:///us-east-1a/fargate-ip-10-0-0-1")]
        {
            by_hand(&world, name, &json!({}));
            write_instance(&world, name, provider_id, "", &["Launched"]);
            tokio::time::sleep(minutes(1)).await;
            assert_eq!(world.messages("InstanceNotOwned", name).len(), 1, "{}", told(&world));
            delete(&world, &NODE_CLAIMS, name);
            tokio::time::sleep(minutes(1)).await;
            assert_eq!(claim(&world, name), None, "{}", told(&world));
        }
    });
}

#[test]
fn an_instance_that_ec2_does_not_know_holds_no_claim_for_ever() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        by_hand(&world, "by-hand", &json!({}));
        world
            .api
            .patch_status(
                &NODE_CLAIMS,
                "",
                "by-hand",
                &json!({"status": {"providerID": "aws:///us-east-1a/i-0dead000000000000"}}),
            )
            .unwrap();
        delete(&world, &NODE_CLAIMS, "by-hand");
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(claim(&world, "by-hand"), None, "{}", told(&world));
    });
}

#[test]
fn of_two_claims_with_one_instance_the_second_takes_nothing() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until_bound(1, minutes(5)).await;
        let first = Value::clone(&world.claims()[0]);
        let (provider_id, node) =
            (first["status"]["providerID"].as_str().unwrap(), first["status"]["nodeName"].as_str().unwrap());
        by_hand(&world, "twin", &json!({}));
        write_instance(&world, "twin", provider_id, node, &["Launched", "Registered", "Initialized"]);
        tokio::time::sleep(minutes(1)).await;
        let before = node_as_it_is(&world, node);
        delete(&world, &NODE_CLAIMS, "twin");
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(claim(&world, "twin"), None, "{}", told(&world));
        assert_eq!((node_as_it_is(&world, node), world.bound()), (before, 1), "{}", told(&world));
        assert_eq!(world.cloud.living().len(), 1);
        let stays = claim(&world, first["metadata"]["name"].as_str().unwrap()).unwrap();
        assert!(stays["metadata"]["deletionTimestamp"].is_null());
        // Its own claim still takes it along.
        delete(&world, &NODE_CLAIMS, first["metadata"]["name"].as_str().unwrap());
        world.until(minutes(5), || !lives(&world, provider_id.rsplit('/').next().unwrap())).await;
    });
}

#[test]
fn copied_launch_token_adopts_and_ends_nothing_of_its_owner() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until_bound(1, minutes(5)).await;
        let first = Value::clone(&world.claims()[0]);
        let own = first["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let token = first["metadata"]["annotations"]["dovetail.dev/launch-token"].clone();
        by_hand(&world, "thief", &json!({"dovetail.dev/launch-token": token}));
        let has_one = || claim(&world, "thief").is_some_and(|thief| thief["status"]["providerID"].is_string());
        world.until(minutes(4), has_one).await;
        let thief = claim(&world, "thief").unwrap();
        let got = thief["status"]["providerID"].as_str().unwrap();
        assert!(!got.ends_with(&own), "{got}: {}", told(&world));
        assert!(!world.messages("LaunchTokenNotOwned", "thief").is_empty(), "{}", told(&world));
        // One that is deleted at once looks for nothing of the other's either.
        by_hand(&world, "short", &json!({"dovetail.dev/launch-token": token}));
        for name in ["thief", "short"] {
            delete(&world, &NODE_CLAIMS, name);
        }
        tokio::time::sleep(minutes(3)).await;
        assert_eq!((claim(&world, "thief"), claim(&world, "short")), (None, None), "{}", told(&world));
        assert!(lives(&world, &own) && world.cloud.living().len() == 1, "{}", told(&world));
    });
}

#[test]
fn hand_made_node_of_copied_provider_id_ends_and_takes_nothing() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("launched") > 0).await;
        let launched = world.cloud.launched()[0].instance.clone();
        let copied = |name: &str| {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"},
                "finalizers": ["karpenter.sh/termination"]}, "spec": {"providerID": launched.provider_id()}});
            world.api.create(&NODES, "", node).unwrap();
        };
        // Before its own joins, and after.
        copied("early");
        world.until_bound(1, minutes(5)).await;
        copied("late");
        tokio::time::sleep(minutes(1)).await;
        let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(
            claim(&world, &name).unwrap()["status"]["nodeName"],
            launched.private_dns_name.as_str(),
            "{}",
            told(&world)
        );
        // One that is empty, as nobody runs it, does not make the claim's node empty.
        tokio::time::sleep(minutes(5)).await;
        for node in ["early", "late"] {
            delete(&world, &NODES, node);
        }
        tokio::time::sleep(minutes(2)).await;
        let stays = claim(&world, &name).unwrap_or_else(|| panic!("{}", told(&world)));
        assert!(stays["metadata"]["deletionTimestamp"].is_null(), "{}", told(&world));
        assert!(world.api.get(&NODES, "", "early").is_none() && world.api.get(&NODES, "", "late").is_none());
        assert!(lives(&world, &launched.id) && world.bound() == 1, "{}", told(&world));
    });
}

#[test]
fn node_with_our_finalizer_on_foreign_instance_is_not_drained() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        let instance = world.cloud.strange("i-0000000000000abcd", &[("Name", "database")]);
        node_of(&world, &instance);
        let name = &instance.private_dns_name;
        let held = json!({"metadata": {"finalizers": ["karpenter.sh/termination"], "labels": {"karpenter.sh/nodepool": "default"}}});
        world.api.patch(&NODES, "", name, &held).unwrap();
        delete(&world, &NODES, name);
        tokio::time::sleep(minutes(1)).await;
        assert!(world.api.get(&NODES, "", name).is_none(), "{}", told(&world));
        assert_eq!((world.journal.count("draining"), world.journal.count("cordoned")), (0, 0), "{}", told(&world));
        assert!(lives(&world, &instance.id));
    });
}

#[test]
fn collection_ends_nothing_without_this_clusters_uid() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until_bound(1, minutes(5)).await;
        let without_uid = |own: &[(&'static str, String)]| !own.contains(&(tags::CLUSTER_UID, UID.to_owned()));
        for (at, (_, own)) in strangers().into_iter().filter(|(_, own)| without_uid(own)).enumerate() {
            with_tags(&world, &format!("i-{at:017x}f"), &own);
        }
        let ours =
            world.cloud.strange("i-0000000000000ffff", &[(tags::CLUSTER_UID, UID), (tags::LAUNCH_TOKEN, "dt-0-1")]);
        tokio::time::sleep(minutes(20)).await;
        assert!(!lives(&world, &ours.id), "an orphan of ours is collected: {}", told(&world));
        assert_eq!(world.cloud.living().len(), 5, "{}", told(&world));
    });
}

#[test]
fn karpenter_instance_goes_with_claim_only_by_the_setting() {
    for adopts in [false, true] {
        run(|world| async move {
            world.pool("default", on_demand_m5());
            let settings = Settings { adopt_karpenter_instances: adopts, ..Settings::default() };
            let _replica = world.replica_with(0, settings);
            tokio::time::sleep(minutes(1)).await;
            let instance = world.cloud.strange(
                "i-0000000000000abcd",
                &[
                    ("kubernetes.io/cluster/demo", "owned"),
                    (tags::CLUSTER_NAME, "demo"),
                    (tags::NODE_POOL, "default"),
                    (tags::NODE_CLASS, "default"),
                    (tags::NODE_CLAIM, "default-abcde"),
                ],
            );
            by_hand(&world, "default-abcde", &json!({}));
            write_instance(&world, "default-abcde", &instance.provider_id(), "", &["Launched"]);
            tokio::time::sleep(minutes(1)).await;
            delete(&world, &NODE_CLAIMS, "default-abcde");
            tokio::time::sleep(minutes(3)).await;
            assert_eq!(claim(&world, "default-abcde"), None, "{}", told(&world));
            assert_eq!(lives(&world, &instance.id), !adopts, "{}", told(&world));
        });
    }
}

#[test]
fn a_successor_ends_what_its_predecessor_launched() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let first = world.replica(0);
        world.until_bound(1, minutes(5)).await;
        drop(first);
        let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        delete(&world, &NODE_CLAIMS, &name);
        let id = world.cloud.living()[0].id.clone();
        let _second = world.replica(1);
        world.until(minutes(5), || !lives(&world, &id)).await;
        assert!(
            world.journal.count("drained") > 0 && world.journal.count("instance_not_owned") == 0,
            "{}",
            told(&world)
        );
    });
}

#[test]
fn hand_made_claims_wait_at_ceiling_and_launch_when_it_allows() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let ceilings = Ceilings { launches: Some(2), cost: None };
        let _replica = world.replica_with(0, Settings { ceilings, ..Settings::default() });
        tokio::time::sleep(minutes(1)).await;
        let names = ["one", "two", "three", "four", "five"];
        for name in names {
            by_hand(&world, name, &json!({}));
        }
        // A claim that has no time to launch is given up after five minutes, one that waits is not.
        tokio::time::sleep(minutes(20)).await;
        assert_eq!(world.cloud.launched().len(), 2, "{}", told(&world));
        let held: Vec<_> = names.into_iter().filter(|name| !world.messages("LaunchHeld", name).is_empty()).collect();
        assert_eq!(held.len(), 3, "{held:?} {}", told(&world));
        for name in &held {
            let there = claim(&world, name).unwrap_or_else(|| panic!("{name} is gone: {}", told(&world)));
            let conditions = there["status"]["conditions"].as_array().unwrap();
            let launched = conditions.iter().find(|one| one["type"] == "Launched").unwrap();
            assert_eq!((&launched["status"], &launched["reason"]), (&json!("False"), &json!("LaunchHeld")));
            assert!(launched["message"].as_str().unwrap().contains("2 launches within an hour"), "{launched}");
        }
        // Pods' own claims wait beside them.
        world.pods(1, "90");
        tokio::time::sleep(minutes(5)).await;
        assert_eq!(world.cloud.launched().len(), 2, "{}", told(&world));
        tokio::time::sleep(minutes(40)).await;
        assert_eq!(world.cloud.launched().len(), 4, "{}", told(&world));
    });
}

#[test]
fn claims_made_by_hand_wait_for_what_all_may_cost() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        // An m5.large is $0.096 an hour.
        let ceilings = Ceilings { launches: None, cost: Some(0.2) };
        let _replica = world.replica_with(0, Settings { ceilings, ..Settings::default() });
        tokio::time::sleep(minutes(1)).await;
        for name in ["one", "two", "three", "four"] {
            by_hand(&world, name, &json!({"karpenter.sh/do-not-disrupt": "true"}));
        }
        tokio::time::sleep(minutes(10)).await;
        assert_eq!(world.cloud.living().len(), 2, "{}", told(&world));
        // One that goes makes room.
        let launched = world.claims().into_iter().find(|claim| claim["status"]["providerID"].is_string()).unwrap();
        delete(&world, &NODE_CLAIMS, launched["metadata"]["name"].as_str().unwrap());
        tokio::time::sleep(minutes(5)).await;
        assert_eq!((world.cloud.living().len(), world.cloud.launched().len()), (2, 3), "{}", told(&world));
    });
}

/// Claims that come all the time, each with an instance that nobody has heard of; the pauses between EC2's being asked, in
/// milliseconds, in that minute.
async fn pauses_while_claims_come(world: &World, from: usize) -> Vec<i128> {
    let before = world.cloud.looked_up().len();
    for number in from..from + 200 {
        let name = format!("hand-{number}");
        by_hand(world, &name, &json!({}));
        write_instance(world, &name, &format!("aws:///us-east-1a/i-{number:017x}"), "", &["Launched"]);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    let times = world.cloud.looked_up();
    times[before..].windows(2).map(|pair| pair[1].as_millisecond() as i128 - pair[0].as_millisecond() as i128).collect()
}

#[test]
fn ec2_ownership_is_asked_at_most_once_a_second_less_on_failure() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        let pauses = pauses_while_claims_come(&world, 100_000).await;
        assert!(pauses.len() > 20 && pauses.iter().all(|pause| *pause >= 1000), "{pauses:?}");
        world.cloud.look_ups_fail(true);
        let pauses = pauses_while_claims_come(&world, 200_000).await;
        // A back-off from half a second to ten, by at least the half of each.
        let longest = pauses.iter().skip(6).all(|pause| *pause >= 5000);
        assert!(pauses.iter().all(|pause| *pause >= 1000) && pauses.len() <= 18 && longest, "{pauses:?}");
    });
}

#[test]
fn claim_with_overwritten_status_relaunches_with_growing_pauses() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        world.pods(1, "500m");
        world.until_bound(1, minutes(2)).await;
        let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let other = with_tags(&world, "i-0000000000000abcd", &[]);
        // As it was before its launch, but for an instance that is not its own: that is not written over.
        let status = json!({"status": {"providerID": other.provider_id(), "conditions": []}});
        world.api.patch_status(&NODE_CLAIMS, "", &name, &status).unwrap();
        tokio::time::sleep(minutes(3)).await;
        let looks = world.journal.count("adopted");
        assert!((1..=14).contains(&looks), "{looks} looks in three minutes: {}", told(&world));
        assert!(lives(&world, &other.id));
        // Mended, it is launched once more and has its own.
        let mended = json!({"status": {"providerID": "", "conditions": []}});
        world.api.patch_status(&NODE_CLAIMS, "", &name, &mended).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(70)).await;
        let claim = claim(&world, &name).unwrap();
        let own = claim["status"]["providerID"].as_str().unwrap_or_default();
        assert!(!own.is_empty() && own != other.provider_id(), "{claim}");
    });
}
