//! A look at a cluster, of its objects or of a simulated world.

use std::collections::BTreeMap;

use dovetail_api::names::labels;
use dovetail_core::Resources;
use dovetail_core::resources::{CPU, MEMORY};
use serde_json::Value;

use super::{NodesSeen, Seen};
use crate::world::World;

const GIB: f64 = (1u64 << 30) as f64;

/// A look at Nodes and Pods. Nodes that come and go are for the caller to count.
pub fn observe<'a>(
    nodes: impl IntoIterator<Item = &'a Value>,
    pods: impl IntoIterator<Item = &'a Value>,
    price: impl Fn(&Value) -> Option<f64>,
) -> Seen {
    let mut seen = Seen::default();
    let mut groups: BTreeMap<[String; 4], NodesSeen> = BTreeMap::new();
    for node in nodes {
        let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
        let price = price(node);
        let key =
            [label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE), label(labels::NODE_POOL)];
        let [instance_type, zone, capacity_type, node_pool] = key.clone();
        let new = NodesSeen { instance_type, zone, capacity_type, node_pool, count: 0, price };
        groups.entry(key).or_insert(new).count += 1;
        seen.price_per_hour += price.unwrap_or_default();
        let room = amounts(&node["status"]["allocatable"]);
        seen.allocatable_cpu += room.get(CPU) as f64 / 1000.0;
        seen.allocatable_memory += room.get(MEMORY) as f64 / GIB;
    }
    seen.nodes = groups.into_values().collect();
    for pod in pods.into_iter().filter(|pod| counts(pod)) {
        if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            seen.pending += 1;
            continue;
        }
        seen.bound += 1;
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let requests = amounts(&container["resources"]["requests"]);
            seen.requested_cpu += requests.get(CPU) as f64 / 1000.0;
            seen.requested_memory += requests.get(MEMORY) as f64 / GIB;
        }
    }
    seen
}

/// True for a pod that has not ended and is not going.
fn counts(pod: &Value) -> bool {
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !finished && pod["metadata"]["deletionTimestamp"].is_null()
}

fn amounts(value: &Value) -> Resources {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// A look at a simulated world, where an instance costs from its launch.
pub fn observe_world(world: &World) -> Seen {
    let (nodes, pods) = (world.nodes(), world.pods());
    let instances = world.region.instances_ever();
    let prices: BTreeMap<String, f64> = instances.iter().map(|one| (one.provider_id(), one.price)).collect();
    let price = |node: &Value| prices.get(node["spec"]["providerID"].as_str()?).copied();
    let mut seen = observe(nodes.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref), price);
    let alive = instances.iter().filter(|one| one.state.is_alive());
    seen.price_per_hour = alive.fold(0.0, |sum, one| sum + one.price);
    let own = || instances.iter().filter(|one| !one.beforehand);
    seen.launched = own().count();
    seen.ended = own().filter(|one| !one.state.is_alive()).count();
    seen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_nodes_are_one_line_and_pods_count_by_their_node() {
        let node = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/nodepool": "p"}},
            "status": {"allocatable": {"cpu": "1900m", "memory": "6Gi"}}});
        let pod = |node: Option<&str>, phase: &str| {
            json!({"metadata": {}, "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
                "status": {"phase": phase}})
        };
        let pods = [pod(Some("n"), "Running"), pod(None, "Pending"), pod(Some("n"), "Succeeded")];
        let seen = observe([&node, &node], &pods, |_| Some(0.1));
        assert_eq!((seen.nodes.len(), seen.nodes[0].count, seen.bound, seen.pending), (1, 2, 1, 1));
        assert!((seen.price_per_hour - 0.2).abs() < 1e-9 && (seen.allocatable_cpu - 3.8).abs() < 1e-9);
        assert!((seen.requested_cpu - 0.5).abs() < 1e-9 && (seen.requested_memory - 1.0).abs() < 1e-9);
    }
}
