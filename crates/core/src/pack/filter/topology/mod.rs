//! Rules between pods: spread, affinity, anti-affinity and host ports.
//!
//! Zonal rules are those over zones or other labels, and not node by node. Those whose domain is the node become rules for what one node may hold ([`node_rules`]). Those over zones or other
//! labels are decided before nodes are planned ([`domains`]): each pod they speak of gets its domain, and planning then
//! only sees where it may be. Soft rules are kept in both as long as they leave a way, and given up in the order of
//! [`super::alternatives`]; those over nodes choose among nodes that are there and never open one more, but for a spread that
//! lets a node hold many: it bounds what is lost with one node, and holds on new ones while nothing is left over for it.

pub(crate) mod bins;
mod broken;
mod combinations;
mod counted;
pub(crate) mod domains;
pub(crate) mod groups;
mod index;
pub(crate) mod keys;
mod moves;
pub(crate) mod node_rules;
pub(in crate::pack) mod opened;
mod reach;
pub(crate) mod selector;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::groups::{Group, Groups, Reader, RuleKind, Stated};
use self::index::Index;
use self::keys::{KeyRoom, KeySet, too_many_keys};
use self::node_rules::NodeRules;
use super::alternatives::Alternative;
use crate::pack::model::ids::{ClassId, GroupId, IndexVec, Interned, KeyId, NodeRulesId, TierId};
use crate::pack::rounds::steps::Steps;
use crate::pod::Pod;
use crate::problem::Problem;

/// Smallest skew at which a soft spread over hosts bounds new nodes, as it bounds what is lost with one node; with a smaller
/// one pods would rather be alone, which opens no node.
const MANY: u32 = 10;

/// All rules between pods, and the part of each class in them.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    pub groups: Groups,
    /// Label keys of zonal rules.
    pub keys: Interned<KeyId, String>,
    /// Key of each group, if it is zonal.
    key_of: IndexVec<GroupId, Option<KeyId>>,
    /// Distinct node rules; the first is none at all.
    pub node_rules: Interned<NodeRulesId, NodeRules>,
    /// Part of each class in rules: node rules and zonal ones.
    pub of_class: IndexVec<ClassId, Part>,
    index: Index,
}

/// The part of a class in rules between pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Its hard node rules.
    pub node_rules: NodeRulesId,
    /// The node rules that new nodes are held to: the hard ones, and soft spread that lets a node hold many.
    pub new_node_rules: NodeRulesId,
    /// Groups of which its node must hold a pod, but for those that a DaemonSet's pod is of.
    pub pod_affinity: SmallVec<[GroupId; 1]>,
    /// Groups of pod affinity that its pods find on any new node that they can be on: a DaemonSet's pods.
    with_daemons: SmallVec<[GroupId; 1]>,
    /// Tiers of its alternatives, or one for all where these do not differ in rules.
    tiers: IndexVec<TierId, Tier>,
    /// Zonal rules that mean its pods.
    pub meant: Vec<GroupId>,
    /// The zonal keys that its rules ask for.
    pub keys: KeySet,
    /// Number of its pods that a node may hold, where its hard node rules speak of itself alone.
    pub most_on_a_node: Option<u32>,
}

/// The rules of one alternative of a class, soft ones among them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tier {
    /// Its node rules on nodes that are there.
    pub node_rules: NodeRulesId,
    /// Zonal rules that the alternative states.
    pub states: Vec<GroupId>,
}

static NO_RULES: Tier = Tier { node_rules: NodeRulesId::NONE, states: Vec::new() };

impl Part {
    /// True if its domain has to be decided before planning.
    pub fn is_zonal(&self) -> bool {
        !self.keys.is_empty()
    }

    /// True if a new node that its pods can be on has a DaemonSet's pod that a rule asks for.
    pub fn is_with_daemon(&self, group: GroupId) -> bool {
        self.with_daemons.contains(&group)
    }

    /// The rules of an alternative.
    pub fn tier(&self, alternative: TierId) -> &Tier {
        self.tiers.get(alternative).or(self.tiers.last()).unwrap_or(&NO_RULES)
    }

    /// The rules that bind whatever is given up: the last alternative has given up all soft ones.
    pub fn hard(&self) -> &Tier {
        self.tiers.last().unwrap_or(&NO_RULES)
    }
}

