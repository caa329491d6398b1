//! A cluster compiled once, in which pods are moved for trial: the part of the packing engine that consolidation uses.
//!
//! Every pod that may move is a pod of the problem and stays on its node all the same. [`Fleet::clear`] takes a node away,
//! [`Fleet::put`] gives one of its pods another, [`Fleet::rollback`] undoes all since a mark. So a trial costs what it touches,
//! and not what the cluster has. [`launch`] plans the one new node that a replacement may have.

pub(crate) mod launch;
mod limits;
pub(crate) mod node;

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::limits::LimitsLeft;
use crate::pack::filter::shared::Attached;
use crate::pack::filter::topology::bins::DomainOfKeys;
use crate::pack::filter::topology::domains::Domains;
use crate::pack::filter::topology::node_rules::Tally;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, IndexVec, InstanceTypeId, NodeId, PodId, PoolId};
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::float;
use crate::pack::model::offers::Mask;
use crate::pack::place::existing::Free;
use crate::pack::policy::cost::NodePrice;
use crate::pack::policy::cost::rates::rates;
use crate::problem::ExistingNode;

/// A node with its pods that may move.
pub(crate) struct FleetNode<'a> {
    free: Free<'a>,
    domain: DomainOfKeys,
    /// True once it has been taken away.
    pub gone: bool,
    /// The pods on it that may move.
    pub pods: Vec<PodId>,
    /// Number of pods that have come to it by trials, those undone apart.
    pub arrivals: u32,
    /// Room for pods when none that may move is on it.
    pub whole: Amounts,
}

impl FleetNode<'_> {
    /// Requests of these pods together.
    pub fn asked(&self) -> impl Iterator<Item = i64> + '_ {
        self.whole.iter().zip(&self.free.room).map(|(whole, room)| whole.saturating_sub(*room))
    }

    pub fn node(&self) -> &ExistingNode {
        &self.free.node
    }
}

/// A change that a trial has made, with what undoes it.
enum Change {
    Cleared(NodeId),
    Took { node: NodeId, room: Vec<i64>, tally: Tally, volumes: Attached, pod: PodId, home: NodeId },
}

/// A length of the log of changes, to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

/// The compiled cluster.
pub(crate) struct Fleet<'c, 'a> {
    pub context: &'c Context<'a>,
    /// Nodes in the problem's order, then those launched since.
    pub nodes: IndexVec<NodeId, FleetNode<'a>>,
    /// Free cpu, memory and places for pods of each node, for a first comparison.
    heads: IndexVec<NodeId, [i64; 3]>,
    domains: Domains<'c, 'a>,
    limits: IndexVec<PoolId, LimitsLeft>,
    class_of: IndexVec<PodId, ClassId>,
    pub home: IndexVec<PodId, NodeId>,
    log: Vec<Change>,
    items: launch::Items<'c>,
}

impl<'c, 'a> Fleet<'c, 'a> {
    /// Compiles a cluster: `home` gives the existing node of each pod of the problem.
    pub fn new(context: &'c Context<'a>, home: IndexVec<PodId, NodeId>) -> Self {
        let domains = Domains::new(context, &BTreeSet::new());
        let mut class_of = IndexVec::from_elem(ClassId::FIRST, home.len());
        for (at, class) in context.classes.enumerate() {
            class.pods.iter().for_each(|pod| class_of[*pod] = at);
        }
        let nodes = NodeId::all(context.problem.existing_nodes.len()).zip(&context.problem.existing_nodes);
        let nodes = nodes.map(|(at, node)| Free::from_node(context, at, Cow::Borrowed(node)));
        let nodes: IndexVec<NodeId, FleetNode<'a>> = nodes.map(|free| member(&domains, free)).collect();
        let mut fleet = Self {
            context,
            heads: nodes.iter().map(|node| head(&node.free.room)).collect(),
            nodes,
            domains,
            limits: context.pools.iter().map(|pool| pool.limits.clone()).collect(),
            class_of,
            home,
            log: vec![],
            items: launch::Items::new(context),
        };
        fleet.settle_in();
        fleet
    }

