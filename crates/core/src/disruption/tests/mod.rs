//! Looks at a small cluster, at chosen times.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adopted;
mod commands;
mod demand;
mod devices;
mod drift;
mod emptiness;
mod expiry;
mod legacy_repair;
mod marks;
mod own_slot;
mod queue;
mod reboot;
mod repair;
mod replacing;
mod succession;
mod ttl;
mod upstream;
mod usage;
mod waiting;
mod worth;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::{NodeClaim, NodePool};
use jiff::{SignedDuration, Timestamp, ToSpan};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::cluster_state::{ClusterState, Moment, NominationTarget, WatchedKind};
use crate::zonal_shift::{ShiftAnswer, ShiftedZones, ZoneShift};

/// A cluster, its disruption's memory, and the time in seconds.
struct World {
    state: ClusterState,
    memory: Memory,
    seconds: f64,
    version: u64,
    pool: Value,
}

fn at(seconds: f64) -> Timestamp {
    "2026-03-10T12:00:00Z".parse::<Timestamp>().unwrap() + ((seconds * 1000.0) as i64).milliseconds()
}

/// The cluster is shifted away from a zone.
fn shifted(zone: &str) -> ShiftedZones {
    let mut answer = ShiftAnswer::default();
    answer.learn(vec![ZoneShift { zone: zone.to_owned(), until: None }], at(0.0));
    answer.counted(&BTreeMap::new(), at(0.0)).unwrap()
}

impl World {
    /// One pool with that disruption block.
    fn new(disruption: Value) -> Self {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default", "uid": "uid-pool", "annotations": {}, "resourceVersion": "1"},
            "spec": {"disruption": disruption, "template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        });
        let mut world =
            Self { state: ClusterState::new(), memory: Memory::new(), seconds: 0.0, version: 10, pool: pool.clone() };
        world.state.list_begins(WatchedKind::Pod);
        world.state.list_ends(WatchedKind::Pod);
        world.apply_pool(pool);
        world
    }

    /// A pool that was a Provisioner with `ttlSecondsAfterEmpty: 30`.
    fn with_ttl() -> Self {
        let mut world = Self::new(json!({"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"}));
        world.annotate("dovetail.dev/ttl-seconds-after-empty", "30");
        world
    }

    fn annotate(&mut self, key: &str, value: &str) {
        let mut pool = self.pool.clone();
        pool["metadata"]["annotations"][key] = json!(value);
        pool["metadata"]["resourceVersion"] = json!(self.next().to_string());
        self.apply_pool(pool);
    }

    fn apply_pool(&mut self, pool: Value) {
        self.pool = pool.clone();
        self.state.apply_pool(serde_json::from_value::<NodePool>(pool).unwrap());
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Machines, initialized at the beginning.
    fn machines(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| self.machine(name, |_, _| ()));
        self
    }

    fn machine(&mut self, name: &str, change: impl FnOnce(&mut Value, &mut Value)) {
        let version = self.next().to_string();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": at(0.0)});
        // Stamped, so that looks at other things have nothing to write for drift.
        let stamped =
            json!({"karpenter.sh/nodepool-hash-version": "v3", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"});
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "annotations": stamped, "uid": format!("uid-claim-{name}"), "resourceVersion": version,
                "creationTimestamp": at(0.0), "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///a/{name}"), "nodeName": name,
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "conditions": [condition("Initialized"), condition("Launched"), condition("Registered")]},
        });
        let mut node = json!({
            "metadata": {"name": name, "uid": format!("uid-node-{name}"), "resourceVersion": version, "annotations": {},
                "labels": {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a",
                    "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default"}},
            "spec": {"providerID": format!("aws:///a/{name}")},
            "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut claim, &mut node);
        self.state.apply_claim(Arc::new(serde_json::from_value::<NodeClaim>(claim).unwrap()));
        self.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    fn pod(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "web"},
                "resourceVersion": self.next().to_string(), "annotations": {}},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"},
        });
        change(&mut pod);
        self.state.apply_pod(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
        self.state.date_moves(at(self.seconds));
    }

    fn daemon(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        self.pod(name, node, |pod| {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]);
            change(pod);
        });
    }

    fn gone(&mut self, name: &str) {
        self.state.delete_pod(&format!("uid-{name}"));
        self.state.date_moves(at(self.seconds));
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.seconds = seconds;
        self
    }

    /// A look at that time, and what it wants written is written.
    fn look(&mut self, seconds: f64) -> DisruptionDecision {
        let decision = self.look_only(seconds);
        for mark in &decision.ttl {
            let since = mark.since.map(|since| since.to_string());
            self.machine(&mark.node.clone(), |_, node| {
                node["metadata"]["annotations"] = match since {
                    Some(since) => json!({"karpenter.sh/emptiness-timestamp": since}),
                    None => json!({}),
                };
            });
        }
        for mark in &decision.marks {
            let there = self.state.snapshot().claims[&mark.claim].claim.clone();
            let mut claim = mark.on(&there, at(seconds));
            claim.metadata.resource_version = Some(self.next().to_string());
            self.state.apply_claim(Arc::new(claim));
        }
        self.write_notes(&decision);
        decision
    }

    /// The annotations that a look wants are written on the pool.
    fn write_notes(&mut self, decision: &DisruptionDecision) {
        for note in &decision.drift.notes {
            let mut pool = self.pool.clone();
            match &note.text {
                Some(text) => pool["metadata"]["annotations"][note.key] = json!(text),
                None => _ = pool["metadata"]["annotations"].as_object_mut().unwrap().remove(note.key),
            }
            pool["metadata"]["resourceVersion"] = json!(self.next().to_string());
            self.apply_pool(pool);
        }
    }

    /// Another leader: nothing is known but what the API server has.
    fn succeed(&mut self, gates: super::drift::Gates) {
        self.memory = Memory::new();
        self.memory.set_gates(gates);
    }

    /// A look whose writes do not come through.
    fn look_only(&mut self, seconds: f64) -> DisruptionDecision {
        self.seconds = seconds;
        let offers = [("default".to_owned(), Arc::new(vec![Arc::new(large())]))].into();
        let now = Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) };
        decide_disruption(&self.state.snapshot(), &offers, &mut self.memory, now)
    }

    fn claim(&self, name: &str) -> NodeClaim {
        NodeClaim::clone(&self.state.snapshot().claims[&format!("claim-{name}")].claim)
    }
}

fn large() -> crate::InstanceType {
    let offering = |zone: &str, price: f64| json!({"zone": zone, "capacityType": "spot", "price": price, "available": true, "requirements": []});
    serde_json::from_value(
        json!({"name": "m5.large", "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "requirements": [],
        "offerings": [offering("a", 0.03), offering("b", 0.05)]}),
    )
    .unwrap()
}

/// Names of the Nodes that go.
fn gone(decision: &DisruptionDecision) -> Vec<&str> {
    decision.removals.iter().flat_map(|removal| &removal.claims).map(|disrupted| disrupted.node.as_str()).collect()
}

fn conditions(claim: &NodeClaim) -> Vec<String> {
    claim.status.as_ref().unwrap().conditions.iter().map(|one| one.type_.clone()).collect()
}
