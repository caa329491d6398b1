//! Replicas that are broken on purpose, so that the checks of a simulation are seen to fail (docs/decisions/012). Each
//! breaks, at a seam, what our own code counts on there; the code itself, and the checks, stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use dovetail_api::names::annotations::LAUNCHED_FOR;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::node_class::NodeClassResolution;
use dovetail_cloud::{
    Cloud, CloudError, CloudFuture, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue,
    FoundInstances, Instance, LaunchError, LaunchErrorKind, LaunchPace, LaunchRequest, LaunchRoom, LaunchedFleet,
    LaunchedInstance, MadeResource, QueueMessage,
};
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use dovetail_sandbox::apiserver::{ApiError, ApiServer, DeleteOptions, Gvr};
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// A safeguard that is taken out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// The API server refuses no NodeClaim of an older term.
    NoFence,
    /// The leader's clock stands still while its machine does: its deadline does not pass.
    NoDeadline,
    /// Each launch is sent with a token of its own.
    NoToken,
    /// An instance of an earlier launch is not found.
    ForgottenAdoption,
    /// A launch that did not come out well is sent again at once, as another one.
    DoubleResend,
    /// The operator's release of the collection never ends.
    NoBrakes,
    /// Every NodeClaim is made a second time, under another name.
    TwiceClaimed,
    /// Pools' limits never reach the API server.
    NoLimits,
    /// Pools' disruption budgets never reach the API server: all nodes may go at once.
    NoBudgets,
    /// PodDisruptionBudgets never reach the API server.
    NoPodBudgets,
    /// A NodeClaim loses at once the pods that it was launched for: nobody is found not to have used its node.
    NoUnusedBrake,
    /// A NodeClaim loses at once the condition that names the command which holds it.
    NoHolds,
    /// NodeClaims that replace others count as initialized as soon as they are launched.
    EarlyReplacements,
    /// Consolidation does not know which pods it has moved.
    ForgottenMoves,
    /// To consolidation every node is old enough.
    NoLeastAge,
    /// Any number of launches may come to nothing.
    NoFutileBrake,
    /// EC2 is said to have no free instance of any capacity reservation.
    NoFreeSlots,
}

/// Takes operators' rules off the API server, as far as they are broken: the event log keeps them as they were applied.
pub fn forget_rules(api: &ApiServer, broken: Option<Broken>) -> Result<(), ApiError> {
    let pools = Gvr::new("karpenter.sh", "v1", "nodepools");
    let pod_budgets = Gvr::new("policy", "v1", "poddisruptionbudgets");
    let (gvr, patch) = match broken {
        Some(Broken::NoLimits) => (pools, json!({"spec": {"limits": null}})),
        Some(Broken::NoBudgets) => (pools, json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}})),
        Some(Broken::NoPodBudgets) => (pod_budgets, Value::Null),
        _ => return Ok(()),
    };
    for object in api.list(&gvr) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        if patch.is_null() {
            api.delete(&gvr, namespace, name, &DeleteOptions::default())?;
        } else {
            api.patch(&gvr, namespace, name, &patch)?;
        }
    }
    Ok(())
}

/// Pause between two looks at NodeClaims.
const AGAIN: Duration = Duration::from_millis(20);
/// End of the second claim's name.
const TWIN: &str = "-again";

/// Makes every NodeClaim a second time, as a replica that has forgotten that it did.
pub async fn claim_twice(api: ApiServer, client: kube::Client) {
    let claims = kube::Api::<NodeClaim>::all(client);
    let mut seen = BTreeSet::new();
    loop {
        tokio::time::sleep(AGAIN).await;
        for there in api.list(&Gvr::new("karpenter.sh", "v1", "nodeclaims")) {
            let name = there["metadata"]["name"].as_str().unwrap_or_default();
            if name.ends_with(TWIN) || !seen.insert(name.to_owned()) {
                continue;
            }
            let mut twin = Value::clone(&there);
            let term = twin["metadata"]["annotations"]["dovetail.dev/term"].clone();
            let (labels, owners) = (&twin["metadata"]["labels"], &twin["metadata"]["ownerReferences"]);
            twin["metadata"] = json!({"name": format!("{name}{TWIN}"), "labels": labels, "ownerReferences": owners,
                "annotations": {"dovetail.dev/term": term}, "finalizers": ["karpenter.sh/termination"]});
            twin["status"] = json!({});
            if let Ok(twin) = serde_json::from_value(twin) {
                // There is no second claim where it is refused, or nobody answers.
                let _ = claims.create(&kube::api::PostParams::default(), &twin).await;
            }
        }
    }
}

