//! Present state of the sandbox, for the page and the line of progress.

use std::collections::BTreeMap;

use dovetail_sandbox::apiserver::LEASES;
use dovetail_sandbox::region::{InstanceState, RegionInstance};
use dovetail_simulation::World;
use serde_json::{Value, json};

use crate::cli::SandboxArgs;

/// Lines of the log that are kept.
pub const LINES: usize = 200;

/// Everything that the page shows.
pub fn page_state(world: &World, args: &SandboxArgs) -> Value {
    let nodes = nodes(world);
    let price = nodes.iter().filter_map(|node| node["price"].as_f64()).fold(0.0, |sum, price| sum + price);
    let lines = world.timeline.lines();
    let timeline: Vec<Value> = lines
        .iter()
        .map(|line| json!({"t": line.seconds, "replica": line.replica, "actor": line.actor, "event": line.event, "text": line.text}))
        .collect();
    json!({
        "cluster": args.cluster_name,
        "region": args.region,
        "speed": args.speed,
        "seed": args.seed,
        "seconds": world.now().as_secs_f64(),
        "leader": leader(world),
        "replicas": args.replicas,
        "pricePerHour": price,
        "pods": pods(world),
        "nodes": nodes,
        "instances": world.region.instances().iter().filter(|one| rises(one)).count(),
        "timeline": timeline,
    })
}

/// Line on the nodes and pods on their way; empty when there are none.
pub fn on_the_way(world: &World) -> String {
    let ready: Vec<String> = world
        .nodes()
        .iter()
        .filter(|node| is_ready(node))
        .filter_map(|node| node["spec"]["providerID"].as_str().map(str::to_owned))
        .collect();
    let instances = world.region.instances();
    let booting = instances.iter().filter(|one| rises(one) && !ready.contains(&one.provider_id())).count();
    let pods = pods(world);
    let pending = pods["pending"].as_u64().unwrap_or_default();
    let mut parts = Vec::new();
    if booting > 0 {
        parts.push(format!("{booting} node{} booting", if booting == 1 { "" } else { "s" }));
    }
    if pending > 0 {
        parts.push(format!("{pending} of {} pods pending", pods["total"]));
    }
    parts.join(", ")
}

/// True if an instance is there, or about to be.
fn rises(instance: &RegionInstance) -> bool {
    matches!(instance.state, InstanceState::Pending | InstanceState::Running)
}

/// Holder of the Lease.
fn leader(world: &World) -> Value {
    let lease = world.api.get(&LEASES, "kube-system", "karpenter-leader-election");
    lease.map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
}

/// Pods by how they are; the control plane's own are not counted.
fn pods(world: &World) -> Value {
    let (mut total, mut running, mut pending) = (0, 0, 0);
    for pod in world.pods() {
        if pod["metadata"]["labels"]["karpenter"] == "controller" {
            continue;
        }
        total += 1;
        match pod["status"]["phase"].as_str() {
            Some("Running") => running += 1,
            Some("Pending") => pending += 1,
            _ => {}
        }
    }
    json!({"total": total, "running": running, "pending": pending})
}

fn nodes(world: &World) -> Vec<Value> {
    let mut on: BTreeMap<String, usize> = BTreeMap::new();
    for pod in world.pods() {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            *on.entry(node.to_owned()).or_default() += 1;
        }
    }
    let instances: BTreeMap<String, RegionInstance> =
        world.region.instances().into_iter().map(|one| (one.provider_id(), one)).collect();
    world.nodes().iter().map(|node| one(node, &instances, &on)).collect()
}

fn one(node: &Value, instances: &BTreeMap<String, RegionInstance>, on: &BTreeMap<String, usize>) -> Value {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let instance = node["spec"]["providerID"].as_str().and_then(|id| instances.get(id));
    let state = match (node["metadata"]["deletionTimestamp"].is_string(), is_ready(node)) {
        (true, _) => "leaving",
        (false, true) => "ready",
        (false, false) => "booting",
    };
    json!({
        "name": name,
        "type": label("node.kubernetes.io/instance-type"),
        "zone": label("topology.kubernetes.io/zone"),
        "capacity": label("karpenter.sh/capacity-type"),
        "pool": label("karpenter.sh/nodepool"),
        "price": instance.map_or(0.0, |one| one.price),
        "pods": on.get(name).copied().unwrap_or(0),
        "state": state,
    })
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}
