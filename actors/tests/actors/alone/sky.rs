//! A cloud whose calls fail as a test says, and which notes them; what does not fail is the world's own cloud's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::cloud::CloudFuture;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::node_class::NodeClassResolution;
use dovetail_cloud::{
    CloudError, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue, FoundInstances, Instance,
    LaunchError, LaunchErrorKind, LaunchPace, LaunchRequest, LaunchRoom, LaunchedFleet, LaunchedInstance, MadeResource,
    QueueMessage,
};
use dovetail_core::clock::Clock;
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use futures::future::{BoxFuture, FutureExt};

use crate::world::FakeCloud;

/// Failures of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fails {
    /// The call is throttled.
    Throttled,
    /// The cloud refuses for good.
    Never,
    /// The call may have been done.
    Unknown,
    /// The object of the call does not exist.
    NotThere,
    /// An object that the class has resolved to is missing.
    ClassNotReady,
    /// The token was used for something else.
    TokenUsed,
    /// There is no way to the service from an isolated VPC.
    Isolated,
    /// The call is never answered.
    Hangs,
}

#[derive(Default)]
struct State {
    next: BTreeMap<&'static str, VecDeque<Fails>>,
    always: BTreeMap<&'static str, Fails>,
    calls: Vec<(&'static str, String)>,
    resolution: Option<NodeClassResolution>,
    listed: Option<Vec<Instance>>,
    made: Vec<MadeResource>,
    types: Option<Vec<InstanceTypeInfo>>,
    on_demand: Option<BTreeMap<String, f64>>,
    spot: Option<BTreeMap<(String, String), f64>>,
    left: BTreeMap<String, u32>,
    pace: LaunchPace,
    instances: AccountAnswer,
    plans: AccountAnswer,
    others: Uses,
}

/// See the module.
pub struct Sky {
    pub inner: FakeCloud,
    state: Mutex<State>,
}

impl Sky {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: FakeCloud::new(clock), state: Mutex::default() }
    }

    /// The next calls of that name fail like this.
    pub fn next(&self, call: &'static str, fails: impl IntoIterator<Item = Fails>) {
        self.state.lock().unwrap().next.entry(call).or_default().extend(fails);
    }

    /// All calls of that name fail like this from now on, or none does.
    pub fn always(&self, call: &'static str, fails: Option<Fails>) {
        let always = &mut self.state.lock().unwrap().always;
        always.remove(call);
        always.extend(fails.map(|fails| (call, fails)));
    }

    /// Number of calls made.
    pub fn count(&self, call: &str) -> usize {
        self.asked(call).len()
    }

    /// Objects of each call.
    pub fn asked(&self, call: &str) -> Vec<String> {
        let calls = &self.state.lock().unwrap().calls;
        calls.iter().filter(|(name, _)| *name == call).map(|(_, about)| about.clone()).collect()
    }

    /// Sets the resolution of node classes.
    pub fn resolves(&self, to: NodeClassResolution) {
        self.state.lock().unwrap().resolution = Some(to);
    }

    /// Sets the instances that listings show; the living ones by default.
    pub fn lists(&self, instances: Option<Vec<Instance>>) {
        self.state.lock().unwrap().listed = instances;
    }

    /// Sets the resources made for node classes.
    pub fn has_made(&self, made: Vec<MadeResource>) {
        self.state.lock().unwrap().made = made;
    }

    /// The region's instance types, otherwise those shipped.
    pub fn types(&self, types: Option<Vec<InstanceTypeInfo>>) {
        self.state.lock().unwrap().types = types;
    }

    /// Prices, otherwise those shipped.
    pub fn prices(&self, on_demand: Option<BTreeMap<String, f64>>, spot: Option<BTreeMap<(String, String), f64>>) {
        let mut state = self.state.lock().unwrap();
        (state.on_demand, state.spot) = (on_demand, spot);
    }

    /// Sets the free capacity of reservations.
    pub fn reserves(&self, left: &[(&str, u32)]) {
        self.state.lock().unwrap().left = left.iter().map(|(id, left)| ((*id).to_owned(), *left)).collect();
    }

    /// Sets the account's Reserved Instances and Savings Plans.
    pub fn commits(&self, instances: AccountAnswer, plans: AccountAnswer) {
        let mut state = self.state.lock().unwrap();
        (state.instances, state.plans) = (instances, plans);
    }

    /// Sets the instances of others of the account.
    pub fn others(&self, others: Uses) {
        self.state.lock().unwrap().others = others;
    }

    /// Sets the pace of launches: each waits so long before it goes out.
    pub fn paces(&self, pace: LaunchPace) {
        self.state.lock().unwrap().pace = pace;
    }

    /// Notes a call; how it fails, if it does.
    fn note(&self, call: &'static str, about: impl Into<String>) -> Option<Fails> {
        let mut state = self.state.lock().unwrap();
        state.calls.push((call, about.into()));
        let next = state.next.get_mut(call).and_then(VecDeque::pop_front);
        next.or_else(|| state.always.get(call).copied())
    }

    fn or<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        about: String,
        answer: CloudFuture<'a, T>,
    ) -> CloudFuture<'a, T> {
        let fails = self.note(call, about);
        async move {
            match fails {
                None => answer.await,
                Some(Fails::Hangs) => std::future::pending().await,
                Some(fails) => Err(error(call, fails)),
            }
        }
        .boxed()
    }
}

