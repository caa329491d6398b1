//! Provisioners and AWSNodeTemplates on a live cluster: what they mean is kept in step with them, and said on them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::time::Duration;

use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, Gvr, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use serde_json::{Value, json};
use world::{World, minutes, on_demand_m5, run};

fn provisioners() -> Gvr {
    Gvr::new("karpenter.sh", "v1alpha5", "provisioners")
}

fn templates() -> Gvr {
    Gvr::new("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates")
}

fn machines() -> Gvr {
    Gvr::new("karpenter.sh", "v1alpha5", "machines")
}

fn provisioner(world: &World, name: &str, spec: Value) {
    let object =
        json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": name}, "spec": spec});
    world.api.create(&provisioners(), "", object).unwrap();
}

fn template(world: &World, name: &str, spec: Value) {
    let object = json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": name}, "spec": spec});
    world.api.create(&templates(), "", object).unwrap();
}

/// Status, reason and message of a condition.
fn condition(world: &World, kind: &Gvr, name: &str, type_: &str) -> Option<(String, String, String)> {
    let object = world.api.get(kind, "", name)?;
    let one = object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == type_)?.clone();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn translated(world: &World, kind: &Gvr, name: &str) -> (String, String, String) {
    condition(world, kind, name, "dovetail.dev/Translated").unwrap_or_default()
}

fn pool(world: &World, name: &str) -> Option<Value> {
    world.api.get(&NODE_POOLS, "", name).map(|pool| Value::clone(&pool))
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[test]
fn a_provisioners_pods_get_nodes_that_carry_its_label_and_all_goes_with_it() {
    run(|world| async move {
        let replica = world.replica(0);
        template(
            &world,
            "mine",
            json!({"subnetSelector": {"karpenter.sh/discovery": "demo"},
            "securityGroupSelector": {"karpenter.sh/discovery": "demo"}}),
        );
        provisioner(
            &world,
            "blue",
            json!({"requirements": on_demand_m5(), "providerRef": {"name": "mine"}, "ttlSecondsAfterEmpty": 30}),
        );
        world.pods(4, "1");
        seconds(120).await;
        assert_eq!(world.bound(), 4);

        let (status, _, made) = translated(&world, &provisioners(), "blue");
        assert_eq!((status.as_str(), made.as_str()), ("True", "NodePool blue"));
        let (status, _, made) = translated(&world, &templates(), "mine");
        assert_eq!((status.as_str(), made.as_str()), ("True", "EC2NodeClass mine"));
        for (kind, name) in [(provisioners(), "blue"), (templates(), "mine")] {
            assert_eq!(condition(&world, &kind, name, "Ready").unwrap().0, "True", "{name}");
        }
        let defaults = condition(&world, &provisioners(), "blue", "dovetail.dev/DefaultsTaken").unwrap().2;
        assert!(defaults.contains("spec.requirements: kubernetes.io/arch In [amd64]"), "{defaults}");
        let written = pool(&world, "blue").unwrap();
        assert_eq!(written["metadata"]["ownerReferences"][0]["kind"], "Provisioner");
        assert_eq!(written["spec"]["disruption"]["consolidateAfter"], "30s");
        assert_eq!(written["spec"]["disruption"]["budgets"], json!([{"nodes": "100%"}]));
        for claim in world.api.list(&NODE_CLAIMS) {
            assert_eq!(claim["metadata"]["labels"]["karpenter.sh/provisioner-name"], "blue");
        }
        for node in world.api.list(&NODES) {
            assert_eq!(node["metadata"]["labels"]["karpenter.sh/provisioner-name"], "blue");
        }

        world.api.delete(&provisioners(), "", "blue", &DeleteOptions::default()).unwrap();
        for pod in world.api.list(&PODS) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            world.api.delete(&PODS, "default", name, &DeleteOptions::default()).unwrap();
        }
        seconds(300).await;
        assert!(pool(&world, "blue").is_none());
        assert_eq!((world.api.list(&NODE_CLAIMS).len(), world.api.list(&NODES).len()), (0, 0));
        assert!(world.api.get(&EC2_NODE_CLASSES, "", "mine").is_some(), "the template is there still");
        drop(replica);
    });
}

#[test]
fn what_somebody_else_made_by_that_name_is_left_as_it_is_and_said() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let before = pool(&world, "default").unwrap()["spec"].clone();
        let _replica = world.replica(0);
        provisioner(&world, "default", json!({"weight": 7}));
        provisioner(&world, "other", json!({}));
        seconds(60).await;
        let (status, reason, message) = translated(&world, &provisioners(), "default");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NameTaken"));
        assert!(message.contains("EC2NodeClass default") && message.contains("rename"), "{message}");
        let there = pool(&world, "default").unwrap();
        assert_eq!((there["spec"].clone(), there["metadata"]["ownerReferences"].clone()), (before, Value::Null));
        assert_eq!(translated(&world, &provisioners(), "other").0, "True", "one never stops the others");
    });
}