/// True if any rule looks at other pods' labels.
pub(crate) fn labels_matter(problem: &Problem) -> bool {
    problem.pods.iter().any(states_any)
        || problem.existing_nodes.iter().any(|node| node.pods.iter().any(|pod| states_any(pod)))
        || problem.daemon_pods.iter().any(groups::has_anti_affinity)
}

/// True if any soft spread may bound what a new node holds.
pub(crate) fn any_soft_spread(problem: &Problem) -> bool {
    let mut all = problem.pods.iter().flat_map(|pod| &pod.topology_spread_constraints);
    all.any(|spread| {
        spread.when_unsatisfiable == "ScheduleAnyway" && u32::try_from(spread.max_skew).is_ok_and(|skew| skew >= MANY)
    })
}

/// True if a pod states any rule between pods, hard or soft.
pub(crate) fn states_any(pod: &Pod) -> bool {
    !pod.topology_spread_constraints.is_empty()
        || !pod.host_ports.is_empty()
        || pod
            .affinity
            .as_ref()
            .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some())
}

/// The rules of a class as groups, before it is known which of them mean it.
#[derive(Debug, Default)]
struct ClassGroups {
    hard: Vec<GroupId>,
    /// Soft ones kept, by alternative; one entry where all keep the same.
    soft: Vec<Vec<GroupId>>,
    /// Hard ones that DaemonSets' pods meet on every new node that it may be on.
    with_daemons: SmallVec<[GroupId; 1]>,
}

impl ClassGroups {
    /// Number of rules, those of each alternative counted.
    fn work(&self) -> usize {
        let soft: usize = self.soft.iter().map(Vec::len).sum();
        self.hard.len() * self.soft.len().max(1) + soft
    }
}

/// Number of groups that are compared in one step of work.
const GROUPS_A_STEP: usize = 16;

/// Reads the rules of the classes one after the other.
pub(crate) struct Builder<'a> {
    problem: &'a Problem,
    room: KeyRoom<'a>,
    topology: Topology,
    classes: Vec<(&'a Pod, ClassGroups)>,
    /// True if soft spread that lets a node hold many holds on new nodes.
    softly_capped: bool,
}

impl<'a> Builder<'a> {
    pub fn new(problem: &'a Problem, softly_capped: bool) -> Self {
        let mut topology = Topology::default();
        topology.node_rules.insert(NodeRules::default());
        Self { problem, room: KeyRoom::new(problem), topology, classes: vec![], softly_capped }
    }

    /// Takes the next class, by its example; returns the reason if it cannot be placed.
    /// `with_daemons` are those of its rules that DaemonSets' pods meet on every new node that it may be on.
    pub fn add(
        &mut self,
        pod: &'a Pod,
        stated: &Stated,
        alternatives: &[Alternative],
        with_daemons: &[&Group],
    ) -> Option<String> {
        let mut own = ClassGroups::default();
        let mut wrong = None;
        for group in &stated.hard {
            match self.intern(group) {
                Some(at) => {
                    own.hard.push(at);
                    own.with_daemons.extend(with_daemons.contains(&group).then_some(at));
                }
                None if self.room.is_of_nodes(&group.key) => wrong = Some(too_many_keys()),
                // Kept everywhere, as nothing is in a domain of it.
                None if group.kind == RuleKind::PodAntiAffinity => {}
                None => wrong = Some(format!("no node has a label of the topology key {}", group.key)),
            }
        }
        for alternative in alternatives {
            let kept: Vec<GroupId> = stated.kept(alternative.given_up).filter_map(|group| self.intern(group)).collect();
            own.soft.push(kept);
        }
        if own.soft.iter().all(Vec::is_empty) {
            own.soft.truncate(1);
        }
        self.classes.push((pod, own));
        wrong
    }

    fn intern(&mut self, group: &Group) -> Option<GroupId> {
        let topology = &mut self.topology;
        if let Some(known) = topology.groups.id_of(group) {
            return Some(known);
        }
        let mut key = None;
        if !group.by_node() {
            if topology.keys.id_of(&group.key).is_none() && !self.room.has_room(topology.keys.len(), &group.key) {
                return None;
            }
            key = Some(topology.keys.insert(group.key.clone()));
        }
        topology.key_of.push(key);
        Some(topology.groups.insert(group.clone()))
    }

