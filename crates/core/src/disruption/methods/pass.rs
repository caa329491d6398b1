//! One pass over the cluster: the input of all methods, compiled once, and the changes of their commands since.

mod payback;
mod worth;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::v1::ConsolidationPolicy;
use jiff::Timestamp;

use super::bill::PassBill;
use super::cluster::ClusterView;
use super::command::{ConsolidationCommand, Unconsolidatable};
use super::devices::CLAIMS;
use super::settings::ConsolidationSettings;
use crate::disruption::RemovalReason;
use crate::disruption::pools::{EMPTY_ONLY, NEVER};
use crate::disruption::price::remaining_life;
use crate::labels;
use crate::pack::fleet::Fleet;
use crate::pack::model::ids::{IndexVec, InstanceTypeId, NodeId, PodId};
use crate::problem::{Policy, Problem};

/// A node as consolidation weighs it.
#[derive(Clone, Debug)]
pub(super) struct WeighedNode {
    /// Dollars an hour; 0 where the price is not known.
    pub price: f64,
    /// Cost of its disruption (core spec 5.4).
    pub cost: f64,
    /// Its pool, by its index in the problem.
    pub pool: Option<usize>,
    /// Its instance type, by its index in the problem.
    pub instance_type: Option<usize>,
    /// The reason that keeps it whatever is found for its pods.
    pub kept: Option<String>,
    /// True if no pod that may move is worth keeping it for.
    pub empty: bool,
    /// True if it is kept for the devices that its pods claim alone.
    pub claims: bool,
    /// True if pods of other nodes may come to it.
    pub receives: bool,
    /// True if it is worth its price: to be filled, and not to be replaced.
    pub efficient: bool,
}

/// Numbers of a pool's nodes that may still go, by reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub empty: Option<usize>,
    pub underutilized: Option<usize>,
}

impl Left {
    /// The number for a command's reason; any number if `None`.
    pub fn number_for(&mut self, reason: RemovalReason) -> &mut Option<usize> {
        match reason {
            RemovalReason::Empty => &mut self.empty,
            RemovalReason::Underutilized => &mut self.underutilized,
            // No method finds a command for these.
            RemovalReason::Expired
            | RemovalReason::Drifted
            | RemovalReason::Interrupted
            | RemovalReason::GarbageCollected
            | RemovalReason::Unhealthy
            | RemovalReason::Overprovisioned => &mut self.underutilized,
        }
    }
}

/// One look at the cluster, with the changes of commands since.
pub(super) struct Pass<'p, 'c, 'a> {
    pub cluster: &'p ClusterView,
    pub settings: &'p ConsolidationSettings,
    pub fleet: Fleet<'c, 'a>,
    pub nodes: IndexVec<NodeId, WeighedNode>,
    /// Nodes, those first that save the most for what they disturb.
    pub order: Vec<NodeId>,
    /// Worth of a unit of each resource in a pool, by the pool's index in the problem.
    pub worth: Vec<Vec<f64>>,
    /// Worth of a pool's mean pod by that.
    mean_pod: Vec<f64>,
    pub left: Vec<Left>,
    /// Number of further evictions that each PodDisruptionBudget allows.
    pub evictions: Vec<u32>,
    pub price_moves: usize,
    /// Numbers of instances that commands have taken of capacity reservations, by id.
    pub reserved_taken: BTreeMap<String, u32>,
    /// Bill of what runs, where commitments count.
    pub bill: Option<PassBill>,
    /// Nodes that could go and have yet to pay for it.
    pub spare: BTreeSet<NodeId>,
    /// Reasons of budgets and feature gates that keep nodes, as far as a method has looked; `notes` has all others.
    barred: BTreeMap<NodeId, String>,
    notes: BTreeMap<NodeId, String>,
}

