//! The present state of the cluster and the actors, as the gauges of core spec 7.1: written from a snapshot on request, away
//! from the actors.

pub(crate) mod commitments;
pub mod cost;
pub(crate) mod held;
mod nodes;
mod pools;
mod scheduler;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use cost::CostPoint;
use dovetail_actors::Settings;
use dovetail_actors::messages::ReplicaState;
use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::conditions::DRIFTED;
use dovetail_api::names::labels;
use dovetail_api::names::provider::Provider;
use dovetail_api::v1::condition;
use dovetail_core::cluster_state::{NodeEntry, PodEntry, Snapshot, WatchedKind};
use dovetail_core::instance_type::InstanceType;
use dovetail_core::resources::{CPU, Resources};
use dovetail_observability::metrics::{ActorsSeen, MetricsPage, MetricsWriter};
use jiff::Timestamp;
use nodes::{label_of, nodes};
use pools::pools;
use serde_json::Value;

/// The latest state. Clones share it.
#[derive(Clone)]
pub struct Latest(Arc<Mutex<Known>>);

impl Default for Latest {
    /// With series for each node and pod, however many there are.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Known { most_nodes: Some(usize::MAX), ..Known::default() })))
    }
}

#[derive(Default)]
struct Known {
    view: Option<ReplicaView>,
    /// The state of each replica's actors, and the time of it.
    actors: BTreeMap<String, (ReplicaState, Timestamp)>,
    /// The cost over time, the latest of it.
    cost: VecDeque<CostPoint>,
    /// True if anybody has looked since the last check.
    watched: bool,
    /// Most nodes with which there are series for each node and pod; none where there never are.
    most_nodes: Option<usize>,
}

impl Latest {
    /// The cluster, as a replica sees it.
    pub fn saw(&self, view: ReplicaView) {
        let (cost, on_demand) = cost::dollars(&view, &self.known().2);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cost::keep_point(&mut known.cost, (view.now.wall.as_second() as f64, cost, on_demand));
        known.view = Some(view);
    }

    /// Sets when metrics leave out the series for each node and each pod: with `DISABLE_CLUSTER_STATE_OBSERVABILITY` always, else
    /// with more nodes than `OBJECT_METRICS_MAX_NODES`.
    pub fn limit_objects(&self, settings: &Settings) {
        let most = (!settings.scale.without_object_metrics).then_some(settings.scale.object_metrics_most);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).most_nodes = most;
    }

    /// Notes that somebody looks.
    pub fn watched(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).watched = true;
    }

    /// True if somebody has looked since the last call.
    pub fn is_watched(&self) -> bool {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).watched)
    }

    /// The cost over time, the latest of it.
    pub fn cost(&self) -> Vec<CostPoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cost.iter().copied().collect()
    }

    /// Takes in the state of a replica's actors.
    pub fn heard(&self, replica: &str, actors: &ReplicaState, when: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.actors.insert(replica.to_owned(), (actors.clone(), when));
    }

    /// The cluster, the leader's identity, and the last state of the leader's actors, or while nobody leads of any replica's.
    pub fn known(&self) -> (Option<ReplicaView>, Option<String>, Value) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = |(_, (actors, _)): &(&String, &(ReplicaState, Timestamp))| leads(actors);
        // If two claim to lead, the later one counts.
        let leader = known.actors.iter().filter(leads).max_by_key(|(_, (_, when))| *when);
        let said = leader.or_else(|| known.actors.iter().next());
        let actors = said.and_then(|(_, (actors, _))| serde_json::to_value(actors).ok()).unwrap_or_default();
        (known.view.clone(), leader.map(|(name, _)| name.clone()), actors)
    }

    /// Writes the metrics of the state when asked.
    pub fn state(&self) -> MetricsWriter {
        let latest = self.clone();
        Arc::new(move |page| latest.write(page))
    }

    fn write(&self, page: &mut MetricsPage) {
        let (view, _, actors) = self.known();
        queues(page, &actors);
        not_seen(page, &actors["cluster_watcher"]);
        let Some(view) = view else { return };
        let most_nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner).most_nodes;
        let with_objects = most_nodes.is_some_and(|most| view.snapshot.nodes.len() <= most);
        page.gauge(
            "dovetail_object_metrics",
            "1 if there is a series for each node and each pod, 0 if they are left out",
        );
        page.sample("dovetail_object_metrics", &[], f64::from(u8::from(with_objects)));
        nodes(page, &view, with_objects);
        if with_objects {
            pods(page, &view.snapshot);
        }
        cost::cost(page, &view, &actors);
        commitments::commitments(page, &view);
        pools(page, &view);
        held::static_pools(page, &actors["static_pools"]);
        held::buffers(page, &actors["buffers"]);
        held::requests(page, &actors["gangs"]);
        held::quotas(page, &actors["quotas"]);
        held::deletion_costs(page, &actors["deletion_costs"]);
        eligible(page, &view.snapshot);
        drifted(page, &view.snapshot);
        scheduler::write(page, &view, &actors);
    }
}

