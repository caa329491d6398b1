//! Whether a node is still what its NodePool and its EC2NodeClass ask for (core spec 5.6, aws spec 6), and what follows.
//!
//! ```text
//! claim, pool, class, types, instance ──► checks ──► condition Drifted ──► places for its pods ──► Remove
//!                                           │               ▲                     │ none, or too late
//!                                        not known: it stays as it is             └──► it stays; the pool's next try waits
//! ```
//!
//! A node drifts only when that is certain: what could not be read, resolved or looked up drifts nothing. What a running node
//! still satisfies is no drift.

mod checks;
mod known;
mod marks;
mod offered;
mod replace;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use known::DriftKnowledge;
pub use marks::{DriftMark, HashStamp};
pub(super) use replace::{DriftedNode, Replacements};

use super::look::DisruptedClaim;

/// Why a node drifts. The first that holds is told, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftReason {
    /// The pool's template has changed.
    NodePool,
    /// The pool requires what the node is not.
    Requirements,
    /// The node's instance type is not offered any more.
    InstanceTypeNotFound,
    /// The class's spec has changed.
    NodeClass,
    /// The class has another image for the node's instance type.
    Ami,
    /// The class has other security groups than the instance.
    SecurityGroup,
    /// The instance's subnet is none of the class's.
    Subnet,
    /// The instance's capacity reservation is none of the class's.
    CapacityReservation,
    /// The instance is in another placement group than the class's.
    PlacementGroup,
}

impl DriftReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NodePool,
        Self::Requirements,
        Self::InstanceTypeNotFound,
        Self::NodeClass,
        Self::Ami,
        Self::SecurityGroup,
        Self::Subnet,
        Self::CapacityReservation,
        Self::PlacementGroup,
    ];

    /// As the condition says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NodePool => "NodePoolDrifted",
            Self::Requirements => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
            Self::NodeClass => "NodeClassDrift",
            Self::Ami => "AMIDrift",
            Self::SecurityGroup => "SecurityGroupDrift",
            Self::Subnet => "SubnetDrift",
            Self::CapacityReservation => "CapacityReservationDrift",
            Self::PlacementGroup => "PlacementGroupDrift",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What is known of a node's drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    /// It drifts, and in what.
    Is(DriftReason, String),
    /// It does not, as far as is known: these could not be checked.
    IsNot(BTreeSet<DriftReason>),
}

/// What the cloud says of an instance's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceNetwork {
    /// `subnet-…`; empty where it is not known.
    pub subnet: String,
    /// Its security groups; none where they are not known.
    pub security_groups: BTreeSet<String>,
}

/// By instance id.
pub type Networks = BTreeMap<String, InstanceNetwork>;

/// What of disruption is behind gates, and on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// NodeRepair.
    pub node_repair: bool,
    /// ReservedCapacity.
    pub reserved_capacity: bool,
    /// Drift is off: no node drifts, and one that has the condition loses it.
    pub drift_off: bool,
}

/// What is to be done about drift.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// To be written on claims: the condition Drifted.
    pub marks: Vec<DriftMark>,
    /// To be written on claims: hashes of this version.
    pub stamps: Vec<HashStamp>,
    /// Nodes whose pods need places before they go: nothing is planned on them from now on.
    pub begin: Vec<DisruptedClaim>,
    /// Nodes that stay after all, each with why. Those that no place came for, and not in time, have failed.
    pub stay: Vec<UnreplacedNode>,
    /// Classes whose images have moved on by themselves.
    pub unpinned: Vec<Unpinned>,
}

/// A node that was to be replaced, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreplacedNode {
    /// Which.
    pub disrupted: DisruptedClaim,
    /// Why.
    pub why: String,
    /// Seconds until the pool's next node is tried, where this one has failed.
    pub pause: Option<i64>,
}

/// A class that nodes drift by because its selector finds other images than before, as nobody has chosen them one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpinned {
    /// The class's name.
    pub class: String,
    /// The class's uid: another class may have had the name before.
    pub uid: String,
    /// What finds them: `name al2023-*`.
    pub selector: String,
    /// The image that nodes are to have now.
    pub image: String,
}
