//! Rules that hold only by pods which got no node: these are counted where nobody is.
//!
//! A pod is counted in its bin before it has a node, so that the next one sees it. Say a spread with skew 1 over zones a
//! and b has one pod on a node in a, and one counted in b that no pool can take in the end. With what is counted, a second
//! pod in a is right: two in a, one in b. Once the one in b is gone it is not: kube-scheduler would not bind it. So the pod
//! in a depends on the one in b: that one is held back, and everything is planned anew.

use super::counted::GroupCount;
use super::domains::{Domains, GroupCounts, PodsInBin, RULES_A_STEP, StatingCounts};
use super::groups::RuleKind;
use crate::pack::model::ids::{ClassId, DomainId, GroupId, IndexVec};

impl Domains<'_, '_> {
    /// Pods that have a bin but got no node, or were forgotten since, and on which a hard rule of a pod with a node depends, as
    /// class and count: the rule holds only while they are counted, and kube-scheduler would not bind its pod.
    pub fn depended_on(&self, without_node: &[PodsInBin], forgotten: &[PodsInBin]) -> Vec<(ClassId, u32)> {
        let topology = &self.context.topology;
        if !self.context.work((self.counts.len() + without_node.len() + forgotten.len()) / RULES_A_STEP) {
            return vec![];
        }
        let (real, stating) = self.with_nodes(without_node);
        // Two pictures: all pods that were counted, and those alone that have nodes. A rule that holds in the first
        // and not in the second depends on pods that are nowhere.
        let mut believed = self.counts.clone();
        forgotten.iter().for_each(|one| self.believe(*one, &mut believed));
        let broken = |at: &GroupId| {
            let (believed, real) = (&believed[*at], &real[*at]);
            let mut bound = real.ids().filter(|domain| stating[*at][*domain] > 0);
            // Most groups are the same in both, and need no look at each domain.
            believed != real && bound.any(|domain| self.holds(*at, believed, domain) && !self.holds(*at, real, domain))
        };
        let broken: Vec<GroupId> = topology.groups.ids().filter(broken).collect();
        let pods = without_node.iter().chain(forgotten).filter(|one| self.is_meant(one.class, &broken));
        pods.map(|one| (one.class, one.count)).collect()
    }

    /// Pods on nodes that a hard rule forbids there, as class and count: pods that it means got no node where they were
    /// counted, and chose again when these had theirs.
    pub fn invalidated(
        &self,
        without_node: &[PodsInBin],
        forgotten: &[PodsInBin],
        on_nodes: &[PodsInBin],
    ) -> Vec<(ClassId, u32)> {
        let topology = &self.context.topology;
        let (real, stating) = self.with_nodes(without_node);
        // Only groups of which a pod left its bin can have changed.
        let moved = |at: &GroupId| forgotten.iter().any(|one| self.is_meant(one.class, &[*at]));
        let mut found = Vec::new();
        for at in topology.groups.ids().filter(moved) {
            let counts = &real[at];
            for domain in counts.ids().filter(|domain| stating[at][*domain] > 0) {
                let mut above = self.above(at, counts, domain);
                for PodsInBin { class, bin, count } in on_nodes {
                    let part = &topology.of_class[*class];
                    let bin = self.context.bins.for_keys(part.keys).get(*bin);
                    let there = bin.and_then(|bin| bin.domain[topology.key_of(at)]) == Some(domain);
                    // No more are invalidated than are too many: the rest may stay.
                    if above > 0 && there && part.hard().states.contains(&at) {
                        found.push((*class, above.min(*count)));
                        above -= above.min(*count);
                    }
                }
            }
        }
        found
    }

    /// Pods of each group on nodes by domain, and those of them that state it.
    pub(super) fn with_nodes(&self, without_node: &[PodsInBin]) -> (GroupCounts, StatingCounts) {
        let (mut counts, mut stating) = (self.counts.clone(), self.stating.clone());
        without_node.iter().for_each(|one| self.give_back(*one, &mut counts, &mut stating));
        (counts, stating)
    }

    /// True if pods of a domain that state a group meet its rule.
    fn holds(&self, group: GroupId, counts: &IndexVec<DomainId, GroupCount>, domain: DomainId) -> bool {
        self.above(group, counts, domain) == 0
    }

    /// Number of pods too many in a domain where one states a group: all, where it has not the pod affinity that it needs.
    fn above(&self, group: GroupId, counts: &IndexVec<DomainId, GroupCount>, domain: DomainId) -> u32 {
        match &self.context.topology.groups[group].kind {
            RuleKind::PodAffinity if counts[domain].most == 0 => u32::MAX,
            RuleKind::Spread { skew, .. } => {
                // Say the least is 1 and maxSkew 1: a domain with 4 has two too many.
                let most = self.least(group, counts, domain).saturating_add(*skew);
                counts[domain].most.saturating_sub(most)
            }
            _ => 0,
        }
    }

    fn is_meant(&self, class: ClassId, groups: &[GroupId]) -> bool {
        self.context.topology.of_class[class].meant.iter().any(|at| groups.contains(at))
    }
}
