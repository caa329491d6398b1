//! A Kubernetes API server and an EC2 region in one process, on a clock that can be paused.
//!
//! - [`apiserver`]: the API server, a store on one lock; a request goes to its `handler`.
//! - [`cluster`]: what makes a cluster of it: controllers, the scheduler, and a kubelet for each instance.
//! - [`region`]: EC2, SQS, SSM, Pricing, IAM, EKS and STS on AWS' wire protocols.
//! - [`faults`], `node_faults`, [`spoilt`]: what goes wrong with calls, with nodes that join, and with objects.
//! - [`clock`]: virtual and real clocks; [`log`]: everything that happened, in order; [`cpu`]: what answers cost.
//!
//! It knows nothing of Dovetail's decisions: what it does is what Kubernetes and AWS document.

pub mod apiserver;
pub mod clock;
pub mod cluster;
pub mod cpu;
mod detached;
pub mod faults;
mod globs;
pub mod log;
mod node_faults;
mod percent;
pub mod region;
pub mod spoilt;

pub use log::Caller;
