//! From a pod that waits to the node that it gets.

mod batcher;
mod buffers;
mod devices;
mod gangs;
mod launcher;
mod launcher_ceilings;
mod launcher_merging;
mod launcher_refusals;
mod launcher_trials;
mod packer;
mod packer_trouble;
mod pod_groups;
mod pod_watcher;
mod registrar;
mod registrar_after;
mod registrar_gives_up;
mod registrar_places;
mod registrar_refusals;
