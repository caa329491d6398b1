//! Launching against a scripted EC2: what is sent, and what each answer is taken for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::script;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_cloud::prelude::*;
use dovetail_cloud::{LaunchError, LaunchErrorKind, LaunchedInstance};
use script::{Answer, Script, class, launched, ok, refused, request};

async fn launch(script: &Arc<Script>) -> Result<LaunchedInstance, LaunchError> {
    script.cloud().launch(request("token-1", &["m5.large", "m6g.large"], "spot")).await
}

fn tokens(script: &Script) -> Vec<String> {
    script.calls("CreateFleet").into_iter().map(|mut call| call.remove("ClientToken").unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_launch_says_what_ec2_gave() {
    let script = Script::new();
    let instance = launch(&script).await.unwrap();
    assert_eq!(instance.provider_id(), "aws:///us-east-1b/i-1");
    assert_eq!((instance.instance_type.as_str(), instance.capacity_type.as_str()), ("m5.large", "spot"));
    assert_eq!((instance.subnet_id.as_str(), instance.image_id.as_str()), ("subnet-b", "ami-amd"));
    assert!((0.02..0.06).contains(&instance.price) && instance.refusals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn fleet_carries_token_tags_and_an_override_per_type_and_zone() {
    let script = Script::new();
    launch(&script).await.unwrap();
    let fleet = &script.calls("CreateFleet")[0];
    let value = |key: &str| fleet.get(key).map(String::as_str);
    assert_eq!((value("ClientToken"), value("Type")), (Some("token-1"), Some("instant")));
    assert_eq!(value("TargetCapacitySpecification.DefaultTargetCapacityType"), Some("spot"));
    assert_eq!(value("SpotOptions.AllocationStrategy"), Some("price-capacity-optimized"));
    let tags: BTreeSet<(&str, &str)> = (1..=8)
        .filter_map(|n| {
            let of = |part: &str| value(&format!("TagSpecification.1.Tag.{n}.{part}"));
            Some((of("Key")?, of("Value")?))
        })
        .collect();
    let expected = [
        ("dovetail.dev/cluster-uid", "uid-1"),
        ("dovetail.dev/launch-token", "token-1"),
        ("eks:eks-cluster-name", "demo"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("team", "blue"),
    ];
    assert_eq!(tags, expected.into());
    let overrides = fleet.keys().filter(|k| k.ends_with(".SubnetId")).count();
    // Two types in two zones, less one: it costs more than half as much again as the cheapest in its dearer zone.
    assert_eq!(overrides, 3);
    let subnets: BTreeSet<&String> = fleet.iter().filter(|(k, _)| k.ends_with(".SubnetId")).map(|(_, v)| v).collect();
    assert_eq!(subnets.into_iter().collect::<Vec<_>>(), ["subnet-a", "subnet-b"], "the roomier one of each zone");
}

/// A fleet of these instances, and an offering that is refused.
fn some_launched(ids: &[&str], refused: Option<&str>) -> Answer {
    let ids: String = ids.iter().map(|id| format!("<item>{id}</item>")).collect();
    let chosen = "<launchTemplateAndOverrides><overrides><instanceType>m5.large</instanceType>\
         <availabilityZone>us-east-1b</availabilityZone><subnetId>subnet-b</subnetId></overrides></launchTemplateAndOverrides>";
    let error = refused.map(|code| format!("<item>{chosen}<errorCode>{code}</errorCode></item>")).unwrap_or_default();
    ok(format!(
        "<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet>{error}</errorSet><fleetInstanceSet><item>{chosen}\
         <instanceIds>{ids}</instanceIds><instanceType>m5.large</instanceType></item></fleetInstanceSet></CreateFleetResponse>"
    ))
}

#[tokio::test(start_paused = true)]
async fn call_for_several_says_which_it_launched_and_why_no_more() {
    let several = async |answer: Answer| {
        let script = Script::new();
        script.answer("CreateFleet", vec![answer]);
        let request = request("token-1", &["m5.large"], "spot");
        let fleet = script.cloud().launch_several(request, 3).await.unwrap();
        assert_eq!(script.calls("CreateFleet")[0]["TargetCapacitySpecification.TotalTargetCapacity"], "3");
        fleet
    };
    let fleet = several(some_launched(&["i-3", "i-1", "i-2"], None)).await;
    let ids: Vec<&str> = fleet.instances.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, fleet.missing), (vec!["i-1", "i-2", "i-3"], None));
    assert!(fleet.instances.iter().all(|one| one.zone == "us-east-1b" && one.price > 0.0));
    let fleet = several(some_launched(&["i-1", "i-2"], Some("InsufficientInstanceCapacity"))).await;
    let missing = fleet.missing.unwrap();
    assert_eq!((fleet.instances.len(), missing.kind), (2, LaunchErrorKind::InsufficientCapacity));
    assert_eq!(missing.refusals[0].instance_type, "m5.large");
    let fleet = several(some_launched(&["i-1", "i-2"], None)).await;
    assert_eq!(fleet.missing.unwrap().kind, LaunchErrorKind::Unsaid, "another may be there");
}

#[tokio::test(start_paused = true)]
async fn class_context_is_sent_unless_min_values_were_lowered() {
    for (relaxed, sent) in [(false, Some("ctx-1")), (true, None)] {
        let script = Script::new();
        let mut request = request("token-1", &["m5.large"], "spot");
        Arc::make_mut(&mut request.node_class).spec.context = Some("ctx-1".into());
        request.min_values_relaxed = relaxed;
        script.cloud().launch(request).await.unwrap();
        let fleet = &script.calls("CreateFleet")[0];
        assert_eq!(fleet.get("Context").map(String::as_str), sent, "relaxed: {relaxed}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_image_has_its_template_and_a_second_launch_makes_none() {
    let script = Script::new();
    let cloud = script.cloud();
    for token in ["token-1", "token-2"] {
        cloud.launch(request(token, &["m5.large", "m6g.large"], "spot")).await.unwrap();
    }
    let made = script.calls("CreateLaunchTemplate");
    let images: BTreeSet<&String> = made.iter().map(|call| &call["LaunchTemplateData.ImageId"]).collect();
    assert_eq!((made.len(), images.len()), (2, 2));
    assert!(made[0]["LaunchTemplateName"].starts_with("karpenter.k8s.aws/"));
    assert_eq!(made[0]["LaunchTemplateData.MetadataOptions.HttpTokens"], "required");
    assert_eq!(made[0]["LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize"], "20");
    assert_eq!(made[0]["LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1"], "sg-1");
}

#[tokio::test(start_paused = true)]
async fn every_capacity_refusal_is_reported_as_lack_of_capacity() {
    for code in [
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    ] {
        let script = Script::new();
        script.answer("CreateFleet", vec![refused(code)]);
        let error = launch(&script).await.unwrap_err();
        assert_eq!(error.kind, LaunchErrorKind::InsufficientCapacity, "{code}");
        let refusal = &error.refusals[0];
        assert_eq!((refusal.instance_type.as_str(), refusal.zone.as_str()), ("m5.large", "us-east-1a"));
        assert_eq!((refusal.capacity_type.as_str(), refusal.code.as_str()), ("spot", code));
        assert_eq!(script.calls("CreateFleet").len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_another_reason_is_final_and_named() {
    for (code, reason) in [("UnauthorizedOperation", "Unauthorized"), ("InvalidAMIID.NotFound", "AMINotFound")] {
        let script = Script::new();
        script.answer("CreateFleet", vec![refused(code)]);
        let error = launch(&script).await.unwrap_err();
        assert_eq!((error.kind, error.reason), (LaunchErrorKind::Final, reason));
    }
    let script = Script::new();
    script.answer("CreateFleet", vec![Answer::Error(403, "UnauthorizedOperation", "no")]);
    let error = launch(&script).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (LaunchErrorKind::Final, "Unauthorized"));
}

#[tokio::test(start_paused = true)]
async fn throttled_launch_repeats_the_same_token_and_parameters() {
    let script = Script::new();
    let throttled = Answer::Error(503, "RequestLimitExceeded", "slow down");
    script.answer(
        "CreateFleet",
        vec![throttled.clone(), throttled, launched("i-7", "m5.large", "us-east-1a", "subnet-a")],
    );
    assert_eq!(launch(&script).await.unwrap().id, "i-7");
    let calls = script.calls("CreateFleet");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| *call == calls[0]));
}

#[tokio::test(start_paused = true)]
async fn throttled_to_the_end_nothing_was_launched() {
    let script = Script::new();
    script.answer("CreateFleet", vec![Answer::Error(503, "RequestLimitExceeded", "slow down")]);
    let error = launch(&script).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (LaunchErrorKind::Retryable, "RequestLimitExceeded"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_may_have_launched() {
    for answer in [Answer::Never, Answer::Broken, Answer::Error(500, "InternalError", "?"), ok("no xml")] {
        let script = Script::new();
        script.answer("CreateFleet", vec![answer.clone()]);
        let error = launch(&script).await.unwrap_err();
        assert_eq!(error.kind, LaunchErrorKind::MayHaveHappened, "{answer:?}");
        assert_eq!(tokens(&script).into_iter().collect::<BTreeSet<_>>().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn answer_with_neither_instance_nor_error_is_unsaid() {
    let silent = "<CreateFleetResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>\
         <fleetId>fleet-1</fleetId><errorSet/><fleetInstanceSet/></CreateFleetResponse>";
    let script = Script::new();
    script.answer("CreateFleet", vec![ok(silent)]);
    let error = launch(&script).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (LaunchErrorKind::Unsaid, "LaunchUnknown"));
    assert!(error.message.contains("its tag dovetail.dev/launch-token, whose"), "{}", error.message);
    assert!(!error.message.contains("token-1"), "each attempt has another: {}", error.message);
    assert_eq!(tokens(&script), ["token-1"], "the same token is answered so again");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_with_the_same_token() {
    let script = Script::new();
    script.answer("CreateFleet", vec![Answer::Broken, launched("i-7", "m5.large", "us-east-1a", "subnet-a")]);
    assert_eq!(launch(&script).await.unwrap().id, "i-7");
    assert_eq!(tokens(&script), ["token-1", "token-1"]);
}

#[tokio::test(start_paused = true)]
async fn throttle_or_refusal_after_a_lost_answer_proves_nothing() {
    for after in [Answer::Error(503, "RequestLimitExceeded", "slow"), Answer::Error(403, "UnauthorizedOperation", "no")]
    {
        let script = Script::new();
        script.answer("CreateFleet", vec![Answer::Broken, after]);
        assert_eq!(launch(&script).await.unwrap_err().kind, LaunchErrorKind::MayHaveHappened);
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_deleted_behind_our_back_is_made_anew_once() {
    let script = Script::new();
    let gone = refused("InvalidLaunchTemplateName.NotFoundException");
    script.answer("CreateFleet", vec![gone.clone(), launched("i-7", "m5.large", "us-east-1a", "subnet-a")]);
    assert_eq!(launch(&script).await.unwrap().id, "i-7");
    assert_eq!(tokens(&script), ["token-1", "token-1-r"]);
    assert_eq!(script.calls("CreateLaunchTemplate").len(), 4);
    script.answer("CreateFleet", vec![gone]);
    let error = launch(&script).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (LaunchErrorKind::Final, "LaunchTemplateNotFound"));
}

#[tokio::test(start_paused = true)]
async fn templates_are_listed_where_there_is_no_way_to_iam() {
    let script = Script::new();
    let listed = ok("<DescribeLaunchTemplatesResponse><launchTemplates><item>\
        <launchTemplateName>karpenter.k8s.aws/1</launchTemplateName><tagSet><item>\
        <key>karpenter.k8s.aws/ec2nodeclass</key><value>default</value></item></tagSet></item></launchTemplates>\
        </DescribeLaunchTemplatesResponse>");
    script.answer("DescribeLaunchTemplates", vec![listed]);
    script.answer("ListInstanceProfiles", vec![Answer::Broken]);
    let made = script.cloud().made().await.unwrap();
    assert_eq!(made.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["karpenter.k8s.aws/1"]);
    script.answer("DescribeLaunchTemplates", vec![Answer::Broken]);
    assert!(script.cloud().made().await.is_err(), "nothing is known");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_for_a_class_that_is_not_ready() {
    let with_ready = |status: &str| {
        let mut class = class();
        class.status.as_mut().unwrap().conditions[0].status = status.into();
        let mut request = request("token-1", &["m5.large"], "spot");
        request.node_class = Arc::new(class);
        request
    };
    let script = Script::new();
    let error = script.cloud().launch(with_ready("False")).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::NodeClassNotReady);
    let error = script.cloud().launch(with_ready("Unknown")).await.unwrap_err();
    assert_eq!(error.reason, "NodeClassReadinessUnknown");
    let mut changed = request("token-1", &["m5.large"], "spot");
    Arc::make_mut(&mut changed.node_class).metadata.generation = Some(2);
    let mut no_status = request("token-1", &["m5.large"], "spot");
    Arc::make_mut(&mut no_status.node_class).status = None;
    let mut no_condition = request("token-1", &["m5.large"], "spot");
    Arc::make_mut(&mut no_condition.node_class).status.as_mut().unwrap().conditions.clear();
    for waits in [changed, no_status, no_condition] {
        let error = script.cloud().launch(waits).await.unwrap_err();
        assert_eq!((error.kind, error.reason), (LaunchErrorKind::Retryable, "NodeClassReadinessUnknown"));
    }
    assert!(script.calls("CreateFleet").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_is_full_is_not_chosen_again() {
    let script = Script::new();
    let cloud = script.cloud();
    let full = ok("<CreateFleetResponse><errorSet><item><launchTemplateAndOverrides><overrides>\
        <instanceType>m5.large</instanceType><availabilityZone>us-east-1b</availabilityZone><subnetId>subnet-b</subnetId>\
        </overrides></launchTemplateAndOverrides><errorCode>InsufficientFreeAddressesInSubnet</errorCode></item></errorSet>\
        </CreateFleetResponse>");
    script.answer("CreateFleet", vec![full, launched("i-2", "m5.large", "us-east-1b", "subnet-b2")]);
    cloud.launch(request("token-1", &["m5.large"], "spot")).await.unwrap_err();
    cloud.launch(request("token-2", &["m5.large"], "spot")).await.unwrap();
    let last = &script.calls("CreateFleet")[1];
    assert!(last.values().any(|v| v == "subnet-b2") && !last.values().any(|v| v == "subnet-b"));
}

/// The subnets that a CreateFleet asks for.
fn subnets(call: &BTreeMap<String, String>) -> BTreeSet<&str> {
    call.iter().filter(|(key, _)| key.ends_with(".SubnetId")).map(|(_, subnet)| subnet.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn launch_of_unknown_outcome_is_repeated_to_the_letter() {
    let script = Script::new();
    let cloud = script.cloud();
    script.answer("CreateFleet", vec![Answer::Broken]);
    let error = cloud.launch(request("token-1", &["m5.large"], "spot")).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::MayHaveHappened);
    script.answer("CreateFleet", vec![launched("i-2", "m5.large", "us-east-1b", "subnet-b")]);
    for token in ["token-2", "token-1", "token-3"] {
        cloud.launch(request(token, &["m5.large"], "spot")).await.unwrap();
    }
    let calls = script.calls("CreateFleet");
    let of = |token: &str| calls.iter().filter(|call| call["ClientToken"] == token).collect::<Vec<_>>();
    assert_ne!(subnets(of("token-3")[0]), subnets(of("token-1")[0]), "another subnet has more room by then");
    assert!(of("token-1").len() == 5 && of("token-1").iter().all(|call| *call == of("token-1")[0]));
    // The launch's outcome is known now.
    cloud.launch(request("token-1", &["m5.large"], "spot")).await.unwrap();
    let last = script.calls("CreateFleet").pop().unwrap();
    assert_eq!(subnets(&last), subnets(of("token-3")[0]));
}

#[tokio::test(start_paused = true)]
async fn abandoned_launch_returns_addresses_and_repeats_to_the_letter() {
    let script = Script::new();
    let cloud = script.cloud();
    script.answer("CreateFleet", vec![Answer::Never, launched("i-2", "m5.large", "us-east-1b", "subnet-b")]);
    let dropped = cloud.launch(request("token-1", &["m5.large"], "spot"));
    assert!(tokio::time::timeout(Duration::from_secs(1), dropped).await.is_err());
    for token in ["token-2", "token-1"] {
        cloud.launch(request(token, &["m5.large"], "spot")).await.unwrap();
    }
    let calls = script.calls("CreateFleet");
    assert_eq!(subnets(&calls[1]), subnets(&calls[0]), "it has taken none");
    assert_eq!(calls[2], calls[0]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_used_for_something_else_proves_no_absence() {
    let script = Script::new();
    let used = "The request uses the same client token as a previous, but non-identical request.";
    script.answer("CreateFleet", vec![Answer::Error(400, "IdempotentParameterMismatch", used)]);
    assert_eq!(launch(&script).await.unwrap_err().kind, LaunchErrorKind::TokenUsed);
    assert_eq!(script.calls("CreateFleet").len(), 1, "it will not be taken");
}

fn described(state: &str, cluster_uid: &str) -> Answer {
    ok(format!(
        "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
         <instanceState><name>{state}</name></instanceState><instanceType>m5.large</instanceType>\
         <placement><availabilityZone>us-east-1a</availabilityZone></placement><instanceLifecycle>spot</instanceLifecycle>\
         <launchTime>2026-06-01T00:00:00.000Z</launchTime><privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName>\
         <tagSet><item><key>dovetail.dev/cluster-uid</key><value>{cluster_uid}</value></item>\
         <item><key>kubernetes.io/cluster/demo</key><value>owned</value></item>\
         <item><key>karpenter.sh/nodepool</key><value>default</value></item></tagSet>\
         </item></instancesSet></item></reservationSet></DescribeInstancesResponse>"
    ))
}

#[tokio::test(start_paused = true)]
async fn only_a_living_instance_of_this_cluster_is_terminated() {
    let script = Script::new();
    script.answer("TerminateInstances", vec![ok("<TerminateInstancesResponse/>")]);
    let cloud = script.cloud();
    for (answer, sent) in [
        (described("running", "uid-1"), 1),
        (described("shutting-down", "uid-1"), 1),
        (described("running", "uid-of-another"), 1),
        (described("running", ""), 1),
    ] {
        script.answer("DescribeInstances", vec![answer.clone()]);
        let there = cloud.instance("i-1").await.unwrap();
        assert_eq!(cloud.terminate_all(there.as_slice()).await, Ok(BTreeMap::new()), "{answer:?}");
        assert_eq!(script.calls("TerminateInstances").len(), sent, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_instances_is_sent_once() {
    let script = Script::new();
    script.answer("DescribeInstances", vec![described("running", "uid-1")]);
    script.answer("TerminateInstances", vec![Answer::Error(503, "RequestLimitExceeded", "slow down")]);
    let cloud = script.cloud();
    let there = cloud.instance("i-1").await.unwrap();
    let failed = cloud.terminate_all(there.as_slice()).await.unwrap();
    assert!(failed["i-1"].is_retryable());
    assert_eq!(script.calls("TerminateInstances").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn instances_of_another_cluster_of_the_same_name_are_not_listed() {
    let script = Script::new();
    script.answer("DescribeInstances", vec![described("running", "uid-of-another"), described("running", "uid-1")]);
    let cloud = script.cloud();
    assert!(cloud.instances().await.unwrap().is_empty());
    let ours = cloud.instances().await.unwrap();
    assert_eq!((ours[0].id.as_str(), ours[0].capacity_type.as_str()), ("i-1", "spot"));
    assert_eq!(ours[0].private_dns_name, "ip-10-0-0-1.ec2.internal");
    assert_eq!(ours[0].launched_at.map(|t| t.to_string()).as_deref(), Some("2026-06-01T00:00:00Z"));
}
