//! Leader election, and the actors that a replica runs while it leads.

mod catch_up;
pub mod control_plane;
mod converted;
mod fence;
pub mod leader;
mod lease_object;
pub mod messages;
