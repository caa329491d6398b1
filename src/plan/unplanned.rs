//! What is among the manifests and not planned for, and what is said of it.

use dovetail_api::manifest::Manifest;
use dovetail_input::manifests::passed_over;

/// Kinds that a plan depends on.
const READ: &[&str] = &[
    "ClusterConfig",
    "DaemonSet",
    "Deployment",
    "Job",
    "LimitRange",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "RuntimeClass",
    "StatefulSet",
    "StorageClass",
];
/// Kinds of which more is said than that they are passed over.
const SAID: &[&str] = &["CronJob", "HorizontalPodAutoscaler"];
/// Kinds that an autoscaler may scale and a plan counts.
const SCALED: &[&str] = &["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// The line that names all kinds that change nothing in the plan.
pub fn line(manifests: &[Manifest]) -> Option<String> {
    passed_over(manifests.iter().filter(|manifest| manifest.foreign || !is_read(manifest)))
}

fn is_read(manifest: &Manifest) -> bool {
    let kind = manifest.kind.as_str();
    let karpenters = manifest.v1.as_ref().is_some_and(|v1| v1.node_claim.is_none());
    karpenters || READ.contains(&kind) || SAID.contains(&kind)
}

/// What a user may take for planned, and is not.
pub fn warnings(manifests: &[Manifest]) -> Vec<String> {
    let said = |manifest: &Manifest| match manifest.kind.as_str() {
        _ if manifest.foreign => None,
        "CronJob" => Some(format!("cronjob {}: its pods are not planned for", called(manifest))),
        "HorizontalPodAutoscaler" => Some(autoscaler(manifest, manifests)),
        _ => None,
    };
    manifests.iter().filter_map(said).collect()
}

/// An object's name as the answer has it: with its namespace where that is not `default`.
fn called(manifest: &Manifest) -> String {
    match manifest.namespace.as_deref() {
        None | Some("default") => manifest.name.clone(),
        Some(namespace) => format!("{namespace}/{}", manifest.name),
    }
}

/// An autoscaler's target is planned as it is written.
fn autoscaler(own: &Manifest, manifests: &[Manifest]) -> String {
    let spec = &own.object["spec"];
    let text = |field: &str| spec["scaleTargetRef"][field].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let target = manifests.iter().find(|one| {
        let same = one.kind == kind && one.name == name && one.namespace == own.namespace;
        same && !one.foreign && SCALED.contains(&kind)
    });
    let head = format!("horizontalpodautoscaler {}: {} {name}", called(own), kind.to_lowercase());
    let Some(target) = target else { return format!("{head} is not among the manifests; nothing is planned for it") };
    let replicas = target.object["spec"]["replicas"].as_i64().unwrap_or(1);
    let most = spec["maxReplicas"].as_i64().map_or_else(String::new, |most: i64| format!(" {most}"));
    format!("{head} is planned with its replicas, {replicas}, not with maxReplicas{most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(kind: &str, object: serde_json::Value, foreign: bool) -> Manifest {
        Manifest {
            api_version: "example.com/v1".into(),
            kind: kind.into(),
            namespace: Some("default".into()),
            name: "web".into(),
            file: "f".into(),
            line: 1,
            object,
            foreign,
            v1: None,
        }
    }

    #[test]
    fn a_kind_of_another_group_is_not_taken_for_kubernetes() {
        let none = serde_json::json!({});
        assert_eq!(line(&[manifest("Job", none.clone(), false)]), None);
        let said = line(&[manifest("Job", none.clone(), true), manifest("Ingress", none, false)]);
        assert_eq!(said.as_deref(), Some("passed over: 1 Ingress, 1 Job (example.com/v1)"));
    }

    #[test]
    fn of_an_autoscaler_it_is_said_what_is_planned() {
        let spec =
            serde_json::json!({"spec": {"maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
        let autoscaler = manifest("HorizontalPodAutoscaler", spec, false);
        let alone = warnings(std::slice::from_ref(&autoscaler));
        assert!(alone[0].contains("deployment web is not among the manifests"), "{alone:?}");
        let both = warnings(&[autoscaler, manifest("Deployment", serde_json::json!({"spec": {"replicas": 3}}), false)]);
        assert_eq!(
            both,
            ["horizontalpodautoscaler web: deployment web is planned with its replicas, 3, not with maxReplicas 9"]
        );
    }
}
