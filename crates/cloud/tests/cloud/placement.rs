//! Placement groups and tenancy: what a class and its launches make of them in a region that has such groups.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::{EC2NodeClass, PlacementGroupSelector};
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_cloud::prelude::*;
use dovetail_cloud::{LaunchErrorKind, LaunchRequest};
use dovetail_core::NodeSelectorRequirement;
use dovetail_sandbox::region::{AccountPlacementGroup, Region, RegionConfig};
use futures::future::join_all;

use crate::region::{class, request, resolved, sandbox_of};
use crate::script::{self, Script, ok};

fn sandbox() -> (Region, Ec2Cloud) {
    let group = |id: &str, strategy: &str, partitions| AccountPlacementGroup {
        id: id.into(),
        name: format!("{strategy}-group"),
        strategy: strategy.into(),
        partitions,
    };
    let mut config = RegionConfig::new("us-east-1", "demo");
    config.placement_groups =
        vec![group("pg-0c", "cluster", 0), group("pg-0p", "partition", 3), group("pg-05", "spread", 0)];
    sandbox_of(config)
}

fn in_group(name: Option<&str>, id: Option<&str>) -> EC2NodeClass {
    let mut class = class("al2023@latest");
    let selector = PlacementGroupSelector { name: name.map(str::to_owned), id: id.map(str::to_owned) };
    class.spec.placement_group_selector = Some(selector);
    class
}

#[tokio::test(start_paused = true)]
async fn a_placement_group_is_resolved_by_name_or_id() {
    let (_region, cloud) = sandbox();
    for class in [in_group(Some("partition-group"), None), in_group(None, Some("pg-0p"))] {
        let group = resolved(&cloud, class).await.status.unwrap().placement_group.unwrap();
        assert_eq!((group.id.as_str(), group.name.as_str()), ("pg-0p", "partition-group"));
        assert_eq!((group.strategy.as_str(), group.partition_count), ("partition", Some(3)));
    }
}

#[tokio::test(start_paused = true)]
async fn missing_placement_group_names_field_and_launches_nothing() {
    let (region, cloud) = sandbox();
    for (class, told) in [
        (
            in_group(Some("nowhere"), None),
            "spec.placementGroupSelector.name \"nowhere\": there is no such placement group",
        ),
        (in_group(None, Some("pg-00")), "spec.placementGroupSelector.id \"pg-00\": there is no such placement group"),
    ] {
        let found = cloud.resolve_node_class(&class).await.unwrap();
        let finding = found.conditions.iter().find(|one| one.condition == "PlacementGroupReady").unwrap();
        assert_eq!((finding.status, finding.reason.as_str()), (Some(false), "PlacementGroupNotFound"));
        assert_eq!(finding.message, told);
        // Also where the class was ready before the group was deleted.
        let mut ready = resolved(&cloud, in_group(None, Some("pg-0p"))).await;
        ready.spec = class.spec.clone();
        let error = cloud.launch(request("token", ready)).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (LaunchErrorKind::NodeClassNotReady, told));
    }
    assert!(region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_class_without_a_selector_has_the_condition_true() {
    let (_region, cloud) = sandbox();
    let found = cloud.resolve_node_class(&class("al2023@latest")).await.unwrap();
    let finding = found.conditions.iter().find(|one| one.condition == "PlacementGroupReady").unwrap();
    assert_eq!((finding.status, found.placement_group), (Some(true), None));
}

#[tokio::test(start_paused = true)]
async fn launches_spread_over_partitions_of_group_and_know_theirs() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(None, Some("pg-0p"))).await;
    let mut used = BTreeMap::<u32, u32>::new();
    for n in 0..30 {
        let launched = cloud.launch(request(&format!("token-{n}"), class.clone())).await.unwrap();
        let there = region.instance(&launched.id).unwrap();
        assert_eq!(there.placement_group(), Some(("pg-0p", launched.placing.partition)));
        *used.entry(launched.placing.partition.unwrap()).or_default() += 1;
        let found = cloud.instance(&launched.id).await.unwrap();
        assert!(found.is_none_or(|found| found.placing == launched.placing));
    }
    assert_eq!(used.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(used.values().all(|count| *count > 3), "{used:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_asked_for_is_the_one() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(None, Some("pg-0p"))).await;
    for n in 0..4 {
        let mut request = request(&format!("token-{n}"), class.clone());
        let key = "karpenter.k8s.aws/placement-group-partition";
        request.requirements.push(NodeSelectorRequirement::one_of(key, ["2"]));
        let id = cloud.launch(request).await.unwrap().id;
        assert_eq!(region.instance(&id).unwrap().placement_group(), Some(("pg-0p", Some(2))));
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_launches_of_cluster_group_go_to_one_zone() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(Some("cluster-group"), None)).await;
    assert_eq!(class.status.as_ref().unwrap().placement_group.as_ref().unwrap().zone, None);
    let launches = (0..6).map(|n| cloud.launch(request(&format!("token-{n}"), class.clone())));
    let launched: Vec<_> = join_all(launches).await.into_iter().map(|one| one.unwrap()).collect();
    let zones: BTreeSet<&str> = launched.iter().map(|one| one.zone.as_str()).collect();
    assert_eq!((zones.len(), region.instances().len()), (1, 6));
    // Whoever comes later knows the zone from EC2.
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    let class = resolved(&cloud, in_group(Some("cluster-group"), None)).await;
    let group = class.status.as_ref().unwrap().placement_group.clone().unwrap();
    assert_eq!(group.zone.as_deref(), zones.first().copied());
    let mut elsewhere = request("token-9", class);
    let other = if zones.contains("us-east-1a") { "us-east-1b" } else { "us-east-1a" };
    elsewhere.requirements.push(NodeSelectorRequirement::one_of("topology.kubernetes.io/zone", [other]));
    let error = cloud.launch(elsewhere).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::InsufficientCapacity);
}

