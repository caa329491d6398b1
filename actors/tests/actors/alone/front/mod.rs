//! From a pod that waits to the node that it gets.

mod batcher;
mod launcher;
mod packer;
mod pod_watcher;
mod registrar;
