//! Requests of DaemonSets on new nodes (spec core 3.9), and rules between pods that concern their pods there.

pub(crate) mod counted;
pub(crate) mod order;
pub(crate) mod reach;
pub(crate) mod rules;

use k8s_openapi::api::core::v1::Taint;

use crate::daemons::fits_alone;
use crate::pack::filter::alternatives::{Alternative, GivenUp, alternatives};
use crate::pack::filter::taints;
use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::offers::Offers;
use crate::pack::model::pools::PoolView;
use crate::pack::place::existing::satisfies;
use crate::pod::Pod;
use crate::problem::{ExistingNode, PreferencePolicy, Problem};
use crate::requirements::Requirements;
use reach::RunsOn;

/// Alternatives of a DaemonSet's pod for its node, preferences apart.
fn terms(daemon: &Pod) -> Result<Vec<Alternative>, String> {
    alternatives(daemon, PreferencePolicy::Ignore, false, GivenUp::default())
}

/// The types of a pool that a pod is meant for, whatever its size; `None` if there are none.
fn meant_types(problem: &Problem, pod: &Pod, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Option<Bits> {
    let tolerated = taints::untolerated(&problem.node_pools[view.index].taints, &pod.tolerations, true).is_none();
    let found = RunsOn::by_terms(0, &terms(pod).ok().filter(|_| tolerated)?, view, columns, offers);
    found.map(|one| one.types)
}

/// True if a daemon is meant for a node with these labels and taints; taints that only prefer do not keep it off.
pub(crate) fn runs_on(daemon: &Pod, taints: &[Taint], labels: &Requirements) -> bool {
    taints::untolerated(taints, &daemon.tolerations, true).is_none()
        && terms(daemon).is_ok_and(|terms| terms.iter().any(|term| satisfies(labels, &term.requirements)))
}

/// True if a daemon runs on a node that is there: it is meant for it, and fits on it.
pub(crate) fn comes_to(daemon: &Pod, node: &ExistingNode, labels: &Requirements) -> bool {
    fits_alone(daemon, &node.allocatable) && runs_on(daemon, &node.taints, labels)
}
