//! Rules between pods: spread, affinity, anti-affinity and host ports.
//!
//! Those whose domain is the node become caps on what one node may hold ([`node_rules`]). Those over zones or capacity
//! types are decided before nodes are planned ([`domains`]): each pod they speak of gets its domain, and planning then
//! only sees where it may be. Preferred terms and `ScheduleAnyway` are given up at once.

pub(crate) mod domains;
pub(crate) mod groups;
pub(crate) mod node_rules;
pub(crate) mod selector;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use self::groups::{Group, Groups, Kind};
use self::node_rules::NodeRules;
use crate::labels;
use crate::pod::Pod;
use crate::problem::Problem;
use crate::requirements::Requirements;

/// All rules between pods, and what each class has to do with them.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    pub groups: Groups,
    /// Distinct node rules; the first is none at all.
    pub node_rules: IndexSet<NodeRules, FxBuildHasher>,
    /// For each class its node rules and its part in wider rules.
    pub of_class: Vec<Part>,
}

/// What a class has to do with rules between pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Index of its node rules.
    pub node_rules: u32,
    /// Rules over zones or capacity types that it states.
    pub states: Vec<u32>,
    /// Rules over zones or capacity types that mean it.
    pub meant: Vec<u32>,
}

impl Part {
    /// Whether its domain has to be decided before planning.
    pub fn is_wide(&self) -> bool {
        !self.states.is_empty() || !self.meant.is_empty()
    }
}

/// Whether any rule looks at other pods' labels.
pub(crate) fn labels_matter(problem: &Problem) -> bool {
    problem.pods.iter().any(states_any) || problem.existing_nodes.iter().any(|node| node.pods.iter().any(states_any))
}

/// Whether a pod states any rule between pods, hard or soft.
pub(crate) fn states_any(pod: &Pod) -> bool {
    !pod.topology_spread_constraints.is_empty()
        || !pod.host_ports.is_empty()
        || pod
            .affinity
            .as_ref()
            .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some())
}

impl Topology {
    /// Reads the rules of the classes, given each one's example and its own node requirements. Classes that state a
    /// rule that cannot be kept are answered with it.
    pub fn read(problem: &Problem, examples: &[(&Pod, Vec<Requirements>)]) -> (Self, Vec<Option<String>>) {
        let mut topology = Self::default();
        topology.node_rules.insert(NodeRules::default());
        let mut stated: Vec<Vec<u32>> = Vec::new();
        let mut refused = Vec::new();
        for (pod, nodes) in examples {
            let (own, wrong) = match groups::stated(pod, nodes).and_then(supported) {
                Ok(own) => (own, taken_by_daemon(problem, pod)),
                Err(wrong) => (vec![], Some(wrong)),
            };
            stated.push(own.into_iter().map(|group| topology.groups.insert_full(group).0 as u32).collect());
            refused.push(wrong);
        }
        for pod in problem.existing_nodes.iter().flat_map(|node| &node.pods) {
            for group in groups::kept_by_bound(pod) {
                topology.groups.insert(group);
            }
        }
        if topology.groups.is_empty() {
            topology.of_class = vec![Part::default(); examples.len()];
            return (topology, refused);
        }
        let mut known: FxHashMap<(&str, &std::collections::BTreeMap<String, String>), Vec<u32>> = FxHashMap::default();
        for ((pod, _), stated) in examples.iter().zip(stated) {
            let groups = &topology.groups;
            // Ports are the pod's own and not its labels'.
            let meant = match known.get(&(pod.namespace.as_str(), &pod.labels)) {
                Some(known) if pod.host_ports.is_empty() => known.clone(),
                _ => meaning(groups, pod),
            };
            if pod.host_ports.is_empty() {
                known.entry((pod.namespace.as_str(), &pod.labels)).or_insert_with(|| meant.clone());
            }
            let part = topology.part(&stated, &meant);
            topology.of_class.push(part);
        }
        (topology, refused)
    }

    fn part(&mut self, stated: &[u32], meant: &[u32]) -> Part {
        let mut rules = NodeRules::default();
        let mut part = Part::default();
        for group in stated {
            let of = &self.groups[*group as usize];
            if of.by_node() {
                rules.caps.push((*group, cap(of, meant.contains(group))));
            } else {
                part.states.push(*group);
            }
        }
        for group in meant {
            if self.groups[*group as usize].by_node() {
                rules.member.push(*group);
            } else {
                part.meant.push(*group);
            }
        }
        rules.caps.sort_unstable();
        rules.caps.dedup();
        part.node_rules = self.node_rules.insert_full(rules).0 as u32;
        part
    }

    /// The node rules of a pod that is on a node already: it counts, and keeps its distance.
    pub fn of_bound(&self, pod: &Pod) -> NodeRules {
        let mut rules = NodeRules::default();
        for group in groups::kept_by_bound(pod) {
            if let Some(at) = self.groups.get_index_of(&group).filter(|_| group.by_node()) {
                rules.caps.push((at as u32, u32::from(group.means(pod))));
            }
        }
        let member = meaning(&self.groups, pod).into_iter();
        rules.member = member.filter(|group| self.groups[*group as usize].by_node()).collect();
        rules
    }
}

/// How many of a group's pods a node may hold beside, or with, one that states the rule.
fn cap(group: &Group, is_member: bool) -> u32 {
    match &group.kind {
        // The least is zero: a node without any could always be made.
        Kind::Spread { skew, .. } => *skew,
        _ => u32::from(is_member),
    }
}

fn meaning(groups: &Groups, pod: &Pod) -> Vec<u32> {
    (0..groups.len() as u32).filter(|at| groups[*at as usize].means(pod)).collect()
}

/// Domains are nodes, zones or capacity types.
fn supported(all: Vec<Group>) -> Result<Vec<Group>, String> {
    match all
        .iter()
        .find(|group| !matches!(group.key.as_str(), labels::HOSTNAME | labels::ZONE | labels::CAPACITY_TYPE))
    {
        Some(group) => Err(format!("a rule between pods by topology key {} is not supported yet", group.key)),
        None => Ok(all),
    }
}

fn taken_by_daemon(problem: &Problem, pod: &Pod) -> Option<String> {
    let taken = |port: &&crate::pod::HostPort| {
        problem.daemon_pods.iter().any(|daemon| daemon.host_ports.iter().any(|own| own.conflicts(port)))
    };
    pod.host_ports.iter().find(taken).map(|port| format!("host port {} is taken by a DaemonSet", port.port))
}
