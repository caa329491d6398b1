//! What the control plane emits: log events, metrics, spans, and where they go.

pub mod journal;
pub mod log_event;
pub mod measure;
pub mod span;
