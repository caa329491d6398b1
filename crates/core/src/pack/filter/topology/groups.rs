//! Rules between pods, shared by all pods that state the same.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::keys::{MOST_KEYS, too_many_keys};
use super::selector::Selector;
use crate::labels;
use crate::pack::filter::alternatives::GivenUp;
use crate::pack::filter::taints::Tolerated;
use crate::pack::model::ids::{GroupId, Interned};
use crate::pod::{HostPort, Pod, is_soft};
use crate::problem::{PreferencePolicy, Problem};
use crate::requirements::{Operator, Requirements};

/// The rule for the pods that a selector means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RuleKind {
    /// A spread: the pods are spread over domains.
    Spread {
        /// Number of pods that a domain may have more than the least.
        skew: u32,
        /// Number of domains below which the least counts as none.
        domains: u32,
        /// The nodes that count: those with one of these; all when empty.
        nodes: Vec<Requirements>,
        /// The nodes that count: those whose taints these cover; all when `None`.
        tolerated: Option<Vec<Tolerated>>,
        /// The nodes that count: those that have these labels too, over which the pod is spread as strictly besides.
        labels: Vec<String>,
    },
    /// Pod affinity: one of the pods is in the same domain.
    PodAffinity,
    /// Pod anti-affinity: none of the pods is in the same domain, in either direction.
    PodAntiAffinity,
    /// Only one of them is on a node: they take the same port, so that they cannot both have it.
    Port(HostPort),
}

/// Selection of the pods that a term means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Target {
    /// Namespaces of its pods; `None` means all.
    namespaces: Option<BTreeSet<String>>,
    selector: Selector,
}

/// A rule between pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub kind: RuleKind,
    /// The label whose values are the domains.
    pub key: String,
    /// A pod is meant when it is by each of these: the pod affinity of several terms is one pod that suits them all.
    targets: SmallVec<[Target; 1]>,
}

impl Group {
    /// True if the rule means a pod.
    pub fn means(&self, pod: &Pod) -> bool {
        if let RuleKind::Port(own) = &self.kind {
            return pod.host_ports.iter().any(|port| port.conflicts(own));
        }
        let meant = |target: &Target| {
            target.namespaces.as_ref().is_none_or(|all| all.contains(&pod.namespace))
                && target.selector.matches(&pod.labels)
        };
        self.targets.iter().all(meant)
    }

    /// A label that every pod meant has, and the values that will do; ports are no matter of labels.
    pub fn certain(&self) -> Option<(&str, &[String])> {
        self.targets.iter().find_map(|target| target.selector.certain())
    }

    /// True if every node is a domain.
    pub fn by_node(&self) -> bool {
        self.key == labels::HOSTNAME
    }
}

/// All rules, each once.
pub(crate) type Groups = Interned<GroupId, Group>;

/// The rules that a pod states.
#[derive(Debug, Default)]
pub(crate) struct Stated {
    pub hard: Vec<Group>,
    /// Soft ones in the order in which they are given up.
    pub pod_affinity: Vec<Group>,
    pub pod_anti_affinity: Vec<Group>,
    pub spread: Vec<Group>,
}

impl Stated {
    /// Numbers of soft rules by kind.
    pub fn soft(&self) -> GivenUp {
        GivenUp {
            pod_affinity: self.pod_affinity.len(),
            pod_anti_affinity: self.pod_anti_affinity.len(),
            spread: self.spread.len(),
        }
    }

    /// The soft rules that are kept when some are given up.
    pub fn kept(&self, given_up: GivenUp) -> impl Iterator<Item = &Group> {
        let pod_affinity = self.pod_affinity.iter().skip(given_up.pod_affinity);
        pod_affinity
            .chain(self.pod_anti_affinity.iter().skip(given_up.pod_anti_affinity))
            .chain(self.spread.iter().skip(given_up.spread))
    }
}

/// Reads terms with the namespaces that namespace selectors choose from.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    problem: &'a Problem,
}

impl<'a> Reader<'a> {
    pub fn new(problem: &'a Problem) -> Self {
        Self { problem }
    }

