//! A Kubernetes API server and an EC2 region in one process, on a clock that can be paused.

pub mod apiserver;
pub mod clock;
pub mod cluster;
pub mod faults;
pub mod log;
pub mod region;

pub use log::Caller;
