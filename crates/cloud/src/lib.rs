//! The seam to a cloud, and EC2 behind it on the AWS SDK.
//!
//! - [`info`]: what DescribeInstanceTypes says, as plain data; [`shipped`]: the catalogue in the binary.
//! - [`resolve`]: from that and a node class to the instance types that packing chooses from. Pure.
//! - [`launch`]: what is asked for a NodeClaim, the filters before CreateFleet, and why it failed. Pure.
//! - [`unavailable`]: what EC2 lately refused. Pure.
//! - [`user_data`]: what an instance is told so that it becomes a node. Pure.
//! - [`cloud`]: the trait that the actors call; [`ec2`]: EC2 behind it.

pub mod catalogue;
pub mod cloud;
pub mod ec2;
pub mod error;
pub mod family;
mod hash;
pub mod info;
pub mod launch;
pub mod node_class;
pub mod resolve;
pub mod shipped;
pub mod unavailable;
pub mod user_data;

pub use cloud::{Cloud, CloudFuture, FoundInstances, Instance, MadeKind, MadeResource, QueueMessage};
pub use error::CloudError;
pub use launch::{LaunchError, LaunchErrorKind, LaunchRequest, LaunchedInstance};
