//! The report of a run, from what stands in the API server and the region at its end and from what happened.

mod downtime;
mod limited;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dovetail_sandbox::region::RegionInstance;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::invariants;
use crate::rounding::seconds;
use crate::world::{JournalLine, World};

/// The report (docs/events.md).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    virtual_seconds: f64,
    pods: Pods,
    nodes: Vec<Node>,
    cost_per_hour: f64,
    cost_total: f64,
    launched: usize,
    terminated: usize,
    timeline: Vec<Map<String, Value>>,
    downtime: downtime::Downtime,
    invariants: invariants::CheckOutcome,
}

#[derive(Serialize)]
struct Pods {
    total: usize,
    bound: usize,
    pending: BTreeMap<String, String>,
    /// Pending pods that cannot run: by limits, or by the scenario's own faults.
    #[serde(skip)]
    limited: BTreeSet<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    instance_type: String,
    zone: String,
    capacity_type: String,
    price_per_hour: f64,
    pods: usize,
    labels: BTreeMap<String, String>,
    beforehand: bool,
}

impl Report {
    /// No pod is left pending and no invariant is violated.
    pub fn came_out_well(&self) -> bool {
        self.pods.pending.is_empty() && self.invariants.violations.is_empty()
    }

    /// Every pod that can run runs, and no invariant is violated.
    pub fn holds(&self) -> bool {
        self.pods.pending.keys().all(|name| self.pods.limited.contains(name)) && self.invariants.violations.is_empty()
    }

    /// Length of the run.
    pub fn virtual_seconds(&self) -> f64 {
        self.virtual_seconds
    }

    /// Dollars over the run.
    pub fn cost_total(&self) -> f64 {
        self.cost_total
    }

    /// Number of pods that were evicted.
    pub fn evicted(&self) -> usize {
        self.downtime.evicted
    }

    pub fn launched(&self) -> usize {
        self.launched
    }

    /// Number of launched instances that have ended.
    pub fn terminated(&self) -> usize {
        self.terminated
    }

    /// The violations, for the event log's last line.
    pub fn violations(&self) -> &[invariants::Violation] {
        &self.invariants.violations
    }
}

/// The report as things stand now.
pub fn build_report(world: &World) -> Report {
    let instances = world.region.instances_ever();
    let nodes = nodes(world, &instances);
    let now = world.now();
    Report {
        virtual_seconds: seconds(now),
        pods: pods(world),
        cost_per_hour: nodes.iter().map(|node| node.price_per_hour).fold(0.0, |sum, price| sum + price),
        nodes,
        // Starts at 0.0, as the sum of nothing would be minus zero.
        cost_total: instances.iter().fold(0.0, |sum, one| sum + cost(one, world.wall())),
        launched: instances.iter().filter(|one| !one.beforehand).count(),
        terminated: instances.iter().filter(|one| !one.beforehand && !one.state.is_alive()).count(),
        timeline: world.timeline.lines().iter().map(timeline_entry).collect(),
        downtime: world.log.with_entries(|entries| downtime::measure_downtime(entries, now)),
        invariants: invariants::check(world, &instances),
    }
}

/// Cost of an instance until now: paid by the second from its launch until it starts to go.
fn cost(instance: &RegionInstance, now: Timestamp) -> f64 {
    let paid = instance.ended.unwrap_or(now).duration_since(instance.launched);
    instance.price * paid.as_secs_f64() / 3600.0
}

fn timeline_entry(line: &JournalLine) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("t".into(), json!(line.seconds));
    entry.insert("replica".into(), json!(line.replica));
    entry.insert("actor".into(), json!(line.actor));
    entry.insert("event".into(), json!(line.event));
    entry.extend(line.fields.clone());
    entry
}

fn pods(world: &World) -> Pods {
    let known_reasons = reasons(world);
    let (mut total, mut bound, mut pending, mut kept) = (0, 0, BTreeMap::new(), BTreeSet::new());
    for pod in world.pods() {
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if finished || !pod["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        total += 1;
        if pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
            bound += 1;
            continue;
        }
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let name = format!("{}/{}", text("namespace"), text("name"));
        if world.is_kept_from_nodes(&pod) {
            kept.insert(name.clone());
        }
        let reason = known_reasons.get(&name).cloned().unwrap_or_else(|| scheduler_says(&pod));
        pending.insert(name, reason);
    }
    let limited = if pending.is_empty() { BTreeSet::new() } else { &limited::limited(world) | &kept };
    Pods { total, bound, pending, limited }
}

/// Most pods that are named for one reason.
const NAMES_LISTED: usize = 3;

