//! A cloud that offers the shipped catalogue and does as a test tells it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dovetail_api::names::conditions;
use dovetail_api::names::tags::{CLUSTER_UID, LAUNCH_TOKEN, NODE_POOL};
use dovetail_api::v1::{EC2NodeClass, SecurityGroup, Subnet};
use dovetail_cloud::cloud::CloudFuture;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::launch::{OfferingRefusal, filters};
use dovetail_cloud::node_class::{Finding, NodeClassResolution};
use dovetail_cloud::{
    CloudError, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances, Instance,
    LaunchError, LaunchErrorKind, LaunchPace, LaunchRequest, LaunchedFleet, LaunchedInstance, MadeResource,
    QueueMessage, shipped,
};
use dovetail_core::clock::Clock;
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::resources::format_amount;
use dovetail_core::zonal_shift::ZoneShift;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Ways to spoil the next launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spoil {
    /// Sold out, whatever is asked for first.
    SoldOut,
    /// The answer is lost, the instance made.
    MadeAndLost,
    /// The answer is lost, nothing made.
    LostBefore,
    /// The call never answers, the instance made.
    Hangs,
    /// The call is throttled.
    Throttled,
}

/// Ways to spoil a call that ends instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoilEnd {
    /// The instances are ended, and the answer is lost.
    LostAfter,
    /// The cloud will not end them, however often it is asked.
    Refused,
}

/// An instance and what its node will be.
#[derive(Clone, Debug)]
pub struct Launched {
    pub instance: Instance,
    pub labels: BTreeMap<String, String>,
    pub cpu: String,
}

/// See the module.
pub struct FakeCloud {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    spoils: VecDeque<Spoil>,
    instances: BTreeMap<String, Instance>,
    calls: Vec<LaunchRequest>,
    resolution: Duration,
    resolving: usize,
    messages: Vec<QueueMessage>,
    deleted: Vec<String>,
    /// The sizes of the batches in which they were deleted.
    deletions: Vec<usize>,
    /// The first of the next batch is kept.
    keeps_first: bool,
    /// A call to the queue takes so long, and gives ten messages at most.
    queue_time: Option<Duration>,
    /// Findings of the status checks.
    troubles: Vec<Trouble>,
    ends: BTreeMap<String, SpoilEnd>,
    launched: Vec<Launched>,
    told: Option<UnboundedSender<Launched>>,
    looked_up: Vec<jiff::Timestamp>,
    look_ups_fail: bool,
}

impl FakeCloud {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// The next launches are spoiled like this.
    pub fn spoil(&self, spoils: impl IntoIterator<Item = Spoil>) {
        self.state.lock().unwrap().spoils.extend(spoils);
    }

    /// Times of the questions for instances' owners.
    pub fn looked_up(&self) -> Vec<jiff::Timestamp> {
        self.state.lock().unwrap().looked_up.clone()
    }

    /// Throttles questions for instances' owners, or stops that.
    pub fn look_ups_fail(&self, fail: bool) {
        self.state.lock().unwrap().look_ups_fail = fail;
    }

    /// Node classes take so long to resolve from now on.
    pub fn resolve_in(&self, time: Duration) {
        self.state.lock().unwrap().resolution = time;
    }

    /// Number of node classes being resolved.
    pub fn resolving(&self) -> usize {
        self.state.lock().unwrap().resolving
    }

    /// The end of an instance is spoiled like this, or no more.
    pub fn spoil_end(&self, id: &str, spoil: Option<SpoilEnd>) {
        let ends = &mut self.state.lock().unwrap().ends;
        ends.remove(id);
        ends.extend(spoil.map(|spoil| (id.to_owned(), spoil)));
    }

    /// A message comes into the queue, or comes out of it once more.
    pub fn announce(&self, body: &str) {
        self.announce_by(body, "");
    }

    /// Announces a message with the receipt by which it is deleted.
    pub fn announce_by(&self, body: &str, receipt: &str) {
        let message = QueueMessage { body: body.into(), receipt: receipt.into(), ..QueueMessage::default() };
        self.state.lock().unwrap().messages.push(message);
    }

    /// The receipts by which messages were deleted.
    pub fn deleted(&self) -> Vec<String> {
        self.state.lock().unwrap().deleted.clone()
    }

    /// The sizes of the batches in which messages were deleted.
    pub fn deletions(&self) -> Vec<usize> {
        self.state.lock().unwrap().deletions.clone()
    }

