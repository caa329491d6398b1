//! kwok: nodes without machines, for trying Dovetail on any cluster that kwok's controller runs in. An instance is a Node object
//! that is created here; kwok makes it Ready and pretends to run its pods. Nothing is asked of any cloud.
//!
//! ```text
//! launch ──► waiting (nodeRegistrationDelay) ──► Node ──► marked as ended, deleted
//! ```
//!
//! What waits is known to this process alone, and created while it leads. Where it ends, its Nodes do not come; their claims are
//! found without an instance, and are replaced, as after the loss of a machine that boots.

pub mod catalogue;
mod instances;
pub mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dovetail_api::kwok::KWOKNodeClass;
use dovetail_api::names::labels::{ON_DEMAND, SPOT};
use dovetail_api::v1::EC2NodeClass;
use dovetail_core::InstanceType;
use dovetail_core::clock::Clock;
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::resources::{CPU, MEMORY};
use dovetail_core::zonal_shift::ZoneShift;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::sync::Notify;

use crate::cloud::{
    CloudFuture, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances, Instance,
    LaunchPace, MadeResource, QueueMessage, WholeTypes,
};
use crate::error::CloudError;
use crate::info::InstanceTypeInfo;
use crate::launch::{LaunchError, LaunchRequest, LaunchedFleet, LaunchedInstance};
use crate::node_class::NodeClassResolution;

/// The region's name: kwok has no regions.
const REGION: &str = "kwok";

/// The cluster that kwok's nodes are in.
#[derive(Clone, Debug, Default)]
pub struct KwokSettings {
    /// `CLUSTER_NAME`.
    pub cluster_name: String,
    /// UID of the namespace kube-system.
    pub cluster_uid: String,
}

/// A Node that is to be created later.
struct Waiting {
    node: Node,
    /// Monotonic.
    due: Duration,
    /// Times in a row that its creation has failed.
    failures: u32,
}

/// Nodes of kwok behind the seam.
#[derive(Clone)]
pub struct KwokCloud {
    settings: Arc<KwokSettings>,
    types: Arc<Vec<Arc<InstanceType>>>,
    nodes: Api<Node>,
    classes: Api<KWOKNodeClass>,
    clock: Arc<dyn Clock>,
    /// By the Node's name.
    waiting: Arc<Mutex<BTreeMap<String, Waiting>>>,
    news: Arc<Notify>,
}

impl KwokCloud {
    /// kwok's nodes of these types, in the cluster that the client speaks to.
    pub fn new(client: Client, settings: KwokSettings, types: Vec<Arc<InstanceType>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            settings: Arc::new(settings),
            types: Arc::new(types),
            nodes: Api::all(client.clone()),
            classes: Api::all(client),
            clock,
            waiting: Arc::default(),
            news: Arc::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By type and zone, the lowest price of a capacity type.
    fn prices(&self, capacity_type: &str) -> BTreeMap<(String, String), f64> {
        let mut prices: BTreeMap<(String, String), f64> = BTreeMap::new();
        for one in self.types.iter() {
            for offering in one.offerings.iter().filter(|of| of.capacity_type == capacity_type) {
                let price = prices.entry((one.name.clone(), offering.zone.clone())).or_insert(offering.price);
                *price = price.min(offering.price);
            }
        }
        prices
    }
}

/// An answer that needs nobody to be asked.
fn known<'a, T: Send + 'a>(answer: T) -> CloudFuture<'a, T> {
    ready(Ok(answer)).boxed()
}

impl CloudIdentity for KwokCloud {
    fn region(&self) -> &str {
        REGION
    }

    fn cluster_uid(&self) -> &str {
        &self.settings.cluster_uid
    }
}

impl CloudOfferings for KwokCloud {
    fn whole_types(&self) -> Option<WholeTypes> {
        Some(self.types.clone())
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        let info = |one: &Arc<InstanceType>| InstanceTypeInfo {
            name: one.name.clone(),
            usage_classes: vec![ON_DEMAND.to_owned(), SPOT.to_owned()],
            architectures: vec!["x86_64".to_owned()],
            vcpus: u32::try_from(one.capacity.get(CPU) / 1000).unwrap_or(u32::MAX).max(1),
            memory_mib: u64::try_from(one.capacity.get(MEMORY) >> 20).unwrap_or_default().max(1),
            ..InstanceTypeInfo::default()
        };
        known(self.types.iter().map(info).collect())
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        let zones = |one: &Arc<InstanceType>| one.offerings.iter().map(|offering| offering.zone.clone()).collect();
        known(self.types.iter().map(|one| (one.name.clone(), zones(one))).collect())
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        let mut prices: BTreeMap<String, f64> = BTreeMap::new();
        for ((name, _), price) in self.prices(ON_DEMAND) {
            let lowest = prices.entry(name).or_insert(price);
            *lowest = lowest.min(price);
        }
        known(prices)
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        known(self.prices(SPOT))
    }

    fn reserved_left<'a>(&'a self, _: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        known(BTreeMap::new())
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        known(AccountAnswer::default())
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        known(AccountAnswer::default())
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        known(vec![])
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        known(Uses::default())
    }
}

impl CloudNodeClasses for KwokCloud {
    fn resolve_node_class<'a>(&'a self, _: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        known(NodeClassResolution::default())
    }

    fn remove_node_class<'a>(&'a self, _: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        known(())
    }

    fn subnet_has_tag<'a>(&'a self, _: &'a str) -> CloudFuture<'a, bool> {
        known(false)
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        known(Vec::new())
    }

    fn remove_made<'a>(&'a self, _: &'a MadeResource) -> CloudFuture<'a, ()> {
        known(())
    }
}

impl CloudInstances for KwokCloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        async move {
            let fleet = self.launch_nodes(&request, 1).await?;
            fleet.instances.into_iter().next().ok_or_else(LaunchError::unsaid)
        }
        .boxed()
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        async move { self.launch_nodes(&request, count).await }.boxed()
    }

    fn launch_pace(&self, _: u32) -> LaunchPace {
        LaunchPace::default()
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        async {
            let all = self.list("").await?;
            Ok(all.into_iter().filter(|one| self.is_ours(one) && !one.is_terminating()).collect())
        }
        .boxed()
    }

    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>> {
        async move {
            let all = self.list("").await?;
            Ok(all.into_iter().filter(|one| ended || !one.is_terminating()).collect())
        }
        .boxed()
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        self.find(id).boxed()
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        self.list(token).boxed()
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        self.find_all(ids).boxed()
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.end_all(found).map(Ok).boxed()
    }

    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()> {
        self.restart(&found.id).boxed()
    }

    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        self.put_tags(id, tags).boxed()
    }

    fn work_of_leader(&self) -> Option<BoxFuture<'static, ()>> {
        Some(self.clone().create_when_due().boxed())
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        known(Vec::new())
    }
}

impl CloudQueue for KwokCloud {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        ready(Err(CloudError::invalid("GetQueueUrl", "QueueDoesNotExist", format!("kwok has no queue {name}")))).boxed()
    }

    fn receive<'a>(&'a self, _: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        known(Vec::new())
    }

    fn delete_messages<'a>(&'a self, _: &'a str, _: &'a [String]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        known(BTreeMap::new())
    }
}
