//! The seam bears another cloud: the same actors, over EC2 on the AWS SDK and over the embedded region without either, come
//! to the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_cloud::Cloud;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use dovetail_sandbox::faults::SpotRise;
use dovetail_sandbox::log::EventLog;
use dovetail_sandbox::region::{CapacityType, InstanceState, Region, RegionConfig, RegionInstance};
use serde_json::{Value, json};
use world::region::RegionCloud;
use world::{World, minutes, run, seconds};

/// Uid of this cluster.
const UID: &str = "uid-of-this-cluster";

/// Implementations behind the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// EC2's protocols, spoken by the AWS SDK.
    Sdk,
    /// The region itself.
    Region,
}

/// Runs a test with either behind the seam, and holds that it comes to the same.
fn same_by_both<T, F>(test: impl Fn(World, Region) -> F)
where
    T: Debug + PartialEq,
    F: Future<Output = T>,
{
    let outcomes = [Behind::Sdk, Behind::Region].map(|behind| {
        let mut outcome = None;
        let into = &mut outcome;
        let test = &test;
        run(|world| async move {
            let region = region(&world);
            let world = world.clone().with_cloud(cloud(behind, &region, &world));
            tokio::task::spawn_local(region.run());
            tokio::task::spawn_local(kubelets(world.clone(), region.clone()));
            *into = Some(test(world, region).await);
        });
        outcome.unwrap()
    });
    assert_eq!(outcomes[0], outcomes[1], "by the SDK, and by the region itself");
}

fn region(world: &World) -> Region {
    let log = EventLog::new(world.clock.clone());
    Region::new(RegionConfig::new("us-east-1", "demo"), world.clock.clone(), log, world.faults.clone())
}

fn cloud(behind: Behind, region: &Region, world: &World) -> Arc<dyn Cloud> {
    match behind {
        Behind::Region => Arc::new(RegionCloud::new(region.clone(), UID)),
        Behind::Sdk => {
            let client = region.http_client(Caller::replica(0, "controller"));
            let (cluster_name, cluster_uid) = ("demo".into(), UID.into());
            let settings = Ec2Settings { cluster_name, cluster_uid, ..Ec2Settings::default() };
            Arc::new(Ec2Cloud::new(SdkParts::in_process(client, "us-east-1", world.clock.clone()), settings))
        }
    }
}

/// Nodes join for instances that run, by what their claims say of them, and are gone with them.
async fn kubelets(world: World, region: Region) {
    let mut changes = region.subscribe();
    while let Some(change) = changes.recv().await {
        let Some(instance) = region.instance(&change.id) else { continue };
        match change.state {
            InstanceState::Running => drop(tokio::task::spawn_local(join(world.clone(), instance))),
            InstanceState::Terminated => {
                let _ = world.api.delete(&NODES, "", &instance.hostname, &DeleteOptions::default());
            }
            InstanceState::Pending | InstanceState::ShuttingDown => {}
        }
    }
}

async fn join(world: World, instance: RegionInstance) {
    let is_its = |claim: &Arc<Value>| claim["status"]["providerID"] == *instance.provider_id();
    let claim = loop {
        if let Some(claim) = world.claims().into_iter().find(is_its) {
            break claim;
        }
        tokio::time::sleep(seconds(1)).await;
    };
    tokio::time::sleep(seconds(20)).await;
    let name = &instance.hostname;
    let mut labels = claim["metadata"]["labels"].clone();
    labels["kubernetes.io/hostname"] = json!(name);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": instance.provider_id(), "taints": [
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}});
    world.api.create(&NODES, "", node).unwrap();
    let amounts = json!({"cpu": claim["status"]["allocatable"]["cpu"], "memory": "900Gi", "pods": "200"});
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "capacity": amounts, "allocatable": amounts}});
    world.api.patch_status(&NODES, "", name, &status).unwrap();
}

/// A pool of nodes of these types and this capacity type, and its class.
fn pool(world: &World, capacity_type: &str, types: &[&str]) {
    let terms = json!([{"tags": {"karpenter.sh/discovery": "demo"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "KarpenterNodeRole-demo", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms},
    });
    world.api.create(&EC2_NODE_CLASSES, "", class).unwrap();
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]);
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
    });
    world.api.create(&NODE_POOLS, "", pool).unwrap();
}

fn listening() -> Settings {
    Settings { interruption_queue: "demo".into(), ..Settings::default() }
}

/// Types and capacity types of the instances that live.
fn living(region: &Region) -> Vec<(String, &'static str)> {
    let alive = region.instances().into_iter().filter(|one| one.state.is_alive());
    let mut all: Vec<_> = alive.map(|one| (one.instance_type.clone(), one.capacity_name())).collect();
    all.sort();
    all
}

