//! Pods that are nominated to a node (`status.nominatedNodeName`) and not bound yet. kube-scheduler tries that node first,
//! and gives what they request of it to no other pod, unless that one has a higher priority.
//!
//! Requests, host ports and anti-affinity count here: a pod that must be alone on its node keeps it for itself. kube-scheduler
//! counts nominated pods in topology spread, too.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::Scheduler;
use super::class::PodClass;
use super::filter::FilterReason;
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
    /// Numbers of pods by the node that they are nominated to, and by class and priority: that is asked for each pod and node.
    by_node: BTreeMap<String, BTreeMap<(ClassId, i32), i64>>,
}

/// Room of a node that is taken: by the pods on it and by pods nominated to it.
#[derive(Debug, Default)]
pub(crate) struct KeptRoom {
    pub used: ResourceAmounts,
    pub ports: Vec<SpecHostPort>,
    /// Classes of the pods nominated to it.
    nominated: Vec<Rc<PodClass>>,
}

impl KeptRoom {
    /// The reason for which a pod may not be on the node beside those nominated to it, by anti-affinity of either.
    pub(crate) fn refuses(&self, node: &NodeInfo, pod: &PodClass) -> Option<FilterReason> {
        let against = |one: &PodClass, other: &PodClass| {
            let mut terms = one.anti_affinity.iter().filter(|term| node.labels.contains_key(&term.key));
            terms.any(|term| term.means(&other.namespace, &other.labels))
        };
        if self.nominated.iter().any(|other| against(pod, other)) {
            return Some(FilterReason::AntiAffinity);
        }
        self.nominated.iter().any(|other| against(other, pod)).then_some(FilterReason::ExistingAntiAffinity)
    }
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
        let here = self.by_node.entry(nomination.node.clone()).or_default();
        *here.entry((nomination.class, nomination.priority)).or_default() += 1;
        self.by_pod.insert(pod.clone(), nomination);
        true
    }

    /// A pod is nominated no more. Answers where it was.
    pub(crate) fn remove(&mut self, pod: &Key) -> Option<String> {
        let NominatedPod { node, class, priority } = self.by_pod.remove(pod)?;
        if let Some(here) = self.by_node.get_mut(&node) {
            here.entry((class, priority)).and_modify(|count| *count -= 1);
            here.retain(|_, count| *count > 0);
            if here.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    /// The classes of the pods nominated to a node that a pod of this priority has to leave their room, and their numbers.
    fn beside(&self, node: &str, pod: &Key, priority: i32) -> impl Iterator<Item = (ClassId, i64)> {
        let here = self.by_node.get(node);
        let own = here.and_then(|_| self.by_pod.get(pod)).filter(|one| one.node == node);
        let own = own.map(|one| (one.class, one.priority));
        let here = here.into_iter().flatten().filter(move |((_, other), _)| *other >= priority);
        let others = here.map(move |(kind, count)| (kind.0, count - i64::from(own == Some(*kind))));
        others.filter(|(_, count)| *count > 0)
    }
}

impl SchedulerState {
    /// Room of a node that is taken for a pod of this priority, if pods are nominated to the node that it has to leave room for.
    pub(crate) fn kept_room(&self, node: &NodeInfo, pod: &Key, priority: i32) -> Option<KeptRoom> {
        let mut kept: Option<KeptRoom> = None;
        for (id, count) in self.nominated.beside(&node.name, pod, priority) {
            let class = &self.classes[id].class;
            let kept = kept.get_or_insert_with(|| KeptRoom {
                used: node.used.clone(),
                ports: node.ports.clone(),
                nominated: Vec::new(),
            });
            kept.nominated.push(class.clone());
            kept.used.add_times(&class.requests, count);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_for_each_other_pod_of_no_less_priority() {
        let mut nominated = Nominated::default();
        let pod = |name: &str| Key::new("default", name);
        let on = |node: &str, class, priority| NominatedPod { node: node.to_owned(), class, priority };
        for (name, node, class, priority) in [("a", "n", 0, 0), ("b", "n", 0, 0), ("c", "n", 1, 5), ("d", "m", 0, 9)] {
            assert!(nominated.put(&pod(name), on(node, class, priority)));
        }
        let beside = |nominated: &Nominated, name: &str, priority| {
            nominated.beside("n", &pod(name), priority).collect::<Vec<_>>()
        };
        assert_eq!(beside(&nominated, "d", 0), [(0, 2), (1, 1)]);
        assert_eq!((beside(&nominated, "a", 0), beside(&nominated, "c", 5)), (vec![(0, 1), (1, 1)], vec![]));
        assert!(!nominated.put(&pod("a"), on("n", 0, 0)) && nominated.put(&pod("a"), on("m", 0, 0)));
        assert_eq!(beside(&nominated, "a", 0), [(0, 1), (1, 1)]);
        assert_eq!((nominated.remove(&pod("b")), nominated.remove(&pod("b"))), (Some("n".to_owned()), None));
        assert_eq!((beside(&nominated, "x", 0), beside(&nominated, "x", 6)), (vec![(1, 1)], vec![]));
        nominated.remove(&pod("c"));
        assert_eq!(nominated.by_node.keys().collect::<Vec<_>>(), ["m"]);
    }
}
