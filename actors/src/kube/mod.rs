//! The API server: calls, what is written to NodeClaims and Nodes, evictions, and watches.

pub(crate) mod calls;
pub(crate) mod claims;
pub(crate) mod evict;
pub(crate) mod failure;
pub(crate) mod nodes;
mod refusal;
pub(crate) mod watch;
mod woken;
