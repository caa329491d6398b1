//! Places at which pods are expected, or not: nominations, places kept for pods, nodes and pools that are left out.

mod bookings;
pub(super) mod closed_pools;
pub(super) mod expendable;
pub(super) mod held_room;
pub(super) mod kept_off;
pub(super) mod kept_places;
pub(super) mod nomination_index;
pub(super) mod nominations;
pub(super) mod pod_groups;
mod refusals;
pub(super) mod refused;
pub(super) mod refused_places;
mod sick_places;
pub(super) mod spot_share;
pub(super) mod verdicts;
