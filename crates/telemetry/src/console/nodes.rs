//! Nodes on the console, those that are on their way among them, and the pods on each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::{annotations, instance_id, labels};
use dovetail_core::cluster_state::{ClaimEntry, NodeEntry, NominationTarget, PodEntry};
use dovetail_core::explain::{given_up_at, pending_step};
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::resources::{CPU, MEMORY, Resources};
use jiff::Timestamp;
use serde::Serialize;

use crate::state::TypesByClass;

/// State of a pod that is not there yet.
const EXPECTED: &str = "expected";

/// Requests and allocatable of a resource: millicores or bytes.
pub(super) type Share = [i64; 2];

/// A pod as the page draws it: `namespace/name`, CPU (millicores), memory (bytes), state.
#[derive(Serialize)]
pub(super) struct PodCell(String, i64, i64, &'static str);

/// A node, or a claim that has none yet.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeLine<'a> {
    key: &'a str,
    name: &'a str,
    claim: &'a str,
    instance: &'a str,
    /// `launching`, `booting`, `ready` or `leaving`.
    pub state: &'static str,
    /// The expected next event, for people.
    next: String,
    /// Time by which it is given up unless it has got on, in seconds since 1970.
    joins_by: Option<i64>,
    #[serde(rename = "type")]
    instance_type: &'a str,
    zone: &'a str,
    capacity: &'a str,
    pub pool: &'a str,
    /// $/h; `None` if the catalogue does not know it.
    pub price: Option<f64>,
    on_demand: Option<f64>,
    since: Option<i64>,
    pub cpu: Share,
    pub memory: Share,
    pub pods: Vec<PodCell>,
    trace: Option<String>,
    end: Option<String>,
}

impl NodeLine<'_> {
    /// Number of pods that are there.
    pub(super) fn bound(&self) -> usize {
        self.pods.iter().filter(|cell| cell.3 != EXPECTED).count()
    }
}

/// Everything that a line is made of beside its own node and claim.
struct Around<'a> {
    view: &'a ReplicaView,
    prices: TypesByClass<'a>,
    /// Pods that are expected at a place, by the place's name.
    expected: BTreeMap<&'a str, Vec<&'a Arc<PodEntry>>>,
}

/// All nodes, and the claims without one.
pub(super) fn nodes(view: &ReplicaView) -> Vec<NodeLine<'_>> {
    let snapshot = &view.snapshot;
    let around = Around { view, prices: TypesByClass::from_view(view), expected: expected(view) };
    let mut of_claims = BTreeSet::new();
    let mut all: Vec<NodeLine<'_>> = Vec::new();
    for (name, claim) in snapshot.claims.iter() {
        let node = snapshot.node_of(claim).map(AsRef::as_ref);
        of_claims.extend(node.map(|node| node.name.as_str()));
        all.push(line(&around, Some((name, claim)), node));
    }
    let rest = snapshot.nodes.values().filter(|node| !of_claims.contains(node.name.as_str()));
    all.extend(rest.map(|node| line(&around, None, Some(node))));
    all
}

/// Pods by the claim or node at which they are expected.
fn expected(view: &ReplicaView) -> BTreeMap<&str, Vec<&Arc<PodEntry>>> {
    let mut all: BTreeMap<&str, Vec<&Arc<PodEntry>>> = BTreeMap::new();
    for uid in view.snapshot.nominations.keys() {
        let place = view.snapshot.expected_on(uid, view.now);
        if let (Some(place), Some(pod)) = (place, view.snapshot.pods.get(uid)) {
            let (NominationTarget::Claim(name) | NominationTarget::Node(name)) = place;
            all.entry(name.as_str()).or_default().push(pod);
        }
    }
    all
}

