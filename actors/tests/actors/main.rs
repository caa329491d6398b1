//! The actors together, in a cluster and a region of the sandbox, on virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../world/mod.rs"]
mod world;

mod adopting;
mod alone;
mod brakes;
mod drift;
mod ending;
mod fence;
mod interruption;
mod lease;
mod ownership;
mod packing;
mod path;
mod pools;
mod reading;
mod releases;
mod seam;
mod shutdown;
mod supervision;
mod translator;
mod unreadable;
mod webhook;
