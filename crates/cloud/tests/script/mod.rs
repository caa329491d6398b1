//! EC2 by script: each action has its answers in line, the last of which stays; every request is kept.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::LaunchRequest;
use dovetail_cloud::ec2::adapt::{BrokenConnection, http_client};
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_cloud::family::AmiFamily;
use dovetail_cloud::resolve::{NodeClassView, ResolveSettings, instance_types};
use dovetail_cloud::shipped;
use dovetail_core::clock::Clock;
use dovetail_core::{NodeSelectorRequirement, Resources};
use futures::FutureExt;
use serde_json::json;

/// An answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    Ok(String),
    Error(u16, &'static str, &'static str),
    Never,
    Broken,
}

pub fn ok(body: impl Into<String>) -> Answer {
    Answer::Ok(body.into())
}

/// The scripted service.
#[derive(Default)]
pub struct Script {
    answers: Mutex<BTreeMap<String, VecDeque<Answer>>>,
    calls: Mutex<Vec<(String, BTreeMap<String, String>)>>,
}

/// Time that tokio can move.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_780_000_000).unwrap() + jiff::SignedDuration::try_from(self.monotonic()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Script {
    /// A service that lets launches through; say what is to be different with [`Script::answer`].
    pub fn new() -> Arc<Self> {
        let script = Arc::new(Self::default());
        script.answer("DescribeSubnets", vec![ok(SUBNETS)]);
        script.answer(
            "DescribeLaunchTemplates",
            vec![Answer::Error(400, "InvalidLaunchTemplateName.NotFoundException", "no")],
        );
        script.answer("CreateLaunchTemplate", vec![ok("<CreateLaunchTemplateResponse/>")]);
        script.answer("CreateFleet", vec![launched("i-1", "m5.large", "us-east-1b", "subnet-b")]);
        script.answer("DescribeCluster", vec![ok(CLUSTER)]);
        script
    }

    pub fn answer(&self, action: &str, answers: Vec<Answer>) {
        self.answers.lock().unwrap().insert(action.to_owned(), answers.into());
    }

    /// Parameters of every call of an action.
    pub fn calls(&self, action: &str) -> Vec<BTreeMap<String, String>> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(name, _)| name == action).map(|(_, parameters)| parameters.clone()).collect()
    }

    pub fn cloud(self: &Arc<Self>) -> Ec2Cloud {
        self.cloud_with(|_| ())
    }

    /// With the gate ReservedCapacity.
    pub fn cloud_with_reservations(self: &Arc<Self>) -> Ec2Cloud {
        self.cloud_with(|settings| settings.reserved_capacity = true)
    }

    /// With other settings.
    pub fn cloud_with(self: &Arc<Self>, change: impl FnOnce(&mut Ec2Settings)) -> Ec2Cloud {
        let script = Arc::clone(self);
        let client = http_client(move |request| {
            let script = Arc::clone(&script);
            async move { script.respond(&request).await }.boxed()
        });
        let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
        let mut settings = Ec2Settings {
            cluster_name: "demo".into(),
            cluster_uid: "uid-1".into(),
            cluster_dns: Some("10.100.0.10".into()),
            ..Ec2Settings::default()
        };
        change(&mut settings);
        Ec2Cloud::new(SdkParts::in_process(client, "us-east-1", clock), settings)
    }

    async fn respond(&self, request: &http::Request<Bytes>) -> Result<http::Response<Bytes>, BrokenConnection> {
        let parameters = parameters(request.body());
        let action = parameters.get("Action").cloned().unwrap_or_else(|| "DescribeCluster".to_owned());
        self.calls.lock().unwrap().push((action.clone(), parameters));
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            let line = answers.get_mut(&action).unwrap_or_else(|| panic!("no answer for {action}"));
            if line.len() > 1 { line.pop_front().unwrap() } else { line[0].clone() }
        };
        let response =
            |status: u16, body: String| Ok(http::Response::builder().status(status).body(Bytes::from(body)).unwrap());
        match answer {
            Answer::Ok(body) => response(200, body),
            // IAM writes errors in another way than EC2.
            Answer::Error(status, code, message) if action.contains("InstanceProfile") => response(
                status,
                format!(
                    "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
                ),
            ),
            Answer::Error(status, code, message) => response(
                status,
                format!(
                    "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>r</RequestID></Response>"
                ),
            ),
            Answer::Never => std::future::pending().await,
            Answer::Broken => Err(BrokenConnection),
        }
    }
}

