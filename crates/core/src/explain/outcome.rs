//! The place that packing has for one pod.

use serde::Serialize;

use crate::pack::Packing;
use crate::problem::Problem;

/// Most instance types that are named.
const MOST_TYPES_NAMED: usize = 5;

/// A place for a pod, as packing finds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Placement {
    /// A node that is there or on its way.
    Existing {
        /// Name of the Node, or of the NodeClaim while there is none.
        node: String,
    },
    /// A node that would be launched.
    New {
        pool: String,
        /// The cheapest instance types, cheapest first.
        instance_types: Vec<String>,
        /// Number of instance types that it may be.
        options: usize,
        zone: String,
        capacity_type: String,
        /// Dollars an hour of the cheapest.
        price: f64,
    },
}

impl Placement {
    /// The place of the pod at this index; `None` if it gets none.
    #[must_use]
    pub fn for_pod(problem: &Problem, packing: &Packing, pod: usize) -> Option<Self> {
        if let Some((node, _)) = packing.on_existing.iter().find(|(_, pods)| pods.contains(&pod)) {
            return Some(Self::Existing { node: problem.existing_nodes.get(*node)?.name.clone() });
        }
        let claim = packing.claims.iter().find(|claim| claim.pods.contains(&pod))?;
        let name = |at: usize| problem.instance_types.get(at).map(|one| one.name.clone());
        Some(Self::New {
            pool: problem.node_pools.get(claim.pool)?.name.clone(),
            instance_types: claim
                .options
                .iter()
                .take(MOST_TYPES_NAMED)
                .filter_map(|option| name(option.instance_type))
                .collect(),
            options: claim.options.len(),
            zone: claim.cheapest_zone.clone(),
            capacity_type: claim.cheapest_capacity_type.clone(),
            price: claim.price,
        })
    }

    /// The place as the end of a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Existing { node } => format!("it fits on {node}"),
            Self::New { pool, instance_types, options, zone, capacity_type, price } => {
                let first = instance_types.first().map_or("node", String::as_str);
                let more = options.saturating_sub(1);
                let others = if more > 0 { format!(" or one of {more} other types") } else { String::new() };
                format!(
                    "nodepool {pool} launches a {first}{others}, {capacity_type} in {zone}, from ${price:.4} an hour"
                )
            }
        }
    }
}