impl<'p, 'c, 'a> Pass<'p, 'c, 'a> {
    pub fn new(
        cluster: &'p ClusterView,
        settings: &'p ConsolidationSettings,
        fleet: Fleet<'c, 'a>,
        now: Timestamp,
    ) -> Self {
        let left = cluster.pools.iter();
        let left = left.map(|pool| Left { empty: pool.empty, underutilized: pool.underutilized }).collect();
        let mut pass = Self {
            cluster,
            settings,
            fleet,
            nodes: IndexVec::new(),
            order: vec![],
            worth: vec![],
            mean_pod: vec![],
            left,
            evictions: cluster.pdbs.iter().map(|pdb| pdb.allowed.saturating_mul(settings.waves.max(1))).collect(),
            price_moves: settings.price_moves,
            reserved_taken: BTreeMap::new(),
            bill: PassBill::of_cluster(cluster),
            spare: BTreeSet::new(),
            barred: BTreeMap::new(),
            notes: BTreeMap::new(),
        };
        pass.nodes = NodeId::all(cluster.nodes.len()).map(|node| pass.view(node, now)).collect();
        pass.reprice();
        pass.worth = (0..cluster.problem.node_pools.len()).map(|pool| pass.worth_in(pool)).collect();
        pass.mean_pod = (0..pass.worth.len()).map(|pool| pass.mean_pod_of(pool)).collect();
        for node in pass.nodes.ids() {
            pass.nodes[node].efficient = pass.is_efficient(node);
        }
        pass.order = pass.ordered();
        pass
    }

    fn view(&self, node: NodeId, now: Timestamp) -> WeighedNode {
        let (problem, state) = (&self.cluster.problem, &self.cluster.nodes[node.index()]);
        let (instance_type, price) = priced(problem, node.index());
        let evictions = state.pods.iter().filter(|pod| pod.moves).map(|pod| pod.cost.max(0.0)).sum::<f64>();
        let pool = state.pool;
        let cost_policy = pool.is_some_and(|pool| self.cluster.packing(pool) != Policy::FewestNodes);
        let remaining = if cost_policy { remaining_life(state.initialized, state.expires, now) } else { 1.0 };
        let empty = evictions <= 0.0;
        let begun_lately = cost_policy.then(|| self.begun_lately(node, now)).flatten();
        let kept = self.kept(node, empty, begun_lately, now);
        let claims = kept.is_none() && self.claims_devices(node);
        WeighedNode {
            price,
            cost: 1.0 + evictions * remaining,
            pool,
            instance_type,
            kept: if claims { Some(CLAIMS.into()) } else { kept },
            empty,
            claims,
            receives: problem.existing_nodes[node].initialized && state.consolidatable && begun_lately.is_none(),
            efficient: false,
        }
    }

    /// The first reason that keeps a node from being a candidate. `begun_lately` is a pod that does so as it runs to its end
    /// and has just begun.
    fn kept(&self, node: NodeId, empty: bool, begun_lately: Option<usize>, now: Timestamp) -> Option<String> {
        let state = &self.cluster.nodes[node.index()];
        if let Some(why) = &state.held {
            return Some(why.clone());
        }
        let Some(pool) = state.pool else { return Some("no NodePool manages it".into()) };
        let of = &self.cluster.pools[pool];
        if self.cluster.packing(pool) == Policy::NodeGroups {
            return Some("node groups are not consolidated".into());
        }
        if !of.consolidates {
            return Some(NEVER.into());
        }
        if !state.consolidatable {
            return Some("consolidateAfter has not passed since its last pod came or went".into());
        }
        if empty {
            return None;
        }
        if of.policy == ConsolidationPolicy::WhenEmpty {
            return Some(EMPTY_ONLY.into());
        }
        let since = |time: Option<Timestamp>| time.map(|time| now.duration_since(time));
        if since(state.initialized).is_some_and(|age| age < self.settings.least_age) {
            return Some(format!("it is younger than {:#}", self.settings.least_age));
        }
        let name = |which: usize| {
            let pod = &self.cluster.problem.existing_nodes[node].pods[which];
            format!("{}/{}", pod.namespace, pod.name)
        };
        if let Some(which) = begun_lately {
            let rest = self.settings.rest;
            return Some(format!("pod {}, which runs to its end, began less than {rest:#} ago", name(which)));
        }
        let mut moving = state.pods.iter().enumerate().filter(|(_, pod)| pod.moves);
        moving.find_map(|(which, pod)| {
            if since(pod.moved).is_some_and(|rest| rest < self.settings.rest) {
                return Some(format!("pod {} was moved less than {:#} ago", name(which), self.settings.rest));
            }
            let pdb = pod.pdb.map(|pdb| &self.cluster.pdbs[pdb]).filter(|pdb| pdb.allowed == 0)?;
            Some(format!("pdb {} prevents the eviction of pod {}", pdb.name, name(which)))
        })
    }

