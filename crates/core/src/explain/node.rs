//! Answers about a Node: why it exists, what it costs, why it stays, what blocks its drain.

use dovetail_api::names::{annotations, instance_id, labels};
use jiff::Timestamp;
use serde::Serialize;

use super::ExplainInput;
use super::claim::{launched_for, pending_step, trace_id};
use super::staying::{MethodAnswer, methods};
use crate::cluster_state::{ClaimEntry, NodeEntry};
use crate::disruption::machines::{NodeAndClaim, machines};
use crate::disruption::price::node_price;
use crate::interruption::InterruptionNotice;
use crate::termination::drain::{Latecomers, drain};
use crate::termination::held::held;

/// A pod that a drain of the node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainHold {
    /// The reason, as a sentence without its end.
    pub why: String,
    /// True if it does not end by itself.
    pub holds: bool,
    /// The remedy; empty where it ends by itself.
    pub remedy: &'static str,
}

/// The answer about a Node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    pub node: String,
    /// Name of its NodeClaim; empty for a node that is no NodePool's.
    pub claim: String,
    pub pool: String,
    pub instance: String,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// Dollars an hour; `None` where that is not known.
    pub price: Option<f64>,
    /// Dollars an hour by which it is weighed, where NodeOverlays say another price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlaid_price: Option<f64>,
    /// The reason for which it exists, as sentences without their end.
    pub exists: Vec<String>,
    pub trace_id: String,
    pub created: Option<Timestamp>,
    /// Pods on it, and those that are neither a DaemonSet's nor its own.
    pub pods: usize,
    pub visitors: usize,
    pub ready: bool,
    /// The reason why it is going, if it is.
    pub going: Option<String>,
    /// The answer of each method by which it may go; none for a node that is going or that is no NodePool's.
    pub methods: Vec<MethodAnswer>,
    /// Pods that its drain waits for, or would.
    pub drain: Vec<DrainHold>,
}

/// Explains a Node; `None` if there is none of that name.
#[must_use]
pub fn explain_node(input: &ExplainInput<'_>, name: &str) -> Option<NodeAnswer> {
    let (snapshot, now) = (input.snapshot, input.planning.now);
    let node = snapshot.nodes.get(name)?;
    let all = machines(snapshot, now);
    let machine = all.iter().find(|machine| machine.node.name == name);
    let claim = machine.and_then(|machine| snapshot.claims.get(&machine.claim.name));
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    let load = snapshot.loads.get(name);
    let pool = machine.and_then(|machine| snapshot.pools.get(&machine.claim.pool));
    let price = pool.map(|pool| node_price(node, pool, &input.planning.instance_types)).filter(|price| *price > 0.0);
    let going = going(node, machine, claim.map(AsRef::as_ref));
    let stays = machine.filter(|_| going.is_none());
    Some(NodeAnswer {
        node: name.to_owned(),
        claim: machine.map(|machine| machine.claim.name.clone()).unwrap_or_default(),
        pool: machine.map(|machine| machine.claim.pool.clone()).unwrap_or_default(),
        instance: instance_id(&node.provider_id).unwrap_or_default().to_owned(),
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity_type: label(labels::CAPACITY_TYPE),
        price,
        overlaid_price: pool.and_then(|_| overlaid_price(input, node)),
        exists: exists(input, claim.map(AsRef::as_ref)),
        trace_id: claim.map(|entry| trace_id(&entry.claim)).unwrap_or_default(),
        created: machine.and_then(|machine| machine.claim.created),
        pods: load.map_or(0, |load| load.pods.len()),
        visitors: load.map_or(0, |load| load.visitors),
        ready: node.ready,
        methods: stays.map(|machine| methods(input, machine)).unwrap_or_default(),
        drain: drain_holds(input, node, claim.map(AsRef::as_ref)),
        going,
    })
}

