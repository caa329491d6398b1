//! Packing: which nodes to launch for the pods that wait, and why some get none.
//!
//! The problem is compiled once ([`context`]): requirements become sets of instance types and of offerings, equal
//! pods become classes, amounts become ranks. [`solve`] then fills existing nodes, plans new ones pool by pool
//! ([`cost`] or [`fewest`]) and explains what is left.

mod alternatives;
mod assign;
mod bits;
mod classes;
mod columns;
mod context;
mod cost;
mod daemons;
mod draft;
mod existing;
mod explain;
mod fewest;
mod finish;
mod item;
mod joint;
mod lessons;
mod limits;
mod node_groups;
mod offers;
mod options;
mod plan;
mod policies;
mod pools;
mod ranks;
mod reason;
mod reserved;
mod rounds;
mod shared;
mod solve;
pub(crate) mod taints;
mod tight;
mod to_come;
mod topology;
mod warnings;

pub(crate) use limits::Limits;
pub use plan::{LaunchOption, Options, Packing, PlannedClaim};
pub use reason::{PoolReason, Reason, Removed, Rule};
pub use rounds::solve;
pub(crate) use topology::groups::is_soft;
pub(crate) use topology::selector::Selector;
pub use warnings::warnings;
