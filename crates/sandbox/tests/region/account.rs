//! Limits of the account, as EC2 says them: quotas, addresses, rights, the role for spot, too many requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ec2, prepare, region, text, texts};
use dovetail_sandbox::faults::InjectedError;
use dovetail_sandbox::region::Region;

/// Asks a fleet for one instance of these types; answers its body.
async fn fleet(region: &Region, subnet: &str, market: &str, types: &[&str]) -> (u16, String) {
    fleet_of(region, subnet, market, types, 1).await
}

async fn fleet_of(region: &Region, subnet: &str, market: &str, types: &[&str], count: usize) -> (u16, String) {
    let mut body = format!(
        "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes\
         &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest\
         &TargetCapacitySpecification.TotalTargetCapacity={count}\
         &TargetCapacitySpecification.DefaultTargetCapacityType={market}"
    );
    for (number, name) in (1..).zip(types) {
        let over = format!("LaunchTemplateConfigs.1.Overrides.{number}");
        body += &format!("&{over}.InstanceType={name}&{over}.SubnetId={subnet}");
    }
    ec2(region, &body).await
}

/// Instances of each item of an answer.
fn launched(xml: &str) -> usize {
    text(xml, "fleetInstanceSet").matches(">i-").count()
}

#[tokio::test(start_paused = true)]
async fn fleet_for_many_gets_what_quota_and_addresses_have_room_for() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.vcpu_quotas = [("Standard/on-demand".to_owned(), 7)].into());
    // Three of two vCPUs each; the type that comes after them has no room either.
    let (_, xml) = fleet_of(&region, &subnet, "on-demand", &["m5.large", "c5.large"], 5).await;
    assert_eq!((launched(&xml), texts(&xml, "errorCode")), (3, vec!["VcpuLimitExceeded"; 2]));
    region.faults().change(|s| {
        s.ec2.vcpu_quotas.clear();
        s.ec2.subnet_addresses = [("us-east-1a".to_owned(), 5)].into();
    });
    let (_, xml) = fleet_of(&region, &subnet, "on-demand", &["m5.large"], 4).await;
    assert_eq!((launched(&xml), text(&xml, "errorCode")), (2, "InsufficientFreeAddressesInSubnet"));
}

#[tokio::test(start_paused = true)]
async fn fleet_takes_a_token_of_the_accounts_bucket_for_each_instance() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.request_limits = true);
    let first = fleet_of(&region, &subnet, "on-demand", &["m5.large"], 900).await.0;
    let second = fleet_of(&region, &subnet, "on-demand", &["m5.large"], 200).await.0;
    assert_eq!((first, second), (200, 503), "a thousand, and two a second");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(fleet_of(&region, &subnet, "on-demand", &["m5.large"], 200).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn quota_counts_vcpus_of_its_family_group_and_capacity_type() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.vcpu_quotas = [("Standard/on-demand".to_owned(), 4)].into());
    for _ in 0..2 {
        assert_eq!(launched(&fleet(&region, &subnet, "on-demand", &["m5.large"]).await.1), 1);
    }
    let (_, xml) = fleet(&region, &subnet, "on-demand", &["c5.large"]).await;
    assert_eq!((launched(&xml), text(&xml, "errorCode")), (0, "VcpuLimitExceeded"));
    assert_eq!(launched(&fleet(&region, &subnet, "spot", &["m5.large"]).await.1), 1, "another quota");
    region.faults().change(|s| s.ec2.vcpu_quotas = [("Standard/spot".to_owned(), 2)].into());
    let (_, xml) = fleet(&region, &subnet, "spot", &["m5.large"]).await;
    assert_eq!(text(&xml, "errorCode"), "MaxSpotInstanceCountExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_subnet_has_as_many_addresses_as_the_scenario_says() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.subnet_addresses = [("us-east-1a".to_owned(), 1)].into());
    let free = |xml: &str| text(xml, "availableIpAddressCount").to_owned();
    let describe = format!("Action=DescribeSubnets&SubnetId.1={subnet}");
    assert_eq!(free(&ec2(&region, &describe).await.1), "1");
    assert_eq!(launched(&fleet(&region, &subnet, "on-demand", &["m5.large"]).await.1), 1);
    assert_eq!(free(&ec2(&region, &describe).await.1), "0");
    let (_, xml) = fleet(&region, &subnet, "on-demand", &["m5.large"]).await;
    assert_eq!(text(&xml, "errorCode"), "InsufficientFreeAddressesInSubnet");
}

#[tokio::test(start_paused = true)]
async fn missing_rights_and_spot_role_are_refused_as_ec2_does() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    region.faults().change(|s| s.ec2.no_spot_role = true);
    let (_, xml) = fleet(&region, &subnet, "spot", &["m5.large"]).await;
    assert_eq!(text(&xml, "errorCode"), "AuthFailure.ServiceLinkedRoleCreationNotPermitted");
    assert_eq!(launched(&fleet(&region, &subnet, "on-demand", &["m5.large"]).await.1), 1);
    region.faults().change(|s| s.ec2.unauthorized = vec!["RunInstances".into(), "CreateTags".into()]);
    let (status, xml) = fleet(&region, &subnet, "on-demand", &["m5.large"]).await;
    assert_eq!((status, text(&xml, "errorCode")), (200, "UnauthorizedOperation"));
    let (status, xml) = ec2(&region, "Action=CreateTags&ResourceId.1=x&Tag.1.Key=a&Tag.1.Value=b").await;
    assert_eq!((status, text(&xml, "Code")), (403, "UnauthorizedOperation"));
    assert!(
        xml.contains("not authorized to perform: ec2:CreateTags")
            && xml.contains("Encoded authorization failure message: ")
    );
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_the_accounts_bucket_holds_are_refused() {
    let region = region(1);
    region.faults().change(|s| s.ec2.request_limits = true);
    let all = futures::future::join_all((0..130).map(|_| ec2(&region, "Action=DescribeSubnets"))).await;
    let refused = all.iter().filter(|(status, xml)| *status == 503 && text(xml, "Code") == "RequestLimitExceeded");
    assert!((25..=30).contains(&refused.count()), "a hundred, and those of the time that they take");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_answered_as_often_as_it_is_asked_for() {
    let region = region(1);
    let subnet = prepare(&region, "us-east-1a").await;
    let error = InjectedError {
        code: "Unsupported".into(),
        offerings: "m5.*/*/*".into(),
        times: Some(1),
        ..InjectedError::default()
    };
    region.faults().change(|s| s.ec2.errors = vec![error]);
    let (_, xml) = fleet(&region, &subnet, "on-demand", &["m5.large", "m5.xlarge"]).await;
    assert_eq!((launched(&xml), texts(&xml, "errorCode").len()), (0, 2));
    assert_eq!(launched(&fleet(&region, &subnet, "on-demand", &["m5.large"]).await.1), 1);
}
