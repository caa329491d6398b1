//! Which nodes a pod may be on: the rules of kube-scheduler, one after the other.

pub(in crate::pack) mod alternatives;
pub(in crate::pack) mod joint;
pub(in crate::pack) mod shared;
pub(in crate::pack) mod soft;
pub(crate) mod taints;
pub(in crate::pack) mod topology;
