//! What EC2 is asked for, parameter by parameter, as the files in `requests/` have it: of the posts' classes and of what each
//! way of launching adds. `UPDATE=1 cargo test --release --workspace --test cloud requests` writes them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
use dovetail_cloud::family::AmiFamily;
use dovetail_cloud::launch::reserved::ReservationKind;
use dovetail_cloud::resolve::{NodeClassView, ReservationView, Settings, instance_types};
use dovetail_cloud::{Cloud, LaunchRequest, shipped};
use dovetail_core::{NodeSelectorRequirement, Resources};
use serde_json::{Value, json};

use crate::script::{Script, launched, ok};

/// A launch: the class's spec and status beyond what all have, and what is required.
struct Case {
    name: &'static str,
    spec: Value,
    status: Value,
    family: AmiFamily,
    requirements: Vec<(&'static str, Vec<&'static str>)>,
    reservation: Option<ReservationKind>,
}

fn image(id: &str, arch: &str) -> Value {
    json!({"id": id, "name": id, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]})
}

fn both() -> Value {
    json!({"amis": [image("ami-amd", "amd64"), image("ami-arm", "arm64")]})
}

fn types(names: &[&'static str], capacity_type: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    vec![("node.kubernetes.io/instance-type", names.to_vec()), ("karpenter.sh/capacity-type", vec![capacity_type])]
}

fn cases() -> Vec<Case> {
    let alias = |family: &str| json!([{"alias": format!("{family}@latest")}]);
    let case =
        |name, spec, family, requirements| Case { name, spec, status: both(), family, requirements, reservation: None };
    let role = "KarpenterNodeRole-demo";
    let group = json!({"id": "pg-1", "name": "rack", "strategy": "partition", "partitionCount": 3});
    let mut placed = types(&["m5.large"], "on-demand");
    placed.push(("karpenter.k8s.aws/placement-group-partition", vec!["2"]));
    placed.push(("karpenter.k8s.aws/instance-tenancy", vec!["dedicated"]));
    let reserved = |name, kind| Case {
        reservation: Some(kind),
        ..case(
            name,
            json!({"role": role, "amiSelectorTerms": alias("al2023")}),
            AmiFamily::Al2023,
            types(&["m5.large"], "reserved"),
        )
    };
    vec![
        // The introduction: a profile that is there, both architectures.
        case(
            "000-instance-profile",
            json!({"instanceProfile": "KarpenterNodeInstanceProfile-eks-karpenter-demo", "amiSelectorTerms": alias("al2")}),
            AmiFamily::Al2,
            types(&["m5.large", "m6g.large"], "on-demand"),
        ),
        // Spot to spot: AL2 with two images by id, role and tags.
        case(
            "002-al2-two-images",
            json!({"role": role, "amiFamily": "AL2", "tags": {"team": "blue"},
                "amiSelectorTerms": [{"id": "ami-arm"}, {"id": "ami-amd"}]}),
            AmiFamily::Al2,
            types(&["c5.large", "m5.large"], "spot"),
        ),
        // Bottlerocket without terms, as v1beta1 allowed it.
        case(
            "002-bottlerocket-without-terms",
            json!({"role": role, "amiFamily": "Bottlerocket", "tags": {"team": "blue"}, "amiSelectorTerms": alias("bottlerocket")}),
            AmiFamily::Bottlerocket,
            types(&["m5.large"], "spot"),
        ),
        Case {
            status: json!({"amis": both()["amis"], "placementGroup": group}),
            ..case(
                "placement-group-and-tenancy",
                json!({"role": role, "amiSelectorTerms": alias("al2023"), "placementGroupSelector": {"name": "rack"}}),
                AmiFamily::Al2023,
                placed,
            )
        },
        reserved("reserved-default", ReservationKind::Default),
        reserved("reserved-capacity-block", ReservationKind::CapacityBlock),
        reserved("reserved-interruptible", ReservationKind::Interruptible),
    ]
}

fn class_of(case: &Case) -> EC2NodeClass {
    let mut spec = json!({"subnetSelectorTerms": [{"id": "subnet-a"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]});
    spec.as_object_mut().unwrap().extend(case.spec.as_object().unwrap().clone());
    let mut status = json!({
        "subnets": [{"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1"}],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "instanceProfile": case.spec["instanceProfile"].as_str().unwrap_or("demo_1234"),
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    status.as_object_mut().unwrap().extend(case.status.as_object().unwrap().clone());
    let mut class = EC2NodeClass::new("default", serde_json::from_value::<EC2NodeClassSpec>(spec).unwrap());
    class.metadata.generation = Some(1);
    class.status = Some(serde_json::from_value::<EC2NodeClassStatus>(status).unwrap());
    class
}

fn request(case: &Case) -> LaunchRequest {
    let class = class_of(case);
    let catalogue = shipped::catalogue("us-east-1");
    let mut view = NodeClassView::in_zones(case.family, catalogue.first_zones(1));
    view.placement_group.clone_from(&class.status.as_ref().unwrap().placement_group);
    let reservation = |kind| ReservationView {
        id: "cr-1".into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        kind,
        active: true,
        left: 1,
    };
    view.reservations = case.reservation.map(reservation).into_iter().collect();
    let all = instance_types(&catalogue, &view, &Settings::default());
    let one_of = |(key, values): &(&str, Vec<&str>)| NodeSelectorRequirement::one_of(*key, values.iter().copied());
    LaunchRequest {
        requirements: case.requirements.iter().map(one_of).collect(),
        requests: Resources::parse([("cpu", "1")]).unwrap(),
        candidates: all.into_iter().map(Arc::new).collect(),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        ..LaunchRequest::new("token-1", "default", Arc::new(class))
    }
}

/// The calls as text: a parameter a line, user data decoded.
fn text(script: &Script) -> String {
    let mut text = String::new();
    for action in ["CreateLaunchTemplate", "CreateFleet"] {
        for mut call in script.calls(action) {
            // Another each time, as it has the time in it.
            if action == "CreateLaunchTemplate" {
                call.remove("ClientToken");
            }
            let user_data = call.remove("LaunchTemplateData.UserData").unwrap_or_default();
            text += &format!("# {action}\n");
            let lines: BTreeMap<&String, &String> =
                call.iter().filter(|(key, _)| !["Action", "Version"].contains(&key.as_str())).collect();
            lines.into_iter().for_each(|(key, value)| text += &format!("{key}={value}\n"));
            if !user_data.is_empty() {
                let data = String::from_utf8(STANDARD.decode(user_data).unwrap()).unwrap();
                data.lines().for_each(|line| text += &format!("    {line}\n"));
            }
        }
    }
    text
}

#[tokio::test(start_paused = true)]
async fn requests_are_those_of_the_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cloud/requests");
    let update = std::env::var_os("UPDATE").is_some();
    let mut differ = Vec::new();
    for case in cases() {
        let script = Script::new();
        script.answer("CreateFleet", vec![launched("i-1", "m5.large", "us-east-1a", "subnet-a")]);
        script.answer("DescribePlacementGroups", vec![ok(GROUP)]);
        let launched = script.cloud_with_reservations().launch(request(&case)).await;
        assert!(launched.is_ok(), "{}: {launched:?}", case.name);
        let (path, found) = (folder.join(format!("{}.txt", case.name)), text(&script));
        if update {
            std::fs::write(&path, &found).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&found) {
            differ.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

const GROUP: &str = "<DescribePlacementGroupsResponse><placementGroupSet><item><groupName>rack</groupName>\
    <groupId>pg-1</groupId><strategy>partition</strategy><state>available</state><partitionCount>3</partitionCount>\
    </item></placementGroupSet></DescribePlacementGroupsResponse>";