/// The price that NodeOverlays give a node's offering.
fn overlaid_price(input: &ExplainInput<'_>, node: &NodeEntry) -> Option<f64> {
    let label = |key: &str| node.labels.get(key).map(String::as_str).unwrap_or_default();
    let overlaid = input.snapshot.overlaid(&input.planning.instance_types);
    let types = overlaid.types.get(label(labels::NODE_POOL))?;
    let own = types.iter().find(|one| one.name == label(labels::INSTANCE_TYPE))?;
    let bought = own.offering(label(labels::ZONE), label(labels::CAPACITY_TYPE));
    bought.filter(|one| one.list_price.is_some()).map(|one| one.price)
}

/// The sentences that say where a node comes from.
fn exists(input: &ExplainInput<'_>, claim: Option<&ClaimEntry>) -> Vec<String> {
    let Some(entry) = claim else {
        return vec![
            "no NodeClaim of Dovetail's is behind it: it was not launched here, and it is never removed here".into(),
        ];
    };
    let own = entry.claim.metadata.annotations.as_ref();
    let has = |key: &str| own.is_some_and(|all| all.contains_key(key));
    let by = if has(annotations::TERM) { "Dovetail" } else { "another provisioner" };
    let when = entry.facts.created.map(|at| format!(" at {at:.0}")).unwrap_or_default();
    let mut all = vec![format!("{by} made its nodeclaim {}{when} for nodepool {}", entry.facts.name, entry.facts.pool)];
    let trace = trace_id(&entry.claim);
    if !trace.is_empty() {
        all.push(format!("the batch of pods that it was launched for has the trace {trace}"));
    }
    let workloads = entry.facts.launched_for.len();
    if workloads > 0 {
        let pods = launched_for(input.snapshot, &entry.facts.launched_for);
        let named = if pods.is_empty() {
            String::new()
        } else {
            format!(", of which these pods are there now: {}", pods.join(", "))
        };
        all.push(format!("it was launched for {workloads} workload(s){named}"));
    }
    all
}

/// The reason why a node is going; `None` while it stays.
fn going(node: &NodeEntry, machine: Option<&NodeAndClaim<'_>>, claim: Option<&ClaimEntry>) -> Option<String> {
    if !node.deleting && !machine.is_some_and(|machine| machine.deleting) {
        return None;
    }
    let Some(entry) = claim else { return Some("the Node is being deleted".into()) };
    let own = entry.claim.metadata.annotations.as_ref();
    let said = own.and_then(|all| all.get(annotations::END_REASON)).map(|text| format!("removed by Dovetail: {text}"));
    let notice = InterruptionNotice::on(&entry.claim).and(own).and_then(|all| all.get(annotations::INTERRUPTION));
    let notice = notice.map(|text| format!("EC2 takes its instance: {text}"));
    let why = notice.or(said).unwrap_or_else(|| "its Node or NodeClaim was deleted".into());
    Some(if entry.claim.metadata.deletion_timestamp.is_some() {
        format!("{why}; {}", pending_step(&entry.claim))
    } else {
        why
    })
}

/// The pods that a drain waits for, or would wait for if it began now.
fn drain_holds(input: &ExplainInput<'_>, node: &NodeEntry, claim: Option<&ClaimEntry>) -> Vec<DrainHold> {
    let (snapshot, now) = (input.snapshot, input.planning.now.wall);
    let pods =
        snapshot.loads.get(&node.name).map(|load| load.pods.values().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let since = claim.and_then(|entry| entry.claim.metadata.deletion_timestamp.as_ref()).map(|time| time.0);
    let late = since.map(|since| Latecomers::on(pods.iter(), since, snapshot, now)).unwrap_or_default();
    let ends = claim.and_then(|entry| entry.facts.ends);
    let all = held(&drain(pods, &late, ends, now), &[], snapshot, ends, now);
    let matters = all.into_iter().filter(|one| since.is_some() || one.rule.holds());
    matters
        .map(|one| DrainHold {
            why: one.to_string(),
            holds: one.rule.holds(),
            remedy: one.rule.remedy().unwrap_or_default(),
        })
        .collect()
}