#[test]
fn an_object_that_can_no_longer_be_translated_leaves_what_was_made_from_it_as_it_was() {
    run(|world| async move {
        let _replica = world.replica(0);
        provisioner(&world, "default", json!({"weight": 7}));
        seconds(30).await;
        let before = pool(&world, "default").unwrap()["spec"].clone();
        assert_eq!(before["weight"], 7);
        world
            .api
            .patch(
                &provisioners(),
                "",
                "default",
                &json!({"spec": {"weight": 9, "provider": {"launchTemplate": "mine"}}}),
            )
            .unwrap();
        seconds(60).await;
        let (status, reason, message) = translated(&world, &provisioners(), "default");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"));
        assert!(message.contains("spec.provider.launchTemplate") && message.contains("userData"), "{message}");
        assert_eq!(pool(&world, "default").unwrap()["spec"], before);

        world
            .api
            .patch(&provisioners(), "", "default", &json!({"spec": {"provider": {"launchTemplate": null}}}))
            .unwrap();
        seconds(60).await;
        assert_eq!(translated(&world, &provisioners(), "default").0, "True");
        assert_eq!(pool(&world, "default").unwrap()["spec"]["weight"], 9);
    });
}

#[test]
fn what_is_made_is_put_right_again_with_pauses_and_a_new_leader_writes_nothing() {
    run(|world| async move {
        let first = world.replica(0);
        provisioner(&world, "default", json!({"weight": 7}));
        seconds(60).await;
        let mut restored = 0;
        for weight in 20..80 {
            world.api.patch(&NODE_POOLS, "", "default", &json!({"spec": {"weight": weight}})).unwrap();
            seconds(10).await;
            restored += u32::from(pool(&world, "default").unwrap()["spec"]["weight"] == 7);
        }
        assert!((1..=12).contains(&restored), "{restored} of 60 were undone within ten minutes");
        tokio::time::sleep(minutes(11)).await;
        let written = pool(&world, "default").unwrap();
        assert_eq!(written["spec"]["weight"], 7);

        drop(first);
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let said = version(&world.api.get(&provisioners(), "", "default").unwrap());
        let _second = world.replica(1);
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(version(&world.api.get(&provisioners(), "", "default").unwrap()), said);
        assert_eq!(pool(&world, "default").unwrap()["metadata"]["generation"], written["metadata"]["generation"]);
    });
}

#[test]
fn kubelet_blocks_that_differ_get_classes_of_their_own_which_go_when_they_are_not_meant_any_more() {
    run(|world| async move {
        let _replica = world.replica(0);
        template(&world, "t", json!({}));
        for (name, pods) in [("a", 20), ("b", 30)] {
            provisioner(&world, name, json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": pods}}));
        }
        seconds(30).await;
        let class = |name: &str| world.api.get(&EC2_NODE_CLASSES, "", name);
        assert_eq!(class("t-a").unwrap()["spec"]["kubelet"]["maxPods"], 20);
        assert_eq!(class("t-b").unwrap()["spec"]["kubelet"]["maxPods"], 30);
        assert_eq!(pool(&world, "b").unwrap()["spec"]["template"]["spec"]["nodeClassRef"]["name"], "t-b");

        world.api.patch(&provisioners(), "", "b", &json!({"spec": {"kubeletConfiguration": {"maxPods": 20}}})).unwrap();
        seconds(120).await;
        assert!(class("t-a").is_none() && class("t-b").is_none(), "both are of one mind, and the class says it");
        assert_eq!(class("t").unwrap()["spec"]["kubelet"]["maxPods"], 20);
        assert_eq!(pool(&world, "b").unwrap()["spec"]["template"]["spec"]["nodeClassRef"]["name"], "t");
    });
}

#[test]
fn of_a_machine_nothing_is_made_and_that_is_said() {
    run(|world| async move {
        let _replica = world.replica(0);
        let machine = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Machine", "metadata": {"name": "m"},
            "spec": {"requirements": [], "machineTemplateRef": {"name": "t"}}});
        world.api.create(&machines(), "", machine).unwrap();
        seconds(30).await;
        let (status, reason, _) = translated(&world, &machines(), "m");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NotOurs"));
        assert_eq!(world.api.list(&NODE_CLAIMS).len(), 0);
    });
}
