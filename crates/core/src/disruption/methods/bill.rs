//! Prices where there are Savings Plans or Reserved Instances: a set of nodes saves what the bill falls by without it, and costs
//! what the bill rises by with it. Prices of single nodes say neither: which of two alike nodes is covered is nobody's choice.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::ClusterView;
use super::command::ConsolidationCommand;
use super::pass::{Pass, priced};
use crate::commitments::{Commitments, Usage, Uses, offer, usage_of_claim, without};
use crate::pack::PlannedClaim;
use crate::pack::model::ids::{IndexVec, NodeId};
use crate::paid_machines::Running;
use crate::problem::Policy;

/// Amounts of dollars an hour that are no more than this apart are one.
const EXACT: f64 = 1e-6;

/// Commitments, with all that takes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterBill {
    commitments: Arc<Commitments>,
    /// Uses of the cluster's nodes; `None` for those that are not bought on demand.
    of_node: IndexVec<NodeId, Option<Usage>>,
    /// Uses of machines that are no nodes of the cluster's problem.
    others: Uses,
    /// Uses of others of the account.
    outside: Uses,
    /// Machines that may be there, or go: nothing is offered of what they could take.
    uncertain: Uses,
    /// True for nodes weighed by their own prices, as if there were no commitments.
    blind: bool,
}

impl ClusterView {
    /// The same cluster with commitments, as far as these count: nodes are weighed by the bill, and what is left is offered.
    #[must_use]
    pub fn with_commitments(mut self, commitments: &Arc<Commitments>, running: &Running) -> Self {
        if running.counted(commitments).is_none() {
            return self;
        }
        let mut others = running.fixed.clone();
        let mut by_node = running.by_node.clone();
        let nodes = self.problem.existing_nodes.iter();
        let of_node = nodes.map(|node| by_node.remove(&node.name)).collect();
        by_node.into_values().for_each(|usage| others.add(usage, 1));
        let (commitments, uncertain) = (Arc::clone(commitments), running.uncertain.clone());
        let outside = running.others.clone();
        self.bill = Some(ClusterBill { commitments, of_node, others, outside, uncertain, blind: false });
        self.offer_anew();
        self
    }

    /// The same cluster with a bill, if there is one.
    pub(super) fn with_bill(mut self, bill: Option<ClusterBill>) -> Self {
        if bill.is_some() {
            self.bill = bill;
            self.offer_anew();
        }
        self
    }

    /// Offers what is left beside the nodes as they are now.
    fn offer_anew(&mut self) {
        without(&mut self.problem.instance_types);
        if let Some(bill) = self.bill.as_ref().filter(|bill| !bill.blind) {
            let mut uses = bill.uses();
            uses.add_all(&bill.uncertain);
            offer(&mut self.problem, &bill.commitments, &uses);
        }
    }

    /// The same cluster as if there were no commitments, but for [`ClusterView::hourly_bill`].
    pub(super) fn as_blind(&self) -> Self {
        let mut blind = self.clone();
        blind.bill.iter_mut().for_each(|bill| bill.blind = true);
        blind.offer_anew();
        blind
    }

    /// Dollars an hour that all nodes add to the bill, beside what commitments cost in any case; `None` where these do not count.
    #[must_use]
    pub fn hourly_bill(&self) -> Option<f64> {
        let bill = self.bill.as_ref()?;
        let own = self.problem.existing_nodes.iter().enumerate();
        let others = own.filter(|(at, _)| bill.of_node.get(NodeId::from(*at)).is_none_or(Option::is_none));
        let others = others.map(|(at, _)| priced(&self.problem, at).1).fold(0.0, |sum, price| sum + price);
        Some(others + bill.commitments.bill(&bill.uses()) - bill.commitments.bill(&bill.outside))
    }
}

impl ClusterBill {
    fn uses(&self) -> Uses {
        let mut all: Uses = self.of_node.iter().flatten().cloned().collect();
        all.add_all(&self.others);
        all.add_all(&self.outside);
        all
    }
}

/// The bill of a pass, with the changes of its commands.
#[derive(Clone, Debug)]
pub(super) struct PassBill {
    pub of_node: IndexVec<NodeId, Option<Usage>>,
    uses: Uses,
}

impl PassBill {
    pub fn of_cluster(cluster: &ClusterView) -> Option<Self> {
        let bill = cluster.bill.as_ref()?;
        Some(Self { of_node: bill.of_node.clone(), uses: bill.uses() })
    }
}

