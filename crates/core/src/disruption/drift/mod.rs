//! Drift: nodes that are no longer what their NodePool and EC2NodeClass ask for (core spec 5.6, aws spec 6), and their
//! replacement.
//!
//! ```text
//! claim, pool, class, types, instance ──► checks ──► condition Drifted ──► places for its pods ──► Remove
//!                                           │               ▲                     │ none, or too late
//!                                        not known: it stays as it is             └──► it stays; the pool's next try waits
//! ```
//!
//! A node drifts only when that is certain: a class that could not be read, resolved or looked up makes no node drift. A change
//! that a running node still satisfies is no drift.

mod checks;
mod known;
mod marks;
mod offered;
mod replace;
mod replacing;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use known::DriftKnowledge;
pub use marks::{DriftMark, HashStamp};
pub(super) use replace::{DriftedNode, moves_any, together};
pub(super) use replacing::Replacements;

use super::look::DisruptedClaim;
use super::own_slot::{EndedFirst, LostSlot};
use super::pool_notes::PoolNote;
use super::repair::{RebootOrder, RepairMark};

/// The reason why a node drifts: the first that holds, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftReason {
    /// The pool's template has changed.
    NodePool,
    /// The node does not satisfy the pool's requirements.
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
    /// More replicas of a workload are on spot nodes than it asks for, and this is the node whose turn it is.
    SpotShare,
}

impl DriftReason {
    /// All reasons, in the order of the checks.
    pub const ALL: [Self; 10] = [
        Self::NodePool,
        Self::Requirements,
        Self::InstanceTypeNotFound,
        Self::NodeClass,
        Self::Ami,
        Self::SecurityGroup,
        Self::Subnet,
        Self::CapacityReservation,
        Self::PlacementGroup,
        Self::SpotShare,
    ];

    /// The condition's reason.
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
            Self::SpotShare => "SpotShareDrift",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A node's drift as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    /// It drifts: the reason, and the difference.
    Is(DriftReason, String),
    /// It does not, as far as is known: these could not be checked.
    IsNot(BTreeSet<DriftReason>),
}

/// The network of an instance as the cloud describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceNetwork {
    /// Id of the subnet: `subnet-…`; empty where it is not known.
    pub subnet: String,
    /// Its security groups; none where they are not known.
    pub security_groups: BTreeSet<String>,
}

/// Networks by instance id.
pub type Networks = BTreeMap<String, InstanceNetwork>;

/// Feature gates of disruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// True if nodes that are unwell for too long are replaced.
    pub node_repair: bool,
    /// True if they are removed by force, whatever budgets say, as before Karpenter 1.15.
    pub legacy_repair: bool,
    /// True if unwell nodes are rebooted first where a restart may mend them.
    pub reboot_for_repair: bool,
    pub reserved_capacity: bool,
    /// True if static pools are held.
    pub static_capacity: bool,
    /// True if a drifted node of a static pool goes before its successor where `limits.nodes` leaves no room for both.
    pub terminate_first_drift: bool,
    /// The same for an unwell node.
    pub terminate_first_repair: bool,
    /// True if drift is off: no node drifts, and one that has the condition loses it.
    pub drift_off: bool,
}

impl Gates {
    /// True if unwell nodes are replaced within budgets.
    #[must_use]
    pub fn repairs_by_budget(&self) -> bool {
        self.node_repair && !self.legacy_repair
    }
}

/// Orders that follow from drift.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// Conditions Drifted to be written on claims.
    pub marks: Vec<DriftMark>,
    /// Hashes of this version to be written on claims.
    pub stamps: Vec<HashStamp>,
    /// Nodes whose pods need places before they go: nothing is planned on them from now on.
    pub begin: Vec<DisruptedClaim>,
    /// Conditions of repair to be written on claims: their nodes are in `begin` at a later look, once they are there.
    pub repairs: Vec<RepairMark>,
    /// Next steps of reboots.
    pub reboots: Vec<RebootOrder>,
    /// Nodes that go before their successors stand, as their only place is their own.
    pub first: Vec<EndedFirst>,
    /// Places in reservations that nodes have given up and somebody else has taken.
    pub lost: Vec<LostSlot>,
    /// Annotations of pools that are to be written for a later leader.
    pub notes: Vec<PoolNote>,
    /// Nodes that stay after all, each with the reason. Those that no place came for in time have failed.
    pub stay: Vec<UnreplacedNode>,
    /// Classes whose images have moved on by themselves.
    pub unpinned: Vec<Unpinned>,
}

/// A node that was to be replaced, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreplacedNode {
    /// The node and its claim.
    pub disrupted: DisruptedClaim,
    /// The reason, as a sentence without its end.
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
    /// The part of the selector that finds them: `name al2023-*`.
    pub selector: String,
    /// The image that nodes are to have now.
    pub image: String,
}