    /// Lists the pods of each node; they are counted there already.
    fn settle_in(&mut self) {
        for (pod, node) in self.home.enumerate() {
            let class = &self.context.classes[self.class_of[pod]];
            let member = &mut self.nodes[*node];
            member.pods.push(pod);
            member
                .whole
                .iter_mut()
                .zip(&class.requests)
                .for_each(|(whole, asked)| *whole = whole.saturating_add(*asked));
        }
        // The largest first, as packing has them.
        for member in &mut self.nodes {
            // By class and then by pod: classes are ordered by size.
            member.pods.sort_by_key(|pod| (self.class_of[*pod], *pod));
        }
    }

    pub fn class_of(&self, pod: PodId) -> ClassId {
        self.class_of[pod]
    }

    /// The current end of the log, to roll back to.
    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Makes all changes permanent.
    pub fn commit(&mut self) {
        self.log.clear();
    }

    /// Takes a node away; its pods have none until they are put elsewhere.
    pub fn clear(&mut self, node: NodeId) {
        self.nodes[node].gone = true;
        for at in 0..self.nodes[node].pods.len() {
            let pod = self.nodes[node].pods[at];
            self.leave(pod, node);
        }
        // Its pods keep their places on the list: they are moved one by one, or the node comes back with all of
        // them.
        self.log.push(Change::Cleared(node));
    }

    fn leave(&mut self, pod: PodId, node: NodeId) {
        let class = self.class_of(pod);
        if self.context.topology.of_class[class].is_zonal() {
            let member = &self.nodes[node];
            self.domains.leave(class, &member.free.node, &member.domain);
        }
    }

    fn join(&mut self, pod: PodId, node: NodeId) {
        let class = self.class_of(pod);
        if self.context.topology.of_class[class].is_zonal() {
            let member = &self.nodes[node];
            self.domains.join(class, &member.free.node, &member.domain);
        }
    }

    /// Undoes everything since a mark, the last first.
    pub fn rollback(&mut self, mark: Mark) {
        while self.log.len() > mark.0 {
            match self.log.pop() {
                Some(Change::Cleared(node)) => {
                    for at in 0..self.nodes[node].pods.len() {
                        let pod = self.nodes[node].pods[at];
                        self.join(pod, node);
                    }
                    self.nodes[node].gone = false;
                }
                Some(Change::Took { node, room, tally, volumes, pod, home }) => {
                    self.leave(pod, node);
                    self.heads[node] = head(&room);
                    let member = &mut self.nodes[node];
                    // The node's state is restored as it was, and not computed backwards: volumes and caps cannot be taken off.
                    (member.free.room, member.free.tally, member.free.volumes) = (room, tally, volumes);
                    member.pods.pop();
                    member.arrivals -= 1;
                    self.home[pod] = home;
                }
                None => {}
            }
        }
    }

    /// True if a node takes a pod of a class by one of its alternatives.
    fn takes(&self, class: ClassId, node: NodeId) -> bool {
        let context = self.context;
        let (of, member) = (&context.classes[class], &self.nodes[node]);
        let zonal = context.topology.of_class[class].is_zonal();
        of.refused.is_none()
            && member.free.holds(of) > 0
            && of.alternatives.ids().any(|tier| {
                member.free.tally.allows(context.node_rules_there(class, tier), 1) > 0
                    && member.free.suits(context, of, tier)
                    && (!zonal || self.domains.may_join(class, tier, &member.domain))
            })
    }

