//! Claims that are deleted before their node is there come to their end, and their instances with them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::clock::Clock as _;
use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, NODE_CLAIMS, NODES};
use serde_json::{Value, json};
use world::{Spoil, SpoilEnd, World, minutes, on_demand_m5, run};

/// Deletes the only claim; answers its uid.
fn delete_claim(world: &World) -> String {
    delete(world, &world.claims()[0])
}

/// Deletes a claim; answers its uid.
fn delete(world: &World, claim: &Value) -> String {
    let text = |field: &str| claim["metadata"][field].as_str().unwrap().to_owned();
    world.api.delete(&NODE_CLAIMS, "", &text("name"), &DeleteOptions::default()).unwrap();
    text("uid")
}

fn is_gone(world: &World, uid: &str) -> bool {
    world.claims().iter().all(|claim| claim["metadata"]["uid"] != uid)
}

/// Every living instance is some claim's.
fn nothing_left_over(world: &World) {
    let claimed: Vec<_> = world.claims().iter().map(|claim| claim["status"]["providerID"].clone()).collect();
    for instance in world.cloud.living() {
        let log_events = world.log_events().join("\n");
        assert!(claimed.contains(&json!(instance.provider_id())), "{} is left over:\n{log_events}", instance.id);
    }
}

#[test]
fn launched_claim_deleted_by_hand_goes_with_its_instance() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("launched") > 0).await;
        let uid = delete_claim(&world);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_gone(&world, &uid), "{}", world.log_events().join("\n"));
        world.until_bound(1, minutes(3)).await;
        nothing_left_over(&world);
    });
}

#[test]
fn claim_made_without_finalizer_gets_it_before_launch() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(minutes(1)).await;
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "by-hand", "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"requirements": on_demand_m5(), "expireAfter": "Never", "resources": {"requests": {"cpu": "1"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        });
        world.api.create(&NODE_CLAIMS, "", claim).unwrap();
        let begun = world.clock.monotonic();
        while world.journal.count("launched") == 0 {
            assert!(world.clock.monotonic() - begun < minutes(10), "{}", world.log_events().join("\n"));
            let held = world.claims()[0]["metadata"]["finalizers"] == json!(["karpenter.sh/termination"]);
            assert!(held || world.cloud.calls().is_empty(), "launched before anything held the claim");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(world.claims()[0]["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        let uid = delete_claim(&world);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_gone(&world, &uid), "{}", world.log_events().join("\n"));
        nothing_left_over(&world);
    });
}

#[test]
fn claim_deleted_while_a_call_hangs_leaves_no_instance() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        world.cloud.spoil([Spoil::Hangs]);
        let _replica = world.replica(0);
        world.until(minutes(5), || !world.cloud.calls().is_empty()).await;
        let uid = delete_claim(&world);
        world.until_bound(1, minutes(5)).await;
        tokio::time::sleep(minutes(2)).await;
        assert!(is_gone(&world, &uid), "{}", world.log_events().join("\n"));
        nothing_left_over(&world);
        assert_eq!(world.cloud.living().len(), 1);
    });
}

#[test]
fn a_claim_whose_call_made_nothing_goes_when_that_is_certain() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        world.cloud.spoil([Spoil::LostBefore, Spoil::LostBefore, Spoil::LostBefore]);
        let _replica = world.replica(0);
        world.until(minutes(5), || !world.cloud.calls().is_empty()).await;
        let uid = delete_claim(&world);
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(!is_gone(&world, &uid), "an instance may still show");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_gone(&world, &uid), "{}", world.log_events().join("\n"));
        nothing_left_over(&world);
    });
}

#[test]
fn instance_never_joining_ends_with_claim_after_quarter_hour() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        world.nobody_joins(true);
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("launched") > 0).await;
        let (uid, first) = (world.claims()[0]["metadata"]["uid"].clone(), world.cloud.living()[0].id.clone());
        tokio::time::sleep(minutes(14)).await;
        assert_eq!(world.cloud.living().len(), 1);
        world.nobody_joins(false);
        world.until_bound(1, minutes(5)).await;
        assert!(is_gone(&world, uid.as_str().unwrap()), "{}", world.log_events().join("\n"));
        assert!(world.cloud.living().iter().all(|one| one.id != first));
        nothing_left_over(&world);
        assert_eq!(world.journal.count("gave_up"), 1);
    });
}

#[test]
fn an_end_whose_answer_was_lost_is_told_of_once_when_it_is_seen() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.pods(1, "500m");
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("launched") > 0).await;
        world.cloud.spoil_end(&world.cloud.living()[0].id, Some(SpoilEnd::LostAfter));
        let uid = delete_claim(&world);
        tokio::time::sleep(minutes(1)).await;
        assert!(is_gone(&world, &uid), "{}", world.log_events().join("\n"));
        assert_eq!(world.journal.count("terminated"), 1, "{}", world.log_events().join("\n"));
        nothing_left_over(&world);
    });
}

