//! kube-scheduler: one pod after another to the best node that passes all filters; the others are told why they wait.
//!
//! What all pods of a class have in common is worked out once: a class that was found to fit nowhere is answered from
//! memory until something changes, and static filters are kept by class and node. Preemption is not done.

pub(crate) mod affinity;
pub(crate) mod class;
mod devices;
pub(crate) mod filter;
mod gangs;
pub(crate) mod node;
pub(crate) mod nominated;
mod observe;
pub(crate) mod queue;
pub(crate) mod resources;
pub(crate) mod score;
pub(crate) mod selector;
pub(crate) mod spec;
pub(crate) mod spread;
pub(crate) mod state;
pub(crate) mod volumes;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use dovetail_core::dra::DeviceBook;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::class::{PodClass, Surroundings};
use self::devices::ClaimPlan;
use self::filter::{Asking, FilterPlan};
use self::gangs::Gang;
use self::node::NodeInfo;
use self::queue::SchedulingQueue;
use self::selector::{Labels, PodSelector};
use self::spec::PodSpec;
use self::state::{ClassId, PlacedPod, SchedulerState, Slot};
use self::volumes::{VolumePlan, bound_volume};
use super::cache::{ClusterCache, Key, controller};
use super::context::ClusterContext;
use super::kind::Kind;
use super::pod::set_condition;
use super::work::Work;
use crate::faults::FaultsInForce;

/// The scheduler's name, as pods give it.
const NAME: &str = "default-scheduler";
/// The step of tokio's timers.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// Binds pending pods to nodes, as kube-scheduler's default profile does.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: SchedulerState,
    queue: SchedulingQueue,
    /// Claims for devices, with what was allocated just now.
    devices: DeviceBook,
    rng: fastrand::Rng,
    /// Time until which it is busy with the last pod.
    busy_until: Instant,
    /// Pods that have a node and wait for volumes to be made: uid, node, claims.
    waiting: BTreeMap<Key, Waiting>,
    faults: FaultsInForce,
}

#[derive(Debug)]
struct Waiting {
    uid: String,
    node: String,
    claims: Vec<Key>,
}

impl Scheduler {
    pub(crate) fn new(rng: fastrand::Rng, faults: FaultsInForce) -> Self {
        Self {
            state: SchedulerState::default(),
            queue: SchedulingQueue::default(),
            devices: DeviceBook::default(),
            rng,
            busy_until: Instant::now(),
            waiting: BTreeMap::new(),
            faults,
        }
    }

    /// Schedules the pods for which there has been time, and asks to be called again.
    pub(crate) fn run(&mut self, ctx: &mut ClusterContext) {
        let now = Instant::now();
        // tokio's timers tick in milliseconds: what a tick is late by is caught up, what was idle is not.
        if self.busy_until + TIMER_STEP * 2 < now {
            self.busy_until = now;
        }
        while self.busy_until <= now {
            let Some(key) = self.queue.pop(now) else { break };
            self.schedule(ctx, &key, now);
            self.busy_until += ctx.settings.scheduling_cost;
        }
        self.ask_to_run(ctx);
    }

    fn ask_to_run(&self, ctx: &mut ClusterContext) {
        let now = Instant::now();
        if let Some(next) = self.queue.next(now) {
            ctx.queue.push_at(next.max(self.busy_until), Work::Schedule);
        }
    }

    /// Tries pods again that have waited for five minutes.
    pub(crate) fn flush(&mut self, ctx: &mut ClusterContext) {
        if let Some(next) = self.queue.flush(Instant::now()) {
            ctx.queue.push_at(next, Work::FlushUnschedulable);
        }
        self.ask_to_run(ctx);
    }

    fn schedule(&mut self, ctx: &mut ClusterContext, key: &Key, now: Instant) {
        let Some((id, priority)) = self.queue.get(key).map(|p| (p.class, p.priority)) else { return };
        if ctx.cache.get(Kind::Pod, key).is_some_and(|pod| devices::claims_of(pod).is_none()) {
            // It is not looked at before its claims are made, and nothing is said of it.
            return self.queue.park(key, now);
        }
        if let Some(gang) = Gang::of_pod(&ctx.cache, key) {
            return self.schedule_gang(ctx, &gang, key, now);
        }
        match self.find(&ctx.cache, id, Asking { key, priority }) {
            Ok((slot, plan)) => self.assume(ctx, key, id, slot, &plan),
            Err(message) => {
                self.queue.park(key, now);
                ctx.queue.push_at(now + queue::FLUSH_AFTER, Work::FlushUnschedulable);
                tell_unschedulable(ctx, key, &message);
                self.nominated_in_vain(ctx, key);
            }
        }
    }