/// Queue lengths that actors report, by actor and field.
pub const QUEUES: [(&str, &str); 13] = [
    ("pod_watcher", "waiting"),
    ("batcher", "inWindow"),
    ("packer", "handled"),
    ("launcher", "queued"),
    ("launcher", "running"),
    ("launcher", "held"),
    ("registrar", "plans"),
    ("terminator", "deleting"),
    ("terminator", "interrupted"),
    ("interruption", "unknown"),
    ("interruption", "unwritten"),
    ("disruptor", "queued"),
    ("recorder", "waiting"),
];

fn queues(page: &mut MetricsPage, actors: &Value) {
    page.gauge(
        "dovetail_lease_refused",
        "Whether the Lease says what no leader can have written, or is not renewed for years",
    );
    let refused = f64::from(u8::from(actors["leader"]["refuses"].is_string()));
    page.sample("dovetail_lease_refused", &[], refused);
    page.gauge(
        "dovetail_clock_ahead_seconds",
        "Seconds by which the replica's clock is ahead of the API server's; negative where it is behind",
    );
    if let Some(seconds) = actors["leader"]["clockAheadSeconds"].as_f64() {
        page.sample("dovetail_clock_ahead_seconds", &[], seconds);
    }
    interruptions(page, &actors["interruption"]);
    page.gauge("dovetail_price_age_seconds", "For how long the prices that packing goes by have stood");
    for (capacity_type, age) in [("on-demand", "onDemandAgeSeconds"), ("spot", "spotAgeSeconds")] {
        if let Some(seconds) = actors["catalogue"][age].as_f64() {
            page.sample("dovetail_price_age_seconds", &[("capacity_type", capacity_type)], seconds);
        }
    }
    page.gauge("dovetail_actor_queue", "What waits in an actor");
    for (actor, queue) in QUEUES {
        if let Some(count) = actors[actor][queue].as_f64() {
            page.sample("dovetail_actor_queue", &[("actor", actor), ("queue", queue)], count);
        }
    }
}

/// Writes interruptions that are not heard; only the leader reports them.
fn interruptions(page: &mut MetricsPage, said: &Value) {
    page.gauge(
        "dovetail_spot_nodes_unheard",
        "Spot nodes whose interruptions nobody hears, as there is no queue, or it cannot be read",
    );
    if let Some(count) = said["unheard"].as_f64() {
        page.sample("dovetail_spot_nodes_unheard", &[], count);
    }
    page.gauge("dovetail_interruption_queue_heard", "1 while the interruption queue can be read, 0 while it cannot");
    if said["queue"].as_str().is_some_and(|queue| !queue.is_empty()) {
        let heard = said["lost"].as_str().is_none_or(str::is_empty);
        page.sample("dovetail_interruption_queue_heard", &[], f64::from(u8::from(heard)));
    }
}

/// Writes the parts of the cluster's state that are outdated or unreadable.
fn not_seen(page: &mut MetricsPage, cluster: &Value) {
    page.gauge("dovetail_unreadable_objects", "Objects that are there and cannot be read");
    for (kind, count) in cluster["unreadable"].as_object().into_iter().flatten() {
        page.sample("dovetail_unreadable_objects", &[("kind", kind)], count.as_f64().unwrap_or(0.0));
    }
    page.gauge("dovetail_watch_failing", "1 for what has not been listed yet, or whose watch has failed for a minute");
    let failing = |kind: &str| {
        let listed = cluster["notListed"].as_array().is_none_or(|all| all.iter().all(|one| one != kind));
        !listed || cluster["watchesFailing"].get(kind).is_some()
    };
    for kind in WatchedKind::ALL.map(WatchedKind::resource) {
        page.sample("dovetail_watch_failing", &[("kind", kind)], if failing(kind) { 1.0 } else { 0.0 });
    }
}

