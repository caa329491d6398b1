//! The cluster in figures: nodes, pools, pods that wait and recent decisions, as `dovetail top` shows them.

use std::collections::BTreeMap;

use dovetail_api::names::labels;
use dovetail_core::cluster_state::{NodeEntry, PlanningInput, PodEntry, Snapshot};
use dovetail_core::lifecycle::ClaimStage;
use dovetail_core::problem::Pool;
use dovetail_core::resources::{CPU, MEMORY, PODS, Resources};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;

use crate::live::Missing;
use crate::live::price::price_by_labels;

/// An amount with what it is a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub used: i64,
    pub of: i64,
}

impl Share {
    fn new(name: &str, used: &Resources, of: &Resources) -> Self {
        Self { used: used.get(name), of: of.get(name) }
    }

    fn add(&mut self, other: Self) {
        self.used = self.used.saturating_add(other.used);
        self.of = self.of.saturating_add(other.of);
    }

    /// The part that is used, from 0; `None` where there is nothing to use.
    #[allow(clippy::cast_precision_loss)]
    pub fn ratio(self) -> Option<f64> {
        (self.of > 0).then(|| (self.used as f64 / self.of as f64).max(0.0))
    }
}

/// Phases of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    Ready,
    /// Ordered; its instance is not known.
    Launching,
    /// Launched; its node has not joined or is not ready for pods.
    Booting,
    NotReady,
    Cordoned,
    Terminating,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Launching => "Launching",
            Self::Booting => "Booting",
            Self::NotReady => "NotReady",
            Self::Cordoned => "Cordoned",
            Self::Terminating => "Terminating",
        }
    }
}

/// A node, or a NodeClaim whose node is not there yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Name of the node; that of its claim while it has none.
    pub name: String,
    /// True if there is no Node yet.
    pub is_claim: bool,
    /// Name of its NodePool; empty for a node of nobody's.
    pub pool: String,
    pub instance_type: String,
    pub capacity_type: String,
    pub zone: String,
    /// Dollars an hour; `None` where that is not known.
    pub price: Option<f64>,
    pub pods: Share,
    /// Requests of its pods in thousandths of a core, and what it has for pods.
    pub cpu: Share,
    /// Requests of its pods in bytes, and what it has for pods.
    pub memory: Share,
    pub created: Option<Timestamp>,
    pub phase: Phase,
}

/// A NodePool with the sums of its nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    pub name: String,
    pub nodes: usize,
    pub ready: usize,
    /// Claims whose nodes are not ready for pods yet.
    pub coming: usize,
    /// Dollars an hour of its nodes, as far as their prices are known.
    pub price: f64,
    pub cpu: Share,
    pub memory: Share,
    /// The limit that is nearest to full: resource, used and allowed; `None` without limits.
    pub limit: Option<LimitRow>,
    /// True if its condition Ready is True, or it has none.
    pub is_ready: bool,
}

/// Use of a limit of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    pub resource: String,
    #[serde(flatten)]
    pub share: Share,
}

/// Pods of one workload that wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRow {
    pub namespace: String,
    /// Name of one of them.
    pub pod: String,
    pub count: usize,
    /// Creation of the one that waits longest.
    pub since: Option<Timestamp>,
    /// The last thing that was said of one of them; empty if nothing was.
    pub why: String,
}

/// A recent event of the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRow {
    pub at: Option<Timestamp>,
    pub is_warning: bool,
    pub reason: String,
    /// Kind of the object, and its name.
    pub object: String,
    pub message: String,
}

/// Sums over the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub nodes: usize,
    pub ready: usize,
    pub coming: usize,
    pub pods: usize,
    pub pending: usize,
    pub cpu: Share,
    pub memory: Share,
    /// Dollars an hour of all nodes whose price is known.
    pub price: f64,
    /// Nodes whose price is not known.
    pub unpriced: usize,
    /// Spot nodes.
    pub spot: usize,
}

/// All that is shown of one reading.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Time of the reading, by the API server's clock.
    pub at: Timestamp,
    pub server: String,
    /// Source of the settings, which names the leading pod.
    pub settings_from: String,
    pub offers_from: String,
    pub totals: Totals,
    pub nodes: Vec<NodeRow>,
    pub pools: Vec<PoolRow>,
    pub pending: Vec<PendingRow>,
    /// Newest first.
    pub decisions: Vec<DecisionRow>,
    /// Kinds that could not be read: the figures are without them.
    pub missing: Vec<Missing>,
}

