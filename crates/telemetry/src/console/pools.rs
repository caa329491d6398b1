//! Pools on the console: what each may have, has and costs.

use std::collections::BTreeMap;

use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::conditions::{READY, TRUE};
use dovetail_api::v1::{NodePool, condition};
use dovetail_core::disruption;
use dovetail_core::lifecycle::claim::from_quantities;
use dovetail_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use serde::Serialize;

use super::nodes::{NodeLine, Share};

/// A limit of a pool, with what is used of it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct LimitUse {
    resource: String,
    limit: String,
    used: String,
    /// The part that is used; 1 where nothing is allowed at all.
    share: f64,
}

/// Sums over nodes.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeSums {
    nodes_ready: usize,
    /// Claims without a node, and nodes that are not ready for pods.
    nodes_coming: usize,
    nodes_leaving: usize,
    pods: usize,
    /// $/h, as far as prices are known.
    price: f64,
    cpu: Share,
    memory: Share,
}

/// A pool as the page shows it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolLine {
    name: String,
    /// Status of the condition Ready; empty for nodes without a pool.
    ready: String,
    /// The reason why it is not Ready, or launches nothing for now; empty if there is none.
    why: String,
    /// Limits, the fullest first.
    limits: Vec<LimitUse>,
    /// `spec.replicas` of a static pool.
    replicas: Option<i64>,
    #[serde(flatten)]
    sums: NodeSums,
}

impl NodeSums {
    fn add(&mut self, node: &NodeLine<'_>) {
        match node.state {
            "ready" => self.nodes_ready += 1,
            "leaving" => self.nodes_leaving += 1,
            _ => self.nodes_coming += 1,
        }
        self.pods += node.bound();
        self.price += node.price.unwrap_or_default();
        for (sum, own) in [(&mut self.cpu, node.cpu), (&mut self.memory, node.memory)] {
            *sum = [sum[0].saturating_add(own[0]), sum[1].saturating_add(own[1])];
        }
    }
}

/// The pools, the dearest first, and the sums over all nodes. Nodes of no pool that is there are a line at the end.
pub(super) fn pools(view: &ReplicaView, nodes: &[NodeLine<'_>]) -> (Vec<PoolLine>, NodeSums) {
    let (mut by_pool, mut total) = (BTreeMap::<&str, NodeSums>::new(), NodeSums::default());
    for node in nodes {
        let known = if view.snapshot.pools.contains_key(node.pool) { node.pool } else { "" };
        by_pool.entry(known).or_default().add(node);
        total.add(node);
    }
    let usage = disruption::usage(&view.snapshot);
    let mut all: Vec<PoolLine> = Vec::new();
    for (name, pool) in view.snapshot.pools.iter() {
        let used = usage.get(name).map(|usage| &usage.resources);
        let sums = by_pool.remove(name.as_str()).unwrap_or_default();
        all.push(line(name, pool, used, closed(view, name), sums));
    }
    all.sort_by(|one, other| other.sums.price.total_cmp(&one.sums.price).then_with(|| one.name.cmp(&other.name)));
    all.extend(by_pool.remove("").map(|sums| PoolLine {
        name: String::new(),
        ready: String::new(),
        why: "Dovetail did not launch these, and does not remove them".to_owned(),
        limits: vec![],
        replicas: None,
        sums,
    }));
    (all, total)
}

/// The reason for which a pool's launches are refused for now.
fn closed(view: &ReplicaView, name: &str) -> Option<String> {
    view.snapshot.closed_pools.get(name).map(|closed| closed.why.clone())
}

fn line(name: &str, pool: &NodePool, used: Option<&Resources>, closed: Option<String>, sums: NodeSums) -> PoolLine {
    let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let said = condition(conditions, READY);
    let not_ready = said.filter(|one| one.status != TRUE).map(|one| match one.message.as_str() {
        "" => one.reason.clone(),
        message => message.to_owned(),
    });
    let deleted = pool.metadata.deletion_timestamp.as_ref().map(|_| "it is being deleted".to_owned());
    PoolLine {
        name: name.to_owned(),
        ready: said.map_or("Unknown", |one| one.status.as_str()).to_owned(),
        why: deleted.or(not_ready).or(closed).unwrap_or_default(),
        limits: limits(pool, used),
        replicas: pool.spec.replicas,
        sums,
    }
}

fn limits(pool: &NodePool, used: Option<&Resources>) -> Vec<LimitUse> {
    let limits = pool.spec.limits.as_ref().map(from_quantities).unwrap_or_default();
    let one = |(resource, limit): (&str, i64)| {
        let used = used.map_or(0, |used| used.get(resource));
        let share = if limit <= 0 { 1.0 } else { used as f64 / limit as f64 };
        let (limit, used) = (amount(resource, limit), amount(resource, used));
        LimitUse { resource: resource.to_owned(), limit, used, share }
    };
    let mut all: Vec<LimitUse> = limits.iter().map(one).collect();
    all.sort_by(|one, other| other.share.total_cmp(&one.share));
    all
}

/// An amount for people: cores as a plain number, bytes as GiB.
fn amount(resource: &str, amount: i64) -> String {
    match resource {
        CPU if amount % 1000 != 0 => format!("{:.2}", amount as f64 / 1000.0),
        CPU => (amount / 1000).to_string(),
        MEMORY | EPHEMERAL_STORAGE => format!("{:.1} Gi", amount as f64 / f64::from(1 << 30)),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pool(limits: serde_json::Value, conditions: serde_json::Value) -> NodePool {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"limits": limits, "template": {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}},
            "status": {"conditions": conditions}}))
        .unwrap()
    }

    #[test]
    fn fullest_limit_is_first_and_none_allowed_is_full() {
        let mut used = Resources::new();
        used.set("cpu", 90_000);
        used.set("nodes", 2);
        used.set("memory", 3 << 29);
        let limited = pool(json!({"nodes": "8", "cpu": "100", "nvidia.com/gpu": "0", "memory": "15Gi"}), json!([]));
        let found = limits(&limited, Some(&used));
        let told: Vec<_> = found.iter().map(|one| (one.resource.as_str(), one.share, one.used.as_str())).collect();
        let expected =
            [("nvidia.com/gpu", 1.0, "0"), ("cpu", 0.9, "90"), ("nodes", 0.25, "2"), ("memory", 0.1, "1.5 Gi")];
        assert_eq!(told, expected);
    }

    #[test]
    fn pool_that_is_not_ready_says_why() {
        let not = json!([{"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no subnet",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let found = line("p", &pool(json!({}), not), None, Some("refused".to_owned()), NodeSums::default());
        assert_eq!((found.ready.as_str(), found.why.as_str()), ("False", "no subnet"));
        let unsaid = line("p", &pool(json!({}), json!([])), None, Some("refused".to_owned()), NodeSums::default());
        assert_eq!((unsaid.ready.as_str(), unsaid.why.as_str()), ("Unknown", "refused"));
    }
}
