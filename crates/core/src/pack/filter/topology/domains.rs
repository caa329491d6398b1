//! Rules over zones and other labels: each pod that one speaks of gets its domain before nodes are planned.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::bins::{Bin, DomainOfKeys, labels_of};
use super::counted::{Counted, Counting, GroupCount};
use super::groups::{Group, Reader, RuleKind};
use super::opened::Gathering;
use super::reach;
use crate::labels::stable;
use crate::pack::filter::taints::Tolerated;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BinId, ClassId, DomainId, GroupId, IndexVec, NodeId, TierId};
use crate::pack::model::numbers::len_of;
use crate::pack::place::existing::satisfies;
use crate::problem::ExistingNode;

/// A bin in which a pod could get a new node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    pub bin: BinId,
    /// The weight of the pool that would give the node.
    pub weight: i32,
    /// Price of the cheapest node that holds the pod, in dollars an hour.
    pub price: f64,
}

/// Number of rules of a bin that are compared in one step of work.
pub(super) const RULES_A_STEP: usize = 4;

/// A number of pods of a class in one of its bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodsInBin {
    pub class: ClassId,
    pub bin: BinId,
    pub count: u32,
}

/// Number of pods of each group by domain.
pub(super) type GroupCounts = IndexVec<GroupId, IndexVec<DomainId, GroupCount>>;
/// Number of pods that state each group, by domain.
pub(super) type StatingCounts = IndexVec<GroupId, IndexVec<DomainId, u32>>;

/// Domains of the pods, as far as rules ask.
pub(crate) struct Domains<'c, 'a> {
    pub(super) context: &'c Context<'a>,
    /// Number of pods of each group by domain.
    pub(super) counts: GroupCounts,
    /// Says which pods on new nodes count.
    counting: Counting<'c, 'a>,
    /// Number of pods that state each group, by domain.
    pub(super) stating: StatingCounts,
    /// Domains of each spread over which its least is taken.
    eligible: IndexVec<GroupId, Vec<DomainId>>,
    nodes: IndexVec<NodeId, DomainOfKeys>,
    /// Domains for pods that have to be with others and are the first of them.
    pub gathering: Gathering,
}

impl<'c, 'a> Domains<'c, 'a> {
    /// The domains of pods before any is placed. A spread counts the domains that its pods could have, and those given, by
    /// group.
    pub fn new(context: &'c Context<'a>, counted: &BTreeSet<(GroupId, DomainId)>) -> Self {
        let topology = &context.topology;
        let zonal = |at: GroupId| !topology.groups[at].by_node();
        // Rules by node have no domains here: the tally of each node counts for them.
        let size = |at: GroupId| if zonal(at) { context.bins.values[topology.key_of(at)].len() } else { 0 };
        let counts = topology.groups.ids().map(|at| IndexVec::from_elem(GroupCount::default(), size(at))).collect();
        let stating = topology.groups.ids().map(|at| IndexVec::from_elem(0, size(at))).collect();
        let nodes = match topology.keys.is_empty() {
            true => IndexVec::new(),
            false => context.problem.existing_nodes.iter().map(|node| context.bins.of_node(topology, node)).collect(),
        };
        let mut domains = Self {
            context,
            counts,
            counting: Counting::new(context),
            stating,
            eligible: IndexVec::new(),
            nodes,
            gathering: Gathering::new(),
        };
        let stating = reach::stating(context);
        let eligible = |(at, classes): (GroupId, &Vec<ClassId>)| {
            let mut all = domains.eligible_of(at, classes);
            // Domains that an earlier round found nodes in, planned for others: kube-scheduler will count those
            // nodes.
            all.extend(counted.range((at, DomainId::FIRST)..=(at, DomainId::LAST)).map(|(_, domain)| *domain));
            all.into_iter().collect()
        };
        domains.eligible = stating.enumerate().map(eligible).collect();
        // After the eligible domains, as counting needs none of them and they need no counts.
        for at in domains.nodes.ids() {
            domains.count_bound(at);
            domains.count_to_come(at);
        }
        domains
    }