/// Rows of all nodes, those of claims without a node behind them.
pub fn node_rows(snapshot: &Snapshot, planning: &PlanningInput) -> Vec<NodeRow> {
    let claims: BTreeMap<&str, _> = snapshot
        .claims
        .values()
        .filter(|entry| !snapshot.is_refused(&entry.facts.name) && !entry.facts.node.is_empty())
        .map(|entry| (entry.facts.node.as_str(), entry))
        .collect();
    let none = Resources::new();
    let mut rows: Vec<NodeRow> = Vec::with_capacity(snapshot.nodes.len());
    for node in snapshot.nodes.values() {
        let load = snapshot.loads.get(&node.name);
        let requests = load.map_or(&none, |load| &load.requests);
        let claim = claims.get(node.name.as_str());
        let deleting = node.deleting || claim.is_some_and(|entry| entry.facts.deleting);
        let booting = claim.is_some_and(|entry| entry.facts.initialized.is_none());
        let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
        let share = |name: &str| Share::new(name, requests, &node.allocatable);
        rows.push(NodeRow {
            name: node.name.clone(),
            is_claim: false,
            pool: label(labels::NODE_POOL),
            instance_type: label(labels::INSTANCE_TYPE),
            capacity_type: label(labels::CAPACITY_TYPE),
            zone: label(labels::ZONE),
            price: price_by_labels(planning, |key| node.labels.get(key).map(String::as_str)),
            pods: Share { used: load.map_or(0, |load| count(load.pods.len())), of: node.allocatable.get(PODS) },
            cpu: share(CPU),
            memory: share(MEMORY),
            created: claim.and_then(|entry| entry.facts.created),
            phase: phase_of_node(node, deleting, booting),
        });
    }
    rows.extend(claims_without_node(snapshot, planning));
    rows
}

fn phase_of_node(node: &NodeEntry, deleting: bool, booting: bool) -> Phase {
    let cordoned = node.taints.iter().any(|taint| taint.key == dovetail_api::names::taints::UNSCHEDULABLE);
    match () {
        () if deleting => Phase::Terminating,
        () if booting => Phase::Booting,
        () if !node.ready => Phase::NotReady,
        () if cordoned => Phase::Cordoned,
        () => Phase::Ready,
    }
}

fn claims_without_node<'a>(
    snapshot: &'a Snapshot,
    planning: &'a PlanningInput,
) -> impl Iterator<Item = NodeRow> + use<'a> {
    let waiting = snapshot.claims.values().filter(|entry| !snapshot.nodes.contains_key(&entry.facts.node));
    waiting.map(|entry| {
        let own = entry.claim.metadata.labels.as_ref();
        let label = |key: &str| own.and_then(|own| own.get(key)).cloned().unwrap_or_default();
        let share = |name: &str| Share { used: 0, of: entry.expected_capacity.get(name) };
        let launched = entry.facts.stage >= Some(ClaimStage::Launched);
        NodeRow {
            name: entry.facts.name.clone(),
            is_claim: true,
            pool: entry.facts.pool.clone(),
            instance_type: label(labels::INSTANCE_TYPE),
            capacity_type: label(labels::CAPACITY_TYPE),
            zone: label(labels::ZONE),
            price: price_by_labels(planning, |key| own.and_then(|own| own.get(key)).map(String::as_str)),
            pods: share(PODS),
            cpu: share(CPU),
            memory: share(MEMORY),
            created: entry.facts.created,
            phase: match () {
                () if entry.facts.deleting => Phase::Terminating,
                () if launched => Phase::Booting,
                () => Phase::Launching,
            },
        }
    })
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Sums of the rows.
pub fn totals(nodes: &[NodeRow], snapshot: &Snapshot) -> Totals {
    let mut all = Totals::default();
    for row in nodes {
        if row.is_claim || row.phase == Phase::Booting {
            all.coming += usize::from(row.phase != Phase::Terminating);
        }
        all.nodes += usize::from(!row.is_claim);
        all.ready += usize::from(row.phase == Phase::Ready);
        all.spot += usize::from(!row.is_claim && row.capacity_type == labels::SPOT);
        all.unpriced += usize::from(!row.is_claim && row.price.is_none());
        if !row.is_claim {
            all.cpu.add(row.cpu);
            all.memory.add(row.memory);
            all.price += row.price.unwrap_or_default();
        }
    }
    let pods = || snapshot.pods.values().filter(|entry| !entry.terminal);
    all.pods = pods().count();
    all.pending = pods().filter(|entry| is_waiting(entry)).count();
    all
}

/// True for a pod that waits for a node.
fn is_waiting(entry: &PodEntry) -> bool {
    entry.node_name.is_empty() && !entry.terminal && !entry.deleting && (entry.provisionable || entry.unmarked)
}