fn line<'a>(
    around: &Around<'a>,
    claim: Option<(&'a String, &'a Arc<ClaimEntry>)>,
    node: Option<&'a NodeEntry>,
) -> NodeLine<'a> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    let view = around.view;
    let own = claim.and_then(|(_, entry)| entry.claim.metadata.labels.as_ref()).or(node.map(|node| &node.labels));
    let own = own.unwrap_or(&NONE);
    let label = |key: &str| own.get(key).map_or("", String::as_str);
    let load = node.and_then(|node| view.snapshot.loads.get(&node.name));
    let empty = Resources::new();
    let requests = load.map_or(&empty, |load| &load.requests);
    let allocatable = node.map_or(&empty, |node| &node.allocatable);
    let (name, entry) = (claim.map_or("", |(name, _)| name.as_str()), claim.map(|(_, entry)| &**entry));
    let node_name = node.map_or("", |node| node.name.as_str());
    let annotation = |key: &str| entry.and_then(|one| one.claim.metadata.annotations.as_ref()?.get(key));
    let trace = |key: &str| annotation(key).and_then(|text| text.split('-').nth(1).map(str::to_owned));
    let prices = node.and_then(|node| around.prices.node(node)).or_else(|| around.prices.labelled(own));
    let instance = node.map_or_else(|| entry.map_or("", |entry| entry.provider_id()), |node| node.provider_id.as_str());
    let state = state_of(entry, node);
    let on_way = entry.filter(|_| matches!(state, "launching" | "booting"));
    NodeLine {
        key: if name.is_empty() { node_name } else { name },
        name: if node_name.is_empty() { name } else { node_name },
        claim: name,
        instance: instance_id(instance).unwrap_or_default(),
        state,
        next: next(view, entry, state, load.map_or(0, |load| load.visitors)),
        joins_by: on_way.and_then(|entry| given_up_at(&entry.claim)).map(Timestamp::as_second),
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity: label(labels::CAPACITY_TYPE),
        pool: label(labels::NODE_POOL),
        price: prices.map(|(own, _)| own),
        on_demand: prices.map(|(_, on_demand)| on_demand),
        since: entry.and_then(|entry| entry.facts.created).map(Timestamp::as_second),
        cpu: [requests.get(CPU), allocatable.get(CPU)],
        memory: [requests.get(MEMORY), allocatable.get(MEMORY)],
        pods: pods(around, load.into_iter().flat_map(|load| load.pods.values()), [name, node_name], state),
        trace: trace(annotations::TRACEPARENT),
        end: trace(annotations::END_TRACEPARENT),
    }
}

/// The pods on a node, then those that are expected there.
fn pods<'a>(
    around: &Around<'a>,
    bound: impl Iterator<Item = &'a Arc<PodEntry>>,
    places: [&str; 2],
    state: &str,
) -> Vec<PodCell> {
    let cell = |pod: &PodEntry, state: &'static str| {
        let own = &pod.pod.requests;
        PodCell(format!("{}/{}", pod.pod.namespace, pod.pod.name), own.get(CPU), own.get(MEMORY), state)
    };
    let mut all: Vec<PodCell> = bound.map(|pod| cell(pod, state_of_pod(pod, state))).collect();
    let [claim, node] = places;
    let twice = claim == node;
    let named = [claim, if twice { "" } else { node }].into_iter().filter(|place| !place.is_empty());
    let expected = named.filter_map(|place| around.expected.get(place)).flatten();
    all.extend(expected.filter(|pod| pod.node_name.is_empty() || pod.node_name != node).map(|pod| cell(pod, EXPECTED)));
    all
}

/// State of a pod that has a node, of a node in this state.
fn state_of_pod(pod: &PodEntry, node: &str) -> &'static str {
    match () {
        () if pod.deleting || (node == "leaving" && pod.reschedulable()) => "leaving",
        () if pod.daemon || pod.mirror => "daemon",
        () if pod.ready => "ready",
        () => "starting",
    }
}

fn state_of(claim: Option<&ClaimEntry>, node: Option<&NodeEntry>) -> &'static str {
    let leaves = claim.is_some_and(|claim| claim.facts.deleting) || node.is_some_and(|node| node.deleting);
    match (leaves, node, claim) {
        (true, ..) => "leaving",
        (_, None, _) => "launching",
        (_, Some(_), Some(claim)) if claim.facts.initialized.is_none() => "booting",
        (_, Some(node), _) if !node.ready => "booting",
        _ => "ready",
    }
}

