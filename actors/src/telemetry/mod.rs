//! Telemetry of the control plane: log events, metrics, spans, and their destinations.

pub mod journal;
mod level;
pub mod log_event;
pub mod measure;
mod names;
pub mod span;
