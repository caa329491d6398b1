//! Rules between pods that wait and the pods of DaemonSets on nodes to come, and those between DaemonSets.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::reach::{DaemonReach, full_name, may_have};
use super::{comes_to, meant_types};
use crate::labels;
use crate::pack::filter::alternatives;
use crate::pack::filter::topology::groups::{Group, Reader, has_anti_affinity};
use crate::pack::model::columns::Columns;
use crate::pack::model::ids::{IndexVec, PodId, PoolId};
use crate::pack::model::offers::Offers;
use crate::pack::model::pools::PoolView;
use crate::pack::rounds::steps::Steps;
use crate::pod::{HostPort, Pod};
use crate::problem::{ExistingNode, Problem};
use crate::requirements::Requirements;

/// Number of rules of pods that are compared with a DaemonSet in one step of work.
const RULES_A_STEP: usize = 8;
/// Number of instance types that a term is compared with in one step of work.
pub(super) const TYPES_A_STEP: usize = 64;

/// DaemonSets that exclude each other: a node has the pod of only one of them.
#[derive(Debug, Default)]
pub(super) struct DaemonClashes(BTreeMap<usize, BTreeSet<usize>>);

impl DaemonClashes {
    /// Clashes by host ports and by anti-affinity, whichever of the two states it.
    pub fn between(problem: &Problem, counted: &[usize]) -> Self {
        let reader = Reader::new(problem);
        let mut all = Self::default();
        for one in counted.iter().copied() {
            let pod = &problem.daemon_pods[one];
            let groups = reader.kept_by_bound(pod);
            if groups.is_empty() && pod.host_ports.is_empty() {
                continue;
            }
            let same_port = |other: &Pod| {
                let mut ports = pod.host_ports.iter();
                ports.any(|own| other.host_ports.iter().any(|port| port.conflicts(own)))
            };
            for other in counted.iter().copied().filter(|other| *other != one) {
                let daemon = &problem.daemon_pods[other];
                if same_port(daemon) || groups.iter().any(|group| group.means(daemon)) {
                    all.0.entry(one).or_default().insert(other);
                    all.0.entry(other).or_default().insert(one);
                }
            }
        }
        all
    }

    /// True if two DaemonSets, by index, exclude each other.
    pub fn exclude(&self, one: usize, other: usize) -> bool {
        self.0.get(&one).is_some_and(|others| others.contains(&other))
    }
}

/// The reason why a DaemonSet's pod has no place beside others: its own anti-affinity is against everybody, or against pods of
/// other namespaces. Those it cannot keep off all nodes: kube-scheduler leaves its pod out where they are.
pub(super) fn hopeless_distance(problem: &Problem, pods: &[&Pod], daemon: &Pod) -> Option<String> {
    let groups = Reader::new(problem).kept_by_bound(daemon);
    let meant = groups.iter().find_map(|group| {
        let foreign = |pod: &Pod| group.certain().is_none() || pod.namespace != daemon.namespace;
        pods.iter().copied().find(|pod| foreign(pod) && group.means(pod))
    });
    meant.map(|pod| format!("its own anti-affinity is against pods of others, such as {}", full_name(pod)))
}

/// A DaemonSet whose pods keep pods that wait off the nodes that it runs on: by a host port, or by anti-affinity, whichever of
/// the two states it, over a label that the node has. Its pod is the first on a new node, so that no such node would do.
#[derive(Debug)]
pub(crate) struct DaemonConflict {
    /// Its index among the problem's.
    pub daemon: usize,
    pub name: String,
    /// The label whose values are the domains: nodes without it exclude no pod.
    pub key: String,
    /// Its host ports by number, where the label is the hostname.
    ports: FxHashMap<i32, Vec<HostPort>>,
    /// The pods that its own anti-affinity keeps off.
    keeps_off: Vec<Group>,
}

/// The cause that keeps a pod off a DaemonSet's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clash {
    /// The DaemonSet has this host port.
    Port(i32),
    /// One of both may not be with the other.
    AntiAffinity,
}

