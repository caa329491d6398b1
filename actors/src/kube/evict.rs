//! Pods on their way off a node: evictions and deletions, one attempt each, with the pod's uid. Who tries again, and
//! when, is decided by who asked: what is right for a pod may change meanwhile.

use dovetail_core::Pod;
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self, ObjectMeta, Status};
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};

use crate::kube::calls::{ANSWER_TIMEOUT, Calls};
use crate::kube::failure::{FailureKind, KubeFailure, budget};
use crate::reading;

/// Outcome of one attempt to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod goes.
    Going,
    /// It is gone already, or another has its name.
    Gone,
    /// A PodDisruptionBudget, or more than one, stands against it now.
    Refused(String),
    /// The API server did not do it now.
    Failed(String),
    /// The API server will not have it: its authorizer, an admission webhook, or as it makes no sense.
    Denied(String),
}

/// Evicts a pod: its budgets are kept.
pub async fn evict(calls: &Calls, pod: &Pod) -> EvictionOutcome {
    let api = Api::<KubePod>::namespaced(calls.client.clone(), &pod.namespace);
    let (params, body) = (PostParams::default(), eviction(pod));
    let call = api.create_subresource::<Eviction, Status>("eviction", &pod.name, &params, &body);
    attempt(calls, async { call.await.map(drop) }).await
}

/// Written here: `Api::evict` calls the options `delete_options`, which no API server reads, uid and all.
fn eviction(pod: &Pod) -> Eviction {
    let metadata =
        ObjectMeta { name: Some(pod.name.clone()), namespace: Some(pod.namespace.clone()), ..ObjectMeta::default() };
    let preconditions = v1::Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let options = v1::DeleteOptions { preconditions: Some(preconditions), ..v1::DeleteOptions::default() };
    Eviction { metadata, delete_options: Some(options) }
}

/// Deletes a pod, whatever its budgets say, with these seconds to end.
pub async fn delete(calls: &Calls, pod: &Pod, grace_seconds: u32) -> EvictionOutcome {
    let params = DeleteParams { grace_period_seconds: Some(grace_seconds), ..only(pod) };
    let api = reading::LenientApi::<KubePod>::namespaced(calls.client.clone(), &pod.namespace);
    attempt(calls, async { api.delete(&pod.name, &params).await.map(drop) }).await
}

fn only(pod: &Pod) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid: Some(pod.uid.clone()), resource_version: None })
}

async fn attempt(calls: &Calls, call: impl Future<Output = kube::Result<()>>) -> EvictionOutcome {
    match tokio::time::timeout(ANSWER_TIMEOUT, calls.while_acting(call)).await {
        Ok(None) => EvictionOutcome::Failed("the term is over".into()),
        Ok(Some(Ok(()))) => EvictionOutcome::Going,
        Ok(Some(Err(error))) => outcome_of(error),
        Err(_) => EvictionOutcome::Failed(format!("no answer within {ANSWER_TIMEOUT:?}")),
    }
}

fn outcome_of(error: kube::Error) -> EvictionOutcome {
    let why = match &error {
        kube::Error::Api(status) => budget(status).map(|why| format!(" {why}")).unwrap_or_default(),
        _ => String::new(),
    };
    let failure = KubeFailure::from(error);
    match failure.kind {
        FailureKind::Missing | FailureKind::Conflict | FailureKind::Exists => EvictionOutcome::Gone,
        FailureKind::Budget => EvictionOutcome::Refused(failure.message + &why),
        FailureKind::Forbidden | FailureKind::Refused => EvictionOutcome::Denied(failure.to_string()),
        _ => EvictionOutcome::Failed(failure.to_string()),
    }
}