#[test]
fn instance_ec2_will_not_end_keeps_claim_and_holds_no_other_up() {
    run(|world| async move {
        let _replica = world.replica(0);
        nodes_gone(&world, 0).await;
        let of = |claim: &Value| claim["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let (kept, other) = (of(&world.claims()[0]), of(&world.claims()[1]));
        world.cloud.spoil_end(&kept, Some(SpoilEnd::Refused));
        for claim in &world.claims()[..2] {
            delete(&world, claim);
        }
        tokio::time::sleep(minutes(5)).await;
        let refusals = || world.log_events().iter().filter(|line| line.contains("OperationNotPermitted")).count();
        let log_events = world.log_events().join("\n");
        let ended = || world.log_events().iter().any(|line| line.contains(&format!("terminated instance {kept}")));
        // Once, and then with the count: the tenth time, the hundredth.
        assert!(refusals() == 2 && log_events.contains("was refused 10 times") && !ended(), "{log_events}");
        assert!(world.cloud.living().iter().all(|one| one.id != other), "{log_events}");
        assert!(world.claims().iter().any(|claim| of(claim) == kept), "its claim is gone:\n{log_events}");
        world.cloud.spoil_end(&kept, None);
        tokio::time::sleep(minutes(5)).await;
        assert!(ended() && refusals() == 2, "{}", world.log_events().join("\n"));
        assert!(world.claims().iter().all(|claim| of(claim) != kept));
        nothing_left_over(&world);
    });
}

/// Eight nodes of one pod each, of which so many are gone by force: finalizers off, and deleted.
async fn nodes_gone(world: &World, count: usize) {
    let one_type = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
    ]);
    world.pool("default", one_type);
    world.pods(8, "1500m");
    world.until_bound(8, minutes(3)).await;
    tokio::time::sleep(minutes(1)).await;
    let names: Vec<_> =
        world.api.list(&NODES).iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!((names.len(), world.cloud.living().len()), (8, 8));
    for name in &names[..count] {
        world.api.patch(&NODES, "", name, &json!({"metadata": {"finalizers": []}})).unwrap();
        world.api.delete(&NODES, "", name, &DeleteOptions::default()).unwrap();
    }
}

/// docs/decisions/026.
#[test]
fn claims_of_gone_nodes_go_with_instances_after_five_minutes() {
    run(|world| async move {
        let _replica = world.replica(0);
        nodes_gone(&world, 5).await;
        tokio::time::sleep(minutes(4)).await;
        assert_eq!(world.cloud.living().len(), 8, "{}", world.log_events().join("\n"));
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(world.journal.count("gave_up"), 5, "{}", world.log_events().join("\n"));
        assert_eq!((world.cloud.living().len(), world.claims().len()), (3, 3));
        nothing_left_over(&world);
    });
}

#[test]
fn many_gone_nodes_end_nothing_and_an_operator_is_told() {
    run(|world| async move {
        let _replica = world.replica(0);
        nodes_gone(&world, 7).await;
        tokio::time::sleep(minutes(24)).await;
        let log_events = world.log_events().join("\n");
        assert_eq!((world.journal.count("gave_up"), world.cloud.living().len()), (0, 8), "{log_events}");
        assert_eq!(world.journal.count("nodes_gone"), 2, "every ten minutes: {log_events}");
        // A user who deletes some of the claims shows that their Nodes are really gone.
        let there: BTreeSet<_> =
            world.api.list(&NODES).iter().map(|node| node["spec"]["providerID"].to_string()).collect();
        let alone = |claim: &&Arc<Value>| !there.contains(&claim["status"]["providerID"].to_string());
        for claim in world.claims().iter().filter(alone).take(3) {
            delete(&world, claim);
        }
        tokio::time::sleep(minutes(3)).await;
        assert_eq!((world.journal.count("gave_up"), world.claims().len()), (4, 1), "{}", world.log_events().join("\n"));
        nothing_left_over(&world);
    });
}

#[test]
fn node_class_deleted_while_looked_at_again_goes() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        world.until(minutes(5), || world.journal.count("node_class") > 0).await;
        world.cloud.resolve_in(Duration::from_secs(5));
        world.until(minutes(5), || world.cloud.resolving() > 0).await;
        world.api.delete(&EC2_NODE_CLASSES, "", "default", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(minutes(3)).await;
        let left = world.api.list(&EC2_NODE_CLASSES);
        assert!(left.is_empty(), "{left:?}\n{}", world.log_events().join("\n"));
    });
}
