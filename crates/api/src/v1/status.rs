//! Status of an EC2NodeClass (aws spec 1.3).

use k8s_openapi::{
    api::core::v1::NodeSelectorRequirement as CoreRequirement,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use serde::{Deserialize, Serialize};

/// The resources of AWS that an EC2NodeClass resolves to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// By free addresses descending, then id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// By id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Newest first; an instance type takes the first whose requirements agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Name of the profile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance_profile: String,
    /// Reservations that may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// The group that instances are launched in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<PlacementGroup>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// `subnet-…`.
    pub id: String,
    /// Its Availability Zone: `us-east-1a`.
    pub zone: String,
    /// The zone's id.
    #[serde(default, rename = "zoneID", skip_serializing_if = "String::is_empty")]
    pub zone_id: String,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// `sg-…`.
    pub id: String,
    /// `GroupName` in EC2; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ami {
    /// `ami-…`.
    pub id: String,
    /// True if its owner advises against it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// As its owner has called it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Requirements on an instance type that runs it.
    pub requirements: Vec<CoreRequirement>,
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Its Availability Zone: `us-east-1a`.
    pub availability_zone: String,
    /// Time at which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// `cr-…`.
    pub id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// Its instance type.
    pub instance_type: String,
    /// Account that owns it.
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    /// `default` or `capacity-block`.
    #[serde(default = "default_type")]
    pub reservation_type: String,
    /// True if its owner may take it back.
    #[serde(default)]
    pub interruptible: bool,
    /// `active` or `expiring`.
    #[serde(default = "active")]
    pub state: String,
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementGroup {
    /// `pg-…`.
    pub id: String,
    /// `GroupName` in EC2.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// Number of partitions; none unless its strategy is `partition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_count: Option<u32>,
    /// The Availability Zone that its instances are in, where that binds the next one: strategy `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl PlacementGroup {
    /// True if all its instances have to be in one zone.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.strategy == "cluster"
    }

    /// Its partitions, from 1; none unless its strategy is `partition`.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.partition_count.filter(|_| self.strategy == "partition").unwrap_or(0)
    }

    /// The same as values of a node's label.
    #[must_use]
    pub fn partition_labels(&self) -> Vec<String> {
        self.partitions().map(|one| one.to_string()).collect()
    }
}

fn default_type() -> String {
    "default".into()
}

fn active() -> String {
    "active".into()
}