    /// The rules that a pod states. `nodes` are its own node selector and required node affinity.
    ///
    /// # Errors
    /// A hard rule that cannot be kept, as a sentence: the pod must not be placed.
    pub fn stated(self, pod: &Pod, nodes: &[Requirements]) -> Result<Stated, String> {
        let mut found = Stated::default();
        let soft = self.problem.preferences_of(pod) == PreferencePolicy::Respect;
        for spread in &pod.topology_spread_constraints {
            if !is_soft(spread) {
                found.hard.push(of_spread(pod, spread, nodes)?);
            } else if soft {
                // An invalid soft rule is no preference.
                found.spread.extend(of_spread(pod, spread, nodes));
            }
        }
        self.hard_terms(pod, &mut found.hard)?;
        if soft && let Some(affinity) = &pod.affinity {
            let pod_affinity = affinity.pod_affinity.as_ref();
            let pod_affinity =
                pod_affinity.and_then(|all| all.preferred_during_scheduling_ignored_during_execution.as_ref());
            let pod_anti_affinity = affinity.pod_anti_affinity.as_ref();
            let pod_anti_affinity =
                pod_anti_affinity.and_then(|all| all.preferred_during_scheduling_ignored_during_execution.as_ref());
            found.pod_affinity = self.preferred(pod, pod_affinity, RuleKind::PodAffinity);
            found.pod_anti_affinity = self.preferred(pod, pod_anti_affinity, RuleKind::PodAntiAffinity);
        }
        for port in &pod.host_ports {
            let kind = RuleKind::Port(port.clone());
            found.hard.push(Group { kind, key: labels::HOSTNAME.to_owned(), targets: SmallVec::new() });
        }
        Ok(found)
    }

    fn hard_terms(self, pod: &Pod, found: &mut Vec<Group>) -> Result<(), String> {
        let pod_affinity = pod.affinity.as_ref().and_then(|all| all.pod_affinity.as_ref());
        let pod_affinity =
            pod_affinity.and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
        let mut targets: SmallVec<[Target; 1]> = SmallVec::new();
        for term in pod_affinity.into_iter().flatten() {
            targets.push(self.target(pod, term, &RuleKind::PodAffinity)?);
        }
        targets.sort_unstable();
        targets.dedup();
        // One rule a key, which has all terms.
        let keys: IndexSet<&str, FxBuildHasher> =
            pod_affinity.into_iter().flatten().map(|term| labels::stable(&term.topology_key)).collect();
        if keys.len() > MOST_KEYS + 1 {
            return Err(too_many_keys());
        }
        for key in keys {
            found.push(Group { kind: RuleKind::PodAffinity, key: key.to_owned(), targets: targets.clone() });
        }
        for term in required_anti_affinity(pod) {
            found.push(self.of_term(pod, term, RuleKind::PodAntiAffinity)?);
        }
        Ok(())
    }

