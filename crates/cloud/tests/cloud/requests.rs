//! Requests to EC2: for the posts' classes (000 with a profile, 002 with two images and with Bottlerocket), and the additions of
//! each way of launching.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
use dovetail_cloud::family::AmiFamily;
use dovetail_cloud::launch::reserved::ReservationKind;
use dovetail_cloud::prelude::*;
use dovetail_cloud::resolve::{NodeClassView, ReservationView, ResolveSettings, instance_types};
use dovetail_cloud::{LaunchRequest, shipped};
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
            json!({"role": role, "amiFamily": "Bottlerocket", "amiSelectorTerms": alias("bottlerocket"),
                "tags": {"Name": "karpenter.sh/nodepool/default", "IntentLabel": "apps"}}),
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
    let all = instance_types(&catalogue, &view, &ResolveSettings::default());
    let one_of = |(key, values): &(&str, Vec<&str>)| NodeSelectorRequirement::one_of(*key, values.iter().copied());
    LaunchRequest {
        requirements: case.requirements.iter().map(one_of).collect(),
        requests: Resources::parse([("cpu", "1")]).unwrap(),
        candidates: all.into_iter().map(Arc::new).collect(),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        ..LaunchRequest::new("token-1", "default", Arc::new(class))
    }
}

/// A template's data by its parameters, and the decoded user data under `UserData`.
fn data(call: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = call
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("LaunchTemplateData.")?.to_owned(), value.clone())));
    let mut own: BTreeMap<String, String> = own.collect();
    let encoded = own.remove("UserData").unwrap_or_default();
    own.insert("UserData".into(), String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap());
    own
}

/// The templates and the fleet that a launch asks for.
async fn asked(name: &str) -> (Vec<BTreeMap<String, String>>, BTreeMap<String, String>) {
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let script = Script::new();
    script.answer("CreateFleet", vec![launched("i-1", "m5.large", "us-east-1a", "subnet-a")]);
    script.answer("DescribePlacementGroups", vec![ok(GROUP)]);
    script.cloud_with_reservations().launch(request(&case)).await.unwrap();
    (script.calls("CreateLaunchTemplate").iter().map(data).collect(), script.calls("CreateFleet").remove(0))
}

fn has(call: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(call.get(*key).map(String::as_str), Some(*value), "{key} of {call:?}");
    }
}

fn has_none(call: &BTreeMap<String, String>, prefix: &str) {
    assert!(call.keys().all(|key| !key.starts_with(prefix)), "{prefix} in {call:?}");
}

/// A call's parameters, a line each; user data below its name. Prices are the catalogue's, and change with it.
fn lines(what: &str, call: &BTreeMap<String, String>) -> String {
    let mut text = format!("# {what}\n");
    for (key, value) in call {
        let value = match value {
            _ if key.ends_with(".Priority") => "(the price)".to_owned(),
            value if value.contains('\n') => format!("\n    {}", value.trim_end().replace('\n', "\n    ")),
            value => value.clone(),
        };
        text.push_str(&format!("{key} = {value}\n"));
    }
    text
}

/// All of what is asked for, not only what a test thinks of. `GOLDEN=write` writes the files anew.
#[tokio::test(start_paused = true)]
async fn what_ec2_is_asked_for_is_as_in_the_golden_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cloud/golden");
    let mut differ = Vec::new();
    for case in cases() {
        let (templates, fleet) = asked(case.name).await;
        let templates: Vec<String> = templates.iter().map(|one| lines("CreateLaunchTemplate", one)).collect();
        let text = format!("{}\n{}", templates.join("\n"), lines("CreateFleet", &fleet));
        let file = folder.join(format!("{}.txt", case.name));
        if std::env::var("GOLDEN").is_ok_and(|what| what == "write") {
            std::fs::write(&file, &text).unwrap();
        }
        if std::fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            differ.push(format!("{}:\n{text}", file.display()));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, cases().len(), "a file for each case and none beside");
}

const TARGET: &str = "TargetCapacitySpecification.DefaultTargetCapacityType";
const ON_DEMAND: (&str, &str) = ("OnDemandOptions.AllocationStrategy", "lowest-price");

#[tokio::test(start_paused = true)]
async fn introduction_profile_is_in_templates_of_both_architectures() {
    let (templates, fleet) = asked("000-instance-profile").await;
    let mut images: Vec<&str> = templates.iter().map(|one| one["ImageId"].as_str()).collect();
    images.sort_unstable();
    assert_eq!(images, ["ami-amd", "ami-arm"]);
    for one in &templates {
        has(one, &[("IamInstanceProfile.Name", "KarpenterNodeInstanceProfile-eks-karpenter-demo")]);
        has_none(one, "Placement.");
        has_none(one, "InstanceMarketOptions.");
        assert!(one["UserData"].contains("/etc/eks/bootstrap.sh"), "{}", one["UserData"]);
    }
    has(&fleet, &[(TARGET, "on-demand"), ON_DEMAND]);
}