/// Number of events of each kind that mark a node's way.
fn way(world: &World) -> BTreeMap<String, usize> {
    let told = ["launched", "registered", "initialized", "interrupted", "draining", "drained", "terminated", "gave_up"];
    told.map(|event| (event.to_owned(), world.journal.count(event))).into()
}

#[test]
fn the_way_of_a_pod_is_the_same() {
    same_by_both(|world, region| async move {
        pool(&world, "on-demand", &["m5.large", "m5.xlarge", "c5.xlarge"]);
        world.pods(3, "1500m");
        let _replica = world.replica_with(0, listening());
        world.until_bound(3, minutes(5)).await;
        tokio::time::sleep(minutes(1)).await;
        let tagged = region.instances().iter().all(|one| one.tags.contains_key("karpenter.sh/nodeclaim"));
        assert!(tagged, "tags after registration: {:?}", region.instances());
        assert!(!living(&region).is_empty());
        (living(&region), world.claims().len(), way(&world))
    });
}

#[test]
fn what_is_sold_out_is_got_elsewhere_the_same_way() {
    same_by_both(|world, region| async move {
        world.faults.change(|faults| faults.ec2.insufficient_capacity = vec!["m5.large/*/*".into()]);
        pool(&world, "on-demand", &["m5.large", "m5.xlarge"]);
        world.pods(1, "1500m");
        let _replica = world.replica_with(0, listening());
        world.until_bound(1, minutes(5)).await;
        assert_eq!(living(&region), [("m5.xlarge".to_owned(), "on-demand")]);
        (living(&region), world.claims().len())
    });
}

#[test]
fn an_interruption_is_the_same() {
    same_by_both(|world, region| async move {
        pool(&world, "spot", &["m5.large"]);
        world.pods(1, "1500m");
        let _replica = world.replica_with(0, listening());
        world.until_bound(1, minutes(5)).await;
        tokio::time::sleep(minutes(2)).await;
        let first = region.instances()[0].id.clone();
        region.interrupt(&first, seconds(120), false).unwrap();
        let gone = || region.instance(&first).is_none_or(|one| !one.state.is_alive());
        world.until(minutes(3), gone).await;
        tokio::time::sleep(minutes(1)).await;
        assert!(world.journal.count("interrupted") > 0, "{}", world.log_events().join("\n"));
        assert!(region.receive(10, seconds(0)).is_empty(), "the queue is empty");
        (living(&region), world.claims().len(), world.journal.count("interrupted"), world.journal.count("drained"))
    });
}

#[test]
fn a_termination_is_the_same() {
    same_by_both(|world, region| async move {
        pool(&world, "on-demand", &["m5.large"]);
        world.pods(1, "1500m");
        let _replica = world.replica_with(0, listening());
        world.until_bound(1, minutes(5)).await;
        let claim = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let first = region.instances()[0].id.clone();
        world.api.delete(&NODE_CLAIMS, "", &claim, &DeleteOptions::default()).unwrap();
        world.until(minutes(10), || world.api.get(&NODE_CLAIMS, "", &claim).is_none()).await;
        assert!(region.instance(&first).is_none_or(|one| !one.state.is_alive()), "{}", world.log_events().join("\n"));
        (living(&region), world.api.list(&PODS).len(), way(&world))
    });
}

#[test]
fn spot_prices_are_read_again_and_dearer_type_left_the_same_way() {
    same_by_both(|world, region| async move {
        let types = ["m5.large", "m5a.large"];
        let price = |one: &str| {
            let in_zones =
                region.zones().into_iter().filter_map(|zone| region.price(one, &zone.name, CapacityType::Spot));
            in_zones.fold(f64::INFINITY, f64::min)
        };
        let cheap = if price(types[0]) <= price(types[1]) { types[0] } else { types[1] };
        world.faults.change(|faults| {
            let rise = SpotRise { types: vec![cheap.to_owned()], times: 8.0, within: minutes(60) };
            faults.ec2.spot_rise = Some(rise);
        });
        pool(&world, "spot", &types);
        world.pods(1, "1500m");
        let _replica = world.replica_with(0, listening());
        world.until_bound(1, minutes(5)).await;
        let first = living(&region);
        tokio::time::sleep(minutes(130)).await;
        world.pods_of("later", 1, "1500m");
        world.until_bound(2, minutes(5)).await;
        let both: Vec<String> = living(&region).into_iter().map(|(name, _)| name).collect();
        assert_eq!(both, types, "the second one is of the other type");
        (first, both)
    });
}
