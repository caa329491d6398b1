//! The API server: calls, what is written to NodeClaims, Nodes and node classes, evictions, and watches; and what is polled only
//! when it was woken, as calls are that an actor has many of.

pub mod calls;
pub mod claims;
pub mod evict;
pub mod failure;
pub mod known;
mod listing;
pub mod node_classes;
pub mod nodes;
mod refusal;
pub mod served;
pub mod watch;
pub mod woken;
