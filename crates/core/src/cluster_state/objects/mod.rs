//! Entries of each kind of object: nodes, claims, pods, and the pods on nodes.

pub(super) mod budget;
pub(super) mod claim;
pub(super) mod daemon;
pub(super) mod load;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod pod_parts;
pub(super) mod reboot;
pub(super) mod workload;
