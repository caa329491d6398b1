//! Telemetry of the control plane: log events, metrics, spans, and their destinations.

pub mod journal;
pub mod log_event;
pub mod measure;
pub mod span;
