//! Who keeps what is known, said and served.

mod catalogue;
mod cluster_watcher;
mod node_class;
mod recorder;
