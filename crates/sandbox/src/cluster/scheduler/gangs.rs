//! GangScheduling (`scheduling.k8s.io/v1alpha2`): pods of a PodGroup's gang are bound once `minCount` of them have a node. Before so
//! many exist they are not looked at, and nothing is said of them.

use serde_json::Value;
use tokio::time::Instant;

use super::filter::{Asking, FilterPlan};
use super::queue;
use super::state::{ClassId, PlacedPod, Slot};
use super::{Scheduler, tell_unschedulable};
use crate::cluster::cache::{ClusterCache, Key};
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, phase};
use crate::cluster::work::Work;

/// The gang of a pod.
pub(super) struct Gang {
    namespace: String,
    name: String,
    /// Number of pods that have to have a node; `None` while the PodGroup is not there.
    min_count: Option<usize>,
}

/// A node that is found for a member, and not taken yet.
struct Found {
    key: Key,
    class: ClassId,
    slot: Slot,
    plan: FilterPlan,
}

fn group_name(pod: &Value) -> Option<&str> {
    pod["spec"]["schedulingGroup"]["podGroupName"].as_str().filter(|name| !name.is_empty())
}

impl Gang {
    /// The gang of a pod; `None` for one that is in no group, or in one whose pods are placed each for itself.
    pub(super) fn of_pod(cache: &ClusterCache, key: &Key) -> Option<Self> {
        let name = group_name(cache.get(Kind::Pod, key)?)?.to_owned();
        let group = cache.get(Kind::PodGroup, &Key::new(&key.namespace, &name));
        let policy = group.map(|group| &group["spec"]["schedulingPolicy"]);
        if policy.is_some_and(|policy| policy["basic"].is_object()) {
            return None;
        }
        let min_count = policy.map(|policy| policy["gang"]["minCount"].as_u64());
        let min_count = min_count.flatten().and_then(|count| usize::try_from(count).ok());
        Some(Self { namespace: key.namespace.clone(), name, min_count })
    }

    /// Members that neither have ended nor end: those without a node, and the number of the others.
    fn members(&self, cache: &ClusterCache) -> (Vec<Key>, usize) {
        let (mut without_node, mut on_nodes) = (Vec::new(), 0);
        for (key, pod) in cache.within(Kind::Pod, &self.namespace) {
            let ends = pod["metadata"]["deletionTimestamp"].is_string();
            let is_over = ends || matches!(phase(pod), Phase::Succeeded | Phase::Failed);
            match pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                _ if is_over || group_name(pod) != Some(&*self.name) => {}
                Some(_) => on_nodes += 1,
                None => without_node.push(key.clone()),
            }
        }
        (without_node, on_nodes)
    }
}

impl Scheduler {
    /// Places all members of a gang that have no node, if enough of them have one then. `key` is the one whose turn it is.
    pub(super) fn schedule_gang(&mut self, ctx: &mut ClusterContext, gang: &Gang, key: &Key, now: Instant) {
        let (without_node, mut placed) = gang.members(&ctx.cache);
        let Some(min_count) = gang.min_count.filter(|least| without_node.len() + placed >= *least) else {
            return self.queue.park(key, now);
        };
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for member in without_node {
            let Some((class, priority)) = self.queue.get(&member).map(|pod| (pod.class, pod.priority)) else {
                placed += usize::from(self.waiting.contains_key(&member));
                continue;
            };
            match self.find(&ctx.cache, class, Asking { key: &member, priority }) {
                Ok((slot, plan)) => {
                    self.state.place(&member, PlacedPod { class, slot, terminating: false });
                    found.push(Found { key: member, class, slot, plan });
                }
                Err(message) => refused.push((member, message.to_string())),
            }
        }
        if placed + found.len() >= min_count {
            found.iter().for_each(|one| self.assume(ctx, &one.key, one.class, one.slot, &one.plan));
        } else {
            let message = format!("only {} of {min_count} pods of PodGroup {} can be placed", found.len(), gang.name);
            for one in found {
                self.state.remove(&one.key);
                refused.push((one.key, message.clone()));
            }
        }
        for (member, message) in refused {
            self.queue.park(&member, now);
            ctx.queue.push_at(now + queue::FLUSH_AFTER, Work::FlushUnschedulable);
            tell_unschedulable(ctx, &member, &message);
            self.nominated_in_vain(ctx, &member);
        }
    }
}
