//! The instance types on which DaemonSets count, by pool, as packing has it for nodes to come: what of a plan was counted for a
//! type counts on the nodes of that type too.

use std::collections::BTreeMap;

use super::model::bits::Bits;
use super::model::context::Context;
use super::model::ids::InstanceTypeId;
use super::model::plan::Options;
use crate::problem::Problem;

/// The DaemonSets on a pool's types.
#[derive(Debug)]
struct OfPool {
    /// The pool's types, by name.
    types: BTreeMap<String, InstanceTypeId>,
    /// The types on which a DaemonSet counts, by its index.
    counted: BTreeMap<usize, Bits>,
}

/// The DaemonSets on the types of all pools, by the pool's name.
#[derive(Debug, Default)]
pub(crate) struct DaemonsByType(BTreeMap<String, OfPool>);

impl DaemonsByType {
    /// Compiles the pools of a problem for those of its DaemonSets that count, given in their order. Empty if that takes too much
    /// work.
    pub fn from_problem(problem: &Problem, counted: &[usize]) -> Self {
        let alone = Problem {
            node_pools: problem.node_pools.clone(),
            instance_types: problem.instance_types.clone(),
            daemon_pods: counted.iter().map(|daemon| problem.daemon_pods[*daemon].clone()).collect(),
            daemon_share: problem.daemon_share,
            namespaces: problem.namespaces.clone(),
            well_known_labels: problem.well_known_labels.clone(),
            ..Problem::default()
        };
        let options = Options::default();
        let Ok(context) = Context::new(&alone, &options) else { return Self::default() };
        let pool = |view: &super::model::pools::PoolView| {
            let name = |at: InstanceTypeId| (alone.instance_types[at].name.clone(), at);
            let types = view.types.iter().map(name).collect();
            let counted = view.daemons.types_by_daemon().map(|(nth, types)| (counted[nth], types.clone())).collect();
            (alone.node_pools[view.index].name.clone(), OfPool { types, counted })
        };
        Self(context.pools.iter().map(pool).collect())
    }

    /// True if a DaemonSet, by index, counts on a pool's nodes of a type; `None` if the pool or the type is unknown.
    pub fn counts(&self, pool: &str, instance_type: &str, daemon: usize) -> Option<bool> {
        let pool = self.0.get(pool)?;
        let at = *pool.types.get(instance_type)?;
        Some(pool.counted.get(&daemon).is_some_and(|types| types.has(at)))
    }
}