/// A label's name in metrics: its last part in snake case.
fn metric_label(key: &str) -> String {
    match key {
        labels::OS => "os".into(),
        other => other.rsplit('/').next().unwrap_or(other).replace('-', "_"),
    }
}

/// A resource's amount in its unit: cores, bytes, or a count.
fn amount(name: &str, own: &Resources) -> f64 {
    let amount = own.get(name) as f64;
    if name == CPU { amount / 1000.0 } else { amount }
}

/// The rest of `whole` after `part` is taken away.
fn less(whole: &Resources, part: &Resources) -> Resources {
    let mut left = whole.clone();
    left.sub(part);
    left
}

/// The instance types that a view knows, by node class and name: looked up once for every node.
pub struct TypesByClass<'a>(BTreeMap<&'a str, BTreeMap<&'a str, &'a InstanceType>>);

impl<'a> TypesByClass<'a> {
    /// The instance types of a view.
    pub fn from_view(view: &'a ReplicaView) -> Self {
        let by_name = |types: &'a [Arc<InstanceType>]| types.iter().map(|kind| (kind.name.as_str(), &**kind)).collect();
        Self(view.types.iter().map(|(class, types)| (class.as_str(), by_name(types))).collect())
    }

    /// $/h of a node as the catalogue has it, and of the same machine on demand.
    pub fn node(&self, node: &NodeEntry) -> Option<(f64, f64)> {
        self.labelled(&node.labels)
    }

    /// $/h of a machine with these labels, and of the same machine on demand: a claim has them from its launch on.
    pub fn labelled(&self, own: &BTreeMap<String, String>) -> Option<(f64, f64)> {
        let of = |key| label_of(own, key);
        let classes = Provider::ALL.into_iter().map(|provider| of(provider.class().label));
        let class = classes.into_iter().find(|class| !class.is_empty()).unwrap_or_default();
        self.price(class, of(labels::INSTANCE_TYPE), of(labels::ZONE), of(labels::CAPACITY_TYPE))
    }

    /// $/h of an instance as the catalogue has it, 0 in a capacity reservation, and of the same machine on demand.
    pub fn price(&self, class: &str, kind: &str, zone: &str, capacity_type: &str) -> Option<(f64, f64)> {
        let kind = self.0.get(class)?.get(kind)?;
        let price = |bought: &str| kind.offering(zone, bought).map(|one| one.price);
        // An instance of a reservation is paid for, whether it runs or not.
        let own = if capacity_type == labels::RESERVED { 0.0 } else { price(capacity_type)? };
        Some((own, price(labels::ON_DEMAND).unwrap_or(own)))
    }
}

fn eligible(page: &mut MetricsPage, snapshot: &Snapshot) {
    let (mut empty, mut full) = (0, 0);
    for claim in snapshot.claims.values().filter(|claim| claim.facts.consolidatable && !claim.facts.deleting) {
        let visitors = snapshot.loads.get(&claim.facts.node).map_or(0, |load| load.visitors);
        *(if visitors == 0 { &mut empty } else { &mut full }) += 1;
    }
    page.gauge("karpenter_voluntary_disruption_eligible_nodes", "Nodes that could go, budgets aside");
    let drifted = snapshot.claims.values().filter(|claim| claim.facts.drifted.is_some() && !claim.facts.deleting);
    let drifted = u32::try_from(drifted.count()).unwrap_or(u32::MAX);
    for (reason, count) in [("empty", empty), ("underutilized", full), ("drifted", drifted)] {
        page.sample("karpenter_voluntary_disruption_eligible_nodes", &[("reason", reason)], f64::from(count));
    }
}

/// Writes NodeClaims whose condition Drifted is True, without those that are already leaving.
fn drifted(page: &mut MetricsPage, snapshot: &Snapshot) {
    let mut by: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for entry in snapshot.claims.values().filter(|entry| entry.facts.drifted.is_some() && !entry.facts.deleting) {
        let conditions = entry.claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let reason = condition(conditions, DRIFTED).map_or("", |one| one.reason.as_str());
        *by.entry((entry.facts.pool.as_str(), reason)).or_default() += 1;
    }
    page.gauge(
        "dovetail_nodeclaims_drifted",
        "NodeClaims that are not what their pool or class asks for, and stay yet",
    );
    for ((pool, reason), count) in by {
        page.sample("dovetail_nodeclaims_drifted", &[("nodepool", pool), ("reason", reason)], count as f64);
    }
}

