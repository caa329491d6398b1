//! Filling of nodes that are there: initialized ones first, then by name (spec core 3.4); claims that are not launched, the
//! smallest first.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::labels;
use crate::pack::filter::shared::Attached;
use crate::pack::filter::taints;
use crate::pack::filter::topology::domains::Domains;
use crate::pack::filter::topology::groups::Reader;
use crate::pack::filter::topology::node_rules::{NodeRules, Tally};
use crate::pack::model::classes::{Class, ClassAlternative};
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, GroupId, NodeId, TierId};
use crate::pack::model::numbers::count_of_amount;
use crate::problem::ExistingNode;
use crate::requirements::{Requirement, Requirements};
use crate::resources;

/// Work to read a node, in steps.
const A_NODE: usize = 4;
/// Number of host ports of a bound pod that are read in one step of work.
const PORTS_A_STEP: usize = 4;

/// A node with what is free on it.
#[derive(Debug)]
pub(in crate::pack) struct Free<'a> {
    pub(in crate::pack) id: NodeId,
    pub(in crate::pack) node: Cow<'a, ExistingNode>,
    labels: Requirements,
    pub(in crate::pack) room: Vec<i64>,
    pub(in crate::pack) tally: Tally,
    pub(in crate::pack) volumes: Attached,
}

impl<'a> Free<'a> {
    pub(in crate::pack) fn from_node(context: &Context<'_>, id: NodeId, node: Cow<'a, ExistingNode>) -> Self {
        let problem = context.problem;
        let mut labels: BTreeMap<String, String> = node.labels.clone();
        labels.entry(labels::HOSTNAME.to_owned()).or_insert_with(|| node.name.clone());
        // `matchFields` on `metadata.name` is read as a requirement on this key, so the node has it as a label.
        labels.insert(labels::NODE_NAME_FIELD.to_owned(), node.name.clone());
        let mut room = context.names.room(&node.allocatable).to_vec();
        if is_fargate(&node) {
            // Each of these is made for its one pod; nothing else is ever bound there.
            room.fill(-1);
        }
        for taken in [&node.used, &node.daemon_requests] {
            room.iter_mut()
                .zip(context.names.amounts(taken))
                .for_each(|(room, amount)| *room = room.saturating_sub(amount));
        }
        let labels = Requirements::from_labels(&labels);
        for (at, conflict) in context.names.conflicts() {
            // A resource that stands for nodes without this DaemonSet: none of it is left here.
            if conflict.binds_on(problem, &node, &labels) {
                room[at] = room[at].min(0);
            }
        }
        let mut tally = Tally::default();
        let reader = Reader::new(problem);
        // Bound pods count for the rules of others, and keep their own anti-affinity.
        for pod in node.pods.iter().take_while(|pod| context.work(1 + pod.host_ports.len() / PORTS_A_STEP)) {
            tally.add(&context.topology.of_bound(reader, pod), 1);
        }
        // On an initialized node the pods of DaemonSets are among the bound ones already.
        for (_, pod_affinity) in context.names.daemon_affinities().filter(|_| !node.initialized) {
            let rule = context.topology.groups.id_of(&pod_affinity.group).filter(|_| pod_affinity.group.by_node());
            if let Some(at) = rule.filter(|_| pod_affinity.comes_to(problem, &node, &labels)) {
                tally.add(&NodeRules { member: [at].into_iter().collect(), ..NodeRules::default() }, 1);
            }
        }
        let volumes = context.volumes.attached(node.volumes.iter());
        Self { id, node, labels, room, tally, volumes }
    }

    /// Number of further pods of a class that fit.
    pub(in crate::pack) fn holds(&self, class: &Class) -> i64 {
        if class.shared.is_empty() {
            return holds(&self.room, &class.requests);
        }
        // The first pod of the class attaches the volumes, so their room is gone before any is counted.
        holds(&self.room_beside(class), &class.requests)
    }

