//! What DaemonSets take of a pool's new nodes (spec core 3.9), and the host ports that they take of any.

use k8s_openapi::api::core::v1::Taint;

use super::alternatives::{Alternative, GivenUp, alternatives};
use super::bits::Bits;
use super::classes::{Amounts, ResourceNames};
use super::columns::Columns;
use super::existing::satisfies;
use super::offers::Offers;
use super::pools::PoolView;
use super::taints;
use super::topology::groups::{Group, Reader, keeps_distance};
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
) -> Vec<Amounts> {
    let count = problem.instance_types.len();
    let mut all = Vec::new();
    for (nth, daemon) in problem.daemon_pods.iter().enumerate() {
        if taints::untolerated(&pool.taints, &daemon.tolerations, true).is_some() {
            continue;
        }
        let Ok(terms) = terms(daemon) else { continue };
        let mut types = Bits::empty(count);
        for term in terms {
            types.or(&reached(&term.requirements, view, columns, offers));
        }
        if types.is_empty() {
            continue;
        }
        if all.is_empty() {
            all = vec![Amounts::from_elem(0, names.0.len()); count];
        }
        let requests = names.of_daemon(nth, daemon);
        for at in types.iter() {
            all[at].iter_mut().zip(&requests).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
        }
    }
    all
}

fn terms(daemon: &Pod) -> Result<Vec<Alternative>, String> {
    alternatives(daemon, PreferencePolicy::Ignore, false, GivenUp::default())
}

/// Whether a daemon runs on a node that is there.
pub(crate) fn runs_on(daemon: &Pod, taints: &[Taint], labels: &Requirements) -> bool {
    taints::untolerated(taints, &daemon.tolerations, true).is_none()
        && terms(daemon).is_ok_and(|terms| terms.iter().any(|term| satisfies(labels, &term.requirements)))
}

/// A DaemonSet whose pods keep pods that wait off the nodes that it runs on: by a host port, or by anti-affinity over
/// nodes, whichever of the two states it. Its pod is the first on a new node, so that no such node would do.
#[derive(Debug)]
pub(crate) struct DaemonConflict {
    /// Its index among the problem's.
    pub daemon: usize,
    pub name: String,
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
        let reader = Reader::new(problem);
        let over_nodes = |pod: &Pod| reader.kept_by_bound(pod).into_iter().filter(Group::by_node).collect();
        let conflict = |(daemon, pod): (usize, &Pod)| Self {
            daemon,
            name: pod.name.clone(),
            ports: pod.host_ports.clone(),
            keeps_off: over_nodes(pod),
        };
        let mut all: Vec<Self> = problem.daemon_pods.iter().enumerate().map(conflict).collect();
        if all.is_empty() {
            return all;
        }
        let wary: Vec<&Pod> = examples(problem);
        all.retain(|one| {
            let own = !one.ports.is_empty() || !one.keeps_off.is_empty();
            (own && problem.pods.iter().any(|pod| one.clash(problem, pod).is_some()))
                || wary.iter().any(|pod| one.clash(problem, pod).is_some())
        });
        all
    }

    /// What keeps the pod off, if anything does.
    pub fn clash(&self, problem: &Problem, pod: &Pod) -> Option<Clash> {
        let taken = pod.host_ports.iter().find(|port| self.ports.iter().any(|own| own.conflicts(port)));
        if let Some(port) = taken {
            return Some(Clash::Port(port.port));
        }
        let wary = |pod: &Pod| Reader::new(problem).kept_by_bound(pod);
        let daemon = &problem.daemon_pods[self.daemon];
        let apart = self.keeps_off.iter().any(|group| group.means(pod))
            || (keeps_distance(pod) && wary(pod).iter().any(|group| group.by_node() && group.means(daemon)));
        apart.then_some(Clash::AntiAffinity)
    }
}

/// Pods that keep a distance, one of each run of alike ones: replicas stand together.
fn examples(problem: &Problem) -> Vec<&Pod> {
    let mut found: Vec<&Pod> = Vec::new();
    for pod in problem.pods.iter().filter(|pod| keeps_distance(pod)) {
        let alike =
            |last: &&Pod| last.namespace == pod.namespace && last.labels == pod.labels && last.affinity == pod.affinity;
        if !found.last().is_some_and(alike) {
            found.push(pod);
        }
    }
    found
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
    if out || view.cells & offers.select(wanted) == 0 {
        types.clear();
    }
    types
}