    /// The node for a pod of the class, or why there is none. What is found for a pod that is nominated to a node counts for
    /// that one alone.
    fn find(&mut self, cache: &ClusterCache, id: ClassId, pod: Asking<'_>) -> Result<(Slot, FilterPlan), Rc<str>> {
        if self.state.nominated.node_of(pod.key).is_some() || self.state.classes[id].class.claims_devices {
            return self.try_find(cache, id, pod).map_err(Into::into);
        }
        if let Some((version, message)) = &self.state.classes[id].failed
            && *version == self.state.version
        {
            return Err(message.clone());
        }
        let found = self.try_find(cache, id, pod);
        found.map_err(|message| {
            let message: Rc<str> = message.into();
            self.state.classes[id].failed = Some((self.state.version, message.clone()));
            message
        })
    }

    fn try_find(&mut self, cache: &ClusterCache, id: ClassId, pod: Asking<'_>) -> Result<(Slot, FilterPlan), String> {
        let class = self.state.classes[id].class.clone();
        let volumes = VolumePlan::new(cache, &self.state, &class);
        let nodes = self.state.by_name.len();
        let volumes = volumes.map_err(|why| format!("0/{nodes} nodes are available: {why}."))?;
        let claims = ClaimPlan::new(&self.devices, pod.key, cache.get(Kind::Pod, pod.key));
        let claims = claims.map_err(|why| format!("0/{nodes} nodes are available: {why}."))?;
        let plan = FilterPlan::new(&mut self.state, id, volumes, claims);
        if let Some(slot) =
            self.state.nominated_slot(pod.key).filter(|slot| plan.is_feasible(&self.state, id, *slot, pod))
        {
            return Ok((slot, plan));
        }
        let feasible = plan.feasible(&self.state, id, pod).map_err(|diagnosis| diagnosis.message())?;
        match score::best(&mut self.state, id, &feasible, &mut self.rng) {
            Some(slot) => Ok((slot, plan)),
            None => Err("no nodes available to schedule pods".to_owned()),
        }
    }

    /// Reserves the node; binds at once, or when the volumes that it waits for are there.
    fn assume(&mut self, ctx: &mut ClusterContext, key: &Key, class: ClassId, slot: Slot, plan: &FilterPlan) {
        let Some(uid) = self.queue.get(key).map(|p| p.uid.clone()) else { return };
        let Some(node) = self.state.nodes[slot].as_ref() else { return };
        let name = node.name.clone();
        for delayed in &plan.volumes.delayed {
            select_node(ctx, &delayed.claim, node, delayed.candidate(node));
        }
        plan.claims.reserve(ctx, &mut self.devices, (key, &uid), node);
        self.state.nominated.remove(key);
        self.state.place(key, PlacedPod { class, slot, terminating: false });
        self.queue.remove(key);
        let claims: Vec<Key> = plan.volumes.delayed.iter().map(|d| d.claim.clone()).collect();
        if claims.is_empty() {
            self.bind(ctx, key, &uid, &name);
        } else {
            self.waiting.insert(key.clone(), Waiting { uid, node: name, claims });
        }
    }

    fn bind(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str, node: &str) {
        if ctx.kube.bind(key, uid, node).is_err() {
            self.state.remove(key);
            self.requeue(ctx, key);
        }
    }

    /// Puts a pod back into the queue as the API server has it now.
    fn requeue(&mut self, ctx: &mut ClusterContext, key: &Key) {
        let pod = ctx.kube.get(Kind::Pod, key);
        if let Some(pod) = pod.filter(|p| p["spec"]["nodeName"].as_str().is_none_or(str::is_empty)) {
            self.enqueue(&ctx.cache, key, &pod);
            self.queue.park(key, Instant::now());
            self.queue.retry(key, Instant::now());
            self.ask_to_run(ctx);
        }
    }

