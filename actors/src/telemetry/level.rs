//! Levels of log events.

/// The level of a log event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// A normal event.
    Info,
    /// Something is wrong, and Dovetail continues.
    Warn,
    /// An operator has to act.
    Error,
}
