//! Pods that are kept off pools because their workloads have not used the nodes launched for them, and the annotation in
//! which that is written down (docs/decisions/037).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::{annotations, labels};
use jiff::{SignedDuration, Timestamp};

use crate::cluster_state::launches::unused::MOST_NAMED;
use crate::cluster_state::placing::pod_groups::GroupOf;
use crate::cluster_state::{ClaimEntry, Moment, Snapshot};
use crate::launch_limits::{Taken, UnusedWorkload};
use crate::pod::Pod;
use crate::requirements::{NodeSelectorRequirement, Operator};

/// Time after which an attempt without a result no longer delays others: the time to register, and some.
const LONGEST_TRY: SignedDuration = SignedDuration::from_mins(20);

impl Snapshot {
    /// Requests of DaemonSets on new nodes beyond their templates, as pods of the instance types' nodes in their pools.
    pub(in crate::cluster_state) fn daemons_beyond(&self, now: Timestamp) -> Vec<Pod> {
        let pod = |(pool, taken): (&str, &Taken)| {
            let (name, kind) = (format!("daemons of {pool}"), taken.instance_type.clone());
            let selector = [(labels::NODE_POOL.to_owned(), pool.to_owned()), (labels::INSTANCE_TYPE.to_owned(), kind)];
            let anything = k8s_openapi::api::core::v1::Toleration {
                operator: Some("Exists".to_owned()),
                ..k8s_openapi::api::core::v1::Toleration::default()
            };
            let (requests, node_selector) = (taken.more.clone(), selector.into());
            let uid = format!("daemons/{pool}/{}", taken.instance_type);
            // This was seen: it counts before what is only written in templates.
            let priority = i32::MAX;
            Pod { name, uid, requests, node_selector, priority, tolerations: vec![anything], ..Pod::default() }
        };
        self.unused.taken(now).map(pod).collect()
    }

    /// The workloads of pods, as the annotation of a claim of that pool lists them.
    #[must_use]
    pub fn launched_for(&self, pool: &str, class: &str, pods: &[String]) -> String {
        let entries = pods.iter().filter_map(|uid| self.pods.get(uid)).filter(|entry| !entry.pod.is_room());
        let workloads: BTreeSet<&str> = entries.map(|entry| entry.workload.as_str()).collect();
        let said = workloads.into_iter().take(MOST_NAMED).map(|one| match self.unused.failures(pool, class, one) {
            0 => one.to_owned(),
            failures => format!("{one}:{failures}"),
        });
        said.collect::<Vec<_>>().join(",")
    }

    /// Keeps pods off the pools whose nodes their workloads have not used, except one pod, with its gang, when it is time to try again.
    /// Answers the reason for each that is kept off, by uid.
    pub(in crate::cluster_state) fn hold_back(&self, pods: &mut [Pod], now: Moment) -> BTreeMap<String, String> {
        let mut held = BTreeMap::new();
        let cases = self.cases(now.wall);
        if cases.is_empty() {
            return held;
        }
        let of = |pod: &Pod| {
            let (workload, all) = cases.get_key_value(self.pods.get(pod.base_uid())?.workload.as_str())?;
            Some((*workload, all))
        };
        // The pod that tries a pool, by pool and workload.
        let mut goes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate().filter(|(_, pod)| !pod.to_come) {
            let Some((workload, all)) = of(pod) else { continue };
            for case in all.iter().filter(|case| case.free) {
                let key = (case.pool, workload);
                if goes.get(&key).is_none_or(|other| older(pod, &pods[*other])) {
                    goes.insert(key, at);
                }
            }
        }
        let gangs: Vec<Option<GroupOf<'_>>> = pods.iter().map(|pod| self.gang_of_pod(pod)).collect();
        for (at, pod) in pods.iter_mut().enumerate() {
            let Some((workload, all)) = of(pod) else { continue };
            let goes = |case: &&Case| {
                let first = goes.get(&(case.pool, workload));
                first.is_some_and(|first| *first == at || (gangs[at].is_some() && gangs[*first] == gangs[at]))
            };
            let off: Vec<&Case> = all.iter().filter(|case| !goes(case)).collect();
            if !off.is_empty() {
                keep_off_pools(pod, off.iter().map(|case| case.pool.to_owned()).collect());
                let why = off.iter().map(|case| case.why.as_str()).collect::<Vec<_>>().join("; ");
                held.insert(pod.uid.clone(), why);
            }
        }
        held
    }

