//! What every actor has: its clock, settings, term, journal, mailbox and back-off.

pub mod backoff;
pub(crate) mod env;
pub mod identities;
pub(crate) mod leader_term;
pub(crate) mod mailbox;
pub(crate) mod measures;
pub(crate) mod outage;
pub(crate) mod plan;
pub mod solver;
pub(crate) mod traces;
