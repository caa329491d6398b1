//! The console: one self-contained page, and its data, from the view of a replica and from its log events.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::{annotations, labels};
use dovetail_core::cluster_state::{ClaimEntry, NodeEntry, NominationTarget};
use dovetail_core::interruption::InterruptionNotice;
use dovetail_core::resources::{CPU, MEMORY, Resources};
use serde_json::{Value, json};

use super::state::{self, Latest};

const PAGE: &str = include_str!("console.html");
/// Most waiting pods that are named.
const MOST_WAITING: usize = 200;

/// The page with this title.
pub fn page(title: &str) -> String {
    PAGE.replacen("<title>Dovetail</title>", &format!("<title>{title}</title>"), 1)
}

/// URL of a trace up to its id: the address of Jaeger's pages, if the environment gives one.
pub fn trace_pages() -> String {
    let base = std::env::var("JAEGER_UI_URL").unwrap_or_default();
    if base.is_empty() { base } else { format!("{}/trace/", base.trim_end_matches('/')) }
}

/// A log event as the page shows it.
pub struct LogLine {
    /// The time, for people.
    pub when: String,
    /// The time, in seconds.
    pub seconds: f64,
    /// The actor that reports it.
    pub actor: String,
    /// Name of the event.
    pub event: String,
    /// The event as a sentence.
    pub text: String,
    /// Level of the event.
    pub level: String,
    /// Id of the trace, 32 hex digits; empty if there is none.
    pub trace: String,
    /// Further fields of the event, by the names of docs/events.md.
    pub fields: Value,
}

/// The page's data, as JSON with every node on a line of its own: the page looks only at lines that it has not seen yet.
/// `traces` is the prefix of links to a trace's id, empty if there is no such page.
pub fn state(
    latest: &Latest,
    cluster: &str,
    about: &str,
    traces: &str,
    log_event: impl Iterator<Item = LogLine>,
) -> String {
    let (view, leader, actors) = latest.known();
    let log_event: Vec<Value> = log_event
        .map(|line| {
            json!({"when": line.when, "t": line.seconds, "actor": line.actor, "event": line.event, "text": line.text,
                "level": line.level, "trace": line.trace, "fields": line.fields})
        })
        .collect();
    let mut lines = Vec::new();
    let mut all = json!({
        "cluster": cluster, "about": about, "traces": traces, "leader": leader,
        "term": actors["leader"]["term"], "unreadable": actors["cluster_watcher"]["unreadableObjects"],
        "notListed": actors["cluster_watcher"]["notListed"], "watchesFailing": actors["cluster_watcher"]["watchesFailing"], "actors": pipeline(&actors), "held": state::held::lines(&actors), "timeline": log_event, "waiting": [],
        "waitingTotal": 0, "pods": {"bound": 0, "total": 0}, "price": null, "saved": null, "cost": latest.cost(), "now": null,
    });
    if let Some(view) = &view {
        let nodes = nodes(view);
        let (price, on_demand) = state::cost::dollars(view, &actors);
        let bound = view.snapshot.pods.values().filter(|pod| pod.takes_room()).count();
        all["pods"] = json!({"bound": bound, "total": view.snapshot.pods.len()});
        all["price"] = price.into();
        all["saved"] = (on_demand - price).max(0.0).into();
        let (waiting, total) = waiting(view, &actors);
        all["waiting"] = waiting.into();
        all["waitingTotal"] = total.into();
        all["now"] = view.now.wall.as_second().into();
        lines = nodes.iter().map(Value::to_string).collect();
    }
    let all = all.to_string();
    format!("{{\"nodes\":[\n{}\n],\n{}", lines.join(",\n"), all.strip_prefix('{').unwrap_or_default())
}

/// The actors in the order of the data, each with its queue lengths.
fn pipeline(actors: &Value) -> Vec<Value> {
    const ORDER: [&str; 17] = [
        "pod_watcher",
        "cluster_watcher",
        "catalogue",
        "batcher",
        "packer",
        "static_pools",
        "launcher",
        "registrar",
        "interruption",
        "disruptor",
        "janitor",
        "owner",
        "terminator",
        "node_class",
        "translator",
        "recorder",
        "control_plane",
    ];
    let of = |name: &&str| {
        let numbers: Vec<Value> = state::QUEUES
            .iter()
            .filter(|(actor, _)| actor == name)
            .filter_map(|(_, queue)| Some(json!([queue, actors[*name][*queue].as_u64()?])))
            .collect();
        actors[*name].is_object().then(|| json!([name, numbers]))
    };
    ORDER.iter().filter_map(of).collect()
}

