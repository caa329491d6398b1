//! Rules whose domain is the node: bounds on the pods of a group that one node may hold.

use smallvec::SmallVec;

use crate::pack::model::ids::{GroupId, NodeRulesId};

impl NodeRulesId {
    /// The empty set of rules.
    pub const NONE: Self = Self::FIRST;
}

impl Default for NodeRulesId {
    fn default() -> Self {
        Self::NONE
    }
}

/// The rules of a class of pods for the nodes it is on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeRules {
    /// Groups with the largest number of their pods that a node with such a pod holds.
    pub caps: SmallVec<[(GroupId, u32); 2]>,
    /// Groups that such a pod counts for, in order.
    pub member: SmallVec<[GroupId; 2]>,
    /// Groups of which the node must hold one already.
    pub needs: SmallVec<[GroupId; 1]>,
}

impl NodeRules {
    /// True if such a pod counts for a group.
    pub fn is_member(&self, group: GroupId) -> bool {
        self.member.binary_search(&group).is_ok()
    }

    /// True if a cap bounds the very pods that have these rules.
    pub fn caps_itself(&self) -> bool {
        self.caps.iter().any(|(group, _)| self.is_member(*group))
    }

    pub fn is_empty(&self) -> bool {
        self.caps.is_empty() && self.member.is_empty() && self.needs.is_empty()
    }
}

/// Number of groups that are compared in one step of work.
const GROUPS_A_STEP: usize = 8;

/// Pods on a node by group, as far as rules ask: group, count and cap. Groups that nothing on the node speaks of are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(SmallVec<[(GroupId, u32, u32); 4]>);

impl Tally {
    fn held_and_cap(&self, group: GroupId) -> (u32, u32) {
        self.0.iter().find(|entry| entry.0 == group).map_or((0, u32::MAX), |entry| (entry.1, entry.2))
    }

    fn slot(&mut self, group: GroupId) -> &mut (GroupId, u32, u32) {
        let at = self.0.iter().position(|entry| entry.0 == group).unwrap_or_else(|| {
            // None held, and no cap yet.
            self.0.push((group, 0, u32::MAX));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Work to compare rules with it, in steps: each group is looked for among those that are there.
    pub fn work(&self, rules: &NodeRules) -> usize {
        1 + (rules.caps.len() + rules.member.len() + rules.needs.len()) * (1 + self.0.len()) / GROUPS_A_STEP
    }

    /// Number of a group's pods here.
    pub fn held(&self, group: GroupId) -> u32 {
        self.held_and_cap(group).0
    }

    /// Number of `wanted` pods that the node may take.
    pub fn allows(&self, rules: &NodeRules, wanted: u32) -> u32 {
        if rules.needs.iter().any(|group| self.held(*group) == 0) { 0 } else { self.opens(rules, wanted) }
    }

    /// Number of `wanted` pods that it may take if they need no other: the first of their group.
    pub fn opens(&self, rules: &NodeRules, wanted: u32) -> u32 {
        let mut count = wanted;
        for (group, cap) in &rules.caps {
            let (held, _) = self.held_and_cap(*group);
            // Say at most 3 of a group may be on a node and 2 are: one more of its own fits. A pod that only keeps
            // the group off fits while no more than its cap are there.
            if rules.is_member(*group) {
                count = count.min(cap.saturating_sub(held));
            } else if held > *cap {
                return 0;
            }
        }
        for group in &rules.member {
            let (held, cap) = self.held_and_cap(*group);
            count = count.min(cap.saturating_sub(held));
        }
        count
    }

    /// Adds `count` pods with these rules.
    pub fn add(&mut self, rules: &NodeRules, count: u32) {
        for (group, cap) in &rules.caps {
            let slot = self.slot(*group);
            // The strictest of all pods on the node counts, and it stays when others are added.
            slot.2 = slot.2.min(*cap);
        }
        for group in &rules.member {
            self.slot(*group).1 += count;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(caps: &[(usize, u32)], member: &[usize]) -> NodeRules {
        let caps = caps.iter().map(|(group, cap)| (GroupId::from(*group), *cap)).collect();
        NodeRules { caps, member: member.iter().copied().map(GroupId::from).collect(), ..NodeRules::default() }
    }

    #[test]
    fn company_has_to_be_there_first() {
        let follower = NodeRules { needs: [GroupId::from(7)].into_iter().collect(), ..NodeRules::default() };
        let mut tally = Tally::default();
        assert_eq!((tally.allows(&follower, 2), tally.opens(&follower, 2)), (0, 2));
        tally.add(&rules(&[], &[7]), 1);
        assert_eq!(tally.allows(&follower, 2), 2);
    }

    #[test]
    fn one_of_a_group_that_keeps_its_distance_is_enough() {
        let own = rules(&[(7, 1)], &[7]);
        let mut tally = Tally::default();
        assert_eq!(tally.allows(&own, 5), 1);
        tally.add(&own, 1);
        assert_eq!(tally.allows(&own, 5), 0);
    }

    #[test]
    fn distance_binds_the_others_too() {
        let (keeper, other) = (rules(&[(7, 0)], &[]), rules(&[], &[7]));
        let mut tally = Tally::default();
        tally.add(&keeper, 3);
        assert_eq!(tally.allows(&other, 1), 0);
        assert_eq!(tally.allows(&keeper, 2), 2);
        let mut tally = Tally::default();
        tally.add(&other, 1);
        assert_eq!(tally.allows(&keeper, 1), 0);
    }
}
