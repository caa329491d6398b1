//! Templates and sizes of what buffers refer to: PodTemplates, and workloads of any kind with a pod template and a scale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::autoscaling::{ACTIVE_CAPACITY, CapacityBuffer, ScalableRef};
use dovetail_core::buffers::{BufferFault, BufferSource};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec, ReplicationController};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt, discovery};
use serde::de::DeserializeOwned;

use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// Interval at which an object is asked for again.
const FRESH: Duration = Duration::from_secs(10);

/// Template and size behind a buffer, and when they were asked for.
#[derive(Clone, Debug)]
struct Known {
    source: Result<BufferSource, BufferFault>,
    /// Uid and generation of the buffer.
    of: (Option<String>, Option<i64>),
    /// Monotonic.
    asked: Duration,
}

/// Templates and sizes behind buffers, by the namespaces and names of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources(Arc<BTreeMap<String, Known>>);

fn key_of(buffer: &CapacityBuffer) -> String {
    format!("{}/{}", buffer.namespace().unwrap_or_default(), buffer.name_any())
}

impl Sources {
    /// Template and size behind a buffer.
    pub(super) fn source_of(&self, buffer: &CapacityBuffer) -> Result<&BufferSource, BufferFault> {
        match self.0.get(&key_of(buffer)).map(|known| known.source.as_ref()) {
            Some(Ok(source)) => Ok(source),
            Some(Err(fault)) => Err(fault.clone()),
            None => Err(BufferFault::unresolved("it has not been looked at yet")),
        }
    }

    /// Asks for what is new or was asked for long ago. What cannot be asked for now stays as it was.
    pub(super) async fn refresh<'a>(
        &mut self,
        calls: &Calls,
        buffers: impl Iterator<Item = &'a Arc<CapacityBuffer>>,
        now: Duration,
    ) {
        let mut all = BTreeMap::new();
        for buffer in buffers {
            let (key, of) = (key_of(buffer), (buffer.uid(), buffer.metadata.generation));
            let known = self.0.get(&key).filter(|known| known.of == of).cloned();
            let known = match known {
                Some(known) if now.saturating_sub(known.asked) < FRESH => known,
                known => match (source_of(calls, buffer).await, known) {
                    // It is not known to have changed.
                    (Err(Unresolved::Unanswered(_)), Some(known)) => known,
                    (found, _) => Known { source: found.map_err(BufferFault::from), of, asked: now },
                },
            };
            all.insert(key, known);
        }
        self.0 = Arc::new(all);
    }
}

/// The reason that a source is not known.
enum Unresolved {
    /// No answer has come.
    Unanswered(String),
    Fault(BufferFault),
}

impl From<Unresolved> for BufferFault {
    fn from(unresolved: Unresolved) -> Self {
        match unresolved {
            Unresolved::Unanswered(why) => Self::unresolved(why),
            Unresolved::Fault(fault) => fault,
        }
    }
}

fn fault(reason: &'static str, why: String) -> Unresolved {
    Unresolved::Fault(BufferFault::NotReady(reason, why))
}

async fn source_of(calls: &Calls, buffer: &CapacityBuffer) -> Result<BufferSource, Unresolved> {
    let (spec, namespace) = (&buffer.spec, buffer.namespace().unwrap_or_default());
    // Others' buffers are none of ours, whatever they refer to.
    if spec.provisioning_strategy.as_deref().is_some_and(|strategy| strategy != ACTIVE_CAPACITY) {
        return Ok(BufferSource::default());
    }
    match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(_), Some(_)) => {
            Err(fault("ResolutionFailed", "spec.podTemplateRef and spec.scalableRef exclude each other".to_owned()))
        }
        (None, None) => {
            Err(fault("ResolutionFailed", "one of spec.podTemplateRef and spec.scalableRef has to be set".to_owned()))
        }
        (Some(template), None) => {
            let found: PodTemplate =
                get(calls, &namespace, "PodTemplate", &template.name, "PodTemplateNotFound").await?;
            let template_ref = Some((template.name.clone(), found.metadata.generation));
            Ok(BufferSource { template: found.template.unwrap_or_default(), replicas: None, template_ref })
        }
        (None, Some(workload)) => workload_source(calls, &namespace, workload).await,
    }
}

async fn get<K>(calls: &Calls, namespace: &str, kind: &str, name: &str, missing: &'static str) -> Result<K, Unresolved>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api = LenientApi::<K>::namespaced(calls.client.clone(), namespace);
    match calls.once(api.get_opt(name)).await {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(fault(missing, format!("there is no {kind} {name} in namespace {namespace}"))),
        Err(error) => Err(unresolved(error, kind, name)),
    }
}

