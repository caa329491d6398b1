//! Surroundings that every actor has: its clock, settings, term, journal, mailbox and back-off.

pub mod alarms;
pub mod backoff;
pub(crate) mod book;
pub(crate) mod brakes;
pub mod cluster_clock;
pub mod env;
pub mod identities;
pub mod leader_term;
pub mod mailbox;
pub(crate) mod measures;
pub mod outage;
pub(crate) mod plan;
pub mod solver;
pub(crate) mod traces;

pub(crate) use alarms::looks;
pub(crate) use brakes::{refusals, statuses};
