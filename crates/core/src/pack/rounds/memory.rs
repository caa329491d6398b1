//! Lessons of one plan for the next: pods that are not to be counted on, places where a pool gives less than was believed, and
//! the urgent that were passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::solve::RoundPlan;
use crate::pack::filter::topology::domains::PodsInBin;
use crate::pack::limits::LimitsLeft;
use crate::pack::model::classes::Class;
use crate::pack::model::ids::{BinId, ClassId, DomainId, GroupId, IndexVec, NodeId, PoolId};
use crate::pack::place::existing::Existing;
use crate::pack::place::planned_node::{Candidate, PlannedNode, Share};

/// Findings of earlier rounds.
#[derive(Debug, Clone, Default)]
pub(in crate::pack) struct RoundMemory {
    /// Number of pods of each class that get no place.
    pub held_back: IndexVec<ClassId, u32>,
    /// True if these join no planned nodes either: most that mislead others do so only where they would have a node of their
    /// own.
    pub strictly: bool,
    /// Weight of the pool that a class got in a bin, where a heavier one was believed to take it.
    pub lighter: BTreeMap<(ClassId, BinId), i32>,
    /// Domains that a spread counts though its pods could not have them, by group and place among the values: nodes planned
    /// for others are there.
    pub counted: BTreeSet<(GroupId, DomainId)>,
}

impl RoundPlan<'_, '_> {
    /// The pods that have a bin but no node, as far as others depend on them, as class and count.
    pub(in crate::pack) fn depended_on(&self) -> Vec<(ClassId, u32)> {
        let waiting = self.without_node();
        if waiting.is_empty() && self.forgotten.is_empty() {
            return vec![];
        }
        // By class only: which of several equal pods it was does not matter.
        let by_class = summed(self.domains.depended_on(&waiting, &self.forgotten));
        // Those that were forgotten may have found a place since.
        let left = by_class.into_iter().map(|(class, count)| (class, count.min(self.left[class])));
        left.filter(|(_, count)| *count > 0).collect()
    }

    /// The pods that a rule forbids where they have their nodes, since pods that it means were moved, as class and count.
    pub(in crate::pack) fn invalidated(&self) -> Vec<(ClassId, u32)> {
        if self.forgotten.is_empty() {
            return vec![];
        }
        if !self.context.work(self.planned_nodes.len() + self.forgotten.len()) {
            return vec![];
        }
        // A rule can only have become broken where a pod that it means has left its bin.
        let shares = self.planned_nodes.iter().flat_map(|planned| &planned.shares);
        let on_nodes: Vec<PodsInBin> = shares.map(Share::placed).collect();
        summed(self.domains.invalidated(&self.without_node(), &self.forgotten, &on_nodes)).into_iter().collect()
    }

    /// The pods on planned nodes that have to be beside others and that may not be bound there, as class and count.
    pub(in crate::pack) fn unopened(&self) -> Vec<(ClassId, u32)> {
        if self.context.topology.of_class.iter().all(|part| part.pod_affinity.is_empty()) {
            return vec![];
        }
        if !self.context.work(self.planned_nodes.len()) {
            return vec![];
        }
        let nodes: Vec<&[Share]> = self.planned_nodes.iter().map(|planned| planned.shares.as_slice()).collect();
        let mut found = self.domains.unopened(&self.without_node(), &nodes);
        // Both leave a pod pending on a node that is launched for it: one waits for pods that wait for it, the
        // other may be bound alone before its kind is there.
        found.extend(self.domains.outrun(&nodes));
        summed(found).into_iter().collect()
    }

