//! Deployments: a ReplicaSet a template, and the pods moved from the old ones to the new one.

use serde_json::{Value, json};

use super::rollout;
use super::template::{deleting, hash, owner_reference, replicas, scaled, write_status};
use crate::cluster::cache::{CachedObject, Key};
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::set_condition;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Makes the ReplicaSet of the present template, moves pods, writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(deployment) = ctx.cache.get(Kind::Deployment, key).cloned() else { return };
    if deleting(&deployment) {
        return;
    }
    let sets = sets_of(ctx, &deployment);
    let (new, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(|(_, set)| same_template(set, &deployment));
    let Some((new_key, new)) = new.into_iter().min_by_key(|(_, set)| set["metadata"]["creationTimestamp"].to_string())
    else {
        if deployment["spec"]["paused"] != true {
            create(ctx, key, &deployment, &old);
        }
        return;
    };
    let plan = rollout::plan(&deployment, &new, &old.iter().map(|(_, set)| set.clone()).collect::<Vec<_>>());
    if let Some(count) = plan.new {
        scale(ctx, &new_key, count);
    }
    for ((set_key, _), count) in old.iter().zip(&plan.old) {
        if let Some(count) = count {
            scale(ctx, set_key, *count);
        }
    }
    if plan.is_idle() {
        clean_up(ctx, &deployment, &old);
    }
    report(ctx, key, &deployment, &new, &old);
}

fn sets_of(ctx: &ClusterContext, deployment: &Value) -> Vec<(Key, CachedObject)> {
    let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
    let owned = ctx.cache.owned_by(uid).filter(|(kind, _)| *kind == Kind::ReplicaSet);
    owned.filter_map(|(_, key)| Some((key.clone(), ctx.cache.get(Kind::ReplicaSet, key)?.clone()))).collect()
}

/// True if the set is of the deployment's present template, the hash label aside.
fn same_template(set: &Value, deployment: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH);
    }
    let wanted = &deployment["spec"]["template"];
    template["spec"] == wanted["spec"]
        && ["labels", "annotations"].iter().all(|field| {
            let empty = |v: &Value| v.is_null() || v.as_object().is_some_and(serde_json::Map::is_empty);
            let (a, b) = (&template["metadata"][*field], &wanted["metadata"][*field]);
            a == b || empty(a) && empty(b)
        })
}

fn revision(set: &Value) -> i64 {
    set["metadata"]["annotations"][REVISION].as_str().and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn create(ctx: &mut ClusterContext, key: &Key, deployment: &Value, old: &[(Key, CachedObject)]) {
    let hash = hash(&deployment["spec"]["template"]);
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"][HASH] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = json!(hash);
    let next = old.iter().map(|(_, set)| revision(set)).max().unwrap_or(0) + 1;
    let wanted = replicas(deployment);
    let count = rollout::first_count(deployment, old.iter().map(|(_, set)| replicas(set)).sum());
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", key.name), "namespace": key.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": wanted.to_string(),
                "deployment.kubernetes.io/max-replicas": (wanted + rollout::surge(deployment)).to_string(),
                REVISION: next.to_string(),
            },
            "ownerReferences": [owner_reference(Kind::Deployment, deployment)],
        },
        "spec": {
            "replicas": count, "selector": selector, "template": template,
            "minReadySeconds": deployment["spec"]["minReadySeconds"].as_i64().unwrap_or(0),
        },
    });
    // A set of that name that is not ours, or a refusal, leaves the deployment as it is until it is changed.
    if ctx.kube.create(Kind::ReplicaSet, set).is_ok() {
        ctx.kube.modify(Kind::Deployment, key, |d| d["metadata"]["annotations"][REVISION] = json!(next.to_string()));
    }
}

fn scale(ctx: &mut ClusterContext, set: &Key, count: i64) {
    ctx.kube.modify(Kind::ReplicaSet, set, |set| set["spec"]["replicas"] = json!(count));
}

/// Deletes empty old sets beyond the history's limit, oldest first.
fn clean_up(ctx: &mut ClusterContext, deployment: &Value, old: &[(Key, CachedObject)]) {
    let limit = deployment["spec"]["revisionHistoryLimit"].as_u64().unwrap_or(10);
    let mut empty: Vec<&(Key, CachedObject)> =
        old.iter().filter(|(_, set)| replicas(set) == 0 && status_count(set, "replicas") == 0).collect();
    empty.sort_by_key(|(_, set)| revision(set));
    let surplus = empty.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    for (key, _) in empty.into_iter().take(surplus) {
        ctx.kube.delete(Kind::ReplicaSet, key, None);
    }
}

fn status_count(set: &Value, field: &str) -> i64 {
    set["status"][field].as_i64().unwrap_or(0)
}

fn report(ctx: &mut ClusterContext, key: &Key, deployment: &Value, new: &Value, old: &[(Key, CachedObject)]) {
    let all = |field: &str| status_count(new, field) + old.iter().map(|(_, set)| status_count(set, field)).sum::<i64>();
    let (total, available, wanted) = (all("replicas"), all("availableReplicas"), replicas(deployment));
    let fields = [
        ("replicas", json!(total)),
        ("updatedReplicas", json!(status_count(new, "replicas"))),
        ("readyReplicas", json!(all("readyReplicas"))),
        ("availableReplicas", json!(available)),
        ("unavailableReplicas", json!((wanted - available).max(0))),
        ("observedGeneration", deployment["metadata"]["generation"].clone()),
    ];
    write_status(ctx, Kind::Deployment, key, &fields);
    let unavailable = scaled(&deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], wanted, false);
    let enough = available >= wanted - unavailable.unwrap_or(wanted / 4);
    let done = total == wanted && status_count(new, "replicas") == wanted && available >= wanted;
    let now = ctx.now();
    ctx.kube.modify_status(Kind::Deployment, key, |d| {
        let (status, reason, message) = if enough {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let (why, what) = if done {
            ("NewReplicaSetAvailable", "has successfully progressed.")
        } else {
            ("ReplicaSetUpdated", "is progressing.")
        };
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let progress = format!("ReplicaSet \"{name}\" {what}");
        set_condition(d, "Available", status, reason, message, &now)
            | set_condition(d, "Progressing", "True", why, &progress, &now)
    });
}
