//! Pods on nodes: which pool takes them, what is there already, what a planned node holds.

pub(in crate::pack) mod assign;
pub(in crate::pack) mod existing;
pub(in crate::pack) mod finish;
pub(in crate::pack) mod planned_node;
pub(in crate::pack) mod to_come;
