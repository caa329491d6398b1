//! The seam to a cloud: what the actors ask of it, by concern. EC2 is behind it, or kwok, and in a test the embedded region. Calls may
//! run side by side; none waits for another's lock. No method has a body: a cloud that cannot answer says so.
//!
//! - [`CloudIdentity`]: where it is, and whose cluster it works for;
//! - [`CloudOfferings`]: instance types, zones, prices, reserved capacity;
//! - [`CloudNodeClasses`]: images, subnets, security groups and profiles of node classes, and what was made for them;
//! - [`CloudInstances`]: launched, listed, tagged, ended;
//! - [`CloudQueue`]: the interruption queue;
//! - [`Cloud`]: all of them.

// Whoever writes another cloud reads these docs.
#![warn(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names;
use dovetail_api::v1::EC2NodeClass;
use dovetail_core::InstanceType;
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use futures::future::BoxFuture;

use crate::error::CloudError;
use crate::info::InstanceTypeInfo;
use crate::launch::placement::Placing;
use crate::launch::{LaunchError, LaunchRequest, LaunchedFleet, LaunchedInstance};
use crate::node_class::NodeClassResolution;

/// The answer of a cloud, some time later.
pub type CloudFuture<'a, T> = BoxFuture<'a, Result<T, CloudError>>;

/// Instance types as packing chooses from them.
pub type WholeTypes = Arc<Vec<Arc<InstanceType>>>;

/// Region of the cloud, and identity of the cluster that it works for.
pub trait CloudIdentity: Send + Sync + 'static {
    /// The region, `us-east-1`.
    fn region(&self) -> &str;

    /// UID of the cluster, which is a tag of everything that is made for it; empty when it is not known.
    fn cluster_uid(&self) -> &str;
}

/// Instance types, zones and prices.
pub trait CloudOfferings: CloudIdentity {
    /// Instance types as packing chooses from them, the same for every class; `None` where a class's types are resolved from
    /// EC2's facts below.
    fn whole_types(&self) -> Option<WholeTypes>;

    /// All instance types that can be nodes (DescribeInstanceTypes), by name.
    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>>;

    /// By type the zones that offer it (DescribeInstanceTypeOfferings).
    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>>;

    /// On-demand price by type, $/h (Pricing GetProducts).
    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>>;

    /// Spot price by (type, zone), $/h (DescribeSpotPriceHistory).
    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>>;

    /// Number of instances of capacity reservations that nobody uses, by id; none of those that EC2 does not know or that are not
    /// active (DescribeCapacityReservations).
    fn reserved_left<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>>;

    /// Reserved Instances of the account in this region (DescribeReservedInstances).
    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer>;

    /// Savings Plans of the account that cover instances of this region, with their rates (DescribeSavingsPlans).
    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer>;

    /// Shifts away from zones that are in effect for the cluster (GetManagedResource of ARC).
    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>>;
    /// Instances of the account in this region that are not this cluster's and take of commitments, without prices
    /// (DescribeInstances).
    fn others_on_demand(&self) -> CloudFuture<'_, Uses>;
}

/// Resources that node classes select, and those that are made for them.
pub trait CloudNodeClasses: CloudIdentity {
    /// Resolves subnets, security groups, images and instance profile, and what is to be said of each.
    fn resolve_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution>;

    /// Removes what was made for a node class: launch templates and instance profiles.
    fn remove_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, ()>;

    /// True if a subnet has a tag of that key, whatever its value (DescribeSubnets).
    fn subnet_has_tag<'a>(&'a self, key: &'a str) -> CloudFuture<'a, bool>;

    /// Launch templates and instance profiles that were made for this cluster's node classes, there or gone.
    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>>;

    /// Removes one of them. One that is gone already is no error; one that a launch has come to need is.
    fn remove_made<'a>(&'a self, made: &'a MadeResource) -> CloudFuture<'a, ()>;
}

/// Instances, from their launch to their end.
pub trait CloudInstances: CloudIdentity {
    /// Launches one instance.
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>>;

    /// Launches so many instances by one call, or as many of them as there are to be had; an error where that is none.
    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>>;

    /// Pace at which a launch of so many instances would go out now: nothing is asked.
    fn launch_pace(&self, count: u32) -> LaunchPace;

    /// Room in that pace for the launch with this token, of so many instances. It is that launch's from now on: what is reserved
    /// later comes after it.
    fn reserve_launch(&self, _token: &str, _count: u32) -> LaunchRoom {
        LaunchRoom::default()
    }

    /// This cluster's instances that Dovetail or Karpenter launched and that are not yet gone.
    fn instances(&self) -> CloudFuture<'_, Vec<Instance>>;

    /// The same, and with them those of other clusters that go by this cluster's name; if asked for, those too that have
    /// ended of late: EC2 lists them for about an hour.
    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>>;

    /// One instance; `None` when EC2 does not know it (any more, or not yet).
    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>>;

    /// Instances whose launch carried this token, terminated ones too.
    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>>;

    /// EC2's view of instances, asked in as few calls as the cloud takes. An error where EC2 answers nothing at all.
    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances>;

    /// Ends instances that it has just been asked for, in as few calls as the cloud takes, none of them repeated: what the end rests
    /// on may be over. One that is gone already is no error, one that no tag shows to be this cluster's is left alone. Answers what failed, by id.
    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>>;

    /// Reboots an instance that it has just been asked for (RebootInstances). One that no tag shows to be this cluster's, or whose
    /// end has begun, is left alone: an error.
    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()>;

    /// Puts tags on an instance.
    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()>;