/// Rows of the pools, by name.
pub fn pool_rows(snapshot: &Snapshot, planning: &PlanningInput, nodes: &[NodeRow]) -> Vec<PoolRow> {
    // The engine's own count of what a limit has left; of no pod, so that it is cheap.
    let planned = snapshot.planning(&PlanningInput { only: Some(Default::default()), ..planning.clone() });
    let row = |(name, pool): (&String, &std::sync::Arc<dovetail_api::v1::NodePool>)| {
        let own: Vec<&NodeRow> = nodes.iter().filter(|node| node.pool == *name).collect();
        let (mut cpu, mut memory) = (Share::default(), Share::default());
        own.iter().filter(|node| !node.is_claim).for_each(|node| {
            cpu.add(node.cpu);
            memory.add(node.memory);
        });
        let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        PoolRow {
            name: name.clone(),
            nodes: own.iter().filter(|node| !node.is_claim).count(),
            ready: own.iter().filter(|node| node.phase == Phase::Ready).count(),
            coming: own.iter().filter(|node| matches!(node.phase, Phase::Launching | Phase::Booting)).count(),
            // A sum of none is -0.
            price: own
                .iter()
                .filter(|node| !node.is_claim)
                .filter_map(|node| node.price)
                .fold(0.0, |sum, one| sum + one),
            cpu,
            memory,
            limit: planned.problem.node_pools.iter().find(|one| one.name == *name).and_then(nearest_limit),
            is_ready: conditions.iter().find(|one| one.type_ == "Ready").is_none_or(|one| one.status == "True"),
        }
    };
    snapshot.pools.iter().map(row).collect()
}

/// The limit of which the largest part is used.
fn nearest_limit(pool: &Pool) -> Option<LimitRow> {
    let shares = pool.limits.iter().map(|(resource, of)| LimitRow {
        resource: resource.to_owned(),
        share: Share { used: pool.usage.get(resource), of },
    });
    let part = |row: &LimitRow| row.share.ratio().unwrap_or(f64::INFINITY);
    shares.max_by(|one, other| part(one).total_cmp(&part(other)))
}

/// Pods that wait, by workload; the largest group first.
pub fn pending_rows(snapshot: &Snapshot, events: &[Event]) -> Vec<PendingRow> {
    let said = last_words(events);
    let mut groups: BTreeMap<(&str, &str), PendingRow> = BTreeMap::new();
    for entry in snapshot.pods.values().filter(|entry| is_waiting(entry)) {
        let (pod, key) = (&entry.pod, (entry.pod.namespace.as_str(), entry.workload.as_str()));
        let row = groups.entry(key).or_insert_with(|| PendingRow {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            count: 0,
            since: pod.created,
            why: String::new(),
        });
        row.count += 1;
        row.since = [row.since, pod.created].into_iter().flatten().min();
        if let Some(words) = said.get(pod.uid.as_str()).filter(|_| row.why.is_empty()) {
            row.why = (*words).to_owned();
            row.pod.clone_from(&pod.name);
        }
    }
    let mut rows: Vec<PendingRow> = groups.into_values().collect();
    rows.sort_by(|one, other| (other.count, &one.namespace, &one.pod).cmp(&(one.count, &other.namespace, &other.pod)));
    rows
}

/// The newest message about each object, by its uid.
fn last_words(events: &[Event]) -> BTreeMap<&str, &str> {
    let mut newest: BTreeMap<&str, (Option<Timestamp>, &str)> = BTreeMap::new();
    for event in events {
        let (Some(uid), Some(message)) = (event.involved_object.uid.as_deref(), event.message.as_deref()) else {
            continue;
        };
        let one = (happened(event), message);
        let known = newest.entry(uid).or_insert(one);
        if known.0 < one.0 {
            *known = one;
        }
    }
    newest.into_iter().map(|(uid, (_, message))| (uid, message)).collect()
}

/// Time of an event, or of its last repetition.
fn happened(event: &Event) -> Option<Timestamp> {
    let times = [&event.last_timestamp, &event.first_timestamp, &event.metadata.creation_timestamp];
    times.into_iter().flatten().map(|time| time.0).next().or_else(|| event.event_time.as_ref().map(|time| time.0))
}

/// Rows of events, newest first.
pub fn decision_rows(events: &[Event]) -> Vec<DecisionRow> {
    let row = |event: &Event| {
        let object = &event.involved_object;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        DecisionRow {
            at: happened(event),
            is_warning: event.type_.as_deref() == Some("Warning"),
            reason: text(&event.reason),
            object: format!("{} {}", text(&object.kind).to_lowercase(), text(&object.name)),
            message: text(&event.message),
        }
    };
    let mut rows: Vec<DecisionRow> = events.iter().map(row).collect();
    rows.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.object.cmp(&other.object)));
    rows
}
