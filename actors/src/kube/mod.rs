//! The API server: calls, what is written to NodeClaims and Nodes, evictions, and watches.

pub mod calls;
pub mod claims;
pub mod evict;
pub mod failure;
pub mod nodes;
mod refusal;
pub mod watch;
mod woken;
