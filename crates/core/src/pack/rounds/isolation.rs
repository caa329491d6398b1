//! Packing that fails is tried again until the pods that break it are left out: all others go on.
//!
//! First everything by `fewest-nodes`, as most that can go wrong lies in the search for the lowest price. Then halves of the
//! batch, by namespace and then by class of pods: a half that fails is halved again, and one that does not is kept and packed
//! together with the next, so that the answer is one packing. Namespaces are told apart before the classes of any of them, so
//! that what one has made delays no other. What remains kept is packed once more by its pools' own policies.
//!
//! All attempts together have a bound of steps too: others wait as long as the search goes on.
//!
//! Say classes 1 to 8 wait and 6 panics. The whole fails, and so it does by `fewest-nodes`. Of the halves 1 to 4 packs and is
//! kept. 5 to 8 fails beside them; of its halves 5 and 6 fails, 7 and 8 packs and is kept. Then 5 packs and is kept, and 6, which
//! fails alone, is left out with its error. At last the seven that are kept are packed by their pools' own policies. That took
//! six of the 24 attempts.
//!
//! Whoever asks a solver drives it: [`Isolation::asked`] says what to solve, [`Isolation::answered`] takes the answer. It knows
//! no clock and no solver, and the same answers lead to the same result.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::failure::PackingError;
use super::steps;
use crate::pack::explain::reason::Reason;
use crate::pack::filter::soft::rules_of;
use crate::pack::model::classes::{equal, hash};
use crate::pack::model::plan::{Options, Packing};
use crate::pod::Pod;
use crate::problem::{Policy, Problem};

/// Largest number of problems that are solved in search of what breaks a packing. Classes that are not told apart by then are
/// left out together.
const MOST_ATTEMPTS: usize = 24;

/// Divisor of the whole's steps for a part of a batch: several parts may meet their bound.
const PART_OF_STEPS: u64 = 8;
/// Number of parts that may meet it, which together is the bound of the whole.
const MOST_STEPS_LOST: u64 = 8;
/// Divisor of the steps for the plain policy, and for the last packing of what is kept.
const FEWEST_PART_OF_STEPS: u64 = 2;

/// Labels that each pod of a workload has for itself: they make no class.
pub(crate) const OWN_LABELS: [&str; 4] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "pod-template-hash",
];

/// A question for the solver.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The pods that wait, and all that they could be on.
    pub problem: Arc<Problem>,
    /// The settings to solve it with.
    pub options: Options,
}

/// Pods that are left out of a packing.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Their indices in the problem.
    pub pods: Vec<usize>,
    /// The error of packing with them.
    pub error: PackingError,
    /// True if they are one class, and packing fails with it beside what is kept. Otherwise they are several that were not told
    /// apart.
    pub alone: bool,
    pub of_one_namespace: bool,
}

/// The result of the search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Isolated {
    /// The packing of the whole problem; pods that were left out are among those left over.
    pub packing: Packing,
    /// The error of packing everything at first, if it failed.
    pub error: Option<PackingError>,
    /// The pods that were left out for it, not those that were from the start.
    pub left_out: Vec<LeftOut>,
}

/// Classes, by index, that are looked at together, with the error of packing with them.
type Block = (Vec<usize>, Option<PackingError>);

/// Stage of the search: the attempt that is being made.
#[derive(Debug)]
enum Stage {
    /// Everything, by the pools' own policies.
    Whole,
    /// Everything, by `fewest-nodes`.
    FewestNodes,
    /// A part of the classes beside those that are kept.
    Part(Block),
    /// The classes that are kept, by the pools' own policies.
    Kept,
}

/// The search for what breaks a packing.
#[derive(Debug)]
pub struct Isolation {
    whole: Arc<Problem>,
    options: Options,
    /// Pods that are left out from the start, with the error of each.
    known: BTreeMap<usize, PackingError>,
    stage: Stage,
    /// Pods by class; the plainest class is the first, so that the less plain of two that do not go together is left out.
    classes: Vec<Vec<usize>>,
    /// The problem without its pods.
    rest: Problem,
    waiting: VecDeque<Block>,
    kept: Vec<usize>,
    /// Pods of the latest question, by index in the whole problem.
    chosen: Vec<usize>,
    /// The latest packing of what is kept.
    best: Packing,
    error: Option<PackingError>,
    left_out: Vec<LeftOut>,
    attempts: usize,
    /// The steps of the parts that met their bound.
    lost: u64,
}

impl Isolation {
    /// Begins with everything but the pods for which `known` returns an error: those packing has failed with before.
    pub fn new(whole: Arc<Problem>, options: Options, known: impl Fn(&Pod) -> Option<PackingError>) -> Self {
        let known = whole.pods.iter().enumerate().filter_map(|(at, pod)| Some((at, known(pod)?))).collect();
        let mut one = Self {
            whole,
            options,
            known,
            stage: Stage::Whole,
            classes: vec![],
            rest: Problem::default(),
            waiting: VecDeque::new(),
            kept: vec![],
            chosen: vec![],
            best: Packing::default(),
            error: None,
            left_out: vec![],
            attempts: 0,
            lost: 0,
        };
        if !one.known.is_empty() {
            one.prepare();
        }
        one
    }