    /// Preferred terms, the heaviest first.
    fn preferred(self, pod: &Pod, terms: Option<&Vec<WeightedPodAffinityTerm>>, kind: RuleKind) -> Vec<Group> {
        let mut terms: Vec<_> = terms.into_iter().flatten().collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.weight));
        terms.into_iter().filter_map(|term| self.of_term(pod, &term.pod_affinity_term, kind.clone()).ok()).collect()
    }

    fn of_term(self, pod: &Pod, term: &PodAffinityTerm, kind: RuleKind) -> Result<Group, String> {
        let targets = [self.target(pod, term, &kind)?].into_iter().collect();
        Ok(Group { kind, key: labels::stable(&term.topology_key).to_owned(), targets })
    }

    fn target(self, pod: &Pod, term: &PodAffinityTerm, kind: &RuleKind) -> Result<Target, String> {
        let selector = Selector::parse(term.label_selector.as_ref())?
            .keyed(term.match_label_keys.as_ref(), Operator::In, &pod.labels)
            .keyed(term.mismatch_label_keys.as_ref(), Operator::NotIn, &pod.labels);
        let mut listed: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let namespaces = match &term.namespace_selector {
            Some(wanted) if selects_all(wanted) => None,
            Some(wanted) => match self.namespaces(wanted)? {
                Some(chosen) => {
                    listed.extend(chosen);
                    Some(listed)
                }
                // Distance from too many is safe; pod affinity has to be exact.
                None if *kind == RuleKind::PodAntiAffinity => None,
                None => {
                    return Err("pod affinity by namespaceSelector needs the namespaces' labels, which are not known"
                        .to_owned());
                }
            },
            None if listed.is_empty() => Some(BTreeSet::from([pod.namespace.clone()])),
            None => Some(listed),
        };
        Ok(Target { namespaces, selector })
    }

    /// The namespaces that a selector chooses; `None` when their labels are not known. Every namespace has its name
    /// for a label.
    fn namespaces(self, wanted: &LabelSelector) -> Result<Option<Vec<String>>, String> {
        const NAME: &str = "kubernetes.io/metadata.name";
        let selector = Selector::parse(Some(wanted))?;
        if !self.problem.namespaces.is_empty() {
            let chosen = self.problem.namespaces.iter().filter(|one| {
                let mut labels = one.labels.clone();
                labels.insert(NAME.to_owned(), one.name.clone());
                selector.matches(&labels)
            });
            return Ok(Some(chosen.map(|one| one.name.clone()).collect()));
        }
        if !selector.keys().all(|key| key == NAME) {
            return Ok(None);
        }
        let bound = self.problem.existing_nodes.iter().flat_map(|node| &node.pods).map(AsRef::as_ref);
        let all: BTreeSet<&String> = self.problem.pods.iter().chain(bound).map(|pod| &pod.namespace).collect();
        let named = |name: &&String| selector.matches(&BTreeMap::from([(NAME.to_owned(), (*name).clone())]));
        Ok(Some(all.into_iter().filter(named).cloned().collect()))
    }

    /// The pod affinity that a pod requires: rules that it cannot be read by are left out.
    pub fn pod_affinity(self, pod: &Pod) -> Vec<Group> {
        let mut found = Vec::new();
        match self.hard_terms(pod, &mut found) {
            Ok(()) => found.into_iter().filter(|group| group.kind == RuleKind::PodAffinity).collect(),
            Err(_) => vec![],
        }
    }

    /// The anti-affinity that a pod already on a node keeps: it binds others too.
    pub fn kept_by_bound(self, pod: &Pod) -> Vec<Group> {
        required_anti_affinity(pod).filter_map(|term| self.of_term(pod, term, RuleKind::PodAntiAffinity).ok()).collect()
    }
}

fn selects_all(wanted: &LabelSelector) -> bool {
    wanted.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && wanted.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

pub(crate) fn required_anti_affinity(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let terms = pod.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = terms.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten()
}

/// True if a pod has required anti-affinity.
pub(crate) fn has_anti_affinity(pod: &Pod) -> bool {
    required_anti_affinity(pod).next().is_some()
}

/// The further keys over which a pod is spread as strictly: kube-scheduler leaves out nodes that lack any of them. Every
/// node has its name, and is counted by it alone.
fn others(pod: &Pod, spread: &TopologySpreadConstraint) -> Vec<String> {
    if spread.topology_key == labels::HOSTNAME {
        return vec![];
    }
    let alike = pod.topology_spread_constraints.iter().filter(|other| is_soft(other) == is_soft(spread));
    let keys = alike.map(|other| labels::stable(&other.topology_key));
    let others = keys.filter(|key| *key != labels::HOSTNAME && *key != labels::stable(&spread.topology_key));
    others.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

fn of_spread(pod: &Pod, spread: &TopologySpreadConstraint, nodes: &[Requirements]) -> Result<Group, String> {
    let skew = u32::try_from(spread.max_skew).ok().filter(|skew| *skew > 0);
    let skew = skew.ok_or_else(|| format!("topology spread: maxSkew {} (allowed: 1 and more)", spread.max_skew))?;
    let selector = Selector::parse(spread.label_selector.as_ref())?.keyed(
        spread.match_label_keys.as_ref(),
        Operator::In,
        &pod.labels,
    );
    let ignored = spread.node_affinity_policy.as_deref() == Some("Ignore");
    let unbound = ignored || nodes.iter().any(Requirements::is_empty);
    let honoured = spread.node_taints_policy.as_deref() == Some("Honor");
    let kind = RuleKind::Spread {
        skew,
        domains: spread.min_domains.map_or(0, |least| u32::try_from(least).unwrap_or(0)),
        nodes: if unbound { vec![] } else { nodes.to_vec() },
        tolerated: honoured.then(|| Tolerated::all(&pod.tolerations)),
        labels: others(pod, spread),
    };
    let namespaces = Some(BTreeSet::from([pod.namespace.clone()]));
    let targets = [Target { namespaces, selector }].into_iter().collect();
    Ok(Group { kind, key: labels::stable(&spread.topology_key).to_owned(), targets })
}
