//! Actors that keep knowledge, report it and serve it, and leader election.

mod catalogue;
mod catalogue_commitments;
mod catalogue_doubts;
pub mod cluster_watcher;
mod cluster_watches;
mod leader;
mod node_class;
mod node_class_end;
mod recorder;
mod translator;
mod webhook;
