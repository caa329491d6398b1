//! Nodes of static pools in a plan: they are there whatever pods wait, and take pods before anything is launched.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_core::Problem;
use dovetail_core::Resources;
use dovetail_core::cluster_state::{PlanningInput, Snapshot};
use dovetail_core::pack::{Options, Packing, PlannedClaim, node_of_claim, quotas_with_plan};
use dovetail_core::static_pools::{Shortfall, plan_replicas, unplaced};
use dovetail_input::Mistake;
use serde::Serialize;

use super::answer::type_name;
use crate::survive;

/// A static pool, with the nodes that it lacks and gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StaticPoolPlan {
    node_pool: String,
    replicas: usize,
    /// Nodes that are there already.
    existing: usize,
    nodes: Vec<StaticNode>,
    /// Dollars an hour of the new nodes, each at its cheapest.
    hourly_price: f64,
    /// The reason that it gets fewer nodes than `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct StaticNode {
    instance_type: String,
    zone: String,
    capacity_type: String,
}

/// Settings with these feature gates, by which static pools and capacity buffers are held or not.
pub(super) fn gates_of(feature_gates: Option<&str>) -> Result<Settings, Vec<Mistake>> {
    let Some(text) = feature_gates else { return Ok(Settings::default()) };
    let given = BTreeMap::from([("FEATURE_GATES".to_owned(), text.to_owned())]);
    let wrong = |all: Vec<dovetail_actors::SettingError>| {
        let each = all.into_iter().map(|one| Mistake::of_file("--feature-gates", one.what).allowing(one.allowed));
        each.collect::<Vec<_>>()
    };
    Settings::from_map(&given).map_err(wrong)
}

/// Plans the nodes that static pools lack, and adds them to the nodes that the problem has.
pub(super) fn add(
    problem: &mut Problem,
    snapshot: &Snapshot,
    input: &PlanningInput,
    options: &Options,
) -> Vec<StaticPoolPlan> {
    let counts = snapshot.replica_counts(|_| false);
    let wanted: BTreeMap<String, usize> =
        counts.iter().map(|(name, count)| ((*name).to_owned(), count.missing().min(count.room()))).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let planning = plan_replicas(snapshot, input, &wanted);
    let packing = match planning.problem.pods.is_empty() {
        true => Packing::default(),
        false => survive::solve(&planning.problem, options),
    };
    let lacks = unplaced(&planning, &packing, &wanted);
    // Quotas count machines by their objects, and these nodes have none.
    let mut used: BTreeMap<String, Resources> =
        quotas_with_plan(&planning.problem, &packing).into_iter().map(|quota| (quota.name, quota.usage)).collect();
    for quota in &mut problem.quotas {
        quota.usage = used.remove(&quota.name).unwrap_or_else(|| std::mem::take(&mut quota.usage));
    }
    let mut all = Vec::new();
    for (name, count) in counts {
        let own = |claim: &&PlannedClaim| planning.problem.node_pools[claim.pool].name == name;
        let claims: Vec<&PlannedClaim> = packing.claims.iter().filter(own).collect();
        for (nth, claim) in claims.iter().enumerate() {
            let node = node_of_claim(&planning.problem, claim, format!("{name}-{}", nth + 1));
            problem.existing_nodes.extend(node);
        }
        let missing = match lacks.get(name) {
            Some(Shortfall::LeftOut(why) | Shortfall::NothingFits(why)) => Some(why.clone()),
            _ if count.room() < count.missing() => {
                Some(format!("spec.limits.nodes is {}", count.limit().unwrap_or_default()))
            }
            _ => None,
        };
        let mut nodes: Vec<StaticNode> = claims.iter().map(|claim| StaticNode::new(&planning.problem, claim)).collect();
        nodes.sort_unstable();
        all.push(StaticPoolPlan {
            node_pool: name.to_owned(),
            replicas: count.desired,
            existing: count.standing(),
            nodes,
            // A sum of none is -0.
            hourly_price: claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price),
            missing,
        });
    }
    all
}

impl StaticNode {
    fn new(problem: &Arc<Problem>, claim: &PlannedClaim) -> Self {
        Self {
            instance_type: type_name(problem, claim.cheapest_type()).to_owned(),
            zone: claim.cheapest_zone.clone(),
            capacity_type: claim.cheapest_capacity_type.clone(),
        }
    }
}

/// A line for each static pool.
pub(super) fn lines(pools: &[StaticPoolPlan]) -> String {
    let mut text = String::new();
    for pool in pools {
        let mut alike: BTreeMap<String, usize> = BTreeMap::new();
        for node in &pool.nodes {
            *alike.entry(format!("{} {} {}", node.instance_type, node.capacity_type, node.zone)).or_default() += 1;
        }
        let each: Vec<String> = alike.iter().map(|(one, count)| format!("{count} {one}")).collect();
        let there = if pool.existing > 0 { format!("{} there, ", pool.existing) } else { String::new() };
        let which = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
        let _ = write!(
            text,
            "static pool {}: {} replicas: {there}{} to launch{which}, ${:.4} an hour more",
            pool.node_pool,
            pool.replicas,
            pool.nodes.len(),
            pool.hourly_price
        );
        let missing = pool.missing.as_ref().map(|why| format!("; the rest is missing: {why}"));
        let _ = writeln!(text, "{}", missing.unwrap_or_default());
    }
    text
}