/// Takes off every NodeClaim what it was launched for.
pub async fn forget_purposes(api: ApiServer) {
    let claims = Gvr::new("karpenter.sh", "v1", "nodeclaims");
    let patch = json!({"metadata": {"annotations": {LAUNCHED_FOR: null}}});
    loop {
        tokio::time::sleep(AGAIN).await;
        for there in api.list(&claims) {
            let name = there["metadata"]["name"].as_str().unwrap_or_default();
            if there["metadata"]["annotations"][LAUNCHED_FOR].is_string() {
                // The next look takes it off where this one is refused.
                let _ = api.patch(&claims, "", name, &patch);
            }
        }
    }
}

/// The condition by which a NodeClaim says that a command holds it.
const HELD: &str = "DisruptionReason";

/// Changes the conditions of NodeClaims again and again, as `change` has them.
async fn rewrite(api: ApiServer, change: fn(&Value, &[Arc<Value>]) -> Option<Vec<Value>>) {
    let claims = Gvr::new("karpenter.sh", "v1", "nodeclaims");
    loop {
        tokio::time::sleep(AGAIN).await;
        let all = api.list(&claims);
        for there in &all {
            if let Some(conditions) = change(there, &all) {
                let name = there["metadata"]["name"].as_str().unwrap_or_default();
                // The next look does it where this one is refused.
                let _ = api.patch_status(&claims, "", name, &json!({"status": {"conditions": conditions}}));
            }
        }
    }
}

/// Takes off every NodeClaim that a command holds it.
pub async fn forget_holds(api: ApiServer) {
    rewrite(api, |claim, _| {
        let all = claim["status"]["conditions"].as_array()?;
        let rest: Vec<Value> = all.iter().filter(|one| one["type"] != HELD).cloned().collect();
        (rest.len() < all.len()).then_some(rest)
    })
    .await;
}

/// Says of every NodeClaim that another waits for that it is initialized, once it is launched.
pub async fn initialize_early(api: ApiServer) {
    rewrite(api, |claim, all| {
        let name = claim["metadata"]["name"].as_str()?;
        let named = |one: &Arc<Value>| {
            let holds = one["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == HELD);
            let names = holds.and_then(|one| one["message"].as_str()?.split_once(": "));
            names.is_some_and(|(_, names)| names.split(", ").any(|one| one == name))
        };
        let conditions = claim["status"]["conditions"].as_array()?;
        let is = |type_: &str| conditions.iter().find(|one| one["type"] == type_ && one["status"] == "True");
        let launched = is("Launched").filter(|_| is("Initialized").is_none() && all.iter().any(named))?;
        let mut conditions: Vec<Value> = conditions.clone();
        for type_ in ["Registered", "Initialized", "Ready"] {
            let mut one = launched.clone();
            (one["type"], one["reason"]) = (json!(type_), json!(type_));
            conditions.retain(|other| other["type"] != type_);
            conditions.push(one);
        }
        Some(conditions)
    })
    .await;
}

/// A cloud that forgets who asked before.
pub struct BrokenCloud {
    inner: Arc<dyn Cloud>,
    broken: Broken,
    sent: AtomicU64,
}

impl BrokenCloud {
    /// The cloud itself where it is not what is broken.
    pub fn instead_of(inner: Arc<dyn Cloud>, broken: Option<Broken>) -> Arc<dyn Cloud> {
        match broken {
            Some(
                broken @ (Broken::NoToken | Broken::ForgottenAdoption | Broken::DoubleResend | Broken::NoFreeSlots),
            ) => Arc::new(Self { inner, broken, sent: AtomicU64::new(0) }),
            _ => inner,
        }
    }

    /// The same launch under another token.
    fn other(&self, request: &LaunchRequest) -> LaunchRequest {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        LaunchRequest { token: format!("{}-{number}", request.token), ..request.clone() }
    }
}

impl CloudIdentity for BrokenCloud {
    fn region(&self) -> &str {
        self.inner.region()
    }

    fn cluster_uid(&self) -> &str {
        self.inner.cluster_uid()
    }
}

impl CloudOfferings for BrokenCloud {
    fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
        self.inner.whole_types()
    }

    fn instance_types(&self) -> CloudFuture<'_, Vec<InstanceTypeInfo>> {
        self.inner.instance_types()
    }

    fn offerings(&self) -> CloudFuture<'_, BTreeMap<String, BTreeSet<String>>> {
        self.inner.offerings()
    }

    fn on_demand_prices(&self) -> CloudFuture<'_, BTreeMap<String, f64>> {
        self.inner.on_demand_prices()
    }

    fn spot_prices(&self) -> CloudFuture<'_, BTreeMap<(String, String), f64>> {
        self.inner.spot_prices()
    }

    fn reserved_left<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, BTreeMap<String, u32>> {
        match self.broken {
            Broken::NoFreeSlots => Box::pin(async { Ok(BTreeMap::new()) }),
            _ => self.inner.reserved_left(ids),
        }
    }

    fn reserved_instances(&self) -> CloudFuture<'_, AccountAnswer> {
        self.inner.reserved_instances()
    }

    fn savings_plans(&self) -> CloudFuture<'_, AccountAnswer> {
        self.inner.savings_plans()
    }

    fn zone_shifts(&self) -> CloudFuture<'_, Vec<ZoneShift>> {
        self.inner.zone_shifts()
    }

    fn others_on_demand(&self) -> CloudFuture<'_, Uses> {
        self.inner.others_on_demand()
    }
}

