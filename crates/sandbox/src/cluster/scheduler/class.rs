//! A class: what all pods have in common that scheduling cannot tell apart. Filters and static scores are worked
//! out once a class and node, whatever the number of pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodAffinityTerm, Toleration, TopologySpreadConstraint};

use super::resources::{ResourceAmounts, ResourceColumns};
use super::selector::{Expression, Labels, PodSelector, SelectorTerm};
use super::spec::{PodSpec, SpecHostPort};

/// Everything of a pod that scheduling can see.
#[derive(Debug)]
pub(crate) struct PodClass {
    pub namespace: String,
    pub labels: Labels,
    pub requests: ResourceAmounts,
    pub nonzero: [i64; 2],
    pub node_selector: BTreeMap<String, String>,
    pub required_nodes: Option<Vec<SelectorTerm>>,
    pub preferred_nodes: Vec<(i64, SelectorTerm)>,
    pub tolerations: Vec<Toleration>,
    pub host_ports: Vec<SpecHostPort>,
    pub hard_spread: Vec<Spread>,
    pub soft_spread: Vec<Spread>,
    /// The soft constraints are the scheduler's own defaults, not the pod's.
    pub default_spread: bool,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred terms; the weight of an anti-affinity is negative.
    pub preferred_pods: Vec<(i64, PodTerm)>,
    pub claims: Vec<String>,
    /// Its pods have ResourceClaims, each its own: what is found for one says nothing of the others.
    pub claims_devices: bool,
    /// Globs of the nodes that are refused for nothing that an object says.
    pub nodes_refused: Vec<String>,
}

/// A topology spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub max_skew: i64,
    pub min_domains: usize,
    pub key: String,
    pub selector: PodSelector,
    /// `nodeAffinityPolicy: Honor`: nodes that the pod does not select are not counted.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes whose taints the pod does not tolerate are not counted.
    pub honor_taints: bool,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug)]
pub(crate) struct PodTerm {
    pub key: String,
    pub selector: PodSelector,
    pub namespaces: Namespaces,
}

/// The namespaces in which a term looks for pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Namespaces {
    All,
    These(BTreeSet<String>),
}

impl Namespaces {
    pub(crate) fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(namespace),
        }
    }
}

/// Facts beside the spec that a class is made from, which the scheduler looks up elsewhere.
pub(crate) struct Surroundings<'a> {
    pub namespace: &'a str,
    pub labels: &'a Labels,
    pub pod_name: &'a str,
    /// The selector of the pod's Services and controller, for the default constraints.
    pub default_selector: Option<PodSelector>,
    /// Globs of the nodes that are refused by a fault.
    pub nodes_refused: Vec<String>,
    pub namespace_labels: &'a BTreeMap<String, Labels>,
}

impl PodClass {
    pub(crate) fn compile(spec: &PodSpec, around: Surroundings<'_>, names: &mut ResourceColumns) -> Self {
        let affinity = spec.affinity.clone().unwrap_or_default();
        let nodes = affinity.node_affinity.unwrap_or_default();
        let (with, against) =
            (affinity.pod_affinity.unwrap_or_default(), affinity.pod_anti_affinity.unwrap_or_default());
        let term = |t: &PodAffinityTerm| PodTerm::new(t, &around);
        let terms = |list: Option<Vec<PodAffinityTerm>>| list.unwrap_or_default().iter().map(&term).collect::<Vec<_>>();
        let mut preferred_pods = Vec::new();
        for (sign, list) in [
            (1, with.preferred_during_scheduling_ignored_during_execution),
            (-1, against.preferred_during_scheduling_ignored_during_execution),
        ] {
            preferred_pods
                .extend(list.iter().flatten().map(|t| (sign * i64::from(t.weight), term(&t.pod_affinity_term))));
        }
        let (hard_spread, soft_spread, default_spread) = spreads(spec, &around);
        Self {
            namespace: around.namespace.to_owned(),
            labels: around.labels.clone(),
            requests: spec.requests(names),
            nonzero: spec.nonzero_requests(names),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            required_nodes: nodes
                .required_during_scheduling_ignored_during_execution
                .map(|s| s.node_selector_terms.iter().map(SelectorTerm::new).collect()),
            preferred_nodes: nodes
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .flatten()
                .map(|p| (i64::from(p.weight), SelectorTerm::new(&p.preference)))
                .collect(),
            tolerations: spec.tolerations.clone(),
            host_ports: spec.host_ports(),
            hard_spread,
            soft_spread,
            default_spread,
            affinity: terms(with.required_during_scheduling_ignored_during_execution),
            anti_affinity: terms(against.required_during_scheduling_ignored_during_execution),
            preferred_pods,
            claims: spec.claims(around.pod_name),
            claims_devices: !spec.resource_claims.is_empty(),
            nodes_refused: around.nodes_refused.clone(),
        }
    }

