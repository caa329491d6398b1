//! The DaemonSets that count, in their order, and those of which a node has one only. It is one rule for nodes to come (`reach`)
//! and for nodes that are there (the cluster's state).
//!
//! All of it is bounded by the number of DaemonSets and of their rules: nobody's packing is left out for it.

use std::collections::BTreeSet;

use super::reach::DaemonLeftOut;
use super::rules::{DaemonClashes, hopeless_distance};
use crate::daemons::{MOST_DAEMON_SETS, in_order};
use crate::pack::filter::alternatives;
use crate::pack::filter::soft::rules_of;
use crate::pack::filter::topology::groups::has_anti_affinity;
use crate::pack::rounds::steps::anti_affinity_size;
use crate::pod::Pod;
use crate::problem::Problem;

/// Largest number of rules of DaemonSets that are read in all, as terms, ports and what terms say; those that would need more
/// do not count. As many are compared with the pods that wait.
const MOST_RULES: usize = 4096;
/// Number of rules that are compared with a pod in one step of work.
const RULES_A_STEP: usize = 8;

/// The DaemonSets that count.
#[derive(Debug, Default)]
pub(crate) struct DaemonOrder {
    /// By index among the problem's, in the order in which they count.
    pub counted: Vec<usize>,
    /// Those that count nowhere.
    pub left_out: Vec<DaemonLeftOut>,
    clashes: DaemonClashes,
}

impl DaemonOrder {
    /// Reads the DaemonSets of a problem; `spend` takes steps before they are needed, and ends it where there are none left.
    pub fn from_problem(problem: &Problem, spend: impl Fn(usize) -> bool) -> Self {
        let mut all = Self::default();
        let (mut rules, mut compared) = (0, 0);
        let mut pods: Option<Vec<&Pod>> = None;
        for daemon in in_order(&problem.daemon_pods) {
            let pod = &problem.daemon_pods[daemon];
            let own = rules_of(pod) + anti_affinity_size(problem, pod);
            let own = own.saturating_add(alternatives::work(pod));
            let wary = has_anti_affinity(pod);
            let too_many = all.counted.len() >= MOST_DAEMON_SETS || own > MOST_RULES - rules;
            let why = if too_many || (wary && own > MOST_RULES - compared) {
                Some(format!("only {MOST_DAEMON_SETS} DaemonSets with {MOST_RULES} rules count"))
            } else if wary {
                let pods = pods.get_or_insert_with(|| distinct_kinds(&problem.pods));
                if !spend(1 + own.saturating_mul(pods.len()) / RULES_A_STEP) {
                    break;
                }
                compared += own;
                hopeless_distance(problem, pods, pod)
            } else {
                None
            };
            match why {
                Some(why) => all.left_out.push(DaemonLeftOut { daemon, pool: None, why }),
                None => {
                    rules += own;
                    all.counted.push(daemon);
                }
            }
        }
        all.clashes = DaemonClashes::between(problem, &all.counted);
        all
    }

    /// True if two DaemonSets, by index, exclude each other.
    pub fn exclude(&self, one: usize, other: usize) -> bool {
        self.clashes.exclude(one, other)
    }
}

/// One pod of each kind that anti-affinity tells apart: by namespace and labels.
fn distinct_kinds(pods: &[Pod]) -> Vec<&Pod> {
    let mut known = BTreeSet::new();
    pods.iter().filter(|pod| known.insert((&pod.namespace, &pod.labels))).collect()
}
