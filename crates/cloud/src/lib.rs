//! The seam to a cloud, and EC2 behind it on the AWS SDK.
//!
//! - [`info`]: what DescribeInstanceTypes says, as plain data; [`shipped`]: the catalogue in the binary.
//! - [`resolve`]: from that and a node class to the instance types that packing chooses from. Pure.
//! - [`unavailable`]: what EC2 lately refused. Pure.

pub mod catalogue;
pub mod family;
pub mod info;
pub mod resolve;
pub mod shipped;
pub mod unavailable;