    /// Keeps the first message of the next batch to be deleted.
    pub fn keep_first(&self) {
        self.state.lock().unwrap().keeps_first = true;
    }

    /// Each call to the queue takes so long from now on, and gives ten messages at most, as SQS does.
    pub fn slow_queue(&self, time: Duration) {
        self.state.lock().unwrap().queue_time = Some(time);
    }

    /// Sets the findings of the status checks.
    pub fn trouble(&self, troubles: Vec<Trouble>) {
        self.state.lock().unwrap().troubles = troubles;
    }

    /// Number of messages that nobody has received.
    pub fn unread(&self) -> usize {
        self.state.lock().unwrap().messages.len()
    }

    /// Instances that live.
    pub fn living(&self) -> Vec<Instance> {
        let state = self.state.lock().unwrap();
        state.instances.values().filter(|one| !one.is_terminating()).cloned().collect()
    }

    /// An instance that somebody else has launched, with these tags; it joins nothing by itself.
    pub fn strange(&self, id: &str, tags: &[(&str, &str)]) -> Instance {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let instance = Instance {
            id: id.into(),
            state: "running".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            private_dns_name: format!("{id}.ec2.internal"),
            launched_at: Some(self.clock.wall() - jiff::SignedDuration::from_hours(2)),
            tags,
            ..Instance::default()
        };
        self.state.lock().unwrap().instances.insert(id.into(), instance.clone());
        instance
    }

    /// All that was asked to be launched.
    pub fn calls(&self) -> Vec<LaunchRequest> {
        self.state.lock().unwrap().calls.clone()
    }

    /// All that was launched, and what becomes of it.
    pub fn launched(&self) -> Vec<Launched> {
        self.state.lock().unwrap().launched.clone()
    }

    /// An instance that was launched before; it joins, unless it has.
    pub fn restore(&self, launched: Launched, joins: bool) {
        let mut state = self.state.lock().unwrap();
        state.instances.insert(launched.instance.id.clone(), launched.instance.clone());
        if let (true, Some(told)) = (joins, &state.told) {
            told.send(launched).unwrap();
        }
    }

    /// Told of each instance.
    pub fn launches(&self) -> UnboundedReceiver<Launched> {
        let (to, from) = unbounded_channel();
        self.state.lock().unwrap().told = Some(to);
        from
    }

    fn make(&self, request: &LaunchRequest, count: u32) -> Result<LaunchedFleet, LaunchError> {
        let there: Vec<LaunchedInstance> = {
            let state = self.state.lock().unwrap();
            state.instances.values().filter(|one| token_of(one) == Some(&request.token)).map(as_launched).collect()
        };
        if !there.is_empty() {
            return Ok(LaunchedFleet { instances: there, ..LaunchedFleet::default() });
        }
        let instances = (0..count).map(|_| self.make_one(request)).collect::<Result<_, _>>()?;
        Ok(LaunchedFleet { instances, ..LaunchedFleet::default() })
    }

    fn make_one(&self, request: &LaunchRequest) -> Result<LaunchedInstance, LaunchError> {
        let mut state = self.state.lock().unwrap();
        let selection = filters::select(request)?;
        let cheapest = &selection.candidates[0];
        let offering = cheapest.offerings.iter().min_by(|a, b| a.price.total_cmp(&b.price)).unwrap();
        let number = state.instances.len() + 1;
        let instance = Instance {
            id: format!("i-{number:017x}"),
            state: "running".into(),
            instance_type: cheapest.instance_type.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type.clone(),
            image_id: "ami-1".into(),
            subnet_id: subnet_in(&offering.zone),
            private_dns_name: format!("ip-10-0-{}-{}.ec2.internal", number / 250, number % 250),
            launched_at: Some(self.clock.wall()),
            tags: [(LAUNCH_TOKEN, request.token.as_str()), (CLUSTER_UID, UID), (NODE_POOL, &request.node_pool)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Instance::default()
        };
        state.instances.insert(instance.id.clone(), instance.clone());
        let launched = Launched {
            cpu: format_amount("cpu", cheapest.instance_type.allocatable().get("cpu")),
            labels: request.labels.clone(),
            instance: instance.clone(),
        };
        state.launched.push(launched.clone());
        if let Some(told) = &state.told {
            told.send(launched).unwrap();
        }
        Ok(as_launched(&instance))
    }
}

/// Uid of the cluster.
const UID: &str = "uid-of-this-cluster";

/// The one subnet of a zone.
pub fn subnet_in(zone: &str) -> String {
    format!("subnet-{zone}")
}

fn token_of(instance: &Instance) -> Option<&String> {
    instance.tags.get(LAUNCH_TOKEN)
}

fn as_launched(instance: &Instance) -> LaunchedInstance {
    LaunchedInstance {
        id: instance.id.clone(),
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: instance.capacity_type.clone(),
        image_id: instance.image_id.clone(),
        ..LaunchedInstance::default()
    }
}

fn failure(kind: LaunchErrorKind) -> LaunchError {
    LaunchError { kind, reason: "InternalError", message: "spoiled".into(), refusals: Vec::new() }
}

fn ready<T: Send + 'static>(answer: T) -> BoxFuture<'static, Result<T, CloudError>> {
    async move { Ok(answer) }.boxed()
}

impl CloudIdentity for FakeCloud {
    fn region(&self) -> &str {
        "us-east-1"
    }

