//! A small world for the actors: the sandbox's API server, a cloud whose answers a test can spoil, kubelets that join
//! and a scheduler that binds, all on paused time.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod cloud;
pub mod region;
pub mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dovetail_actors::{
    ClusterClock, InlineSolver, Journal, MemoryJournal, ReplicaHandle, ReplicaParts, Settings, Solver,
};
use dovetail_cloud::Cloud;
use dovetail_core::clock::Clock;
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{
    self, ApiServer, CUSTOM_RESOURCE_DEFINITIONS, EC2_NODE_CLASSES, EVENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS,
};
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::FaultsInForce;
use serde_json::{Value, json};
use tokio::task::LocalSet;

pub use cloud::{FakeCloud, Spoil, SpoilEnd};

/// Requirements of a pool whose nodes are m5, on demand.
pub fn on_demand_m5() -> Value {
    json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
    ])
}

/// A number of minutes.
pub fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// A number of seconds.
pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Time until an instance joins, and below until it is ready.
const JOINS: Duration = Duration::from_secs(20);
const READY: Duration = Duration::from_secs(10);

/// A cluster with its cloud, for replicas under test.
#[derive(Clone)]
pub struct World {
    pub api: ApiServer,
    pub faults: FaultsInForce,
    pub cloud: Arc<FakeCloud>,
    pub clock: Arc<VirtualClock>,
    pub journal: Arc<MemoryJournal>,
    silent: Arc<AtomicBool>,
    spoils: Arc<AtomicBool>,
    /// Cloud that replicas use instead of `cloud`.
    behind: Option<Arc<dyn Cloud>>,
}

/// Runs a test in a world of its own.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    run_drawn(1, test);
}