    /// The bins where a class got a lighter pool than it was believed to, limits having been reached, while another bin
    /// promises a heavier one: by class and bin, the weight that it got.
    pub(in crate::pack) fn lighter_than_believed(&self) -> Vec<((ClassId, BinId), i32)> {
        let context = self.context;
        // The heaviest pool is the first.
        // Only limits make a pool give less than it promised, and only a pool that is not the heaviest is less.
        let light = |planned: &&Rc<PlannedNode>| context.weight(planned.pool) < context.weight(PoolId::FIRST);
        if self.limits.iter().all(LimitsLeft::are_far) || !self.planned_nodes.iter().any(|planned| light(&planned)) {
            return vec![];
        }
        let mut got: BTreeMap<(ClassId, Candidate), i32> = BTreeMap::new();
        for planned in self.planned_nodes.iter().filter(light) {
            let zonal = planned.shares.iter().filter(|share| share.candidate != Candidate::ANYWHERE);
            for share in zonal {
                let least = got.entry((share.class, share.candidate)).or_insert(i32::MAX);
                // Several nodes in one bin may be of several pools: the lightest is what the bin is worth.
                *least = context.weight(planned.pool).min(*least);
            }
        }
        // Promises are those of an empty plan, in which no limit is used up yet.
        let before = RoundPlan::new(context, &self.memory);
        let mut found = Vec::new();
        for ((class, candidate), weight) in got {
            let chances = before.feasible_places(class, candidate.tier);
            let heavier =
                |own: bool| chances.iter().any(|one| (one.bin == candidate.bin) == own && one.weight > weight);
            // Its own bin promised more, and so does another: only then is there anything to choose differently.
            if heavier(true) && heavier(false) {
                found.push(((class, candidate.bin), weight));
            }
        }
        found
    }

    /// The domains that spreads have to count although their pods can never have them, since nodes are planned there for others:
    /// kube-scheduler counts those nodes, as far as the spread's policies say, and would not bind what is planned beside.
    pub(in crate::pack) fn counted_for_others(&self) -> BTreeSet<(GroupId, DomainId)> {
        let mut found = BTreeSet::new();
        for group in self.domains.with_domains_left_out() {
            for planned in self.planned_nodes.iter().take_while(|_| self.context.work(1)) {
                let domain = self.domains.domain_of(group, planned).filter(|at| !self.domains.counts(group, *at));
                if let Some(domain) = domain.filter(|_| self.domains.counts_node(group, planned)) {
                    found.insert((group, domain));
                }
            }
        }
        found
    }

    /// True if a pod is left over while a less urgent one has a place, which limits or reservations may have caused.
    pub(in crate::pack) fn passed_over_the_urgent(&self) -> bool {
        // Limits that are far and reservations that are not short never make new nodes scarce: only existing ones are.
        let far = !self.limits.is_empty() && self.limits.iter().all(LimitsLeft::are_far);
        if far && !self.reservations.are_short() {
            return self.nodes_took_less_urgent();
        }
        let classes = self.context.classes.iter().zip(&self.left).filter(|(class, _)| class.can_be_placed());
        let priority = |class: &Class| class.example(self.context.problem).priority;
        let waiting = classes.clone().filter(|(_, left)| **left > 0).map(|(class, _)| priority(class)).max();
        let placed = classes.filter(|(class, left)| **left < class.count());
        waiting > placed.map(|(class, _)| priority(class)).min() && waiting.is_some()
    }

    /// True if a pod is left over that could be on an existing node if less urgent ones were not there.
    fn nodes_took_less_urgent(&self) -> bool {
        let (context, problem) = (self.context, self.context.problem);
        let of = |class: &Class| class.example(problem).priority;
        let mut waiting = context.classes.enumerate().filter(|(at, class)| class.can_be_placed() && self.left[*at] > 0);
        let Some(most) = waiting.clone().map(|(_, class)| of(class)).max() else { return false };
        let least = |pods: &Vec<usize>| pods.iter().map(|pod| problem.pods[*pod].priority).min();
        let taken = self.on_existing.iter().filter_map(|(node, pods)| Some((*node, least(pods)?)));
        let taken: BTreeMap<NodeId, i32> = taken.filter(|(_, least)| *least < most).collect();
        if taken.is_empty() {
            return false;
        }
        // The nodes are read anew, without what this plan put on them: the urgent would have come first.
        let empty = Existing::from_context(context);
        waiting.any(|(at, class)| {
            empty.may_hold(context, at, |node| taken.get(&node).is_some_and(|least| *least < of(class)))
        })
    }

    fn without_node(&self) -> Vec<PodsInBin> {
        let waiting = self.pinned.iter().filter(|(_, count)| **count > 0);
        waiting
            .map(|((class, candidate), count)| PodsInBin { class: *class, bin: candidate.bin, count: *count })
            .collect()
    }
}

fn summed(counts: Vec<(ClassId, u32)>) -> BTreeMap<ClassId, u32> {
    let mut by_class = BTreeMap::new();
    counts.into_iter().for_each(|(class, count)| *by_class.entry(class).or_insert(0) += count);
    by_class
}
