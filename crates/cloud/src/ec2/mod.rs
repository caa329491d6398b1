//! EC2 behind [`crate::Cloud`], on the AWS SDK.

pub mod account_facts;
pub mod adapt;
mod bounded;
mod cache;
mod classify;
mod cluster;
mod commitments;
mod describe;
pub mod family;
mod instances;
mod launching;
mod others;
mod plan_rates;
mod preflight;
mod pricing;
mod queue;
mod rate;
pub mod resolve;
mod resolving;
mod sdk;
mod services;
mod status;
pub mod user_data;
mod zonal_shift;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dovetail_api::v1::EC2NodeClass;
use dovetail_core::clock::Clock;
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::cloud::{
    CloudFuture, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances, Instance,
    LaunchPace, LaunchRoom, MadeResource, QueueMessage, WholeTypes,
};
use crate::error::CloudError;
use crate::info::InstanceTypeInfo;
use crate::launch::{LaunchError, LaunchRequest, LaunchedFleet, LaunchedInstance};
use crate::node_class::NodeClassResolution;
use crate::recorder::recorded;
use crate::user_data::ClusterFacts;
use cache::TtlCache;
use launching::planned::PlannedCall;
use plan_rates::PlanRates;
use resolving::authorization::DryRunVerdict;
use resolving::network::FreeAddresses;
use resolving::placement::{GroupBinding, PlacementChoice};
use sdk::Clients;

pub use rate::{AccountLimits, NoLimits};
pub use sdk::{NoAws, SdkParts};

const MINUTE: Duration = Duration::from_secs(60);

/// Identity of the cluster, and facts about it that are known without asking EKS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ec2Settings {
    /// Name of the cluster: tags and instance listings go by it.
    pub cluster_name: String,
    /// UID of the namespace kube-system: an instance with another's is never touched.
    pub cluster_uid: String,
    /// True if instances that Karpenter launched for a cluster of this name count as ours.
    pub adopt_karpenter_instances: bool,
    /// URL of the API server; from EKS when it is not given.
    pub cluster_endpoint: Option<String>,
    /// Certificate of its authority, base64; from EKS when it is not given.
    pub cluster_ca_bundle: Option<String>,
    /// Address of the service `kube-dns`.
    pub cluster_dns: Option<String>,
    /// Addresses of services; from EKS where it tells.
    pub service_cidr: Option<String>,
    /// `1.33`; from EKS when it is not given.
    pub kubernetes_version: Option<String>,
    /// The gate `ReservedCapacity`: capacity reservations are used where node classes select them, and only there.
    pub reserved_capacity: bool,
    /// True if node classes that select no capacity reservations use the open ones.
    pub open_reservations: bool,
    /// There is no way to the Pricing API: on-demand prices are those that ship with the binary.
    pub isolated_vpc: bool,
    /// True to judge node classes by dry runs of launches, too.
    pub dry_runs: bool,
    /// EC2's token buckets, where the account's differ from those that AWS publishes.
    pub limits: AccountLimits,
}

/// EC2 in one region, for one cluster. Cheap to clone; calls may run side by side.
#[derive(Clone)]
pub struct Ec2Cloud {
    clients: Clients,
    region: String,
    clock: Arc<dyn Clock>,
    seed: u64,
    settings: Arc<Ec2Settings>,
    memory: Arc<Memory>,
}

/// Answers to earlier requests. Every lock is held for a look-up only.
struct Memory {
    /// Launch templates known to exist, by name.
    templates: TtlCache<String, ()>,
    /// Launch templates that were needed of late, by name.
    used_templates: TtlCache<String, ()>,
    /// Values of AWS's SSM parameters, by path.
    parameters: TtlCache<String, String>,
    /// Values of users' own, by name or ARN.
    own_parameters: TtlCache<String, String>,
    /// Parameters that were forgotten of late because their image is deprecated.
    forgotten_parameters: TtlCache<String, ()>,
    /// The version of Kubernetes that the API server said last; the setting's until it says another.
    version: Mutex<Option<String>>,
    /// The region's zones, once they have been listed.
    zones: Mutex<BTreeSet<String>>,
    /// Instance profiles known to exist with this role.
    profiles: TtlCache<(String, String), ()>,
    /// Instance profiles that classes name: what became of looking them up, where that says that one is there or that it
    /// cannot be known.
    named_profiles: TtlCache<String, Option<String>>,
    /// Launches that dry runs say would be carried out, by what that depends on.
    authorized: TtlCache<u64, ()>,
    /// Verdicts of dry runs that refused a launch, or that could not find it out.
    refused: TtlCache<u64, DryRunVerdict>,
    /// Placement groups by name and id.
    placement_groups: TtlCache<(Option<String>, Option<String>), PlacementChoice>,
    /// Zones to which launches bind placement groups that have no instance yet, by id.
    group_zones: TtlCache<String, GroupBinding>,
    /// The cluster, as EKS describes it.
    cluster: TtlCache<(), ClusterFacts>,
    plan_rates: PlanRates,
    /// Free addresses by subnet, less what is being launched.
    addresses: Mutex<FreeAddresses>,
    /// Launches of which nobody knows what came, by token.
    unsettled: TtlCache<String, Arc<PlannedCall>>,
}

