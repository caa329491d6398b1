//! The console: one self-contained page, and its data, from the view of a replica and from its log events.

mod commitments;
mod nodes;
mod pools;
mod waiting;

use serde_json::{Value, json};

use super::state::{self, Latest};

const PAGE: &str = include_str!("console.html");

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

/// Facts of the page that no replica knows.
#[derive(Clone, Debug, Default)]
pub struct PageFacts<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// A sentence on what the page is about.
    pub about: &'a str,
    /// Prefix of links to a trace's id; empty if there is no such page.
    pub traces: &'a str,
    /// State of the region, where the page may change it: in the sandbox alone.
    pub ec2: Option<Value>,
}

/// The page's data, as JSON with every node on a line of its own: the page looks only at lines that it has not seen yet.
pub fn state(latest: &Latest, facts: &PageFacts<'_>, log_event: impl Iterator<Item = LogLine>) -> String {
    let (view, leader, actors) = latest.known();
    let log_event: Vec<Value> = log_event
        .map(|line| {
            json!({"when": line.when, "t": line.seconds, "actor": line.actor, "event": line.event, "text": line.text,
                "level": line.level, "trace": line.trace, "fields": line.fields})
        })
        .collect();
    let mut lines = Vec::new();
    let cluster = &actors["cluster_watcher"];
    let mut all = json!({
        "cluster": facts.cluster, "about": facts.about, "traces": facts.traces, "ec2": facts.ec2, "leader": leader,
        "term": actors["leader"]["term"], "unreadable": cluster["unreadableObjects"], "notListed": cluster["notListed"],
        "watchesFailing": cluster["watchesFailing"], "actors": pipeline(&actors), "held": state::held::lines(&actors),
        "timeline": log_event, "events": actors["recorder"]["latest"], "pools": [], "totals": null, "waiting": [], "waitingTotal": 0, "price": null, "saved": null,
        "pods": {"bound": 0, "total": 0}, "cost": latest.cost(), "now": null,
    });
    if let Some(view) = &view {
        let nodes = nodes::nodes(view);
        let (price, on_demand) = state::cost::dollars(view, &actors);
        let bound = view.snapshot.pods.values().filter(|pod| pod.takes_room()).count();
        all["pods"] = json!({"bound": bound, "total": view.snapshot.pods.len()});
        all["price"] = price.into();
        all["saved"] = (on_demand - price).max(0.0).into();
        let (pools, totals) = pools::pools(view, &nodes);
        (all["pools"], all["totals"]) = (json!(pools), json!(totals));
        let (waiting, total) = waiting::waiting(view, &actors);
        (all["waiting"], all["waitingTotal"]) = (json!(waiting), total.into());
        if let Some(commitments) = commitments::commitments(view) {
            all["commitments"] = json!(commitments);
        }
        all["now"] = view.now.wall.as_second().into();
        lines = nodes.iter().filter_map(|node| serde_json::to_string(node).ok()).collect();
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
