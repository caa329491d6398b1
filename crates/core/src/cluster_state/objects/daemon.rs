//! DaemonSets: the pod that each puts on a node, and the nodes on which it lands.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::labels;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod as KubePod, Taint, Toleration};

use crate::admission::Policies;
use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::objects::workload::controlled_by;
use crate::cluster_state::{JoinedNode, Load, PodEntry, Snapshot};
use crate::daemons::{SYSTEM_CRITICAL, fits_alone};
use crate::pack::{DaemonOrder, DaemonsByType};
use crate::pod::Pod;
use crate::problem::Problem;
use crate::requirements::{NodeSelectorRequirement, Requirement, Requirements};
use crate::resources::Resources;
use crate::volumes::is_attachable;

/// Label of a pod: the generation of its DaemonSet's template (DaemonSet controller).
pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// Annotation of a DaemonSet: the generation of its template now (API server).
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// Most steps of work, of some 100 ns each, for the order of the DaemonSets that are to come to nodes. Rules are held against each
/// kind of pod that waits; DaemonSets that are left then, the least urgent, count as none.
const MOST_STEPS: usize = 1_000_000;

impl Snapshot {
    /// The pod that each DaemonSet puts on its nodes. The requests after admission (limit ranges, webhooks) of its newest
    /// live pod of the same template count over those of the template.
    pub(in crate::cluster_state) fn daemon_pods(&self) -> Vec<Pod> {
        let mut newest: BTreeMap<&str, &PodEntry> = BTreeMap::new();
        for pod in self.pods_of_daemons().filter(|pod| pod.is_active()) {
            let known = newest.entry(&pod.workload).or_insert(pod);
            if known.pod.created < pod.pod.created {
                *known = pod;
            }
        }
        let mut pods = Vec::new();
        let policies = self.storage.policies();
        for set in self.daemon_sets.values() {
            let Some(mut pod) = pod_of(set, &policies) else { continue };
            let own = controlled_by(&pod.namespace, "DaemonSet", set.metadata.uid.as_deref().unwrap_or_default());
            let template = set.metadata.annotations.as_ref().and_then(|own| own.get(TEMPLATE_GENERATION));
            let current =
                |live: &&&PodEntry| template.is_none() || live.template.is_none() || live.template.as_ref() == template;
            if let Some(live) = newest.get(own.as_str()).filter(current) {
                pod.requests.clone_from(&live.pod.requests);
                pod.priority = live.pod.priority;
            }
            pods.push(pod);
        }
        pods
    }
}

/// The pod that a DaemonSet puts on each of its nodes, as admission makes it of the template, with the tolerations that
/// its controller adds. `None` when its quantities make no sense, or when the API server would refuse it.
pub fn pod_of(set: &DaemonSet, policies: &Policies) -> Option<Pod> {
    let template = &set.spec.as_ref()?.template;
    let mut pod = KubePod {
        metadata: template.metadata.clone().unwrap_or_default(),
        spec: template.spec.clone(),
        ..KubePod::default()
    };
    pod.metadata.name.clone_from(&set.metadata.name);
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    pod.metadata.uid = set.metadata.uid.as_ref().map(|uid| format!("{UID_PREFIX}{uid}"));
    let namespace = set.metadata.namespace.as_deref().unwrap_or("default");
    let priority = priority_of(&pod, policies);
    let mut pod = Pod::from_kube(&admitted(pod, namespace, policies)?).ok()?;
    let always = |key: &str, effect: &str| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    pod.priority = priority;
    for (key, effect) in ADDED {
        pod.tolerations.push(always(key, effect));
    }
    Some(pod)
}

/// The priority that a template comes to, as far as it is known: classes other than the system's are not watched.
fn priority_of(pod: &KubePod, policies: &Policies) -> i32 {
    let Some(spec) = &pod.spec else { return 0 };
    let named = spec.priority_class_name.as_deref().and_then(|name| policies.priority_named(name));
    let value = named.or(spec.priority.map(i64::from)).unwrap_or(0);
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The pod as it would be stored. A class that is not known (yet) adds nothing, rather than that the DaemonSet counts as none.
fn admitted(mut pod: KubePod, namespace: &str, policies: &Policies) -> Option<KubePod> {
    let spec = pod.spec.as_mut()?;
    // The value of its priority class plays no part on a node, and priority classes are not watched.
    (spec.priority_class_name, spec.priority) = (None, None);
    if spec.runtime_class_name.as_ref().is_some_and(|name| !policies.runtime_classes.contains_key(name)) {
        spec.runtime_class_name = None;
        spec.overhead = None;
    }
    let mut value = serde_json::to_value(&pod).ok()?;
    match policies.admit_valid(namespace, &mut value) {
        Ok(()) => serde_json::from_value(value).ok(),
        Err(_) => None,
    }
}

/// The pods of DaemonSets that are still to come to nodes, by the rule by which packing counts them on new ones.
pub(in crate::cluster_state) struct ComingDaemons<'p> {
    problem: &'p Problem,
    order: DaemonOrder,
    /// By index, in the order in which they count, each with the workload key of its pods; none of what is no DaemonSet's.
    all: Vec<(usize, Option<String>)>,
    /// Looked at only where DaemonSets together are beyond their share of a node.
    by_type: OnceCell<DaemonsByType>,
}

