//! Answers about a NodePool: what it may still launch, its limits, its budgets now and next.

use std::sync::Arc;

use dovetail_api::names::annotations::UNUSED_LAUNCHES;
use dovetail_api::names::conditions::TRUE;
use dovetail_api::names::labels::NODE_POOL;
use dovetail_api::unimplemented::STATIC_GATE_OFF;
use dovetail_api::v1::NodePool;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Toleration;
use serde::Serialize;

use super::ExplainInput;
use super::claim::{ConditionNow, conditions_of};
use super::outcome::Placement;
use crate::budgets::{RemovalReason, allowed, next_change};
use crate::cluster_state::{Planning, PlanningInput};
use crate::disruption::OffersByClass;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::{NodeAndClaim, machines};
use crate::disruption::pools::{DisruptionPool, Observing};
use crate::disruption::price::node_price;
use crate::pack::{PoolReason, Reason};
use crate::pod::Pod;
use crate::problem::Problem;
use crate::resources::format_amount;
use crate::static_pools::{Shortfall, judge_replicas};

/// A limit, with what is used of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitNow {
    pub resource: String,
    pub limit: String,
    pub used: String,
    /// The part of the limit that is left; negative where more is used.
    pub left: String,
}

/// The budgets of a pool for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetNow {
    pub reason: &'static str,
    /// Nodes that may be disrupted at once; no bound if `None`.
    pub nodes: Option<usize>,
    /// Nodes that are being disrupted.
    pub disrupting: usize,
    /// Time at which another number holds.
    pub changes_at: Option<Timestamp>,
    /// The number that holds then.
    pub nodes_then: Option<usize>,
}

/// The nodes of a static pool, held against `spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicasNow {
    pub desired: usize,
    /// Nodes that are ready for pods and stay.
    pub ready: usize,
    /// Claims that stay until their successors stand.
    pub outgoing: usize,
    /// Claims that go.
    pub going: usize,
    /// `spec.limits.nodes`.
    pub limit: Option<usize>,
    /// The count in words, with the reason for nodes that are missing.
    pub sentence: String,
}

/// The answer about a NodePool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolAnswer {
    pub pool: String,
    pub node_class: String,
    /// The reason that packing leaves it out; `None` if it may be used.
    pub left_out: Option<String>,
    /// The node that it would launch for a pod that asks for nothing.
    pub launches: Option<Placement>,
    /// The rule that keeps it from launching any node.
    pub launches_nothing: Option<PoolReason>,
    pub limits: Vec<LimitNow>,
    pub nodes: usize,
    /// Claims whose nodes are not ready for pods.
    pub coming: usize,
    /// Dollars an hour of its nodes, as far as their prices are known.
    pub price: f64,
    /// The nodes of a static pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicasNow>,
    pub budgets: Vec<BudgetNow>,
    /// Mistakes in its budgets and annotations.
    pub mistakes: Vec<String>,
    /// Notes on what is held back in it.
    pub held_back: Vec<String>,
    /// Conditions that are not True.
    pub conditions: Vec<ConditionNow>,
}

/// Explains a pool; `None` if there is none of that name.
#[must_use]
pub fn explain_pool(input: &ExplainInput<'_>, name: &str) -> Option<PoolAnswer> {
    let (snapshot, now) = (input.snapshot, input.planning.now);
    let pool = snapshot.pools.get(name)?;
    let of_static = input.gates.static_capacity && pool.spec.replicas.is_some();
    let planning =
        snapshot.planning(&PlanningInput { only: Some(Default::default()), of_static, ..input.planning.clone() });
    let skipped = planning.skipped.iter().find(|one| one.pool == name);
    let (launches, launches_nothing) = if skipped.is_some() { (None, None) } else { probe(input, &planning, name) };
    let replicas = replicas(input, name, skipped.map(|one| one.why.as_str()), launches_nothing.as_ref());
    let view = DisruptionPool::from_pool(pool);
    let all = machines(snapshot, now);
    let own: Vec<_> = all.iter().filter(|machine| machine.claim.pool == name).collect();
    let mut totals = PoolNodeTotals::default();
    own.iter().for_each(|machine| totals.count(machine, machine.deleting));
    let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let claims = snapshot.claims.values().filter(|entry| entry.facts.pool == name);
    Some(PoolAnswer {
        pool: name.to_owned(),
        node_class: pool.spec.template.spec.node_class_ref.name.clone(),
        left_out: skipped.map(|one| one.why.clone()),
        launches,
        launches_nothing,
        limits: limits(&planning, name),
        nodes: own.len(),
        coming: claims.filter(|entry| entry.facts.initialized.is_none()).count(),
        price: price_of(&own, pool, &input.planning.instance_types),
        replicas,
        budgets: RemovalReason::OF_BUDGETS.into_iter().map(|reason| budget(pool, reason, totals, now.wall)).collect(),
        mistakes: view.mistakes(now.wall),
        held_back: held_back(pool, &view),
        conditions: conditions_of(conditions).into_iter().filter(|one| one.status != TRUE).collect(),
    })
}

