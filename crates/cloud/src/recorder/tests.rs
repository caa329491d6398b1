//! Requests are of one kind where conditions cannot tell them apart, and come with what conditions look at.
#![allow(clippy::unwrap_used)]

use super::answers::{instance_ids, profile_in, tags_by_instance};
use super::asked::{RecordedRequest, plain};
use super::known::KnownResources;

fn ec2(body: &str) -> RecordedRequest {
    let operation = body.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap().to_owned();
    RecordedRequest { service: "ec2".into(), region: "us-east-1".into(), operation, body: body.into() }
}

const TEMPLATE: &str = "Action=CreateLaunchTemplate&LaunchTemplateName=dovetail-1&LaunchTemplateData.ImageId=ami-1\
    &LaunchTemplateData.IamInstanceProfile.Name=demo_1";
const LAUNCHED: &str = "<CreateFleetResponse><fleetInstanceSet><item><instanceIds><item>i-0a1</item></instanceIds>\
    </item></fleetInstanceSet></CreateFleetResponse>";

fn fleet(token: &str, subnet: &str) -> RecordedRequest {
    ec2(&format!(
        "Action=CreateFleet&ClientToken={token}&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=\
         dovetail-1&LaunchTemplateConfigs.1.Overrides.1.SubnetId={subnet}&TagSpecification.1.ResourceType=instance\
         &TagSpecification.1.Tag.1.Key=karpenter.sh%2Fnodepool&TagSpecification.1.Tag.1.Value={token}"
    ))
}

#[test]
fn fleet_comes_with_templates_and_instances_known_by_their_tags() {
    let mut known = KnownResources::default();
    assert_eq!(known.about(&fleet("a", "subnet-1")), None, "its template is not known");
    known.learn_before(&ec2(TEMPLATE), "");
    let fleet = fleet("a", "subnet-1");
    let about = known.about(&fleet).unwrap();
    assert_eq!(about.templates["dovetail-1"], TEMPLATE);
    let end = ec2("Action=TerminateInstances&InstanceId.1=i-0a1");
    assert_eq!(known.about(&end), None);
    known.learn_after(&fleet, LAUNCHED);
    assert_eq!(known.about(&end).unwrap().before["i-0a1"]["karpenter.sh/nodepool"], "a");
}

#[test]
fn kinds_differ_by_what_conditions_look_at_and_by_nothing_else() {
    let mut known = KnownResources::default();
    known.learn_before(&ec2(TEMPLATE), "");
    let kind = |asked: &RecordedRequest| asked.kind(&known.about(asked).unwrap());
    assert_eq!(kind(&fleet("a", "subnet-0a1")), kind(&fleet("b", "subnet-0b2")));
    let other = ec2(&fleet("a", "subnet-1").body.replace("nodepool", "other"));
    assert_ne!(kind(&fleet("a", "subnet-1")), kind(&other));
    let describe = |more: &str| ec2(&format!("Action=DescribeInstances{more}"));
    assert_eq!(kind(&describe("&InstanceId.1=i-1")), kind(&describe("&Filter.1.Name=x")));
}

#[test]
fn what_answers_say_of_tags_and_profiles_is_read() {
    assert_eq!(instance_ids(LAUNCHED), ["i-0a1"]);
    let described = "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><tagSet><item><key>a</key>\
        <value>x&amp;y</value></item></tagSet></item></instancesSet></item></reservationSet>";
    assert_eq!(tags_by_instance(described), [("i-1".to_owned(), [("a".to_owned(), "x&y".to_owned())].into())]);
    let profile = "<InstanceProfile><InstanceProfileName>p</InstanceProfileName><Path>/karpenter/</Path><Roles><member>\
        <Path>/</Path><RoleName>r</RoleName></member></Roles><Tags><member><Key>k</Key><Value>v</Value></member></Tags>\
        </InstanceProfile>";
    let (name, found) = profile_in(profile).unwrap();
    assert_eq!(name, "p");
    assert_eq!(found, serde_json::json!({"path": "/karpenter/", "tags": {"k": "v"}, "roles": ["/r"]}));
}

#[test]
fn ids_of_a_kind_are_one_and_names_are_not() {
    assert_eq!(plain("i-0123456789abcdef0"), plain("i-0fedcba9876543210"));
    assert_eq!(plain("arn:aws:iam::1:role/KarpenterNodeRole-demo"), "arn:aws:iam::0:role/KarpenterNodeRole-demo");
    assert_ne!(plain("/aws/service/eks"), plain("/own/service/eks"));
}
