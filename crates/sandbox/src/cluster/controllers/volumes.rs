//! Claims and volumes: binding, and the EBS CSI driver's provisioning and deletion.

use dovetail_api::names::labels::{REGION, ZONE};
pub(crate) use dovetail_core::volumes::EBS;
use serde_json::{Value, json};

use super::template::deleting;
use crate::cluster::cache::{CachedObject, Key};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::work::Work;

/// The in-tree provisioner that it replaces (CSI migration).
const EBS_IN_TREE: &str = "kubernetes.io/aws-ebs";
const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Queues the claims that a change of a claim, a volume or a storage class concerns.
pub(crate) fn changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    match change.kind {
        Kind::PersistentVolumeClaim if change.new.is_some() => {
            ctx.queue.push(Work::Sync(Kind::PersistentVolumeClaim, change.key.clone()));
        }
        Kind::PersistentVolumeClaim => release(ctx, change.old.as_ref()),
        Kind::StorageClass => {
            let claims: Vec<Key> = ctx.cache.all(Kind::PersistentVolumeClaim).map(|(key, _)| key.clone()).collect();
            claims.into_iter().for_each(|key| ctx.queue.push(Work::Sync(Kind::PersistentVolumeClaim, key)));
        }
        Kind::PersistentVolume => {
            if let Some(claim) = change.new.as_ref().and_then(|v| claim_of(v)) {
                ctx.queue.push(Work::Sync(Kind::PersistentVolumeClaim, claim));
            }
        }
        _ => {}
    }
}

/// Queues a new pod whose volumes come with it.
pub(crate) fn pod_came(ctx: &mut ClusterContext, change: &ClusterChange) {
    let volumes = change.new.as_ref().and_then(|pod| pod["spec"]["volumes"].as_array());
    if volumes.is_some_and(|volumes| volumes.iter().any(|volume| volume["ephemeral"].is_object())) {
        ctx.queue.push(Work::Sync(Kind::Pod, change.key.clone()));
    }
}

/// Makes the claims of a pod's generic ephemeral volumes; the pod owns them, so that they go with it.
pub(crate) fn make_ephemeral(ctx: &mut ClusterContext, key: &Key) {
    let Some(pod) = ctx.cache.get(Kind::Pod, key).cloned() else { return };
    if deleting(&pod) {
        return;
    }
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        let Some(name) = volume["name"].as_str().filter(|_| template.is_object()) else { continue };
        let claim = json!({
            "metadata": {
                "name": format!("{}-{name}", key.name), "namespace": key.namespace,
                "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": template["spec"],
        });
        // One of that name that is there already is left alone, whoever made it.
        let _ = ctx.kube.create(Kind::PersistentVolumeClaim, claim);
    }
}

/// Takes a claim one step further: its class, its volume.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(claim) = ctx.cache.get(Kind::PersistentVolumeClaim, key).cloned() else { return };
    if claim["status"]["phase"] == "Bound" || deleting(&claim) {
        return;
    }
    if claim["spec"]["storageClassName"].is_null() {
        return take_default_class(ctx, key);
    }
    if let Some(volume) = volume_for(ctx, key, &claim) {
        return bind(ctx, key, &volume);
    }
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let Some(class) = ctx.cache.named(Kind::StorageClass, class).cloned() else { return };
    let waits = class["volumeBindingMode"] == "WaitForFirstConsumer";
    let selected = claim["metadata"]["annotations"][SELECTED_NODE].as_str().is_some();
    let ebs = [EBS, EBS_IN_TREE].iter().any(|p| class["provisioner"] == *p);
    if ebs && (selected || !waits) {
        let delay = ctx.settings.provision.clone();
        let delay = ctx.draw(&delay);
        ctx.queue.push_after(delay, Work::Provision(key.clone()));
    }
}

