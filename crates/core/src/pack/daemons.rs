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

/// The host ports of a DaemonSet.
#[derive(Debug)]
pub(crate) struct DaemonPorts {
    /// Its index among the problem's.
    pub daemon: usize,
    pub name: String,
    ports: Vec<HostPort>,
}

impl DaemonPorts {
    /// Those of the DaemonSets that take a port which a pod asks for.
    pub fn asked_for(problem: &Problem) -> Vec<Self> {
        let all = problem.daemon_pods.iter().enumerate().filter(|(_, daemon)| !daemon.host_ports.is_empty());
        let all =
            all.map(|(at, daemon)| Self { daemon: at, name: daemon.name.clone(), ports: daemon.host_ports.clone() });
        all.filter(|ports| problem.pods.iter().any(|pod| ports.clash(pod).is_some())).collect()
    }

    /// The port of a pod that the DaemonSet takes.
    pub fn clash(&self, pod: &Pod) -> Option<i32> {
        let taken = pod.host_ports.iter().find(|port| self.ports.iter().any(|own| own.conflicts(port)));
        taken.map(|port| port.port)
    }
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
