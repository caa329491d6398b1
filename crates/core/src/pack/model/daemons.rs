//! What DaemonSets take of a pool's new nodes (spec core 3.9), and what rules between pods say of their pods there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::bits::Bits;
use super::classes::{Amounts, ResourceNames, UNBOUNDED};
use super::columns::Columns;
use super::ids::{IndexVec, InstanceTypeId, PodId, PoolId};
use super::offers::Offers;
use super::pools::PoolView;
use crate::labels;
use crate::pack::filter::alternatives::{Alternative, GivenUp, alternatives};
use crate::pack::filter::taints;
use crate::pack::filter::topology::groups::{Group, Reader, has_anti_affinity};
use crate::pack::place::existing::satisfies;
use crate::pod::{HostPort, Pod};
use crate::problem::{Pool, PreferencePolicy, Problem};
use crate::requirements::Requirements;

/// For each instance type what daemons take of it; empty when no daemon runs on the pool's nodes. A daemon counts
/// where its node selector and any term of its node affinity can be met; taints that only prefer do not keep it off.
pub(crate) fn overhead(
    problem: &Problem,
    pool: &Pool,
    view: &PoolView,
    names: &ResourceNames,
    columns: &Columns<'_>,
    offers: &Offers,
) -> IndexVec<InstanceTypeId, Amounts> {
    let count = problem.instance_types.len();
    let mut all = IndexVec::new();
    for (nth, daemon) in problem.daemon_pods.iter().enumerate() {
        let types = types_with(daemon, pool, view, columns, offers);
        if types.is_empty() {
            continue;
        }
        if all.is_empty() {
            all = IndexVec::from_elem(Amounts::from_elem(0, names.0.len()), count);
        }
        let requests = names.of_daemon(nth, daemon, |key| may_have(view, columns, offers, key));
        for at in types.iter() {
            all[at].iter_mut().zip(&requests).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
        }
    }
    for (slot, pod_affinity) in names.daemon_affinities() {
        if all.is_empty() {
            all = IndexVec::from_elem(Amounts::from_elem(0, names.0.len()), count);
        }
        let with = pod_affinity.types(problem, pool, view, columns, offers);
        for at in view.types.iter().filter(|at| !with.has(*at)) {
            all[at][slot] = UNBOUNDED;
        }
    }
    all
}

/// Whether a pool's node may have a label. What is well known every node has by the time that pods are bound there.
fn may_have(view: &PoolView, columns: &Columns<'_>, offers: &Offers, key: &str) -> bool {
    key == labels::HOSTNAME
        || labels::WELL_KNOWN.contains(&key)
        || offers.keys.contains(key)
        || columns.get(key).is_some()
        || view.requirements.get(key).is_some_and(|own| !own.is_empty())
}

/// The types of a pool on whose nodes a daemon runs.
fn types_with(daemon: &Pod, pool: &Pool, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Bits {
    let mut types = view.types.clone();
    types.clear();
    if taints::untolerated(&pool.taints, &daemon.tolerations, true).is_none() {
        for term in terms(daemon).unwrap_or_default() {
            types.or(&reached(&term.requirements, view, columns, offers));
        }
    }
    types
}

fn terms(daemon: &Pod) -> Result<Vec<Alternative>, String> {
    alternatives(daemon, PreferencePolicy::Ignore, false, GivenUp::default())
}

/// Whether a daemon runs on a node that is there.
pub(crate) fn runs_on(daemon: &Pod, taints: &[Taint], labels: &Requirements) -> bool {
    taints::untolerated(taints, &daemon.tolerations, true).is_none()
        && terms(daemon).is_ok_and(|terms| terms.iter().any(|term| satisfies(labels, &term.requirements)))
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
    ports: Vec<HostPort>,
    /// The pods that its own anti-affinity keeps off.
    keeps_off: Vec<Group>,
}

/// What keeps a pod off a DaemonSet's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clash {
    /// The DaemonSet has this host port.
    Port(i32),
    /// One of both may not be with the other.
    AntiAffinity,
}

impl DaemonConflict {
    /// Those of the DaemonSets that keep off any pod that waits.
    pub fn all(problem: &Problem) -> Vec<Self> {
        if problem.daemon_pods.is_empty() {
            return vec![];
        }
        let reader = Reader::new(problem);
        let wary = examples(problem, has_anti_affinity);
        let theirs: Vec<Group> = wary.iter().flat_map(|pod| reader.kept_by_bound(&problem.pods[*pod])).collect();
        let mut all = Vec::new();
        for (daemon, pod) in problem.daemon_pods.iter().enumerate() {
            let own = reader.kept_by_bound(pod);
            let meant = theirs.iter().filter(|group| group.means(pod));
            let ports = (!pod.host_ports.is_empty()).then_some(labels::HOSTNAME);
            let keys: BTreeSet<&str> = own.iter().chain(meant).map(|group| group.key.as_str()).chain(ports).collect();
            for key in keys {
                all.push(Self {
                    daemon,
                    name: pod.name.clone(),
                    key: key.to_owned(),
                    ports: if key == labels::HOSTNAME { pod.host_ports.clone() } else { vec![] },
                    keeps_off: own.iter().filter(|group| group.key == key).cloned().collect(),
                });
            }
        }
        // What pods say themselves is read once for those that are alike: it is dear, and a batch may have thousands.
        all.retain(|one| {
            problem.pods.iter().any(|pod| one.keeps_off(pod).is_some())
                || wary.iter().any(|pod| one.is_avoided_by(problem, &problem.pods[*pod]))
        });
        all
    }