/// The nodes of a static pool; `None` for any other.
fn replicas(
    input: &ExplainInput<'_>,
    name: &str,
    left_out: Option<&str>,
    nothing: Option<&PoolReason>,
) -> Option<ReplicasNow> {
    let count = input.snapshot.replica_counts(|_| false).remove(name)?;
    let lack = match (left_out, nothing) {
        _ if count.room() == 0 => Some(Shortfall::AtLimit),
        (Some(why), _) => Some(Shortfall::LeftOut(why.to_owned())),
        (None, Some(reason)) => Some(Shortfall::NothingFits(reason.detail.clone())),
        (None, None) => None,
    };
    let sentence = match input.gates.static_capacity {
        true => judge_replicas(input.snapshot, &count, lack.as_ref()).message,
        false => STATIC_GATE_OFF.to_owned(),
    };
    Some(ReplicasNow {
        desired: count.desired,
        ready: count.ready(input.snapshot),
        outgoing: count.outgoing.len(),
        going: count.going,
        limit: count.limit(),
        sentence,
    })
}

/// Dollars an hour of machines, as far as their prices are known.
fn price_of(machines: &[&NodeAndClaim<'_>], pool: &NodePool, offers: &OffersByClass) -> f64 {
    // A sum of none is -0.
    machines.iter().map(|one| node_price(one.node, pool, offers)).fold(0.0, |sum, price| sum + price)
}

/// The node that a pool launches for a pod that asks for nothing and tolerates its taints, or the rule that is in the way.
fn probe(input: &ExplainInput<'_>, planning: &Planning, pool: &str) -> (Option<Placement>, Option<PoolReason>) {
    let anything = Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() };
    let pod = Pod {
        name: "any".to_owned(),
        namespace: "default".to_owned(),
        node_selector: [(NODE_POOL.to_owned(), pool.to_owned())].into(),
        tolerations: vec![anything],
        ..Pod::default()
    };
    let problem = Arc::new(Problem { pods: vec![pod], existing_nodes: vec![], ..Problem::clone(&planning.problem) });
    let packing = (input.solve)(&problem, input.options);
    let reason = packing.unscheduled.first().and_then(|(_, reason)| match reason.as_ref() {
        Reason::NoPoolFits { pools } => pools.iter().find(|one| one.pool == pool).cloned(),
        _ => None,
    });
    (Placement::for_pod(&problem, &packing, 0), reason)
}

fn limits(planning: &Planning, name: &str) -> Vec<LimitNow> {
    let pool = planning.problem.node_pools.iter().find(|pool| pool.name == name);
    let one = |usage: i64, resource: &str, limit: i64| LimitNow {
        resource: resource.to_owned(),
        limit: format_amount(resource, limit),
        used: format_amount(resource, usage),
        left: format_amount(resource, limit.saturating_sub(usage)),
    };
    pool.into_iter()
        .flat_map(|pool| {
            pool.limits
                .iter()
                .map(|(resource, limit)| one(pool.usage.get(resource), resource, limit))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn budget(pool: &NodePool, reason: RemovalReason, totals: PoolNodeTotals, now: Timestamp) -> BudgetNow {
    let changes_at = next_change(pool, reason, totals.nodes, now);
    BudgetNow {
        reason: reason.budget_key().unwrap_or_default(),
        nodes: allowed(pool, reason, totals.nodes, now).nodes,
        disrupting: totals.used_for(reason),
        changes_at,
        nodes_then: changes_at.and_then(|then| allowed(pool, reason, totals.nodes, then).nodes),
    }
}

fn held_back(pool: &NodePool, view: &DisruptionPool<'_>) -> Vec<String> {
    let mut all = Vec::new();
    match &view.observing {
        Observing::No => {}
        Observing::Yes => all.push("its nodes are only observed: none of them is disrupted".to_owned()),
        Observing::Unclear(says) => {
            all.push(format!("its annotation dovetail.dev/disruption says {says:?}: none of its nodes is disrupted"));
        }
    }
    if pool.metadata.annotations.as_ref().is_some_and(|own| own.contains_key(UNUSED_LAUNCHES)) {
        all.push(format!(
            "workloads that did not use their nodes wait for the next try: the annotation {UNUSED_LAUNCHES} says until when"
        ));
    }
    all
}
