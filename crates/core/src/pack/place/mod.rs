//! Pods on nodes: the choice of a pool, nodes that are there already, and nodes that are planned.

pub(in crate::pack) mod assign;
pub(in crate::pack) mod existing;
pub(in crate::pack) mod finish;
pub(in crate::pack) mod planned_node;
pub(in crate::pack) mod to_come;
pub(in crate::pack) mod zone_balance;