    /// Room that is left beside the volumes that a class shares and that are not attached yet.
    fn room_beside(&self, class: &Class) -> Vec<i64> {
        let mut missing = vec![0; self.room.len()];
        self.volumes.add_missing(&class.shared, &mut missing);
        self.room.iter().zip(missing).map(|(room, missing)| room.saturating_sub(missing)).collect()
    }

    /// True if its taints and labels suit an alternative of a class.
    pub(in crate::pack) fn suits(&self, context: &Context<'_>, class: &Class, tier: TierId) -> bool {
        let ClassAlternative { set, forgiving } = class.alternatives[tier];
        let example = class.example(context.problem);
        let refused = example.refused_as_of.is_some_and(|as_of| self.node.changed <= as_of);
        if refused || example.refused_nodes.contains(&self.node.name) {
            return false;
        }
        let tolerations = &example.tolerations;
        taints::untolerated(&self.node.taints, tolerations, forgiving).is_none()
            && satisfies(&self.labels, &context.sets[set])
    }

    pub(in crate::pack) fn add(&mut self, class: &Class, rules: &NodeRules, count: u32) {
        for (room, amount) in self.room.iter_mut().zip(&class.requests) {
            *room = room.saturating_sub(amount.saturating_mul(i64::from(count)));
        }
        if !class.shared.is_empty() {
            self.room = self.room_beside(class);
            self.volumes.attach(&class.shared);
        }
        self.tally.add(rules, count);
    }
}

/// A choice of existing nodes by their stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nodes that are ready for pods.
    Initialized,
    /// Nodes that are on their way.
    Coming,
    Any,
}

impl Stage {
    fn has(self, node: &ExistingNode) -> bool {
        match self {
            Self::Initialized => node.initialized,
            Self::Coming => !node.initialized,
            Self::Any => true,
        }
    }
}

/// The existing nodes in the order in which they are filled.
pub(crate) struct Existing<'a>(Vec<Free<'a>>);

impl<'a> Existing<'a> {
    pub fn from_context(context: &Context<'a>) -> Self {
        Self(free_nodes(context))
    }

    /// True if any node is on its way.
    pub fn any_coming(&self) -> bool {
        self.0.iter().any(|free| !free.node.initialized)
    }

    /// Places pods of a class, alternative by alternative and node by node; returns the nodes with the number that each takes.
    pub fn fill(&mut self, context: &Context<'_>, at: ClassId, stage: Stage, left: &mut u32) -> Vec<(NodeId, u32)> {
        let mut placed = Vec::new();
        if self.0.is_empty() {
            return placed;
        }
        let class = &context.classes[at];
        if !self.worth_relaxing(context, class, stage) {
            return placed;
        }
        for tier in class.alternatives.ids() {
            let rules = context.node_rules_there(at, tier);
            for free in self.0.iter_mut().filter(|free| stage.has(&free.node)) {
                if *left == 0 || !context.work(free.tally.work(rules)) {
                    return placed;
                }
                // From cheap to dear: amounts, then rules between pods, then taints and labels.
                let count = count_of_amount(free.holds(class)).min(*left);
                let count = free.tally.allows(rules, count);
                if count == 0 || !free.suits(context, class, tier) {
                    continue;
                }
                // Soft rules bind nobody else.
                free.add(class, context.hard_node_rules(at), count);
                *left -= count;
                placed.push((free.id, count));
            }
        }
        placed
    }

    /// Places one pod of a class that zonal rules speak of: on the first node that takes it.
    pub fn take_one(&mut self, context: &Context<'_>, at: ClassId, domains: &mut Domains<'_, '_>) -> Option<NodeId> {
        let class = &context.classes[at];
        if !self.worth_relaxing(context, class, Stage::Any) {
            return None;
        }
        for tier in class.alternatives.ids() {
            let rules = context.node_rules_there(at, tier);
            for free in &mut self.0 {
                if !context.work(free.tally.work(rules)) {
                    return None;
                }
                if free.holds(class) > 0
                    && free.tally.allows(rules, 1) > 0
                    && free.suits(context, class, tier)
                    && domains.add_to_node(at, tier, free.id)
                {
                    free.add(class, context.hard_node_rules(at), 1);
                    return Some(free.id);
                }
            }
        }
        None
    }