/// The expected next event of a node, for people.
fn next(view: &ReplicaView, claim: Option<&ClaimEntry>, state: &str, visitors: usize) -> String {
    let Some(claim) = claim else { return String::new() };
    if let Some(notice) = InterruptionNotice::on(&claim.claim) {
        return format!("{}, runs until {:.0}", notice.kind, notice.deadline);
    }
    if claim.facts.deleting {
        return if claim.facts.terminating { "its instance is ending".into() } else { "its pods are moved".into() };
    }
    if claim.facts.initialized.is_none() {
        return pending_step(&claim.claim);
    }
    if state == "booting" {
        return "its kubelet does not say that it is Ready".into();
    }
    if claim.facts.consolidatable && visitors == 0 {
        return "empty, may go".into();
    }
    match claim.facts.expires {
        Some(at) => format!("expires in {} h", at.duration_since(view.now.wall).as_hours().max(0)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use dovetail_core::cluster_state::{ClusterState, Moment};
    use serde_json::{Value, json};

    use super::*;

    /// A claim in this stage, an hour old, that expires in a month.
    fn claim(name: &str, conditions: &[(&str, &str)]) -> Value {
        let at = "2026-01-01T00:00:00Z";
        let one = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": at});
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name, "creationTimestamp": at, "labels": {"karpenter.sh/nodepool": "p"}},
            "spec": {"expireAfter": "720h", "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": format!("aws:///a/i-{name}"), "nodeName": if name == "there" { "there" } else { "" },
                "conditions": conditions.iter().map(one).collect::<Vec<_>>()}})
    }

    fn pod(name: &str, ready: &str, deleted: bool) -> Value {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name, "deletionTimestamp": deleted.then_some("2026-01-01T00:10:00Z")},
            "spec": {"nodeName": "there", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn node_on_its_way_says_until_when_it_should_have_joined() {
        let mut state = ClusterState::default();
        let launched = claim("new", &[("Launched", "True"), ("Registered", "Unknown")]);
        state.apply_claim(Arc::new(serde_json::from_value(launched).unwrap()));
        let there = claim("there", &[("Launched", "True"), ("Registered", "True"), ("Initialized", "True")]);
        state.apply_claim(Arc::new(serde_json::from_value(there).unwrap()));
        let node = json!({"metadata": {"name": "there", "uid": "n"}, "spec": {"providerID": "aws:///a/i-there"},
            "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        state.apply_node(&serde_json::from_value(node).unwrap());
        for own in [pod("a", "True", false), pod("b", "False", false), pod("c", "True", true)] {
            state.apply_pod(&serde_json::from_value(own).unwrap()).unwrap();
        }
        let now = Moment { monotonic: Duration::from_secs(100), wall: "2026-01-01T01:00:00Z".parse().unwrap() };
        let view =
            ReplicaView { snapshot: state.snapshot(), types: BTreeMap::new(), commitments: Default::default(), now };
        let all: Vec<Value> = nodes(&view).iter().map(|line| serde_json::to_value(line).unwrap()).collect();
        // Fifteen minutes from the launch, whatever its age may be in the end.
        assert_eq!((&all[0]["state"], &all[0]["joinsBy"]), (&json!("launching"), &json!(1_767_225_600 + 900)));
        assert_eq!(all[0]["next"], "its instance runs, it waits for its Node to join");
        assert_eq!((&all[1]["state"], &all[1]["joinsBy"]), (&json!("ready"), &Value::Null));
        assert_eq!((&all[1]["next"], &all[1]["cpu"]), (&json!("expires in 719 h"), &json!([1500, 2000])));
        let pods: Vec<(&str, &str)> = all[1]["pods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| (cell[0].as_str().unwrap(), cell[3].as_str().unwrap()))
            .collect();
        assert_eq!(pods, [("default/a", "ready"), ("default/b", "starting"), ("default/c", "leaving")]);
    }
}