    /// Compiles the rules of all classes; it may end early when the steps are spent.
    pub fn finish(mut self, steps: &Steps) -> Topology {
        let reader = Reader::new(self.problem);
        for pod in self.problem.existing_nodes.iter().flat_map(|node| &node.pods).take_while(|_| steps.spend(1)) {
            for group in reader.kept_by_bound(pod) {
                self.intern(&group);
            }
        }
        let Self { mut topology, classes, softly_capped, .. } = self;
        if topology.groups.is_empty() {
            topology.of_class = IndexVec::from_elem(Part::default(), classes.len());
            return topology;
        }
        topology.index = Index::from_groups(&topology.groups);
        let index = &topology.index;
        let mut known: FxHashMap<(&str, &BTreeMap<String, String>), Vec<GroupId>> = FxHashMap::default();
        let mut meant_by_class = Vec::with_capacity(classes.len());
        for (pod, _) in &classes {
            steps.spend(1 + index.looked_at(pod) / GROUPS_A_STEP);
            if steps.bound_met().is_err() {
                break;
            }
            // Ports are the pod's own and not its labels'.
            meant_by_class.push(match pod.host_ports.is_empty() {
                false => index.meaning(&topology.groups, pod),
                true => {
                    let slot = known.entry((pod.namespace.as_str(), &pod.labels));
                    slot.or_insert_with(|| index.meaning(&topology.groups, pod)).clone()
                }
            });
        }
        for ((_, own), meant) in classes.into_iter().zip(meant_by_class) {
            if !steps.spend(1 + own.work() * (1 + meant.len() / GROUPS_A_STEP)) {
                break;
            }
            let part = topology.part(&own, &meant, softly_capped);
            topology.of_class.push(part);
        }
        topology.find_self_contained();
        topology
    }
}

impl Topology {
    /// A zonal group's key.
    pub fn key_of(&self, group: GroupId) -> KeyId {
        self.key_of[group].unwrap_or(KeyId::FIRST)
    }

    fn part(&mut self, own: &ClassGroups, meant: &[GroupId], softly_capped: bool) -> Part {
        let by_node = |group: &GroupId| self.key_of[*group].is_none();
        // A DaemonSet's pod is on every new node of these already: the rule asks nothing of the plan.
        let lonely = |group: &GroupId| !own.with_daemons.contains(group);
        let pod_affinity = own.hard.iter().copied().filter(by_node).filter(lonely);
        let mut part = Part {
            pod_affinity: pod_affinity.filter(|group| self.is_pod_affinity(*group)).collect(),
            with_daemons: own.with_daemons.clone(),
            meant: meant.iter().copied().filter(|group| !by_node(group)).collect(),
            ..Part::default()
        };
        part.meant.iter().for_each(|group| part.keys.insert(self.key_of(*group)));
        part.node_rules = self.rules(own.hard.iter(), meant);
        part.new_node_rules = self.rules(own.hard.iter().filter(|group| lonely(group)), meant);
        // The first alternative keeps all soft rules. A spread of ten a host bounds new nodes too, so that one lost
        // node is not half of the pods.
        let caps = own.soft.first().filter(|_| softly_capped).into_iter().flatten();
        let caps: Vec<GroupId> = caps.copied().filter(|group| self.bounds_a_node(*group)).collect();
        if !caps.is_empty() {
            part.new_node_rules = self.rules(own.hard.iter().filter(|group| lonely(group)).chain(&caps), meant);
        }
        for soft in &own.soft {
            let all = || own.hard.iter().chain(soft);
            let states: Vec<GroupId> = all().copied().filter(|group| self.key_of[*group].is_some()).collect();
            states.iter().for_each(|group| part.keys.insert(self.key_of(*group)));
            let node_rules = self.rules(all(), meant);
            part.tiers.push(Tier { node_rules, states });
        }
        part
    }