impl Pass<'_, '_, '_> {
    /// The bill and the commitments, where nodes are weighed by them.
    fn weighing(&self) -> Option<(&PassBill, &Commitments)> {
        let bill = self.cluster.bill.as_ref().filter(|bill| !bill.blind)?;
        Some((self.bill.as_ref()?, &bill.commitments))
    }

    /// Weighs each node by the amount that the bill falls by if it alone goes.
    pub fn reprice(&mut self) {
        let Some((bill, commitments)) = self.weighing() else { return };
        let mut known: BTreeMap<&Usage, f64> = BTreeMap::new();
        let mut prices: Vec<(NodeId, f64)> = Vec::new();
        for (node, usage) in bill.of_node.enumerate() {
            if let Some(usage) = usage.as_ref().filter(|_| !self.fleet.nodes[node].gone) {
                let price = *known.entry(usage).or_insert_with(|| commitments.drop_without(&bill.uses, usage));
                prices.push((node, price));
            }
        }
        prices.into_iter().for_each(|(node, price)| self.nodes[node].price = price);
    }

    /// Dollars an hour that a node saves beside others that go.
    pub fn saved_beside(&self, taken: &[NodeId], node: NodeId) -> f64 {
        let own = self.nodes[node].price;
        let Some((bill, commitments)) = self.weighing() else { return own };
        let usage = |node: &NodeId| bill.of_node.get(*node).and_then(Option::as_ref);
        let Some(one) = usage(&node).filter(|_| !taken.is_empty()) else { return own };
        commitments.drop_without(&bill.uses.without(taken.iter().filter_map(usage)), one)
    }

    /// Dollars an hour that nodes save together, and that their replacements cost without them.
    pub fn weighed(&self, candidates: &[NodeId], replacements: &[PlannedClaim]) -> (f64, f64) {
        let Some((bill, commitments)) = self.weighing() else {
            let before = candidates.iter().map(|node| self.nodes[*node].price).sum();
            return (before, replacements.iter().map(|claim| claim.price).sum());
        };
        let usage = |node: &&NodeId| bill.of_node.get(**node).and_then(Option::as_ref);
        let others = candidates.iter().filter(|node| usage(node).is_none());
        let others = others.map(|node| self.nodes[*node].price).fold(0.0, |sum, price| sum + price);
        let mut uses = bill.uses.without(candidates.iter().filter_map(|node| usage(&node)));
        let rest = commitments.bill(&uses);
        let before = others + commitments.bill(&bill.uses) - rest;
        let mut after = 0.0;
        for claim in replacements {
            match usage_of_claim(&self.cluster.problem, claim) {
                Some(usage) => uses.add(usage, 1),
                None => after += claim.price,
            }
        }
        (before, after + commitments.bill(&uses) - rest)
    }

    /// True if a command lowers the bill by enough, where nodes are weighed by it. A deletion never raises it.
    pub fn lowers_bill(&self, command: &ConsolidationCommand) -> bool {
        if command.replacements.is_empty() || self.weighing().is_none() {
            return true;
        }
        let pool = command.candidates.first().and_then(|node| self.nodes[NodeId::from(*node)].pool);
        let pool = pool.filter(|pool| self.cluster.packing(*pool) == Policy::Cost && !command.takes_reserved());
        let least = pool.map_or(0.0, |pool| self.least(pool, command.price_before, command.moves.len()));
        command.saving() > least.max(EXACT)
    }

    /// Takes a node that has just been launched on the bill.
    pub fn bill_launched(&mut self, claim: &PlannedClaim) {
        let Some(bill) = &mut self.bill else { return };
        let usage = usage_of_claim(&self.cluster.problem, claim);
        usage.iter().for_each(|usage| bill.uses.add(usage.clone(), 1));
        bill.of_node.push(usage);
    }

    /// Takes the nodes of a command off the bill, and weighs all others anew.
    pub fn settle_bill(&mut self, command: &ConsolidationCommand) {
        let Some(bill) = &mut self.bill else { return };
        for node in command.candidates.iter().copied().map(NodeId::from) {
            if let Some(usage) = bill.of_node.get(node).and_then(Option::as_ref) {
                bill.uses.remove_one(usage);
            }
        }
        self.reprice();
        for node in self.nodes.ids().filter(|node| node.index() < self.cluster.nodes.len()) {
            self.nodes[node].efficient = self.is_efficient(node);
        }
    }

    /// The bill of the cluster that is left, of the nodes at these places.
    pub fn bill_of_rest(&self, rest: &[NodeId]) -> Option<ClusterBill> {
        let (old, own) = (self.cluster.bill.clone()?, self.bill.as_ref()?);
        let of_node = rest.iter().map(|node| own.of_node.get(*node).cloned().flatten()).collect();
        Some(ClusterBill { of_node, ..old })
    }
}