    /// The workloads that have not used nodes of pools, as these are now: each workload and each claim is looked at once,
    /// however many pods there are.
    fn cases(&self, now: Timestamp) -> BTreeMap<&str, Vec<Case<'_>>> {
        let mut cases: BTreeMap<&str, Vec<Case<'_>>> = BTreeMap::new();
        if self.unused.is_empty() {
            return cases;
        }
        let tried = self.tried(now);
        for (pool, failing) in self.unused.failing() {
            let class =
                self.pools.get(pool).and_then(|pool| pool.spec.template.spec.node_class_ref.name_for(self.provider));
            if class != Some(failing.class.as_str()) {
                continue;
            }
            let own = (pool, failing.class.as_str(), failing.workload.as_str(), failing.failures);
            let free = now >= failing.until && !tried.contains(&own);
            let why = why(pool, failing);
            cases.entry(failing.workload.as_str()).or_default().push(Case { pool, free, why });
        }
        cases
    }

    /// Nodes on their way, or just come, that show whether a workload uses the next: pool, class, workload, and the number of
    /// nodes that it had not used before.
    fn tried(&self, now: Timestamp) -> BTreeSet<(&str, &str, &str, u32)> {
        let waits = |entry: &&Arc<ClaimEntry>| {
            let facts = &entry.facts;
            self.unused.holds_any(&facts.pool)
                && !self.deleting.claims.contains(&facts.name)
                && !self.has_had_pods(entry)
                && facts.created.is_none_or(|created| now.duration_since(created) < LONGEST_TRY)
        };
        let mut tried = BTreeSet::new();
        for entry in self.claims.values().filter(waits) {
            let (pool, class) = (entry.facts.pool.as_str(), entry.claim.spec.node_class_ref.name.as_str());
            tried.extend(
                entry.facts.launched_for.iter().map(|(workload, failures)| (pool, class, workload.as_str(), *failures)),
            );
        }
        tried
    }

    fn has_had_pods(&self, entry: &ClaimEntry) -> bool {
        let node = &entry.facts.node;
        entry.facts.last_pod_event.is_some()
            || self.moves.contains_key(node)
            || self.loads.get(node).is_some_and(|load| load.visitors > 0)
    }

    /// Annotations to write on NodePools, by the pool's name.
    #[must_use]
    pub fn unused_to_write(&self) -> Vec<(String, String)> {
        let text = |name: &str| {
            let pool = self.pools.get(name)?;
            let own = pool.metadata.annotations.as_ref();
            let written = own.and_then(|own| own.get(annotations::UNUSED_LAUNCHES));
            Some((name.to_owned(), self.unused.to_write(name, written.map(String::as_str))?))
        };
        self.unused.pools().filter_map(text).collect()
    }
}

/// A workload that has not used the nodes of a pool.
struct Case<'a> {
    pool: &'a str,
    /// True if the next node may be tried.
    free: bool,
    why: String,
}

/// Keeps a pod off pools, given by name.
fn keep_off_pools(pod: &mut Pod, pools: Vec<String>) {
    keep_off(pod, labels::NODE_POOL, pools);
}

/// Keeps a pod off nodes whose label has one of these values.
pub(super) fn keep_off(pod: &mut Pod, key: &str, values: Vec<String>) {
    let rule = NodeSelectorRequirement { key: key.to_owned(), operator: Operator::NotIn, values, min_values: None };
    if pod.volume_topology.is_empty() {
        pod.volume_topology.push(Vec::new());
    }
    pod.volume_topology.iter_mut().for_each(|place| place.push(rule.clone()));
}

/// True if a pod is tried before another.
pub(super) fn older(pod: &Pod, other: &Pod) -> bool {
    (pod.created, &pod.namespace, &pod.name) < (other.created, &other.namespace, &other.name)
}

fn why(pool: &str, failing: &UnusedWorkload) -> String {
    format!(
        "{} node(s) in a row that NodePool {pool} launched for it were not used, the next is tried after {} ({})",
        failing.failures,
        failing.until.strftime("%H:%M:%SZ"),
        failing.why
    )
}
