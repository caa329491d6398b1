//! Controllers of Nodes and their pods without the kubelet: the node lifecycle controller, the taint eviction controller, the
//! cloud controller's deletion of Nodes without an instance, and the collection of orphaned pods.

use std::time::Duration;

use dovetail_api::names::taints::{NOT_READY, UNREACHABLE};
use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{PodView, condition, set_condition};
use crate::cluster::scheduler::node::covers;
use crate::cluster::work::Work;

/// Follows a change of a Node: evicts by taints, and has the pods of a Node that is gone collected.
pub(crate) fn node_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    let Some(node) = &change.new else {
        ctx.queue.push_after(ctx.settings.pod_collection, Work::CollectPods(change.key.name.clone()));
        return;
    };
    let before = change.old.as_ref().map(|old| old["spec"]["taints"].clone());
    if before.as_ref() != Some(&node["spec"]["taints"]) {
        for pod in ctx.cache.pods_on(&change.key.name) {
            judge(ctx, &pod);
        }
    }
}

/// Evicts a pod that does not tolerate its Node's `NoExecute` taints, at once or when its patience ends.
pub(crate) fn judge(ctx: &mut ClusterContext, pod: &PodView) {
    if let Some(patience) = patience(ctx, pod).filter(|_| pod.active()) {
        let work = Work::Evict(pod.key.clone(), pod.uid.clone());
        match patience {
            Duration::ZERO => ctx.queue.push(work),
            after => ctx.queue.push_after(after, work),
        }
    }
}

/// Time for which a pod tolerates its Node's `NoExecute` taints; none when it does for ever.
fn patience(ctx: &ClusterContext, pod: &PodView) -> Option<Duration> {
    let node = ctx.cache.node(pod.node.as_ref()?)?;
    let taints: Vec<&Taint> = node.taints.iter().filter(|t| t.effect == "NoExecute").collect();
    if taints.is_empty() {
        return None;
    }
    let object = ctx.cache.get(Kind::Pod, &pod.key)?;
    let tolerations = Vec::<Toleration>::deserialize(&object["spec"]["tolerations"]).unwrap_or_default();
    let of = |taint: &&Taint| {
        let mut covering = tolerations.iter().filter(|t| covers(t, taint)).peekable();
        covering.peek()?;
        Some(covering.filter_map(|t| t.toleration_seconds).min())
    };
    let mut least = None;
    for taint in &taints {
        match of(taint) {
            None => return Some(Duration::ZERO),
            Some(None) => {}
            Some(Some(seconds)) => least = Some(least.map_or(seconds, |l: i64| l.min(seconds))),
        }
    }
    least.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Deletes a pod whose patience has ended, if its Node is still tainted.
pub(crate) fn evict(ctx: &mut ClusterContext, key: &Key, uid: &str) {
    let Some(pod) = ctx.cache.pod(key).filter(|p| p.uid == uid && p.active()).cloned() else { return };
    if patience(ctx, &pod).is_some() {
        ctx.kube.delete(Kind::Pod, key, None);
    }
}

/// The kubelet has been silent for too long: the Node is not ready, unreachable, and its pods are not ready.
pub(crate) fn silent(ctx: &mut ClusterContext, name: &str) {
    let key = Key::new("", name);
    let now = ctx.now();
    ctx.kube.modify_status(Kind::Node, &key, |node| {
        let message = "Kubelet stopped posting node status.";
        let types = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
        types.iter().fold(false, |changed, kind| {
            set_condition(node, kind, "Unknown", "NodeStatusUnknown", message, &now) | changed
        })
    });
    taint(ctx, name, &[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
    for pod in ctx.cache.pods_on(name).iter().filter(|p| p.ready) {
        ctx.kube
            .modify_status(Kind::Pod, &pod.key, |pod| set_condition(pod, "Ready", "False", "NodeNotReady", "", &now));
    }
    ctx.queue.push_after(ctx.settings.node_monitor_period, Work::CheckInstance(name.to_owned()));
}

/// Gives a Node exactly these of the taints that the node lifecycle controller gives.
pub(crate) fn taint(ctx: &mut ClusterContext, name: &str, taints: &[(&str, &str)]) {
    let now = ctx.now();
    ctx.kube.modify(Kind::Node, &Key::new("", name), |node| {
        let old = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let ours = |t: &Value| t["key"] == UNREACHABLE || t["key"] == NOT_READY;
        let mut new: Vec<Value> = old.iter().filter(|t| !ours(t)).cloned().collect();
        for (key, effect) in taints {
            let known = old.iter().find(|t| t["key"] == *key && t["effect"] == *effect).cloned();
            let mut fresh = json!({"key": key, "effect": effect});
            if *effect == "NoExecute" {
                fresh["timeAdded"] = json!(now);
            }
            new.push(known.unwrap_or(fresh));
        }
        if new != old {
            node["spec"]["taints"] = Value::Array(new);
        }
        if node["spec"]["taints"].as_array().is_some_and(Vec::is_empty)
            && let Some(spec) = node["spec"].as_object_mut()
        {
            spec.remove("taints");
        }
    });
}

/// The cloud controller deletes a Node that is not ready and whose instance is gone, and else looks again later.
pub(crate) fn check_instance(ctx: &mut ClusterContext, name: &str, gone: bool) {
    let Some(node) = ctx.cache.named(Kind::Node, name) else { return };
    if condition(node, "Ready").is_some_and(|c| c["status"] == "True") {
        return;
    }
    if gone {
        ctx.kube.delete(Kind::Node, &Key::new("", name), None);
    } else {
        ctx.queue.push_after(ctx.settings.node_monitor_period, Work::CheckInstance(name.to_owned()));
    }
}

/// Ends the pods of a Node that is gone (PodGC): their controllers make new ones.
pub(crate) fn collect_pods(ctx: &mut ClusterContext, name: &str) {
    if ctx.cache.named(Kind::Node, name).is_none() {
        for pod in ctx.cache.pods_on(name) {
            ctx.kube.delete_pod(&pod.key, &pod.uid, 0);
        }
    }
}