    /// The next problem to be solved.
    pub fn asked(&mut self) -> Asked {
        if matches!(self.stage, Stage::Whole) && self.known.is_empty() {
            self.chosen = (0..self.whole.pods.len()).collect();
            return Asked { problem: self.whole.clone(), options: self.options.clone() };
        }
        let classes: Vec<usize> = match &self.stage {
            Stage::Whole | Stage::FewestNodes => (0..self.classes.len()).collect(),
            Stage::Part((part, _)) => self.kept.iter().chain(part).copied().collect(),
            Stage::Kept => self.kept.clone(),
        };
        self.chosen = classes.iter().flat_map(|class| &self.classes[*class]).copied().collect();
        // Packing must not depend on the order in which classes were kept.
        self.chosen.sort_unstable();
        let pods = self.chosen.iter().map(|pod| self.whole.pods[*pod].clone()).collect();
        let mut problem = Problem { pods, ..self.rest.clone() };
        if matches!(self.stage, Stage::FewestNodes | Stage::Part(_)) {
            // The search looks for what breaks packing, not for the price: the plain policy is faster and fails
            // less.
            let by_cost = problem.node_pools.iter_mut().filter(|pool| pool.policy == Policy::Cost);
            by_cost.for_each(|pool| pool.policy = Policy::FewestNodes);
        }
        let mut options = self.options.clone();
        match self.stage {
            Stage::Whole => {}
            Stage::FewestNodes => options.most_steps = Some(self.all_steps() / FEWEST_PART_OF_STEPS),
            Stage::Part(_) => options.most_steps = Some(self.all_steps() / PART_OF_STEPS),
            Stage::Kept => {
                let own = options.most_steps.unwrap_or_else(|| steps::by_size(&problem));
                options.most_steps = Some(own / FEWEST_PART_OF_STEPS);
            }
        }
        Asked { problem: Arc::new(problem), options }
    }

    /// Largest number of steps of a packing of everything.
    fn all_steps(&self) -> u64 {
        self.options.most_steps.unwrap_or_else(|| steps::by_size(&self.whole))
    }

    /// Takes the solver's answer; returns the result, once there is one.
    pub fn answered(&mut self, answer: Result<Packing, PackingError>) -> Option<Isolated> {
        match (std::mem::replace(&mut self.stage, Stage::Kept), answer) {
            (Stage::Part((part, _)), Ok(packing)) => {
                self.best = self.of_whole(packing);
                self.kept.extend(part);
                self.next_part()
            }
            (Stage::Part((part, _)), Err(error)) => {
                if matches!(error, PackingError::Bound { .. }) {
                    self.lost = self.lost.saturating_add(self.all_steps() / PART_OF_STEPS);
                }
                self.fails_with(part, error);
                self.next_part()
            }
            // The packing of the search itself is still good, only dearer.
            (Stage::Kept, Err(_)) => Some(self.end()),
            (_, Ok(packing)) => {
                self.best = self.of_whole(packing);
                Some(self.end())
            }
            (Stage::Whole, Err(error)) => {
                self.prepare();
                self.error = Some(error.clone());
                if self.any_by_cost() {
                    self.stage = Stage::FewestNodes;
                    return None;
                }
                self.fails_with((0..self.classes.len()).collect(), error);
                self.next_part()
            }
            (Stage::FewestNodes, Err(error)) => {
                self.fails_with((0..self.classes.len()).collect(), error);
                self.next_part()
            }
        }
    }

    fn any_by_cost(&self) -> bool {
        self.whole.node_pools.iter().any(|pool| pool.policy == Policy::Cost)
    }

    /// Reads the classes, once.
    fn prepare(&mut self) {
        if !self.classes.is_empty() {
            return;
        }
        self.classes = grouped(&self.whole.pods, |pod| !self.known.contains_key(&pod));
        self.rest = Problem::clone(&self.whole);
        self.rest.pods = vec![];
    }

    /// Packing fails with these classes beside what is kept: one is left out, more are halved.
    fn fails_with(&mut self, mut part: Vec<usize>, error: PackingError) {
        match part.len() {
            0 => {}
            1 => self.leave_out(&part, error, true),
            count => {
                // Both halves wait. The first is the plainer one, and what it keeps stands when the second is
                // tried.
                let second = part.split_off(self.middle(&part, count));
                self.waiting.push_back((part, Some(error.clone())));
                self.waiting.push_back((second, Some(error)));
            }
        }
    }