fn error(call: &'static str, fails: Fails) -> CloudError {
    let message = "the test says so".to_owned();
    match fails {
        Fails::Throttled => CloudError::Retryable { call, code: "RequestLimitExceeded".into(), message },
        Fails::Never => CloudError::Final { call, code: "UnauthorizedOperation".into(), message },
        Fails::NotThere => CloudError::Final { call, code: "QueueDoesNotExist".into(), message },
        Fails::ClassNotReady => CloudError::Final { call, code: "InvalidSubnetID.NotFound".into(), message },
        Fails::TokenUsed => CloudError::Final { call, code: "IdempotentParameterMismatch".into(), message },
        Fails::Isolated => CloudError::isolated(call),
        Fails::Unknown | Fails::Hangs => CloudError::MayHaveHappened { call, code: "ConnectionLost".into(), message },
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> CloudFuture<'a, T> {
    async move { Ok(answer) }.boxed()
}

impl CloudIdentity for Sky {
    fn region(&self) -> &str {
        self.inner.region()
    }

    fn cluster_uid(&self) -> &str {
        self.inner.cluster_uid()
    }
}

impl CloudOfferings for Sky {
    fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
        None
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        let own = self.state.lock().unwrap().types.clone();
        self.or("instance_types", String::new(), own.map_or_else(|| self.inner.instance_types(), ready))
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        self.or("offerings", String::new(), self.inner.offerings())
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        let own = self.state.lock().unwrap().on_demand.clone();
        self.or("on_demand_prices", String::new(), own.map_or_else(|| self.inner.on_demand_prices(), ready))
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        let own = self.state.lock().unwrap().spot.clone();
        self.or("spot_prices", String::new(), own.map_or_else(|| self.inner.spot_prices(), ready))
    }

    fn reserved_left<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        let left = self.state.lock().unwrap().left.clone();
        self.or("reserved_left", ids.join(","), ready(left))
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        let found = self.state.lock().unwrap().instances.clone();
        self.or("reserved_instances", String::new(), ready(found))
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        let found = self.state.lock().unwrap().plans.clone();
        self.or("savings_plans", String::new(), ready(found))
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        self.or("zone_shifts", String::new(), ready(vec![]))
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        let found = self.state.lock().unwrap().others.clone();
        self.or("others_on_demand", String::new(), ready(found))
    }
}