    fn cluster_uid(&self) -> &str {
        UID
    }
}

impl CloudOfferings for FakeCloud {
    fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
        None
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        ready(shipped::catalogue("us-east-1").types.iter().map(|info| InstanceTypeInfo::clone(info)).collect())
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        ready(shipped::catalogue("us-east-1").offered)
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        ready(shipped::catalogue("us-east-1").on_demand)
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        ready(shipped::catalogue("us-east-1").spot)
    }

    fn reserved_left<'a>(&'a self, _: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        ready(BTreeMap::new())
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        ready(AccountAnswer::default())
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        ready(AccountAnswer::default())
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        ready(vec![])
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        ready(Uses::default())
    }
}

impl CloudNodeClasses for FakeCloud {
    fn resolve_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        let types = [
            conditions::SECURITY_GROUPS_READY,
            conditions::AMIS_READY,
            conditions::INSTANCE_PROFILE_READY,
            conditions::VALIDATION_SUCCEEDED,
        ];
        // There is no subnet of the tag `team: nobody`.
        let is_nowhere =
            class.spec.subnet_selector_terms.iter().any(|term| term.tags.values().any(|tag| tag == "nobody"));
        let subnets_ready = if is_nowhere {
            let why = "spec.subnetSelectorTerms matches no subnet: [0] tag team=\"nobody\"";
            Finding::not_ready(conditions::SUBNETS_READY, "SubnetsNotFound", why)
        } else {
            Finding::ready(conditions::SUBNETS_READY)
        };
        let subnet = |zone: &str| Subnet { id: subnet_in(zone), zone: zone.into(), zone_id: String::new() };
        let found = NodeClassResolution {
            placement_group: None,
            subnets: ["us-east-1a", "us-east-1b"].into_iter().map(subnet).collect(),
            security_groups: vec![SecurityGroup { id: "sg-1".into(), name: String::new() }],
            amis: Vec::new(),
            reservations: Vec::new(),
            instance_profile: "profile".into(),
            conditions: std::iter::once(subnets_ready).chain(types.into_iter().map(Finding::ready)).collect(),
        };
        async move {
            let time = {
                let mut state = self.state.lock().unwrap();
                state.resolving += 1;
                state.resolution
            };
            tokio::time::sleep(time).await;
            self.state.lock().unwrap().resolving -= 1;
            Ok(found)
        }
        .boxed()
    }

    fn remove_node_class<'a>(&'a self, _: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        ready(())
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        ready(Vec::new())
    }

    fn remove_made<'a>(&'a self, _: &'a MadeResource) -> CloudFuture<'a, ()> {
        ready(())
    }

    fn subnet_has_tag<'a>(&'a self, _: &'a str) -> CloudFuture<'a, bool> {
        ready(false)
    }
}

