//! Rules by which a pod may be on a node: those of kube-scheduler, a file or a folder each. `place` applies them to new nodes
//! and to those that are there, `model` to DaemonSets and classes, and `explain` says which one keeps a pod waiting.

pub(in crate::pack) mod alternatives;
pub(in crate::pack) mod capacity;
pub(in crate::pack) mod joint;
pub(in crate::pack) mod shared;
pub(in crate::pack) mod soft;
pub(crate) mod taints;
pub(in crate::pack) mod topology;
