//! ResourceClaims: those that a pod's templates ask for are made, and those that no pod uses any more are free again.

use serde_json::{Value, json};

use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, phase};
use crate::cluster::work::Work;

fn wanted(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    claims.filter_map(|one| Some((one["name"].as_str()?, one["resourceClaimTemplateName"].as_str()?)))
}

/// A pod comes, ends or goes.
pub(crate) fn pod_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    let Some(pod) = change.new.as_deref().or(change.old.as_deref()) else { return };
    if !pod["spec"]["resourceClaims"].is_array() {
        return;
    }
    let over = change.new.is_none() || matches!(phase(pod), Phase::Succeeded | Phase::Failed);
    if over {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        release(ctx, &change.key.namespace, &uid);
    } else if change.old.is_none() && wanted(pod).next().is_some() {
        ctx.queue.push(Work::Sync(Kind::Pod, change.key.clone()));
    }
}

/// Pods may have waited for a template, or for a claim of an earlier pod of their name to go.
pub(crate) fn template_changed(ctx: &mut ClusterContext, namespace: &str) {
    let waits = |pod: &Value| wanted(pod).any(|(name, _)| !is_made(pod, name));
    let pods = ctx.cache.within(Kind::Pod, namespace).filter(|(_, pod)| waits(pod));
    let keys: Vec<Key> = pods.map(|(key, _)| key.clone()).collect();
    keys.into_iter().for_each(|key| ctx.queue.push(Work::Sync(Kind::Pod, key)));
}

fn is_made(pod: &Value, name: &str) -> bool {
    let made = pod["status"]["resourceClaimStatuses"].as_array();
    made.is_some_and(|made| made.iter().any(|one| one["name"] == name))
}

/// Makes the claims of a pod's templates; the pod owns them, so that they go with it.
pub(crate) fn make(ctx: &mut ClusterContext, key: &Key) {
    let Some(pod) = ctx.kube.get(Kind::Pod, key) else { return };
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    for (name, template) in wanted(&pod).filter(|(name, _)| !is_made(&pod, name)) {
        let template = ctx.cache.get(Kind::ResourceClaimTemplate, &Key::new(&key.namespace, template));
        let Some(template) = template.map(|template| template["spec"].clone()) else { continue };
        let claim = format!("{}-{name}", key.name);
        let mut annotations = template["metadata"]["annotations"].clone();
        annotations["resource.kubernetes.io/pod-claim-name"] = name.into();
        let object = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "name": claim, "namespace": key.namespace, "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": template["spec"],
        });
        if ctx.kube.create(Kind::ResourceClaim, object).is_err() {
            // That of an earlier pod is still there: its end brings this pod here again.
            continue;
        }
        ctx.kube.modify_status(Kind::Pod, key, |pod| {
            let made = json!({"name": name, "resourceClaimName": claim});
            match pod["status"]["resourceClaimStatuses"].as_array_mut() {
                Some(all) => all.push(made),
                None => pod["status"]["resourceClaimStatuses"] = json!([made]),
            }
            true
        });
    }
}

/// A pod uses its claims no more; devices that nobody uses are free.
fn release(ctx: &mut ClusterContext, namespace: &str, uid: &str) {
    let uses = |claim: &Value| {
        let users = claim["status"]["reservedFor"].as_array();
        users.is_some_and(|users| users.iter().any(|user| user["uid"] == uid))
    };
    let claims = ctx.cache.within(Kind::ResourceClaim, namespace).filter(|(_, claim)| uses(claim));
    let keys: Vec<Key> = claims.map(|(key, _)| key.clone()).collect();
    for key in keys {
        ctx.kube.modify_status(Kind::ResourceClaim, &key, |claim| {
            let Some(status) = claim["status"].as_object_mut() else { return false };
            let users = status.get_mut("reservedFor").and_then(Value::as_array_mut);
            let unused = users.is_none_or(|users| {
                users.retain(|user| user["uid"] != uid);
                users.is_empty()
            });
            if unused {
                status.remove("reservedFor");
                status.remove("allocation");
            }
            true
        });
    }
}
