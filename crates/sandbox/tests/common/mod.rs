//! A region on virtual time, raw requests to it, and its clients.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use bytes::Bytes;
use dovetail_sandbox::Caller;
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::FaultsInForce;
use dovetail_sandbox::log::EventLog;
use dovetail_sandbox::region::{Region, RegionConfig};

/// A region named us-east-1 with a cluster `demo`; to be made within a paused runtime.
pub fn region(seed: u64) -> Region {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let config = RegionConfig { seed, ..RegionConfig::new("us-east-1", "demo") };
    Region::new(config, clock.clone(), EventLog::new(clock), FaultsInForce::new(seed))
}

/// Like [`region`], with its log.
pub fn region_and_log(seed: u64) -> (Region, EventLog) {
    let clock = Arc::new(VirtualClock::new(DEFAULT_START));
    let config = RegionConfig { seed, ..RegionConfig::new("us-east-1", "demo") };
    let log = EventLog::new(clock.clone());
    (Region::new(config, clock, log.clone(), FaultsInForce::new(seed)), log)
}

pub fn who() -> Caller {
    Caller::replica(0, "controller")
}

/// Sends a query request to EC2: status and body.
pub async fn ec2(region: &Region, body: &str) -> (u16, String) {
    query(region, &format!("Version=2016-11-15&{body}")).await
}

/// Sends any query request.
pub async fn query(region: &Region, body: &str) -> (u16, String) {
    let request = http::Request::post("/").body(Bytes::from(body.to_owned())).unwrap();
    let response = region.handle(who(), request).await;
    (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
}

/// Sends a JSON request: status and answer.
pub async fn json(region: &Region, target: &str, body: serde_json::Value) -> (u16, serde_json::Value) {
    let request = http::Request::post("/").header("x-amz-target", target).body(Bytes::from(body.to_string())).unwrap();
    let response = region.handle(who(), request).await;
    (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap())
}

/// The texts of all elements of a name, in order.
pub fn texts<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split_once(&close).map(|(text, _)| text)).collect()
}

/// The text of the first element of a name.
pub fn text<'a>(xml: &'a str, name: &str) -> &'a str {
    texts(xml, name).first().copied().unwrap_or_else(|| panic!("no <{name}> in {xml}"))
}

/// Creates the launch template `nodes` with an image of the architecture, and gives the subnet of a zone.
pub async fn prepare(region: &Region, zone: &str) -> String {
    let path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = region.parameter(path).unwrap();
    let (status, body) = ec2(
        region,
        &format!("Action=CreateLaunchTemplate&LaunchTemplateName=nodes&LaunchTemplateData.ImageId={image}&LaunchTemplateData.IamInstanceProfile.Name=KarpenterNodeInstanceProfile-demo"),
    )
    .await;
    assert_eq!(status, 200, "{body}");
    subnet(region, zone).await
}

/// The subnet of a zone.
pub async fn subnet(region: &Region, zone: &str) -> String {
    let body = format!("Action=DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1={zone}");
    text(&ec2(region, &body).await.1, "subnetId").to_owned()
}
