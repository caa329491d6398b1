//! InterPodAffinity: required terms of the pod, anti-affinity of the pods that are there, and the preferred score.

use super::class::{PodClass, PodTerm};
use super::filter::FilterReason;
use super::node::NodeInfo;
use super::state::{CountedPods, SchedulerState, Slot};

/// kube-scheduler's `hardPodAffinityWeight`: a required affinity of a pod that is there draws newcomers a little.
const HARD_WEIGHT: i64 = 1;

/// Affinity rules for a pod, with the pods of each domain counted.
#[derive(Debug)]
pub(crate) struct AffinityPlan {
    /// A term of affinity: the key, and whether a domain has a pod that all terms speak of.
    with: Vec<(usize, Vec<bool>)>,
    /// Nobody in the cluster is spoken of and the pod speaks of itself: it may be the first.
    first: bool,
    /// The pod's own terms of anti-affinity.
    against: Vec<(usize, Vec<bool>)>,
    /// Those of pods that are there and speak of this one.
    kept_off: Vec<(usize, Vec<bool>)>,
}

impl AffinityPlan {
    pub(crate) fn new(state: &mut SchedulerState, class: &PodClass) -> Self {
        let (mut with, mut first) = (Vec::new(), false);
        if !class.affinity.is_empty() {
            let counter = state.counter(CountedPods::terms(&class.affinity));
            with = class.affinity.iter().map(|term| occupied(state, term, counter)).collect();
            let nobody = with.iter().all(|(_, domains)| !domains.contains(&true));
            first = nobody && class.affinity.iter().all(|t| t.means(&class.namespace, &class.labels));
        }
        let mut against = Vec::new();
        for term in &class.anti_affinity {
            let counter = state.counter(CountedPods::terms(std::slice::from_ref(term)));
            if state.counted_in_all(counter) > 0 {
                against.push(occupied(state, term, counter));
            }
        }
        Self { with, first, against, kept_off: kept_off(state, class) }
    }

    /// The reason for which the node is refused, if it is.
    pub(crate) fn judge(&self, node: &NodeInfo) -> Option<FilterReason> {
        let lies_in = |(key, domains): &(usize, Vec<bool>)| node.domains[*key].is_some_and(|d| domains[d]);
        let labelled = || self.with.iter().all(|(key, _)| node.domains[*key].is_some());
        if !(self.with.iter().all(lies_in) || self.first && labelled()) {
            return Some(FilterReason::Affinity);
        }
        if self.against.iter().any(lies_in) {
            return Some(FilterReason::AntiAffinity);
        }
        self.kept_off.iter().any(lies_in).then_some(FilterReason::ExistingAntiAffinity)
    }
}

/// For each domain of the term's key, whether it has a pod that the counter counts.
fn occupied(state: &mut SchedulerState, term: &PodTerm, counter: usize) -> (usize, Vec<bool>) {
    let key = state.topology_key(&term.key);
    let mut domains = vec![false; state.topology.size(key)];
    for (slot, node) in state.nodes() {
        if let Some(domain) = node.domains[key] {
            domains[domain] |= state.counted(counter, slot) > 0;
        }
    }
    (key, domains)
}

/// The domains that anti-affinity of pods there forbids to this one.
fn kept_off(state: &mut SchedulerState, class: &PodClass) -> Vec<(usize, Vec<bool>)> {
    let mut forbidden = Vec::new();
    for at in 0..state.opinionated.len() {
        let id = state.opinionated[at];
        let other = state.classes[id].class.clone();
        for term in other.anti_affinity.iter().filter(|t| t.means(&class.namespace, &class.labels)) {
            let key = state.topology_key(&term.key);
            let mut domains = vec![false; state.topology.size(key)];
            for slot in state.classes[id].by_slot.keys() {
                if let Some(domain) = domain_of(state, *slot, key) {
                    domains[domain] = true;
                }
            }
            forbidden.push((key, domains));
        }
    }
    forbidden
}

fn domain_of(state: &SchedulerState, slot: Slot, key: usize) -> Option<usize> {
    state.nodes[slot].as_ref()?.domains[key]
}

/// The scores (0 to 100) of the feasible nodes by preferred terms; `None` when no term has a say.
pub(crate) fn score(state: &mut SchedulerState, class: &PodClass, feasible: &[Slot]) -> Option<Vec<i64>> {
    let mut raw = vec![0i64; feasible.len()];
    let mut any = false;
    let mut give = |state: &SchedulerState, key: usize, domains: &[i64]| {
        for (score, slot) in raw.iter_mut().zip(feasible) {
            *score += domain_of(state, *slot, key).map_or(0, |d| domains[d]);
        }
        any |= domains.iter().any(|d| *d != 0);
    };
    for (weight, term) in &class.preferred_pods {
        let counter = state.counter(CountedPods::terms(std::slice::from_ref(term)));
        let key = state.topology_key(&term.key);
        let mut domains = vec![0; state.topology.size(key)];
        for (slot, node) in state.nodes() {
            if let Some(domain) = node.domains[key] {
                domains[domain] += weight * i64::from(state.counted(counter, slot));
            }
        }
        give(state, key, &domains);
    }
    for at in 0..state.opinionated.len() {
        let id = state.opinionated[at];
        let other = state.classes[id].class.clone();
        let hard = other.affinity.iter().map(|t| (HARD_WEIGHT, t));
        let terms = other.preferred_pods.iter().map(|(w, t)| (*w, t)).chain(hard);
        for (weight, term) in terms.filter(|(_, t)| t.means(&class.namespace, &class.labels)) {
            let key = state.topology_key(&term.key);
            let mut domains = vec![0; state.topology.size(key)];
            for (slot, pods) in &state.classes[id].by_slot {
                if let Some(domain) = domain_of(state, *slot, key) {
                    domains[domain] += weight * i64::from(*pods);
                }
            }
            give(state, key, &domains);
        }
    }
    any.then(|| normalise(&raw))
}

fn normalise(raw: &[i64]) -> Vec<i64> {
    let (least, most) = (raw.iter().min().copied().unwrap_or(0), raw.iter().max().copied().unwrap_or(0));
    raw.iter().map(|s| if most > least { 100 * (s - least) / (most - least) } else { 0 }).collect()
}