    /// The domains that count for a spread: those in which a node is that counts, and those in which a pool can make one that
    /// its pods could be on.
    fn eligible_of(&self, group: GroupId, classes: &[ClassId]) -> BTreeSet<DomainId> {
        let context = self.context;
        let of = &context.topology.groups[group];
        if of.by_node() || !matches!(of.kind, RuleKind::Spread { .. }) {
            return BTreeSet::new();
        }
        let key = context.topology.key_of(group);
        let nodes = context.problem.existing_nodes.iter().zip(&self.nodes);
        let there = nodes.filter(|(node, _)| counts_on(of, node)).filter_map(|(_, domain)| domain[key]);
        let mut all = reach::reached(context, group, classes);
        all.extend(there);
        all
    }

    /// The zonal spreads that a pod with a node or a bin requires, and that leave out some domain.
    pub fn with_domains_left_out(&self) -> Vec<GroupId> {
        let topology = &self.context.topology;
        let left_out = |at: &GroupId| {
            let group = &topology.groups[*at];
            matches!(group.kind, RuleKind::Spread { .. })
                && !group.by_node()
                && self.eligible[*at].len() < self.context.bins.values[topology.key_of(*at)].len()
                && self.is_stated(*at)
        };
        topology.groups.ids().filter(left_out).collect()
    }

    pub fn counts(&self, group: GroupId, domain: DomainId) -> bool {
        self.eligible[group].contains(&domain)
    }

    /// Counts pods of DaemonSets that a node on its way will have, as far as any pod has to be with them.
    fn count_to_come(&mut self, at: NodeId) {
        let (context, node) = (self.context, &self.context.problem.existing_nodes[at]);
        for (_, pod_affinity) in context.names.daemon_affinities().filter(|_| !node.initialized) {
            let rule = context.topology.groups.id_of(&pod_affinity.group).filter(|_| !pod_affinity.group.by_node());
            let Some(rule) = rule.filter(|_| pod_affinity.comes_to(context.problem, node, &labels_of(node))) else {
                continue;
            };
            if let Some(domain) = self.nodes[at][context.topology.key_of(rule)] {
                self.counts[rule][domain].add(Counted::Surely, 1);
            }
        }
    }

    fn count_bound(&mut self, at: NodeId) {
        let topology = &self.context.topology;
        let (node, domain) = (&self.context.problem.existing_nodes[at], &self.nodes[at]);
        let reader = Reader::new(self.context.problem);
        let of = |at: GroupId| (!topology.groups[at].by_node()).then(|| domain[topology.key_of(at)]).flatten();
        for pod in node.pods.iter().take_while(|_| self.context.work(1)) {
            for at in topology.meaning(pod) {
                // A pod may be meant and not count: a spread leaves out nodes that its own pods could not be on.
                let Some(domain) = of(at).filter(|_| counts_on(&topology.groups[at], node)) else { continue };
                self.counts[at][domain].add(Counted::Surely, 1);
            }
            let kept = reader.kept_by_bound(pod);
            let kept: BTreeSet<GroupId> = kept.iter().filter_map(|group| topology.groups.id_of(group)).collect();
            for at in kept {
                if let Some(domain) = of(at) {
                    self.stating[at][domain] += 1;
                }
            }
        }
    }

    /// True if an alternative's rules allow a pod of a class in these domains, on a new node or one that is there.
    pub(super) fn allows(&self, class: ClassId, tier: TierId, domain: &DomainOfKeys, new: bool) -> bool {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        let stated = part.tier(tier).states.iter().all(|at| {
            let group = &topology.groups[*at];
            let counts = &self.counts[*at];
            // Without the label there is no domain: nothing keeps pods apart there, and nothing brings them
            // together.
            let Some(domain) = domain[topology.key_of(*at)] else { return group.kind == RuleKind::PodAntiAffinity };
            let held = counts[domain].most;
            match &group.kind {
                RuleKind::Spread { skew, .. } => {
                    let most = self.least(*at, counts, domain).saturating_add(*skew);
                    // Say maxSkew is 1 and zones a, b and c hold 2, 1 and 1. A pod in a would make 3, which is more
                    // than 1 + 1; in b it makes 2, which is not. A pod that is not counted itself adds nothing.
                    held + u32::from(part.meant.contains(at)) <= most
                }
                RuleKind::PodAffinity if new && part.is_with_daemon(*at) => true,
                RuleKind::PodAffinity => {
                    held > 0 || (part.meant.contains(at) && counts.iter().all(|held| held.most == 0))
                }
                RuleKind::PodAntiAffinity => held == 0,
                RuleKind::Port(_) => true,
            }
        });
        stated
            && part.meant.iter().all(|at| {
                // Anti-affinity binds both ways: pods that are there may keep this one out.
                topology.groups[*at].kind != RuleKind::PodAntiAffinity
                    || domain[topology.key_of(*at)].is_none_or(|domain| self.stating[*at][domain] == 0)
            })
    }

