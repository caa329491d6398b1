//! Manifests that are not planned for, and the warnings about them.

use dovetail_api::manifest::Manifest;
use dovetail_input::manifests::passed_over;

/// Kinds that a plan depends on. Under an apiVersion that is not theirs they are slips (`dovetail_api`, `foreign.rs`).
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
pub fn line<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Option<String> {
    passed_over(manifests.into_iter().filter(|manifest| manifest.foreign || !is_read(manifest)))
}

fn is_read(manifest: &Manifest) -> bool {
    let kind = manifest.kind.as_str();
    let karpenters = manifest.v1.as_ref().is_some_and(|v1| v1.node_claim.is_none());
    karpenters || READ.contains(&kind) || SAID.contains(&kind)
}

/// Annotation by which Helm runs an object at some moments only, and those that no install or upgrade has.
const HOOK: &str = "helm.sh/hook";
const OTHER_MOMENTS: &[&str] =
    &["test", "test-success", "test-failure", "pre-delete", "post-delete", "pre-rollback", "post-rollback"];
/// Kinds that bring pods.
const BRINGS_PODS: &[&str] =
    &["DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// The moments at which Helm runs an object, where an install or an upgrade is none of them: `helm template` prints it all
/// the same.
pub fn other_moment(manifest: &Manifest) -> Option<&str> {
    let hook = manifest.object["metadata"]["annotations"][HOOK].as_str()?;
    hook.split(',').all(|one| OTHER_MOMENTS.contains(&one.trim())).then_some(hook)
}

/// The scheduler that a workload's pods wait for, where that is not kube-scheduler.
fn other_scheduler(manifest: &Manifest) -> Option<&str> {
    let spec = &manifest.object["spec"];
    let pod = if manifest.kind == "Pod" { spec } else { &spec["template"]["spec"] };
    pod["schedulerName"].as_str().filter(|name| !name.is_empty() && *name != "default-scheduler")
}

/// Warnings about objects that a user may take for planned, and that are not.
pub fn warnings(manifests: &[Manifest]) -> Vec<String> {
    let said = |manifest: &Manifest| match manifest.kind.as_str() {
        _ if manifest.foreign => None,
        kind if BRINGS_PODS.contains(&kind) && other_moment(manifest).is_some() => {
            let (kind, hook) = (kind.to_lowercase(), other_moment(manifest).unwrap_or_default());
            Some(format!(
                "{kind} {}: a Helm hook ({hook}) that no install runs; its pods are not planned for",
                called(manifest)
            ))
        }
        kind if BRINGS_PODS.contains(&kind) && other_scheduler(manifest).is_some() => {
            let (kind, scheduler) = (kind.to_lowercase(), other_scheduler(manifest).unwrap_or_default());
            Some(format!("{kind} {}: planned as by kube-scheduler, not by its own, {scheduler}", called(manifest)))
        }
        "CronJob" => Some(format!("cronjob {}: its pods are not planned for", called(manifest))),
        "Job" if manifest.object["spec"]["suspend"] == true => {
            Some(format!("job {}: it is suspended; its pods are not planned for", called(manifest)))
        }
        "HorizontalPodAutoscaler" => Some(autoscaler(manifest, manifests)),
        _ => None,
    };
    manifests.iter().filter_map(said).collect()
}

/// An object's name as the answer has it: with its namespace where that is not `default`.
pub fn called(manifest: &Manifest) -> String {
    match manifest.namespace.as_deref() {
        None | Some("default") => manifest.name.clone(),
        Some(namespace) => format!("{namespace}/{}", manifest.name),
    }
}

/// An autoscaler's target is planned as it is written, or with `minReplicas` where these are more: so many there are at least.
fn autoscaler(own: &Manifest, manifests: &[Manifest]) -> String {
    let spec = &own.object["spec"];
    let text = |field: &str| spec["scaleTargetRef"][field].as_str().unwrap_or_default();
    let head = format!("horizontalpodautoscaler {}: {} {}", called(own), text("kind").to_lowercase(), text("name"));
    let Some(target) = target(own, manifests) else {
        return format!("{head} is not among the manifests; nothing is planned for it");
    };
    let replicas = replicas(&manifests[target]);
    let most = spec["maxReplicas"].as_i64().map_or_else(String::new, |most: i64| format!(" {most}"));
    match least(own, &manifests[target]) {
        Some(least) => format!(
            "{head} is planned with minReplicas, {least}, not with its replicas, {replicas}, and not with maxReplicas{most}"
        ),
        None => format!("{head} is planned with its replicas, {replicas}, not with maxReplicas{most}"),
    }
}

/// Workload that an autoscaler scales, by its place among the manifests.
fn target(own: &Manifest, manifests: &[Manifest]) -> Option<usize> {
    let named = &own.object["spec"]["scaleTargetRef"];
    manifests.iter().position(|one| {
        let same = named["kind"] == one.kind.as_str() && named["name"] == one.name.as_str();
        same && one.namespace == own.namespace && !one.foreign && SCALED.contains(&one.kind.as_str())
    })
}

fn replicas(target: &Manifest) -> i64 {
    target.object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// The replicas that an autoscaler makes at once, where they are more than the target's. One of no replicas it leaves alone.
fn least(own: &Manifest, target: &Manifest) -> Option<i64> {
    let least = own.object["spec"]["minReplicas"].as_i64()?;
    let there = replicas(target);
    (there > 0 && least > there).then_some(least)
}

/// Gives the targets of autoscalers their `minReplicas` where these are more than what they have.
pub fn scale(manifests: &mut [Manifest]) {
    let autoscalers = manifests.iter().filter(|one| one.kind == "HorizontalPodAutoscaler" && !one.foreign);
    let scaled: Vec<(usize, i64)> = autoscalers
        .filter_map(|own| {
            let at = target(own, manifests)?;
            Some((at, least(own, &manifests[at])?))
        })
        .collect();
    for (at, least) in scaled {
        manifests[at].object["spec"]["replicas"] = least.into();
    }
}

#[cfg(test)]
mod tests {
    use dovetail_api::manifest::{self, ReadOptions};

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
        assert_eq!(said.as_deref(), Some("skipped: 1 Ingress, 1 Job (example.com/v1)"));
    }

    #[test]
    fn kind_a_plan_depends_on_is_not_skipped_under_unknown_version() {
        for kind in READ.iter().chain(&["NodePool", "EC2NodeClass", "CronJob"]) {
            let text = format!("apiVersion: old/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\n");
            let read = manifest::read_manifests(&[("f", text.as_str())], &ReadOptions::default());
            assert!(read.is_err(), "{kind} would be passed over");
        }
        let other = "apiVersion: old/v1beta1\nkind: Widget\nmetadata: {name: a}\n";
        let read = manifest::read_manifests(&[("f", other)], &ReadOptions::default());
        assert!(read.is_ok_and(|all| all.iter().all(|one| one.foreign)));
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

    #[test]
    fn there_are_as_many_as_an_autoscaler_makes_at_least() {
        let spec = serde_json::json!({"spec": {"minReplicas": 4, "maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
        let autoscaler = manifest("HorizontalPodAutoscaler", spec, false);
        for (written, planned, told) in [
            (
                serde_json::json!({"spec": {}}),
                4,
                "is planned with minReplicas, 4, not with its replicas, 1, and not with maxReplicas 9",
            ),
            (
                serde_json::json!({"spec": {"replicas": 7}}),
                7,
                "is planned with its replicas, 7, not with maxReplicas 9",
            ),
            (
                serde_json::json!({"spec": {"replicas": 0}}),
                0,
                "is planned with its replicas, 0, not with maxReplicas 9",
            ),
        ] {
            let mut both = [autoscaler.clone(), manifest("Deployment", written, false)];
            assert!(warnings(&both)[0].ends_with(told), "{:?}", warnings(&both));
            scale(&mut both);
            assert_eq!(replicas(&both[1]), planned);
        }
    }
}
