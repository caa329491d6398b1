//! A kubelet takes in that a pod of its node is resized: it sets the resources aside if there is room, and its containers have
//! them a little later.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Kubelets;
use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, condition, set_condition};
use crate::cluster::resized::{INFEASIBLE, PENDING, allocatable, allocated, follow, lags, requests};
use crate::cluster::work::Work;

/// Time that a kubelet takes for each of the two steps.
const STEP: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3);
/// Time after which a deferred resize is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Annotation: time after which a pod's containers have what is allocated, as where one still uses the memory that it is to give
/// back; such as `90s` or `5m`.
const RESIZES_FOR: &str = "sandbox.dovetail.dev/resizes-for";
/// Condition of a pod whose containers are about to have what is allocated.
const IN_PROGRESS: &str = "PodResizeInProgress";

impl Kubelets {
    /// Notices that a pod is to have other resources, or what it has after all.
    pub(super) fn resize_wanted(&self, ctx: &mut ClusterContext, change: &ClusterChange, pod: &Value) {
        let before = change.old.as_deref().map(|old| &old["spec"]);
        let is_new = |list: &str| before.is_some_and(|before| before[list] != pod["spec"][list]);
        let lags_or_waits = || {
            ["resources", "allocatedResources"].iter().any(|what| lags(pod, what)) || condition(pod, PENDING).is_some()
        };
        let differs = ["containers", "initContainers"].into_iter().any(is_new) && lags_or_waits();
        if let Some(uid) = pod["metadata"]["uid"].as_str().filter(|_| differs) {
            let delay = ctx.draw(&STEP);
            ctx.queue.push_after(delay, Work::ResizePod(change.key.clone(), uid.to_owned()));
        }
    }

    /// One step of a resize: resources are set aside, or a container has them.
    pub(crate) fn resize_pod(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str) {
        let view = ctx.cache.pod(key).filter(|pod| pod.uid == uid && pod.active() && pod.phase == Phase::Running);
        let node = view.and_then(|pod| pod.node.clone());
        let (Some(node), Some(pod)) = (node, ctx.cache.get(Kind::Pod, key).cloned()) else {
            self.resizing.remove(uid);
            return;
        };
        let again = Work::ResizePod(key.clone(), uid.to_owned());
        if self.is_silent(&node) {
            return ctx.queue.push_after(RETRY, again);
        }
        if lags(&pod, "allocatedResources") {
            return self.allocate(ctx, &node, key, &pod, again);
        }
        if let Some(due) = self.resizing.get(uid).copied().filter(|due| *due > Instant::now()) {
            // Another resize came meanwhile, and asks for what is allocated already.
            ctx.kube.modify_status(Kind::Pod, key, |pod| forget_conditions(pod, &[PENDING]));
            return ctx.queue.push_at(due, again);
        }
        self.resizing.remove(uid);
        ctx.kube.modify_status(Kind::Pod, key, |pod| {
            follow(pod, "resources");
            forget_conditions(pod, &[PENDING, IN_PROGRESS]);
            true
        });
    }

    /// Sets resources aside for a pod if its node has them; its containers have them some time later.
    fn allocate(&mut self, ctx: &mut ClusterContext, node: &str, key: &Key, pod: &Value, again: Work) {
        let now = ctx.now();
        if let Some((reason, message)) = refusal(ctx, node, key, pod) {
            ctx.kube.modify_status(Kind::Pod, key, |pod| set_condition(pod, PENDING, "True", reason, &message, &now));
            if reason != INFEASIBLE {
                ctx.queue.push_after(RETRY, again);
            }
            return;
        }
        ctx.kube.modify_status(Kind::Pod, key, |pod| {
            follow(pod, "allocatedResources");
            forget_conditions(pod, &[PENDING]);
            set_condition(pod, IN_PROGRESS, "True", "", "", &now);
            true
        });
        let written = pod["metadata"]["annotations"][RESIZES_FOR].as_str();
        let asked = written.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
        let delay = asked.map_or_else(|| ctx.draw(&STEP), |time| time.unsigned_abs());
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if let Some(due) = Instant::now().checked_add(delay) {
            self.resizing.insert(uid, due);
            ctx.queue.push_at(due, again);
        }
    }
}

/// The reason and message why a node does not give a pod what it asks for. Others count with what is allocated to them, as a
/// kubelet counts: by what they ask, two that wait would keep each other from room that is there.
fn refusal(ctx: &ClusterContext, node: &str, key: &Key, pod: &Value) -> Option<(&'static str, String)> {
    let have = ctx.cache.named(Kind::Node, node).map(|node| allocatable(node))?;
    let asked = requests(pod);
    let others = ctx.cache.pods_on(node).into_iter().filter(|other| other.key != *key && !other.finished());
    let taken = others.filter_map(|other| ctx.cache.get(Kind::Pod, &other.key)).fold([0, 0], |[cpu, memory], pod| {
        let own = requests(allocated(pod).as_ref().unwrap_or(pod));
        [cpu + own[0], memory + own[1]]
    });
    ["cpu", "memory"].iter().enumerate().find_map(|(at, name)| {
        if asked[at] > have[at] {
            let why =
                format!("Node didn't have enough capacity: {name}, requested: {}, capacity: {}", asked[at], have[at]);
            return Some((INFEASIBLE, why));
        }
        let why = || {
            let (used, all) = (taken[at], have[at]);
            format!("Node didn't have enough resource: {name}, requested: {}, used: {used}, capacity: {all}", asked[at])
        };
        (asked[at] + taken[at] > have[at]).then(|| ("Deferred", why()))
    })
}

/// Takes conditions off a pod; true if one was there.
fn forget_conditions(pod: &mut Value, types: &[&str]) -> bool {
    let Some(all) = pod["status"]["conditions"].as_array_mut() else { return false };
    let before = all.len();
    all.retain(|one| !types.contains(&one["type"].as_str().unwrap_or_default()));
    all.len() < before
}