    /// Number of a spread's pods in the domain that has the fewest, at worst for `of`: it may have all that may count, and the
    /// others only those that do.
    pub(super) fn least(&self, group: GroupId, counts: &IndexVec<DomainId, GroupCount>, of: DomainId) -> u32 {
        let RuleKind::Spread { domains, .. } = &self.context.topology.groups[group].kind else { return 0 };
        let eligible = &self.eligible[group];
        // `minDomains`: with fewer domains than that the least counts as none.
        match eligible.len() < len_of(*domains) {
            true => 0,
            false => {
                // The domain itself is counted as it is at most, the others as they are for sure: so the skew holds
                // whichever pods count in the end.
                let held = |at: &DomainId| (counts[*at], *at == of);
                let least = eligible.iter().map(held).map(|(held, own)| if own { held.most } else { held.sure }).min();
                least.unwrap_or(0)
            }
        }
    }

    /// Counts a pod. Only hard rules bind others, and the last alternative has given up all soft ones.
    fn record(
        &mut self,
        class: ClassId,
        domain: &DomainOfKeys,
        counted: impl Fn(&Counting<'c, 'a>, GroupId) -> Counted,
    ) {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        let hard = &part.hard().states;
        for at in &part.meant {
            if let Some(domain) = domain[topology.key_of(*at)] {
                self.counts[*at][domain].add(counted(&self.counting, *at), 1);
            }
        }
        for at in hard {
            if let Some(domain) = domain[topology.key_of(*at)] {
                self.stating[*at][domain] += 1;
            }
        }
    }

