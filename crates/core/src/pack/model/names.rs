//! The resources that count in a packing, by their names and places.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::classes::{Amounts, UNBOUNDED};
use super::columns::Columns;
use super::daemons::reach::DaemonReach;
use super::daemons::rules::{DaemonAffinity, DaemonConflict};
use super::ids::{IndexVec, PodId, PoolId};
use super::offers::Offers;
use super::pools::PoolView;
use crate::pack::filter::topology::groups::{Reader, has_anti_affinity};
use crate::pack::rounds::steps::Steps;
use crate::pod::Pod;
use crate::problem::Problem;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use crate::volumes::is_attachable;

/// The resources that count: cpu, memory, pods and whatever else a pod requests; last one for each DaemonSet that keeps
/// some pod off its nodes, which a node has no more where such a daemon runs, and one for each rule by which pods have to be
/// with a DaemonSet's, which a node has only where such a daemon runs.
#[derive(Debug)]
pub(crate) struct ResourceNames(pub Vec<String>, Vec<DaemonConflict>, Vec<DaemonAffinity>, FxHashSet<String>);

/// Name of the one resource that stands for all that nothing has: pods may name as many as they like.
const LACKING: &str = "resources that no node has";

impl ResourceNames {
    /// Collects the resources of a problem.
    pub fn from_problem(
        problem: &Problem,
        pools: &IndexVec<PoolId, PoolView>,
        reach: &DaemonReach,
        found: (&Columns<'_>, &Offers),
        steps: &Steps,
    ) -> Self {
        let mut names = vec![CPU.to_owned(), MEMORY.to_owned(), PODS.to_owned()];
        let mut others = BTreeSet::new();
        for pod in problem.pods.iter().chain(&problem.daemon_pods) {
            if pod.requests.get(EPHEMERAL_STORAGE) > 0 && !others.contains(EPHEMERAL_STORAGE) {
                others.insert(EPHEMERAL_STORAGE.to_owned());
            }
            for name in pod.shared_volumes.values().filter(|name| is_attachable(name)) {
                if !others.contains(name) {
                    others.insert(name.clone());
                }
            }
            for (name, amount) in pod.requests.uncommon() {
                if amount > 0 && !others.contains(name) {
                    others.insert(name.to_owned());
                }
            }
        }
        let lacking = split_lacking(problem, &mut others);
        names.extend(others);
        let conflicts = DaemonConflict::all(problem, reach, steps);
        names.extend(conflicts.iter().map(|conflict| format!("nodes without DaemonSet {}", conflict.name)));
        let daemon_affinities = DaemonAffinity::all(problem, pools, reach, found, steps);
        names
            .extend(daemon_affinities.iter().map(|pod_affinity| format!("nodes with DaemonSet {}", pod_affinity.name)));
        if !lacking.is_empty() {
            names.push(LACKING.to_owned());
        }
        Self(names, conflicts, daemon_affinities, lacking)
    }

    /// The place of the resource that stands for all that nothing has, if a pod asks for any.
    pub fn lacking(&self) -> Option<usize> {
        (!self.3.is_empty()).then(|| self.0.len() - 1)
    }

    /// The first resource of a pod's that nothing has.
    pub fn first_lacking<'p>(&self, pod: &'p Pod) -> Option<(&'p str, i64)> {
        if self.3.is_empty() {
            return None;
        }
        pod.requests.uncommon().find(|(name, amount)| *amount > 0 && self.3.contains(*name))
    }

    /// The resources that have names of their own.
    pub fn named(&self) -> &[String] {
        &self.0[..self.0.len() - self.1.len() - self.2.len() - usize::from(!self.3.is_empty())]
    }

    /// The DaemonSets that keep pods off, each with its place among the resources.
    pub fn conflicts(&self) -> impl Iterator<Item = (usize, &DaemonConflict)> {
        self.1.iter().enumerate().map(|(nth, conflict)| (self.named().len() + nth, conflict))
    }

