//! Which pods are kept off which pools, as their workloads have not used the nodes that were launched for them, and what is
//! written down of that (docs/decisions/037).

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::{annotations, labels};
use jiff::{SignedDuration, Timestamp};

use super::unused::MOST_NAMED;
use super::{ClaimEntry, Moment, Snapshot};
use crate::launch_limits::{Taken, UnusedWorkload};
use crate::pod::Pod;
use crate::requirements::{NodeSelectorRequirement, Operator};

/// A try that has not come to anything for so long keeps nobody waiting any more: the time to register, and some.
const LONGEST_TRY: SignedDuration = SignedDuration::from_mins(20);

impl Snapshot {
    /// What DaemonSets take of new nodes beyond their templates, as pods of the instance types' nodes in their pools.
    pub(super) fn daemons_beyond(&self, now: Timestamp) -> Vec<Pod> {
        let pod = |(pool, taken): (&str, &Taken)| {
            let (name, kind) = (format!("daemons of {pool}"), taken.instance_type.clone());
            let selector = [(labels::NODE_POOL.to_owned(), pool.to_owned()), (labels::INSTANCE_TYPE.to_owned(), kind)];
            let anything = k8s_openapi::api::core::v1::Toleration {
                operator: Some("Exists".to_owned()),
                ..k8s_openapi::api::core::v1::Toleration::default()
            };
            let (requests, node_selector) = (taken.more.clone(), selector.into());
            let uid = format!("daemons/{pool}/{}", taken.instance_type);
            Pod { name, uid, requests, node_selector, tolerations: vec![anything], ..Pod::default() }
        };
        self.unused.taken(now).map(pod).collect()
    }

    /// The workloads of pods as a claim of that pool says what it is launched for.
    #[must_use]
    pub fn launched_for(&self, pool: &str, class: &str, pods: &[String]) -> String {
        let workloads: BTreeSet<&str> =
            pods.iter().filter_map(|uid| self.pods.get(uid)).map(|entry| entry.workload.as_str()).collect();
        let said = workloads.into_iter().take(MOST_NAMED).map(|one| match self.unused.failures(pool, class, one) {
            0 => one.to_owned(),
            failures => format!("{one}:{failures}"),
        });
        said.collect::<Vec<_>>().join(",")
    }

    /// Keeps pods off the pools whose nodes their workloads have not used, but for one when it is time to try again. Answers
    /// of each that is kept off, by uid, why.
    pub(super) fn hold_back(&self, pods: &mut [Pod], now: Moment) -> BTreeMap<String, String> {
        let mut held = BTreeMap::new();
        if self.unused.is_empty() {
            return held;
        }
        let mut tried: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut kept_off: Vec<Vec<(String, String)>> = vec![Vec::new(); pods.len()];
        let base = |pod: &Pod| pod.uid.split('/').next().unwrap_or_default().to_owned();
        for (at, pod) in pods.iter().enumerate() {
            let Some(entry) = self.pods.get(&base(pod)) else { continue };
            for (pool, failing) in self.unused.of_workload(&entry.workload) {
                let known = self.pools.get(pool);
                if known.is_none_or(|pool| {
                    pool.spec.template.spec.node_class_ref.ec2_name() != Some(failing.class.as_str())
                }) {
                    continue;
                }
                let free = now.wall >= failing.until && !pod.to_come && !self.is_tried(pool, failing, now.wall);
                let key = (pool.to_owned(), entry.workload.clone());
                let first = tried.get(&key).is_none_or(|other| older(pod, &pods[*other]));
                if free && first {
                    tried.insert(key, at);
                }
                kept_off[at].push((pool.to_owned(), why(pool, failing)));
            }
        }
        for (at, pod) in pods.iter_mut().enumerate().filter(|(at, _)| !kept_off[*at].is_empty()) {
            let Some(entry) = self.pods.get(&base(pod)) else { continue };
            let goes = |pool: &String| tried.get(&(pool.clone(), entry.workload.clone())) == Some(&at);
            let off: Vec<&(String, String)> = kept_off[at].iter().filter(|(pool, _)| !goes(pool)).collect();
            if off.is_empty() {
                continue;
            }
            let rule = NodeSelectorRequirement {
                key: labels::NODE_POOL.to_owned(),
                operator: Operator::NotIn,
                values: off.iter().map(|(pool, _)| pool.clone()).collect(),
                min_values: None,
            };
            if pod.volume_topology.is_empty() {
                pod.volume_topology.push(Vec::new());
            }
            pod.volume_topology.iter_mut().for_each(|place| place.push(rule.clone()));
            let why = off.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ");
            held.insert(pod.uid.clone(), why);
        }
        held
    }

    /// Whether a node is on its way, or has just come, that shows whether a workload uses the next.
    fn is_tried(&self, pool: &str, failing: &UnusedWorkload, now: Timestamp) -> bool {
        let own = |(workload, failures): &(String, u32)| *workload == failing.workload && *failures == failing.failures;
        self.claims.values().any(|entry| {
            let facts = &entry.facts;
            facts.pool == pool
                && facts.launched_for.iter().any(own)
                && !self.leaving.claims.contains(&facts.name)
                && entry.claim.spec.node_class_ref.name == failing.class
                && !self.has_had_pods(entry)
                && facts.created.is_none_or(|created| now.duration_since(created) < LONGEST_TRY)
        })
    }

    fn has_had_pods(&self, entry: &ClaimEntry) -> bool {
        let node = &entry.facts.node;
        entry.facts.last_pod_event.is_some()
            || self.moves.contains_key(node)
            || self.loads.get(node).is_some_and(|load| load.visitors > 0)
    }

    /// Annotations that NodePools are to get, by the pool's name.
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

/// Whether a pod is tried before another.
fn older(pod: &Pod, other: &Pod) -> bool {
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
