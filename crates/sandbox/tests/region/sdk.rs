//! The real AWS SDK for Rust against the region, in process, on paused time; raw requests to the services for which Dovetail
//! has no SDK. boto3 asks all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_ec2::error::ProvideErrorMetadata as _;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types as t;
use aws_smithy_async::rt::sleep::TokioSleep;
use bytes::Bytes;
use common::text;
use dovetail_sandbox::faults::{Direction, Service};
use dovetail_sandbox::region::{CapacityType, InstanceState, Region};
use serde_json::{Value, json};

macro_rules! client {
    ($sdk:ident, $region:expr) => {
        $sdk::Client::from_conf(
            $sdk::Config::builder()
                .behavior_version_latest()
                .region($sdk::config::Region::new("us-east-1"))
                .credentials_provider(Credentials::new("AKIDEXAMPLE", "secret", None, None, "test"))
                .sleep_impl(TokioSleep::new())
                .retry_config($sdk::config::retry::RetryConfig::disabled())
                .timeout_config(
                    $sdk::config::timeout::TimeoutConfig::builder().read_timeout(Duration::from_secs(30)).build(),
                )
                .http_client($region.http_client(common::who()))
                .build(),
        )
    };
}

fn filter(name: &str, value: &str) -> t::Filter {
    t::Filter::builder().name(name).values(value).build()
}

async fn template(ec2: &aws_sdk_ec2::Client, region: &Region) -> String {
    let path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let tags = t::Tag::builder().key("eks:eks-cluster-name").value("demo").build();
    let interface = t::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder().device_index(0);
    let groups = ec2.describe_security_groups().filters(filter("tag:karpenter.sh/discovery", "demo")).send().await;
    let groups: Vec<String> = groups.unwrap().security_groups().iter().filter_map(|g| g.group_id.clone()).collect();
    let data = t::RequestLaunchTemplateData::builder()
        .image_id(region.parameter(path).unwrap())
        .user_data("aGVsbG8=")
        .network_interfaces(interface.set_groups(Some(groups.clone())).build())
        .iam_instance_profile(
            t::LaunchTemplateIamInstanceProfileSpecificationRequest::builder()
                .name("KarpenterNodeInstanceProfile-demo")
                .build(),
        )
        .build();
    let created = ec2
        .create_launch_template()
        .launch_template_name("karpenter.k8s.aws/1234567890")
        .launch_template_data(data)
        .tag_specifications(
            t::TagSpecification::builder().resource_type(t::ResourceType::LaunchTemplate).tags(tags).build(),
        )
        .send()
        .await
        .unwrap();
    let versions = ec2.describe_launch_template_versions().launch_template_name("karpenter.k8s.aws/1234567890");
    let versions = versions.versions("$Latest").send().await.unwrap();
    let data = versions.launch_template_versions()[0].launch_template_data().unwrap();
    assert_eq!(data.network_interfaces()[0].groups(), groups);
    assert_eq!(data.user_data(), Some("aGVsbG8="));
    created.launch_template().unwrap().launch_template_name().unwrap().to_owned()
}

async fn fleet(ec2: &aws_sdk_ec2::Client, name: &str, types: &[&str], spot: bool) -> CreateFleetFluentBuilder {
    let subnets = ec2.describe_subnets().filters(filter("tag:karpenter.sh/discovery", "demo")).send().await.unwrap();
    let overrides = types.iter().flat_map(|name| {
        subnets.subnets().iter().map(|subnet| {
            t::FleetLaunchTemplateOverridesRequest::builder()
                .instance_type(t::InstanceType::from(*name))
                .subnet_id(subnet.subnet_id().unwrap())
                .availability_zone(subnet.availability_zone().unwrap())
                .build()
        })
    });
    let specification =
        t::FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(name).version("$Latest").build();
    let config = t::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(overrides.collect()))
        .build();
    let kind = if spot { t::DefaultTargetCapacityType::Spot } else { t::DefaultTargetCapacityType::OnDemand };
    let target = t::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(1)
        .default_target_capacity_type(kind)
        .build();
    let tag = t::Tag::builder().key("karpenter.sh/nodepool").value("default").build();
    ec2.create_fleet()
        .r#type(t::FleetType::Instant)
        .launch_template_configs(config)
        .target_capacity_specification(target)
        .spot_options(
            t::SpotOptionsRequest::builder()
                .allocation_strategy(t::SpotAllocationStrategy::PriceCapacityOptimized)
                .build(),
        )
        .tag_specifications(t::TagSpecification::builder().resource_type(t::ResourceType::Instance).tags(tag).build())
}

