//! StatefulSets: pods with ordinals and claims of their own, one after another unless the set says Parallel.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use serde_json::{Value, json};

use super::recommended;
use super::template::{count, deleting, hash, pod, replicas, to_i64, write_status};
use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::PodView;
use crate::cluster::work::Work;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

/// Pods that a Parallel set makes in one go: it may ask for thousands of millions.
const BURST: usize = 500;

/// The pods of a set by ordinal.
struct Members {
    /// The ordinals that should be.
    wanted: Range<i64>,
    /// Those of them that are, by ordinal.
    there: BTreeMap<i64, Rc<PodView>>,
    /// Those beyond the count, highest ordinal first.
    surplus: Vec<Rc<PodView>>,
}

/// Makes and deletes pods by the set's policy, then writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(set) = ctx.cache.get(Kind::StatefulSet, key).cloned() else { return };
    if deleting(&set) {
        return;
    }
    let revision = format!("{}-{}", key.name, hash(&set["spec"]["template"]));
    let members = members(ctx, key, &set);
    let busy = keep_up(ctx, key, &set, &members, &revision);
    if !busy {
        update(ctx, &set, &members, &revision);
    }
    report(ctx, key, &set, &revision);
}

fn members(ctx: &ClusterContext, key: &Key, set: &Value) -> Members {
    let start = set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0);
    let wanted = start..start.saturating_add(replicas(set));
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let found = ctx.cache.pods_of(uid).into_iter().filter_map(|pod| Some((ordinal(key, &pod.key.name)?, pod)));
    let (there, beyond): (BTreeMap<_, _>, BTreeMap<_, _>) = found.partition(|(ordinal, _)| wanted.contains(ordinal));
    Members { wanted, there, surplus: beyond.into_values().rev().collect() }
}

fn ordinal(set: &Key, pod: &str) -> Option<i64> {
    pod.strip_prefix(&set.name)?.strip_prefix('-')?.parse().ok()
}

/// Creates what is missing and deletes what is too much. Says whether the set is still on its way.
fn keep_up(ctx: &mut ClusterContext, key: &Key, set: &Value, members: &Members, revision: &str) -> bool {
    let parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let (mut busy, mut made) = (false, 0);
    for ordinal in members.wanted.clone() {
        match members.there.get(&ordinal) {
            None if made == BURST => {
                ctx.queue.push(Work::Sync(Kind::StatefulSet, key.clone()));
                return true;
            }
            None if !create(ctx, key, set, ordinal, revision) => return true,
            None => made += 1,
            // One that has ended makes room for its successor.
            Some(pod) if pod.finished() && !pod.terminating => ctx.kube.delete(Kind::Pod, &pod.key, Some(0)),
            Some(pod) if pod.ready && !pod.terminating => continue,
            Some(pod) => claims(ctx, key, set, ordinal, pod),
        }
        busy = true;
        if !parallel {
            return true;
        }
    }
    for pod in &members.surplus {
        if !pod.terminating {
            ctx.kube.delete(Kind::Pod, &pod.key, None);
        }
        busy = true;
        if !parallel {
            return true;
        }
    }
    busy
}

/// A pod that waits may wait for a claim that somebody has deleted.
fn claims(ctx: &mut ClusterContext, key: &Key, set: &Value, ordinal: i64, pod: &PodView) {
    if pod.node.is_none() && !pod.terminating {
        create_claims(ctx, key, set, ordinal);
    }
}

