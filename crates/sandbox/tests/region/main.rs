//! The sandbox's EC2 region, asked by the SDK for Rust, by boto3, and in plain HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod account;
mod actions;
mod boto3;
mod sdk;
