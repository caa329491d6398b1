//! Who keeps what is known, said and served, and who leads.

mod catalogue;
mod cluster_watcher;
mod leader;
mod node_class;
mod recorder;
mod webhook;
