//! Who leads, and what a replica runs while it does.

mod catch_up;
pub mod control_plane;
mod converted;
mod fence;
pub mod leader;
mod lease_object;
pub mod messages;
