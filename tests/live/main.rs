//! Tests in real time on the embedded cluster: `dovetail sandbox` with kubectl and the console, and `dovetail run`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod account;
mod clusters;
mod console;
mod doctor;
mod explain;
mod kubectl;
mod moto;
mod record;
mod run;
mod sandbox;
mod savings;
mod stub;
mod top;
