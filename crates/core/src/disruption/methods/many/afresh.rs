//! The pods of nodes that go, packed afresh: on nodes that stay, and on new ones.

use std::sync::Arc;

use super::super::Pass;
use super::super::delete::receivers;
use super::super::settle::{bare, shell};
use crate::Problem;
use crate::commitments;
use crate::pack::model::ids::{IndexVec, NodeId, PodId};
use crate::pack::{Options, PlannedClaim, solve_within};
use crate::problem::ExistingNode;
use crate::resources::Resources;

/// The result of packing, by the cluster's own indices.
pub(super) struct Afresh {
    /// The nodes to launch.
    pub claims: Vec<PlannedClaim>,
    /// Pods that go to nodes that are there, with their nodes.
    pub on_existing: Vec<(PodId, NodeId)>,
}

impl Afresh {
    /// Dollars an hour of the nodes that are launched, each at its cheapest.
    pub fn price(&self) -> f64 {
        self.claims.iter().map(|claim| claim.price).sum()
    }
}

/// Packs the pods of these nodes as if the nodes were gone; `None` where a pod finds no place.
pub(super) fn packed(pass: &Pass<'_, '_, '_>, nodes: &[NodeId]) -> Option<Afresh> {
    let pods: Vec<PodId> = nodes.iter().flat_map(|node| pass.fleet.nodes[*node].pods.iter().copied()).collect();
    let (problem, there) = asked(pass, nodes, &pods);
    let options = Options { most_steps: None, ..super::super::options(pass.settings) };
    let packing = solve_within(&problem, &options).ok().filter(|packing| packing.unscheduled.is_empty())?;
    let mut claims = packing.claims;
    for claim in &mut claims {
        claim.pods.iter_mut().for_each(|pod| *pod = pods[*pod].index());
    }
    let taken = packing.on_existing.into_iter();
    let on_existing = taken.flat_map(|(node, own)| {
        let (pods, there) = (&pods, &there);
        own.into_iter().map(move |pod| (pods[pod], there[node]))
    });
    Some(Afresh { claims, on_existing: on_existing.collect() })
}

/// The problem: nodes that are worth their price take pods in. Others are to be replaced themselves, and count for the rules
/// between pods only.
fn asked(pass: &Pass<'_, '_, '_>, nodes: &[NodeId], pods: &[PodId]) -> (Problem, Vec<NodeId>) {
    let rules = !pass.fleet.context.topology.groups.is_empty();
    let mut out: IndexVec<NodeId, bool> = pass.fleet.nodes.iter().map(|node| node.gone).collect();
    nodes.iter().for_each(|node| out[*node] = true);
    let mut there: Vec<NodeId> = receivers(pass, true).into_iter().filter(|node| !out[*node]).collect();
    let mut existing_nodes: Vec<ExistingNode> = there.iter().map(|node| pass.node_now(*node, rules)).collect();
    if rules {
        there.iter().for_each(|node| out[*node] = true);
        for node in pass.nodes.ids().filter(|node| !out[*node]) {
            there.push(node);
            let full = ExistingNode { allocatable: Resources::new(), ..pass.node_now(node, true) };
            existing_nodes.push(full);
        }
    }
    let pods = pods.iter().map(|pod| pass.cluster.problem.pods[*pod].clone()).collect();
    let mut problem = Problem { pods, existing_nodes, ..shell(&pass.cluster.problem) };
    // Another method is for what commitments have left.
    commitments::without(&mut problem.instance_types);
    (problem, there)
}

impl Pass<'_, '_, '_> {
    /// The pods that have come to a node, in order.
    pub fn arrived(&self, at: NodeId) -> Vec<PodId> {
        let home = |pod: &PodId| self.cluster.home.get(*pod).map(|(node, _)| *node);
        let mut pods = self.fleet.nodes[at].pods.clone();
        pods.retain(|pod| home(pod) != Some(at));
        pods.sort_unstable();
        pods
    }

    /// A node with all pods that have come to it; they are listed only if `with_pods`.
    pub fn node_now(&self, at: NodeId, with_pods: bool) -> ExistingNode {
        let node = self.fleet.nodes[at].node();
        let mut node = if with_pods { node.clone() } else { bare(node) };
        for pod in self.arrived(at) {
            let own = &self.cluster.problem.pods[pod];
            let places = node.used.get(crate::resources::PODS);
            node.used.add(&own.requests);
            node.used.set(crate::resources::PODS, places.saturating_add(1));
            let missing = own.shared_volumes.iter().filter(|(name, _)| !node.volumes.contains(*name));
            for (_, resource) in missing {
                node.used.set(resource.clone(), node.used.get(resource).saturating_add(1));
            }
            node.volumes.extend(own.shared_volumes.keys().cloned());
            if with_pods {
                node.pods.push(Arc::new(own.clone()));
            }
        }
        node
    }
}
