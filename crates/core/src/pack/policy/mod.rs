//! Nodes that a pool gets for its pods: one file or folder a policy.

pub(in crate::pack) mod cost;
pub(in crate::pack) mod fewest;
pub(in crate::pack) mod node_groups;
pub(in crate::pack) mod policies;