impl CloudNodeClasses for BrokenCloud {
    fn resolve_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, NodeClassResolution> {
        self.inner.resolve_node_class(class)
    }

    fn remove_node_class<'a>(&'a self, class: &'a EC2NodeClass) -> CloudFuture<'a, ()> {
        self.inner.remove_node_class(class)
    }

    fn subnet_has_tag<'a>(&'a self, key: &'a str) -> CloudFuture<'a, bool> {
        self.inner.subnet_has_tag(key)
    }

    fn made(&self) -> CloudFuture<'_, Vec<MadeResource>> {
        self.inner.made()
    }

    fn remove_made<'a>(&'a self, made: &'a MadeResource) -> CloudFuture<'a, ()> {
        self.inner.remove_made(made)
    }
}

impl CloudInstances for BrokenCloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        match self.broken {
            Broken::NoToken => self.inner.launch(self.other(&request)),
            Broken::DoubleResend => Box::pin(async move {
                match self.inner.launch(request.clone()).await {
                    Err(error) if error.kind != LaunchErrorKind::InsufficientCapacity => {
                        self.inner.launch(self.other(&request)).await
                    }
                    other => other,
                }
            }),
            _ => self.inner.launch(request),
        }
    }

    fn launch_pace(&self, count: u32) -> LaunchPace {
        self.inner.launch_pace(count)
    }

    fn reserve_launch(&self, token: &str, count: u32) -> LaunchRoom {
        self.inner.reserve_launch(token, count)
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        match self.broken {
            Broken::NoToken => self.inner.launch_several(self.other(&request), count),
            Broken::DoubleResend => Box::pin(async move {
                match self.inner.launch_several(request.clone(), count).await {
                    Err(error) if error.kind != LaunchErrorKind::InsufficientCapacity => {
                        self.inner.launch_several(self.other(&request), count).await
                    }
                    other => other,
                }
            }),
            _ => self.inner.launch_several(request, count),
        }
    }

    fn instances(&self) -> CloudFuture<'_, Vec<Instance>> {
        self.inner.instances()
    }

    fn instances_by_name(&self, ended: bool) -> CloudFuture<'_, Vec<Instance>> {
        self.inner.instances_by_name(ended)
    }

    fn instance<'a>(&'a self, id: &'a str) -> CloudFuture<'a, Option<Instance>> {
        self.inner.instance(id)
    }

    fn instances_with_token<'a>(&'a self, token: &'a str) -> CloudFuture<'a, Vec<Instance>> {
        match self.broken {
            Broken::ForgottenAdoption => Box::pin(async { Ok(Vec::new()) }),
            _ => self.inner.instances_with_token(token),
        }
    }

    fn instances_of<'a>(&'a self, ids: &'a [String]) -> CloudFuture<'a, FoundInstances> {
        self.inner.instances_of(ids)
    }

    fn terminate_all<'a>(&'a self, found: &'a [Instance]) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.inner.terminate_all(found)
    }

    fn reboot<'a>(&'a self, found: &'a Instance) -> CloudFuture<'a, ()> {
        self.inner.reboot(found)
    }

    fn tag<'a>(&'a self, id: &'a str, tags: &'a BTreeMap<String, String>) -> CloudFuture<'a, ()> {
        self.inner.tag(id, tags)
    }

    fn instance_troubles(&self) -> CloudFuture<'_, Vec<Trouble>> {
        self.inner.instance_troubles()
    }
}

impl CloudQueue for BrokenCloud {
    fn queue_url<'a>(&'a self, name: &'a str) -> CloudFuture<'a, String> {
        self.inner.queue_url(name)
    }

    fn receive<'a>(&'a self, queue_url: &'a str) -> CloudFuture<'a, Vec<QueueMessage>> {
        self.inner.receive(queue_url)
    }

    fn delete_messages<'a>(
        &'a self,
        queue_url: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        self.inner.delete_messages(queue_url, receipts)
    }
}
