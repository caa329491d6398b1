//! The control plane, a cluster and a region in one process, on virtual time: what is played, what goes wrong in it, and what must hold in every run.
//!
//! - [`World`]: a cluster, a region, and replicas of the control plane in it; [`Action`]: what can happen to them.
//! - [`play_file`]: a scenario file to its end, and its [`Report`]; [`random`]: scenarios drawn from seeds; [`shrink()`]: what a
//!   scenario that fails is cut down to.
//! - [`record`]: a cluster's day as lines, and how it is played again.
//! - [`shadow`]: the control plane in a copy of a cluster in which another provisioner is at work.

mod invariants;
mod play;
pub mod random;
pub mod record;
mod report;
mod rounding;
mod scenario;
mod settled;
pub mod shadow;
mod shrink;
mod world;

pub use play::{CostSoFar, MetricsWritten, PlayOptions, Played, Progress, play_file};
pub use report::Report;
pub use shrink::{Shrunk, shrink};
pub use world::{Action, Broken, ClaimsDeleted, JournalLine, ReplicaRef, Skew, Timeline, Watcher, World, WorldConfig};