    /// A pod of a node that runs to its end and began lately: moved, it would begin anew, and the room that it leaves is soon
    /// needed again.
    fn begun_lately(&self, node: NodeId, now: Timestamp) -> Option<usize> {
        let lately = |begun: Timestamp| now.duration_since(begun) < self.settings.rest;
        self.cluster.nodes[node.index()].pods.iter().position(|pod| pod.moves && pod.begun.is_some_and(lately))
    }

    fn ordered(&self) -> Vec<NodeId> {
        let mut order: Vec<NodeId> = self.nodes.ids().collect();
        let worth = |node: NodeId| self.nodes[node].price / self.nodes[node].cost;
        let name = |node: NodeId| self.fleet.nodes[node].node().name.as_str();
        order.sort_by(|a, b| worth(*b).total_cmp(&worth(*a)).then_with(|| name(*a).cmp(name(*b))));
        order
    }

    /// Nodes that may go and have pods, of pools that are packed by a policy, in order; those to which pods have come stay.
    pub fn candidates(&self, policy: impl Fn(Policy) -> bool) -> Vec<NodeId> {
        let all = self.order.iter().copied();
        all.filter(|node| {
            let (view, member) = (&self.nodes[*node], &self.fleet.nodes[*node]);
            let of_policy = view.pool.is_some_and(|pool| policy(self.cluster.packing(pool)));
            of_policy && view.kept.is_none() && !view.empty && !member.gone && member.arrivals == 0
        })
        .collect()
    }

    /// Notes the reason that keeps a node. One that could go and has yet to pay for it keeps that reason, whatever other
    /// methods find.
    pub fn note(&mut self, node: NodeId, why: impl Into<String>) {
        if !self.spare.contains(&node) {
            self.notes.insert(node, why.into());
        }
    }

    /// Notes that a budget, the size of a command or a feature gate keeps a node, whatever else would.
    pub fn bar(&mut self, node: NodeId, why: String) {
        self.barred.insert(node, why);
    }

    pub fn pod_name(&self, pod: PodId) -> String {
        let pod = &self.cluster.problem.pods[pod];
        format!("{}/{}", pod.namespace, pod.name)
    }

    /// The command for nodes that have been cleared, with the present places of their pods.
    pub fn command(
        &self,
        reason: RemovalReason,
        method: &'static str,
        candidates: Vec<NodeId>,
        replacements: Vec<crate::pack::PlannedClaim>,
    ) -> ConsolidationCommand {
        let mut pods: Vec<PodId> =
            candidates.iter().flat_map(|node| self.fleet.nodes[*node].pods.iter().copied()).collect();
        // A node that has taken pods in for trial may go as well: each of its pods is named once.
        pods.sort_unstable();
        pods.dedup();
        let to = |pod: PodId| {
            let home = self.fleet.home[pod];
            (pod.index(), (!self.fleet.nodes[home].gone).then_some(home.index()))
        };
        let moves = pods.into_iter().map(to).collect();
        let (price_before, price_after) = self.weighed(&candidates, &replacements);
        ConsolidationCommand {
            reason,
            method,
            price_before,
            price_after,
            drivers: BTreeMap::new(),
            candidates: candidates.into_iter().map(NodeId::index).collect(),
            replacements,
            moves,
        }
    }

    /// Carries out a command, as if all of it took no time; `name` gives each new node one.
    pub fn apply(&mut self, command: &ConsolidationCommand, mut name: impl FnMut() -> String) {
        for node in command.candidates.iter().copied().map(NodeId::from) {
            self.fleet.clear(node);
            self.forget_usage(node);
        }
        for (pod, to) in &command.moves {
            if let Some(to) = to {
                self.fleet.move_to(PodId::from(*pod), NodeId::from(*to));
            }
        }
        for claim in &command.replacements {
            if self.fleet.launched(claim, name()).is_none() {
                continue;
            }
            self.nodes.push(WeighedNode {
                price: claim.price,
                cost: 1.0 + claim.pods.len() as f64,
                pool: Some(claim.pool),
                instance_type: claim.cheapest_type(),
                kept: Some("it has just been launched".into()),
                empty: false,
                claims: false,
                receives: true,
                efficient: true,
            });
            self.bill_launched(claim);
        }
        self.fleet.commit();
        self.spend(command);
        self.settle_bill(command);
    }

    /// Gives a pool's limits back what a node that goes has of them.
    fn forget_usage(&mut self, node: NodeId) {
        let view = &self.nodes[node];
        let pool = view.pool.and_then(|pool| self.fleet.pool_at(pool));
        if let (Some(pool), Some(one)) = (pool, view.instance_type) {
            self.fleet.give_back(pool, InstanceTypeId::from(one));
        }
    }