impl<'p> ComingDaemons<'p> {
    /// The coming pods of the DaemonSets of a problem.
    pub fn new(problem: &'p Problem) -> Self {
        let left = Cell::new(MOST_STEPS);
        let spend = |steps: usize| {
            left.set(left.get().saturating_sub(steps));
            left.get() > 0
        };
        let order = DaemonOrder::from_problem(problem, spend);
        let own = |pod: &Pod| {
            let uid = pod.uid.strip_prefix(UID_PREFIX)?;
            Some(controlled_by(&pod.namespace, "DaemonSet", uid))
        };
        let all = order.counted.iter().map(|at| (*at, own(&problem.daemon_pods[*at]))).collect();
        Self { problem, order, all, by_type: OnceCell::new() }
    }

    /// The requests that DaemonSets will still add to a node on which `used` is taken: those of all that land on it, less
    /// those that are there, not below zero. A pod that kube-scheduler cannot place there takes nothing: one that is larger
    /// than the node or the share of DaemonSets, or than the room that others have left on a node that is ready, and one that
    /// another DaemonSet keeps off.
    pub fn requests(&self, node: &JoinedNode, used: &Resources, load: Option<&Load>) -> Resources {
        let there = || load.iter().flat_map(|load| load.pods.values()).filter(|entry| entry.daemon);
        let workloads: BTreeSet<&str> = there().map(|entry| entry.workload.as_str()).collect();
        let is_there = |own: &Option<String>| own.as_deref().is_some_and(|own| workloads.contains(own));
        let (mut expected, mut free) = (Resources::new(), node.allocatable.clone());
        if node.initialized {
            free.sub(used);
        }
        let mut placed: Vec<usize> = self.all.iter().filter(|(_, own)| is_there(own)).map(|(at, _)| *at).collect();
        let (mut together, mut counted) = (Resources::new(), BTreeSet::new());
        for (at, own) in &self.all {
            let pod = &self.problem.daemon_pods[*at];
            let (requests, alone) = (with_itself(&pod.requests), fits_alone(pod, &node.allocatable));
            let lands = lands_on(pod, &node.labels, &node.taints);
            if alone && lands {
                together.add(&requests);
            }
            let Some(own) = own.as_deref().filter(|_| lands) else { continue };
            if workloads.contains(own) {
                expected.add(&requests);
                counted.insert(own);
                if !node.initialized {
                    free.sub(&requests);
                }
                continue;
            }
            let urgent = pod.priority >= SYSTEM_CRITICAL && alone;
            let fits = urgent || fits_alone(pod, &free) && self.is_within_share(*at, &together, node);
            if fits && !self.is_kept_off(*at, &placed) {
                expected.add(&requests);
                free.sub(&requests);
                placed.push(*at);
            }
        }
        for entry in there().filter(|entry| counted.contains(entry.workload.as_str())) {
            expected.sub(&with_itself(&entry.pod.requests));
        }
        expected.iter().filter(|(_, amount)| *amount > 0).map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// True if one of those on the node keeps a DaemonSet's pod off, and is not preempted for it.
    fn is_kept_off(&self, at: usize, placed: &[usize]) -> bool {
        let priority = |at: usize| self.problem.daemon_pods[at].priority;
        placed.iter().any(|other| self.order.exclude(at, *other) && priority(*other) >= priority(at))
    }

    /// True if a DaemonSet counts on the node with those before it: together they are within their share, or packing counts it
    /// on the node's type. Of a node whose type is unknown it may take the share by itself.
    fn is_within_share(&self, at: usize, together: &Resources, node: &JoinedNode) -> bool {
        let pod = &self.problem.daemon_pods[at];
        let has = |all: &Resources| {
            let mut asked = pod.requests.iter().filter(|(name, amount)| *amount > 0 && !is_attachable(name));
            asked.all(|(name, _)| self.problem.daemon_share.has(all.get(name), node.allocatable.get(name)))
        };
        let known = |instance_type: &String| {
            let compiled = || DaemonsByType::from_problem(self.problem, &self.order.counted);
            self.by_type.get_or_init(compiled).counts(&node.pool, instance_type, at)
        };
        let of_type = || node.labels.get(labels::INSTANCE_TYPE).and_then(known);
        has(together) || of_type().unwrap_or_else(|| has(&pod.requests))
    }
}

/// Prefix of the uid of a DaemonSet's pod that is made of its template.
const UID_PREFIX: &str = "daemon-";

/// Tolerations that the DaemonSet controller gives each of its pods.
const ADDED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// True if a DaemonSet's pod lands on a node with these labels and taints.
pub fn lands_on(pod: &Pod, labels: &BTreeMap<String, String>, taints: &[Taint]) -> bool {
    let hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
    hard.into_iter().all(|taint| pod.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        && pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && affinity_allows(pod, labels)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect)
        && ((key.is_empty() && exists)
            || (key == taint.key
                && (exists
                    || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())))
}

fn affinity_allows(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let node_affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term_allows(term, labels)))
}

fn term_allows(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>) -> bool {
    let node = Requirements::from_labels(labels);
    let mut written = term.match_expressions.iter().flatten();
    written.all(|one| {
        let Ok(one) = NodeSelectorRequirement::from_kube(one) else { return false };
        let Ok(wanted) = Requirement::from_written(&one) else { return false };
        match node.get(&one.key) {
            Some(found) => found.intersects(&wanted),
            None => wanted.allows_absence(),
        }
    })
}