    /// Puts a pod on a node without a check of the rules: the caller has checked.
    pub fn move_to(&mut self, pod: PodId, node: NodeId) {
        let (context, class) = (self.context, self.class_of(pod));
        let member = &mut self.nodes[node];
        let free = &mut member.free;
        self.log.push(Change::Took {
            node,
            room: free.room.clone(),
            tally: free.tally.clone(),
            volumes: free.volumes.clone(),
            pod,
            home: self.home[pod],
        });
        // Hard rules only: what a pod would rather have binds nobody else.
        free.add(&context.classes[class], context.hard_node_rules(class), 1);
        self.heads[node] = head(&free.room);
        member.pods.push(pod);
        member.arrivals += 1;
        self.home[pod] = node;
        self.join(pod, node);
    }

    /// Gives a pod the first of the nodes that takes it; true if there is one.
    pub fn put(&mut self, pod: PodId, nodes: &[NodeId]) -> bool {
        let class = self.class_of(pod);
        // Cpu, memory and pods lie together for all nodes. Most are full, and none of the rest of them is read.
        let asked = head(&self.context.classes[class].requests);
        let found = nodes.iter().copied().find(|node| {
            let have = &self.heads[*node];
            have[0] >= asked[0]
                && have[1] >= asked[1]
                && have[2] >= asked[2]
                && !self.nodes[*node].gone
                && self.takes(class, *node)
        });
        if let Some(node) = found {
            self.move_to(pod, node);
        }
        found.is_some()
    }

    /// The offering bits of new nodes that are bought.
    fn open(&self) -> Mask {
        self.context.offers.all() & !self.context.offers.reserved
    }

    /// Worth of a unit of each resource in dollars an hour, on a pool's nodes at the best mix of those that it could have for
    /// these pods, with `node_price` beside each node's own price.
    pub fn worth(&self, pool: PoolId, asked: &[f64], node_price: NodePrice) -> Vec<f64> {
        let (context, view) = (self.context, &self.context.pools[pool]);
        let bought = context.bought(view.offering_bits & self.open());
        // A resource that nobody asks for is worth nothing, and would leave the program without an answer.
        let counted: Vec<usize> = (0..asked.len()).filter(|at| asked[*at] > 0.0).collect();
        let types = view.types.iter().filter(|at| bought.price[*at].is_finite());
        let nodes: Vec<(Vec<f64>, f64)> = types
            .map(|at| {
                let room = context.room(NodeKind::any(pool), at);
                let parts = counted.iter().map(|which| float(room[*which]) / asked[*which]);
                (parts.collect(), node_price.with(bought.price[at]))
            })
            .collect();
        let rates = rates(&nodes, counted.len());
        // The linear program ends after a bounded number of steps. No node carries more than it costs, so prices at which one
        // would are too high: all of them are lowered until none does.
        let carried = |parts: &[f64]| -> f64 { parts.iter().zip(&rates).map(|(part, rate)| part * rate).sum() };
        // Say one node would carry 1.1 of what it costs: all rates are divided by 1.1.
        let most = nodes.iter().map(|(parts, cost)| carried(parts) / cost).filter(|ratio| ratio.is_finite());
        let scale = 1.0 / most.fold(1.0, f64::max);
        let mut worth = vec![0.0; asked.len()];
        for (which, rate) in counted.iter().zip(&rates) {
            worth[*which] = rate * scale / asked[*which];
        }
        worth
    }

    /// Gives a pool's limits back what a node of a type has taken of them.
    pub fn give_back(&mut self, pool: PoolId, instance_type: InstanceTypeId) {
        self.limits[pool].give_back_leaving(self.context.problem, instance_type);
    }
}

fn member<'a>(domains: &Domains<'_, '_>, free: Free<'a>) -> FleetNode<'a> {
    let domain = domains.of_node(&free.node);
    let whole = Amounts::from_slice(&free.room);
    FleetNode { free, domain, gone: false, pods: vec![], arrivals: 0, whole }
}

fn head(amounts: &[i64]) -> [i64; 3] {
    [amounts[0], amounts[1], amounts[2]]
}