impl DaemonConflict {
    /// The conflicts of DaemonSets that keep off any pod that waits.
    pub fn all(problem: &Problem, reach: &DaemonReach, steps: &Steps) -> Vec<Self> {
        if problem.daemon_pods.is_empty() {
            return vec![];
        }
        let reader = Reader::new(problem);
        let wary = examples(problem, has_anti_affinity);
        let theirs: Vec<Group> = wary.iter().flat_map(|pod| reader.kept_by_bound(&problem.pods[*pod])).collect();
        let mut all = Vec::new();
        if !steps.spend(theirs.len().saturating_mul(problem.daemon_pods.len()) / RULES_A_STEP) {
            return all;
        }
        for (daemon, pod) in problem.daemon_pods.iter().enumerate().filter(|(daemon, _)| !reach.is_left_out(*daemon)) {
            let own = reader.kept_by_bound(pod);
            let meant = theirs.iter().filter(|group| group.means(pod));
            let ports = (!pod.host_ports.is_empty()).then_some(labels::HOSTNAME);
            let keys: BTreeSet<&str> = own.iter().chain(meant).map(|group| group.key.as_str()).chain(ports).collect();
            for key in keys {
                all.push(Self {
                    daemon,
                    name: pod.name.clone(),
                    key: key.to_owned(),
                    ports: by_number(if key == labels::HOSTNAME { &pod.host_ports } else { &[] }),
                    keeps_off: own.iter().filter(|group| group.key == key).cloned().collect(),
                });
            }
        }
        // Rules that pods state themselves are read once for pods that are alike: it is dear, and a batch may have thousands.
        let looks = (problem.pods.len() + theirs.len()) / RULES_A_STEP;
        all.retain(|one| {
            if !steps.spend(1 + looks) {
                return false;
            }
            problem.pods.iter().any(|pod| one.keeps_off(pod).is_some())
                || wary.iter().any(|pod| one.is_avoided_by(problem, &problem.pods[*pod]))
        });
        all
    }

    /// The cause that keeps the pod off, if there is one.
    pub fn clash(&self, problem: &Problem, pod: &Pod) -> Option<Clash> {
        self.keeps_off(pod).or_else(|| self.is_avoided_by(problem, pod).then_some(Clash::AntiAffinity))
    }

    /// True if a host port or anti-affinity keeps the pod off; `own` are the anti-affinity rules of the pod.
    pub fn excludes(&self, problem: &Problem, pod: &Pod, own: &[Group]) -> bool {
        let daemon = &problem.daemon_pods[self.daemon];
        self.keeps_off(pod).is_some() || own.iter().any(|group| group.key == self.key && group.means(daemon))
    }

    /// The cause on the DaemonSet's side that keeps the pod off: its port or its anti-affinity.
    fn keeps_off(&self, pod: &Pod) -> Option<Clash> {
        let has =
            |port: &HostPort| self.ports.get(&port.port).is_some_and(|all| all.iter().any(|own| own.conflicts(port)));
        let taken = pod.host_ports.iter().find(|port| has(port));
        let by_anti_affinity = || self.keeps_off.iter().any(|group| group.means(pod)).then_some(Clash::AntiAffinity);
        taken.map(|port| Clash::Port(port.port)).or_else(by_anti_affinity)
    }

    /// True if the pod's own anti-affinity keeps it off.
    fn is_avoided_by(&self, problem: &Problem, pod: &Pod) -> bool {
        let daemon = &problem.daemon_pods[self.daemon];
        let meant = |group: &Group| group.key == self.key && group.means(daemon);
        has_anti_affinity(pod) && Reader::new(problem).kept_by_bound(pod).iter().any(meant)
    }

    /// True if it keeps pods off a node that is there.
    pub fn binds_on(&self, problem: &Problem, node: &ExistingNode, own: &Requirements) -> bool {
        own.get(&self.key).is_some() && comes_to(&problem.daemon_pods[self.daemon], node, own)
    }
}

/// Required pod affinity to pods of DaemonSets: a new node on which one of these runs is in pod affinity from its first moment on.
#[derive(Debug)]
pub(crate) struct DaemonAffinity {
    /// The rule, with its label.
    pub group: Group,
    /// Name of the first of the DaemonSets.
    pub name: String,
    daemons: Vec<usize>,
    /// The pods, by index, that state it and can be on such a node.
    pods: BTreeSet<PodId>,
}

