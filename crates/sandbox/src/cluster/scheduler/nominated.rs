//! Pods that are nominated to a node (`status.nominatedNodeName`) and not bound yet. kube-scheduler tries that node first,
//! and gives what they request of it to no other pod, unless that one has a higher priority.
//!
//! Requests and host ports count here. kube-scheduler counts nominated pods in the rules between pods, too.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Scheduler;
use super::class::PodClass;
use super::node::NodeInfo;
use super::resources::ResourceAmounts;
use super::spec::SpecHostPort;
use super::state::{ClassId, SchedulerState, Slot};
use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
struct NominatedPod {
    pub node: String,
    pub class: ClassId,
    pub priority: i32,
}

#[derive(Debug, Default)]
pub(crate) struct Nominated {
    by_pod: BTreeMap<Key, NominatedPod>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
}

/// Room of a node that is taken: by the pods on it and by pods nominated to it.
#[derive(Debug, Default)]
pub(crate) struct KeptRoom {
    pub used: ResourceAmounts,
    pub ports: Vec<SpecHostPort>,
}

impl Nominated {
    pub(crate) fn node_of(&self, pod: &Key) -> Option<&str> {
        self.by_pod.get(pod).map(|one| one.node.as_str())
    }

    /// Nominates a pod; says whether that changes anything.
    fn put(&mut self, pod: &Key, nomination: NominatedPod) -> bool {
        if self.by_pod.get(pod) == Some(&nomination) {
            return false;
        }
        self.remove(pod);
        self.by_node.entry(nomination.node.clone()).or_default().insert(pod.clone());
        self.by_pod.insert(pod.clone(), nomination);
        true
    }

    /// A pod is nominated no more. Answers where it was.
    pub(crate) fn remove(&mut self, pod: &Key) -> Option<String> {
        let node = self.by_pod.remove(pod)?.node;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    /// The classes of the pods nominated to a node that a pod of this priority has to leave their room.
    fn beside<'a>(&'a self, node: &str, pod: &'a Key, priority: i32) -> impl Iterator<Item = ClassId> + 'a {
        let here = self.by_node.get(node).into_iter().flatten().filter(move |other| *other != pod);
        here.filter_map(|other| self.by_pod.get(other)).filter(move |one| one.priority >= priority).map(|one| one.class)
    }
}

impl SchedulerState {
    /// Room of a node that is taken for a pod of this priority, if pods are nominated to the node that it has to leave room for.
    pub(crate) fn kept_room(&self, node: &NodeInfo, pod: &Key, priority: i32) -> Option<KeptRoom> {
        let mut kept: Option<KeptRoom> = None;
        for id in self.nominated.beside(&node.name, pod, priority) {
            let class: &PodClass = &self.classes[id].class;
            let kept = kept.get_or_insert_with(|| KeptRoom { used: node.used.clone(), ports: node.ports.clone() });
            kept.used.add(&class.requests);
            kept.ports.extend(class.host_ports.iter().cloned());
        }
        kept
    }

    /// The node that a pod is nominated to, if it is there.
    pub(crate) fn nominated_slot(&self, pod: &Key) -> Option<Slot> {
        self.by_name.get(self.nominated.node_of(pod)?).copied()
    }
}

impl Scheduler {
    /// Follows what a pod without a node says of the node that it is nominated to.
    pub(super) fn follow_nomination(&mut self, key: &Key, pod: &Value) {
        let node = pod["status"]["nominatedNodeName"].as_str().filter(|node| !node.is_empty());
        let (Some(node), Some(pending)) = (node, self.queue.get(key)) else {
            return self.nominated_no_more(key);
        };
        let nomination = NominatedPod { node: node.to_owned(), class: pending.class, priority: pending.priority };
        let before = self.state.nominated.node_of(key).map(str::to_owned);
        if self.state.nominated.put(key, nomination) {
            self.state.version += 1;
            before.into_iter().for_each(|node| self.room_kept_no_more(&node));
        }
    }

    /// A nominated pod has found no room: preemption finds no room for it either and takes the nomination back, unless the pod
    /// never preempts (as kube-scheduler 1.36 does it; preemption itself is not done here).
    pub(super) fn nominated_in_vain(&mut self, ctx: &mut ClusterContext, key: &Key) {
        if self.state.nominated.node_of(key).is_none() {
            return;
        }
        ctx.kube.modify_status(Kind::Pod, key, |pod| {
            let never = pod["spec"]["preemptionPolicy"] == "Never";
            let status = pod["status"].as_object_mut().filter(|_| !never);
            status.and_then(|status| status.remove("nominatedNodeName")).is_some()
        });
    }

    /// A pod is nominated no more: others may have the room that was kept for it.
    pub(super) fn nominated_no_more(&mut self, key: &Key) {
        if let Some(node) = self.state.nominated.remove(key) {
            self.state.version += 1;
            self.room_kept_no_more(&node);
        }
    }

    fn room_kept_no_more(&mut self, node: &str) {
        if let Some(slot) = self.state.by_name.get(node).copied() {
            self.room_on(slot, false);
        }
    }
}
