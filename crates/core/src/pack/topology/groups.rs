//! Rules between pods, shared by all pods that state the same.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, TopologySpreadConstraint};
use rustc_hash::FxBuildHasher;

use super::selector::Selector;
use crate::labels;
use crate::pod::Pod;
use crate::requirements::{Operator, Requirements};

/// What a rule says of the pods that its selector means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// They are spread over domains.
    Spread {
        /// How many more a domain may have than the least.
        skew: u32,
        /// With fewer domains than this the least counts as none.
        domains: u32,
        /// The nodes that count: those with one of these; all when empty.
        nodes: Vec<Requirements>,
    },
    /// One of them is in the same domain.
    Company,
    /// None of them is in the same domain, in either direction.
    Distance,
    /// Only one of them is on a node: they take the same port.
    Port(i32, String),
}

/// A rule between pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub kind: Kind,
    /// The label whose values are the domains.
    pub key: String,
    /// Where its pods are; `None` means everywhere.
    namespaces: Option<BTreeSet<String>>,
    selector: Selector,
}

impl Group {
    /// Whether the rule's selector means a pod.
    pub fn means(&self, pod: &Pod) -> bool {
        if let Kind::Port(number, protocol) = &self.kind {
            return pod.host_ports.iter().any(|port| port.port == *number && port.protocol == *protocol);
        }
        self.namespaces.as_ref().is_none_or(|all| all.contains(&pod.namespace)) && self.selector.matches(&pod.labels)
    }

    /// Whether every node is a domain.
    pub fn by_node(&self) -> bool {
        self.key == labels::HOSTNAME
    }
}

/// All rules, each once.
pub(crate) type Groups = IndexSet<Group, FxBuildHasher>;

/// The hard rules that a pod states. `nodes` are its own node selector and required node affinity.
///
/// # Errors
/// A rule that cannot be kept, as a sentence: the pod must not be placed.
pub(crate) fn stated(pod: &Pod, nodes: &[Requirements]) -> Result<Vec<Group>, String> {
    let mut found = Vec::new();
    for spread in pod.topology_spread_constraints.iter().filter(|one| one.when_unsatisfiable != "ScheduleAnyway") {
        found.push(of_spread(pod, spread, nodes)?);
    }
    if let Some(affinity) = &pod.affinity {
        for term in required_company(affinity) {
            if term.topology_key == labels::HOSTNAME {
                return Err("required pod affinity by kubernetes.io/hostname is not supported yet".to_owned());
            }
            found.push(of_term(pod, term, Kind::Company)?);
        }
        for term in required_distance(affinity) {
            found.push(of_term(pod, term, Kind::Distance)?);
        }
    }
    for port in &pod.host_ports {
        found.push(Group {
            kind: Kind::Port(port.port, port.protocol.clone()),
            key: labels::HOSTNAME.to_owned(),
            namespaces: None,
            selector: Selector::default(),
        });
    }
    Ok(found)
}

fn of_spread(pod: &Pod, spread: &TopologySpreadConstraint, nodes: &[Requirements]) -> Result<Group, String> {
    let skew = u32::try_from(spread.max_skew).ok().filter(|skew| *skew > 0);
    let skew = skew.ok_or_else(|| format!("topology spread: maxSkew {} (allowed: 1 and more)", spread.max_skew))?;
    let selector = Selector::read(spread.label_selector.as_ref())?;
    let ignored = spread.node_affinity_policy.as_deref() == Some("Ignore");
    let unbound = ignored || nodes.iter().any(Requirements::is_empty);
    Ok(Group {
        kind: Kind::Spread {
            skew,
            domains: spread.min_domains.map_or(0, |least| u32::try_from(least).unwrap_or(0)),
            nodes: if unbound { vec![] } else { nodes.to_vec() },
        },
        key: labels::stable(&spread.topology_key).to_owned(),
        namespaces: Some(BTreeSet::from([pod.namespace.clone()])),
        selector: selector.keyed(spread.match_label_keys.as_ref(), Operator::In, &pod.labels),
    })
}

fn of_term(pod: &Pod, term: &PodAffinityTerm, kind: Kind) -> Result<Group, String> {
    let selector = Selector::read(term.label_selector.as_ref())?
        .keyed(term.match_label_keys.as_ref(), Operator::In, &pod.labels)
        .keyed(term.mismatch_label_keys.as_ref(), Operator::NotIn, &pod.labels);
    let listed: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    let everywhere = |wanted: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector| {
        wanted.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && wanted.match_expressions.as_ref().is_none_or(Vec::is_empty)
    };
    let namespaces = match &term.namespace_selector {
        Some(wanted) if everywhere(wanted) => None,
        // Distance from too many is safe; company has to be exact.
        Some(_) if kind == Kind::Distance => None,
        Some(_) => return Err("required pod affinity with a namespaceSelector is not supported yet".to_owned()),
        None if listed.is_empty() => Some(BTreeSet::from([pod.namespace.clone()])),
        None => Some(listed),
    };
    Ok(Group { kind, key: labels::stable(&term.topology_key).to_owned(), namespaces, selector })
}

fn required_company(affinity: &Affinity) -> impl Iterator<Item = &PodAffinityTerm> {
    let terms = affinity.pod_affinity.as_ref();
    let terms = terms.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten()
}

fn required_distance(affinity: &Affinity) -> impl Iterator<Item = &PodAffinityTerm> {
    let terms = affinity.pod_anti_affinity.as_ref();
    let terms = terms.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten()
}

/// The distance that a pod already on a node keeps: it binds others too.
pub(crate) fn kept_by_bound(pod: &Pod) -> Vec<Group> {
    let terms = pod.affinity.iter().flat_map(required_distance);
    terms.filter_map(|term| of_term(pod, term, Kind::Distance).ok()).collect()
}
