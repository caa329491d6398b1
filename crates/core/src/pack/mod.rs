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
pub(crate) mod context;
mod cost;
mod daemons;
mod draft;
mod existing;
mod explain;
mod failure;
mod fewest;
mod finish;
pub(crate) mod fleet;
mod fold;
mod isolation;
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
mod soft;
mod solve;
mod steps;
pub(crate) mod taints;
mod tight;
mod to_come;
mod topology;
mod warnings;

pub use failure::PackingError;
pub use fleet::node::node_of_claim;
pub(crate) use isolation::OWN_LABELS;
pub use isolation::{Asked, Isolated, Isolation, LeftOut, alike};
pub(crate) use limits::Limits;
pub use plan::{LaunchOption, Options, Packing, PlannedClaim};
pub use reason::{PoolReason, Reason, Removed, Rule};
pub use rounds::{solve, solve_within};
pub use soft::{MOST_SOFT_TERMS, ignored_soft_terms};
pub use steps::by_size as most_steps;
pub(crate) use topology::groups::is_soft;
pub(crate) use topology::selector::Selector;
pub use warnings::warnings;
