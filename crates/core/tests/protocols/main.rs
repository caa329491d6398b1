//! The election and the launch: histories that are drawn, and every history up to a horizon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

mod election;
mod launch_model;
mod launch_protocol;
mod model;
