//! The instance profile that a class names, and the role: looked up before anything is launched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_cloud::node_class::Finding;
use dovetail_cloud::prelude::*;
use dovetail_sandbox::region::RegionConfig;

use crate::region::{class, sandbox_of};
use crate::script::{Answer, Script, ok};

fn with_profile(name: &str) -> EC2NodeClass {
    let mut class = class("al2023@latest");
    (class.spec.role, class.spec.instance_profile) = (None, Some(name.to_owned()));
    class
}

async fn finding(cloud: &Ec2Cloud, class: &EC2NodeClass) -> Finding {
    let found = cloud.resolve_node_class(class).await.unwrap();
    found.conditions.into_iter().find(|one| one.condition == "InstanceProfileReady").unwrap()
}

#[tokio::test(start_paused = true)]
async fn missing_instance_profile_is_told_by_its_name() {
    let (region, cloud) = sandbox_of(RegionConfig::new("us-east-1", "demo"));
    let there = finding(&cloud, &with_profile("KarpenterNodeInstanceProfile-demo")).await;
    assert_eq!((there.status, there.message.as_str()), (Some(true), ""));
    let missing = finding(&cloud, &with_profile("typo")).await;
    assert_eq!((missing.status, missing.reason.as_str()), (Some(false), "InstanceProfileNotFound"));
    assert_eq!(missing.message, "spec.instanceProfile \"typo\": there is no such instance profile");
    assert!(region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_not_there_is_told_by_its_name() {
    let (_region, cloud) = sandbox_of(RegionConfig::new("us-east-1", "demo"));
    let mut class = class("al2023@latest");
    class.spec.role = Some("typo".into());
    let missing = finding(&cloud, &class).await;
    assert_eq!((missing.status, missing.reason.as_str()), (Some(false), "RoleNotFound"));
    assert_eq!(missing.message, "spec.role \"typo\": there is no such IAM role");
}

const NO_ROLE: &str = "<GetInstanceProfileResponse><GetInstanceProfileResult><InstanceProfile>\
    <Path>/</Path><InstanceProfileName>own</InstanceProfileName><InstanceProfileId>AIPA1</InstanceProfileId>\
    <Arn>arn:aws:iam::1:instance-profile/own</Arn><CreateDate>2026-01-01T00:00:00Z</CreateDate><Roles/>\
    </InstanceProfile></GetInstanceProfileResult></GetInstanceProfileResponse>";

fn script(answer: Answer) -> std::sync::Arc<Script> {
    let script = Script::new();
    let empty = |action: &str, inner: &str| {
        script.answer(action, vec![ok(format!("<{action}Response>{inner}</{action}Response>"))])
    };
    empty("DescribeSecurityGroups", "<securityGroupInfo/>");
    empty("DescribeImages", "<imagesSet/>");
    script.answer("GetInstanceProfile", vec![answer]);
    script
}

fn by_id(name: &str) -> EC2NodeClass {
    let mut class = with_profile(name);
    class.spec.ami_family = Some("AL2023".into());
    class.spec.ami_selector_terms[0] =
        dovetail_api::v1::AmiSelectorTerm { id: Some("ami-1".into()), ..Default::default() };
    class
}

#[tokio::test(start_paused = true)]
async fn a_profile_without_a_role_makes_no_nodes() {
    let cloud = script(ok(NO_ROLE)).cloud();
    let found = finding(&cloud, &by_id("own")).await;
    assert_eq!((found.status, found.reason.as_str()), (Some(false), "InstanceProfileWithoutRole"));
    assert!(found.message.contains("spec.instanceProfile \"own\""), "{}", found.message);
}

#[tokio::test(start_paused = true)]
async fn unverifiable_profile_is_used_as_named_and_asked_again_later() {
    let script = script(Answer::Error(403, "AccessDenied", "not authorized to perform: iam:GetInstanceProfile"));
    let cloud = script.cloud();
    for _ in 0..3 {
        let found = finding(&cloud, &by_id("own")).await;
        assert_eq!(found.status, Some(true));
        assert!(found.message.contains("own") && found.message.contains("AccessDenied"), "{}", found.message);
    }
    assert_eq!(script.calls("GetInstanceProfile").len(), 1);
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    finding(&cloud, &by_id("own")).await;
    assert_eq!(script.calls("GetInstanceProfile").len(), 2);
}