impl CloudNodeClasses for Sky {
    fn resolve_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        let own = self.state.lock().unwrap().resolution.clone();
        let answer = own.map_or_else(|| self.inner.resolve_node_class(class), ready);
        self.or("resolve_node_class", class.metadata.name.clone().unwrap_or_default(), answer)
    }

    fn remove_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        self.or("remove_node_class", class.metadata.name.clone().unwrap_or_default(), ready(()))
    }

    fn subnet_has_tag<'a>(&'a self, key: &'a str) -> CloudFuture<'a, bool> {
        self.or("subnet_has_tag", key.to_owned(), self.inner.subnet_has_tag(key))
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        let made = self.state.lock().unwrap().made.clone();
        self.or("made", String::new(), ready(made))
    }

    fn remove_made<'a>(&'a self, made: &'a MadeResource) -> CloudFuture<'a, ()> {
        self.or("remove_made", made.name.clone(), ready(()))
    }
}

impl CloudInstances for Sky {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        async move { Ok(self.launch_several(request, 1).await?.instances.remove(0)) }.boxed()
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        let kind = match self.note("launch", request.token.clone()) {
            None => return self.inner.launch_several(request, count),
            Some(Fails::Hangs) => return std::future::pending().boxed(),
            Some(Fails::Throttled) => LaunchErrorKind::Retryable,
            Some(Fails::Unknown) => LaunchErrorKind::MayHaveHappened,
            Some(Fails::Never | Fails::NotThere | Fails::Isolated) => LaunchErrorKind::Final,
            Some(Fails::ClassNotReady) => LaunchErrorKind::NodeClassNotReady,
            Some(Fails::TokenUsed) => LaunchErrorKind::TokenUsed,
        };
        let message = "the test says so".to_owned();
        async move { Err(LaunchError { kind, reason: "Unauthorized", message, refusals: Vec::new() }) }.boxed()
    }

    fn launch_pace(&self, _: u32) -> LaunchPace {
        self.state.lock().unwrap().pace
    }

    fn reserve_launch(&self, _: &str, _: u32) -> LaunchRoom {
        LaunchRoom::after(self.state.lock().unwrap().pace.wait)
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        self.or("instances", String::new(), self.inner.instances())
    }

    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>> {
        let own = self.state.lock().unwrap().listed.clone();
        let answer = own.map_or_else(|| self.inner.instances_by_name(ended), ready);
        self.or("instances_by_name", ended.to_string(), answer)
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        self.or("instance", id.to_owned(), self.inner.instance(id))
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        self.or("instances_with_token", token.to_owned(), self.inner.instances_with_token(token))
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        self.or("instances_of", ids.join(","), self.inner.instances_of(ids))
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        let about = ids.join(",");
        match self.note("terminate_all", about) {
            None => self.inner.terminate_all(found),
            Some(Fails::Hangs) => std::future::pending().boxed(),
            Some(fails) => {
                ready(found.iter().map(|one| (one.id.clone(), error("TerminateInstances", fails))).collect())
            }
        }
    }

    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()> {
        self.or("reboot", found.id.clone(), ready(()))
    }

    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        self.or("tag", format!("{id} {tags:?}"), ready(()))
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        self.or("instance_troubles", String::new(), self.inner.instance_troubles())
    }
}

impl CloudQueue for Sky {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        self.or("queue_url", name.to_owned(), self.inner.queue_url(name))
    }

    fn receive<'a>(&'a self, queue_url: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        self.or("receive", queue_url.to_owned(), self.inner.receive(queue_url))
    }

    fn delete_messages<'a>(
        &'a self,
        queue_url: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        match self.note("delete_messages", receipts.join(",")) {
            None => self.inner.delete_messages(queue_url, receipts),
            Some(Fails::Hangs) => std::future::pending().boxed(),
            Some(fails) => async move { Err(error("DeleteMessageBatch", fails)) }.boxed(),
        }
    }
}