/// Pods by their reasons, in the order of the first pod of each: up to three by name, of more how many.
fn by_reason(pending: &BTreeMap<String, String>) -> Vec<(String, &str)> {
    let (mut all, mut places): (Vec<(Vec<&str>, &str)>, BTreeMap<&str, usize>) = (Vec::new(), BTreeMap::new());
    for (name, reason) in pending {
        let place = *places.entry(reason).or_insert(all.len());
        match all.get_mut(place) {
            Some((names, _)) => names.push(name),
            None => all.push((vec![name], reason)),
        }
    }
    let named = |names: Vec<&str>| {
        let first = names.iter().take(NAMES_LISTED).copied().collect::<Vec<_>>().join(", ");
        if names.len() > NAMES_LISTED { format!("{} pods, such as {first}", names.len()) } else { first }
    };
    all.into_iter().map(|(names, reason)| (named(names), reason)).collect()
}

/// The control plane's latest word on each pod that it could not place.
fn reasons(world: &World) -> BTreeMap<String, String> {
    let lines = world.timeline.lines();
    let unplaced = lines.iter().filter(|line| line.event == "pod_unschedulable");
    unplaced
        .filter_map(|line| {
            Some((line.fields.get("pod")?.as_str()?.to_owned(), line.fields.get("error")?.as_str()?.to_owned()))
        })
        .collect()
}

fn scheduler_says(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.and_then(|all| all.iter().find(|one| one["type"] == "PodScheduled"));
    let message = scheduled.and_then(|one| one["message"].as_str());
    let scheduler = pod["spec"]["schedulerName"].as_str().filter(|name| *name != "default-scheduler");
    match (message, scheduler) {
        (Some(message), _) => message.to_owned(),
        (None, Some(other)) => format!("its scheduler, {other}, does not run here"),
        (None, None) => "not looked at yet".to_owned(),
    }
}

fn nodes(world: &World, instances: &[RegionInstance]) -> Vec<Node> {
    let mut pods_on: BTreeMap<String, usize> = BTreeMap::new();
    let finished = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    for pod in world.pods().into_iter().filter(|pod| !finished(pod)) {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            *pods_on.entry(node.to_owned()).or_default() += 1;
        }
    }
    let by_provider_id: BTreeMap<String, &RegionInstance> =
        instances.iter().map(|one| (one.provider_id(), one)).collect();
    let mut nodes: Vec<Node> = world.nodes().iter().map(|node| one_node(node, &by_provider_id, &pods_on)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn one_node(node: &Value, instances: &BTreeMap<String, &RegionInstance>, pods_on: &BTreeMap<String, usize>) -> Node {
    let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let labels: BTreeMap<String, String> =
        serde_json::from_value(node["metadata"]["labels"].clone()).unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let instance = node["spec"]["providerID"].as_str().and_then(|id| instances.get(id).copied());
    Node {
        instance_type: instance
            .map_or_else(|| label("node.kubernetes.io/instance-type"), |one| one.instance_type.clone()),
        zone: instance.map_or_else(|| label("topology.kubernetes.io/zone"), |one| one.zone.clone()),
        capacity_type: instance
            .map_or_else(|| label("karpenter.sh/capacity-type"), |one| one.capacity_name().to_owned()),
        price_per_hour: instance.map_or(0.0, |one| one.price),
        pods: pods_on.get(&name).copied().unwrap_or(0),
        beforehand: instance.is_none_or(|one| one.beforehand),
        labels,
        name,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nafter {} s of virtual time: {} of {} pods bound",
            self.virtual_seconds, self.pods.bound, self.pods.total
        )?;
        for (names, reason) in by_reason(&self.pods.pending) {
            writeln!(f, "  pending: {names}: {reason}")?;
        }
        for node in &self.nodes {
            let there = if node.beforehand { ", there beforehand" } else { "" };
            writeln!(
                f,
                "  {} {} {} {} ${:.4}/h, {} pods{there}",
                node.name, node.instance_type, node.zone, node.capacity_type, node.price_per_hour, node.pods
            )?;
        }
        writeln!(
            f,
            "${:.4} an hour now, ${:.4} since the start (spot prices are synthetic)",
            self.cost_per_hour, self.cost_total
        )?;
        writeln!(f, "{} instances launched, {} terminated", self.launched, self.terminated)?;
        write!(f, "{} invariants checked", self.invariants.checked)?;
        if self.invariants.violations.is_empty() {
            return writeln!(f, ", none violated");
        }
        writeln!(f, ", VIOLATED:")?;
        for violation in &self.invariants.violations {
            writeln!(f, "  {} at {} s: {}", violation.id, violation.t, violation.what)?;
        }
        Ok(())
    }
}
