//! Packing: nodes to launch for the pods that wait, and reasons for pods that get none.
//!
//! The problem is compiled once ([`model`]): requirements become sets of instance types and of offerings, equal pods become
//! classes, amounts become ranks. [`solve`] then fills existing nodes, plans new ones pool by pool ([`policy`]) and explains
//! what is left.

mod daemons_by_type;
mod explain;
pub(crate) mod filter;
pub(crate) mod fleet;
mod limits;
pub(crate) mod model;
mod option_price;
mod place;
mod policy;
mod rounds;

pub(crate) use daemons_by_type::DaemonsByType;
pub use explain::reason::{PoolReason, Reason, Removed, Rule};
pub use explain::warnings::warnings;
pub(crate) use filter::capacity::{AllowedCapacity, allowed_capacity, may_be_in_pool};
pub use filter::soft::{MOST_SOFT_TERMS, ignored_soft_terms};
pub(crate) use filter::topology::selector::Selector;
pub use fleet::node::node_of_claim;
pub(crate) use limits::LimitsLeft;
pub use limits::quota_use::quotas_with_plan;
pub(crate) use model::daemons::order::DaemonOrder;
pub use model::plan::{DaemonNotCounted, LaunchOption, Options, Packing, PlannedClaim};
pub use option_price::MaxOptionPrice;
pub(crate) use policy::cost::NodePrice;
pub use rounds::failure::PackingError;
pub(crate) use rounds::isolation::OWN_LABELS;
pub use rounds::isolation::{Asked, Isolated, Isolation, LeftOut, alike};
pub use rounds::steps::by_size as most_steps;
pub use rounds::{solve, solve_within};
