//! The pods that a workload's controllers would make, with names that are the same every time.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{Container, PersistentVolumeClaimVolumeSource, Pod, PodStatus, PodTemplateSpec, Volume},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::Value;

use super::Manifest;
use crate::hash::fnv;
use crate::names::annotations::POD_GROUP;
use crate::scheduling::group_in_field;

/// Kubernetes' alphabet of generated names: no vowels, nothing that looks like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// More pods than this are not unfolded in one run: a third more than the 150,000 of Kubernetes' largest clusters.
pub const MAX_PODS: u64 = 200_000;

/// Number of pods that [`workload_pods`] makes of an object, and the field that says so.
pub fn pod_count(kind: &str, object: &Value) -> (u64, &'static str) {
    let count = |field: &str, default: u64| match &object["spec"][field] {
        Value::Number(number) => number.as_u64().unwrap_or_default(),
        _ => default,
    };
    match kind {
        "Pod" => (1, "spec"),
        "DaemonSet" => (1, "spec.template"),
        "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            (count("replicas", 1), "spec.replicas")
        }
        // A suspended Job has no pods (Kubernetes, "Jobs").
        "Job" if object["spec"]["suspend"] == true => (0, "spec.suspend"),
        "Job" => (count("parallelism", 1).min(count("completions", u64::MAX)), "spec.parallelism"),
        _ => (0, ""),
    }
}

/// The pods of a Pod, Deployment, ReplicaSet, ReplicationController, StatefulSet or Job as their controllers would name them;
/// one pod as the pattern of a DaemonSet (its owner says so); none of anything else. A StatefulSet's claims for volumes
/// are volumes of its pods.
pub fn workload_pods(manifest: &Manifest) -> Vec<Pod> {
    if manifest.foreign {
        return Vec::new();
    }
    let namespace = manifest.namespace.clone().unwrap_or_else(|| "default".into());
    if manifest.kind == "Pod" {
        let pod: Option<Pod> = serde_json::from_value(manifest.object.clone()).ok();
        let named = pod.map(|pod| with_group(pod, &manifest.object));
        return named.map(|pod| finish(pod, &manifest.name, &namespace)).into_iter().collect();
    }
    let Some(template) = template(manifest) else { return Vec::new() };
    let count = pod_count(&manifest.kind, &manifest.object).0.min(MAX_PODS);
    let suffixed = |prefix: String| -> Vec<String> {
        (0..count).map(|index| format!("{prefix}-{}", suffix(&format!("{namespace}/{prefix}/{index}"), 5))).collect()
    };
    let name = &manifest.name;
    let hash = suffix(&manifest.object["spec"]["template"].to_string(), 10);
    let (owner, names) = match manifest.kind.as_str() {
        "Deployment" => {
            let set = format!("{name}-{hash}");
            (("ReplicaSet", set.clone()), suffixed(set))
        }
        "ReplicaSet" | "ReplicationController" => ((manifest.kind.as_str(), name.clone()), suffixed(name.clone())),
        "StatefulSet" => {
            let first = manifest.object["spec"]["ordinals"].get("start").and_then(Value::as_i64).unwrap_or(0);
            let index = |index: u64| first.saturating_add(i64::try_from(index).unwrap_or(i64::MAX));
            let names = (0..count).map(|at| format!("{name}-{}", index(at)));
            (("StatefulSet", name.clone()), names.collect())
        }
        "DaemonSet" => (("DaemonSet", name.clone()), suffixed(name.clone())),
        "Job" => (("Job", name.clone()), suffixed(name.clone())),
        _ => return Vec::new(),
    };
    let mut names: Vec<String> = names;
    unique(&mut names);
    let claims = claims(manifest);
    let pods = names.iter().map(|pod| {
        let made = from_template(&template, manifest, owner.0, owner.1.clone(), &hash);
        let mut made = with_group(made, &manifest.object["spec"]["template"]);
        claims.iter().for_each(|claim| mount(&mut made, claim, pod));
        finish(made, pod, &namespace)
    });
    pods.collect()
}

fn template(manifest: &Manifest) -> Option<PodTemplateSpec> {
    serde_json::from_value(manifest.object.get("spec")?.get("template")?.clone()).ok()
}

