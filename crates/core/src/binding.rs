//! Pods expected on nodes: the binding of plans. When the last pod of a plan is bound, it is known how many each node got.
//! `T` is what a plan carries along, such as the trace that it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster_state::NominationTarget;

/// Plans whose pods are not all bound. A pod waits in one plan at most.
#[derive(Debug)]
pub struct Plans<T> {
    by_target: BTreeMap<NominationTarget, PlanState<T>>,
    /// The plan that each pod waits in: a thousand plans are not looked through for each of their pods.
    by_pod: BTreeMap<String, NominationTarget>,
    /// Plans that were made for no pod.
    empty: BTreeSet<NominationTarget>,
}

impl<T> Default for Plans<T> {
    fn default() -> Self {
        Self { by_target: BTreeMap::new(), by_pod: BTreeMap::new(), empty: BTreeSet::new() }
    }
}

#[derive(Debug)]
struct PlanState<T> {
    waiting: BTreeSet<String>,
    /// Number of pods that each node got: kube-scheduler may put some on others than the plan's.
    bound: BTreeMap<String, usize>,
    carried: T,
}

/// A plan that is over.
#[derive(Debug, PartialEq)]
pub struct BoundPods<T> {
    pub target: NominationTarget,
    /// Number of its pods that each node got.
    pub bound: BTreeMap<String, usize>,
    pub carried: T,
}

/// Consequences of a pod that is bound or gone.
#[derive(Debug, PartialEq)]
pub struct Settled<T> {
    /// The plan that it counts with, if it was planned.
    pub plan: Option<(NominationTarget, T)>,
    /// That plan, if it was the last pod.
    pub over: Option<BoundPods<T>>,
}

impl<T> Default for Settled<T> {
    fn default() -> Self {
        Self { plan: None, over: None }
    }
}

