//! The cluster's own controllers, scheduler and kubelets.