fn from_template(template: &PodTemplateSpec, manifest: &Manifest, kind: &str, name: String, hash: &str) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    if manifest.kind == "Deployment" {
        labels.insert("pod-template-hash".into(), hash.into());
    }
    let api_version = if kind == "ReplicaSet" { "apps/v1" } else { &manifest.api_version };
    let owner = OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        uid: uid(&format!("{kind}/{}/{name}", manifest.namespace.as_deref().unwrap_or_default())),
        name,
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Pod {
        metadata: ObjectMeta {
            labels: (!labels.is_empty()).then_some(labels),
            annotations: metadata.annotations,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Keeps the PodGroup that a field names, which the typed Pod does not have, as an annotation.
fn with_group(mut pod: Pod, written: &Value) -> Pod {
    if let Some(name) = group_in_field(written) {
        pod.metadata.annotations.get_or_insert_default().insert(POD_GROUP.to_owned(), name.to_owned());
    }
    pod
}

/// Names of a StatefulSet's claims for volumes.
fn claims(manifest: &Manifest) -> Vec<String> {
    if manifest.kind != "StatefulSet" {
        return Vec::new();
    }
    let set: Option<StatefulSet> = serde_json::from_value(manifest.object.clone()).ok();
    let templates = set.and_then(|set| set.spec).and_then(|spec| spec.volume_claim_templates).unwrap_or_default();
    templates.into_iter().filter_map(|template| template.metadata.name).collect()
}

/// Gives the pod its own claim, in place of a volume of that name.
fn mount(pod: &mut Pod, claim: &str, name: &str) {
    let Some(spec) = &mut pod.spec else { return };
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != claim);
    volumes.push(Volume {
        name: claim.into(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: format!("{claim}-{name}"),
            read_only: None,
        }),
        ..Volume::default()
    });
}

/// Name, namespace, uid and status, and requests where only limits are given, as kube-apiserver defaults them.
fn finish(mut pod: Pod, name: &str, namespace: &str) -> Pod {
    pod.metadata.name = Some(name.into());
    pod.metadata.namespace = Some(namespace.into());
    pod.metadata.uid = Some(uid(&format!("Pod/{namespace}/{name}")));
    pod.status = Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() });
    if let Some(spec) = &mut pod.spec {
        spec.containers.iter_mut().for_each(default_requests);
        spec.init_containers.iter_mut().flatten().for_each(default_requests);
    }
    pod
}

fn default_requests(container: &mut Container) {
    let Some(resources) = &mut container.resources else { return };
    for (name, limit) in resources.limits.iter().flatten() {
        resources.requests.get_or_insert_default().entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Five letters can meet; the later name gets more.
fn unique(names: &mut [String]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let again = seen.entry(name.clone()).or_default();
        *again += 1;
        if *again > 1 {
            name.push_str(&suffix(&again.to_string(), 4));
        }
    }
}

/// So many letters of Kubernetes' alphabet, the same for the same text.
fn suffix(text: &str, letters: usize) -> String {
    let mut left = fnv(text.bytes());
    left ^= left >> 29;
    left = left.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    left ^= left >> 32;
    let letter = |left: u64| char::from(ALPHABET[(left % ALPHABET.len() as u64) as usize]);
    (0..letters)
        .map(|_| {
            let letter = letter(left);
            left /= ALPHABET.len() as u64;
            letter
        })
        .collect()
}

/// A UID, the same for the same text.
fn uid(text: &str) -> String {
    let (a, b) = (fnv(text.bytes()), fnv(format!("{text}#").bytes()));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// Deepest level of a specification that is searched for pods: `spec.jobTemplate.spec.template.spec.containers` is five deep.
const DEEPEST: usize = 12;

/// Fields by which objects of other kinds say that they bring pods, without a template of these, and how many.
const COUNTED: [&str; 4] = ["replicas", "instances", "minRunners", "maxRunners"];

/// Scales what is counted for itself.
const SCALER: &str = "ScaledObject";

impl Manifest {
    /// True if an object of whatever kind has pods, as far as can be seen: it has a template of them, or says how many there are.
    #[must_use]
    pub fn may_bring_pods(&self) -> bool {
        self.kind != SCALER && brings_pods(&self.object["spec"], 0)
    }
}

/// The same of a part of its specification.
fn brings_pods(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > DEEPEST => false,
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::Array(_) if name == "containers" => true,
            Value::Number(_) => COUNTED.contains(&name.as_str()),
            other => brings_pods(other, depth + 1),
        }),
        Value::Array(items) => items.iter().any(|item| brings_pods(item, depth + 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_that_bring_pods_are_told_from_those_that_do_not() {
        let brings = |spec: Value| brings_pods(&spec, 0);
        assert!(brings(json!({"template": {"spec": {"containers": []}}})), "Rollout, CloneSet");
        assert!(brings(json!({"jobTargetRef": {"template": {"spec": {"containers": []}}}})), "ScaledJob");
        assert!(brings(json!({"headGroupSpec": {"template": {"spec": {"containers": []}}}})), "RayCluster");
        assert!(brings(json!({"tasks": [{"template": {"spec": {"containers": []}}}]})), "Volcano's Job");
        assert!(brings(json!({"leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": {"containers": []}}}})));
        assert!(brings(
            json!({"replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": []}}}}}]})
        ));
        assert!(brings(json!({"replicas": 2})) && brings(json!({"kafka": {"replicas": 3}})), "Prometheus, Kafka");
        assert!(brings(json!({"driver": {"cores": 1}, "executor": {"instances": 20}})), "SparkApplication");
        assert!(!brings(json!({"groups": [{"rules": [{"expr": "up", "for": 5}]}]})), "PrometheusRule");
        assert!(!brings(json!(null)) && !brings(json!({"selector": {"matchLabels": {"app": "a"}}})));
    }
}