fn pods(page: &mut MetricsPage, snapshot: &Snapshot) {
    page.gauge("karpenter_pods_state", "1 for each pod and what it is like");
    let nowhere = NodeEntry::default();
    for pod in snapshot.pods.values() {
        let node = snapshot.nodes.get(&pod.node_name).map_or(&nowhere, AsRef::as_ref);
        let of = |key| label_of(&node.labels, key);
        let own = [
            ("name", pod.pod.name.as_str()),
            ("namespace", pod.pod.namespace.as_str()),
            ("owner", pod.controller.as_deref().unwrap_or_default()),
            ("node", pod.node_name.as_str()),
            ("scheduled", if pod.node_name.is_empty() { "false" } else { "true" }),
            ("nodepool", of(labels::NODE_POOL)),
            ("zone", of(labels::ZONE)),
            ("arch", of(labels::ARCH)),
            ("capacity_type", of(labels::CAPACITY_TYPE)),
            ("instance_type", of(labels::INSTANCE_TYPE)),
            ("phase", phase(pod)),
            ("ready", if pod.ready { "true" } else { "false" }),
            ("managed", if node.managed() { "true" } else { "false" }),
        ];
        page.sample("karpenter_pods_state", &own, 1.0);
    }
}

/// The phase of a pod, as far as it is kept.
fn phase(pod: &PodEntry) -> &'static str {
    match (pod.terminal, pod.ready, pod.node_name.is_empty()) {
        (true, _, _) => "Succeeded",
        (false, true, _) => "Running",
        (false, false, _) => "Pending",
    }
}

/// True if a replica leads.
pub fn leads(state: &ReplicaState) -> bool {
    state.leader.as_ref().is_some_and(|leader| leader.leads)
}

/// The actors' state, as far as health and leadership need it.
pub fn seen(state: &ReplicaState) -> ActorsSeen {
    let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let cluster = state.cluster_watcher.clone().unwrap_or_default();
    let term = state.leader.as_ref().and_then(|leader| leader.term).unwrap_or(0);
    ActorsSeen {
        // While a watch fails, the known state is outdated.
        synced: cluster.synced && cluster.watches_failing.is_empty(),
        nodes: number(cluster.nodes),
        leads: leads(state),
        term: i64::try_from(term).unwrap_or(i64::MAX),
        restarts: number(state.control_plane.restarts),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_actors::messages::{
        ActorState, BatcherState, DisruptorState, InterruptionState, LauncherState, PackerState, PodWatcherState,
        RecorderState, RegistrarState, TerminatorState,
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_of_every_provider_have_a_price() {
        let offering =
            |bought: &str, price| json!({"zone": "a", "capacityType": bought, "price": price, "available": true});
        let kind = json!({
            "name": "m5.large", "capacity": {}, "overhead": {}, "requirements": [],
            "offerings": [offering(labels::SPOT, 0.03), offering(labels::ON_DEMAND, 0.096)],
        });
        let kind: InstanceType = serde_json::from_value(kind).unwrap();
        let types = TypesByClass([("default", [("m5.large", &kind)].into())].into());
        for provider in Provider::ALL {
            let own = [
                (provider.class().label, "default"),
                (labels::INSTANCE_TYPE, "m5.large"),
                (labels::ZONE, "a"),
                (labels::CAPACITY_TYPE, labels::SPOT),
            ];
            let own = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            assert_eq!(types.labelled(&own), Some((0.03, 0.096)), "{}", provider.name());
        }
    }

    #[test]
    fn every_queue_is_a_number_that_its_actor_says() {
        let said: [ActorState; 9] = [
            PodWatcherState::default().into(),
            BatcherState::default().into(),
            PackerState::default().into(),
            LauncherState::default().into(),
            RegistrarState::default().into(),
            TerminatorState::default().into(),
            InterruptionState::default().into(),
            DisruptorState::default().into(),
            RecorderState::default().into(),
        ];
        let mut all = ReplicaState::default();
        said.into_iter().for_each(|state| all.insert(state));
        let told = serde_json::to_value(&all).unwrap();
        for (actor, queue) in QUEUES {
            assert_eq!(told[actor][queue], 0, "{actor} does not say {queue}");
        }
    }
}
