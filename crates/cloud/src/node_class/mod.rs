//! Resolution of a node class, whatever cloud did the resolving.

use dovetail_api::v1::{Ami, CapacityReservation, EC2NodeClassStatus, PlacementGroup, SecurityGroup, Subnet};

use crate::resolve::{SubnetView, subnet_views_of};

/// The outcome of resolving a node class, ready to become its status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeClassResolution {
    /// By free addresses descending, then id.
    pub subnets: Vec<Subnet>,
    /// By id.
    pub security_groups: Vec<SecurityGroup>,
    /// Newest first; an instance type takes the first whose requirements agree.
    pub amis: Vec<Ami>,
    /// By id.
    pub reservations: Vec<CapacityReservation>,
    /// Name of the instance profile; empty when there is none yet.
    pub instance_profile: String,
    /// The placement group of its instances.
    pub placement_group: Option<PlacementGroup>,
    /// One finding for each condition of the class, in the order in which the spec lists them.
    pub conditions: Vec<Finding>,
}

/// A finding on one part of a node class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `SubnetsReady`.
    pub condition: &'static str,
    /// True, False, or not known because a call failed.
    pub status: Option<bool>,
    /// `SubnetsNotFound`; the condition's name when it is true.
    pub reason: String,
    /// For a person.
    pub message: String,
}

impl Finding {
    /// All is well.
    pub fn ready(condition: &'static str) -> Self {
        Self { condition, status: Some(true), reason: condition.to_owned(), message: String::new() }
    }

    /// It is known to be wrong.
    pub fn not_ready(condition: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { condition, status: Some(false), reason: reason.to_owned(), message: message.into() }
    }

    /// It could not be found out.
    pub fn unknown(condition: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { condition, status: None, reason: reason.to_owned(), message: message.into() }
    }
}

impl NodeClassResolution {
    /// Instances of this class can be launched.
    pub fn is_ready(&self) -> bool {
        self.conditions.iter().all(|f| f.status == Some(true))
    }

    /// Writes what was resolved into a status; conditions are the caller's, who knows the time.
    pub fn write_to(&self, status: &mut EC2NodeClassStatus) {
        status.subnets.clone_from(&self.subnets);
        status.security_groups.clone_from(&self.security_groups);
        status.amis.clone_from(&self.amis);
        status.capacity_reservations.clone_from(&self.reservations);
        status.instance_profile.clone_from(&self.instance_profile);
        status.placement_group.clone_from(&self.placement_group);
    }
}

/// The subnets of a class's status as instance types depend on them.
pub fn subnet_views(status: &EC2NodeClassStatus) -> Vec<SubnetView> {
    subnet_views_of(&status.subnets)
}