impl CloudInstances for FakeCloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        async move { Ok(self.launch_several(request, 1).await?.instances.remove(0)) }.boxed()
    }

    fn launch_pace(&self, _: u32) -> LaunchPace {
        LaunchPace::default()
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let spoil = {
                let mut state = self.state.lock().unwrap();
                state.calls.push(request.clone());
                state.spoils.pop_front()
            };
            match spoil {
                None => self.make(&request, count),
                Some(Spoil::SoldOut) => {
                    let selection = filters::select(&request)?;
                    let refused = selection.candidates.iter().flat_map(|candidate| {
                        candidate.offerings.iter().map(|offering| OfferingRefusal {
                            instance_type: candidate.instance_type.name.clone(),
                            zone: offering.zone.clone(),
                            capacity_type: offering.capacity_type.clone(),
                            code: "InsufficientInstanceCapacity".into(),
                            ..OfferingRefusal::default()
                        })
                    });
                    Err(LaunchError::insufficient_capacity("sold out", refused.collect()))
                }
                Some(Spoil::MadeAndLost) => {
                    self.make(&request, count)?;
                    Err(failure(LaunchErrorKind::MayHaveHappened))
                }
                Some(Spoil::LostBefore) => Err(failure(LaunchErrorKind::MayHaveHappened)),
                Some(Spoil::Hangs) => {
                    self.make(&request, count)?;
                    std::future::pending().await
                }
                Some(Spoil::Throttled) => Err(failure(LaunchErrorKind::Retryable)),
            }
        }
        .boxed()
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        ready(self.living())
    }

    fn instances_by_name(&self, _: bool) -> CloudFuture<'_, Vec<Instance>> {
        ready(self.living())
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        ready(self.state.lock().unwrap().instances.get(id).cloned())
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        let state = self.state.lock().unwrap();
        ready(state.instances.values().filter(|one| token_of(one).is_some_and(|own| own == token)).cloned().collect())
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        let mut state = self.state.lock().unwrap();
        let now = self.clock.wall();
        state.looked_up.push(now);
        if state.look_ups_fail {
            let (call, message) = ("DescribeInstances", "slower".to_owned());
            let error = CloudError::Retryable { call, code: "RequestLimitExceeded".into(), message };
            return async move { Err(error) }.boxed();
        }
        let mut found = FoundInstances::default();
        for id in ids {
            match state.instances.get(id) {
                Some(instance) => found.instances.push(instance.clone()),
                None => found.missing.extend([id.clone()]),
            }
        }
        ready(found)
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        let mut state = self.state.lock().unwrap();
        let mut failed = BTreeMap::new();
        for one in found {
            let (call, message) = ("TerminateInstances", format!("{} is spoiled", one.id));
            let spoil = state.ends.get(&one.id).copied();
            let error = spoil.map(|spoil| match spoil {
                SpoilEnd::LostAfter => CloudError::MayHaveHappened { call, code: "ConnectionLost".into(), message },
                SpoilEnd::Refused => CloudError::Final { call, code: "OperationNotPermitted".into(), message },
            });
            failed.extend(error.map(|error| (one.id.clone(), error)));
            if spoil != Some(SpoilEnd::Refused)
                && let Some(instance) = state.instances.get_mut(&one.id)
            {
                instance.state = "terminated".into();
            }
        }
        ready(failed)
    }

    fn reboot<'a>(&'a self, _: &'a Instance) -> CloudFuture<'a, ()> {
        ready(())
    }

    fn tag<'a>(&'a self, _: &'a str, _: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        ready(())
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        ready(self.state.lock().unwrap().troubles.clone())
    }
}

impl CloudQueue for FakeCloud {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        ready(format!("https://sqs/{name}"))
    }

    fn receive<'a>(&'a self, _: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        let time = self.state.lock().unwrap().queue_time;
        async move {
            tokio::time::sleep(time.unwrap_or_default()).await;
            for _ in 0..200 {
                let messages = {
                    let state = &mut *self.state.lock().unwrap();
                    let all = &mut state.messages;
                    let most = if state.queue_time.is_some() { all.len().min(10) } else { all.len() };
                    all.drain(..most).collect::<Vec<_>>()
                };
                if !messages.is_empty() {
                    return Ok(messages);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
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
        let mut state = self.state.lock().unwrap();
        state.deletions.push(receipts.len());
        // The first of a batch may be kept once, as SQS does now and then.
        let kept = state.keeps_first.then(|| receipts.first().cloned()).flatten();
        state.keeps_first = false;
        state.deleted.extend(receipts.iter().filter(|one| Some(*one) != kept.as_ref()).cloned());
        let error = || CloudError::Retryable {
            call: "DeleteMessageBatch",
            code: "InternalError".into(),
            message: String::new(),
        };
        let failed = kept.into_iter().map(|receipt| (receipt, error())).collect();
        let time = state.queue_time;
        async move {
            tokio::time::sleep(time.unwrap_or_default()).await;
            Ok(failed)
        }
        .boxed()
    }
}
