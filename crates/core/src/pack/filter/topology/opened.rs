//! Order of pods that need pod affinity: kube-scheduler binds none of several that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use super::bins::DomainOfKeys;
use super::domains::{Domains, GroupCounts, PodsInBin};
use super::groups::RuleKind;
use crate::pack::model::ids::{ClassId, DomainId, GroupId, KeyId};
use crate::pack::place::planned_node::Share;

/// Domains of a key in which all pods that have to be together can be, by the class that has to be with others.
pub(crate) type Gathering = BTreeMap<ClassId, Vec<(KeyId, BTreeSet<DomainId>)>>;

impl Domains<'_, '_> {
    /// True if all that a class has to be with can be in these domains, where it would be the first of them.
    pub fn gathers(&self, class: ClassId, domain: &DomainOfKeys) -> bool {
        let Some(wanted) = self.gathering.get(&class) else { return true };
        let topology = &self.context.topology;
        let stated = &topology.of_class[class].hard().states;
        let ties =
            |at: &GroupId, key| topology.groups[*at].kind == RuleKind::PodAffinity && topology.key_of(*at) == key;
        let is_first =
            |key: KeyId| !stated.iter().any(|at| ties(at, key) && self.counts[*at].iter().any(|held| held.most > 0));
        let good = |(key, domains): &(KeyId, BTreeSet<DomainId>)| domain[*key].is_some_and(|at| domains.contains(&at));
        wanted.iter().all(|one| good(one) || !is_first(one.0))
    }

    /// Pods on planned nodes, given node by node, that have to be in a domain with others and cannot be bound in any order, as
    /// class and count: the pod affinity that they need comes with pods that need them.
    pub fn unopened(&self, without_node: &[PodsInBin], nodes: &[&[Share]]) -> Vec<(ClassId, u32)> {
        let topology = &self.context.topology;
        // Rules over one kind of domain alone choose pod affinity that is placed already.
        if !topology.of_class.iter().any(|part| part.is_zonal() && !part.pod_affinity.is_empty()) {
            return vec![];
        }
        let (mut counts, mut stating) = self.with_nodes(without_node);
        let mut members: Vec<BTreeSet<GroupId>> = Vec::new();
        let mut waiting: Vec<(usize, Share)> = Vec::new();
        // Everything is taken out of the counts first, and comes back as it could be bound.
        for (node, shares) in nodes.iter().enumerate() {
            members.push(BTreeSet::new());
            for share in *shares {
                self.give_back(share.placed(), &mut counts, &mut stating);
                waiting.push((node, *share));
            }
        }
        loop {
            let before = waiting.len();
            if !self.context.work(before) {
                break;
            }
            // Say b needs a, and a needs c, which is there: the first round binds a, the second b, the third
            // nothing. Had c been missing, neither would have moved.
            waiting.retain(|(node, share)| {
                let opened = self.has_pod_affinity(share, &counts, &members[*node]);
                if opened {
                    self.believe(share.placed(), &mut counts);
                    members[*node].extend(&self.context.node_rules(share.class).member);
                }
                !opened
            });
            // Nothing moves any more: what waits now waits for itself.
            if waiting.len() == before {
                break;
            }
        }
        let waiting = waiting.into_iter().filter(|(_, share)| topology.follows(share.class));
        waiting.map(|(_, share)| (share.class, share.count)).collect()
    }

    /// Pods on planned nodes that are the only pod affinity that they have there, while others of the kind have other nodes:
    /// kube-scheduler lets the first of its kind begin, and these may be bound before.
    pub fn outrun(&self, nodes: &[&[Share]]) -> Vec<(ClassId, u32)> {
        let of_class = &self.context.topology.of_class;
        let on = |shares: &[Share], group: GroupId| -> u32 {
            let members = shares.iter().filter(|share| self.context.node_rules(share.class).is_member(group));
            members.map(|share| share.count).sum()
        };
        let mut everywhere: BTreeMap<GroupId, u32> = BTreeMap::new();
        // Counted when first asked for: few groups are ever looked at.
        let mut total = |group| {
            *everywhere.entry(group).or_insert_with(|| nodes.iter().map(|shares| on(shares, group)).sum::<u32>())
        };
        let mut found = Vec::new();
        for shares in nodes {
            for share in shares.iter().filter(|share| share.count == 1) {
                let own = &self.context.node_rules(share.class).member;
                let mut pod_affinity = of_class[share.class].pod_affinity.iter().filter(|group| own.contains(group));
                if pod_affinity.any(|group| on(shares, *group) == 1 && total(*group) > 1) {
                    found.push((share.class, 1));
                }
            }
        }
        found
    }

    /// True if pods find the pod affinity that they need, or are it themselves.
    fn has_pod_affinity(&self, share: &Share, counts: &GroupCounts, on_node: &BTreeSet<GroupId>) -> bool {
        let topology = &self.context.topology;
        let part = &topology.of_class[share.class];
        let own = &self.context.node_rules(share.class).member;
        let bin = self.context.bins.for_keys(part.keys).get(share.candidate.bin);
        let mut zonal = part.hard().states.iter().filter(|at| topology.is_pod_affinity(**at));
        part.pod_affinity.iter().all(|group| own.contains(group) || on_node.contains(group))
            && zonal.all(|at| {
                let domain = bin.and_then(|bin| bin.domain[topology.key_of(*at)]);
                part.meant.contains(at)
                    || part.is_with_daemon(*at)
                    || domain.is_some_and(|domain| counts[*at][domain].most > 0)
            })
    }
}
