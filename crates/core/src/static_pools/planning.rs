//! New nodes of static pools as a packing problem: one pod that asks for nothing stands for each, and no two of them share a
//! node. They are spread over the zones in which the pool can launch, after free instances of capacity reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::labels::NODE_POOL;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodAntiAffinity,
    PreferredSchedulingTerm, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Shortfall;
use crate::cluster_state::{ClaimEntry, Planning, PlanningInput, ReplicaCount, Snapshot};
use crate::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use crate::pack::{Packing, Reason};
use crate::pod::Pod;
use crate::problem::{Pool, PreferencePolicy, Problem};
use crate::requirements::Requirements;

/// Label of the pods that stand for a pool's nodes. No object ever has it.
const REPLICA_OF: &str = "dovetail.dev/replica-of";

/// The problem of so many new nodes of each pool.
#[must_use]
pub fn plan_replicas(snapshot: &Snapshot, input: &PlanningInput, wanted: &BTreeMap<String, usize>) -> Planning {
    let input = PlanningInput { of_static: true, preferences: PreferencePolicy::Respect, ..input.clone() };
    let mut planning = snapshot.planning_for(&input, &[]);
    let counts = snapshot.replica_counts(|_| false);
    let mut problem = Problem { existing_nodes: Vec::new(), ..Problem::clone(&planning.problem) };
    for (name, number) in wanted {
        let pool = problem.node_pools.iter().find(|pool| pool.name == *name);
        let (Some(pool), Some(count)) = (pool, counts.get(name.as_str())) else { continue };
        let mut zones = ZoneBalance::new(&problem, pool, count);
        let pods = (0..*number).map(|nth| replica_pod(name, nth, zones.next_zone().as_deref())).collect::<Vec<_>>();
        problem.pods.extend(pods);
    }
    // Its limit is kept by the count, which knows of claims that go; its ceiling of dollars is not.
    problem.node_pools.iter_mut().for_each(|pool| pool.limits = pool.limits.of_dollars());
    (planning.problem, planning.existing) = (Arc::new(problem), Vec::new());
    planning
}

/// The pools for which fewer nodes are planned than are wanted, each with the reason.
#[must_use]
pub fn unplaced(
    planning: &Planning,
    packing: &Packing,
    wanted: &BTreeMap<String, usize>,
) -> BTreeMap<String, Shortfall> {
    let mut all = BTreeMap::new();
    for name in wanted.keys() {
        if let Some(skipped) = planning.skipped.iter().find(|one| one.pool == *name) {
            all.insert(name.clone(), Shortfall::LeftOut(skipped.why.clone()));
        }
    }
    for (pod, reason) in &packing.unscheduled {
        let Some(pool) = planning.problem.pods[*pod].labels.get(REPLICA_OF) else { continue };
        all.entry(pool.clone()).or_insert_with(|| Shortfall::NothingFits(why_not(reason, pool)));
    }
    all
}

/// The reason that a pool gets no node, without the names of others.
fn why_not(reason: &Reason, pool: &str) -> String {
    match reason {
        Reason::NoPoolFits { pools } => {
            pools.iter().find(|one| one.pool == pool).map_or_else(|| reason.to_string(), |one| one.detail.clone())
        }
        _ => reason.to_string(),
    }
}

/// The zone of a claim's instance, or the only one that it may have; empty if it has a choice.
pub(super) fn zone_of(entry: &ClaimEntry) -> String {
    let label = entry.claim.metadata.labels.as_ref().and_then(|own| own.get(ZONE)).cloned();
    let pinned = entry.claim.spec.requirements.iter().find(|one| one.key == ZONE && one.values.len() == 1);
    label.or_else(|| pinned.and_then(|one| one.values.first()).cloned()).unwrap_or_default()
}

/// A pool's zones, with the number of its nodes in each.
struct ZoneBalance {
    /// Nodes and cheapest price by zone.
    zones: BTreeMap<String, (usize, f64)>,
    /// Free instances of capacity reservations, which are used wherever they are.
    reserved: usize,
}

impl ZoneBalance {
    fn new(problem: &Problem, pool: &Pool, count: &ReplicaCount<'_>) -> Self {
        let wanted = Requirements::from_written(&pool.requirements).unwrap_or_default();
        let allows = |key: &str, value: &str| wanted.get(key).is_none_or(|one| one.has(value));
        let own: Option<BTreeSet<usize>> = pool.instance_types.as_ref().map(|all| all.iter().copied().collect());
        let types = problem.instance_types.iter().enumerate();
        let types = types.filter(|(at, _)| own.as_ref().is_none_or(|own| own.contains(at)));
        let offerings = types
            .flat_map(|(_, one)| &one.offerings)
            .filter(|one| one.available && allows(ZONE, &one.zone) && allows(CAPACITY_TYPE, &one.capacity_type));
        let (mut zones, mut free) = (BTreeMap::<String, (usize, f64)>::new(), BTreeMap::<&str, u32>::new());
        for one in offerings {
            let (_, price) = zones.entry(one.zone.clone()).or_insert((0, f64::INFINITY));
            *price = price.min(one.price);
            free.extend(one.reservation().zip(one.reservation_capacity));
        }
        for zone in count.active.iter().map(|entry| zone_of(entry)) {
            if let Some((number, _)) = zones.get_mut(&zone) {
                *number += 1;
            }
        }
        Self { zones, reserved: free.values().map(|number| *number as usize).sum() }
    }

    /// The zone of the next node: the one with fewest, of these the cheapest.
    fn next_zone(&mut self) -> Option<String> {
        if self.reserved > 0 {
            self.reserved -= 1;
            return None;
        }
        let (name, _) =
            self.zones.iter().min_by(|(_, (a, cheap)), (_, (b, other))| a.cmp(b).then(cheap.total_cmp(other)))?;
        let name = name.clone();
        self.zones.entry(name.clone()).and_modify(|(number, _)| *number += 1);
        Some(name)
    }
}

/// A pod that stands for one node of a pool.
fn replica_pod(pool: &str, nth: usize, zone: Option<&str>) -> Pod {
    let labels: BTreeMap<String, String> = [(REPLICA_OF.to_owned(), pool.to_owned())].into();
    let anything = Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() };
    let alone = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() }),
        topology_key: HOSTNAME.to_owned(),
        ..PodAffinityTerm::default()
    };
    let alone = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![alone]),
        ..PodAntiAffinity::default()
    };
    let affinity = Affinity { node_affinity: zone.map(preferring), pod_anti_affinity: Some(alone), pod_affinity: None };
    Pod {
        name: format!("{pool}-{nth}"),
        namespace: "static-pool".to_owned(),
        uid: format!("static-pool.{pool}.{nth}"),
        labels,
        node_selector: [(NODE_POOL.to_owned(), pool.to_owned())].into(),
        tolerations: vec![anything],
        affinity: Some(affinity),
        ..Pod::default()
    }
}

/// The affinity of a pod that had rather be in a zone.
fn preferring(zone: &str) -> NodeAffinity {
    let wanted = NodeSelectorRequirement {
        key: ZONE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![zone.to_owned()]),
    };
    let preference = NodeSelectorTerm { match_expressions: Some(vec![wanted]), match_fields: None };
    NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![PreferredSchedulingTerm {
            weight: 100,
            preference,
        }]),
        ..NodeAffinity::default()
    }
}
