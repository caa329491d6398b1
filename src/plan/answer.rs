//! The answer of `plan --json`, as the contract has it (docs/commands.md).

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::names::labels::ON_DEMAND;
use dovetail_core::commitments::PlanBill;
use dovetail_core::overlays::list_price;
use dovetail_core::pack::{Packing, PlannedClaim, Reason};
use dovetail_core::{NodeSelectorRequirement, Problem, Resources};
use dovetail_telemetry::stopwatch::peak_rss_kib;
use serde::Serialize;

use super::buffers::RoomPlan;
use super::difference::PlanDifference;
use super::live::LiveSummary;
use super::otherwise::Alternative;
use super::overlays::{self, OverlayPlan};
use super::quotas::QuotaPlan;
use super::static_pools::StaticPoolPlan;

/// Times that the command took.
pub struct Times {
    /// Time from the problem as deserialised to the finished packing.
    pub solve: Duration,
    /// Reading and deserialising.
    pub load: Duration,
    /// All of it.
    pub wall: Duration,
}

/// Output of `plan --json` (docs/commands.md).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanAnswer<'a> {
    workload: &'a str,
    pods: usize,
    solve_ms: f64,
    load_ms: f64,
    wall_ms: f64,
    scheduled_pods: usize,
    unscheduled: BTreeMap<String, String>,
    reasons: Vec<LeftOver<'a>>,
    num_node_claims: usize,
    total_cheapest_hourly_price: f64,
    expected_hourly_price: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_for_hourly_price: Option<f64>,
    /// Dollars an hour at list prices, where NodeOverlays say others.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_hourly_price: Option<f64>,
    /// Effect on the bill, where there are commitments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bill: Option<BillAnswer>,
    #[serde(rename = "peakRssKiB")]
    peak_rss_kib: u64,
    node_claims: Vec<Claim<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    existing_nodes: Vec<Filled<'a>>,
    /// Static pools, where their feature gate is open.
    #[serde(skip_serializing_if = "<[StaticPoolPlan]>::is_empty")]
    pub(super) static_pools: &'a [StaticPoolPlan],
    /// NodeOverlays, where their feature gate is open.
    #[serde(skip_serializing_if = "<[OverlayPlan]>::is_empty")]
    pub(super) overlays: &'a [OverlayPlan],
    /// CapacityQuotas, where their feature gate is open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) capacity_quotas: Vec<QuotaPlan>,
}

/// The answer with what was asked for beside the plan.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WholeAnswer<'a> {
    #[serde(flatten)]
    pub(super) plan: PlanAnswer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) live: Option<&'a LiveSummary>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) otherwise: &'a [Alternative],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<&'a PlanDifference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity_buffers: Option<&'a RoomPlan>,
}

/// Dollars an hour, where there are Savings Plans or Reserved Instances.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BillAnswer {
    /// Amount that the plan adds to the bill.
    added_hourly_price: f64,
    /// Part of its nodes' on-demand prices that commitments cover.
    covered_hourly_price: f64,
    /// Part of the commitments' cost that stays unused.
    unused_hourly_price: f64,
}

impl From<PlanBill> for BillAnswer {
    fn from(bill: PlanBill) -> Self {
        Self { added_hourly_price: bill.added, covered_hourly_price: bill.covered, unused_hourly_price: bill.unused }
    }
}

/// An existing node and the pods planned on it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Filled<'a> {
    name: &'a str,
    pod_names: Vec<String>,
}

/// Pods left over for one reason, as a program reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeftOver<'a> {
    pod_names: Vec<String>,
    reason: &'a Reason,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claim<'a> {
    node_pool: &'a str,
    pod_names: Vec<String>,
    requests: &'a Resources,
    requirements: &'a [NodeSelectorRequirement],
    instance_type_options: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    too_dear: usize,
    cheapest_type: &'a str,
    cheapest_zone: &'a str,
    cheapest_capacity_type: &'a str,
    price: f64,
    /// The price that is paid, where NodeOverlays say another.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_price: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl<'a> PlanAnswer<'a> {
    /// The answer for a packing, its pods as `called` says.
    pub fn new(problem: &'a Problem, packing: &'a Packing, times: &Times, called: PodNamer) -> Self {
        let node_claims: Vec<Claim<'a>> =
            packing.claims.iter().map(|claim| Claim::new(problem, claim, called)).collect();
        Self {
            workload: &problem.name,
            pods: waiting(problem),
            solve_ms: milliseconds(times.solve),
            load_ms: milliseconds(times.load),
            wall_ms: milliseconds(times.wall),
            scheduled_pods: waiting(problem) - packing.unscheduled.len(),
            unscheduled: packing
                .unscheduled
                .iter()
                .map(|(pod, reason)| (called(problem, *pod), reason.to_string()))
                .collect(),
            reasons: reasons(problem, packing, called),
            num_node_claims: node_claims.len(),
            total_cheapest_hourly_price: node_claims
                .iter()
                .map(|claim| claim.price)
                .fold(0.0, |sum, price| sum + price),
            expected_hourly_price: packing
                .claims
                .iter()
                .map(PlannedClaim::expected_price)
                .fold(0.0, |sum, price| sum + price),
            paid_for_hourly_price: paid_for(problem, packing),
            list_hourly_price: overlays::list_prices(problem, packing),
            bill: None,
            peak_rss_kib: peak_rss_kib(),
            node_claims,
            existing_nodes: packing
                .on_existing
                .iter()
                .map(|(node, pods)| Filled::new(problem, *node, pods, called))
                .collect(),
            static_pools: &[],
            overlays: &[],
            capacity_quotas: Vec::new(),
        }
    }
}

