//! What is told outside of the control plane: events of the log, metrics, spans, and where they go.

pub mod journal;
pub mod log_event;
pub mod measure;
pub mod span;
