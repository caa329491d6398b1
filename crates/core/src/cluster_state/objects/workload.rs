//! The workload of a pod: pods of one workload have one fate where a plan and the cluster disagree about a node.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::api::core::v1::Pod as KubePod;
use serde_json::json;

use super::pod::PodEntry;
use crate::lifecycle::hash;
use crate::pod::Pod;

/// The label by which a Deployment tells its ReplicaSets' pods apart.
pub(in crate::cluster_state) const TEMPLATE_HASH: &str = "pod-template-hash";

/// The key of a pod's workload: its controller. A Job's pods, and those without an owner, are told apart by their requests
/// and rules: each run of a CronJob is another Job.
#[must_use]
pub fn workload_of(pod: &KubePod, scheduled: &Pod) -> String {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first());
    match owner.filter(|owner| owner.kind != "Job") {
        Some(owner) => controlled_by(&scheduled.namespace, &owner.kind, &owner.uid),
        None => {
            let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or_default();
            let kind = owner.map_or("", |owner| owner.kind.as_str());
            hash::json_hash(&json!([
                scheduled.namespace,
                kind,
                scheduler,
                scheduled.requests,
                scheduled.node_selector,
                scheduled.affinity,
                scheduled.tolerations,
                scheduled.topology_spread_constraints,
                scheduled.host_ports,
            ]))
        }
    }
}

#[must_use]
pub fn controlled_by(namespace: &str, kind: &str, uid: &str) -> String {
    hash::json_hash(&json!([namespace, kind, uid]))
}

/// The key by which a move of a pod is remembered: its workload. For a pod that moves by a restart of its Deployment it is
/// the Deployment, because the pods that the restart brings are of another ReplicaSet.
#[must_use]
pub fn moved_as(entry: &PodEntry) -> Cow<'_, str> {
    let Some(set) = &entry.drain.rollout else { return Cow::Borrowed(&entry.workload) };
    match deployment_of(&entry.pod, set) {
        // A workload is a hash: it never has this form.
        Some(deployment) => Cow::Owned(format!("Deployment {}/{deployment}", entry.pod.namespace)),
        None => Cow::Borrowed(&entry.workload),
    }
}

/// The Deployment of a pod's ReplicaSet: it names its ReplicaSets by its own name and the hash of their template.
fn deployment_of<'a>(pod: &Pod, set: &'a str) -> Option<&'a str> {
    let hash = pod.labels.get(TEMPLATE_HASH)?;
    set.strip_suffix(hash.as_str())?.strip_suffix('-').filter(|name| !name.is_empty())
}

/// The owner of a pod whose replicas are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cluster_state) enum ReplicaOwner<'a> {
    /// A Deployment, by namespace and name: its ReplicaSets stand beside each other during a rollout.
    Deployment(&'a str, &'a str),
    /// Any other controller, by kind, namespace and name.
    Controller(&'a str),
    /// A workload by its key: Jobs, pods of nobody, and controllers of other kinds.
    Workload(&'a str, &'a str),
}

impl<'a> ReplicaOwner<'a> {
    pub fn of_pod(entry: &'a PodEntry) -> Self {
        let Some(controller) = &entry.controller else {
            return Self::Workload(&entry.pod.namespace, &entry.workload);
        };
        let set = controller.strip_prefix("ReplicaSet/").and_then(|rest| rest.split_once('/'));
        let deployment = set.and_then(|(_, set)| deployment_of(&entry.pod, set));
        deployment.map_or(Self::Controller(controller), |name| Self::Deployment(&entry.pod.namespace, name))
    }
}

impl fmt::Display for ReplicaOwner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment(namespace, name) => write!(f, "Deployment {namespace}/{name}"),
            Self::Controller(key) => f.write_str(&key.replacen('/', " ", 1)),
            Self::Workload(namespace, _) => write!(f, "the workload of this pod in namespace {namespace}"),
        }
    }
}

/// Most characters of a pod's message that are kept and shown: anyone who may write its status may write a million.
const LONGEST_WORDS: usize = 1000;

/// Kubelet's message about a pod that it did not let run: it has failed without a container having been started.
#[must_use]
pub fn refused_by_kubelet(pod: &KubePod) -> Option<String> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"))?;
    let begun = status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let reason = status.reason.as_deref().unwrap_or_default();
    // A pod that kubelet evicts had been let run.
    if begun.count() > 0 || matches!(reason, "" | "Evicted" | "NodeLost" | "Terminated" | "NodeShutdown") {
        return None;
    }
    let message = status.message.as_deref().unwrap_or_default();
    let said = if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") };
    Some(said.chars().take(LONGEST_WORDS).collect())
}

/// kube-scheduler's message about a pod that it has no node for.
#[must_use]
pub fn words_of_scheduler(pod: &KubePod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    let words: String = scheduled.message.as_deref()?.chars().take(LONGEST_WORDS).collect();
    Some(words).filter(|words| !words.is_empty())
}