impl Ec2Cloud {
    /// EC2 reached by these parts.
    pub fn new(parts: SdkParts, settings: Ec2Settings) -> Self {
        let (cluster, uid) = (&settings.cluster_name, &settings.cluster_uid);
        let http_client = recorded(parts.http_client, cluster, uid, &parts.region);
        let parts = SdkParts { http_client, ..parts };
        Self {
            clients: Clients::new(&parts, &settings.limits),
            region: parts.region,
            clock: parts.clock,
            seed: parts.seed,
            memory: Arc::new(Memory {
                templates: TtlCache::new(MINUTE),
                used_templates: TtlCache::new(60 * MINUTE),
                parameters: TtlCache::new(24 * 60 * MINUTE),
                own_parameters: TtlCache::new(5 * MINUTE),
                forgotten_parameters: TtlCache::new(30 * MINUTE),
                version: Mutex::new(settings.kubernetes_version.clone()),
                zones: Mutex::default(),
                profiles: TtlCache::new(15 * MINUTE),
                named_profiles: TtlCache::new(15 * MINUTE),
                authorized: TtlCache::new(30 * MINUTE),
                refused: TtlCache::new(5 * MINUTE),
                placement_groups: TtlCache::new(MINUTE),
                group_zones: TtlCache::new(2 * MINUTE),
                cluster: TtlCache::new(5 * MINUTE),
                plan_rates: PlanRates::default(),
                addresses: Mutex::default(),
                // Longer than a claim may take to launch.
                unsettled: TtlCache::new(10 * MINUTE),
            }),
            settings: Arc::new(settings),
        }
    }

    /// EC2 as a sandbox serves it in this process; its EKS says what there is to know of the cluster.
    pub fn sandboxed(
        http_client: SharedHttpClient,
        region: &str,
        cluster_name: &str,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Self {
        let settings = Ec2Settings { cluster_name: cluster_name.to_owned(), ..Ec2Settings::default() };
        Self::new(SdkParts { seed, ..SdkParts::in_process(http_client, region, clock) }, settings)
    }

    /// The API server has said which version of Kubernetes it is, `1.33`; says whether that is news. Images are looked up anew
    /// then.
    pub fn runs_kubernetes(&self, version: &str) -> bool {
        let mut known = self.memory.version.lock().unwrap_or_else(PoisonError::into_inner);
        let news = known.as_deref() != Some(version);
        if news {
            *known = Some(version.to_owned());
            self.memory.cluster.forget(&());
        }
        news
    }

    fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}

impl CloudIdentity for Ec2Cloud {
    fn region(&self) -> &str {
        &self.region
    }

    fn cluster_uid(&self) -> &str {
        &self.settings.cluster_uid
    }
}

impl CloudOfferings for Ec2Cloud {
    fn whole_types(&self) -> Option<WholeTypes> {
        None
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        self.describe_instance_types().boxed()
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        self.describe_offerings().boxed()
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        self.get_on_demand_prices().boxed()
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        self.describe_spot_prices().boxed()
    }

    fn reserved_left<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        self.left_of(ids).boxed()
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        self.describe_reserved_instances().boxed()
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        self.describe_savings_plans().boxed()
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        Ec2Cloud::zone_shifts(self).boxed()
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        self.describe_others().boxed()
    }
}

impl CloudNodeClasses for Ec2Cloud {
    fn resolve_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        self.resolve_class(class).boxed()
    }

    fn remove_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        self.remove_class(class).boxed()
    }

    fn subnet_has_tag<'a>(&'a self, key: &'a str) -> CloudFuture<'a, bool> {
        Box::pin(self.has_tagged_subnet(key))
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        self.list_made().boxed()
    }

    fn remove_made<'a>(&'a self, made: &'a MadeResource) -> CloudFuture<'a, ()> {
        self.remove_one_made(made).boxed()
    }
}

impl CloudInstances for Ec2Cloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        async move { self.launch_one(&request).await }.boxed()
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        async move { self.launch_fleet(&request, count).await }.boxed()
    }

    fn launch_pace(&self, count: u32) -> LaunchPace {
        self.clients.limiter.launch_pace(count)
    }

    fn reserve_launch(&self, token: &str, count: u32) -> LaunchRoom {
        self.clients.limiter.reserve_launch(token, count)
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        self.list_instances().boxed()
    }

    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>> {
        self.list_by_name(ended).boxed()
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        self.find_instance(id).boxed()
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        self.list_with_token(token).boxed()
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        self.find_instances(ids).boxed()
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.terminate_instances(found).map(Ok).boxed()
    }

    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()> {
        self.reboot_instance(found).boxed()
    }

    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        self.tag_instance(id, tags).boxed()
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        self.describe_troubles().boxed()
    }
}

impl CloudQueue for Ec2Cloud {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        self.get_queue_url(name).boxed()
    }

    fn receive<'a>(&'a self, queue_url: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        self.receive_messages(queue_url).boxed()
    }

    fn delete_messages<'a>(
        &'a self,
        queue_url: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.delete_from_queue(queue_url, receipts).boxed()
    }
}
