//! kwok's nodes behind the trait, at the sandbox's API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::{annotations, labels, tags};
use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::kwok::catalogue::generic_types;
use dovetail_cloud::kwok::{KwokCloud, KwokSettings};
use dovetail_cloud::prelude::*;
use dovetail_cloud::{LaunchErrorKind, LaunchRequest};
use dovetail_core::NodeSelectorRequirement;
use dovetail_sandbox::apiserver::{ApiServer, CUSTOM_RESOURCE_DEFINITIONS, DeleteOptions, Gvr, NODES};
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::log::Caller;
use serde_json::{Value, json};

const CLASSES: Gvr = Gvr::from_static("karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses");

/// An API server with a class of this delay, and the cloud of a cluster of this uid on it.
fn sandbox(delay: &str, uid: &str) -> (ApiServer, KwokCloud) {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let api = ApiServer::new(clock.clone());
    let crd = serde_json::to_value(dovetail_api::kwok::crd().unwrap()).unwrap();
    api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", with_kind(crd, "apiextensions.k8s.io/v1", "CustomResourceDefinition"))
        .unwrap();
    let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": delay}});
    api.create(&CLASSES, "", with_kind(class, "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")).unwrap();
    let settings = KwokSettings { cluster_name: "demo".into(), cluster_uid: uid.into() };
    let cloud = KwokCloud::new(api.client(Caller::replica(0, "test")), settings, generic_types().unwrap(), clock);
    (api, cloud)
}

fn with_kind(mut object: Value, version: &str, kind: &str) -> Value {
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object
}

fn request(token: &str) -> LaunchRequest {
    let class: EC2NodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "generation": 1},
        "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap();
    LaunchRequest {
        candidates: generic_types().unwrap(),
        requirements: vec![
            NodeSelectorRequirement::one_of(labels::OS, ["linux"]),
            NodeSelectorRequirement::one_of(labels::ZONE, ["test-zone-b"]),
        ],
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        ..LaunchRequest::new(token, "default", Arc::new(class))
    }
}

fn nodes(api: &ApiServer) -> Vec<Arc<Value>> {
    api.list(&NODES)
}