    /// Forgets a pod of a class for which a bin was chosen, and which got no node there.
    pub fn forget(&mut self, class: ClassId, bin: BinId) {
        // Taken out for the time being, as the counts change while the rest of `self` is read.
        let (mut counts, mut stating) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.stating));
        self.give_back(PodsInBin { class, bin, count: 1 }, &mut counts, &mut stating);
        (self.counts, self.stating) = (counts, stating);
    }

    /// Adds pods in a bin to the counts.
    pub(super) fn believe(&self, PodsInBin { class, bin, count }: PodsInBin, counts: &mut GroupCounts) {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        let Some(Bin { domain, .. }) = self.context.bins.for_keys(part.keys).get(bin) else { return };
        for at in &part.meant {
            if let Some(domain) = domain[topology.key_of(*at)] {
                counts[*at][domain].add(self.counting.counted(class, bin, *at), count);
            }
        }
    }

    /// Takes `count` pods of a class, recorded in a bin, out of the counts.
    pub(super) fn give_back(&self, placed: PodsInBin, counts: &mut GroupCounts, stating: &mut StatingCounts) {
        let PodsInBin { class, bin, count } = placed;
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        let Some(Bin { domain, .. }) = self.context.bins.for_keys(part.keys).get(bin) else { return };
        for at in &part.meant {
            if let Some(domain) = domain[topology.key_of(*at)] {
                counts[*at][domain].subtract(self.counting.counted(class, bin, *at), count);
            }
        }
        for at in &part.hard().states {
            if let Some(domain) = domain[topology.key_of(*at)] {
                let stating = &mut stating[*at][domain];
                // Never below none: a pod that was counted in fewer domains is taken out of fewer.
                *stating = stating.saturating_sub(count);
            }
        }
    }

    /// Puts one pod of a class into an existing node's domains, if it may be there.
    pub fn add_to_node(&mut self, class: ClassId, tier: TierId, node: NodeId) -> bool {
        let gathers = self.gathers(class, &self.nodes[node]);
        let good = gathers && self.context.work(1) && self.allows(class, tier, &self.nodes[node], false);
        if good {
            let (domain, there) = (self.nodes[node].clone(), &self.context.problem.existing_nodes[node]);
            let groups = &self.context.topology.groups;
            let counted = |at: GroupId| counts_on(&groups[at], there);
            self.record(class, &domain, |_, at| if counted(at) { Counted::Surely } else { Counted::Never });
        }
        good
    }

    /// The best bin for one pod of those in which it could get a node: that of the heaviest pool (spec core 3.4), then the one
    /// with the fewest that a spread counts with it, then one where its like were put before, as a node there may hold both,
    /// then the cheapest.
    pub fn best(
        &self,
        class: ClassId,
        tier: TierId,
        feasible: &[Chance],
        chosen: impl Fn(BinId) -> bool,
    ) -> Option<Chance> {
        let context = self.context;
        let (part, groups) = (&context.topology.of_class[class], &context.topology.groups);
        let rules = part.tier(tier).states.len() + part.meant.len();
        if !context.work(1 + feasible.len() * (1 + rules) / RULES_A_STEP) {
            return None;
        }
        let bins = context.bins.for_keys(part.keys);
        // A spread that does not count the pod itself is no more even for where it goes.
        // Those that it states, then those that mean it: others are counted against it as well.
        let own = part.tier(tier).states.iter().filter(|at| part.meant.contains(at)).chain(&part.meant);
        let own: SmallVec<[GroupId; 4]> =
            own.copied().filter(|at| matches!(groups[*at].kind, RuleKind::Spread { .. })).collect();
        let crowd = |bin: BinId| -> u32 {
            let domain = &bins[bin].domain;
            let held =
                |at: &GroupId| domain[context.topology.key_of(*at)].map_or(0, |domain| self.counts[*at][domain].most);
            own.iter().map(held).sum()
        };
        let open = feasible.iter().filter(|one| self.allows(class, tier, &bins[one.bin].domain, true));
        // As a key: the heaviest pool, then the emptiest domain, then a bin that was chosen before (`false` first).
        let open = open.map(|one| ((Reverse(one.weight), crowd(one.bin), !chosen(one.bin)), one));
        let best = open.min_by(|(a, one), (b, other)| {
            // The price last. By price first all pods would go to the cheapest zone until the skew forbids it, and
            // the nodes there would hold whatever comes first.
            a.cmp(b).then(one.price.total_cmp(&other.price)).then(one.bin.cmp(&other.bin))
        });
        best.map(|(_, one)| *one)
    }

    /// True if any pod that has a node or a bin requires the rule of a group.
    pub fn is_stated(&self, group: GroupId) -> bool {
        self.stating[group].iter().any(|count| *count > 0)
    }

    /// Number of pods of a group, at most, in the domain of a bin that a class could have.
    pub fn held_in(&self, group: GroupId, class: ClassId, bin: BinId) -> u32 {
        let topology = &self.context.topology;
        let bin = self.context.bins.for_keys(topology.of_class[class].keys).get(bin);
        let domain = bin.and_then(|bin| bin.domain[topology.key_of(group)]);
        domain.map_or(0, |domain| self.counts[group][domain].most)
    }

    /// Counts one pod of a class in one of its bins.
    pub fn put(&mut self, class: ClassId, bin: BinId) {
        let context = self.context;
        let bins = context.bins.for_keys(context.topology.of_class[class].keys);
        self.record(class, &bins[bin].domain, |counting, at| counting.counted(class, bin, at));
    }

    /// The reason why a pod of a class finds no domain.
    pub fn describe(&self, class: ClassId) -> String {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        let stated = part.hard().states.iter().chain(&part.pod_affinity);
        let described = stated.map(|at| {
            let Group { kind, key, .. } = &topology.groups[*at];
            match kind {
                RuleKind::Spread { skew, .. } => format!("topology spread over {key} with maxSkew {skew}"),
                RuleKind::PodAffinity => format!("required pod affinity by {key}, which finds no pod to join"),
                _ => format!("required pod anti-affinity by {key}"),
            }
        });
        let described: Vec<String> = described.collect();
        match described.is_empty() {
            true => "other pods' required anti-affinity leaves it no domain".to_owned(),
            false => format!("no domain is left by {}", described.join(" and ")),
        }
    }
}

/// True if a pod on this node counts for a rule.
pub(super) fn counts_on(group: &Group, node: &ExistingNode) -> bool {
    let RuleKind::Spread { nodes, tolerated, labels, .. } = &group.kind else { return true };
    let wanted = || {
        let own = labels_of(node);
        nodes.iter().any(|one| satisfies(&own, one))
    };
    (nodes.is_empty() || wanted())
        && labels.iter().all(|label| node.labels.keys().any(|own| stable(own) == label))
        && tolerated.as_ref().is_none_or(|all| Tolerated::cover(all, &node.taints))
}