fn parameters(body: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(body).into_owned().collect()
}

/// A fleet with one instance.
pub fn launched(id: &str, kind: &str, zone: &str, subnet: &str) -> Answer {
    ok(format!(
        "<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet/><fleetInstanceSet><item>\
         <launchTemplateAndOverrides><overrides><instanceType>{kind}</instanceType>\
         <availabilityZone>{zone}</availabilityZone><subnetId>{subnet}</subnetId></overrides></launchTemplateAndOverrides>\
         <lifecycle>spot</lifecycle><instanceIds><item>{id}</item></instanceIds><instanceType>{kind}</instanceType>\
         </item></fleetInstanceSet></CreateFleetResponse>"
    ))
}

/// A fleet without an instance, and why.
pub fn refused(code: &str) -> Answer {
    ok(format!(
        "<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet><item><launchTemplateAndOverrides><overrides>\
         <instanceType>m5.large</instanceType><availabilityZone>us-east-1a</availabilityZone>\
         <subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides><lifecycle>spot</lifecycle>\
         <errorCode>{code}</errorCode><errorMessage>no</errorMessage></item></errorSet><fleetInstanceSet/>\
         </CreateFleetResponse>"
    ))
}

/// A class that is ready, with a subnet in each of three zones.
pub fn class() -> EC2NodeClass {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "class-uid", "generation": 1},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "KarpenterNodeRole-demo",
            "tags": {"team": "blue"},
        },
        "status": {
            "subnets": [
                {"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az6"},
                {"id": "subnet-b", "zone": "us-east-1b", "zoneID": "use1-az1"},
                {"id": "subnet-b2", "zone": "us-east-1b", "zoneID": "use1-az1"},
            ],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [
                {"id": "ami-amd", "name": "al2023", "requirements": [requirement("kubernetes.io/arch", &["amd64"])]},
                {"id": "ami-arm", "name": "al2023", "requirements": [requirement("kubernetes.io/arch", &["arm64"])]},
            ],
            "instanceProfile": "demo_1",
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "Ready", "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }))
    .unwrap()
}

/// A launch of one of these types.
pub fn request(token: &str, types: &[&str], capacity_type: &str) -> LaunchRequest {
    let catalogue = shipped::catalogue("us-east-1");
    let view = NodeClassView::in_zones(AmiFamily::Al2023, catalogue.first_zones(2));
    let all = instance_types(&catalogue, &view, &ResolveSettings::default());
    let one_of = |key: &str, values: &[&str]| NodeSelectorRequirement::one_of(key, values.iter().copied());
    LaunchRequest {
        requirements: vec![
            one_of("node.kubernetes.io/instance-type", types),
            one_of("karpenter.sh/capacity-type", &[capacity_type]),
        ],
        requests: Resources::parse([("cpu", "1")]).unwrap(),
        candidates: all.into_iter().map(Arc::new).collect(),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        ..LaunchRequest::new(token, "default", Arc::new(class()))
    }
}

const SUBNETS: &str = "<DescribeSubnetsResponse><subnetSet>\
    <item><subnetId>subnet-a</subnetId><availabilityZone>us-east-1a</availabilityZone><availableIpAddressCount>100</availableIpAddressCount></item>\
    <item><subnetId>subnet-b</subnetId><availabilityZone>us-east-1b</availabilityZone><availableIpAddressCount>50</availableIpAddressCount></item>\
    <item><subnetId>subnet-b2</subnetId><availabilityZone>us-east-1b</availabilityZone><availableIpAddressCount>40</availableIpAddressCount></item>\
    </subnetSet></DescribeSubnetsResponse>";

const CLUSTER: &str = r#"{"cluster": {"name": "demo", "version": "1.33", "endpoint": "https://demo.example",
    "certificateAuthority": {"data": "Y2E="}, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"}}}"#;
