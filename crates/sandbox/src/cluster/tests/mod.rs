//! Stories on a whole sandbox cluster, on the paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;
mod resizing;
mod scheduling;
mod volumes;
mod workloads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::clock::Clock;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::{ClusterSettings, NodesBeforehand, SandboxCluster};
use crate::apiserver::{self as api, ApiServer, DeleteOptions};
use crate::clock::{DEFAULT_START, VirtualClock};
use crate::faults::FaultsInForce;
use crate::log::EventLog;
use crate::region::{Region, RegionConfig};

/// A sandbox to tell a story on.
struct Rig {
    api: ApiServer,
    region: Region,
    log: EventLog,
}

/// Tells a story on a cluster with these nodes.
fn on<T>(nodes: &[NodesBeforehand], story: impl AsyncFnOnce(Rig) -> T) -> T {
    seeded(1, ClusterSettings::default(), nodes, story)
}

fn seeded<T>(seed: u64, settings: ClusterSettings, nodes: &[NodesBeforehand], story: impl AsyncFnOnce(Rig) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async move {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(DEFAULT_START));
        let log = EventLog::new(clock.clone());
        let api = ApiServer::with(clock.clone(), api::ServerSettings { seed, ..api::ServerSettings::default() });
        let config = RegionConfig { seed, ..RegionConfig::new("us-east-1", "demo") };
        let region = Region::new(config, clock.clone(), log.clone(), FaultsInForce::new(seed));
        tokio::task::spawn_local(region.run());
        let mut cluster = SandboxCluster::new(api.clone(), region.clone(), clock, log.clone(), settings, seed);
        cluster.place(nodes).unwrap();
        cluster.start();
        story(Rig { api, region, log }).await
    })
}

/// Equal nodes of a managed node group.
fn nodes(instance_type: &str, count: u32) -> NodesBeforehand {
    serde_json::from_value(json!({"instanceType": instance_type, "count": count})).unwrap()
}

impl Rig {
    async fn after(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Creates an object, in `default` where its kind has namespaces.
    fn create(&self, object: Value) -> Arc<Value> {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (gvr, namespaced) = self.api.resource_of(&text("apiVersion"), &text("kind")).unwrap();
        self.api.create(&gvr, if namespaced { "default" } else { "" }, object).unwrap()
    }

    /// A ready Node that nobody keeps: pods are bound to it and stay pending.
    fn node(&self, name: &str, zone: &str, cpu: &str) {
        self.node_with(name, zone, cpu, json!({}));
    }

    fn node_with(&self, name: &str, zone: &str, cpu: &str, spec: Value) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "node": name}},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }

    fn pod(&self, name: &str, labels: Value, spec: Value) {
        let mut spec = spec;
        if spec["containers"].is_null() {
            spec["containers"] = json!([container("1")]);
        }
        self.create(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}),
        );
    }

    fn deployment(&self, name: &str, replicas: u32, cpu: &str) {
        self.create(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, cpu)},
        }));
    }

    fn get(&self, gvr: &api::Gvr, name: &str) -> Arc<Value> {
        let namespace = if ["nodes", "persistentvolumes"].contains(&gvr.resource.as_ref()) { "" } else { "default" };
        self.api.get(gvr, namespace, name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn delete(&self, gvr: &api::Gvr, name: &str) {
        self.api.delete(gvr, "default", name, &DeleteOptions::default()).unwrap();
    }

    fn pods(&self) -> Vec<Arc<Value>> {
        self.api.list(&api::PODS)
    }

    /// The node of each pod; empty where it has none.
    fn places(&self) -> BTreeMap<String, String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        self.pods().iter().map(|p| (text(&p["metadata"]["name"]), text(&p["spec"]["nodeName"]))).collect()
    }

    fn place(&self, pod: &str) -> String {
        self.places()[pod].clone()
    }

    fn ready(&self) -> usize {
        self.pods().iter().filter(|p| status(p, "Ready") == "True").count()
    }

    fn bound(&self) -> usize {
        self.places().values().filter(|node| !node.is_empty()).count()
    }

    /// The reason for which the pod waits, from its condition.
    fn why(&self, pod: &str) -> String {
        let pod = self.get(&api::PODS, pod);
        super::pod::condition(&pod, "PodScheduled").map_or("", |c| c["message"].as_str().unwrap_or_default()).to_owned()
    }

    /// The times and names of a kind of event of pods or nodes.
    fn told(&self, kind: &str, event: &str) -> Vec<(f64, String)> {
        let entries = self.log.entries();
        let told = entries.iter().filter(|e| e.kind == kind && e.field("change") == Some(&json!(event)));
        told.map(|e| (e.micros as f64 / 1e6, e.field("name").unwrap().as_str().unwrap().to_owned())).collect()
    }
}

fn status(object: &Value, condition: &str) -> String {
    super::pod::condition(object, condition).map_or("", |c| c["status"].as_str().unwrap_or_default()).to_owned()
}

fn container(cpu: &str) -> Value {
    json!({"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}})
}

fn template(app: &str, cpu: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container(cpu)]}})
}