/// Answers whether it was not refused.
fn create(ctx: &mut ClusterContext, key: &Key, set: &Value, ordinal: i64, revision: &str) -> bool {
    create_claims(ctx, key, set, ordinal);
    let name = format!("{}-{ordinal}", key.name);
    let mut pod = pod(Kind::StatefulSet, set);
    recommended::admit(ctx, Kind::StatefulSet, set, &mut pod);
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["generateName"] = json!(format!("{}-", key.name));
    for (label, value) in [(POD_NAME, name.clone()), (INDEX, ordinal.to_string()), (REVISION, revision.to_owned())] {
        pod["metadata"]["labels"][label] = json!(value);
    }
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    let own: Vec<Value> = claim_templates(set)
        .map(|t| {
            let volume = &t["metadata"]["name"];
            json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name(key, t, ordinal)}})
        })
        .collect();
    let others = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let kept = others.into_iter().filter(|v| !own.iter().any(|o| o["name"] == v["name"]));
    let volumes: Vec<Value> = own.iter().cloned().chain(kept).collect();
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = Value::Array(volumes);
    }
    // A refusal is answered by the next sync: the set stays busy and is looked at again with each change of its pods.
    let made = ctx.kube.create(Kind::Pod, pod).is_ok();
    if !made {
        let work = Work::Sync(Kind::StatefulSet, key.clone());
        ctx.queue.push_after(std::time::Duration::from_secs(1), work);
    }
    made
}

fn claim_templates(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

fn claim_name(key: &Key, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template["metadata"]["name"].as_str().unwrap_or_default(), key.name)
}

/// Claims outlive their pods: a successor finds its volume again.
fn create_claims(ctx: &mut ClusterContext, key: &Key, set: &Value, ordinal: i64) {
    for template in claim_templates(set) {
        let name = claim_name(key, template, ordinal);
        if ctx.cache.get(Kind::PersistentVolumeClaim, &Key::new(&key.namespace, &name)).is_some() {
            continue;
        }
        let mut metadata =
            json!({"name": name, "namespace": key.namespace, "labels": set["spec"]["selector"]["matchLabels"]});
        if template["metadata"]["annotations"].is_object() {
            metadata["annotations"] = template["metadata"]["annotations"].clone();
        }
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]});
        // It may be there already; the pod waits for it in either case.
        let _ = ctx.kube.create(Kind::PersistentVolumeClaim, claim);
    }
}

/// Replaces the pod with the highest ordinal that is of an older template.
fn update(ctx: &mut ClusterContext, set: &Value, members: &Members, revision: &str) {
    if set["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return;
    }
    let partition = set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let outdated = members
        .there
        .iter()
        .rev()
        .filter(|(ordinal, _)| **ordinal >= partition)
        .find_map(|(_, pod)| (label(ctx, pod, REVISION).as_deref() != Some(revision)).then(|| pod.key.clone()));
    if let Some(pod) = outdated {
        ctx.kube.delete(Kind::Pod, &pod, None);
    }
}

fn label(ctx: &ClusterContext, pod: &PodView, label: &str) -> Option<String> {
    let object = ctx.cache.get(Kind::Pod, &pod.key)?;
    object["metadata"]["labels"][label].as_str().map(str::to_owned)
}

fn report(ctx: &mut ClusterContext, key: &Key, set: &Value, revision: &str) {
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let pods: Vec<Rc<PodView>> = ctx.cache.pods_of(uid).into_iter().filter(|p| !p.finished()).collect();
    let live: Vec<Rc<PodView>> = pods.iter().filter(|p| !p.terminating).cloned().collect();
    let counts = count(ctx, Kind::StatefulSet, key, set, &live);
    let updated = to_i64(live.iter().filter(|p| label(ctx, p, REVISION).as_deref() == Some(revision)).count());
    let done = updated == replicas(set) && counts.ready == updated;
    let current = if done || set["status"]["currentRevision"].is_null() {
        json!(revision)
    } else {
        set["status"]["currentRevision"].clone()
    };
    let current_count = if current == revision { updated } else { to_i64(live.len()) - updated };
    let fields = [
        ("replicas", json!(pods.len())),
        ("readyReplicas", json!(counts.ready)),
        ("availableReplicas", json!(counts.available)),
        ("currentReplicas", json!(current_count)),
        ("updatedReplicas", json!(updated)),
        ("currentRevision", current),
        ("updateRevision", json!(revision)),
        ("observedGeneration", set["metadata"]["generation"].clone()),
    ];
    write_status(ctx, Kind::StatefulSet, key, &fields);
}
