//! Packing: which nodes to launch for the pods that wait, and why some get none.

mod plan;
mod reason;

pub use plan::{LaunchOption, Options, Packing, PlannedClaim};
pub use reason::{PoolReason, Reason, Removed, Rule};
