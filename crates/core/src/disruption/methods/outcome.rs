//! The settled cluster as a plan of all its pods, as if they were packed afresh: what a checker of plans can read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::ClusterView;
use super::pass::priced;
use crate::labels;
use crate::pack::{LaunchOption, Packing, PlannedClaim};
use crate::pod::Pod;
use crate::problem::{ExistingNode, Problem};
use crate::requirements::NodeSelectorRequirement;
use crate::resources::{PODS, Resources};

impl ClusterView {
    /// A cluster of the nodes that a packing plans, each at its cheapest, and of nothing else. All that is missing of their
    /// states is as in [`ClusterView::of_workload`].
    #[must_use]
    pub fn of_packing(problem: &Problem, packing: &Packing) -> Self {
        let node = |(at, claim): (usize, &PlannedClaim)| {
            let mut node = crate::pack::node_of_claim(problem, claim, format!("node-{at:05}"))?;
            for pod in claim.pods.iter().map(|pod| &problem.pods[*pod]) {
                node.used.add(&pod.requests);
                node.pods.push(Arc::new(pod.clone()));
            }
            node.used.set(PODS, claim.pods.len() as i64);
            Some(node)
        };
        let existing_nodes = packing.claims.iter().enumerate().filter_map(node).collect();
        Self::of_workload(Problem { existing_nodes, ..super::settle::shell(problem) })
    }

    /// All its pods, and a plan of them: a claim with one option for each node of a pool, of a type that is known. Other
    /// nodes stay what they are.
    #[must_use]
    pub fn as_plan(&self) -> (Problem, Packing) {
        let (mut pods, mut packing) = (Vec::new(), Packing::default());
        let mut others: Vec<ExistingNode> = Vec::new();
        for (at, node) in self.problem.existing_nodes.iter().enumerate() {
            let first = pods.len();
            pods.extend(node.pods.iter().map(|pod| Pod::clone(pod)));
            let here: Vec<usize> = (first..pods.len()).collect();
            match self.claim_of(at, here.clone()) {
                // A claim is for pods: an empty node costs something, and there is no plan with it.
                Some(claim) if !claim.pods.is_empty() => packing.claims.push(claim),
                Some(_) => {}
                None => {
                    packing.on_existing.push((others.len(), here));
                    others.push(bare(node));
                }
            }
        }
        packing.sum_prices();
        packing.expected_price = packing.total_price;
        (Problem { pods, existing_nodes: others, ..super::settle::shell(&self.problem) }, packing)
    }

    fn claim_of(&self, at: usize, pods: Vec<usize>) -> Option<PlannedClaim> {
        let node = &self.problem.existing_nodes[at];
        let pool = self.nodes[at].pool?;
        let (instance_type, price) = priced(&self.problem, at);
        let instance_type = instance_type?;
        let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
        let mut requests = Resources::new();
        node.pods.iter().for_each(|pod| requests.add(&pod.requests));
        requests.set(PODS, pods.len() as i64);
        let decided = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE];
        let mut requirements: BTreeMap<String, NodeSelectorRequirement> = decided
            .into_iter()
            .map(|key| (key.to_owned(), NodeSelectorRequirement::one_of(key, [label(key)])))
            .collect();
        let of_pool = self.problem.node_pools[pool].requirements.iter();
        of_pool.for_each(|said| _ = requirements.entry(said.key.clone()).or_insert_with(|| said.clone()));
        Some(PlannedClaim {
            pool,
            pods,
            requests,
            requirements: requirements.into_values().collect(),
            min_values_relaxed: false,
            options: vec![LaunchOption { instance_type, price }],
            too_dear: 0,
            cheapest_zone: label(labels::ZONE),
            cheapest_capacity_type: label(labels::CAPACITY_TYPE),
            price,
        })
    }
}

/// A node without its pods.
fn bare(node: &ExistingNode) -> ExistingNode {
    let mut bare = ExistingNode { pods: vec![], ..node.clone() };
    for pod in &node.pods {
        bare.used.sub(&pod.requests);
    }
    bare.used.set(PODS, bare.used.get(PODS).saturating_sub(node.pods.len() as i64));
    bare
}
