//! An instance, and what those outside the region see of it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;

use super::lifecycle::EndReason;
use super::placement::GroupPlace;

/// The states of EC2's life cycle that occur here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    /// Launched, not yet up.
    Pending,
    /// Up: its kubelet starts.
    Running,
    /// On the way down.
    ShuttingDown,
    /// Gone; still described for an hour.
    Terminated,
}

impl InstanceState {
    /// The state as EC2 writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// EC2's code of the state.
    pub fn code(self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
        }
    }

    /// True if it is, or will be, up.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// Price model of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityType {
    /// At the list price, until terminated.
    OnDemand,
    /// At the spot price, until EC2 wants it back.
    Spot,
}

impl CapacityType {
    /// As EC2 and Karpenter write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

#[derive(Clone, Debug)]
pub struct RegionInstance {
    /// `i-0123456789abcdef0`.
    pub id: String,
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`.
    pub zone: String,
    /// `use1-az6`.
    pub zone_id: String,
    /// Capacity type by which it is paid for.
    pub capacity_type: CapacityType,
    pub state: InstanceState,
    /// Reason for its end, as EC2 words it; empty before.
    pub state_reason: Option<EndReason>,
    pub launched: Timestamp,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    pub image_id: String,
    pub subnet_id: String,
    /// Its address; it goes back to the subnet when the instance is terminated.
    pub private_ip: Ipv4Addr,
    /// `ip-10-0-1-23.ec2.internal`, which is also the node's name.
    pub hostname: String,
    /// Security groups of its first network interface.
    pub security_groups: Vec<String>,
    /// Its instance profile's name.
    pub instance_profile: Option<String>,
    /// The user data that it was launched with, decoded; empty without.
    pub user_data: String,
    /// The ClientToken of the launch.
    pub client_token: Option<String>,
    /// $/h at the launch; of spot it is synthetic.
    pub price: f64,
    /// There before the run began, without a launch of anybody's.
    pub beforehand: bool,
    /// An instance of another region of which this one is a copy: its kubelet runs already, and its Node is somebody else's to make.
    pub taken_over: bool,
    /// Time at which it started to go; it is paid until then.
    pub ended: Option<Timestamp>,
    /// Tags as they are seen now.
    pub tags: BTreeMap<String, String>,
    /// The capacity reservation that it was launched into.
    pub capacity_reservation: Option<String>,
    pub(crate) place: GroupPlace,
    pub(crate) reservation: String,
    pub(crate) spot_request: Option<String>,
    pub(crate) tenancy: String,
    pub(crate) volumes: Vec<(String, String)>,
    pub(crate) interface: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) detailed_monitoring: bool,
    /// Time from which describes see it.
    pub(crate) visible_from: Duration,
    /// Time at which a spot interruption ends it, if one was announced.
    pub(crate) interrupted_at: Option<Duration>,
}

impl RegionInstance {
    /// The placement group that it is in, by id, and its partition there.
    pub fn placement_group(&self) -> Option<(&str, Option<u32>)> {
        self.place.group.as_ref().map(|(id, _)| (id.as_str(), self.place.partition))
    }

    /// True if no other account has an instance on its hardware.
    pub fn is_dedicated(&self) -> bool {
        self.tenancy == "dedicated"
    }

    /// Capacity type as Karpenter calls it: `reserved` out of a capacity reservation.
    pub fn capacity_name(&self) -> &'static str {
        if self.capacity_reservation.is_some() { "reserved" } else { self.capacity_type.name() }
    }

    /// `aws:///us-east-1a/i-0123456789abcdef0`, as nodes carry it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}

/// A change of an instance's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceEvent {
    /// `i-…`.
    pub id: String,
    /// The state that it is in from now on.
    pub state: InstanceState,
    /// True if its machine restarts, in the state that it was in.
    pub rebooted: bool,
}
