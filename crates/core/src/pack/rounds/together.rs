//! Nodes for pods that have to be on a node with others.
//!
//! Say b has to be on a node with a, and a states nothing. A node for a alone may have no room for b, so the node is opened
//! with one of each, and then filled: with as many of b as it holds, and with other classes that have to be with somebody.
//! Only then are nodes planned for those that state no pod affinity (`new_nodes`): they would take the places otherwise.

use super::solve::RoundPlan;
use crate::pack::model::ids::{ClassId, GroupId};
use crate::pack::model::reserved::Room;
use crate::pack::place::assign::Together;
use crate::pack::place::planned_node::PlannedNode;

impl RoundPlan<'_, '_> {
    /// Plans nodes for pods that have to be on a node with others; true if there was any.
    pub(in crate::pack) fn plan_together(&mut self, chosen: &[ClassId]) -> bool {
        let context = self.context;
        let pod_affinity = |at: &ClassId| !context.topology.of_class[*at].pod_affinity.is_empty();
        let followers: Vec<ClassId> = chosen.iter().copied().filter(pod_affinity).collect();
        let mut progress = false;
        for at in &followers {
            while let Some(planned) = self.gather(*at, &followers, chosen) {
                let reserved = planned.offering_bits & context.offers.reserved;
                // Admission takes limits and reservations off, so the next one is gathered from what is left.
                if self.admit(planned, 1) {
                    progress = true;
                // A reservation that has nothing left would be chosen again and again.
                } else if reserved != 0 {
                    self.reservations.close(reserved);
                } else {
                    break;
                }
            }
        }
        progress
    }

    /// A node for pods of a class and for those that they have to be with; of reserved capacity if that holds as many.
    fn gather(&self, at: ClassId, followers: &[ClassId], chosen: &[ClassId]) -> Option<PlannedNode> {
        let reserved = self.context.offers.reserved;
        let first = self.gather_in(self.room(), at, followers, chosen);
        if first.as_ref().map_or(reserved == 0, |planned| planned.offering_bits & reserved == 0) {
            return first;
        }
        // Reserved capacity may be of small types only. It is paid for, but tearing a group apart could leave pods
        // over.
        let bought = Room { open: self.room().open & !reserved, ..self.room() };
        let second = self.gather_in(bought, at, followers, chosen);
        let pods = |planned: &Option<PlannedNode>| planned.as_ref().map_or(0, PlannedNode::pods);
        if pods(&second) > pods(&first) { second } else { first }
    }

    fn gather_in(&self, room: Room<'_>, at: ClassId, followers: &[ClassId], chosen: &[ClassId]) -> Option<PlannedNode> {
        let context = self.context;
        if !context.work(chosen.len()) {
            return None;
        }
        let pod_affinity = &context.topology.of_class[at].pod_affinity;
        let together = Together::new(context, room);
        let waiting = |at: ClassId| self.waiting(at).into_iter();
        for own in waiting(at) {
            let others = chosen.iter().filter(|other| **other != at);
            let suits = |other: &&ClassId| {
                let part = &context.topology.of_class[**other];
                part.pod_affinity.is_empty()
                    && pod_affinity.iter().all(|group| context.node_rules(**other).is_member(*group))
            };
            // Those that wait for pod affinity themselves may wait for these.
            let mut first: Vec<&ClassId> = others.filter(suits).collect();
            // Those that stand by themselves come first (`false` before `true`).
            first.sort_by_key(|other| context.topology.follows(**other));
            let first = first.into_iter().flat_map(|other| waiting(*other));
            let mut planned = first.filter_map(|first| together.open(first, Some(own))).next();
            // kube-scheduler lets a pod be the first of its kind where it meets its own affinity and no other is
            // anywhere.
            if planned.is_none() && self.may_be_first(at) {
                planned = together.open(own, None);
            }
            let Some(mut planned) = planned else { continue };
            // The class that the node is opened for fills it first; other followers get what is left of it.
            for follower in std::iter::once(at).chain(followers.iter().copied().filter(|other| *other != at)) {
                waiting(follower).for_each(|follower| together.add(&mut planned, follower));
            }
            return Some(planned);
        }
        None
    }

    /// The first of its kind may be alone, if it is its own pod affinity and there is no other anywhere.
    pub(in crate::pack) fn may_be_first(&self, at: ClassId) -> bool {
        let own = &self.context.node_rules(at).member;
        let there = |group: &GroupId| self.existing.holds(*group) || self.is_placed(*group);
        self.context.topology.of_class[at].pod_affinity.iter().all(|group| own.contains(group) && !there(group))
    }

    /// True if a pod of a group has been placed in this round.
    fn is_placed(&self, group: GroupId) -> bool {
        let context = self.context;
        let placed = |at: ClassId| self.left[at] < context.classes[at].count();
        self.left.ids().any(|at| placed(at) && context.node_rules(at).is_member(group))
    }
}