    /// Work of its own that a provider has while this replica leads, which ends never. EC2 has none.
    fn work_of_leader(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Troubles that the status checks find with the region's instances, whoever's they are (DescribeInstanceStatus).
    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>>;
}

/// The queue of interruptions.
pub trait CloudQueue: CloudIdentity {
    /// The address of the queue of that name (SQS GetQueueUrl).
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String>;

    /// Messages of a queue, ten at most; waits up to twenty seconds for the first (ReceiveMessage). They come again
    /// after twenty seconds unless they are deleted.
    fn receive<'a>(&'a self, queue_url: &'a str) -> CloudFuture<'a, Vec<QueueMessage>>;

    /// Takes messages out of a queue by their receipts (DeleteMessageBatch), ten a call. Answers what failed, by receipt; those
    /// come again.
    fn delete_messages<'a>(
        &'a self,
        queue_url: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>>;
}

/// All that Dovetail asks of a cloud.
pub trait Cloud: CloudOfferings + CloudNodeClasses + CloudInstances + CloudQueue {}

impl<T: CloudOfferings + CloudNodeClasses + CloudInstances + CloudQueue> Cloud for T {}

/// Pace of launches: the cloud lets an account launch so many instances at once, and then so many a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LaunchPace {
    /// Time until the next launch goes out.
    pub wait: std::time::Duration,
    /// Most instances at once.
    pub at_once: f64,
    /// Instances a second from then on.
    pub per_second: f64,
}

/// Room of a launch in the pace of launches. Dropped before the launch has gone out, it is given back.
#[derive(Default)]
pub struct LaunchRoom {
    /// Time until the launch may go out.
    pub wait: std::time::Duration,
    /// Gives it back.
    pub(crate) held: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl LaunchRoom {
    /// Room that is there after a time, and kept for nobody.
    #[must_use]
    pub fn after(wait: std::time::Duration) -> Self {
        Self { wait, held: None }
    }
}

impl std::fmt::Debug for LaunchRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchRoom").field("wait", &self.wait).field("held", &self.held.is_some()).finish()
    }
}

/// Answer about instances that were asked for by their ids. An id that is nowhere here was not asked for yet: too many were
/// unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundInstances {
    /// Those that are there, terminated ones and other clusters' too: whose they are is told by their tags.
    pub instances: Vec<Instance>,
    /// Ids of which EC2 says that there is none.
    pub missing: BTreeSet<String>,
    /// Ids that could not be asked for, or, of those that are there, ended; and why.
    pub failed: BTreeMap<String, CloudError>,
}

/// A message of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMessage {
    /// Text of the message.
    pub body: String,
    /// Receipt by which it is deleted.
    pub receipt: String,
    /// Time at which it was sent.
    pub sent: Option<jiff::Timestamp>,
}

/// An instance as the cloud shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instance {
    /// `i-…`.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping`, `stopped`.
    pub state: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// The capacity reservation that it is of, if it is.
    pub reservation_id: Option<String>,
    /// Its placement group and partition, and the tenancy of its hardware.
    pub placing: Placing,
    /// `ami-…`.
    pub image_id: String,
    /// `subnet-…`.
    pub subnet_id: String,
    /// Ids of its security groups.
    pub security_group_ids: Vec<String>,
    /// Name in the VPC's DNS, which becomes the node's.
    pub private_dns_name: String,
    /// Time of its launch.
    pub launched_at: Option<jiff::Timestamp>,
    /// Time at which its end began, where it has and EC2 says so.
    pub ended_at: Option<jiff::Timestamp>,
    /// All that EC2 shows, `Name` and those of AWS's own (`aws:…`) among them.
    pub tags: BTreeMap<String, String>,
}

/// Kind of a resource that was made for a node class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MadeKind {
    /// A launch template.
    LaunchTemplate,
    /// An instance profile.
    InstanceProfile,
}

/// Something that was made for a node class of this cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MadeResource {
    /// Kind of the resource.
    pub kind: MadeKind,
    /// Name by which it is removed: the launch template's, or the instance profile's.
    pub name: String,
    /// The node class's name.
    pub class: String,
    /// The node class's uid, where it is known.
    pub class_uid: Option<String>,
    /// Time at which it was made.
    pub created: Option<jiff::Timestamp>,
    /// True if a launch of this replica has used it within the last hour.
    pub in_use: bool,
}

impl Instance {
    /// `aws:///us-east-1a/i-…`.
    pub fn provider_id(&self) -> String {
        provider_id(&self.zone, &self.id)
    }

    /// True if its end has begun.
    pub fn is_terminating(&self) -> bool {
        matches!(self.state.as_str(), "shutting-down" | "terminated")
    }
}

/// `aws:///<zone>/<instance id>`, or kwok's id as it is.
pub fn provider_id(zone: &str, id: &str) -> String {
    names::provider_id(zone, id)
}

/// The instance id in a provider id; `None` when it is of no provider that there is here.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    if names::provider::kwok_node(provider_id).is_some() {
        return Some(provider_id);
    }
    let (_, path) = provider_id.split_once(":///")?;
    let (_, id) = path.split_once('/')?;
    id.starts_with("i-").then_some(id)
}

#[cfg(test)]
mod tests {
    use super::{instance_id, provider_id};

    #[test]
    fn the_provider_id_carries_zone_and_instance() {
        assert_eq!(instance_id(&provider_id("us-east-1a", "i-0abc")), Some("i-0abc"));
        assert_eq!(instance_id("kind:///node-1"), None);
        assert_eq!(instance_id("aws:///us-east-1a"), None);
    }
}