impl<'a> Filled<'a> {
    fn new(problem: &'a Problem, node: usize, pods: &[usize], called: PodNamer) -> Self {
        let mut pod_names: Vec<String> = pods.iter().map(|pod| called(problem, *pod)).collect();
        pod_names.sort_unstable();
        Self { name: &problem.existing_nodes[node].name, pod_names }
    }
}

/// Dollars an hour, on demand, of the nodes in capacity reservations, which are paid for; none if there are no such nodes.
pub fn paid_for(problem: &Problem, packing: &Packing) -> Option<f64> {
    let reserved = packing.claims.iter().filter(|claim| claim.reservations().next().is_some());
    let prices: Vec<f64> = reserved
        .map(|claim| {
            let own = claim.cheapest_type().and_then(|one| problem.instance_types.get(one));
            let bought = own.into_iter().flat_map(|one| &one.offerings);
            let mut bought = bought.filter(|one| one.capacity_type == ON_DEMAND && one.zone == claim.cheapest_zone);
            bought.next().map_or(0.0, |one| one.billed_price())
        })
        .collect();
    (!prices.is_empty()).then(|| prices.iter().sum())
}

/// Number of pods that wait for a node.
pub fn waiting(problem: &Problem) -> usize {
    problem.pods.iter().filter(|pod| !pod.to_come).count()
}

/// Each reason once, in the order of the first pod that has it.
fn reasons<'a>(problem: &Problem, packing: &'a Packing, called: PodNamer) -> Vec<LeftOver<'a>> {
    let mut by_reason: BTreeMap<String, LeftOver<'a>> = BTreeMap::new();
    for (pod, reason) in &packing.unscheduled {
        let entry = by_reason.entry(reason.to_string());
        entry.or_insert_with(|| LeftOver { pod_names: vec![], reason }).pod_names.push(called(problem, *pod));
    }
    let mut all: Vec<LeftOver<'a>> = by_reason.into_values().collect();
    all.iter_mut().for_each(|one| one.pod_names.sort_unstable());
    all.sort_by(|a, b| a.pod_names.cmp(&b.pod_names));
    all
}

impl<'a> Claim<'a> {
    fn new(problem: &'a Problem, claim: &'a PlannedClaim, called: PodNamer) -> Self {
        let mut pod_names: Vec<String> = claim.pods.iter().map(|pod| called(problem, *pod)).collect();
        pod_names.sort_unstable();
        Self {
            node_pool: &problem.node_pools[claim.pool].name,
            pod_names,
            requests: &claim.requests,
            requirements: &claim.requirements,
            instance_type_options: claim
                .options
                .iter()
                .map(|option| &*problem.instance_types[option.instance_type].name)
                .collect(),
            too_dear: claim.too_dear,
            cheapest_type: type_name(problem, claim.cheapest_type()),
            cheapest_zone: &claim.cheapest_zone,
            cheapest_capacity_type: &claim.cheapest_capacity_type,
            price: claim.price,
            list_price: list_price(problem, claim),
        }
    }
}

/// An instance type's name, empty where there is none.
pub fn type_name(problem: &Problem, index: Option<usize>) -> &str {
    index.and_then(|index| problem.instance_types.get(index)).map_or("", |one| &one.name)
}

/// Milliseconds, to the microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the name of a pod of a problem.
type PodNamer = fn(&Problem, usize) -> String;

/// A pod as its workload file calls it, in which names are unique.
pub fn file_name(problem: &Problem, pod: usize) -> String {
    problem.pods[pod].name.clone()
}

/// A pod as people call it: with its namespace where that is not `default`.
pub fn pod_name(problem: &Problem, pod: usize) -> String {
    let pod = &problem.pods[pod];
    if pod.namespace.is_empty() || pod.namespace == "default" {
        pod.name.clone()
    } else {
        format!("{}/{}", pod.namespace, pod.name)
    }
}
