//! The embedded region as a cloud of its own: the seam's traits on it, without HTTP and without the AWS SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_api::names::conditions;
use dovetail_api::names::labels::SPOT;
use dovetail_api::names::tags::{CLUSTER_UID, LAUNCH_TOKEN, NODE_CLASS, NODE_POOL};
use dovetail_api::v1::{Ami, EC2NodeClass, SecurityGroup, Subnet};
use dovetail_cloud::cloud::CloudFuture;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::launch::placement::Placing;
use dovetail_cloud::launch::{OfferingRefusal, filters};
use dovetail_cloud::node_class::{Finding, NodeClassResolution};
use dovetail_cloud::{
    CloudError, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances, Instance,
    LaunchError, LaunchPace, LaunchRequest, LaunchedFleet, LaunchedInstance, MadeResource, QueueMessage,
};
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use dovetail_sandbox::region::{self, CapacityType, InstanceState, Placement, Region, RegionError};
use futures::future::{BoxFuture, FutureExt};
use serde_json::json;

/// Time until the region answers.
const ANSWERS_IN: Duration = Duration::from_millis(100);
/// Time that a received message is hidden.
const HIDDEN: Duration = Duration::from_secs(20);

/// See the module.
pub struct RegionCloud {
    region: Region,
    cluster_uid: String,
}

impl RegionCloud {
    /// The region, for the cluster of this UID.
    pub fn new(region: Region, cluster_uid: &str) -> Self {
        Self { region, cluster_uid: cluster_uid.to_owned() }
    }

    /// Answers a little later.
    fn later<'a, T: Send + 'a>(
        &'a self,
        answer: impl FnOnce(&Region) -> Result<T, CloudError> + Send + 'a,
    ) -> CloudFuture<'a, T> {
        async move {
            tokio::time::sleep(ANSWERS_IN).await;
            answer(&self.region)
        }
        .boxed()
    }

    fn those(&self, wanted: impl Fn(&region::RegionInstance) -> bool) -> Vec<Instance> {
        self.region.instances().iter().filter(|one| wanted(one)).map(as_cloud).collect()
    }

    fn is_ours(&self, one: &region::RegionInstance) -> bool {
        one.tags.get(CLUSTER_UID) == Some(&self.cluster_uid)
    }

    fn launch_now(&self, request: &LaunchRequest, client_token: &str) -> Result<LaunchedInstance, LaunchError> {
        let selection = filters::select(request)?;
        let offered = selection.candidates.iter().flat_map(|one| one.offerings.iter().map(move |offer| (one, offer)));
        let mut offered: Vec<_> = offered.collect();
        offered.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
        let mut refusals = Vec::new();
        for (candidate, offer) in offered {
            let wanted = Placement {
                instance_type: candidate.instance_type.name.clone(),
                zone: offer.zone.clone(),
                capacity_type: if offer.capacity_type == SPOT { CapacityType::Spot } else { CapacityType::OnDemand },
                tags: [
                    (LAUNCH_TOKEN, request.token.as_str()),
                    (CLUSTER_UID, &self.cluster_uid),
                    (NODE_POOL, &request.node_pool),
                    (NODE_CLASS, request.node_class.metadata.name.as_deref().unwrap_or_default()),
                ]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
                user_data: String::new(),
            };
            match self.region.launch(client_token, &wanted) {
                Ok(there) => return Ok(LaunchedInstance { price: offer.price, refusals, ..launched(&there) }),
                Err(RegionError::CannotPlace { instance_type, zone, reason }) => refusals.push(OfferingRefusal {
                    instance_type,
                    zone,
                    capacity_type: offer.capacity_type.clone(),
                    code: reason.split(':').next().unwrap_or_default().to_owned(),
                    message: reason,
                    ..OfferingRefusal::default()
                }),
                Err(other) => panic!("a launch that says {other}"),
            }
        }
        Err(LaunchError::from_refusals(refusals))
    }
}

fn as_cloud(one: &region::RegionInstance) -> Instance {
    let group = one.placement_group();
    Instance {
        id: one.id.clone(),
        state: one.state.name().to_owned(),
        instance_type: one.instance_type.clone(),
        zone: one.zone.clone(),
        capacity_type: one.capacity_name().to_owned(),
        reservation_id: one.capacity_reservation.clone(),
        placing: Placing {
            group: group.map(|(id, _)| id.to_owned()),
            partition: group.and_then(|(_, partition)| partition),
            dedicated: one.is_dedicated(),
        },
        image_id: one.image_id.clone(),
        subnet_id: one.subnet_id.clone(),
        security_group_ids: one.security_groups.clone(),
        private_dns_name: one.hostname.clone(),
        launched_at: Some(one.launched),
        ended_at: one.ended,
        tags: one.tags.clone(),
    }
}

fn launched(one: &region::RegionInstance) -> LaunchedInstance {
    LaunchedInstance {
        id: one.id.clone(),
        instance_type: one.instance_type.clone(),
        zone: one.zone.clone(),
        capacity_type: one.capacity_name().to_owned(),
        image_id: one.image_id.clone(),
        subnet_id: one.subnet_id.clone(),
        ..LaunchedInstance::default()
    }
}

fn not_there(call: &'static str, id: &str) -> CloudError {
    CloudError::Final { call, code: "InvalidInstanceID.NotFound".into(), message: format!("there is no {id}") }
}

impl CloudIdentity for RegionCloud {
    fn region(&self) -> &str {
        &self.region.config().region
    }

    fn cluster_uid(&self) -> &str {
        &self.cluster_uid
    }
}

