//! Every decision of Dovetail, pure: no clock, no I/O, no randomness. Actors bring the known state and carry out the decisions.
//!
//! - What is known: [`cluster_state`], kept from the watches; [`pod`], [`volumes`], [`admission`], [`instance_type`].
//! - From pods to nodes: [`window`] batches, [`problem`] is what is to be packed, [`pack`] packs it, by the
//!   algebra of [`requirements`] and [`resources`].
//! - A NodeClaim's life: [`lifecycle`]; whether it may be launched: [`launch_limits`], [`launch_backoff`]; whose its instance
//!   is: [`ownership`]; when the pods that it is for are bound: [`binding`].
//! - What is paid for in any case: [`commitments`], and in [`paid_machines`] the nodes that take of them.
//! - Zones that are left alone for a while: [`zonal_shift`].
//! - Prices and resources that types have for scheduling alone: [`overlays`].
//! - Devices that pods claim, whole or in part, by dynamic resource allocation: [`dra`].
//! - Prices by which plans weigh offerings whose instances were taken back: [`interruption_prices`].
//! - Replicas of a workload that are kept off spot: [`spot_share`].
//! - Nodes whether or not pods wait: [`static_pools`]; room for pods that do not exist yet: [`buffers`],
//!   and for all pods of a group or none: [`gangs`].
//! - Nodes that go: [`disruption`] by our own decision within [`budgets`], [`interruption`] by EC2's, [`collection`] of what
//!   nobody owns, and [`termination`], by which every one of them goes; [`deletion_costs`], by which pods leave them before.
//! - Answers to an operator who asks why, from the same reasons: [`explain`].
//! - Who decides: [`lease`], the election; [`validity`] of pools, [`adoption`] from Karpenter, [`webhook`], [`shadow`].
//! - Pauses between trials, for all of them: [`pause`]; reports that are not repeated: [`say_once`].

pub mod admission;
pub mod adoption;
pub mod binding;
pub mod budgets;
pub mod buffers;
pub mod clock;
pub mod cluster_state;
pub mod collection;
pub mod commitments;
pub mod daemons;
pub mod deletion_costs;
pub mod disruption;
pub mod dra;
pub mod expendable;
pub mod explain;
pub mod faults;
pub mod gangs;
pub mod images;
pub mod instance_type;
pub mod interruption;
pub mod interruption_prices;
pub mod labels;
pub mod launch_backoff;
pub mod launch_limits;
pub mod lease;
pub mod lifecycle;
pub mod overlays;
pub mod ownership;
pub mod pack;
pub mod paid_machines;
pub mod pause;
pub mod pod;
pub mod pod_groups;
pub mod price_rise;
pub mod problem;
pub mod quantity;
pub mod quotas;
pub mod recommendations;
pub mod requirements;
pub mod resources;
pub mod say_once;
pub mod shadow;
pub mod spot_share;
pub mod static_pools;
pub mod termination;
pub mod validity;
pub mod volumes;
pub mod webhook;
pub mod window;
pub mod zonal_shift;

pub use instance_type::{InstanceType, Offering, Overhead};
pub use pack::MaxOptionPrice;
pub use pod::Pod;
pub use problem::{ExistingNode, MinValuesPolicy, Policy, Pool, PreferencePolicy, Problem};
pub use requirements::{NodeSelectorRequirement, Operator, Requirement, Requirements};
pub use resources::Resources;
