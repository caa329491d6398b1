//! The built-in kinds: their defaults, their checks, and what an update may not change.

pub(super) mod amounts;
pub(super) mod budgets;
pub(super) mod builtin;
pub(super) mod defaults;
pub(super) mod forms;
pub(super) mod keep;
pub(super) mod pod_defaults;
pub(super) mod typed;
pub(super) mod validate;