#[tokio::test(start_paused = true)]
async fn a_launch_is_the_cheapest_node_once_however_often_it_is_sent() {
    let (api, cloud) = sandbox("0s", "uid-1");
    let first = cloud.launch(request("dt-0a-1")).await.unwrap();
    let again = cloud.launch(request("dt-0a-1")).await.unwrap();
    assert_eq!((first.id.as_str(), first.instance_type.as_str()), (again.id.as_str(), "c-1x-amd64-linux"));
    assert_eq!((first.zone.as_str(), first.capacity_type.as_str()), ("test-zone-b", "spot"));
    assert_eq!(nodes(&api).len(), 1);
    let node = &nodes(&api)[0];
    assert_eq!(node["spec"]["providerID"], first.provider_id());
    assert_eq!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake");
    assert_eq!(node["spec"]["taints"][0]["key"], "karpenter.sh/unregistered");
    assert_eq!(node["status"]["allocatable"]["cpu"], "900m");
    let several = cloud.launch_several(request("dt3-0b-1"), 3).await.unwrap();
    assert_eq!((several.instances.len(), nodes(&api).len()), (3, 4));
    assert_eq!(cloud.instances_with_token("dt3-0b-1").await.unwrap().len(), 3);
    let none = LaunchRequest { candidates: vec![], ..request("dt-0c-1") };
    assert_eq!(cloud.launch(none).await.unwrap_err().kind, LaunchErrorKind::InsufficientCapacity);
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_its_node_with_its_tags_until_it_ends() {
    let (api, cloud) = sandbox("0s", "uid-1");
    let id = cloud.launch(request("dt-0a-1")).await.unwrap().id;
    let more = BTreeMap::from([(tags::NODE_CLAIM.to_owned(), "default-abcde".to_owned())]);
    cloud.tag(&id, &more).await.unwrap();
    let there = cloud.instance(&id).await.unwrap().unwrap();
    for (key, value) in [
        (tags::CLUSTER_UID, "uid-1"),
        (tags::NODE_POOL, "default"),
        (tags::LAUNCH_TOKEN, "dt-0a-1"),
        (tags::NODE_CLAIM, "default-abcde"),
    ] {
        assert_eq!(there.tags[key], value);
    }
    let ids = [id.clone(), "kwok://nobody".to_owned()];
    let found = cloud.instances_of(&ids).await.unwrap();
    assert_eq!((found.instances.len(), found.missing), (1, [ids[1].clone()].into()));
    // While the terminator's finalizer holds the Node, its instance is over already.
    let held = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    api.patch(&NODES, "", nodes(&api)[0]["metadata"]["name"].as_str().unwrap(), &held).unwrap();
    assert!(cloud.terminate_all(std::slice::from_ref(&there)).await.unwrap().is_empty());
    assert_eq!(cloud.instance(&id).await.unwrap().unwrap().state, "terminated");
    assert!(nodes(&api)[0]["metadata"]["deletionTimestamp"].is_string() && cloud.instances().await.unwrap().is_empty());
    assert!(cloud.terminate_all(&[there]).await.unwrap().is_empty(), "one that is ending is no error");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_gives_its_node_another_boot_id_once() {
    let (api, cloud) = sandbox("0s", "uid-1");
    let id = cloud.launch(request("dt-0a-1")).await.unwrap().id;
    let boot_id = || nodes(&api)[0]["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default().to_owned();
    let first = boot_id();
    assert!(!first.is_empty(), "a Node without one proves no reboot");
    let there = cloud.instance(&id).await.unwrap().unwrap();
    let noted = json!({"metadata": {"annotations": {annotations::REBOOT_PRE_BOOT_ID: first.clone()}}});
    let name = nodes(&api)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    api.patch(&NODES, "", &name, &noted).unwrap();
    cloud.reboot(&there).await.unwrap();
    let second = boot_id();
    cloud.reboot(&there).await.unwrap();
    assert_eq!(boot_id(), second, "the same reboot, asked for twice");
    let over = json!({"metadata": {"annotations": {annotations::REBOOT_PRE_BOOT_ID: null}}});
    api.patch(&NODES, "", &name, &over).unwrap();
    cloud.reboot(&there).await.unwrap();
    let all = [first, second, boot_id()];
    assert_eq!(std::collections::BTreeSet::from(all.clone()).len(), 3, "{all:?}");
    api.delete(&NODES, "", &name, &DeleteOptions::default()).unwrap();
    assert!(!cloud.reboot(&there).await.unwrap_err().is_retryable(), "it is gone");
}

#[tokio::test(start_paused = true)]
async fn another_clusters_node_is_not_ended() {
    let (api, cloud) = sandbox("0s", "uid-1");
    let other = KwokSettings { cluster_name: "demo".into(), cluster_uid: "uid-2".into() };
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let other = KwokCloud::new(api.client(Caller::replica(1, "test")), other, generic_types().unwrap(), clock);
    other.launch(request("dt-0a-1")).await.unwrap();
    let all = cloud.instances_by_name(false).await.unwrap();
    assert_eq!((all.len(), cloud.instances().await.unwrap().len()), (1, 0));
    cloud.terminate_all(&all).await.unwrap();
    assert_eq!(other.instances().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn node_comes_after_its_delay_unless_its_instance_ended_before() {
    let (api, cloud) = sandbox("30s", "uid-1");
    let following = cloud.clone().create_when_due();
    let course = async {
        let id = cloud.launch(request("dt-0a-1")).await.unwrap().id;
        let early = cloud.launch(request("dt-0b-1")).await.unwrap().id;
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(nodes(&api).is_empty());
        let waiting = cloud.instance(&early).await.unwrap().unwrap();
        assert_eq!((waiting.state.as_str(), cloud.instances().await.unwrap().len()), ("running", 2));
        cloud.terminate_all(&[waiting]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(nodes(&api).len(), 1);
        assert_eq!(cloud.instance(&id).await.unwrap().unwrap().state, "running");
        assert_eq!(cloud.instance(&early).await.unwrap(), None);
    };
    assert!(cloud.work_of_leader().is_some(), "the leader does it");
    tokio::select! {
        biased;
        () = following => panic!("it ends never"),
        () = course => {}
    }
}
