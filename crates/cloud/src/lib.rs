//! The seam to a cloud, and EC2 behind it on the AWS SDK.
//!
//! - [`info`]: what DescribeInstanceTypes says, as plain data; [`shipped`]: the catalogue in the binary.
//! - [`ec2::resolve`]: from that and a node class to the instance types that packing chooses from. Pure.
//! - [`launch`]: what is asked for a NodeClaim, the filters before CreateFleet, and why it failed. Pure.
//! - [`unavailable`]: what EC2 lately refused. Pure.
//! - [`token_bucket`]: how often something may be asked. Pure.
//! - [`ec2::user_data`]: what an instance is told so that it becomes a node. Pure.
//! - [`recorder`]: what is asked of AWS, written down while tests run.
//! - [`cloud`]: the traits that the actors call, one a concern; [`ec2`]: EC2 behind them; [`kwok`]: nodes without machines.

pub mod catalogue;
pub mod cloud;
pub mod ec2;
pub mod error;
mod hash;
pub mod info;
pub mod kwok;
pub mod launch;
pub mod node_class;
pub mod recorder;
pub mod shipped;
pub mod token_bucket;
pub mod unavailable;

pub use ec2::{family, resolve, user_data};

pub use cloud::{
    Cloud, CloudFuture, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances,
    Instance, LaunchPace, LaunchRoom, MadeKind, MadeResource, QueueMessage, WholeTypes,
};
pub use error::CloudError;
pub use launch::{FleetKey, LaunchError, LaunchErrorKind, LaunchRequest, LaunchedFleet, LaunchedInstance};

/// The seam's traits, for whoever has a cloud by its own type and calls it.
pub mod prelude {
    pub use crate::cloud::{
        CloudIdentity as _, CloudInstances as _, CloudNodeClasses as _, CloudOfferings as _, CloudQueue as _,
    };
}
