//! VolumeAttachments: a volume follows the pods that use it from node to node (the attach-detach controller and the
//! CSI attacher).

use dovetail_api::hash::{OFFSET, fnv_from};
use serde_json::{Value, json};

use super::volumes::EBS;
use crate::cluster::cache::{CachedObject, Key};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{PodView, condition};
use crate::cluster::scheduler::spec::PodSpec;
use crate::cluster::scheduler::volumes::bound_volume;
use crate::cluster::work::Work;

/// Attaches what a pod that was bound needs, detaches what a pod that ended no longer needs.
pub(crate) fn pod_changed(ctx: &mut ClusterContext, old: Option<&PodView>, new: Option<&PodView>) {
    let on_node = |pod: Option<&PodView>| pod.filter(|p| !p.finished()).and_then(|p| p.node.clone());
    let (before, after) = (on_node(old), on_node(new));
    if before == after {
        return;
    }
    if let (Some(node), Some(pod)) = (after, new) {
        for volume in volumes_of(ctx, &pod.key) {
            attach(ctx, &volume, &node);
        }
    }
    if let Some(node) = before {
        detach_unused(ctx, &node);
    }
}

/// The volumes that a pod's claims are bound to.
pub(crate) fn volumes_of(ctx: &ClusterContext, pod: &Key) -> Vec<String> {
    let Some(object) = ctx.cache.get(Kind::Pod, pod) else { return Vec::new() };
    // Few pods have volumes; most are told by this.
    if object["spec"]["volumes"].as_array().is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let claims = PodSpec::from_pod(object).claims(&pod.name);
    let claim = |name: String| ctx.cache.get(Kind::PersistentVolumeClaim, &Key::new(&pod.namespace, &name));
    claims.into_iter().filter_map(claim).filter_map(|c| bound_volume(c).map(str::to_owned)).collect()
}

/// True if all volumes of a pod are attached to its node.
pub(crate) fn all_attached(ctx: &ClusterContext, pod: &PodView) -> bool {
    let Some(node) = &pod.node else { return false };
    volumes_of(ctx, &pod.key).iter().all(|volume| {
        let attachment = ctx.cache.named(Kind::VolumeAttachment, &name(volume, node));
        attachment.is_some_and(|a| a["status"]["attached"] == true)
    })
}

fn name(volume: &str, node: &str) -> String {
    let sum = |seed: u64| fnv_from(seed, format!("{volume}^{EBS}^{node}").bytes());
    format!("csi-{:016x}{:016x}", sum(OFFSET), sum(0x6c62_272e_07bb_0142))
}

/// Asks for a volume at a node. While it is at another it waits: EBS volumes are at one node at a time.
fn attach(ctx: &mut ClusterContext, volume: &str, node: &str) {
    let name = name(volume, node);
    ctx.queue.forget(&Work::Detach(name.clone()));
    if ctx.cache.named(Kind::VolumeAttachment, &name).is_some() {
        return;
    }
    if elsewhere(ctx, volume, node).is_some() {
        return;
    }
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": EBS, "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    if ctx.kube.create(Kind::VolumeAttachment, attachment).is_ok() {
        let range = ctx.settings.attach.clone();
        let delay = ctx.draw(&range);
        ctx.queue.push_after(delay, Work::Attach(name));
    }
}

fn elsewhere(ctx: &ClusterContext, volume: &str, node: &str) -> Option<Key> {
    let mut all = ctx.cache.all(Kind::VolumeAttachment);
    let other =
        |a: &CachedObject| a["spec"]["source"]["persistentVolumeName"] == volume && a["spec"]["nodeName"] != node;
    all.find(|(_, a)| other(a)).map(|(key, _)| key.clone())
}

/// EC2 has attached the volume.
pub(crate) fn attached(ctx: &mut ClusterContext, name: &str) {
    ctx.kube.modify_status(Kind::VolumeAttachment, &Key::new("", name), |attachment| {
        attachment["status"]["attached"] = json!(true);
        true
    });
}

/// Plans the detachment of volumes on a node that no pod there uses any more.
fn detach_unused(ctx: &mut ClusterContext, node: &str) {
    if !ctx.cache.all(Kind::VolumeAttachment).any(|(_, a)| a["spec"]["nodeName"] == node) {
        return;
    }
    let pods = ctx.cache.pods_on(node);
    let in_use: Vec<String> = pods.iter().filter(|p| !p.finished()).flat_map(|p| volumes_of(ctx, &p.key)).collect();
    let unused: Vec<String> = ctx
        .cache
        .all(Kind::VolumeAttachment)
        .filter(|(_, a)| a["spec"]["nodeName"] == node)
        .filter(|(_, a)| !in_use.iter().any(|v| a["spec"]["source"]["persistentVolumeName"] == **v))
        .map(|(key, _)| key.name.clone())
        .collect();
    let answers = |n: &CachedObject| condition(n, "Ready").is_some_and(|c| c["status"] == "True");
    let healthy = ctx.cache.named(Kind::Node, node).is_some_and(answers);
    for name in unused {
        let range = ctx.settings.detach.clone();
        // Nobody confirms that a node which does not answer has unmounted: only time does.
        let delay = if healthy { ctx.draw(&range) } else { ctx.settings.force_detach };
        ctx.queue.push_after(delay, Work::Detach(name));
    }
}

/// The volume is detached.
pub(crate) fn detached(ctx: &mut ClusterContext, name: &str) {
    ctx.kube.delete(Kind::VolumeAttachment, &Key::new("", name), None);
}

/// Once a volume is free, the pod that waits for it gets it.
pub(crate) fn attachment_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    if change.new.is_some() {
        return;
    }
    let volume = |a: &CachedObject| a["spec"]["source"]["persistentVolumeName"].as_str().map(str::to_owned);
    let Some(volume) = change.old.as_ref().and_then(volume) else { return };
    let claim = ctx.cache.named(Kind::PersistentVolume, &volume).map(|v| v["spec"]["claimRef"].clone());
    let Some(namespace) = claim.as_ref().and_then(|c: &Value| c["namespace"].as_str()) else { return };
    let waiting: Vec<(Key, String)> = ctx
        .cache
        .pods_within(namespace)
        .filter(|p| !p.finished())
        .filter_map(|p| Some((p.key.clone(), p.node.clone()?)))
        .collect();
    for (pod, node) in waiting {
        if volumes_of(ctx, &pod).contains(&volume) {
            return attach(ctx, &volume, &node);
        }
    }
}