    /// nodeSelector and required node affinity.
    pub(crate) fn selects(&self, node_name: &str, labels: &Labels) -> bool {
        self.node_selector.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.required_nodes.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(node_name, labels)))
    }

    /// True if other pods' places can decide over this one's.
    pub(crate) fn looks_at_pods(&self) -> bool {
        !(self.hard_spread.is_empty() && self.affinity.is_empty() && self.anti_affinity.is_empty())
    }
}

impl PodTerm {
    fn new(written: &PodAffinityTerm, around: &Surroundings<'_>) -> Self {
        let mut selector = PodSelector::new(written.label_selector.as_ref());
        for (keys, operator) in [(&written.match_label_keys, "In"), (&written.mismatch_label_keys, "NotIn")] {
            for key in keys.iter().flatten() {
                if let Some(value) = around.labels.get(key) {
                    selector.narrow(Expression::new(key, operator, std::slice::from_ref(value)));
                }
            }
        }
        let namespaces = Self::namespaces(written, around);
        Self { key: written.topology_key.clone(), selector, namespaces }
    }

    /// Neither names nor a selector: the pod's own namespace. An empty selector: all of them.
    fn namespaces(written: &PodAffinityTerm, around: &Surroundings<'_>) -> Namespaces {
        let mut names: BTreeSet<String> = written.namespaces.iter().flatten().cloned().collect();
        let Some(selector) = &written.namespace_selector else {
            if names.is_empty() {
                names.insert(around.namespace.to_owned());
            }
            return Namespaces::These(names);
        };
        let selector = PodSelector::new(Some(selector));
        if selector.is_everything() {
            return Namespaces::All;
        }
        let matching = around.namespace_labels.iter().filter(|(_, labels)| selector.matches(labels));
        names.extend(matching.map(|(name, _)| name.clone()));
        Namespaces::These(names)
    }

    /// True if the term speaks of a pod with these labels in this namespace.
    pub(crate) fn means(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.contain(namespace) && self.selector.matches(labels)
    }
}

fn spreads(spec: &PodSpec, around: &Surroundings<'_>) -> (Vec<Spread>, Vec<Spread>, bool) {
    let (mut hard, mut soft) = (Vec::new(), Vec::new());
    for written in &spec.topology_spread_constraints {
        let list = if written.when_unsatisfiable == "ScheduleAnyway" { &mut soft } else { &mut hard };
        list.push(Spread::new(written, around.labels));
    }
    let defaults = spec.topology_spread_constraints.is_empty();
    if defaults && let Some(selector) = &around.default_selector {
        // kube-scheduler's system defaults: hostname with skew 3, zone with skew 5, both ScheduleAnyway.
        for (key, max_skew) in [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)] {
            let selector = selector.clone();
            let key = key.to_owned();
            soft.push(Spread { max_skew, min_domains: 1, key, selector, honor_affinity: true, honor_taints: false });
        }
    }
    (hard, soft, defaults)
}

impl Spread {
    fn new(written: &TopologySpreadConstraint, labels: &Labels) -> Self {
        let mut selector = PodSelector::new(written.label_selector.as_ref());
        for key in written.match_label_keys.iter().flatten() {
            if let Some(value) = labels.get(key) {
                selector.narrow(Expression::is(key, value));
            }
        }
        Self {
            max_skew: i64::from(written.max_skew),
            min_domains: usize::try_from(written.min_domains.unwrap_or(1)).unwrap_or(1),
            key: written.topology_key.clone(),
            selector,
            honor_affinity: written.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: written.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}
