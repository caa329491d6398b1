//! The bound on the work of one packing. It counts steps and not time, so that the same problem has the same answer on every
//! machine.
//!
//! A step is about what a look at one planned node or one instance type set takes: some 100 ns. Whatever looks for a place
//! takes its steps first and finds none once they are spent. So every loop ends by itself, as nothing moves any more, and the
//! answer, which is then worth nothing, is thrown away ([`crate::pack::PackingError::Bound`]).

use std::cell::Cell;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodAffinityTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::failure::PackingError;
use crate::pack::filter::topology::groups::required_anti_affinity;
use crate::pack::model::plan::Options;
use crate::pod::Pod;
use crate::problem::Problem;

/// Steps that every packing has, however small.
const BASE: u64 = 3_000_000;
/// Steps for each pod, existing node, bound pod and instance type of a pool. Real workloads take less than a tenth of what they
/// get by this (tests/packing/drawn/workloads.rs).
const A_POD: u64 = 10_000;
const A_NODE: u64 = 50_000;
const A_BOUND_POD: u64 = 2_000;
const A_TYPE_OF_A_POOL: u64 = 200;

/// Numbers of labels, tolerations and namespaces that are read in one step of work.
const LABELS_A_STEP: usize = 8;
const TOLERATIONS_A_STEP: usize = 4;
const NAMESPACES_A_STEP: usize = 4;
/// Number of namespaces that are read for the work of one rule.
const NAMESPACES_A_RULE: usize = 16;

/// The steps that are left to a packing.
#[derive(Debug)]
pub(crate) struct Steps {
    all: u64,
    left: Cell<u64>,
}

impl Steps {
    /// The steps of a problem, by its size or by the options.
    pub fn for_problem(problem: &Problem, options: &Options) -> Self {
        let all = options.most_steps.unwrap_or_else(|| by_size(problem));
        Self { all, left: Cell::new(all) }
    }

    /// Takes steps; true if there were more than that. Once there were not, there never are.
    pub fn spend(&self, count: usize) -> bool {
        // A `Cell`, as steps are taken while much else is borrowed; packing runs on one thread.
        let left = self.left.get().saturating_sub(steps_of(count));
        self.left.set(left);
        // Zero left counts as spent: a caller that would take nothing more still learns that it is over.
        left > 0
    }

    /// Checks that the bound was not met.
    ///
    /// # Errors
    /// [`PackingError::Bound`] if it was: whatever was computed is worth nothing.
    pub fn bound_met(&self) -> Result<(), PackingError> {
        if self.left.get() == 0 { Err(PackingError::Bound { steps: self.all }) } else { Ok(()) }
    }
}

/// Work to read a pod, in steps, each time that it is compared with others: one for each thing that it states.
pub(crate) fn size_of(problem: &Problem, pod: &Pod) -> usize {
    let mut size = 1 + pod.labels.len() / LABELS_A_STEP + pod.node_selector.len() + pod.host_ports.len();
    size += pod.tolerations.len() / TOLERATIONS_A_STEP + pod.requests.uncommon().count() + pod.shared_volumes.len();
    size += pod.volume_topology.iter().flatten().map(|said| 1 + said.values.len()).sum::<usize>();
    for spread in &pod.topology_spread_constraints {
        size += 1 + selector_size(spread.label_selector.as_ref());
    }
    let Some(affinity) = &pod.affinity else { return size };
    if let Some(nodes) = &affinity.node_affinity {
        let required = nodes.required_during_scheduling_ignored_during_execution.iter();
        let required = required.flat_map(|selector| &selector.node_selector_terms);
        let preferred = nodes.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for term in required.chain(preferred.map(|one| &one.preference)) {
            let said = term.match_expressions.iter().chain(&term.match_fields).flatten();
            size += 1 + said.map(|one| 1 + one.values.as_ref().map_or(0, Vec::len)).sum::<usize>();
        }
    }
    let near = affinity.pod_affinity.as_ref().map(|all| {
        (
            &all.required_during_scheduling_ignored_during_execution,
            &all.preferred_during_scheduling_ignored_during_execution,
        )
    });
    let far = affinity.pod_anti_affinity.as_ref().map(|all| {
        (
            &all.required_during_scheduling_ignored_during_execution,
            &all.preferred_during_scheduling_ignored_during_execution,
        )
    });
    for (required, preferred) in near.into_iter().chain(far) {
        let preferred = preferred.iter().flatten().map(|one| &one.pod_affinity_term);
        size += required.iter().flatten().chain(preferred).map(|term| term_size(problem, term)).sum::<usize>();
    }
    size
}

fn term_size(problem: &Problem, term: &PodAffinityTerm) -> usize {
    // Each namespace is asked whether it is meant; where they are not known, those of the pods.
    let asked = term.namespace_selector.as_ref().map_or(0, |selector| match selector_size(Some(selector)) {
        0 => 0,
        size => size * (1 + problem.namespaces.len().max(problem.pods.len()) / NAMESPACES_A_STEP),
    });
    1 + selector_size(term.label_selector.as_ref()) + term.namespaces.as_ref().map_or(0, Vec::len) + asked
}

/// The size of a pod's required anti-affinity, in rules: selectors and namespaces are rules too.
pub(crate) fn anti_affinity_size(problem: &Problem, pod: &Pod) -> usize {
    let known = if problem.namespaces.is_empty() { problem.pods.len() } else { problem.namespaces.len() };
    let size = |term: &PodAffinityTerm| {
        let asked = selector_size(term.namespace_selector.as_ref());
        let listed = term.namespaces.as_ref().map_or(0, Vec::len);
        1 + selector_size(term.label_selector.as_ref()) + listed + asked * (1 + known / NAMESPACES_A_RULE)
    };
    required_anti_affinity(pod).map(size).sum()
}

fn selector_size(selector: Option<&LabelSelector>) -> usize {
    let Some(selector) = selector else { return 0 };
    let expressions = selector.match_expressions.iter().flatten();
    let values = expressions.map(|one| 1 + one.values.as_ref().map_or(0, Vec::len)).sum::<usize>();
    values + selector.match_labels.as_ref().map_or(0, BTreeMap::len)
}

/// A count as steps are counted: no `usize` has more than 64 bits.
fn steps_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Largest number of steps of a packing of a problem, by its size.
#[must_use]
pub fn by_size(problem: &Problem) -> u64 {
    let bound: usize = problem.existing_nodes.iter().map(|node| node.pods.len()).sum();
    let types = problem.instance_types.len().saturating_mul(problem.node_pools.len());
    let parts = [
        (problem.pods.len(), A_POD),
        (problem.existing_nodes.len(), A_NODE),
        (bound, A_BOUND_POD),
        (types, A_TYPE_OF_A_POOL),
    ];
    parts.iter().fold(BASE, |sum, (count, each)| sum.saturating_add(each.saturating_mul(steps_of(*count))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_are_spent_do_not_come_back() {
        let steps = Steps::for_problem(&Problem::default(), &Options { most_steps: Some(10), ..Options::default() });
        assert!(steps.spend(9) && steps.bound_met().is_ok());
        assert_eq!(steps.left.get(), 1);
        assert!(!steps.spend(5) && !steps.spend(0));
        assert_eq!(steps.bound_met(), Err(PackingError::Bound { steps: 10 }));
    }

    #[test]
    fn a_larger_problem_gets_more_steps() {
        let small = Steps::for_problem(&Problem::default(), &Options::default()).all;
        let problem = Problem { pods: vec![crate::Pod::default(); 10], ..Problem::default() };
        assert_eq!(Steps::for_problem(&problem, &Options::default()).all, small + 10 * A_POD);
    }
}