/// Products of the Pricing API, of all pages.
async fn products(region: &Region) -> Vec<String> {
    let attributes = [
        ("regionCode", "us-east-1"),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", "Shared"),
        ("productFamily", "Compute Instance"),
    ];
    let filters = attributes.map(|(field, value)| json!({"Type": "TERM_MATCH", "Field": field, "Value": value}));
    let (mut found, mut body) = (Vec::new(), json!({"ServiceCode": "AmazonEC2", "Filters": filters}));
    loop {
        let (status, page) = common::json(region, "AWSPriceListService.GetProducts", body.clone()).await;
        assert_eq!(status, 200, "{page}");
        found.extend(page["PriceList"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()));
        match page["NextToken"].as_str() {
            Some(token) if !token.is_empty() => body["NextToken"] = token.into(),
            _ => return found,
        }
    }
}

async fn iam(region: &Region, action: &str) -> (u16, String) {
    common::query(region, &format!("Version=2010-05-08&Action={action}")).await
}

/// Code of an error in JSON, and the status that it came with.
fn refused((status, error): &(u16, Value)) -> (u16, &str) {
    let code = error["__type"].as_str().unwrap_or_else(|| panic!("{error}"));
    (*status, code.rsplit('#').next().unwrap())
}

/// A cluster as EKS describes it: status, the header with an error's code, and the answer.
async fn cluster(region: &Region, name: &str) -> (u16, String, Value) {
    let request = http::Request::get(format!("/clusters/{name}")).body(Bytes::new()).unwrap();
    let response = region.handle(common::who(), request).await;
    let code = response.headers().get("x-amzn-errortype").map_or("", |code| code.to_str().unwrap()).to_owned();
    (response.status().as_u16(), code, serde_json::from_slice(response.body()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn discovery_reads_every_type_offering_and_price() {
    let region = common::region(1);
    let ec2 = client!(aws_sdk_ec2, region);
    let types = ec2
        .describe_instance_types()
        .filters(filter("supported-virtualization-type", "hvm"))
        .into_paginator()
        .items()
        .send();
    let types: Vec<_> = types.collect::<Result<Vec<_>, _>>().await.unwrap();
    assert!(types.len() > 1000, "{}", types.len());
    let m5 = types.iter().find(|i| i.instance_type() == Some(&t::InstanceType::M5Large)).unwrap();
    assert_eq!(m5.v_cpu_info().unwrap().default_v_cpus(), Some(2));
    assert_eq!(m5.memory_info().unwrap().size_in_mib(), Some(8192));
    assert_eq!(m5.network_info().unwrap().network_cards()[0].maximum_network_interfaces(), Some(3));
    let gpus = types.iter().filter(|i| i.gpu_info().is_some_and(|g| g.gpus()[0].count().unwrap() > 0)).count();
    assert!(gpus > 20, "{gpus}");
    assert!(types.iter().any(|i| i.neuron_info().is_some_and(|n| !n.neuron_devices().is_empty())));

    let offerings = ec2
        .describe_instance_type_offerings()
        .location_type(t::LocationType::AvailabilityZone)
        .into_paginator()
        .items()
        .send();
    let offerings: Vec<_> = offerings.collect::<Result<Vec<_>, _>>().await.unwrap();
    let expected: usize = region.catalogue().offered.values().map(std::collections::BTreeSet::len).sum();
    assert_eq!(offerings.len(), expected);

    let spot = ec2.describe_spot_price_history().product_descriptions("Linux/UNIX").into_paginator().items().send();
    let spot: Vec<_> = spot.collect::<Result<Vec<_>, _>>().await.unwrap();
    assert_eq!(spot.len(), region.catalogue().spot.len());

    let products = products(&region).await;
    let priced = products.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
    let m5 = priced.into_iter().find(|p| p["product"]["attributes"]["instanceType"] == "m5.large").unwrap();
    let term = m5["terms"]["OnDemand"].as_object().unwrap().values().next().unwrap();
    let dimension = term["priceDimensions"].as_object().unwrap().values().next().unwrap();
    assert_eq!(dimension["pricePerUnit"]["USD"], "0.0960000000");
}

#[tokio::test(start_paused = true)]
async fn fleet_launches_once_per_token_and_instance_lives_and_dies() {
    let region = common::region(2);
    let mut events = region.subscribe();
    let ec2 = client!(aws_sdk_ec2, region);
    let name = template(&ec2, &region).await;
    let request = fleet(&ec2, &name, &["m5.large", "c5.large"], true).await.client_token("token-1");
    let first = request.clone().send().await.unwrap();
    let again = request.clone().send().await.unwrap();
    let id = first.instances()[0].instance_ids()[0].clone();
    assert_eq!(again.instances()[0].instance_ids(), std::slice::from_ref(&id));
    assert_eq!(region.instances().len(), 1);
    ec2.delete_launch_template().launch_template_name(&name).send().await.unwrap();
    let without_template = request.clone().send().await.unwrap();
    assert_eq!(without_template.instances()[0].instance_ids(), std::slice::from_ref(&id));
    let other = request.context("something else").send().await.unwrap_err();
    assert_eq!(other.code(), Some("IdempotentParameterMismatch"));

    tokio::time::sleep(Duration::from_secs(10)).await;
    let by_tag = ec2.describe_instances().filters(filter("tag:karpenter.sh/nodepool", "default"));
    let found = by_tag.clone().filters(filter("instance-state-name", "running")).send().await.unwrap();
    let instance = &found.reservations()[0].instances()[0];
    assert_eq!(instance.instance_id(), Some(id.as_str()));
    assert_eq!(instance.client_token(), Some("token-1"));
    assert_eq!(instance.instance_lifecycle(), Some(&t::InstanceLifecycleType::Spot));
    assert!(instance.private_dns_name().unwrap().ends_with(".ec2.internal"));
    assert_eq!(region.instance(&id).unwrap().user_data, "hello");

    ec2.terminate_instances().instance_ids(&id).send().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let gone = by_tag.send().await.unwrap();
    let state = gone.reservations()[0].instances()[0].state().unwrap().name().unwrap().clone();
    assert_eq!(state, t::InstanceStateName::Terminated);
    let mut states = Vec::new();
    while let Ok(event) = events.try_recv() {
        states.push(event.state);
    }
    use InstanceState::{Pending, Running, ShuttingDown, Terminated};
    assert_eq!(states, [Pending, Running, ShuttingDown, Terminated]);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_goes_round_what_is_sold_out_and_reports_it() {
    let region = common::region(3);
    let ec2 = client!(aws_sdk_ec2, region);
    let name = template(&ec2, &region).await;
    region.faults().change(|s| s.ec2.insufficient_capacity = vec!["c5.large/*/on-demand".into()]);
    let launched = fleet(&ec2, &name, &["m5.large", "c5.large"], false).await.send().await.unwrap();
    assert_eq!(launched.instances()[0].instance_type(), Some(&t::InstanceType::M5Large));
    let codes: Vec<_> = launched.errors().iter().map(|e| e.error_code().unwrap()).collect();
    assert_eq!(codes, ["InsufficientInstanceCapacity"; 3]);
    let refused = launched.errors()[0].launch_template_and_overrides().unwrap().overrides().unwrap();
    assert_eq!(refused.instance_type(), Some(&t::InstanceType::C5Large));
    assert!(refused.availability_zone().is_some());

    region.faults().change(|s| s.ec2.insufficient_capacity = vec!["*".into()]);
    let none = fleet(&ec2, &name, &["m5.large"], false).await.send().await.unwrap();
    assert!(none.instances().is_empty());
    assert_eq!(none.errors().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn errors_come_with_their_codes() {
    let region = common::region(4);
    let ec2 = client!(aws_sdk_ec2, region);
    let dry = ec2.describe_instance_types().dry_run(true).send().await.unwrap_err();
    assert_eq!(dry.code(), Some("DryRunOperation"));
    let missing = ec2.describe_launch_templates().launch_template_names("absent").send().await.unwrap_err();
    assert_eq!(missing.code(), Some("InvalidLaunchTemplateName.NotFoundException"));
    let fleet = fleet(&ec2, "absent", &["m5.large"], false).await.send().await.unwrap_err();
    assert_eq!(fleet.code(), Some("InvalidLaunchTemplateName.NotFoundException"));
    let id = ec2.terminate_instances().instance_ids("i-0123456789abcdef0").send().await.unwrap_err();
    assert_eq!(id.code(), Some("InvalidInstanceID.NotFound"));
    let parameter = common::json(&region, "AmazonSSM.GetParameter", json!({"Name": "/aws/service/nothing"})).await;
    assert_eq!(refused(&parameter), (400, "ParameterNotFound"));
    let (status, profile) = iam(&region, "GetInstanceProfile&InstanceProfileName=absent").await;
    assert_eq!((status, text(&profile, "Code")), (404, "NoSuchEntity"));
    let (status, code, _) = cluster(&region, "absent").await;
    assert_eq!((status, code.as_str()), (404, "ResourceNotFoundException"));
    let sqs = client!(aws_sdk_sqs, region);
    let queue = sqs.get_queue_url().queue_name("absent").send().await.unwrap_err();
    assert!(queue.into_service_error().is_queue_does_not_exist());
}

#[tokio::test(start_paused = true)]
async fn the_other_services_answer_what_a_node_class_needs() {
    let region = common::region(5);
    let made = "CreateInstanceProfile&InstanceProfileName=p&Path=/karpenter/us-east-1/demo/uid/\
                &Tags.member.1.Key=a&Tags.member.1.Value=b";
    assert_eq!(iam(&region, made).await.0, 200);
    let role = "AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo";
    assert_eq!(iam(&region, role).await.0, 200);
    let (status, listed) = iam(&region, "ListInstanceProfiles&PathPrefix=/karpenter/us-east-1/demo/").await;
    assert_eq!((status, text(&listed, "RoleName")), (200, "KarpenterNodeRole-demo"));
    let (status, kept) = iam(&region, "DeleteInstanceProfile&InstanceProfileName=p").await;
    assert_eq!((status, text(&kept, "Code")), (409, "DeleteConflict"));
    let (status, _, described) = cluster(&region, "demo").await;
    assert_eq!((status, described["cluster"]["version"].as_str()), (200, Some("1.33")));
    let path = "/aws/service/bottlerocket/aws-k8s-1.31/arm64/latest/image_id";
    let (status, image) = common::json(&region, "AmazonSSM.GetParameter", json!({"Name": path})).await;
    let value = image["Parameter"]["Value"].as_str().unwrap_or_default();
    assert!(status == 200 && value.starts_with("ami-"), "{image}");
}

#[tokio::test(start_paused = true)]
async fn spot_interruption_is_queued_at_once_two_minutes_before_end() {
    let region = common::region(6);
    let placed = dovetail_sandbox::region::Placement {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        tags: std::collections::BTreeMap::new(),
        user_data: String::new(),
    };
    let id = region.place(&placed).unwrap().id;
    let sqs = client!(aws_sdk_sqs, region);
    let url = sqs.get_queue_url().queue_name("demo").send().await.unwrap().queue_url.unwrap();
    let receive = || sqs.receive_message().queue_url(&url).max_number_of_messages(10).wait_time_seconds(20).send();
    for message in receive().await.unwrap().messages() {
        sqs.delete_message().queue_url(&url).receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
    }
    let started = tokio::time::Instant::now();
    let warned = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        region.interrupt(&id, Duration::from_secs(120), false).unwrap();
    };
    let (received, ()) = tokio::join!(receive(), warned);
    let received = received.unwrap();
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    let body: serde_json::Value = serde_json::from_str(received.messages()[0].body().unwrap()).unwrap();
    assert_eq!(body["detail-type"], "EC2 Spot Instance Interruption Warning");
    assert_eq!(body["detail"]["instance-id"], id.as_str());
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!(region.instance(&id).unwrap().state, InstanceState::Running);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(region.instance(&id).unwrap().state, InstanceState::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn inward_partition_carries_out_the_launch_and_loses_the_answer() {
    let region = common::region(7);
    let ec2 = client!(aws_sdk_ec2, region);
    let name = template(&ec2, &region).await;
    let request = fleet(&ec2, &name, &["m5.large"], false).await.client_token("t");
    region.faults().partition(0, &[Service::Ec2], Direction::In);
    assert!(request.clone().send().await.is_err());
    assert_eq!(region.instances().len(), 1);
    region.faults().partition(0, &[Service::Ec2], Direction::Out);
    assert!(request.clone().client_token("u").send().await.is_err());
    region.faults().heal(0, &[Service::Ec2]);
    assert_eq!(region.instances().len(), 1);
    let repeated = request.send().await.unwrap();
    assert_eq!(repeated.instances()[0].instance_ids()[0], region.instances()[0].id);
}