    /// What keeps the pod off, if anything does.
    pub fn clash(&self, problem: &Problem, pod: &Pod) -> Option<Clash> {
        self.keeps_off(pod).or_else(|| self.is_avoided_by(problem, pod).then_some(Clash::AntiAffinity))
    }

    /// What the DaemonSet has or says itself that keeps the pod off.
    fn keeps_off(&self, pod: &Pod) -> Option<Clash> {
        let taken = pod.host_ports.iter().find(|port| self.ports.iter().any(|own| own.conflicts(port)));
        let by_anti_affinity = || self.keeps_off.iter().any(|group| group.means(pod)).then_some(Clash::AntiAffinity);
        taken.map(|port| Clash::Port(port.port)).or_else(by_anti_affinity)
    }

    /// Whether the pod keeps off by what it says itself.
    fn is_avoided_by(&self, problem: &Problem, pod: &Pod) -> bool {
        let daemon = &problem.daemon_pods[self.daemon];
        let meant = |group: &Group| group.key == self.key && group.means(daemon);
        has_anti_affinity(pod) && Reader::new(problem).kept_by_bound(pod).iter().any(meant)
    }

    /// Whether it keeps pods off a node that is there.
    pub fn binds_on(&self, problem: &Problem, taints: &[Taint], own: &Requirements) -> bool {
        own.get(&self.key).is_some() && runs_on(&problem.daemon_pods[self.daemon], taints, own)
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
    /// Those of the rules of pods that wait, for pods that can be on a new node with such a DaemonSet.
    pub fn all(
        problem: &Problem,
        pools: &IndexVec<PoolId, PoolView>,
        columns: &Columns<'_>,
        offers: &Offers,
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
            let mut found = Vec::new();
            for group in reader.pod_affinity(pod) {
                let Some(pod_affinity) = Self::find(problem, &group, &mut all) else { continue };
                if all[pod_affinity].can_be_with(problem, pod, pools, columns, offers) {
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

    /// Whether a pod, by index, states it and can be on such a node.
    pub fn is_for(&self, pod: PodId) -> bool {
        self.pods.contains(&pod)
    }

    /// The types of a pool whose nodes have such a pod, and the label.
    fn types(&self, problem: &Problem, pool: &Pool, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Bits {
        let mut types = Bits::empty(problem.instance_types.len());
        if may_have(view, columns, offers, &self.group.key) {
            let daemons = self.daemons.iter().map(|daemon| &problem.daemon_pods[*daemon]);
            daemons.for_each(|daemon| types.or(&types_with(daemon, pool, view, columns, offers)));
        }
        types
    }

    fn can_be_with(
        &self,
        problem: &Problem,
        pod: &Pod,
        pools: &IndexVec<PoolId, PoolView>,
        columns: &Columns<'_>,
        offers: &Offers,
    ) -> bool {
        let pools = pools.iter().map(|view| (view, &problem.node_pools[view.index]));
        pools.into_iter().any(|(view, pool)| {
            let mut types = types_with(pod, pool, view, columns, offers);
            types.and(&self.types(problem, pool, view, columns, offers));
            !types.is_empty()
        })
    }

    /// Whether a node on its way will have such a pod.
    pub fn comes_to(&self, problem: &Problem, taints: &[Taint], own: &Requirements) -> bool {
        own.get(&self.group.key).is_some()
            && self.daemons.iter().any(|daemon| runs_on(&problem.daemon_pods[*daemon], taints, own))
    }
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

/// Whether two pods are the same for rules between pods and DaemonSets.
fn alike(a: &Pod, b: &Pod) -> bool {
    a.namespace == b.namespace
        && a.labels == b.labels
        && a.affinity == b.affinity
        && a.node_selector == b.node_selector
        && a.tolerations == b.tolerations
}

fn reached(wanted: &Requirements, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Bits {
    let mut types = view.types.clone();
    let mut out = false;
    for (key, requirement) in wanted.iter() {
        if let Some(own) = view.requirements.get(key) {
            out |= !(own.intersects(requirement) || own.allows_absence() && requirement.allows_absence());
        }
        match columns.get(key) {
            _ if offers.keys.contains(key) || view.labels.contains(key) => {}
            Some(column) => types.and(&column.select(requirement)),
            // `registered` and `initialized` are true on every node by the time a daemon asks.
            None if key == "karpenter.sh/registered" || key == "karpenter.sh/initialized" => {}
            None => out |= view.requirements.get(key).is_none() && !requirement.allows_absence(),
        }
    }
    if out || view.offering_bits & offers.select(wanted) == 0 {
        types.clear();
    }
    types
}