impl CloudOfferings for RegionCloud {
    fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
        None
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        self.later(|region| Ok(region.catalogue().types.iter().map(|info| InstanceTypeInfo::clone(info)).collect()))
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        self.later(|region| Ok(region.catalogue().offered.clone()))
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        self.later(|region| Ok(region.catalogue().on_demand.clone()))
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        self.later(|region| {
            let now = |key: &(String, String)| Some((key.clone(), region.price(&key.0, &key.1, CapacityType::Spot)?));
            Ok(region.catalogue().spot.keys().filter_map(now).collect())
        })
    }

    fn reserved_left<'a>(&'a self, _: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        self.later(|_| Ok(BTreeMap::new()))
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        self.later(|_| Ok(AccountAnswer::default()))
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        self.later(|_| Ok(AccountAnswer::default()))
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        self.later(|_| Ok(vec![]))
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        self.later(|_| Ok(Uses::default()))
    }
}

impl CloudNodeClasses for RegionCloud {
    fn resolve_node_class<'a>(&'a self, _: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        self.later(|region| {
            let subnet = |(id, zone, zone_id)| Subnet { id, zone, zone_id };
            let image = |(arch, own): (&str, &str)| {
                let version = &region.config().kubernetes_version;
                let path = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{own}/standard");
                let id = region.parameter(&format!("{path}/recommended/image_id")).unwrap();
                let arch = json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]});
                let requirements = vec![serde_json::from_value(arch).unwrap()];
                Ami { id, deprecated: false, name: String::new(), requirements }
            };
            let types = [
                conditions::SUBNETS_READY,
                conditions::SECURITY_GROUPS_READY,
                conditions::AMIS_READY,
                conditions::INSTANCE_PROFILE_READY,
                conditions::VALIDATION_SUCCEEDED,
            ];
            let group = |id| SecurityGroup { id, name: String::new() };
            Ok(NodeClassResolution {
                placement_group: None,
                subnets: region.subnets().into_iter().map(subnet).collect(),
                security_groups: region.security_groups().into_iter().map(group).collect(),
                amis: [("amd64", "x86_64"), ("arm64", "arm64")].map(image).into(),
                reservations: Vec::new(),
                instance_profile: region.config().node_instance_profile(),
                conditions: types.into_iter().map(Finding::ready).collect(),
            })
        })
    }

    fn remove_node_class<'a>(&'a self, _: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        // Nothing is made for one.
        self.later(|_| Ok(()))
    }

    fn subnet_has_tag<'a>(&'a self, key: &'a str) -> CloudFuture<'a, bool> {
        self.later(move |region| Ok(key == "karpenter.sh/discovery" && !region.subnets().is_empty()))
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        self.later(|_| Ok(Vec::new()))
    }

    fn remove_made<'a>(&'a self, made: &'a MadeResource) -> CloudFuture<'a, ()> {
        self.later(|_| Err(not_there("RemoveMade", &made.name)))
    }
}

impl CloudInstances for RegionCloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        async move {
            tokio::time::sleep(ANSWERS_IN).await;
            self.launch_now(&request, &request.token)
        }
        .boxed()
    }

    fn launch_pace(&self, _: u32) -> LaunchPace {
        LaunchPace::default()
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        async move {
            tokio::time::sleep(ANSWERS_IN).await;
            let mut fleet = LaunchedFleet::default();
            for number in 0..count {
                match self.launch_now(&request, &format!("{}/{number}", request.token)) {
                    Ok(launched) => fleet.instances.push(launched),
                    Err(error) if fleet.instances.is_empty() => return Err(error),
                    Err(error) => fleet.missing = Some(error),
                }
            }
            Ok(fleet)
        }
        .boxed()
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        self.later(|_| Ok(self.those(|one| self.is_ours(one) && one.state != InstanceState::Terminated)))
    }

    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>> {
        self.later(
            move |_| Ok(self.those(|one| self.is_ours(one) && (ended || one.state != InstanceState::Terminated))),
        )
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        self.later(move |region| Ok(region.instance(id).as_ref().map(as_cloud)))
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        self.later(move |_| Ok(self.those(|one| one.client_token.as_deref() == Some(token))))
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        self.later(move |region| {
            let mut found = FoundInstances::default();
            for id in ids {
                match region.instance(id) {
                    Some(there) => found.instances.push(as_cloud(&there)),
                    None => drop(found.missing.insert(id.clone())),
                }
            }
            Ok(found)
        })
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.later(move |region| {
            for one in found.iter().filter(|one| one.tags.get(CLUSTER_UID) == Some(&self.cluster_uid)) {
                // One that is going already is no error.
                let _ = region.terminate(&one.id);
            }
            Ok(BTreeMap::new())
        })
    }

    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()> {
        self.later(move |region| region.reboot(&found.id).map_err(|_| not_there("RebootInstances", &found.id)))
    }

    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        self.later(move |region| region.tag(id, tags).map_err(|_| not_there("CreateTags", id)))
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        self.later(|_| Ok(Vec::new()))
    }
}

impl CloudQueue for RegionCloud {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        self.later(move |region| match region.config().queue_name() {
            own if own == name => Ok(own),
            _ => Err(not_there("GetQueueUrl", name)),
        })
    }

    fn receive<'a>(&'a self, _: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        async move {
            for _ in 0..20 {
                let messages = self.region.receive(10, HIDDEN);
                if !messages.is_empty() {
                    let of = |one: region::ReceivedMessage| QueueMessage {
                        body: one.body,
                        receipt: one.receipt,
                        sent: Some(one.sent),
                    };
                    return Ok(messages.into_iter().map(of).collect());
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(Vec::new())
        }
        .boxed()
    }

    fn delete_messages<'a>(
        &'a self,
        _: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.later(move |region| {
            let unknown = receipts.iter().filter(|receipt| !region.delete_message(receipt));
            Ok(unknown.map(|receipt| (receipt.clone(), not_there("DeleteMessageBatch", receipt))).collect())
        })
    }
}
