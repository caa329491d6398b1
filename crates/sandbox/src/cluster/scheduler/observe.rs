//! The scheduler's reaction to a change: the pods that may try again, and the counts.

use serde_json::Value;
use tokio::time::Instant;

use super::node::NodeObject;
use super::state::{ClassId, PlacedPod, Slot};
use super::{Scheduler, devices, is_ours};
use crate::cluster::cache::{ClusterCache, Key};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, phase};
use crate::cluster::resized::counted_on_node;

impl Scheduler {
    /// Follows a change; the cache has it already.
    pub(crate) fn observe(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        match change.kind {
            Kind::Pod => self.pod_changed(ctx, change),
            Kind::Node => self.node_changed(ctx, change),
            Kind::CSINode => {
                let count = change.new.as_deref().map(|n| &n["spec"]["drivers"][0]["allocatable"]["count"]);
                let limit = count.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
                self.state.limit_volumes(&change.key.name, limit);
            }
            Kind::PersistentVolumeClaim | Kind::PersistentVolume | Kind::StorageClass => {
                self.state.version += 1;
                self.volumes_came(ctx);
                let classes = &self.state.classes;
                self.queue.wake(Instant::now(), |id| !classes[id].class.claims.is_empty());
            }
            Kind::PodGroup => self.queue.wake(Instant::now(), |_| true),
            _ if devices::follow(&mut self.devices, change) => {
                self.state.version += 1;
                let classes = &self.state.classes;
                self.queue.wake(Instant::now(), |id| classes[id].class.claims_devices);
            }
            Kind::Namespace => {
                let labels = change.new.as_deref().map(|n| &n["metadata"]["labels"]);
                let labels = labels.and_then(|l| serde::Deserialize::deserialize(l).ok()).unwrap_or_default();
                self.state.namespace_labels.insert(change.key.name.clone(), labels);
            }
            _ => return,
        }
        self.ask_to_run(ctx);
    }

    fn pod_changed(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        let key = &change.key;
        let Some(pod) = change.new.as_deref().filter(|pod| !matches!(phase(pod), Phase::Succeeded | Phase::Failed))
        else {
            return self.pod_gone(key);
        };
        let node = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty());
        match node {
            Some(node) => {
                let is_new =
                    |list: &str| change.old.as_deref().is_some_and(|old| old["spec"][list] != pod["spec"][list]);
                self.pod_bound(&ctx.cache, key, pod, node, is_new("containers") || is_new("initContainers"));
            }
            None if is_ours(pod) => {
                let seen = change.old.as_deref().is_some_and(|old| {
                    old["spec"] == pod["spec"] && old["metadata"]["labels"] == pod["metadata"]["labels"]
                });
                if !seen && !self.waiting.contains_key(key) {
                    self.enqueue(&ctx.cache, key, pod);
                }
                let made = |pod: &Value| pod["status"]["resourceClaimStatuses"].clone();
                if change.old.as_deref().is_some_and(|old| made(old) != made(pod)) {
                    self.queue.retry(key, Instant::now());
                }
                self.follow_nomination(key, pod);
            }
            None => self.pod_gone(key),
        }
    }

    pub(super) fn enqueue(&mut self, cache: &ClusterCache, key: &Key, pod: &Value) {
        let (class, priority) = self.class_of(cache, key, pod);
        self.queue.put(key, pod["metadata"]["uid"].as_str().unwrap_or_default(), class, priority);
    }

    /// A pod ended or was deleted: there is room where it was.
    fn pod_gone(&mut self, key: &Key) {
        self.queue.remove(key);
        self.nominated_no_more(key);
        self.waiting.remove(key);
        let Some(place) = self.state.placed.get(key).copied() else { return };
        self.state.remove(key);
        self.room_on(place.slot, true);
    }

    /// A pod is on a node; `asks_anew` if its containers ask for something else than before.
    fn pod_bound(&mut self, cache: &ClusterCache, key: &Key, pod: &Value, node: &str, asks_anew: bool) {
        self.queue.remove(key);
        self.waiting.remove(key);
        self.nominated_no_more(key);
        let Some(slot) = self.state.by_name.get(node).copied() else { return };
        let terminating = pod["metadata"]["deletionTimestamp"].is_string();
        let known = self.state.placed.get(key).filter(|p| p.slot == slot).map(|p| p.class);
        // One that is resized takes other room than when it came; before its containers start there are no statuses of them.
        let resized = counted_on_node(pod);
        let takes_other_room = resized.is_some() || asks_anew;
        let as_it_came = known.filter(|_| !takes_other_room);
        let class = as_it_came.unwrap_or_else(|| self.class_of(cache, key, resized.as_ref().unwrap_or(pod)).0);
        if self.state.place(key, PlacedPod { class, slot, terminating }) || known.is_some() {
            self.wake_pod_watchers();
        }
        if takes_other_room && known != Some(class) {
            self.room_on(slot, false);
        }
    }

    /// Lets pods try again whose rules speak of other pods.
    fn wake_pod_watchers(&mut self) {
        if self.queue.has_unschedulable() {
            let classes = &self.state.classes;
            self.queue.wake(Instant::now(), |id| classes[id].class.looks_at_pods());
        }
    }

    fn node_changed(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        let name = &change.key.name;
        let Some(object) = change.new.as_deref() else {
            self.state.drop_node(name);
            let stranded: Vec<Key> =
                self.waiting.iter().filter(|(_, w)| w.node == *name).map(|(key, _)| key.clone()).collect();
            for key in stranded {
                self.waiting.remove(&key);
                self.requeue(ctx, &key);
            }
            return self.wake_pod_watchers();
        };
        let new = !self.state.by_name.contains_key(name);
        let Some(slot) = self.state.put_node(name, NodeObject::from_node(object)) else { return };
        if new {
            for pod in ctx.cache.pods_on(name) {
                if let Some(object) = ctx.cache.get(Kind::Pod, &pod.key).filter(|_| !pod.finished()) {
                    self.pod_bound(&ctx.cache, &pod.key, object, name, false);
                }
            }
        }
        self.room_on(slot, false);
    }

    /// Lets the pods try again that could go to this node; after a pod has gone also those that it stood against.
    pub(super) fn room_on(&mut self, slot: Slot, pod_went: bool) {
        if !self.queue.has_unschedulable() {
            return;
        }
        let state = &self.state;
        let could = |id: ClassId| {
            let class = &state.classes[id].class;
            let Some(node) = state.nodes[slot].as_ref() else { return false };
            let used = if pod_went { node.used.clone() } else { Default::default() };
            let fits = class.requests.fits(&used, &node.allocatable);
            (pod_went && class.looks_at_pods()) || (fits && super::filter::judge(class, node).refused.is_none())
        };
        self.queue.wake(Instant::now(), could);
    }
}
