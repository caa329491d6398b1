//! EC2 behind the trait against the sandbox's region: what the actors will see of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_cloud::launch::reserved::ReservationKind;
use dovetail_cloud::prelude::*;
use dovetail_cloud::resolve::{NodeClassView, ReservationView, ResolveSettings, instance_types, subnet_views_of};
use dovetail_cloud::{LaunchErrorKind, LaunchRequest, MadeKind, MadeResource, shipped};
use dovetail_core::{NodeSelectorRequirement, Resources};
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::{Direction, FaultsInForce, Service};
use dovetail_sandbox::log::{Caller, EventLog};
use dovetail_sandbox::region::{Region, RegionConfig};
use serde_json::json;

fn sandbox() -> (Region, Ec2Cloud) {
    sandbox_of(RegionConfig::new("us-east-1", "demo"))
}

/// A region like that; with the gate ReservedCapacity where it has reservations.
pub fn sandbox_of(config: RegionConfig) -> (Region, Ec2Cloud) {
    sandbox_with(config, |_| ())
}

/// The same with other settings.
pub fn sandbox_with(config: RegionConfig, change: impl FnOnce(&mut Ec2Settings)) -> (Region, Ec2Cloud) {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let log = EventLog::new(clock.clone());
    let reserved_capacity = !config.reservations.is_empty();
    let region = Region::new(config, clock.clone(), log, FaultsInForce::new(1));
    let client = region.http_client(Caller::replica(0, "controller"));
    let (cluster_name, cluster_uid) = ("demo".into(), "uid-1".into());
    let mut settings = Ec2Settings { cluster_name, cluster_uid, reserved_capacity, ..Ec2Settings::default() };
    change(&mut settings);
    let cloud = Ec2Cloud::new(SdkParts { seed: 1, ..SdkParts::in_process(client, "us-east-1", clock) }, settings);
    (region, cloud)
}

pub fn class(alias: &str) -> EC2NodeClass {
    let discovery = json!([{"tags": {"karpenter.sh/discovery": "demo"}}]);
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "class-uid", "generation": 1},
        "spec": {
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
            "amiSelectorTerms": [{"alias": alias}],
            "role": "KarpenterNodeRole-demo",
        },
    }))
    .unwrap()
}

/// The class with what it resolved to, ready.
pub async fn resolved(cloud: &Ec2Cloud, mut class: EC2NodeClass) -> EC2NodeClass {
    let resolution = cloud.resolve_node_class(&class).await.unwrap();
    assert!(resolution.is_ready(), "{:?}", resolution.conditions);
    let mut status =
        serde_json::from_value(json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}));
    resolution.write_to(status.as_mut().unwrap());
    class.status = status.ok();
    class
}

pub fn request(token: &str, class: EC2NodeClass) -> LaunchRequest {
    let status = class.status.as_ref().unwrap();
    let mut view = NodeClassView::from_spec(&class.spec, subnet_views_of(&status.subnets)).unwrap();
    view.placement_group.clone_from(&status.placement_group);
    let reservations = status.capacity_reservations.iter().map(|one| ReservationView {
        id: one.id.clone(),
        instance_type: one.instance_type.clone(),
        zone: one.availability_zone.clone(),
        kind: ReservationKind::from_status(&one.reservation_type, one.interruptible),
        active: one.state == "active",
        left: 9,
    });
    view.reservations = reservations.collect();
    let all = instance_types(&shipped::catalogue("us-east-1"), &view, &ResolveSettings::default());
    LaunchRequest {
        requirements: vec![NodeSelectorRequirement::one_of("karpenter.k8s.aws/instance-family", ["m5", "c5", "m6g"])],
        requests: Resources::parse([("cpu", "1")]).unwrap(),
        candidates: all.into_iter().map(Arc::new).collect(),
        ..LaunchRequest::new(token, "default", Arc::new(class))
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_over_the_wire_is_the_shipped_catalogue() {
    let (_region, cloud) = sandbox();
    let shipped = shipped::catalogue("us-east-1");
    let types = cloud.instance_types().await.unwrap();
    let nodes: Vec<_> = shipped.types.iter().filter(|t| t.can_be_a_node()).map(|t| t.as_ref().clone()).collect();
    let names = |all: &[dovetail_cloud::info::InstanceTypeInfo]| all.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&types), names(&nodes));
    for (over_the_wire, mut own) in types.iter().zip(nodes) {
        // The region does not say which kinds of interface a card takes.
        own.network.cards.iter_mut().for_each(|card| card.interface_types.clear());
        assert_eq!(over_the_wire, &own);
    }
    assert_eq!(cloud.offerings().await.unwrap(), shipped.offered);
    let prices = cloud.on_demand_prices().await.unwrap();
    for (name, usd) in &shipped.on_demand {
        assert!((prices[name] - usd).abs() < 1e-6, "{name}");
    }
    assert_eq!(cloud.spot_prices().await.unwrap().len(), shipped.spot.len());
}