/// Pods that wait with the reason, and their total number.
fn waiting(view: &ReplicaView, actors: &Value) -> (Vec<Value>, usize) {
    let pods = view.snapshot.pods.values().filter(|pod| pod.provisionable);
    let named = pods.clone().take(MOST_WAITING).map(|pod| {
        let why = actors["packer"]["leftOver"][&pod.pod.uid].as_str().map(str::to_owned);
        let expected = || match view.snapshot.expected_on(&pod.pod.uid, view.now)? {
            NominationTarget::Claim(name) => Some(format!("expected on NodeClaim {name}")),
            NominationTarget::Node(name) => Some(format!("expected on node {name}")),
        };
        let why = why.or_else(expected).unwrap_or_else(|| "waits for its batch".to_owned());
        json!([format!("{}/{}", pod.pod.namespace, pod.pod.name), why])
    });
    (named.collect(), pods.count())
}

fn nodes(view: &ReplicaView) -> Vec<Value> {
    let (snapshot, prices) = (&view.snapshot, state::TypesByClass::from_view(view));
    let by_provider: BTreeMap<&str, &NodeEntry> = snapshot
        .nodes
        .values()
        .filter(|node| !node.provider_id.is_empty())
        .map(|node| (node.provider_id.as_str(), node.as_ref()))
        .collect();
    let mut of_claims = BTreeSet::new();
    let mut all: Vec<Value> = Vec::new();
    for (name, claim) in snapshot.claims.iter() {
        let node = by_provider.get(claim.provider_id()).copied();
        of_claims.extend(node.map(|node| node.name.as_str()));
        all.push(one(view, &prices, Some((name, claim)), node));
    }
    let rest = snapshot.nodes.values().filter(|node| !of_claims.contains(node.name.as_str()));
    all.extend(rest.map(|node| one(view, &prices, None, Some(node))));
    all
}

fn one(
    view: &ReplicaView,
    prices: &state::TypesByClass<'_>,
    claim: Option<(&String, &std::sync::Arc<ClaimEntry>)>,
    node: Option<&NodeEntry>,
) -> Value {
    let none = BTreeMap::new();
    let own = claim.and_then(|(_, entry)| entry.claim.metadata.labels.as_ref()).or(node.map(|node| &node.labels));
    let own = own.unwrap_or(&none);
    let label = |key: &str| own.get(key).map_or("", String::as_str);
    let load = node.and_then(|node| view.snapshot.loads.get(&node.name));
    let empty = Resources::new();
    let requests = load.map_or(&empty, |load| &load.requests);
    let allocatable = node.map_or(&empty, |node| &node.allocatable);
    let pods: Vec<Value> = load
        .into_iter()
        .flat_map(|load| load.pods.values())
        .map(|pod| {
            let own = &pod.pod.requests;
            json!([format!("{}/{}", pod.pod.namespace, pod.pod.name), own.get(CPU), own.get(MEMORY)])
        })
        .collect();
    let (name, entry) = (claim.map(|(name, _)| name.as_str()).unwrap_or_default(), claim.map(|(_, entry)| entry));
    let annotation = |key: &str| entry.and_then(|one| one.claim.metadata.annotations.as_ref()?.get(key)).cloned();
    let trace = |key: &str| annotation(key).and_then(|text| text.split('-').nth(1).map(str::to_owned));
    let created = entry.and_then(|entry| entry.facts.created);
    let prices = node.and_then(|node| prices.node(node)).or_else(|| prices.labelled(own));
    let instance = node.map_or_else(|| entry.map_or("", |entry| entry.provider_id()), |node| node.provider_id.as_str());
    json!({
        "key": if name.is_empty() { node.map_or("", |node| node.name.as_str()) } else { name },
        "name": node.map_or(name, |node| node.name.as_str()), "claim": name,
        "instance": dovetail_cloud::cloud::instance_id(instance).unwrap_or_default(),
        "state": state_of(entry.map(|entry| &**entry), node), "next": next(view, entry.map(|entry| &**entry), load.map_or(0, |load| load.visitors)),
        "type": label(labels::INSTANCE_TYPE), "zone": label(labels::ZONE), "capacity": label(labels::CAPACITY_TYPE),
        "pool": label(labels::NODE_POOL), "price": prices.map(|(own, _)| own), "onDemand": prices.map(|(_, on_demand)| on_demand),
        "since": created.map(jiff::Timestamp::as_second),
        "cpu": [requests.get(CPU), allocatable.get(CPU)], "memory": [requests.get(MEMORY), allocatable.get(MEMORY)],
        "pods": pods, "trace": trace(annotations::TRACEPARENT), "end": trace(annotations::END_TRACEPARENT),
    })
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
fn next(view: &ReplicaView, claim: Option<&ClaimEntry>, visitors: usize) -> String {
    let Some(claim) = claim else { return String::new() };
    if let Some(notice) = InterruptionNotice::on(&claim.claim) {
        return format!("{}, runs until {:.0}", notice.kind, notice.deadline);
    }
    if claim.facts.deleting {
        return if claim.facts.terminating { "its instance is ending".into() } else { "its pods are moved".into() };
    }
    if claim.facts.consolidatable && visitors == 0 {
        return "empty, may go".into();
    }
    match claim.facts.expires {
        Some(at) => format!("expires in {} h", at.duration_since(view.now.wall).as_hours().max(0)),
        None => String::new(),
    }
}