    /// Binds pods whose volumes are all there.
    fn volumes_came(&mut self, ctx: &mut ClusterContext) {
        let there = |c: &Key| ctx.cache.get(Kind::PersistentVolumeClaim, c).is_some_and(|c| bound_volume(c).is_some());
        let ready: Vec<Key> =
            self.waiting.iter().filter(|(_, w)| w.claims.iter().all(there)).map(|(key, _)| key.clone()).collect();
        for key in ready {
            if let Some(Waiting { uid, node, .. }) = self.waiting.remove(&key) {
                self.bind(ctx, &key, &uid, &node);
            }
        }
    }

    fn class_of(&mut self, cache: &ClusterCache, key: &Key, pod: &Value) -> (ClassId, i32) {
        let spec = PodSpec::from_pod(pod);
        let labels: Labels = serde::Deserialize::deserialize(&pod["metadata"]["labels"]).unwrap_or_default();
        let default_selector = if spec.topology_spread_constraints.is_empty() {
            default_selector(cache, &key.namespace, &labels, pod)
        } else {
            None
        };
        let id = serde_json::to_string(&(&key.namespace, &labels, &spec, spec.claims(&key.name))).unwrap_or_default();
        let nodes_refused = self.faults.nodes_refused(&key.namespace, &key.name);
        let id = format!("{id}{default_selector:?}{nodes_refused:?}");
        let priority = spec.priority.unwrap_or(0);
        let SchedulerState { namespace_labels, .. } = &self.state;
        let namespace_labels = namespace_labels.clone();
        let class = self.state.class(id, |names| {
            let around = Surroundings {
                namespace: &key.namespace,
                labels: &labels,
                pod_name: &key.name,
                default_selector,
                nodes_refused,
                namespace_labels: &namespace_labels,
            };
            PodClass::compile(&spec, around, names)
        });
        (class, priority)
    }
}

/// Writes down on the claim which node its volume has to reach, or takes the volume that would do.
fn select_node(ctx: &mut ClusterContext, claim: &Key, node: &NodeInfo, candidate: Option<&str>) {
    let name = node.name.clone();
    if let Some(volume) = candidate {
        let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name});
        ctx.kube.modify(Kind::PersistentVolume, &Key::new("", volume), |v| v["spec"]["claimRef"] = claim_ref);
    }
    ctx.kube.modify(Kind::PersistentVolumeClaim, claim, |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = name.into();
    });
}

fn tell_unschedulable(ctx: &mut ClusterContext, key: &Key, message: &str) {
    let now = ctx.now();
    ctx.kube.modify_status(Kind::Pod, key, |pod| {
        set_condition(pod, "PodScheduled", "False", "Unschedulable", message, &now)
    });
}

/// The selector by which pods without constraints of their own are spread: that of their Services and controller.
fn default_selector(cache: &ClusterCache, namespace: &str, labels: &Labels, pod: &Value) -> Option<PodSelector> {
    let mut wanted = Labels::new();
    for (_, service) in cache.within(Kind::Service, namespace) {
        let selector: Labels = serde::Deserialize::deserialize(&service["spec"]["selector"]).unwrap_or_default();
        if !selector.is_empty() && selector.iter().all(|(k, v)| labels.get(k) == Some(v)) {
            wanted.extend(selector);
        }
    }
    let mut selector = PodSelector::of_labels(&wanted);
    if let Some(owner) = controller(pod) {
        let kind = match owner["kind"].as_str() {
            Some("ReplicaSet") => Some(Kind::ReplicaSet),
            Some("StatefulSet") => Some(Kind::StatefulSet),
            _ => None,
        };
        let key = Key::new(namespace, owner["name"].as_str().unwrap_or_default());
        let owner = kind.and_then(|kind| cache.get(kind, &key));
        if let Some(written) = owner.and_then(|o| serde::Deserialize::deserialize(&o["spec"]["selector"]).ok()) {
            selector.narrow_by(PodSelector::new(Some(&written)));
        }
    }
    (!selector.is_everything()).then_some(selector)
}

/// True if the pod is for this scheduler and free to be scheduled.
fn is_ours(pod: &Value) -> bool {
    let spec = &pod["spec"];
    spec["schedulerName"].as_str().is_none_or(|name| name == NAME)
        && spec["schedulingGates"].as_array().is_none_or(Vec::is_empty)
        && !pod["metadata"]["deletionTimestamp"].is_string()
}
