//! Every decision of Dovetail, pure: requirements, packing, batching, election, disruption.

pub mod admission;
pub mod adoption;
pub mod budgets;
pub mod clock;
pub mod cluster_state;
pub mod collection;
pub mod disruption;
pub mod faults;
pub mod images;
pub mod instance_type;
pub mod interruption;
pub mod labels;
pub mod launch_backoff;
pub mod launch_limits;
pub mod lease;
pub mod lifecycle;
pub mod ownership;
pub mod pack;
pub mod pod;
pub mod problem;
pub mod quantity;
pub mod requirements;
pub mod resources;
pub mod shadow;
pub mod termination;
pub mod validity;
pub mod volumes;
pub mod webhook;
pub mod window;

pub use instance_type::{InstanceType, Offering, Overhead};
pub use pack::MaxOptionPrice;
pub use pod::Pod;
pub use problem::{ExistingNode, MinValuesPolicy, Policy, Pool, PreferencePolicy, Problem};
pub use requirements::{NodeSelectorRequirement, Operator, Requirement, Requirements};
pub use resources::Resources;
