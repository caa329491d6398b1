//! The seam to EC2 against scripted answers of the SDK, and the catalogue that ships with the binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../script/mod.rs"]
mod script;

mod authorization;
mod karpenters;
mod kwok;
mod launch;
mod placement;
mod profile;
mod region;
mod requests;
mod reserved;
mod workload;