#[tokio::test(start_paused = true)]
async fn every_linux_alias_resolves_and_so_do_network_and_profile() {
    for (alias, images) in [("al2023@latest", 5), ("bottlerocket@latest", 5)] {
        let (_region, cloud) = sandbox();
        let class = resolved(&cloud, class(alias)).await;
        let status = class.status.unwrap();
        let zones: BTreeSet<&str> = status.subnets.iter().map(|s| s.zone.as_str()).collect();
        assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c"].into());
        assert!(!status.security_groups.is_empty() && status.instance_profile.starts_with("demo_"));
        assert_eq!(status.amis.len(), images, "{alias}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_selectors_miss_is_said_by_condition() {
    let (_region, cloud) = sandbox();
    let mut class = class("al2023@latest");
    class.spec.subnet_selector_terms[0].tags.insert("karpenter.sh/discovery".into(), "other".into());
    let resolution = cloud.resolve_node_class(&class).await.unwrap();
    let finding = |name: &str| resolution.conditions.iter().find(|f| f.condition == name).unwrap();
    assert_eq!(
        (finding("SubnetsReady").status, finding("SubnetsReady").reason.as_str()),
        (Some(false), "SubnetsNotFound")
    );
    assert_eq!(finding("SecurityGroupsReady").status, Some(true));
    assert_eq!(finding("ValidationSucceeded").reason, "DependenciesNotReady");
}

#[tokio::test(start_paused = true)]
async fn class_that_can_launch_nothing_is_invalid_and_names_the_field() {
    let (_region, cloud) = sandbox();
    let finding = async |alias: &str, change: fn(&mut EC2NodeClass)| {
        let mut class = class(alias);
        change(&mut class);
        let resolution = cloud.resolve_node_class(&class).await.unwrap();
        let one = resolution.conditions.into_iter().find(|f| f.condition == "ValidationSucceeded").unwrap();
        (one.status, one.reason, one.message)
    };
    let fine = finding("al2023@latest", |class| class.spec.user_data = Some("#!/bin/sh\n".into())).await;
    assert_eq!(fine.0, Some(true), "{fine:?}");
    for (alias, change, reason, field) in [
        (
            "bottlerocket@latest",
            (|class| class.spec.user_data = Some("#!/bin/sh\ntrue\n".into())) as fn(&mut EC2NodeClass),
            "InvalidUserData",
            "spec.userData",
        ),
        (
            "al2023@latest",
            |class| class.spec.user_data = Some("MIME-Version: 1.0\n\nx".into()),
            "InvalidUserData",
            "spec.userData",
        ),
        (
            "al2023@latest",
            |class| class.spec.user_data = Some("#".repeat(17_000)),
            "UserDataSizeLimitExceeded",
            "16384",
        ),
        (
            "al2023@latest",
            |class| {
                class.spec.kubelet = serde_json::from_value(json!({"evictionSoft": {"memory.available": "5%"}})).ok()
            },
            "InvalidKubeletConfiguration",
            "spec.kubelet.evictionSoft.memory.available",
        ),
        (
            "al2023@latest",
            |class| class.spec.kubelet = serde_json::from_value(json!({"maxPods": "max_pods - 10"})).ok(),
            "KubeletExpressionsDisabled",
            "spec.kubelet.maxPods",
        ),
        (
            "al2023@latest",
            |class| class.spec.kubelet = serde_json::from_value(json!({"kubeReserved": {"cpu": "vcpus * 10"}})).ok(),
            "KubeletExpressionsDisabled",
            "spec.kubelet.kubeReserved.cpu",
        ),
        (
            "bottlerocket@latest",
            |class| class.spec.kubelet = serde_json::from_value(json!({"podPidsLimit": 4096})).ok(),
            "UnsupportedKubeletConfiguration",
            "spec.kubelet.podPidsLimit",
        ),
    ] {
        let (status, told, message) = finding(alias, change).await;
        assert_eq!((status, told.as_str()), (Some(false), reason), "{message}");
        assert!(message.contains(field), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_launched_once_a_token_found_by_it_and_ended() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    let instance = cloud.launch(request("token-1", class.clone())).await.unwrap();
    let again = cloud.launch(request("token-1", class)).await.unwrap();
    assert_eq!(instance.id, again.id);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let found = cloud.instances_with_token("token-1").await.unwrap();
    assert_eq!(found.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), [instance.id.as_str()]);
    assert_eq!(
        (found[0].instance_type.as_str(), found[0].zone.as_str()),
        (instance.instance_type.as_str(), instance.zone.as_str())
    );
    assert_eq!(found[0].capacity_type, instance.capacity_type);
    assert!(found[0].private_dns_name.ends_with(".ec2.internal"));
    assert_eq!(cloud.instances().await.unwrap().len(), 1);
    let tags = [("Name".to_owned(), "node-1".to_owned())].into();
    cloud.tag(&instance.id, &tags).await.unwrap();
    assert_eq!(cloud.instance(&instance.id).await.unwrap().unwrap().tags["Name"], "node-1");
    let there = cloud.instances().await.unwrap();
    assert_eq!(cloud.terminate_all(&there).await, Ok(BTreeMap::new()));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(cloud.instances().await.unwrap().is_empty());
    assert_eq!(cloud.terminate_all(&there).await, Ok(BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn many_end_in_one_call_though_one_of_them_is_unknown() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    let mut ids = Vec::new();
    for token in ["a", "b", "c"] {
        ids.push(cloud.launch(request(token, class.clone())).await.unwrap().id);
    }
    let unknown = "i-00000000000000000".to_owned();
    let asked: Vec<String> = ids.iter().cloned().chain([unknown.clone()]).collect();
    let found = cloud.instances_of(&asked).await.unwrap();
    assert_eq!(found.missing, BTreeSet::from([unknown.clone()]));
    assert_eq!(
        found.instances.iter().map(|one| one.id.clone()).collect::<BTreeSet<_>>(),
        ids.iter().cloned().collect()
    );
    assert!(found.instances.iter().all(|one| !one.is_terminating()));
    let gone = dovetail_cloud::Instance { id: unknown.clone(), ..found.instances[0].clone() };
    let ending: Vec<_> = found.instances.iter().cloned().chain([gone]).collect();
    assert_eq!(cloud.terminate_all(&ending).await, Ok(BTreeMap::new()));
    assert!(region.instances().iter().all(|one| !one.state.is_alive()));
    let again = cloud.instances_of(&asked).await.unwrap().instances;
    assert!(again.len() == 3 && again.iter().all(dovetail_cloud::Instance::is_terminating));
}

#[tokio::test(start_paused = true)]
async fn malformed_id_blocks_no_ending_and_unknown_ids_are_limited() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    let mut asked = vec!["node-1".to_owned()];
    for token in ["a", "b"] {
        asked.push(cloud.launch(request(token, class.clone())).await.unwrap().id);
    }
    let found = cloud.instances_of(&asked).await.unwrap();
    assert_eq!((found.instances.len(), found.missing.len()), (2, 0));
    let failed: Vec<_> = found.failed.iter().map(|(id, error)| (id.as_str(), error.code())).collect();
    assert_eq!(failed, [("node-1", "InvalidInstanceID.Malformed")]);
    let malformed = dovetail_cloud::Instance { id: asked[0].clone(), ..found.instances[0].clone() };
    let ending: Vec<_> = found.instances.iter().cloned().chain([malformed]).collect();
    let failed = cloud.terminate_all(&ending).await.unwrap();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["node-1"]);
    assert!(region.instances().iter().all(|one| !one.state.is_alive()));
    assert!(cloud.instances_of(&asked[..1]).await.is_err(), "nothing at all is known");
    let unknown: Vec<_> = (0..120).map(|n| format!("i-{n:017x}")).collect();
    let found = cloud.instances_of(&unknown).await.unwrap();
    assert_eq!((found.instances.len(), found.missing.len(), found.failed.len()), (0, 50, 0));
}

#[tokio::test(start_paused = true)]
async fn launch_with_lost_answer_is_found_by_its_token() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    cloud.launch(request("token-0", class.clone())).await.unwrap();
    let cut = region.faults().clone();
    cut.partition(0, &[Service::Ec2], Direction::In);
    let error = cloud.launch(request("token-1", class)).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::MayHaveHappened);
    cut.heal(0, &[Service::Ec2]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cloud.instances_with_token("token-1").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_made_for_a_class_is_removed_with_it() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    cloud.launch(request("token-1", class.clone())).await.unwrap();
    cloud.remove_node_class(&class).await.unwrap();
    cloud.remove_node_class(&class).await.unwrap();
    let anew = resolved(&cloud, class).await;
    cloud.launch(request("token-2", anew)).await.unwrap();
}

async fn templates(cloud: &Ec2Cloud) -> Vec<MadeResource> {
    let made = cloud.made().await.unwrap().into_iter();
    made.filter(|one| one.kind == MadeKind::LaunchTemplate).collect()
}

#[tokio::test(start_paused = true)]
async fn template_is_used_an_hour_after_launch_and_remade_if_removed() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    cloud.launch(request("token-1", class.clone())).await.unwrap();
    let used = templates(&cloud).await;
    assert!(!used.is_empty() && used.iter().all(|one| one.in_use && one.class == "default"), "{used:?}");
    tokio::time::sleep(Duration::from_secs(3601)).await;
    let unused = templates(&cloud).await;
    assert!(unused.len() == used.len() && unused.iter().all(|one| !one.in_use), "{unused:?}");
    for one in &unused {
        cloud.remove_made(one).await.unwrap();
    }
    assert_eq!(templates(&cloud).await, []);
    cloud.launch(request("token-2", class)).await.unwrap();
    assert_eq!(templates(&cloud).await.len(), used.len());
}

#[tokio::test(start_paused = true)]
async fn a_successor_finds_the_launch_templates_of_the_one_before() {
    let (region, cloud) = sandbox();
    let client = region.http_client(Caller::replica(1, "controller"));
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let settings = Ec2Settings { cluster_name: "demo".into(), cluster_uid: "uid-1".into(), ..Ec2Settings::default() };
    let parts = SdkParts { seed: 2, ..SdkParts::in_process(client, "us-east-1", clock) };
    let successor = Ec2Cloud::new(parts, settings);
    let class = resolved(&cloud, class("al2023@latest")).await;
    cloud.launch(request("token-1", class.clone())).await.unwrap();
    let made: Vec<String> = templates(&cloud).await.into_iter().map(|one| one.name).collect();
    successor.launch(request("token-2", class)).await.unwrap();
    let now: Vec<String> = templates(&successor).await.into_iter().map(|one| one.name).collect();
    assert!(!made.is_empty());
    assert_eq!(now, made);
}

#[tokio::test(start_paused = true)]
async fn images_are_looked_up_for_the_current_api_server_version() {
    let (_region, cloud) = sandbox();
    assert!(resolved(&cloud, class("al2023@latest")).await.status.is_some());
    assert!(cloud.runs_kubernetes("1.99"), "news");
    assert!(!cloud.runs_kubernetes("1.99"), "no news any more");
    let resolution = cloud.resolve_node_class(&class("al2023@latest")).await.unwrap();
    assert!(!resolution.is_ready() && resolution.amis.is_empty(), "there are no images for 1.99");
}

#[tokio::test(start_paused = true)]
async fn template_needed_by_a_launch_since_it_was_listed_stays() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    cloud.launch(request("token-1", class.clone())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3601)).await;
    let listed = templates(&cloud).await;
    assert!(!listed.is_empty() && listed.iter().all(|one| !one.in_use), "{listed:?}");
    cloud.launch(request("token-2", class)).await.unwrap();
    for one in &listed {
        assert_eq!(cloud.remove_made(one).await.unwrap_err().code(), "InUse");
    }
    assert_eq!(templates(&cloud).await.len(), listed.len());
}

#[tokio::test(start_paused = true)]
async fn the_queue_hands_out_warnings_until_they_are_deleted() {
    let (region, cloud) = sandbox();
    assert!(cloud.queue_url("absent").await.unwrap_err().is_not_found());
    let url = cloud.queue_url("demo").await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(cloud.receive(&url).await.unwrap(), []);
    assert!(began.elapsed() >= Duration::from_secs(20), "it waits for a message");

    let launched = cloud.launch(request("t", resolved(&cloud, class("al2023@latest")).await)).await.unwrap();
    let first = cloud.receive(&url).await.unwrap();
    assert!(first[0].body.contains(&launched.id) && first[0].sent.is_some(), "{first:?}");
    tokio::time::sleep(Duration::from_secs(21)).await;
    let mut again = cloud.receive(&url).await.unwrap();
    assert!(again.iter().any(|message| message.body == first[0].body), "it comes again");
    while !again.is_empty() {
        let receipts: Vec<_> = again.iter().map(|message| message.receipt.clone()).collect();
        cloud.delete_messages(&url, &receipts).await.unwrap();
        again = cloud.receive(&url).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(cloud.receive(&url).await.unwrap(), []);
    drop(region);
}
