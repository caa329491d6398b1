//! The commands from outside: what they say, what they refuse, and what the texts around them promise. Each test starts the
//! binary, or reads files of the repository; none needs a cluster beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod bad_scenarios;
mod buffers;
mod cases_plan;
mod chart;
mod chart_values;
mod contract;
mod convert;
mod devices;
mod doctor;
mod effects;
mod explain;
mod files;
mod habits;
mod option_prices;
mod overlays;
mod plan;
mod pod_groups;
mod quotas;
mod random_lines;
mod readme;
mod record;
mod savings;
mod settings;
mod shadow;
mod static_pools;
mod web;
mod what_if;
