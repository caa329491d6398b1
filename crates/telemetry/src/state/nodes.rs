//! Gauges of nodes: capacity, usage and age.

use std::collections::BTreeMap;

use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::labels;
use dovetail_core::cluster_state::{NodeEntry, Snapshot};
use dovetail_core::resources::{CPU, MEMORY, PODS, Resources};
use dovetail_observability::metrics::MetricsPage;

use super::{amount, less, metric_label};

pub(super) struct NodeRow<'a> {
    node: &'a NodeEntry,
    requests: Resources,
    daemons: Resources,
}

impl<'a> NodeRow<'a> {
    fn from_node(node: &'a NodeEntry, snapshot: &Snapshot) -> Self {
        let (mut requests, mut daemons) = (Resources::new(), Resources::new());
        let load = snapshot.loads.get(&node.name);
        for pod in load.into_iter().flat_map(|load| load.pods.values()) {
            let sum = if pod.daemon { &mut daemons } else { &mut requests };
            sum.add(&pod.pod.requests);
            sum.set(PODS, sum.get(PODS) + 1);
        }
        Self { node, requests, daemons }
    }
}

/// Writes the use of all nodes together, and that of each where that is wanted.
pub(super) fn nodes(page: &mut MetricsPage, view: &ReplicaView, with_each: bool) {
    let snapshot = &view.snapshot;
    let rows: Vec<_> = snapshot.nodes.values().map(|node| NodeRow::from_node(node, snapshot)).collect();
    if with_each {
        each_node(page, view, &rows);
    }
    let (mut used, mut whole) = (Resources::new(), Resources::new());
    for row in &rows {
        whole.add(&row.node.allocatable);
        used.add(&row.requests);
        used.add(&row.daemons);
    }
    page.gauge("karpenter_cluster_utilization_percent", "How much of all nodes is requested");
    for resource in [CPU, MEMORY] {
        let share = 100.0 * amount(resource, &used) / amount(resource, &whole).max(f64::MIN_POSITIVE);
        let share = if whole.get(resource) == 0 { 0.0 } else { share };
        page.sample("karpenter_cluster_utilization_percent", &[("resource_type", resource)], share);
    }
}

fn each_node(page: &mut MetricsPage, view: &ReplicaView, rows: &[NodeRow<'_>]) {
    let snapshot = &view.snapshot;
    let well_known: Vec<(&str, String)> = labels::CORE_WELL_KNOWN
        .iter()
        .chain(&[labels::INSTANCE_CATEGORY, labels::INSTANCE_FAMILY, labels::INSTANCE_SIZE])
        .map(|key| (*key, metric_label(key)))
        .collect();
    let mut one = |name: &str, help: &str, of: &dyn Fn(&NodeRow<'_>) -> Resources| {
        page.gauge(name, help);
        for row in rows {
            let own = of(row);
            for (resource, _) in row.node.allocatable.iter() {
                let value = amount(resource, &own);
                node_sample(page, name, row.node, Some(resource), &well_known, value);
            }
        }
    };
    one("karpenter_nodes_allocatable", "What pods may use of a node", &|row| row.node.allocatable.clone());
    one("karpenter_nodes_total_pod_requests", "What pods request of a node, DaemonSets' excepted", &|row| {
        row.requests.clone()
    });
    one("karpenter_nodes_total_daemon_requests", "What DaemonSets' pods request of a node", &|row| row.daemons.clone());
    one("karpenter_nodes_system_overhead", "What a node keeps for itself", &|row| {
        less(&row.node.capacity, &row.node.allocatable)
    });
    page.gauge("karpenter_nodes_current_lifetime_seconds", "How old a node is");
    for entry in snapshot.claims.values() {
        let (Some(created), Some(node)) = (entry.facts.created, snapshot.nodes.get(&entry.facts.node)) else {
            continue;
        };
        let seconds = view.now.wall.duration_since(created).as_secs_f64();
        node_sample(page, "karpenter_nodes_current_lifetime_seconds", node, None, &well_known, seconds);
    }
}

pub(super) fn node_sample(
    page: &mut MetricsPage,
    name: &str,
    node: &NodeEntry,
    resource: Option<&str>,
    well_known: &[(&str, String)],
    value: f64,
) {
    let managed = if node.managed() { "true" } else { "false" };
    let mut own = vec![("node_name", node.name.as_str()), ("phase", ""), ("managed", managed)];
    own.extend(resource.map(|resource| ("resource_type", resource)));
    own.extend(well_known.iter().map(|(key, label)| (label.as_str(), label_of(&node.labels, key))));
    page.sample(name, &own, value);
}

pub(super) fn label_of<'a>(own: &'a BTreeMap<String, String>, key: &str) -> &'a str {
    own.get(key).map_or("", String::as_str)
}
