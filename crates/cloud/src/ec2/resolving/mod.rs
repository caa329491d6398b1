//! Resolving a node class: images, subnets, security groups, profile, and the findings of its conditions.

pub(super) mod authorization;
pub(super) mod contradictions;
pub(super) mod images;
pub(super) mod network;
pub(super) mod node_class;
pub(super) mod placement;
pub(super) mod profile;
pub(super) mod reservations;
pub(super) mod selectors;
pub(super) mod validation;
