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
fn provisioner_gives_nodes_its_label_and_all_goes_with_it() {
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
fn object_of_others_by_that_name_is_left_as_it_is_and_said() {
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
fn untranslatable_object_leaves_what_it_made_as_it_was() {
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
fn translation_is_mended_with_pauses_new_leader_writes_nothing() {
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

/// The class of a pool, and its name.
fn class_of(world: &World, name: &str) -> (String, Option<Value>) {
    let class = pool(world, name).unwrap()["spec"]["template"]["spec"]["nodeClassRef"]["name"].clone();
    let class = class.as_str().unwrap().to_owned();
    let found = world.api.get(&EC2_NODE_CLASSES, "", &class);
    (class, found.map(|class| json!([class["spec"], class["metadata"]["generation"]])))
}

#[test]
fn kubelet_blocks_share_own_classes_and_change_no_other_pool() {
    run(|world| async move {
        let _replica = world.replica(0);
        template(&world, "t", json!({}));
        let with = |pods: i32| json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": pods}});
        provisioner(&world, "a", with(20));
        provisioner(&world, "p", json!({"providerRef": {"name": "t"}}));
        seconds(30).await;
        let (a, p) = (class_of(&world, "a"), class_of(&world, "p"));
        assert_eq!((a.1.as_ref().unwrap()[0]["kubelet"]["maxPods"].clone(), p.0.as_str()), (json!(20), "t"));

        for (name, pods) in [("b", 30), ("c", 20)] {
            provisioner(&world, name, with(pods));
        }
        seconds(60).await;
        assert_eq!(
            (class_of(&world, "a"), class_of(&world, "p")),
            (a.clone(), p.clone()),
            "nobody else's class changes"
        );
        assert_eq!(class_of(&world, "c"), a, "of one mind, of one class");
        let b = class_of(&world, "b");
        assert_eq!(b.1.unwrap()[0]["kubelet"]["maxPods"], 30);
        for name in ["a", "b", "c", "p"] {
            assert_eq!(translated(&world, &provisioners(), name).0, "True", "{name}");
        }

        world.api.patch(&provisioners(), "", "b", &json!({"spec": {"kubeletConfiguration": {"maxPods": 20}}})).unwrap();
        seconds(120).await;
        assert_eq!((class_of(&world, "b"), class_of(&world, "a")), (a.clone(), a.clone()));
        assert!(world.api.get(&EC2_NODE_CLASSES, "", &b.0).is_none(), "nobody means it any more");

        world.api.delete(&provisioners(), "", "a", &DeleteOptions::default()).unwrap();
        seconds(120).await;
        assert_eq!((class_of(&world, "c"), class_of(&world, "b")), (a.clone(), a), "it is shared still");
    });
}

#[test]
fn refused_provisioner_keeps_the_copy_its_pool_names() {
    run(|world| async move {
        let _replica = world.replica(0);
        template(&world, "t", json!({}));
        provisioner(&world, "a", json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": 20}}));
        seconds(30).await;
        let before = class_of(&world, "a");
        assert!(before.1.is_some());
        // More seconds than a duration of v1 can have; the pool is refused, and the block is another.
        let odd = json!({"spec": {"ttlSecondsAfterEmpty": 10_000_000_000_000_000_u64, "kubeletConfiguration": {"maxPods": 30}}});
        world.api.patch(&provisioners(), "", "a", &odd).unwrap();
        seconds(120).await;
        let (status, _, message) = translated(&world, &provisioners(), "a");
        assert_eq!(status, "False", "{message}");
        assert!(message.contains("spec.ttlSecondsAfterEmpty") && !message.contains("consolidateAfter"), "{message}");
        assert_eq!(class_of(&world, "a"), before);
        assert_eq!(world.api.list(&EC2_NODE_CLASSES).len(), 2, "nothing is made of what is refused");
        assert_eq!(translated(&world, &templates(), "t").0, "True", "the template is not to blame");
    });
}

#[test]
fn not_ready_reason_is_said_by_own_field_and_what_is_missing() {
    run(|world| async move {
        let _replica = world.replica(0);
        let nowhere = json!({"subnetSelector": {"team": "nobody"}});
        template(&world, "t", nowhere.clone());
        provisioner(&world, "by-ref", json!({"providerRef": {"name": "t"}}));
        provisioner(&world, "inline", json!({"provider": nowhere}));
        provisioner(&world, "lost", json!({"providerRef": {"name": "nothing"}}));
        seconds(90).await;
        for (kind, name, reason, words) in [
            (
                templates(),
                "t",
                "SubnetsNotFound",
                "EC2NodeClass t is not Ready: SubnetsReady=False (spec.subnetSelector matches no subnet",
            ),
            (
                provisioners(),
                "by-ref",
                "SubnetsNotFound",
                "(spec.subnetSelector of AWSNodeTemplate t matches no subnet",
            ),
            (provisioners(), "inline", "SubnetsNotFound", "(spec.provider.subnetSelector matches no subnet"),
            (
                provisioners(),
                "lost",
                "NodeClassNotFound",
                "EC2NodeClass nothing is not there; create it, or name another in spec.providerRef.name",
            ),
        ] {
            let (status, said, message) = condition(&world, &kind, name, "Ready").unwrap();
            assert_eq!((status.as_str(), said.as_str()), ("False", reason), "{name}: {message}");
            assert!(message.contains(words), "{name}: {message}");
            assert!(!message.contains("Terms"), "{name}: a field of v1's: {message}");
        }
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