/// A claim without a class gets the cluster's default one, also later when there is one.
fn take_default_class(ctx: &mut ClusterContext, key: &Key) {
    let is_default = |c: &CachedObject| c["metadata"]["annotations"][DEFAULT_CLASS] == "true";
    // The newest of several defaults counts.
    let classes = ctx.cache.all(Kind::StorageClass).filter(|(_, c)| is_default(c));
    let newest = classes.max_by_key(|(_, c)| c["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
    if let Some(name) = newest.map(|(key, _)| key.name.clone()) {
        ctx.kube.modify(Kind::PersistentVolumeClaim, key, |claim| claim["spec"]["storageClassName"] = json!(name));
    }
}

/// The volume that names the claim, is named by it, or (Immediate) is free and fits.
fn volume_for(ctx: &ClusterContext, key: &Key, claim: &Value) -> Option<String> {
    if let Some(name) = claim["spec"]["volumeName"].as_str().filter(|n| !n.is_empty()) {
        return ctx.cache.named(Kind::PersistentVolume, name).map(|_| name.to_owned());
    }
    let mut volumes = ctx.cache.all(Kind::PersistentVolume);
    volumes.find(|(_, volume)| claim_of(volume).as_ref() == Some(key)).map(|(key, _)| key.name.clone())
}

fn claim_of(volume: &Value) -> Option<Key> {
    let claim = &volume["spec"]["claimRef"];
    Some(Key::new(claim["namespace"].as_str()?, claim["name"].as_str()?))
}

/// Binds claim and volume to one another.
fn bind(ctx: &mut ClusterContext, key: &Key, volume: &str) {
    let Some(claim) = ctx.kube.get(Kind::PersistentVolumeClaim, key) else { return };
    let uid = claim["metadata"]["uid"].clone();
    let at = Key::new("", volume);
    ctx.kube.modify(Kind::PersistentVolume, &at, |volume| {
        volume["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.namespace, "name": key.name, "uid": uid,
        });
    });
    let set_phase = |object: &mut Value| {
        let changed = object["status"]["phase"] != "Bound";
        object["status"]["phase"] = json!("Bound");
        changed
    };
    ctx.kube.modify_status(Kind::PersistentVolume, &at, set_phase);
    ctx.kube.modify(Kind::PersistentVolumeClaim, key, |claim| {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        claim["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = json!("yes");
    });
    let Some(volume) = ctx.kube.get(Kind::PersistentVolume, &at) else { return };
    ctx.kube.modify_status(Kind::PersistentVolumeClaim, key, |claim| {
        claim["status"]["capacity"] = volume["spec"]["capacity"].clone();
        claim["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
        set_phase(claim)
    });
}

/// The driver has made a volume for the claim, in the zone of the selected node.
pub(crate) fn provision(ctx: &mut ClusterContext, key: &Key) {
    let Some(claim) = ctx.cache.get(Kind::PersistentVolumeClaim, key).cloned() else { return };
    if deleting(&claim) || claim["spec"]["volumeName"].as_str().is_some_and(|v| !v.is_empty()) {
        return;
    }
    let name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let Some(class) = ctx.cache.named(Kind::StorageClass, name).cloned() else { return };
    let selected = claim["metadata"]["annotations"][SELECTED_NODE].as_str();
    let Some((zone, region)) = place(ctx, selected, &class) else {
        // The node went: the scheduler chooses another.
        return ctx.kube.modify(Kind::PersistentVolumeClaim, key, |claim| {
            if let Some(annotations) = claim["metadata"]["annotations"].as_object_mut() {
                annotations.remove(SELECTED_NODE);
            }
        });
    };
    let volume = volume(&claim, &class, &zone, &region, ctx.rng.u64(..));
    // An error means that it is there already.
    let _ = ctx.kube.create(Kind::PersistentVolume, volume);
}

/// Zone and region of the volume: the selected node's, or for Immediate that of some node that the class allows.
fn place(ctx: &mut ClusterContext, selected: Option<&str>, class: &Value) -> Option<(String, String)> {
    let of = |labels: &std::collections::BTreeMap<String, String>| {
        Some((labels.get(ZONE)?.clone(), labels.get(REGION).cloned().unwrap_or_default()))
    };
    if let Some(node) = selected {
        return of(&ctx.cache.node(node)?.labels);
    }
    let terms = class["allowedTopologies"].as_array().cloned().unwrap_or_default();
    let allowed: Vec<&str> = terms
        .iter()
        .flat_map(|t| t["matchLabelExpressions"].as_array().into_iter().flatten())
        .flat_map(|e| e["values"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let mut places: Vec<(String, String)> = ctx.cache.nodes().filter_map(|n| of(&n.labels)).collect();
    places.sort();
    places.dedup();
    places.retain(|(zone, _)| allowed.is_empty() || allowed.contains(&zone.as_str()));
    if places.is_empty() {
        let zone = (*allowed.first()?).to_owned();
        let region = zone.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned();
        return Some((zone, region));
    }
    let at = ctx.rng.usize(..places.len());
    Some(places.swap_remove(at))
}

fn volume(claim: &Value, class: &Value, zone: &str, region: &str, id: u64) -> Value {
    let csi = class["provisioner"] == EBS;
    let handle = format!("vol-0{id:016x}");
    let mut expressions = vec![json!({"key": if csi { EBS_ZONE } else { ZONE }, "operator": "In", "values": [zone]})];
    if !csi {
        expressions.push(json!({"key": REGION, "operator": "In", "values": [region]}));
    }
    let meta = &claim["metadata"];
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": format!("pvc-{}", meta["uid"].as_str().unwrap_or_default()),
            "annotations": {"pv.kubernetes.io/provisioned-by": class["provisioner"]},
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
            "storageClassName": class["metadata"]["name"],
            "volumeMode": claim["spec"]["volumeMode"].as_str().unwrap_or("Filesystem"),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    });
    if csi {
        volume["spec"]["csi"] = json!({"driver": EBS, "fsType": "ext4", "volumeHandle": handle});
    } else {
        volume["spec"]["awsElasticBlockStore"] = json!({"fsType": "ext4", "volumeID": handle});
    }
    volume
}

/// The volume of a claim that was deleted is deleted too, or kept for an administrator.
fn release(ctx: &mut ClusterContext, claim: Option<&CachedObject>) {
    let Some(name) = claim.and_then(|c| c["spec"]["volumeName"].as_str().map(str::to_owned)) else { return };
    let Some(volume) = ctx.cache.named(Kind::PersistentVolume, &name) else { return };
    let key = Key::new("", &name);
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
        return ctx.kube.delete(Kind::PersistentVolume, &key, None);
    }
    ctx.kube.modify_status(Kind::PersistentVolume, &key, |volume| {
        volume["status"]["phase"] = json!("Released");
        true
    });
}
