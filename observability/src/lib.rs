//! Traces, metrics, health and what an operator loads.
//!
//! - [`door`]: who may see what a cluster is like; [`health`]: whether the replica lives and is ready; [`metrics`]: what Prometheus reads; [`serve`]: these over HTTP, on a
//!   thread of their own, so that a replica that hangs can still say so.
//! - [`traces`]: spans by OTLP; [`log`]: the log's lines, for a person or for a machine.

pub mod door;
pub mod health;
pub mod log;
pub mod metrics;
pub mod serve;
pub mod traces;

pub use health::Health;
pub use metrics::Metrics;
pub use traces::Traces;
