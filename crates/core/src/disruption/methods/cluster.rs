//! Input of consolidation: the cluster as packing sees it, with what disruption knows of each node and pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::ConsolidationPolicy;
use jiff::Timestamp;

use super::bill::ClusterBill;
use crate::dra::DeviceQuestion;
use crate::labels;
use crate::pack::model::ids::{IndexVec, NodeId, PodId};
use crate::pod::Pod;
use crate::problem::{Policy, Problem};

/// The cluster at one moment. Its builder has counted pods that wait, and are expected on a node, among what is used there.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// Pools, types and nodes. Its pods are those that may move, in the order of the nodes; they are on their nodes as well.
    pub(super) problem: Problem,
    /// States of the existing nodes, in the problem's order.
    pub(super) nodes: Vec<NodeState>,
    /// States of the pools, in the problem's order.
    pub(super) pools: Vec<PoolState>,
    /// PodDisruptionBudgets, which pods name by their index here.
    pub(super) pdbs: Vec<PodBudget>,
    /// The node of each pod of the problem, and the pod's place among that node's pods.
    pub(super) home: IndexVec<PodId, (NodeId, usize)>,
    /// Savings Plans and Reserved Instances, where they count.
    pub(super) bill: Option<ClusterBill>,
    /// Devices, where they count and pods claim any.
    pub(super) devices: Option<Arc<DeviceQuestion>>,
    /// The node whose pods' places are those that have the devices they claim.
    pub(super) placed: Option<NodeId>,
}

/// State of a node for disruption, beside what packing knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState {
    /// Its pool, by its index in the problem; `None` where no pool manages it.
    pub pool: Option<usize>,
    /// The reason that keeps it, in words: an annotation, a pod's, a PodDisruptionBudget, that it is leaving.
    pub held: Option<String>,
    /// True if `consolidateAfter` has passed since its last pod event.
    pub consolidatable: bool,
    /// Time at which it was initialized; unknown counts as long ago.
    pub initialized: Option<Timestamp>,
    /// Time for which questions have found without a break that it could go, and that this has yet to pay.
    pub spare: Duration,
    /// True if it was moved, or was to be moved, into a capacity reservation within the last hour.
    pub reserved_lately: bool,
    pub expires: Option<Timestamp>,
    /// States of its pods, in the problem's order.
    pub pods: Vec<PodState>,
}

/// State of a pod for disruption, beside what packing knows.
#[derive(Clone, Debug, PartialEq)]
pub struct PodState {
    /// True if it needs another node when its own goes: no DaemonSet's, and no mirror pod.
    pub moves: bool,
    /// Cost of its eviction ([`crate::pod::eviction_cost`]).
    pub cost: f64,
    /// Time at which it was moved last to save money.
    pub moved: Option<Timestamp>,
    /// Time at which a pod that runs to its end has begun.
    pub begun: Option<Timestamp>,
    /// The PodDisruptionBudget that covers it.
    pub pdb: Option<usize>,
}

impl Default for PodState {
    fn default() -> Self {
        Self { moves: true, cost: 1.0, moved: None, begun: None, pdb: None }
    }
}

/// State of a pool for disruption, beside what packing knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolState {
    /// Consolidation policy: the nodes that consolidation looks at.
    pub policy: ConsolidationPolicy,
    /// True if it consolidates at all: it is not static, and `consolidateAfter` is not `Never`.
    pub consolidates: bool,
    /// Number of further empty nodes that its budgets allow to go now; any number if `None`.
    pub empty: Option<usize>,
    /// Number of further underutilized nodes that its budgets allow to go now; any number if `None`.
    pub underutilized: Option<usize>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodBudget {
    /// Namespace and name.
    pub name: String,
    /// Number of its pods that may be evicted now.
    pub allowed: u32,
}

impl ClusterView {
    /// A cluster of these nodes and pools; states that are missing are the default ones.
    #[must_use]
    pub fn new(
        mut problem: Problem,
        mut nodes: Vec<NodeState>,
        mut pools: Vec<PoolState>,
        pdbs: Vec<PodBudget>,
    ) -> Self {
        nodes.resize(problem.existing_nodes.len(), NodeState::default());
        pools.resize(problem.node_pools.len(), PoolState::default());
        let mut home = IndexVec::new();
        problem.pods.clear();
        for (at, (node, state)) in problem.existing_nodes.iter().zip(&mut nodes).enumerate() {
            state.pods.resize(node.pods.len(), PodState::default());
            for (which, pod) in node.pods.iter().enumerate().filter(|(which, _)| state.pods[*which].moves) {
                home.push((NodeId::from(at), which));
                problem.pods.push(Pod::clone(pod));
            }
        }
        Self { problem, nodes, pools, pdbs, home, bill: None, devices: None, placed: None }
    }

    /// The same cluster with the devices that pods of it claim.
    #[must_use]
    pub fn with_devices(self, devices: Option<DeviceQuestion>) -> Self {
        Self { devices: devices.map(Arc::new), ..self }
    }

    /// The nodes of a workload file, all of which may be consolidated as far as nothing in it forbids. Node and pool belong
    /// together by the label `karpenter.sh/nodepool`.
    #[must_use]
    pub fn of_workload(problem: Problem) -> Self {
        let by_name: BTreeMap<&str, usize> =
            problem.node_pools.iter().enumerate().map(|(at, pool)| (pool.name.as_str(), at)).collect();
        let pool =
            |own: &BTreeMap<String, String>| own.get(labels::NODE_POOL).and_then(|name| by_name.get(name.as_str()));
        let state = |node: &crate::ExistingNode| NodeState {
            pool: pool(&node.labels).copied(),
            held: (!node.initialized).then(|| "it is not initialized".to_owned()),
            consolidatable: true,
            ..NodeState::default()
        };
        let nodes = problem.existing_nodes.iter().map(state).collect();
        let pools = vec![
            PoolState {
                policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
                consolidates: true,
                ..PoolState::default()
            };
            problem.node_pools.len()
        ];
        Self::new(problem, nodes, pools, vec![])
    }

    /// The problem as packing sees it. Its pods are those that may move.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Takes the problem out of the cluster.
    #[must_use]
    pub fn into_problem(self) -> Problem {
        self.problem
    }

    #[must_use]
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
    }

    #[must_use]
    pub fn pools(&self) -> &[PoolState] {
        &self.pools
    }

    /// The node on which a pod of the problem is.
    #[must_use]
    pub fn home(&self, pod: usize) -> usize {
        self.home[PodId::from(pod)].0.index()
    }

    pub(super) fn pod(&self, pod: PodId) -> &PodState {
        let (node, which) = self.home[pod];
        &self.nodes[node.index()].pods[which]
    }

    pub(super) fn packing(&self, pool: usize) -> Policy {
        self.problem.node_pools[pool].policy
    }
}
