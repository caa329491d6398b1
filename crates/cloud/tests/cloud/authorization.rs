//! Dry runs for a class: each refusal has its own reason, and none is asked for often.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_cloud::node_class::Finding;
use dovetail_cloud::prelude::*;

use crate::region::class;
use crate::script::{Answer, Script, ok};

const WOULD: Answer = Answer::Error(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.");
const NOT_ALLOWED: Answer = Answer::Error(
    403,
    "UnauthorizedOperation",
    "You are not authorized to perform this operation. Encoded authorization failure message: abc",
);

fn script() -> Arc<Script> {
    let script = Script::new();
    let of = |action: &str, inner: &str| {
        script.answer(action, vec![ok(format!("<{action}Response>{inner}</{action}Response>"))])
    };
    of(
        "DescribeSecurityGroups",
        "<securityGroupInfo><item><groupId>sg-1</groupId><groupName>n</groupName></item></securityGroupInfo>",
    );
    of(
        "DescribeImages",
        "<imagesSet><item><imageId>ami-1</imageId><name>one</name><architecture>x86_64</architecture>\
         <creationDate>2026-01-01T00:00:00.000Z</creationDate></item></imagesSet>",
    );
    script.answer("GetInstanceProfile", vec![Answer::Error(403, "AccessDenied", "no")]);
    script.answer("RunInstances", vec![WOULD]);
    script.answer("CreateFleet", vec![WOULD]);
    script
}

fn cloud(script: &Arc<Script>) -> Ec2Cloud {
    script.cloud_with(|settings| settings.dry_runs = true)
}

fn own_class() -> EC2NodeClass {
    let mut class = class("al2023@latest");
    (class.spec.role, class.spec.instance_profile) = (None, Some("own".into()));
    class.spec.ami_family = Some("AL2023".into());
    class.spec.ami_selector_terms[0] =
        dovetail_api::v1::AmiSelectorTerm { id: Some("ami-1".into()), ..Default::default() };
    class
}

async fn valid(cloud: &Ec2Cloud, class: &EC2NodeClass) -> Finding {
    let found = cloud.resolve_node_class(class).await.unwrap();
    found.conditions.into_iter().find(|one| one.condition == "ValidationSucceeded").unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_we_may_not_do_is_told_by_the_call_with_its_own_reason() {
    for (call, reason) in [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
    ] {
        let script = script();
        script.answer(call, vec![NOT_ALLOWED]);
        let found = valid(&cloud(&script), &own_class()).await;
        assert_eq!((found.status, found.reason.as_str()), (Some(false), reason));
        let told = format!("{call} is not allowed (UnauthorizedOperation): the role may not ec2:{call}; ");
        assert!(found.message.starts_with(&told), "{}", found.message);
        assert!(found.message.ends_with(" --encoded-message abc"), "{}", found.message);
    }
}

#[tokio::test(start_paused = true)]
async fn what_iam_decided_is_told_to_its_end_however_long_it_is() {
    let (script, encoded) = (script(), "A1b2-".repeat(400));
    let message = format!(
        "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/1 is not authorized to \
         perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:subnet/subnet-a because no identity-based \
         policy allows the ec2:RunInstances action. Encoded authorization failure message: {encoded}"
    );
    script.answer("RunInstances", vec![Answer::Error(403, "UnauthorizedOperation", message.leak())]);
    let found = valid(&cloud(&script), &own_class()).await;
    assert!(found.message.contains("may not ec2:RunInstances on arn:aws:ec2:us-east-1:1:subnet/subnet-a: no "));
    assert!(found.message.ends_with(&encoded), "{}", found.message);
}

#[tokio::test(start_paused = true)]
async fn permission_error_of_any_subnet_is_told_before_other_errors() {
    let throttled = Answer::Error(503, "RequestLimitExceeded", "slow down");
    for at in 0..3 {
        let script = script();
        let mut answers = vec![throttled.clone(), throttled.clone(), throttled.clone()];
        answers[at] = NOT_ALLOWED;
        script.answer("RunInstances", answers);
        let found = valid(&cloud(&script), &own_class()).await;
        assert_eq!((found.status, found.reason.as_str()), (Some(false), "RunInstancesAuthCheckFailed"), "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn authorization_is_kept_half_an_hour_and_refusal_five_minutes() {
    let (script, class) = (script(), own_class());
    let cloud = cloud(&script);
    for _ in 0..10 {
        assert_eq!(valid(&cloud, &class).await.status, Some(true));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let calls = script.calls("CreateFleet");
    assert_eq!(
        (calls.len(), script.calls("RunInstances").len(), script.calls("CreateLaunchTemplate").len()),
        (1, 1, 1)
    );
    assert_eq!((calls[0]["DryRun"].as_str(), calls[0]["Type"].as_str()), ("true", "instant"));
    assert_eq!(script.calls("RunInstances")[0]["DryRun"], "true");
    script.answer("CreateFleet", vec![NOT_ALLOWED]);
    tokio::time::sleep(Duration::from_secs(21 * 60)).await;
    for _ in 0..4 {
        assert_eq!(valid(&cloud, &class).await.reason, "CreateFleetAuthCheckFailed");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(script.calls("CreateFleet").len(), 2);
    script.answer("CreateFleet", vec![WOULD]);
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    assert_eq!(valid(&cloud, &class).await.status, Some(true));
    // Another class, or an annotation on this one, is another question.
    let mut noted = class.clone();
    noted.metadata.annotations = Some([("look".to_owned(), "again".to_owned())].into());
    valid(&cloud, &noted).await;
    assert_eq!(script.calls("CreateFleet").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn errors_not_about_permissions_keep_no_class_from_being_used() {
    for answer in [
        Answer::Error(503, "RequestLimitExceeded", "slow down"),
        Answer::Error(500, "InternalError", "?"),
        Answer::Error(400, "InsufficientInstanceCapacity", "none"),
        Answer::Broken,
    ] {
        let script = script();
        script.answer("RunInstances", vec![answer.clone()]);
        let cloud = cloud(&script);
        for _ in 0..3 {
            assert_eq!(valid(&cloud, &own_class()).await.status, Some(true), "{answer:?}");
        }
        // One for each subnet, in one round.
        assert_eq!(script.calls("RunInstances").len(), 3, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_dry_run_is_made_where_switched_off_or_class_is_unwell() {
    let script = script();
    assert_eq!(valid(&script.cloud(), &own_class()).await.status, Some(true));
    let mut bad = own_class();
    bad.spec.user_data = Some("MIME-Version: 1.0\n\nx".into());
    assert_eq!(valid(&cloud(&script), &bad).await.reason, "InvalidUserData");
    assert!(script.calls("CreateFleet").is_empty() && script.calls("CreateLaunchTemplate").is_empty());
}
