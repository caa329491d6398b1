//! kube-controller-manager: what makes objects out of objects.

pub(crate) mod attachments;
mod claims;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod disruption;
pub(crate) mod job;
pub(crate) mod nodes;
mod recommended;
pub(crate) mod replica_set;
mod rollout;
pub(crate) mod stateful_set;
pub(crate) mod template;
pub(crate) mod volumes;

use super::cache::controller;
use super::context::{ClusterChange, ClusterContext};
use super::kind::Kind;
use super::pod::PodView;
use super::work::Work;

/// Reconciles an object.
pub(crate) fn sync(ctx: &mut ClusterContext, kind: Kind, key: &super::cache::Key) {
    match kind {
        Kind::Deployment => deployment::sync(ctx, key),
        Kind::ReplicaSet => replica_set::sync(ctx, key),
        Kind::StatefulSet => stateful_set::sync(ctx, key),
        Kind::DaemonSet => daemon_set::sync(ctx, key),
        Kind::Job => job::sync(ctx, key),
        Kind::PodDisruptionBudget => disruption::sync(ctx, key),
        Kind::PersistentVolumeClaim => volumes::sync(ctx, key),
        Kind::VerticalPodAutoscaler => recommended::sync(ctx, key),
        Kind::Pod => {
            volumes::make_ephemeral(ctx, key);
            claims::make(ctx, key);
        }
        _ => {}
    }
}

/// Queues what a change gives the controllers to do.
pub(crate) fn observe(ctx: &mut ClusterContext, change: &ClusterChange) {
    match change.kind {
        Kind::Deployment
        | Kind::StatefulSet
        | Kind::DaemonSet
        | Kind::Job
        | Kind::PodDisruptionBudget
        | Kind::VerticalPodAutoscaler
            if change.new.is_some() && spec_changed(change) =>
        {
            ctx.queue.push(Work::Sync(change.kind, change.key.clone()));
        }
        Kind::ReplicaSet => replica_set_changed(ctx, change),
        Kind::Pod => pod_changed(ctx, change),
        Kind::Node => {
            daemon_set::node_changed(ctx, change);
            nodes::node_changed(ctx, change);
        }
        Kind::PersistentVolumeClaim | Kind::StorageClass | Kind::PersistentVolume => volumes::changed(ctx, change),
        Kind::ResourceClaimTemplate => claims::template_changed(ctx, &change.key.namespace),
        Kind::ResourceClaim if change.new.is_none() => claims::template_changed(ctx, &change.key.namespace),
        Kind::VolumeAttachment => attachments::attachment_changed(ctx, change),
        _ => {}
    }
}

/// True if more than the status (and the bookkeeping of versions) differs.
fn spec_changed(change: &ClusterChange) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    ["generation", "deletionTimestamp", "labels", "annotations"]
        .iter()
        .any(|f| old["metadata"][f] != new["metadata"][f])
        || old["spec"] != new["spec"]
}

fn replica_set_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    if change.new.is_some() && spec_changed(change) {
        ctx.queue.push(Work::Sync(Kind::ReplicaSet, change.key.clone()));
    }
    let object = change.new.as_ref().or(change.old.as_ref());
    if let Some(owner) = object.and_then(|o| controller(o)).filter(|o| o["kind"] == "Deployment") {
        let key = super::cache::Key::new(&change.key.namespace, owner["name"].as_str().unwrap_or_default());
        ctx.queue.push_after(std::time::Duration::from_millis(5), Work::Sync(Kind::Deployment, key));
    }
}

/// A pod's coming and going is answered at once, other changes of it after a while with others of its kind.
fn pod_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    let read = |o: &super::cache::CachedObject| PodView::from_pod(&change.key, o);
    let (old, new) = (change.old.as_ref().map(read), change.new.as_ref().map(read));
    attachments::pod_changed(ctx, old.as_ref(), new.as_ref());
    if change.old.is_none() {
        volumes::pod_came(ctx, change);
    }
    claims::pod_changed(ctx, change);
    let Some(pod) = new.as_ref().or(old.as_ref()) else { return };
    let bearing = |p: &Option<PodView>| p.as_ref().map(|p| (p.active(), p.phase));
    let urgent = bearing(&old) != bearing(&new);
    let matters = urgent || old.as_ref().map(|p| (p.ready, &p.node)) != new.as_ref().map(|p| (p.ready, &p.node));
    if !matters {
        return;
    }
    disruption::pod_changed(ctx, change);
    let Some(owner) = &pod.owner else { return };
    let kind = match owner.kind.as_str() {
        "ReplicaSet" => Kind::ReplicaSet,
        "StatefulSet" => Kind::StatefulSet,
        "DaemonSet" => Kind::DaemonSet,
        "Job" => Kind::Job,
        _ => return,
    };
    let work = Work::Sync(kind, super::cache::Key::new(&pod.key.namespace, &owner.name));
    let went = new.as_ref().is_none_or(|p| !p.active());
    // Pods of a StatefulSet are waited for one by one.
    let now = urgent && went || kind == Kind::StatefulSet || kind == Kind::Job && urgent;
    if now {
        ctx.queue.push(work);
    } else {
        ctx.queue.push_after(ctx.settings.status_window, work);
    }
}
