//! What is told outside of the control plane: events of the log, metrics, spans, and where they go.

pub mod journal;
pub mod measure;
pub mod span;
pub mod story;
