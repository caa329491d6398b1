//! A Kubernetes API server and an EC2 region in one process, on a clock that can be paused.

pub mod apiserver;
pub mod clock;
pub mod cluster;
mod detached;
pub mod faults;
mod globs;
pub mod log;
mod node_faults;
pub mod region;
pub mod spoilt;

pub use log::Caller;
