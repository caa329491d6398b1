//! Pods that are moved by a restart of their Deployment, as `kubectl rollout restart` does it: its own `maxSurge` brings the new pod
//! before the old one goes. Asked for by the annotation `dovetail.dev/move: rollout` on the pods, where their eviction would be
//! refused or would leave none of them.
//!
//! ```text
//! place ready ─► Deployment judged ── as it should be ──► restarted, once a drain ─► new pod Ready ─► old pod deleted by its set
//!                     │                                        └── does not come in ten minutes ── evicted as any other
//!                     ├── rolling out already ── looked at again, ten minutes at most
//!                     └── paused, no surge, no Deployment ── evicted as any other
//! ```

pub mod progress;

use dovetail_api::names::annotations::RESTARTED_AT;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

/// The verdict on a Deployment whose pod is to leave its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartVerdict {
    /// Restart the Deployment now.
    Restart,
    /// It was restarted since the drain began.
    Restarted,
    /// Wait: it is rolling out.
    Wait(&'static str),
    /// A restart would not help, or is not ours to begin.
    Never(&'static str),
}

/// Judges a Deployment; `since` is the start of the drain, in whole seconds as the API server writes it.
#[must_use]
pub fn judge(deployment: &Deployment, since: Timestamp) -> RestartVerdict {
    let spec = deployment.spec.clone().unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    if deployment.metadata.deletion_timestamp.is_some() {
        return RestartVerdict::Never("it is being deleted");
    }
    if spec.paused == Some(true) {
        return RestartVerdict::Never("it is paused");
    }
    if wanted == 0 {
        return RestartVerdict::Never("it has no replicas");
    }
    if !surges(&spec.strategy.unwrap_or_default()) {
        return RestartVerdict::Never("its maxSurge is 0, so that the old pod would go before the new one comes");
    }
    let annotations = spec.template.metadata.and_then(|meta| meta.annotations).unwrap_or_default();
    let restarted = annotations.get(RESTARTED_AT).and_then(|at| at.parse::<Timestamp>().ok());
    if restarted.is_some_and(|at| at.as_second() >= since.as_second()) {
        return RestartVerdict::Restarted;
    }
    let status = deployment.status.clone().unwrap_or_default();
    let observed = status.observed_generation.unwrap_or_default() >= deployment.metadata.generation.unwrap_or_default();
    let all = |count: Option<i32>| count.unwrap_or_default() == wanted;
    if !observed || !all(status.updated_replicas) || !all(status.replicas) {
        return RestartVerdict::Wait("it is rolling out already");
    }
    if !all(status.available_replicas) {
        return RestartVerdict::Wait("not all of its pods are available");
    }
    RestartVerdict::Restart
}

/// True if a new pod comes before an old one goes. Kubernetes rounds a percentage up.
fn surges(strategy: &k8s_openapi::api::apps::v1::DeploymentStrategy) -> bool {
    if strategy.type_.as_deref() == Some("Recreate") {
        return false;
    }
    match strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_surge.as_ref()) {
        None => true,
        Some(IntOrString::Int(count)) => *count > 0,
        Some(IntOrString::String(part)) => part.trim_end_matches('%').parse::<u32>().is_ok_and(|part| part > 0),
    }
}

/// The merge patch that restarts a Deployment as it was read: the API server refuses it after another change.
#[must_use]
pub fn restart(deployment: &Deployment, now: Timestamp) -> Value {
    let at = format!("{now:.0}");
    json!({"metadata": {"resourceVersion": deployment.metadata.resource_version},
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::annotations::MOVE;

    use super::*;

    fn since() -> Timestamp {
        "2026-03-02T10:15:00Z".parse().unwrap()
    }

    fn deployment(change: impl FnOnce(&mut Value)) -> Deployment {
        let mut one = json!({"metadata": {"name": "web", "generation": 3, "resourceVersion": "7"},
            "spec": {"replicas": 1, "selector": {}, "template": {"metadata": {"annotations": {}}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
            "status": {"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}});
        change(&mut one);
        serde_json::from_value(one).unwrap()
    }

    fn verdict(change: impl FnOnce(&mut Value)) -> RestartVerdict {
        judge(&deployment(change), since())
    }

    #[test]
    fn a_deployment_at_rest_that_surges_is_restarted_once_a_drain() {
        assert_eq!(verdict(|_| ()), RestartVerdict::Restart);
        let restarted = |at: &'static str| {
            verdict(|one| one["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] = json!(at))
        };
        assert_eq!(restarted("2026-03-02T10:14:59Z"), RestartVerdict::Restart, "by an earlier drain");
        assert_eq!(restarted("2026-03-02T10:15:00Z"), RestartVerdict::Restarted);
        assert_eq!(restarted("2026-03-02T12:15:00+02:00"), RestartVerdict::Restarted, "as kubectl writes it elsewhere");
        let patch = restart(&deployment(|_| ()), since());
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT], "2026-03-02T10:15:00Z");
    }

    #[test]
    fn paused_surgeless_or_deleted_deployment_is_never_restarted() {
        let changes: [fn(&mut Value); 6] = [
            |one| one["spec"]["paused"] = json!(true),
            |one| one["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = json!(0),
            |one| one["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = json!("0%"),
            |one| one["spec"]["strategy"] = json!({"type": "Recreate"}),
            |one| one["spec"]["replicas"] = json!(0),
            |one| one["metadata"]["deletionTimestamp"] = json!("2026-03-02T10:15:00Z"),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(matches!(verdict(change), RestartVerdict::Never(_)), "{number}");
        }
    }

    #[test]
    fn one_that_is_rolling_out_is_waited_for() {
        let changes: [fn(&mut Value); 4] = [
            |one| one["metadata"]["generation"] = json!(4),
            |one| one["status"]["updatedReplicas"] = json!(0),
            |one| one["status"]["replicas"] = json!(2),
            |one| one["status"]["availableReplicas"] = json!(0),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(matches!(verdict(change), RestartVerdict::Wait(_)), "{number}");
        }
    }

    #[test]
    fn only_a_replica_sets_pod_with_the_annotation_asks() {
        let pod = |how: &str, kind: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "web-1", "uid": "u", "controller": true});
            let pod = json!({"metadata": {"name": "p", "annotations": {MOVE: how}, "ownerReferences": [owner]}});
            crate::pod::DrainFacts::from_kube(&serde_json::from_value(pod).unwrap()).rollout
        };
        assert_eq!(pod("rollout", "ReplicaSet").as_deref(), Some("web-1"));
        assert_eq!((pod("evict", "ReplicaSet"), pod("rollout", "StatefulSet")), (None, None));
    }
}