fn unresolved(error: CallError, kind: &str, name: &str) -> Unresolved {
    let why = format!("{kind} {name} cannot be read: {error}");
    match error {
        CallError::Unanswered(_) | CallError::Deposed => Unresolved::Unanswered(why),
        _ => fault("ResolutionFailed", why),
    }
}

/// The number of pods that a field asks for.
fn count(number: Option<i32>) -> Option<usize> {
    Some(number.map_or(1, |number| usize::try_from(number).unwrap_or_default()))
}

async fn workload_source(calls: &Calls, namespace: &str, of: &ScalableRef) -> Result<BufferSource, Unresolved> {
    const MISSING: &str = "ScalableRefNotFound";
    let (kind, name) = (of.kind.as_str(), of.name.as_str());
    let (template, replicas): (Option<PodTemplateSpec>, _) = match (of.api_group.as_str(), kind) {
        ("" | "apps", "Deployment") => {
            let found: Deployment = get(calls, namespace, kind, name, MISSING).await?;
            found.spec.map(|spec| (Some(spec.template), count(spec.replicas))).unwrap_or_default()
        }
        ("" | "apps", "ReplicaSet") => {
            let found: ReplicaSet = get(calls, namespace, kind, name, MISSING).await?;
            found.spec.map(|spec| (spec.template, count(spec.replicas))).unwrap_or_default()
        }
        ("" | "apps", "StatefulSet") => {
            let found: StatefulSet = get(calls, namespace, kind, name, MISSING).await?;
            found.spec.map(|spec| (Some(spec.template), count(spec.replicas))).unwrap_or_default()
        }
        ("", "ReplicationController") => {
            let found: ReplicationController = get(calls, namespace, kind, name, MISSING).await?;
            found.spec.map(|spec| (spec.template, count(spec.replicas))).unwrap_or_default()
        }
        ("batch", "Job") => {
            let found: Job = get(calls, namespace, kind, name, MISSING).await?;
            found.spec.map(|spec| (Some(spec.template), count(spec.parallelism))).unwrap_or_default()
        }
        _ => scaled_object(calls, namespace, of).await?,
    };
    let template = template.ok_or_else(|| fault("ResolutionFailed", format!("{kind} {name} has no pod template")))?;
    Ok(BufferSource { template, replicas, template_ref: None })
}

/// An object of any kind that has a pod template and the subresource scale.
async fn scaled_object(
    calls: &Calls,
    namespace: &str,
    of: &ScalableRef,
) -> Result<(Option<PodTemplateSpec>, Option<usize>), Unresolved> {
    let (kind, name, group) = (of.kind.as_str(), of.name.as_str(), of.api_group.as_str());
    let missing = |what: &str| fault("ScalableRefNotFound", format!("{kind} {name}: {what}"));
    if group.is_empty() {
        return Err(missing(
            "its kind has no scale (allowed: Deployment, ReplicaSet, StatefulSet, or a kind with its apiGroup)",
        ));
    }
    let api = match calls.once(dynamic_api(calls.client.clone(), namespace, group, kind)).await {
        Ok(Some(api)) => api,
        Ok(None) => return Err(missing(&format!("there is no such kind in the API group {group}"))),
        Err(error) => return Err(unresolved(error, kind, name)),
    };
    let object = match calls.once(api.get_opt(name)).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(missing(&format!("there is none in namespace {namespace}"))),
        Err(error) => return Err(unresolved(error, kind, name)),
    };
    let scale = match calls.once(api.get_scale(name)).await {
        Ok(scale) => scale,
        Err(error @ CallError::Unanswered(_)) => return Err(unresolved(error, kind, name)),
        Err(error) => return Err(fault("ResolutionFailed", format!("{kind} {name} has no scale: {error}"))),
    };
    let template = object.data.pointer("/spec/template").cloned();
    let template = template.map(serde_json::from_value).transpose();
    let template = template.map_err(|why| fault("ResolutionFailed", format!("{kind} {name}: spec.template: {why}")))?;
    let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or_default();
    Ok((template, Some(usize::try_from(replicas).unwrap_or_default())))
}

/// The objects of a kind, in the version that its group prefers; `None` if there is no such kind.
async fn dynamic_api(
    client: Client,
    namespace: &str,
    group: &str,
    kind: &str,
) -> kube::Result<Option<Api<DynamicObject>>> {
    let group = match discovery::group(&client, group).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = group.recommended_kind(kind);
    Ok(found.map(|(resource, _)| Api::namespaced_with(client, namespace, &resource)))
}