impl<T: Copy> Plans<T> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_target.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// A pod of a plan is bound to a node, which is of that claim, or gone.
    pub fn settle(&mut self, uid: &str, node: Option<&str>, claim: Option<&str>) -> Settled<T> {
        let Some(planned) = self.by_pod.get(uid).cloned() else {
            // One whose plan an earlier leader made, or that found room before it was planned, counts with those for its node.
            if let Some((node, target)) = node.and_then(|node| Some((node, self.plan_of(node, claim)?))) {
                self.count(&target, node);
            }
            return Settled::default();
        };
        let target = node.and_then(|node| self.plan_of(node, claim)).unwrap_or_else(|| planned.clone());
        if target != planned {
            self.swap(uid, &planned, &target);
        }
        if let Some(node) = node {
            self.count(&target, node);
        }
        let Some(plan) = self.by_target.get_mut(&target) else { return Settled::default() };
        if plan.waiting.remove(uid) {
            self.by_pod.remove(uid);
        }
        let (carried, over) = (plan.carried, plan.waiting.is_empty());
        let over = if over { self.finish(&target) } else { None };
        Settled { plan: Some((target, carried)), over }
    }

    /// Pods are planned for a place; those of them that were planned for another are no longer waited for there. Returns the
    /// plans that are over by that.
    pub fn plan(&mut self, target: NominationTarget, pods: &[String], carried: T) -> Vec<BoundPods<T>> {
        let mut left = std::mem::take(&mut self.empty);
        for uid in pods {
            let Some(before) = self.by_pod.insert(uid.clone(), target.clone()) else { continue };
            if let Some(plan) = self.by_target.get_mut(&before) {
                plan.waiting.remove(uid);
            }
            left.insert(before);
        }
        left.remove(&target);
        left.retain(|other| self.by_target.get(other).is_some_and(|plan| plan.waiting.is_empty()));
        let over = left.iter().filter_map(|other| self.finish(other)).collect();
        let new = || PlanState { waiting: BTreeSet::new(), bound: BTreeMap::new(), carried };
        let plan = self.by_target.entry(target.clone()).or_insert_with(new);
        plan.waiting.extend(pods.iter().cloned());
        if plan.waiting.is_empty() {
            self.empty.insert(target);
        }
        over
    }

    /// A plan is over.
    pub fn finish(&mut self, target: &NominationTarget) -> Option<BoundPods<T>> {
        let PlanState { waiting, bound, carried } = self.by_target.remove(target)?;
        for uid in waiting {
            self.by_pod.remove(&uid);
        }
        Some(BoundPods { target: target.clone(), bound, carried })
    }

    fn count(&mut self, target: &NominationTarget, node: &str) {
        if let Some(plan) = self.by_target.get_mut(target) {
            *plan.bound.entry(node.to_owned()).or_default() += 1;
        }
    }

    /// The target whose plan is for a node.
    fn plan_of(&self, node: &str, claim: Option<&str>) -> Option<NominationTarget> {
        let by_claim = claim.map(|claim| NominationTarget::Claim(claim.to_owned()));
        let mut known = by_claim.into_iter().chain([NominationTarget::Node(node.to_owned())]);
        known.find(|target| self.by_target.contains_key(target))
    }

    /// kube-scheduler has put a pod of one plan in the place of another plan's: their pods change plans.
    fn swap(&mut self, uid: &str, from: &NominationTarget, to: &NominationTarget) {
        let Some(other) = self.by_target.get(to).and_then(|plan| plan.waiting.first().cloned()) else { return };
        for (target, leaves, comes) in [(from, uid, other.as_str()), (to, other.as_str(), uid)] {
            if let Some(plan) = self.by_target.get_mut(target) {
                plan.waiting.remove(leaves);
                plan.waiting.insert(comes.to_owned());
                self.by_pod.insert(comes.to_owned(), target.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> NominationTarget {
        NominationTarget::Claim(name.to_owned())
    }

    fn plans(all: &[(&str, &[&str])]) -> Plans<()> {
        let mut plans = Plans::default();
        for (name, pods) in all {
            assert!(plan(&mut plans, name, pods).is_empty());
        }
        plans
    }

    fn plan(plans: &mut Plans<()>, name: &str, pods: &[&str]) -> Vec<NominationTarget> {
        let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        plans.plan(claim(name), &pods, ()).into_iter().map(|over| over.target).collect()
    }

    fn bind(plans: &mut Plans<()>, uid: &str, claim: &str) -> Option<(NominationTarget, Vec<(String, usize)>)> {
        let node = format!("node-{claim}");
        let over = plans.settle(uid, Some(&node), Some(claim)).over?;
        Some((over.target, over.bound.into_iter().collect()))
    }

    #[test]
    fn a_plan_is_over_with_its_last_pod_bound_or_gone() {
        let mut plans = plans(&[("a", &["1", "2", "3"])]);
        assert_eq!((bind(&mut plans, "1", "a"), plans.settle("2", None, None).over), (None, None));
        assert_eq!(bind(&mut plans, "3", "a"), Some((claim("a"), vec![("node-a".to_owned(), 2)])));
        assert_eq!((plans.len(), bind(&mut plans, "4", "a")), (0, None));
    }

    #[test]
    fn pods_that_kube_scheduler_swaps_change_plans() {
        let mut plans = plans(&[("a", &["1"]), ("b", &["2"])]);
        assert_eq!(bind(&mut plans, "1", "b"), Some((claim("b"), vec![("node-b".to_owned(), 1)])));
        assert_eq!(bind(&mut plans, "2", "a"), Some((claim("a"), vec![("node-a".to_owned(), 1)])));
    }

    #[test]
    fn pods_planned_elsewhere_end_a_plan_and_unplanned_ones_count() {
        let mut plans = plans(&[("a", &["1", "2"])]);
        assert_eq!(plans.settle("unplanned", Some("n"), Some("a")), Settled::default());
        assert!(plan(&mut plans, "b", &["2"]).is_empty());
        assert_eq!(plan(&mut plans, "b", &["1"]), [claim("a")], "nobody is waited for there");
        assert_eq!(plans.len(), 1);
    }

    #[test]
    fn pod_is_known_by_the_one_plan_that_waits_for_it() {
        let mut plans = plans(&[("a", &["1", "2"]), ("b", &["3"])]);
        let holds = |plans: &Plans<()>| {
            let of = |(target, plan): (&NominationTarget, &PlanState<()>)| {
                plan.waiting.iter().map(|uid| (uid.clone(), target.clone())).collect::<Vec<_>>()
            };
            assert_eq!(plans.by_target.iter().flat_map(of).collect::<BTreeMap<_, _>>(), plans.by_pod);
        };
        holds(&plans);
        // kube-scheduler swaps 1 and 3; then 2 is planned elsewhere, and a Node's plan ends with its Node.
        assert_eq!(bind(&mut plans, "1", "b").map(|over| over.0), Some(claim("b")));
        holds(&plans);
        assert!(plan(&mut plans, "c", &["2", "4"]).is_empty());
        holds(&plans);
        assert_eq!(plans.finish(&claim("c")).map(|over| over.target), Some(claim("c")));
        holds(&plans);
        assert_eq!(plans.settle("2", None, None), Settled::default());
        assert_eq!(plans.settle("3", None, None).over.map(|over| over.target), Some(claim("a")));
        assert!(plans.is_empty() && plans.by_pod.is_empty());
    }

    #[test]
    fn plan_for_no_pod_is_over_with_the_next_plan() {
        let mut plans = plans(&[("a", &[])]);
        assert_eq!((plans.len(), plan(&mut plans, "b", &["1"])), (1, vec![claim("a")]));
        assert!(plan(&mut plans, "b", &[]).is_empty() && plan(&mut plans, "c", &["2"]).is_empty());
        assert_eq!(plans.len(), 2);
    }
}