    /// True if any of these nodes may hold a pod of a class by what it requires, rules between pods apart. Where none does,
    /// what it prefers is not given up one after the other.
    fn worth_relaxing(&self, context: &Context<'_>, class: &Class, stage: Stage) -> bool {
        if class.hard.is_empty() {
            return true;
        }
        let mut open = self.0.iter().filter(|free| stage.has(&free.node));
        open.any(|free| {
            let suits = |tier: &TierId| free.suits(context, class, *tier);
            context.work(1) && free.holds(class) > 0 && class.hard.iter().any(suits)
        })
    }

    /// True if any of the chosen nodes suits and has room for one pod of a class, rules between pods apart.
    pub fn may_hold(&self, context: &Context<'_>, at: ClassId, chosen: impl Fn(NodeId) -> bool) -> bool {
        let class = &context.classes[at];
        let mut open = self.0.iter().filter(|free| context.work(1) && chosen(free.id) && free.holds(class) > 0);
        open.any(|free| class.alternatives.ids().any(|tier| free.suits(context, class, tier)))
    }

    /// True if any node holds a pod of a group.
    pub fn holds(&self, group: GroupId) -> bool {
        self.0.iter().any(|free| free.tally.held(group) > 0)
    }
}

/// True if a node with these labels satisfies the requirements: every key there, or allowed to be absent.
pub(crate) fn satisfies(labels: &Requirements, wanted: &Requirements) -> bool {
    wanted.iter().all(|(key, requirement)| match labels.get(key).and_then(Requirement::single) {
        Some(value) => requirement.has(value),
        None => requirement.allows_absence(),
    })
}

/// Number of further pods that fit.
fn holds(room: &[i64], requests: &[i64]) -> i64 {
    // A node that is overfull takes nothing, not even what asks for none of what is short.
    if room.iter().any(|amount| *amount < 0) {
        return 0;
    }
    let each = room.iter().zip(requests).filter(|(_, amount)| **amount > 0).map(|(room, amount)| room / amount);
    each.min().unwrap_or(0)
}

fn is_fargate(node: &ExistingNode) -> bool {
    node.labels.get(labels::COMPUTE_TYPE).is_some_and(|kind| kind == "fargate")
}

/// Sort key of a NodeClaim that is not launched, as an earlier leader leaves it: it was planned for what it asks for, and no
/// more. The largest pods come first and find the smallest that takes them, so that what was planned together finds its places
/// again; by name, a large pod may take what many small ones were to have. Others keep Karpenter's order (spec core 3.4).
fn size_asked_for(node: &ExistingNode) -> Option<(i64, i64)> {
    let launched = node.initialized || node.labels.contains_key(labels::INSTANCE_TYPE);
    (!launched).then(|| (node.allocatable.get(resources::CPU), node.allocatable.get(resources::MEMORY)))
}

fn free_nodes<'a>(context: &Context<'a>) -> Vec<Free<'a>> {
    let problem = context.problem;
    let mut order: Vec<NodeId> = NodeId::all(problem.existing_nodes.len()).collect();
    order.sort_by_cached_key(|at| {
        let node = &problem.existing_nodes[*at];
        // `false` before `true`: nodes that are ready, then those on their way.
        (!node.initialized, size_asked_for(node), node.name.as_str())
    });
    let mut nodes = Vec::with_capacity(order.len());
    for id in order.into_iter().take_while(|_| context.work(A_NODE)) {
        nodes.push(Free::from_node(context, id, Cow::Borrowed(&problem.existing_nodes[id])));
    }
    nodes
}
