//! Rules between pods, checked naively on the finished plan: who is where, and whether each pod's hard rules hold.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::pack::Packing;
use dovetail_core::{Pod, Policy, Problem};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// A pod and the values of its node's labels that rules may ask for; `None` where the node may still be several.
struct Bound<'a> {
    pod: &'a Pod,
    new: bool,
    host: String,
    zone: Option<String>,
}

impl Bound<'_> {
    fn domain(&self, key: &str) -> Option<String> {
        match key {
            HOST => Some(self.host.clone()),
            ZONE => self.zone.clone(),
            _ => None,
        }
    }
}

#[allow(clippy::too_many_lines)] // one rule after the other
pub fn violations(problem: &Problem, packing: &Packing) -> Vec<String> {
    let bound = bound(problem, packing);
    let there: BTreeSet<&String> = problem.existing_nodes.iter().filter_map(|node| node.labels.get(ZONE)).collect();
    let mut wrong = Vec::new();
    let mut counted: BTreeMap<(String, String, String), BTreeMap<String, u32>> = BTreeMap::new();
    for one in bound.iter().filter(|one| one.new) {
        let pod = one.pod;
        for spread in pod.topology_spread_constraints.iter().filter(|one| one.when_unsatisfiable == "DoNotSchedule") {
            let selector = spread.label_selector.as_ref().unwrap();
            let id = (pod.namespace.clone(), spread.topology_key.clone(), format!("{selector:?}"));
            let counts = counted.entry(id).or_insert_with(|| {
                let mut counts = BTreeMap::new();
                let meant = bound.iter().filter(|two| two.pod.namespace == pod.namespace && matches(selector, two.pod));
                meant
                    .filter_map(|two| two.domain(&spread.topology_key))
                    .for_each(|at| *counts.entry(at).or_insert(0) += 1);
                counts
            });
            let Some(own) = one.domain(&spread.topology_key) else {
                wrong.push(format!("{} is spread and its node may be in several domains", pod.name));
                continue;
            };
            let own_zone = pod.node_selector.get(ZONE);
            let zones: BTreeSet<&String> = there.iter().copied().chain(zones_for(problem, pod)).collect();
            let eligible = zones.into_iter().filter(|zone| own_zone.is_none_or(|own| own == *zone));
            let least = if spread.topology_key == HOST {
                0
            } else {
                eligible.map(|zone| counts.get(zone).copied().unwrap_or(0)).min().unwrap_or(0)
            };
            if counts.get(&own).copied().unwrap_or(0) > least + spread.max_skew as u32 {
                wrong.push(format!("{}: {} in {own}, {least} at the least", pod.name, counts[&own]));
            }
        }
        let affinity = pod.affinity.as_ref();
        let apart = affinity.and_then(|all| all.pod_anti_affinity.as_ref());
        for term in
            apart.into_iter().flat_map(|all| all.required_during_scheduling_ignored_during_execution.iter().flatten())
        {
            let selector = term.label_selector.as_ref().unwrap();
            let own = one.domain(&term.topology_key);
            let other = bound.iter().find(|two| {
                !std::ptr::eq(two.pod, pod)
                    && two.pod.namespace == pod.namespace
                    && matches(selector, two.pod)
                    && (own.is_none()
                        || two.domain(&term.topology_key).is_none()
                        || two.domain(&term.topology_key) == own)
            });
            wrong.extend(other.map(|two| format!("{} and {} are too close", pod.name, two.pod.name)));
        }
        let together = affinity.and_then(|all| all.pod_affinity.as_ref());
        for term in together
            .into_iter()
            .flat_map(|all| all.required_during_scheduling_ignored_during_execution.iter().flatten())
        {
            let selector = term.label_selector.as_ref().unwrap();
            let own = one.domain(&term.topology_key);
            let mut meant = bound.iter().filter(|two| two.pod.namespace == pod.namespace && matches(selector, two.pod));
            if own.is_none() || !meant.any(|two| two.domain(&term.topology_key) == own) {
                wrong.push(format!("{} has no company", pod.name));
            }
        }
    }
    wrong
}

/// The zones in which some instance type holds a pod by what it requests and the volumes that it shares, in a pool whose taints
/// it tolerates; all types of a node group have to.
fn zones_for<'a>(problem: &'a Problem, pod: &'a Pod) -> impl Iterator<Item = &'a String> {
    let holds = |one: &&std::sync::Arc<dovetail_core::InstanceType>| {
        let room = one.allocatable();
        let shared = |name: &str| pod.shared_volumes.values().filter(|own| *own == name).count() as i64;
        let most = |name: &str| one.attachments.find(name).unwrap_or(i64::MAX);
        let plain = pod.requests.iter().filter(|(name, _)| !name.starts_with("attachable-volumes-"));
        plain.into_iter().all(|(name, amount)| room.get(name) >= amount)
            && one.attachments.iter().all(|(name, _)| pod.requests.get(name) + shared(name) <= most(name))
    };
    let open = problem.node_pools.iter().filter(|pool| pool.taints.iter().all(|taint| tolerates(pod, taint)));
    let (grouped, count) =
        open.fold((true, 0), |(grouped, count), pool| (grouped && pool.policy == Policy::NodeGroups, count + 1));
    let none = count == 0 || grouped && !problem.instance_types.iter().all(|one| holds(&one));
    let types = problem.instance_types.iter().filter(move |_| !none);
    types.filter(holds).flat_map(|one| &one.offerings).map(|one| &one.zone)
}

fn tolerates(pod: &Pod, taint: &k8s_openapi::api::core::v1::Taint) -> bool {
    let covers = |one: &k8s_openapi::api::core::v1::Toleration| {
        one.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
            && one.key.as_ref().is_none_or(|key| *key == taint.key)
            && (one.operator.as_deref() == Some("Exists") || one.value == taint.value)
    };
    taint.effect == "PreferNoSchedule" || pod.tolerations.iter().any(covers)
}

fn bound<'a>(problem: &'a Problem, packing: &Packing) -> Vec<Bound<'a>> {
    let mut all = Vec::new();
    for (at, claim) in packing.claims.iter().enumerate() {
        let said = claim.requirements.iter().find(|said| said.key == ZONE);
        let zone = said.filter(|said| said.values.len() == 1).map(|said| said.values[0].clone());
        all.extend(claim.pods.iter().map(|pod| Bound {
            pod: &problem.pods[*pod],
            new: true,
            host: format!("claim-{at}"),
            zone: zone.clone(),
        }));
    }
    for (at, node) in problem.existing_nodes.iter().enumerate() {
        let (host, zone) = (node.name.clone(), node.labels.get(ZONE).cloned());
        let placed = packing.on_existing.iter().filter(|(node, _)| *node == at).flat_map(|(_, pods)| pods);
        all.extend(placed.map(|pod| Bound {
            pod: &problem.pods[*pod],
            new: true,
            host: host.clone(),
            zone: zone.clone(),
        }));
        all.extend(node.pods.iter().map(|pod| Bound { pod, new: false, host: host.clone(), zone: zone.clone() }));
    }
    all
}

fn matches(selector: &LabelSelector, pod: &Pod) -> bool {
    assert!(selector.match_expressions.is_none(), "the check knows labels only");
    selector.match_labels.iter().flatten().all(|(key, value)| pod.labels.get(key) == Some(value))
}