    /// Place where a part is cut: between two namespaces if it has several, as near to the middle as can be.
    fn middle(&self, part: &[usize], count: usize) -> usize {
        let half = count.div_ceil(2);
        let starts = (1..count).filter(|at| self.namespace(part[at - 1]) != self.namespace(part[*at]));
        starts.min_by_key(|at| at.abs_diff(half)).unwrap_or(half)
    }

    fn namespace(&self, class: usize) -> &str {
        &self.whole.pods[self.classes[class][0]].namespace
    }

    /// Goes on with the next part; ends where there is none, or where enough was tried.
    fn next_part(&mut self) -> Option<Isolated> {
        // Parts that are untried are left out as they are: others must not wait any longer.
        if self.attempts >= MOST_ATTEMPTS || self.lost >= self.all_steps() / PART_OF_STEPS * MOST_STEPS_LOST {
            for (part, error) in std::mem::take(&mut self.waiting) {
                let error = error.or_else(|| self.error.clone());
                error.into_iter().for_each(|error| self.leave_out(&part, error, false));
            }
        }
        if let Some(part) = self.waiting.pop_front() {
            self.attempts += 1;
            self.stage = Stage::Part(part);
            return None;
        }
        if self.kept.is_empty() || !self.any_by_cost() {
            return Some(self.end());
        }
        self.stage = Stage::Kept;
        None
    }

    fn leave_out(&mut self, classes: &[usize], error: PackingError, alone: bool) {
        let pods = classes.iter().flat_map(|class| &self.classes[*class]).copied().collect();
        let of_one_namespace = classes.iter().all(|class| self.namespace(*class) == self.namespace(classes[0]));
        self.left_out.push(LeftOut { pods, error, alone, of_one_namespace });
    }

    /// The packing of the last question as one of the whole problem.
    fn of_whole(&self, mut packing: Packing) -> Packing {
        let restore = |pod: &mut usize| *pod = self.chosen.get(*pod).copied().unwrap_or(*pod);
        packing.claims.iter_mut().flat_map(|claim| &mut claim.pods).for_each(restore);
        packing.on_existing.iter_mut().flat_map(|(_, pods)| pods).for_each(restore);
        packing.unscheduled.iter_mut().for_each(|(pod, _)| restore(pod));
        packing
    }

    fn end(&mut self) -> Isolated {
        let mut packing = std::mem::take(&mut self.best);
        let waits = |pod: &usize| !self.whole.pods[*pod].to_come;
        let reason = |error: &PackingError| Arc::new(Reason::PackingFailed { error: error.to_string() });
        for one in &self.left_out {
            let reason = reason(&one.error);
            let pods = one.pods.iter().copied().filter(waits);
            packing.unscheduled.extend(pods.map(|pod| (pod, Arc::clone(&reason))));
        }
        let known = self.known.iter().filter(|(pod, _)| waits(pod));
        packing.unscheduled.extend(known.map(|(pod, error)| (*pod, reason(error))));
        Isolated { packing, error: self.error.clone(), left_out: std::mem::take(&mut self.left_out) }
    }
}

/// True if two pods are of one class: if packing fails with one of them, it fails with the other. Pods of two namespaces, or of
/// two workloads, are two classes, so that nobody is left out for what others made.
#[must_use]
pub fn alike(a: &Pod, b: &Pod) -> bool {
    a.namespace == b.namespace && equal(a, b, false) && labels_of_all(a).eq(labels_of_all(b))
}

/// A pod's labels but those that each pod of a workload has for itself.
fn labels_of_all(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.labels.iter().filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()))
}

/// The pods chosen by class, the plainest first, then the oldest.
fn grouped(pods: &[Pod], chosen: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let mut by_hash: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for at in (0..pods.len()).filter(|at| chosen(*at)) {
        let known = by_hash.entry(hash(&pods[at], false)).or_default();
        match known.iter().find(|class| alike(&pods[classes[**class][0]], &pods[at])) {
            Some(class) => classes[*class].push(at),
            None => {
                known.push(classes.len());
                classes.push(vec![at]);
            }
        }
    }
    // Age of a pod: the one created last is the likelier to be new.
    let age = |pod: &Pod| (pod.created, pod.namespace.clone(), pod.name.clone());
    // Classes of a namespace stand together, those of plain ones first: the namespace with the most rules is the likeliest
    // cause.
    let mut of_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for class in &classes {
        let pod = &pods[class[0]];
        *of_namespace.entry(&pod.namespace).or_default() += 1 + rules_of(pod);
    }
    // Plain classes are tried first, so that of two that break each other the one with more rules is left out.
    classes.sort_by_cached_key(|class| {
        let oldest = class.iter().map(|at| age(&pods[*at])).min();
        let pod = &pods[class[0]];
        let namespace = (of_namespace[pod.namespace.as_str()], pod.namespace.clone());
        (namespace, rules_of(pod), oldest, Reverse(class.len()))
    });
    classes
}
