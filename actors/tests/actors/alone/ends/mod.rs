//! Ends of nodes: by EC2's announcement, by our own decision, or as nobody owns them.

mod commands;
mod disruptor;
mod drains;
mod interrupted;
mod interruption;
mod janitor;
mod owner;
mod status_checks;
mod terminator;
mod terminator_reasons;
mod terminator_refusals;
mod terminator_trouble;