    /// Takes a command off budgets, PodDisruptionBudgets and price moves.
    fn spend(&mut self, command: &ConsolidationCommand) {
        for node in command.candidates.iter().copied().map(NodeId::from) {
            if let Some(pool) = self.nodes[node].pool {
                let left = self.left[pool].number_for(command.reason);
                *left = left.map(|left| left.saturating_sub(1));
            }
        }
        for (pod, _) in &command.moves {
            if let Some(pdb) = self.cluster.pod(PodId::from(*pod)).pdb {
                self.evictions[pdb] = self.evictions[pdb].saturating_sub(1);
            }
        }
        for id in command.replacements.iter().flat_map(crate::pack::PlannedClaim::reservations) {
            *self.reserved_taken.entry(id.to_owned()).or_default() += 1;
        }
        if self.is_price_move(command) {
            self.price_moves = self.price_moves.saturating_sub(command.candidates.len());
        }
    }

    /// True if replacements pay only because prices differ: together they are no smaller than what they replace. What is paid
    /// for already is no matter of prices.
    pub fn is_price_move(&self, command: &ConsolidationCommand) -> bool {
        let problem = &self.cluster.problem;
        let types: Vec<usize> =
            command.replacements.iter().filter_map(crate::pack::PlannedClaim::cheapest_type).collect();
        if types.is_empty() || command.takes_reserved() {
            return false;
        }
        let known = |node: &usize| {
            self.nodes[NodeId::from(*node)].instance_type.map(|one| &problem.instance_types[one].capacity)
        };
        [crate::resources::CPU, crate::resources::MEMORY].iter().all(|name| {
            let before: i64 = command.candidates.iter().filter_map(known).map(|have| have.get(name)).sum();
            types.iter().map(|one| problem.instance_types[*one].capacity.get(name)).sum::<i64>() >= before
        })
    }

    /// The nodes that are left and stay, each with one reason.
    pub fn unconsolidatable(&self, command: Option<&ConsolidationCommand>) -> Vec<Unconsolidatable> {
        let mut all = Vec::new();
        for (node, view) in self.nodes.enumerate() {
            let goes = command.is_some_and(|command| command.candidates.contains(&node.index()));
            if goes || self.fleet.nodes[node].gone {
                continue;
            }
            // Notes of a method count only where no other has found a command.
            let notes = self.notes.get(&node).filter(|_| command.is_none());
            let noted = || self.barred.get(&node).or(notes);
            let kept = view.kept.clone().filter(|_| !view.claims || command.is_none());
            let why = kept.or_else(|| noted().cloned());
            all.extend(why.map(|why| Unconsolidatable { node: node.index(), why }));
        }
        all
    }
}

/// The type of that name; of overlaid ones that of the pool, as pools may have different ones.
fn type_of(problem: &Problem, name: &str, pool: &str) -> Option<usize> {
    let first = problem.instance_types.iter().position(|one| one.name == name)?;
    let pool = problem.node_pools.iter().find(|one| one.name == pool);
    let Some(own) = pool.and_then(|pool| pool.instance_types.as_ref()) else { return Some(first) };
    let own = own.iter().copied().find(|at| problem.instance_types[*at].name == name).unwrap_or(first);
    let any_overlaid = [first, own].iter().any(|at| problem.instance_types[*at].is_overlaid());
    Some(if any_overlaid { own } else { first })
}

/// A node's instance type and its price in dollars an hour: that of the offering with its type, zone and capacity type.
pub(super) fn priced(problem: &Problem, node: usize) -> (Option<usize>, f64) {
    let label = |key: &str| problem.existing_nodes[node].labels.get(key).map(String::as_str).unwrap_or_default();
    let name = label(labels::INSTANCE_TYPE);
    let Some(at) = type_of(problem, name, label(labels::NODE_POOL)) else { return (None, 0.0) };
    let (zone, capacity_type) = (label(labels::ZONE), label(labels::CAPACITY_TYPE));
    let offered = &mut problem.instance_types[at].offerings.iter();
    let own = offered.find(|one| one.zone == zone && one.capacity_type == capacity_type);
    let price = own.map_or(0.0, |one| one.price);
    (Some(at), if price.is_finite() { price.max(0.0) } else { 0.0 })
}