#[tokio::test(start_paused = true)]
async fn cluster_group_without_capacity_in_a_zone_tries_another() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(Some("cluster-group"), None)).await;
    let first = request("token-0", class.clone());
    region.set_zone_down("us-east-1a", true);
    region.set_zone_down("us-east-1b", true);
    let mut zones = Vec::new();
    for n in 0..3 {
        let mut request = LaunchRequest { token: format!("token-{n}"), ..first.clone() };
        for one in &mut request.candidates {
            // As the catalogue has it after a refusal.
            Arc::make_mut(one).offerings.retain(|offering| !zones.contains(&offering.zone));
        }
        match cloud.launch(request).await {
            Ok(launched) => return assert_eq!(launched.zone, "us-east-1c"),
            Err(error) => {
                let refused: BTreeSet<String> = error.refusals.iter().map(|one| one.zone.clone()).collect();
                assert_eq!((error.kind, refused.len()), (LaunchErrorKind::InsufficientCapacity, 1), "{error}");
                zones.extend(refused);
            }
        }
    }
    panic!("it was tried in {zones:?}");
}

#[tokio::test(start_paused = true)]
async fn occupied_cluster_group_stays_in_its_zone_without_room_there() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(Some("cluster-group"), None)).await;
    let zone = cloud.launch(request("token-0", class.clone())).await.unwrap().zone;
    // EC2 is asked for the group's zone once a minute: until then the launch is all that says where it is.
    region.set_zone_down(&zone, true);
    let error = cloud.launch(request("token-1", class.clone())).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::InsufficientCapacity);
    let mut elsewhere = request("token-2", class.clone());
    for one in &mut elsewhere.candidates {
        // As the catalogue has it after that refusal.
        Arc::make_mut(one).offerings.retain(|offering| offering.zone != zone);
    }
    let error = cloud.launch(elsewhere).await.unwrap_err();
    assert_eq!((error.kind, region.instances().len()), (LaunchErrorKind::InsufficientCapacity, 1), "{error}");
    assert!(error.refusals.is_empty() && error.message.contains(&zone), "not sent at all: {error}");
    region.set_zone_down(&zone, false);
    assert_eq!(cloud.launch(request("token-3", class)).await.unwrap().zone, zone);
}

#[tokio::test(start_paused = true)]
async fn spread_group_takes_seven_in_a_zone_and_then_has_no_room() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, in_group(None, Some("pg-05"))).await;
    for n in 0..21 {
        cloud.launch(request(&format!("token-{n}"), class.clone())).await.unwrap();
    }
    let error = cloud.launch(request("token-22", class)).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::InsufficientCapacity);
    assert!(error.refusals.iter().all(|one| one.message.contains("spread placement group")), "{error}");
    assert_eq!(region.instances().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn hardware_is_dedicated_only_where_nothing_else_will_do() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, class("al2023@latest")).await;
    for (n, (values, dedicated)) in
        [(&["dedicated"][..], true), (&["default", "dedicated"], false), (&[], false)].into_iter().enumerate()
    {
        let mut request = request(&format!("token-{n}"), class.clone());
        if !values.is_empty() {
            let wanted = NodeSelectorRequirement::one_of("karpenter.k8s.aws/instance-tenancy", values.iter().copied());
            request.requirements.push(wanted);
        }
        let launched = cloud.launch(request).await.unwrap();
        assert_eq!(region.instance(&launched.id).unwrap().is_dedicated(), dedicated, "{values:?}");
        assert_eq!(launched.placing.tenancy(), if dedicated { "dedicated" } else { "default" });
    }
}

#[tokio::test(start_paused = true)]
async fn what_ec2_is_asked_for_a_placement_group() {
    let script = Script::new();
    script.answer(
        "DescribePlacementGroups",
        vec![ok("<DescribePlacementGroupsResponse><placementGroupSet><item><groupName>rack</groupName>\
            <groupId>pg-1</groupId><strategy>partition</strategy><state>available</state>\
            <partitionCount>7</partitionCount></item></placementGroupSet></DescribePlacementGroupsResponse>")],
    );
    let mut request = script::request("token-1", &["m5.large"], "on-demand");
    let selector = PlacementGroupSelector { name: Some("rack".into()), id: None };
    Arc::make_mut(&mut request.node_class).spec.placement_group_selector = Some(selector);
    let one_of = |key: &str, value: &str| NodeSelectorRequirement::one_of(key, [value]);
    request.requirements.push(one_of("karpenter.k8s.aws/instance-tenancy", "dedicated"));
    let cloud = script.cloud();
    for token in ["token-1", "token-2"] {
        cloud.launch(LaunchRequest { token: token.into(), ..request.clone() }).await.unwrap();
    }
    let asked = script.calls("DescribePlacementGroups");
    assert_eq!(asked.len(), 1, "once a minute");
    assert_eq!((asked[0]["Filter.1.Name"].as_str(), asked[0]["Filter.1.Value.1"].as_str()), ("group-name", "rack"));
    let made = &script.calls("CreateLaunchTemplate")[0];
    let own: BTreeMap<&str, &str> = made
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("LaunchTemplateData.Placement.")?, value.as_str())))
        .collect();
    assert_eq!((own["GroupId"], own["Tenancy"], own.len()), ("pg-1", "dedicated", 3));
    assert!((1..=7).contains(&own["PartitionNumber"].parse::<u32>().unwrap()));
}
