//! Raw requests to the region: what each action does and refuses, as AWS documents it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{ec2, json, prepare, query, region, region_and_log, subnet, text, texts};
use dovetail_sandbox::faults::{Direction, QueueLoss, QueueLost, Service};
use dovetail_sandbox::region::{CapacityType, ConnectionLost, InstanceState, Placement, Region, RegionError};
use serde_json::json;

fn fleet(subnet: &str, types: &[&str], more: &str) -> String {
    let mut body = format!(
        "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes\
         &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest\
         &TargetCapacitySpecification.TotalTargetCapacity=1{more}"
    );
    for (number, name) in (1..).zip(types) {
        let over = format!("LaunchTemplateConfigs.1.Overrides.{number}");
        body += &format!("&{over}.InstanceType={name}&{over}.SubnetId={subnet}");
    }
    body
}

async fn launched(region: &Region, body: &str) -> Vec<String> {
    let (status, xml) = ec2(region, body).await;
    assert_eq!(status, 200, "{xml}");
    texts(text(&xml, "fleetInstanceSet"), "instanceIds")
        .iter()
        .flat_map(|ids| texts(ids, "item"))
        .map(str::to_owned)
        .collect()
}

fn spot_node() -> Placement {
    Placement {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        tags: BTreeMap::from([("Name".to_owned(), "n".to_owned())]),
        user_data: "#!".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_has_ec2_s_shape() {
    let (status, xml) = ec2(&region(1), "Action=TerminateInstances&InstanceId.1=i-0123456789abcdef0").await;
    assert_eq!(status, 400);
    assert!(xml.contains("<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code>"), "{xml}");
    assert_eq!(text(&xml, "RequestID").len(), 36);
    assert_eq!(text(&ec2(&region(1), "Action=MakeCoffee").await.1, "Code"), "InvalidAction");
}

#[tokio::test(start_paused = true)]
async fn pages_of_instance_types_end_where_the_next_begins() {
    let region = region(1);
    let (mut token, mut names) = (String::new(), Vec::new());
    loop {
        let more = if token.is_empty() { String::new() } else { format!("&NextToken={token}") };
        let (_, xml) = ec2(&region, &format!("Action=DescribeInstanceTypes&MaxResults=90{more}")).await;
        names.extend(texts(&xml, "instanceType").iter().map(|name| (*name).to_owned()));
        match texts(&xml, "nextToken").first() {
            Some(next) => token = (*next).to_owned(),
            None => break,
        }
    }
    let all: Vec<String> = region.catalogue().types.iter().map(|info| info.name.clone()).collect();
    assert_eq!(names, all);
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_pool_is_taken_first_on_demand() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    let ids = launched(&region, &fleet(&subnet, &["m5.4xlarge", "m5.large", "m5.xlarge"], "")).await;
    let instance = region.instance(&ids[0]).unwrap();
    assert_eq!((instance.instance_type.as_str(), instance.price), ("m5.large", 0.096));
    assert_eq!(instance.instance_profile.as_deref(), Some("KarpenterNodeInstanceProfile-demo"));
    let prioritized = "&OnDemandOptions.AllocationStrategy=prioritized&LaunchTemplateConfigs.1.Overrides.1.Priority=1\
                       &LaunchTemplateConfigs.1.Overrides.2.Priority=2";
    let ids = launched(&region, &fleet(&subnet, &["m5.4xlarge", "m5.large"], prioritized)).await;
    assert_eq!(region.instance(&ids[0]).unwrap().instance_type, "m5.4xlarge");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_cannot_reach_its_minimum_launches_nothing() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.insufficient_capacity = vec!["m5.large".into()]);
    let body = fleet(&subnet, &["m5.large"], "&OnDemandOptions.MinTargetCapacity=1");
    let (_, xml) = ec2(&region, &body).await;
    assert!(texts(&xml, "instanceIds").is_empty());
    assert_eq!(text(&xml, "errorCode"), "InsufficientInstanceCapacity");
    assert!(region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn launch_takes_a_subnet_address_and_the_end_gives_it_back() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    let (_, xml) = ec2(&region, &format!("Action=DescribeSubnets&SubnetId.1={subnet}")).await;
    assert_eq!(text(&xml, "availableIpAddressCount"), "8187");
    let ids = launched(&region, &fleet(&subnet, &["m5.large"], "")).await;
    let one = format!("Action=DescribeSubnets&SubnetId.1={subnet}");
    assert_eq!(text(&ec2(&region, &one).await.1, "availableIpAddressCount"), "8186");
    ec2(&region, &format!("Action=TerminateInstances&InstanceId.1={}", ids[0])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(text(&ec2(&region, &one).await.1, "availableIpAddressCount"), "8187");
}

#[tokio::test(start_paused = true)]
async fn what_a_launch_refers_to_has_to_be_there() {
    let region = region(1);
    let good = prepare(&region, "us-east-1a").await;
    let code = |body: String| {
        let region = region.clone();
        async move { text(&ec2(&region, &body).await.1, "errorCode").to_owned() }
    };
    assert_eq!(code(fleet("subnet-0", &["m5.large"], "")).await, "InvalidSubnetID.NotFound");
    assert_eq!(code(fleet(&good, &["m5.nothing"], "")).await, "InvalidInstanceType");
    assert_eq!(code(fleet(&good, &["m6g.large"], "")).await, "InvalidParameterValue");
    let image = "&LaunchTemplateConfigs.1.Overrides.1.ImageId=ami-0123456789abcdef0";
    assert_eq!(code(fleet(&good, &["m5.large"], image)).await, "InvalidAMIID.NotFound");
    let (_, xml) = ec2(&region, "Action=RunInstances&MinCount=1&MaxCount=1&InstanceType=m5.large&ImageId=ami-0").await;
    assert_eq!(text(&xml, "Code"), "InvalidAMIID.NotFound");
}

#[tokio::test(start_paused = true)]
async fn a_type_is_not_launched_in_a_zone_that_does_not_offer_it() {
    let region = region(1);
    let catalogue = region.catalogue().clone();
    let in_zone = |name: &str| catalogue.offered[name].contains("us-east-1a");
    let missing =
        catalogue.types.iter().find(|i| i.can_be_a_node() && i.kube_arch() == Some("amd64") && !in_zone(&i.name));
    let subnet = prepare(&region, "us-east-1a").await;
    let (_, xml) = ec2(&region, &fleet(&subnet, &[&missing.unwrap().name], "")).await;
    assert_eq!(text(&xml, "errorCode"), "Unsupported");
}

#[tokio::test(start_paused = true)]
async fn zone_that_is_down_launches_nothing_and_impairs_instances() {
    let region = region(1);
    let id = region.place(&spot_node()).unwrap().id;
    region.set_zone_down("us-east-1a", true);
    let subnet = prepare(&region, "us-east-1a").await;
    let (_, xml) = ec2(&region, &fleet(&subnet, &["m5.large"], "")).await;
    assert_eq!(text(&xml, "errorCode"), "InsufficientInstanceCapacity");
    let impaired = "Action=DescribeInstanceStatus&Filter.1.Name=instance-status.status&Filter.1.Value.1=impaired";
    let (_, xml) = ec2(&region, impaired).await;
    assert_eq!(text(&xml, "instanceId"), id);
    assert!(text(&xml, "impairedSince").starts_with("2026-01-01T00:00:00"), "{xml}");
    region.set_zone_down("us-east-1a", false);
    assert!(texts(&ec2(&region, impaired).await.1, "instanceId").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_stays_unseen_for_its_lag_and_then_shows() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.consistency_lag = Duration::from_secs(20));
    let mut unseen = 0;
    for _ in 0..10 {
        let ids = launched(&region, &fleet(&subnet, &["m5.large"], "")).await;
        let (status, _) = ec2(&region, &format!("Action=DescribeInstances&InstanceId.1={}", ids[0])).await;
        unseen += usize::from(status == 400);
    }
    assert!(unseen > 5, "{unseen}");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (_, xml) = ec2(&region, "Action=DescribeInstances").await;
    assert_eq!(texts(&xml, "instanceId").len(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_terminated_are_described_for_an_hour() {
    let region = region(1);
    let id = region.place(&spot_node()).unwrap().id;
    region.terminate(&id).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let describe = format!("Action=DescribeInstances&InstanceId.1={id}");
    let (_, xml) = ec2(&region, &describe).await;
    assert_eq!(text(text(&xml, "instanceState"), "name"), "terminated");
    assert!(texts(&xml, "privateIpAddress").is_empty());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(text(&ec2(&region, &describe).await.1, "Code"), "InvalidInstanceID.NotFound");
    assert!(matches!(region.terminate(&id), Err(RegionError::NoSuchInstance(_))));
}

#[tokio::test(start_paused = true)]
async fn only_a_spot_instance_is_interrupted() {
    let region = region(1);
    let on_demand = Placement { capacity_type: CapacityType::OnDemand, ..spot_node() };
    let id = region.place(&on_demand).unwrap().id;
    assert!(matches!(region.interrupt(&id, Duration::from_secs(120), true), Err(RegionError::NotSpot(_))));
    let nowhere = Placement { zone: "us-east-1f".into(), ..spot_node() };
    assert!(matches!(region.place(&nowhere), Err(RegionError::CannotPlace { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_interruption_says_everything_in_order() {
    let region = region(1);
    let id = region.place(&spot_node()).unwrap().id;
    region.interrupt(&id, Duration::from_secs(120), true).unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let url = json(&region, "AmazonSQS.GetQueueUrl", json!({"QueueName": "demo"})).await.1["QueueUrl"].clone();
    let receive = json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0});
    let (_, answer) = json(&region, "AmazonSQS.ReceiveMessage", receive).await;
    let said: Vec<String> = answer["Messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| serde_json::from_str::<serde_json::Value>(message["Body"].as_str().unwrap()).unwrap())
        .map(|body| {
            format!("{} {}", body["detail-type"].as_str().unwrap(), body["detail"]["state"].as_str().unwrap_or(""))
        })
        .collect();
    assert_eq!(
        said,
        [
            "EC2 Instance State-change Notification pending",
            "EC2 Instance State-change Notification running",
            "EC2 Instance Rebalance Recommendation ",
            "EC2 Spot Instance Interruption Warning ",
            "EC2 Instance State-change Notification shutting-down",
            "EC2 Instance State-change Notification terminated",
        ]
    );
    let reason = region.instance(&id).unwrap().state_reason.unwrap().code;
    assert_eq!(reason, "Server.SpotInstanceTermination");
}

#[tokio::test(start_paused = true)]
async fn the_driver_brings_instances_up_with_nobody_asking() {
    let region = region(1);
    let mut events = region.subscribe();
    let driver = region.run();
    let asked = async {
        let subnet = prepare(&region, "us-east-1a").await;
        launched(&region, &fleet(&subnet, &["m5.large"], "")).await;
        let started = tokio::time::Instant::now();
        assert_eq!(events.recv().await.unwrap().state, InstanceState::Pending);
        assert_eq!(events.recv().await.unwrap().state, InstanceState::Running);
        assert!((4..10).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    };
    tokio::select! {
        biased;
        () = driver => unreachable!("the driver ended"),
        () = asked => {}
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_failing_and_losing_have_their_own_faces() {
    let region = region(1);
    region.faults().change(|s| s.ec2.throttle_rate = 1.0);
    let (status, xml) = ec2(&region, "Action=DescribeInstances").await;
    assert_eq!((status, text(&xml, "Code")), (503, "RequestLimitExceeded"));
    region.faults().change(|s| (s.ec2.throttle_rate, s.ec2.error_rate) = (0.0, 1.0));
    let (status, xml) = ec2(&region, "Action=DescribeInstances").await;
    assert_eq!((status, text(&xml, "Code")), (500, "InternalError"));
    region.faults().change(|s| (s.ec2.error_rate, s.ec2.timeout_rate) = (0.0, 1.0));
    let create = "Action=CreateTags&Version=2016-11-15&ResourceId.1=ID&Tag.1.Key=k&Tag.1.Value=v";
    let id = region.place(&spot_node()).unwrap().id;
    let request = http::Request::post("/").body(bytes::Bytes::from(create.replace("ID", &id))).unwrap();
    let response = region.handle(common::who(), request).await;
    assert!(response.extensions().get::<ConnectionLost>().is_some());
    assert_eq!(region.instance(&id).unwrap().tags["k"], "v");
}

#[tokio::test(start_paused = true)]
async fn call_received_is_carried_out_though_its_sender_is_gone() {
    let region = region(1);
    let id = region.place(&spot_node()).unwrap().id;
    for (after, key, carried_out) in [(20, "early", false), (52, "late", true)] {
        let form = format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={id}&Tag.1.Key={key}&Tag.1.Value=v");
        let request = http::Request::post("/").body(bytes::Bytes::from(form)).unwrap();
        let sent = tokio::time::timeout(Duration::from_millis(after), region.handle(common::who(), request));
        assert!(sent.await.is_err(), "given up after {after} ms");
        assert!(!region.instance(&id).unwrap().tags.contains_key(key), "not yet");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(region.instance(&id).unwrap().tags.contains_key(key), carried_out, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_from_the_queue_leaves_ec2_reachable() {
    let region = region(1);
    region.faults().partition(0, &[Service::Sqs], Direction::Both);
    let started = tokio::time::Instant::now();
    let request = http::Request::post("/").header("x-amz-target", "AmazonSQS.GetQueueUrl");
    let request = request.body(bytes::Bytes::from_static(b"{\"QueueName\":\"demo\"}")).unwrap();
    let response = region.handle(common::who(), request).await;
    assert!(response.extensions().get::<ConnectionLost>().is_some());
    assert!(started.elapsed() >= Duration::from_secs(60));
    assert_eq!(ec2(&region, "Action=DescribeVpcs").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn lost_queue_answers_by_its_error_until_it_is_back() {
    let region = region(1);
    let url = json(&region, "AmazonSQS.GetQueueUrl", json!({"QueueName": "demo"})).await.1["QueueUrl"].clone();
    let receive =
        async || json(&region, "AmazonSQS.ReceiveMessage", json!({"QueueUrl": url, "WaitTimeSeconds": 0})).await;
    for (how, code, warnings) in [
        (QueueLoss::Denied, "AccessDenied", 1),
        (QueueLoss::KeyDenied, "KMS.AccessDeniedException", 1),
        (QueueLoss::Deleted, "QueueDoesNotExist", 0),
    ] {
        let mut settings = region.faults().settings();
        settings.sqs.lost =
            Some(QueueLost { how, after: Duration::from_secs(10), lasts: Some(Duration::from_secs(60)) });
        region.faults().set(settings);
        assert_eq!(receive().await, (200, json!({})), "{code}: not yet");
        tokio::time::sleep(Duration::from_secs(20)).await;
        region.deliver("a warning");
        let (status, answer) = receive().await;
        assert!((400..500).contains(&status), "{code}: {status}");
        assert_eq!(answer["__type"], format!("com.amazonaws.sqs#{code}"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (status, answer) = receive().await;
        assert_eq!((status, answer["Messages"].as_array().map_or(0, Vec::len)), (200, warnings), "{code}: it is back");
        let receipt = answer["Messages"][0]["ReceiptHandle"].clone();
        json(&region, "AmazonSQS.DeleteMessage", json!({"QueueUrl": url, "ReceiptHandle": receipt})).await;
    }
    region.faults().change(|settings| settings.ec2.unauthorized = vec!["ReceiveMessage".into()]);
    let (status, answer) = receive().await;
    assert_eq!((status, &answer["__type"]), (403, &json!("com.amazonaws.sqs#AccessDenied")));
    assert!(answer["message"].as_str().unwrap().contains("sqs:receivemessage on resource"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_duplicated_message_comes_twice() {
    let region = region(1);
    region.faults().change(|s| s.sqs.duplicate_rate = 1.0);
    let url = json(&region, "AmazonSQS.CreateQueue", json!({"QueueName": "q"})).await.1["QueueUrl"].clone();
    json(&region, "AmazonSQS.SendMessage", json!({"QueueUrl": url, "MessageBody": "x"})).await;
    let receive = json!({"QueueUrl": url, "MaxNumberOfMessages": 10});
    let (_, answer) = json(&region, "AmazonSQS.ReceiveMessage", receive).await;
    assert_eq!(answer["Messages"].as_array().unwrap().len(), 2);
    assert_eq!(answer["Messages"][0]["MD5OfBody"], "9dd4e461268c8034f5c8564e155c67a6");
    assert!(answer["Messages"][0].get("Attributes").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_empty_long_poll_lasts_as_long_as_asked() {
    let region = region(1);
    let url = json(&region, "AmazonSQS.GetQueueUrl", json!({"QueueName": "demo"})).await.1["QueueUrl"].clone();
    let started = tokio::time::Instant::now();
    let (status, answer) =
        json(&region, "AmazonSQS.ReceiveMessage", json!({"QueueUrl": url, "WaitTimeSeconds": 20})).await;
    assert_eq!((status, answer), (200, json!({})));
    assert!((20..21).contains(&started.elapsed().as_secs()));
    let (status, answer) =
        json(&region, "AmazonSQS.ReceiveMessage", json!({"QueueUrl": url, "WaitTimeSeconds": 21})).await;
    assert_eq!((status, answer["__type"].as_str()), (400, Some("com.amazonaws.sqs#InvalidParameterValue")));
}

#[tokio::test(start_paused = true)]
async fn iam_s_errors_have_the_query_protocol_s_shape() {
    let body = "Version=2010-05-08&Action=GetInstanceProfile&InstanceProfileName=absent";
    let (status, xml) = query(&region(1), body).await;
    assert_eq!(status, 404);
    assert!(xml.starts_with("<ErrorResponse><Error><Type>Sender</Type><Code>NoSuchEntity</Code>"), "{xml}");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_of_a_fleet_see_a_missing_template_first() {
    let region = region(1);
    let subnet = subnet(&region, "us-east-1a").await;
    let body = fleet(&subnet, &["m5.large"], "&DryRun=true");
    let (status, xml) = ec2(&region, &body).await;
    assert_eq!((status, text(&xml, "Code")), (400, "InvalidLaunchTemplateName.NotFoundException"));
    prepare(&region, "us-east-1a").await;
    let (status, xml) = ec2(&region, &body).await;
    assert_eq!((status, text(&xml, "Code")), (412, "DryRunOperation"));
    assert!(region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn user_data_above_16_kib_and_duplicate_templates_are_refused() {
    let region = region(1);
    let create =
        |data: &str| format!("Action=CreateLaunchTemplate&LaunchTemplateName=big&LaunchTemplateData.UserData={data}");
    let (_, xml) = ec2(&region, &create(&"QUFB".repeat(5_462))).await;
    assert_eq!(text(&xml, "Code"), "InvalidParameterValue");
    assert_eq!(text(&ec2(&region, &create("!!")).await.1, "Code"), "InvalidUserData.Malformed");
    assert_eq!(ec2(&region, &create("QUFB")).await.0, 200);
    let (_, xml) = ec2(&region, &create("QUFB")).await;
    assert_eq!(text(&xml, "Code"), "InvalidLaunchTemplateName.AlreadyExistsException");
}

#[tokio::test(start_paused = true)]
async fn a_seed_replays_the_log_byte_for_byte_and_another_does_not() {
    async fn story(seed: u64) -> String {
        let (region, log) = region_and_log(seed);
        region.faults().change(|s| {
            (s.ec2.error_rate, s.ec2.throttle_rate, s.ec2.timeout_rate) = (0.1, 0.1, 0.1);
            s.ec2.consistency_lag = Duration::from_secs(5);
            s.sqs.duplicate_rate = 0.3;
        });
        let driver = region.run();
        let acts = async {
            let subnet = "subnet-unknown";
            for number in 0..40 {
                let token = format!("&ClientToken=t{number}");
                ec2(&region, &fleet(subnet, &["m5.large", "c5.large"], &token)).await;
                let placed = region.place(&spot_node()).unwrap();
                ec2(&region, "Action=DescribeInstances").await;
                region.interrupt(&placed.id, Duration::from_secs(30), true).unwrap();
                tokio::time::sleep(Duration::from_secs(7)).await;
            }
        };
        tokio::select! {
            biased;
            () = driver => {}
            () = acts => {}
        }
        log.to_jsonl()
    }
    let (first, again, other) = (story(11).await, story(11).await, story(12).await);
    assert!(first.lines().count() > 200, "{}", first.lines().count());
    assert!(first == again, "one seed, two logs");
    assert_ne!(first, other);
}