/// Runs a test in which failures strike other requests for each seed.
pub fn run_drawn<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let world = World::new(seed);
        tokio::task::spawn_local(kubelets(world.clone()));
        tokio::task::spawn_local(scheduler(world.clone()));
        test(world).await;
    }));
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(VirtualClock::new(DEFAULT_START));
        let faults = FaultsInForce::new(seed);
        let settings =
            apiserver::ServerSettings { faults: Some(faults.clone()), ..apiserver::ServerSettings::default() };
        let api = ApiServer::with(clock.clone(), settings);
        for crd in dovetail_api::crds::crds().into_iter().chain(dovetail_api::crds::alpha_crds()) {
            api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
        }
        Self {
            api,
            faults,
            cloud: Arc::new(FakeCloud::new(clock.clone())),
            clock,
            journal: Arc::default(),
            silent: Arc::default(),
            spoils: Arc::default(),
            behind: None,
        }
    }

    /// This world with another cloud for its replicas.
    pub fn with_cloud(self, behind: Arc<dyn Cloud>) -> Self {
        Self { behind: Some(behind), ..self }
    }

    /// A replica, in the LocalSet of the test.
    pub fn replica(&self, number: u32) -> ReplicaHandle {
        self.replica_with(number, Settings::default())
    }

    /// A replica with other settings than those by default.
    pub fn replica_with(&self, number: u32, settings: Settings) -> ReplicaHandle {
        self.replica_of(number, settings, Arc::new(InlineSolver))
    }

    /// A replica that packs with another solver.
    pub fn replica_of(&self, number: u32, settings: Settings, solver: Arc<dyn Solver>) -> ReplicaHandle {
        self.replica_by(number, settings, solver, self.journal.clone())
    }

    /// A replica that tells another journal.
    pub fn replica_told(&self, number: u32, settings: Settings, journal: Arc<dyn Journal>) -> ReplicaHandle {
        self.replica_by(number, settings, Arc::new(InlineSolver), journal)
    }

    /// Starts a replica with these settings, solver and journal.
    pub fn replica_by(
        &self,
        number: u32,
        settings: Settings,
        solver: Arc<dyn Solver>,
        journal: Arc<dyn Journal>,
    ) -> ReplicaHandle {
        let client = |name: &str| {
            let client = self.api.client(Caller::replica(number, name));
            if self.spoils.load(Ordering::Relaxed) { wire::spoiling(client) } else { client }
        };
        dovetail_actors::start(ReplicaParts {
            identity: format!("replica-{number}"),
            kube: client("controller"),
            lease_kube: client("lease"),
            cloud: self.behind.clone().unwrap_or_else(|| self.cloud.clone()),
            clock: ClusterClock::over(self.clock.clone()),
            streams_lists: false,
            rng_seed: u64::from(number),
            settings: Settings { cluster_name: "demo".into(), ..settings },
            identities: None,
            solver,
            journal,
        })
    }

    /// Kubernetes' Events of this reason: the name of whom each is about, and its message.
    pub fn events(&self, reason: &str) -> Vec<(String, String)> {
        let all = self.api.list(&EVENTS);
        let meant = all.iter().filter(|event| event["reason"] == reason);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        meant.map(|event| (text(&event["involvedObject"]["name"]), text(&event["message"]))).collect()
    }

    /// Messages of the Events of this reason about whatever has this name.
    pub fn messages(&self, reason: &str, name: &str) -> Vec<String> {
        self.events(reason).into_iter().filter(|(about, _)| about == name).map(|(_, message)| message).collect()
    }

    /// A pool of on-demand m5 nodes, and its class.
    pub fn pool(&self, name: &str, requirements: Value) {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
            "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}]},
        });
        self.api.create(&EC2_NODE_CLASSES, "", class).unwrap();
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"requirements": requirements,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}}}},
        });
        self.api.create(&NODE_POOLS, "", pool).unwrap();
    }

    /// Pods that kube-scheduler found no node for.
    pub fn pods(&self, count: usize, cpu: &str) {
        self.pods_of("pod", count, cpu);
    }

    /// Makes pods of this name that kube-scheduler has marked.
    pub fn pods_of(&self, name: &str, count: usize, cpu: &str) {
        self.unmarked(name, count, cpu);
        let status = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}});
        for n in 0..count {
            self.api.patch_status(&PODS, "default", &format!("{name}-{n:04}"), &status).unwrap();
        }
    }

    /// Pods that kube-scheduler has not looked at.
    pub fn unmarked_pods(&self, count: usize, cpu: &str) {
        self.unmarked("pod", count, cpu);
    }

    fn unmarked(&self, name: &str, count: usize, cpu: &str) {
        for n in 0..count {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{name}-{n:04}"), "namespace": "default"},
                "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]},
            });
            self.api.create(&PODS, "default", pod).unwrap();
        }
    }

    /// Replicas that start from now on cannot read what has the annotation of [`wire::spoilt`].
    pub fn spoils(&self) {
        self.spoils.store(true, Ordering::Relaxed);
    }

    /// Instances that are launched from now on never join, or do again.
    pub fn nobody_joins(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    /// Number of bound pods.
    pub fn bound(&self) -> usize {
        self.api.list(&PODS).iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// Wall clock's time as text.
    pub fn clock_text(&self) -> String {
        self.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The claims, as the API server has them.
    pub fn claims(&self) -> Vec<Arc<Value>> {
        self.api.list(&NODE_CLAIMS)
    }

    /// Waits until so many pods are bound, at most so long.
    pub async fn until_bound(&self, count: usize, within: Duration) {
        let begin = self.clock.monotonic();
        while self.bound() < count {
            if self.clock.monotonic() - begin > within {
                let lines: Vec<_> = self.log_events();
                panic!("{} of {count} pods bound after {within:?}:\n{}", self.bound(), lines.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Waits until something holds, at most so long; answers how long it took.
    pub async fn until(&self, within: Duration, holds: impl Fn() -> bool) -> Duration {
        let begun = self.clock.monotonic();
        while !holds() {
            let passed = self.clock.monotonic() - begun;
            assert!(passed < within, "it never came to that:\n{}", self.log_events().join("\n"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.clock.monotonic() - begun
    }

    /// The log events so far, a line each.
    pub fn log_events(&self) -> Vec<String> {
        let line =
            |entry: &dovetail_actors::JournalEntry| format!("{} {} {}", entry.term, entry.actor, entry.log_event);
        self.journal.entries().iter().map(line).collect()
    }
}

/// Nodes join for instances, and become ready.
async fn kubelets(world: World) {
    let mut launched = world.cloud.launches();
    while let Some(instance) = launched.recv().await {
        if world.silent.load(Ordering::Relaxed) {
            continue;
        }
        let world = world.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(JOINS).await;
            let name = instance.instance.private_dns_name.clone();
            world.api.create(&NODES, "", node(&instance, &name)).unwrap();
            tokio::time::sleep(READY).await;
            let amounts = json!({"cpu": instance.cpu, "memory": "900Gi", "pods": "200"});
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "capacity": amounts, "allocatable": amounts}});
            world.api.patch_status(&NODES, "", &name, &status).unwrap();
            loop {
                let node = world.api.get(&NODES, "", &name).unwrap();
                let taints: Vec<_> = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let kept: Vec<_> =
                    taints.into_iter().filter(|one| one["key"] != "node.kubernetes.io/not-ready").collect();
                let version = node["metadata"]["resourceVersion"].clone();
                let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": kept}});
                if world.api.patch(&NODES, "", &name, &patch).is_ok() {
                    return;
                }
            }
        });
    }
}

fn node(launched: &cloud::Launched, name: &str) -> Value {
    let mut labels: BTreeMap<String, String> = launched.labels.clone();
    labels.insert("kubernetes.io/hostname".into(), name.into());
    labels.insert("node.kubernetes.io/instance-type".into(), launched.instance.instance_type.clone());
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": launched.instance.provider_id(), "taints": [
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    })
}

/// Binds pods to untainted nodes with room, first fit.
async fn scheduler(world: World) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let millis = |text: &str| {
            text.strip_suffix('m').map_or_else(|| text.parse::<i64>().unwrap() * 1000, |m| m.parse().unwrap())
        };
        let cpu = |pod: &Value| millis(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap());
        let pods = world.api.list(&PODS);
        let mut room: BTreeMap<String, i64> = BTreeMap::new();
        for node in world.api.list(&NODES) {
            let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            if let (false, Some(amount)) = (tainted, node["status"]["allocatable"]["cpu"].as_str()) {
                room.insert(node["metadata"]["name"].as_str().unwrap().into(), millis(amount));
            }
        }
        for pod in &pods {
            if let Some(left) = pod["spec"]["nodeName"].as_str().and_then(|name| room.get_mut(name)) {
                *left -= cpu(pod);
            }
        }
        for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            if let Some((node, left)) = room.iter_mut().find(|(_, left)| **left >= cpu(pod)) {
                *left -= cpu(pod);
                world.api.bind("default", pod["metadata"]["name"].as_str().unwrap(), node).unwrap();
            }
        }
    }
}
