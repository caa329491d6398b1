//! Traces, metrics, health and what an operator loads.
//!
//! - [`access`]: who may see what a cluster is like; [`health`]: whether the replica lives and is ready; [`metrics`]: what Prometheus reads; [`serve`]: these over HTTP, each on a
//!   thread of its own, so that a replica that hangs can still say so; [`places`]: whose connection goes when there are too many;
//!   [`reviews`]: what an API server has converted, over HTTPS.
//! - [`traces`]: spans by OTLP; [`log`]: the log's lines, for a person or for a machine.

pub mod access;
pub mod health;
pub mod log;
pub mod metrics;
pub mod places;
pub mod reviews;
pub mod serve;
pub mod traces;

pub use health::Health;
pub use metrics::Metrics;
pub use serve::Pages;
pub use traces::Traces;