#[tokio::test(start_paused = true)]
async fn al2_with_two_images_launches_the_one_of_its_architecture() {
    let (templates, fleet) = asked("002-al2-two-images").await;
    assert_eq!(templates.len(), 1, "both types are of one architecture");
    has(&templates[0], &[("ImageId", "ami-amd"), ("IamInstanceProfile.Name", "demo_1234")]);
    assert!(templates[0]["UserData"].contains("/etc/eks/bootstrap.sh"));
    has(&fleet, &[(TARGET, "spot"), ("SpotOptions.AllocationStrategy", "price-capacity-optimized")]);
    let team = |call: &BTreeMap<String, String>| {
        let tags = call.iter().filter(|(key, value)| key.ends_with(".Key") && *value == "team");
        tags.filter(|(key, _)| call.get(&key.replace(".Key", ".Value")).is_some_and(|value| value == "blue")).count()
    };
    assert_eq!((team(&fleet), team(&templates[0])), (3, 2), "instance, volume, fleet; interface and spot request");
}

#[tokio::test(start_paused = true)]
async fn bottlerocket_gets_settings_in_toml() {
    let (templates, _) = asked("002-bottlerocket-without-terms").await;
    let read: toml::Table = templates[0]["UserData"].parse().unwrap();
    assert_eq!(read["settings"]["kubernetes"]["cluster-name"].as_str(), Some("demo"));
    let devices: Vec<&str> =
        ["1", "2"].map(|n| templates[0][&format!("BlockDeviceMapping.{n}.DeviceName")].as_str()).into();
    assert_eq!(devices, ["/dev/xvda", "/dev/xvdb"]);
}

#[tokio::test(start_paused = true)]
async fn group_partition_and_tenancy_are_in_the_template() {
    let (templates, fleet) = asked("placement-group-and-tenancy").await;
    let placed =
        [("Placement.GroupId", "pg-1"), ("Placement.PartitionNumber", "2"), ("Placement.Tenancy", "dedicated")];
    has(&templates[0], &placed);
    has(&fleet, &[(TARGET, "on-demand"), ON_DEMAND]);
    let overrides = fleet.keys().filter(|key| key.ends_with(".SubnetId")).count();
    assert_eq!(overrides, 1, "not one for each partition");
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_reservation_has_its_market_and_its_target() {
    const PREFERENCE: &str = "CapacityReservationSpecification.CapacityReservationPreference";
    const ID: &str = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";
    for (name, market, target, option) in [
        ("reserved-default", None, "on-demand", Some(ON_DEMAND)),
        ("reserved-capacity-block", Some("capacity-block"), "capacity-block", None),
        (
            "reserved-interruptible",
            Some("interruptible-capacity-reservation"),
            "reserved-capacity",
            Some(("ReservedCapacityOptions.ReservationType.1", "interruptible-capacity-reservation")),
        ),
    ] {
        let (templates, fleet) = asked(name).await;
        has(&templates[0], &[(PREFERENCE, "capacity-reservations-only"), (ID, "cr-1")]);
        assert_eq!(templates[0].get("InstanceMarketOptions.MarketType").map(String::as_str), market, "{name}");
        has(&fleet, &[(TARGET, target)]);
        for prefix in ["OnDemandOptions.", "SpotOptions.", "ReservedCapacityOptions."] {
            match option.filter(|(key, _)| key.starts_with(prefix)) {
                Some(option) => has(&fleet, &[option]),
                None => has_none(&fleet, prefix),
            }
        }
    }
}

/// EC2 knows list prices alone: where overlays rank offerings it goes by priorities, and what is paid is the list price.
#[tokio::test(start_paused = true)]
async fn overlaid_prices_are_priorities_and_the_list_price_is_paid() {
    for (capacity_type, name, strategy) in [
        ("on-demand", "OnDemandOptions.AllocationStrategy", "prioritized"),
        ("spot", "SpotOptions.AllocationStrategy", "capacity-optimized-prioritized"),
    ] {
        let case = Case {
            requirements: types(&["c5.large", "m5.large"], capacity_type),
            ..cases().into_iter().find(|case| case.name == "002-al2-two-images").unwrap()
        };
        let mut request = request(&case);
        let mut listed = 0.0;
        for one in request.candidates.iter_mut().filter(|one| one.name == "m5.large") {
            for offering in Arc::make_mut(one).offerings.iter_mut().filter(|one| one.capacity_type == capacity_type) {
                (offering.list_price, listed) = (Some(offering.price), offering.price);
                offering.price = 0.001;
            }
        }
        let script = Script::new();
        script.answer("CreateFleet", vec![launched("i-1", "m5.large", "us-east-1a", "subnet-a")]);
        let instance = script.cloud_with_reservations().launch(request).await.unwrap();
        let fleet = script.calls("CreateFleet").remove(0);
        has(&fleet, &[(name, strategy)]);
        assert!(fleet.iter().any(|(key, value)| key.ends_with(".Priority") && value == "0.001"), "{fleet:?}");
        assert_eq!(instance.price, listed);
    }
}

const GROUP: &str = "<DescribePlacementGroupsResponse><placementGroupSet><item><groupName>rack</groupName>\
    <groupId>pg-1</groupId><strategy>partition</strategy><state>available</state><partitionCount>3</partitionCount>\
    </item></placementGroupSet></DescribePlacementGroupsResponse>";
