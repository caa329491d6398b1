//! Limits of the account, as EC2 says them: quotas, addresses, rights, the role for spot, too many requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ec2, prepare, region, text, texts};
use dovetail_sandbox::faults::InjectedError;
use dovetail_sandbox::region::Region;

/// Asks a fleet for one instance of these types; answers its body.
async fn fleet(region: &Region, subnet: &str, market: &str, types: &[&str]) -> (u16, String) {
    let mut body = format!(
        "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes\
         &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest\
         &TargetCapacitySpecification.TotalTargetCapacity=1\
         &TargetCapacitySpecification.DefaultTargetCapacityType={market}"
    );
    for (number, name) in (1..).zip(types) {
        let over = format!("LaunchTemplateConfigs.1.Overrides.{number}");
        body += &format!("&{over}.InstanceType={name}&{over}.SubnetId={subnet}");
    }
    ec2(region, &body).await
}

fn launched(xml: &str) -> usize {
    texts(text(xml, "fleetInstanceSet"), "instanceIds").len()
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