impl DaemonAffinity {
    /// The pod affinities of pods that wait, for pods that can be on a new node with such a DaemonSet.
    pub fn all(
        problem: &Problem,
        pools: &IndexVec<PoolId, PoolView>,
        reach: &DaemonReach,
        (columns, offers): (&Columns<'_>, &Offers),
        steps: &Steps,
    ) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        if problem.daemon_pods.is_empty() {
            return all;
        }
        let reader = Reader::new(problem);
        let seeks = |pod: &Pod| pod.affinity.as_ref().is_some_and(|all| all.pod_affinity.is_some());
        let mut known: Option<(usize, Vec<usize>)> = None;
        for (at, pod) in problem.pods.iter().enumerate().filter(|(_, pod)| seeks(pod)) {
            if let Some((last, found)) = known.as_ref().filter(|(last, _)| alike(pod, &problem.pods[*last])) {
                debug_assert!(*last < at);
                found.iter().for_each(|one| _ = all[*one].pods.insert(PodId::from(at)));
                continue;
            }
            let groups = reader.pod_affinity(pod);
            let types = 1 + problem.instance_types.len() / TYPES_A_STEP;
            let looks = alternatives::work(pod).saturating_mul(pools.len() * types);
            let looks = looks.saturating_add(1 + (problem.daemon_pods.len() + all.len()) / RULES_A_STEP);
            if !steps.spend(groups.len().saturating_mul(looks)) {
                break;
            }
            let mut found = Vec::new();
            for group in groups {
                let Some(pod_affinity) = Self::find(problem, &group, &mut all) else { continue };
                if all[pod_affinity].can_be_with(problem, pod, pools, reach, (columns, offers)) {
                    all[pod_affinity].pods.insert(PodId::from(at));
                    found.push(pod_affinity);
                }
            }
            known = Some((at, found));
        }
        all.retain(|one| !one.pods.is_empty());
        all
    }

    /// Finds a rule among those known, or notes it; none if no DaemonSet's pod is meant. One that waits for pod affinity itself is
    /// not counted on.
    fn find(problem: &Problem, group: &Group, all: &mut Vec<Self>) -> Option<usize> {
        if let Some(known) = all.iter().position(|one| one.group == *group) {
            return Some(known);
        }
        let free = |pod: &Pod| Reader::new(problem).pod_affinity(pod).is_empty();
        let daemons = problem.daemon_pods.iter().enumerate().filter(|(_, pod)| group.means(pod) && free(pod));
        let daemons: Vec<usize> = daemons.map(|(at, _)| at).collect();
        let name = problem.daemon_pods[*daemons.first()?].name.clone();
        all.push(Self { group: group.clone(), name, daemons, pods: BTreeSet::new() });
        Some(all.len() - 1)
    }

    /// True if a pod, by index, states it and can be on such a node.
    pub fn is_for(&self, pod: PodId) -> bool {
        self.pods.contains(&pod)
    }

    /// True if a DaemonSet, by index, is one of these.
    pub fn has_daemon(&self, daemon: usize) -> bool {
        self.daemons.contains(&daemon)
    }

    fn can_be_with(
        &self,
        problem: &Problem,
        pod: &Pod,
        pools: &IndexVec<PoolId, PoolView>,
        reach: &DaemonReach,
        (columns, offers): (&Columns<'_>, &Offers),
    ) -> bool {
        pools.enumerate().any(|(at, view)| {
            may_have(view, columns, offers, &self.group.key)
                && meant_types(problem, pod, view, columns, offers).is_some_and(|own| {
                    let with = self.daemons.iter().filter_map(|daemon| reach.on_pool(*daemon, at));
                    with.into_iter().any(|one| one.types.iter().any(|at| own.has(at)))
                })
        })
    }

    /// True if a node on its way will have such a pod.
    pub fn comes_to(&self, problem: &Problem, node: &ExistingNode, own: &Requirements) -> bool {
        own.get(&self.group.key).is_some()
            && self.daemons.iter().any(|daemon| comes_to(&problem.daemon_pods[*daemon], node, own))
    }
}

/// Host ports by their number.
fn by_number(ports: &[HostPort]) -> FxHashMap<i32, Vec<HostPort>> {
    let mut all: FxHashMap<i32, Vec<HostPort>> = FxHashMap::default();
    ports.iter().for_each(|port| all.entry(port.port).or_default().push(port.clone()));
    all
}

/// The pods of some kind, by index, one of each run of alike ones: replicas stand together.
fn examples(problem: &Problem, chosen: impl Fn(&Pod) -> bool) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (at, pod) in problem.pods.iter().enumerate().filter(|(_, pod)| chosen(pod)) {
        if !found.last().is_some_and(|last| alike(pod, &problem.pods[*last])) {
            found.push(at);
        }
    }
    found
}

/// True if two pods are the same for rules between pods and DaemonSets.
fn alike(a: &Pod, b: &Pod) -> bool {
    a.namespace == b.namespace
        && a.labels == b.labels
        && a.affinity == b.affinity
        && a.node_selector == b.node_selector
        && a.tolerations == b.tolerations
}