    /// Finds the classes whose node rules concern no other class: many apps, each with anti-affinity to itself, are alike.
    fn find_self_contained(&mut self) {
        let mut users: IndexVec<GroupId, u32> = IndexVec::from_elem(0, self.groups.len());
        let rules = |part: &Part| &self.node_rules[part.new_node_rules];
        for part in self.of_class.iter().filter(|part| part.new_node_rules != NodeRulesId::NONE) {
            let own = rules(part);
            let stated = own.caps.iter().map(|(group, _)| *group).filter(|group| !own.is_member(*group));
            own.member.iter().copied().chain(stated).for_each(|group| users[group] += 1);
        }
        let most_on_a_node = |part: &Part| {
            let own = rules(part);
            let alone = own.caps.iter().map(|(group, _)| group).chain(&own.member).all(|group| users[*group] == 1);
            let caps = own.caps.iter().filter(|(group, _)| own.is_member(*group)).map(|(_, cap)| *cap);
            (part.new_node_rules != NodeRulesId::NONE && alone && own.needs.is_empty())
                .then(|| caps.min().unwrap_or(u32::MAX))
        };
        let found: Vec<Option<u32>> = self.of_class.iter().map(most_on_a_node).collect();
        self.of_class.iter_mut().zip(found).for_each(|(part, most_on_a_node)| part.most_on_a_node = most_on_a_node);
    }

    /// True if a class's pods have to be in a domain with others.
    pub fn follows(&self, class: ClassId) -> bool {
        let part = &self.of_class[class];
        part.hard().states.iter().any(|group| self.is_pod_affinity(*group) && !part.is_with_daemon(*group))
    }

    /// True if a class's pods have to be spread over domains wider than a node.
    pub fn is_spread(&self, class: ClassId) -> bool {
        let spread = |at: &GroupId| matches!(self.groups[*at].kind, RuleKind::Spread { .. });
        self.of_class[class].hard().states.iter().any(spread)
    }

    /// True if a rule parts pods rather than gathers them.
    pub fn parts(&self, group: GroupId) -> bool {
        matches!(self.groups[group].kind, RuleKind::Spread { .. } | RuleKind::PodAntiAffinity)
    }

    fn is_pod_affinity(&self, group: GroupId) -> bool {
        self.groups[group].kind == RuleKind::PodAffinity
    }

    /// True if a rule is a spread over hosts that lets a node hold many.
    fn bounds_a_node(&self, group: GroupId) -> bool {
        let of = &self.groups[group];
        of.by_node() && matches!(of.kind, RuleKind::Spread { skew, .. } if skew >= MANY)
    }

    /// Interns the node rules of a class from the groups stated and meant.
    fn rules<'g>(&mut self, stated: impl Iterator<Item = &'g GroupId>, meant: &[GroupId]) -> NodeRulesId {
        let mut rules = NodeRules::default();
        for group in stated.filter(|group| self.key_of[**group].is_none()) {
            if self.is_pod_affinity(*group) {
                rules.needs.push(*group);
            } else {
                rules.caps.push((*group, cap(&self.groups[*group], meant.binary_search(group).is_ok())));
            }
        }
        rules.member = meant.iter().copied().filter(|group| self.key_of[*group].is_none()).collect();
        rules.caps.sort_unstable();
        rules.caps.dedup();
        rules.needs.sort_unstable();
        rules.needs.dedup();
        self.node_rules.insert(rules)
    }

    /// The groups that mean a pod, in order.
    pub fn meaning(&self, pod: &Pod) -> Vec<GroupId> {
        self.index.meaning(&self.groups, pod)
    }

    /// The node rules of a pod that is on a node already: it counts, and keeps its anti-affinity.
    pub fn of_bound(&self, reader: Reader<'_>, pod: &Pod) -> NodeRules {
        let mut rules = NodeRules::default();
        if self.groups.is_empty() {
            return rules;
        }
        for group in reader.kept_by_bound(pod) {
            if let Some(at) = self.groups.id_of(&group).filter(|_| group.by_node()) {
                rules.caps.push((at, u32::from(group.means(pod))));
            }
        }
        // In order, as the groups that mean a pod are.
        let member = self.meaning(pod).into_iter();
        rules.member = member.filter(|group| self.groups[*group].by_node()).collect();
        rules
    }
}

/// Number of a group's pods that a node may hold beside, or with, one that states the rule.
fn cap(group: &Group, is_member: bool) -> u32 {
    match &group.kind {
        // The least is zero: a node without any could always be made.
        RuleKind::Spread { skew, .. } => *skew,
        _ => u32::from(is_member),
    }
}