    /// The rules by which pods have to be with a DaemonSet's, each with its place among the resources.
    pub fn daemon_affinities(&self) -> impl Iterator<Item = (usize, &DaemonAffinity)> {
        self.2.iter().enumerate().map(|(nth, pod_affinity)| (self.named().len() + self.1.len() + nth, pod_affinity))
    }

    pub fn amounts(&self, resources: &Resources) -> Amounts {
        let mut amounts: Amounts = self.named().iter().map(|name| resources.get(name)).collect();
        amounts.resize(self.0.len(), 0);
        amounts
    }

    /// Requests of a pod or a daemon; never negative.
    fn requested(&self, pod: &Pod) -> Amounts {
        let mut amounts = self.amounts(&pod.requests);
        amounts.iter_mut().for_each(|amount| *amount = (*amount).max(0));
        amounts
    }

    /// Amounts that a pod, by index, takes of a node.
    pub fn of_pod(&self, problem: &Problem, at: PodId) -> Amounts {
        let pod = &problem.pods[at];
        let mut amounts = self.requested(pod);
        amounts[2] = 1;
        let any = !self.1.is_empty() && has_anti_affinity(pod);
        let own = if any { Reader::new(problem).kept_by_bound(pod) } else { vec![] };
        for (at, conflict) in self.conflicts() {
            amounts[at] = i64::from(conflict.excludes(problem, pod, &own));
        }
        for (slot, pod_affinity) in self.daemon_affinities() {
            amounts[slot] = i64::from(pod_affinity.is_for(at));
        }
        if let Some(slot) = self.lacking() {
            amounts[slot] = i64::from(self.first_lacking(pod).is_some());
        }
        amounts
    }

    /// Amounts that a daemon takes of a node that may have labels: all places of pods that it keeps off.
    pub fn of_daemon(&self, daemon: usize, pod: &Pod, may_have: impl Fn(&str) -> bool) -> Amounts {
        let mut amounts = self.requested(pod);
        amounts[2] = 1;
        let own = self.conflicts().filter(|(_, one)| one.daemon == daemon && may_have(&one.key));
        own.for_each(|(at, _)| amounts[at] = UNBOUNDED);
        amounts
    }

    /// Room of a node with these resources; attachments that it does not name have no bound.
    pub fn room(&self, resources: &Resources) -> Amounts {
        let room = |name: &String| match resources.find(name) {
            None if is_attachable(name) => UNBOUNDED,
            found => found.unwrap_or(0),
        };
        let mut amounts: Amounts = self.named().iter().map(room).collect();
        amounts.resize(self.0.len(), UNBOUNDED);
        if let Some(slot) = self.lacking() {
            amounts[slot] = 0;
        }
        amounts
    }

    /// Requests as they are written into a claim: attachments and ports are counted, but are no resource of a node.
    pub fn resources(&self, amounts: &[i64]) -> Resources {
        let named = self.named().iter().zip(amounts).filter(|(name, amount)| **amount != 0 && !is_attachable(name));
        named.map(|(name, amount)| (name.clone(), *amount)).collect()
    }
}

/// Takes the names out that neither an instance type nor a node has, and attachments that nothing bounds, which bind nobody.
/// Returns those taken out that bind.
fn split_lacking(problem: &Problem, names: &mut BTreeSet<String>) -> FxHashSet<String> {
    if names.iter().all(|name| name == EPHEMERAL_STORAGE) {
        return FxHashSet::default();
    }
    let types = problem.instance_types.iter().flat_map(|one| one.capacity.uncommon().chain(one.attachments.uncommon()));
    let nodes = problem.existing_nodes.iter().flat_map(|node| node.allocatable.uncommon());
    let had: FxHashSet<&str> =
        types.chain(nodes).filter(|(name, amount)| *amount > 0 || is_attachable(name)).map(|(name, _)| name).collect();
    let kept = |name: &String| name == EPHEMERAL_STORAGE || had.contains(name.as_str());
    let lacking = names.iter().filter(|name| !kept(name) && !is_attachable(name)).cloned().collect();
    names.retain(kept);
    lacking
}
