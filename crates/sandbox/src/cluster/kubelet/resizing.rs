//! A kubelet takes in that a pod of its node is resized: it sets the resources aside if there is room, and its containers have
//! them a little later.

use std::time::Duration;

use serde_json::Value;

use super::Kubelets;
use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, set_condition};
use crate::cluster::resized::{INFEASIBLE, PENDING, allocatable, counted_on_node, follow, lags, requests};
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
    /// Notices that a pod is to have other resources.
    pub(super) fn resize_wanted(&self, ctx: &mut ClusterContext, change: &ClusterChange, pod: &Value) {
        let before = change.old.as_deref().map(|old| &old["spec"]);
        let is_new = |list: &str| before.is_some_and(|before| before[list] != pod["spec"][list]);
        let differs = ["containers", "initContainers"].into_iter().any(is_new) && lags(pod, "resources");
        if let Some(uid) = pod["metadata"]["uid"].as_str().filter(|_| differs) {
            let delay = ctx.draw(&STEP);
            ctx.queue.push_after(delay, Work::ResizePod(change.key.clone(), uid.to_owned()));
        }
    }

    /// One step of a resize: resources are set aside, or a container has them.
    pub(crate) fn resize_pod(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str) {
        let Some(view) = ctx.cache.pod(key).filter(|p| p.uid == uid && p.active()).cloned() else { return };
        let Some(node) = view.node.clone().filter(|_| view.phase == Phase::Running) else { return };
        let Some(pod) = ctx.cache.get(Kind::Pod, key).cloned() else { return };
        let again = Work::ResizePod(key.clone(), uid.to_owned());
        if self.is_silent(&node) {
            return ctx.queue.push_after(RETRY, again);
        }
        let now = ctx.now();
        if !lags(&pod, "allocatedResources") {
            ctx.kube.modify_status(Kind::Pod, key, |pod| {
                follow(pod, "resources");
                forget_conditions(pod, &[PENDING, IN_PROGRESS]);
                true
            });
            return;
        }
        match refusal(ctx, &node, key, &pod) {
            Some((reason, message)) => {
                ctx.kube
                    .modify_status(Kind::Pod, key, |pod| set_condition(pod, PENDING, "True", reason, &message, &now));
                if reason != INFEASIBLE {
                    ctx.queue.push_after(RETRY, again);
                }
            }
            None => {
                ctx.kube.modify_status(Kind::Pod, key, |pod| {
                    follow(pod, "allocatedResources");
                    forget_conditions(pod, &[PENDING]);
                    set_condition(pod, IN_PROGRESS, "True", "", "", &now);
                    true
                });
                let written = pod["metadata"]["annotations"][RESIZES_FOR].as_str();
                let asked = written.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
                let delay = asked.map_or_else(|| ctx.draw(&STEP), |time| time.unsigned_abs());
                ctx.queue.push_after(delay, again);
            }
        }
    }
}

/// The reason and message why a node does not give a pod what it asks for.
fn refusal(ctx: &ClusterContext, node: &str, key: &Key, pod: &Value) -> Option<(&'static str, String)> {
    let have = ctx.cache.named(Kind::Node, node).map(|node| allocatable(node))?;
    let asked = requests(pod);
    let others = ctx.cache.pods_on(node).into_iter().filter(|other| other.key != *key && !other.finished());
    let taken = others.filter_map(|other| ctx.cache.get(Kind::Pod, &other.key)).fold([0, 0], |[cpu, memory], pod| {
        let own = counted_on_node(pod).map_or_else(|| requests(pod), |counted| requests(&counted));
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

fn forget_conditions(pod: &mut Value, types: &[&str]) {
    if let Some(all) = pod["status"]["conditions"].as_array_mut() {
        all.retain(|one| !types.contains(&one["type"].as_str().unwrap_or_default()));
    }
}
