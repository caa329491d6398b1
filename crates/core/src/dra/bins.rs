//! New nodes for pods with claims, by the instance types whose devices are enough: pods that share the devices of a node are in
//! one bin.

use std::collections::{BTreeMap, BTreeSet};

use super::search::Place;
use crate::instance_type::InstanceType;
use crate::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use crate::pod::{Pod, is_soft};
use crate::problem::{Pool, Problem};
use crate::requirements::{NodeSelectorRequirement, Requirements};
use crate::resources::{PODS, Resources};

/// An instance type of a pool that a bin may be.
#[derive(Clone)]
pub(super) struct TypeAt {
    pub pool: usize,
    pub kind: usize,
    /// Its devices, those of the bin's pods taken.
    pub place: Place,
    /// Dollars an hour of its cheapest offering that the first pod may use.
    pub price: f64,
}

/// A new node to be, with the pods whose devices are all on it.
#[derive(Clone, Default)]
pub(super) struct Bin {
    pub pods: Vec<usize>,
    pub types: Vec<TypeAt>,
    pub requests: Resources,
    /// True if no other pod may join.
    pub closed: bool,
    /// Kinds of pods for which it has no room any more.
    pub refuses: BTreeSet<usize>,
    /// Drivers of the devices that are taken.
    pub drivers: BTreeSet<String>,
}

/// The least price of types.
pub(super) fn least_price(types: &[TypeAt]) -> f64 {
    types.iter().map(|one| one.price).fold(f64::INFINITY, f64::min)
}

/// Requests of a pod and of all DaemonSets together, at most, with the places of pods that they take.
pub(super) fn with_daemons(problem: &Problem, requests: &Resources) -> Resources {
    let mut all = requests.clone();
    for daemon in &problem.daemon_pods {
        all.add(&of_one(daemon));
    }
    all
}

/// Requests of a pod, its own place among them.
pub(super) fn of_one(pod: &Pod) -> Resources {
    let mut requests = pod.requests.clone();
    requests.set(PODS, 1);
    requests
}

/// True if a pod says how it stands to other pods on its node: it gets a node of its own among those with claims.
pub(super) fn is_choosy(pod: &Pod) -> bool {
    let affinity = pod.affinity.as_ref();
    !pod.host_ports.is_empty()
        || affinity.is_some_and(|one| one.pod_affinity.is_some() || one.pod_anti_affinity.is_some())
        || pod.topology_spread_constraints.iter().any(|one| !is_soft(one))
}

/// The ways in which a pod states its node, of which one has to be met.
pub(super) fn terms_of(pod: &Pod) -> Vec<Requirements> {
    let selector = Requirements::from_labels(&pod.node_selector);
    let affinity = pod.affinity.as_ref().and_then(|one| one.node_affinity.as_ref());
    let required = affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    let terms: Vec<Requirements> = match required {
        None => vec![selector],
        Some(required) => {
            let read = super::slice::read_terms(required).unwrap_or_default();
            let within = |term: Requirements| {
                let mut all = selector.clone();
                all.intersect(&term);
                all
            };
            read.into_iter().map(within).collect()
        }
    };
    if pod.volume_topology.is_empty() {
        return terms;
    }
    let places: Vec<_> = pod.volume_topology.iter().filter_map(|one| Requirements::from_written(one).ok()).collect();
    let both = |term: &Requirements, place: &Requirements| {
        let mut all = term.clone();
        all.intersect(place);
        all
    };
    terms.iter().flat_map(|term| places.iter().map(move |place| both(term, place))).collect()
}

/// Requirements that the nodes of a pool meet.
pub(super) fn of_pool(pool: &Pool) -> Requirements {
    let mut all = Requirements::from_labels(&pool.labels);
    all.add(NODE_POOL, crate::requirements::Requirement::one_of([pool.name.as_str()]));
    if let Ok(own) = Requirements::from_written(&pool.requirements) {
        all.intersect(&own);
    }
    all
}

/// The price of a type for one of these terms in a pool; `None` if it cannot be had.
pub(super) fn price_in(
    kind: &InstanceType,
    pool: &Requirements,
    terms: &[Requirements],
    allowed_undefined: &BTreeSet<String>,
) -> Option<f64> {
    let mut own = pool.clone();
    own.intersect(&Requirements::from_written(&kind.requirements).ok()?);
    if own.iter().any(|(_, one)| one.is_empty() && !one.allows_absence()) {
        return None;
    }
    let mut least: Option<f64> = None;
    for term in terms.iter().filter(|term| own.compatible(term, allowed_undefined).is_ok()) {
        let mut both = own.clone();
        both.intersect(term);
        let allows = |key: &str, value: &str| both.get(key).is_none_or(|one| one.has(value));
        let offered = kind.offerings.iter().filter(|one| one.available);
        let offered = offered.filter(|one| allows(ZONE, &one.zone) && allows(CAPACITY_TYPE, &one.capacity_type));
        let price = offered.map(|one| one.price).fold(f64::INFINITY, f64::min);
        if price.is_finite() {
            least = Some(least.map_or(price, |known| known.min(price)));
        }
    }
    least
}

/// The rules that keep a pod to the types of its bin: one list for each pool.
pub(super) fn rules_of(problem: &Problem, types: &[TypeAt]) -> Vec<Vec<NodeSelectorRequirement>> {
    let mut by_pool: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for one in types {
        by_pool.entry(one.pool).or_default().insert(&problem.instance_types[one.kind].name);
    }
    let rule = |(pool, names): (usize, BTreeSet<&str>)| {
        vec![
            NodeSelectorRequirement::one_of(NODE_POOL, [problem.node_pools[pool].name.as_str()]),
            NodeSelectorRequirement::one_of(INSTANCE_TYPE, names),
        ]
    };
    by_pool.into_iter().map(rule).collect()
}

/// Key of the label by which packing knows the pods of a bin; no object gets it.
const BIN: &str = "devices.dovetail.dev/bin";
/// Port that one pod of each bin takes: two bins are never one node. No pod can have it.
const PORT_OF_BINS: i32 = -1;

/// Binds the pods of a bin to each other, and keeps other bins off.
pub(super) fn bind_together(pods: &mut [Pod], number: usize, bin: &[usize]) {
    use crate::pod::HostPort;
    use k8s_openapi::api::core::v1::{PodAffinity, PodAffinityTerm};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    if let Some(first) = bin.first() {
        pods[*first].host_ports.push(HostPort { port: PORT_OF_BINS, protocol: String::new(), ip: String::new() });
    }
    if bin.len() < 2 {
        return;
    }
    let namespaces: BTreeSet<String> = bin.iter().map(|at| pods[*at].namespace.clone()).collect();
    let label = BTreeMap::from([(BIN.to_owned(), number.to_string())]);
    for at in bin {
        let term = PodAffinityTerm {
            label_selector: Some(LabelSelector { match_labels: Some(label.clone()), ..LabelSelector::default() }),
            namespaces: Some(namespaces.iter().cloned().collect()),
            topology_key: HOSTNAME.to_owned(),
            ..PodAffinityTerm::default()
        };
        let pod = &mut pods[*at];
        pod.labels.extend(label.clone());
        let own = pod.affinity.get_or_insert_default().pod_affinity.get_or_insert_with(PodAffinity::default);
        own.required_during_scheduling_ignored_during_execution.get_or_insert_default().push(term);
    }
}
