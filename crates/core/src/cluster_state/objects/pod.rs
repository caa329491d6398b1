//! A pod as the cluster state keeps it: its scheduling rules, its node, and whether it waits for a node of ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_api::provisioning;
use dovetail_api::v1::parse_go_duration;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::clock::at_the_latest;
use crate::cluster_state::default_spread::controller;
use crate::cluster_state::objects::daemon::POD_TEMPLATE_GENERATION;
use crate::cluster_state::objects::workload::{refused_by_kubelet, words_of_scheduler, workload_of};
use crate::expendable::ExpendableCutoff;
use crate::pod::{ContainerSizes, DeletionCost, DrainFacts, Pod, eviction_cost};
use crate::pod_groups::PodGroupRef;
use crate::spot_share::WrittenShare;

/// A pod, its node and its state.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEntry {
    /// The part of it that scheduling sees.
    pub pod: Arc<Pod>,
    /// The node it is bound to, empty while it is not.
    pub node_name: String,
    /// True if it waits for a node that does not exist (core spec 3.1).
    pub provisionable: bool,
    /// The node that it is nominated to while it is not bound: by kube-scheduler, which makes room there, or by us.
    pub nominated: Option<String>,
    /// True if it may be waiting for one: kube-scheduler has not said anything of it yet, see [`is_unmarked`].
    pub unmarked: bool,
    /// True if it belongs to a DaemonSet.
    pub daemon: bool,
    /// True if it mirrors a static pod of its kubelet.
    pub mirror: bool,
    /// True if it belongs to a StatefulSet: its successor comes only when it is gone.
    pub stateful: bool,
    /// Its controller, of the kinds that default spread constraints look at: kind, namespace and name.
    pub controller: Option<String>,
    /// Protection from disruption that it asks for.
    pub do_not_disrupt: DoNotDisrupt,
    /// Key of the annotation by which it asks.
    pub asks_by: &'static str,
    /// Its termination grace period.
    pub grace: Duration,
    /// Cost of its eviction (core spec 5.4).
    pub eviction_cost: f64,
    /// Owner of its deletion cost, by which its ReplicaSet goes when it is scaled in.
    pub deletion_cost: DeletionCost,
    /// True if nobody brings it back on another node once it is deleted ([`returns_elsewhere`]).
    pub stays_for_good: bool,
    pub ready: bool,
    /// Time at which kubelet took it in.
    pub since: Option<Timestamp>,
    /// True if it runs to its end, as a Job's pods do: its containers are not started again when they are done.
    pub ends: bool,
    /// True if it has ended.
    pub terminal: bool,
    pub deleting: bool,
    /// Names of the PersistentVolumeClaims that it uses.
    pub volume_claims: Vec<String>,
    pub drain: DrainFacts,
    /// Its workload, see [`workload_of`].
    pub workload: String,
    /// True if a container of it runs, or has run.
    pub started: bool,
    /// Kubelet's message, if it did not let the pod run.
    pub refused: Option<String>,
    /// kube-scheduler's message, while it has no node for the pod.
    pub words: Option<String>,
    /// Generation of its template, if it is a DaemonSet's pod.
    pub template: Option<String>,
    /// `metadata.resourceVersion` as a number; none where it is no number.
    pub resource_version: Option<u64>,
    /// True if it is there and cannot be read: its requests are not known.
    pub unreadable: bool,
    /// True if its priority is below the cutoff: it is worth no node (docs/decisions/078).
    pub expendable: bool,
    /// Name of the ProvisioningRequest, of its namespace, whose room it takes.
    pub consumes: Option<Arc<str>>,
    /// The PodGroup that it says it is in.
    pub group: Option<GroupMember>,
    /// Split of its workload between spot and other nodes that its annotations ask for.
    pub spot_share: WrittenShare,
    /// Its requests by container, where recommendations for them are followed and it has a controller.
    pub sizes: Option<Arc<ContainerSizes>>,
}

/// A pod as a member of a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub group: PodGroupRef,
    /// True if only a scheduler keeps it from a node, whether it has said so or holds the pod until enough members have a place.
    pub may_wait: bool,
}

impl GroupMember {
    fn from_kube(pod: &KubePod) -> Option<Self> {
        let group = PodGroupRef::from_metadata(pod.metadata.labels.as_ref(), pod.metadata.annotations.as_ref())?;
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
        Some(Self { group, may_wait: gates.is_empty() && can_be_given_a_node(pod) })
    }
}

/// The meaning of a pod's annotation `karpenter.sh/do-not-disrupt` (core spec 5.2), or where that is absent of
/// `karpenter.sh/do-not-evict`, its earlier name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// It may be moved.
    #[default]
    No,
    /// It may never be moved; also while a time is asked for and the pod has not started.
    Always,
    /// It may be moved from then on.
    Until(Timestamp),
    /// Its value is neither `true` nor a positive duration: it has no effect, and an event says so.
    Invalid(String),
}

impl DoNotDisrupt {
    /// Reads it off a pod.
    #[must_use]
    pub fn from_pod(pod: &KubePod) -> Self {
        let written = pod.metadata.annotations.as_ref().and_then(|all| all.get(Self::key(pod)));
        match written.map(String::as_str) {
            None | Some("false") => Self::No,
            Some("true") => Self::Always,
            Some(text) => match parse_go_duration(text) {
                Ok(asked) if !asked.is_zero() => {
                    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
                    let started = started.map(|started| at_the_latest(started.0));
                    started.and_then(|started| started.checked_add(asked).ok()).map_or(Self::Always, Self::Until)
                }
                _ => Self::Invalid(text.to_owned()),
            },
        }
    }

    /// The key of the annotation that a pod has: the older one only where the other is absent.
    fn key(pod: &KubePod) -> &'static str {
        let has = |key: &str| pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
        let old = has(annotations::DO_NOT_EVICT) && !has(annotations::DO_NOT_DISRUPT);
        if old { annotations::DO_NOT_EVICT } else { annotations::DO_NOT_DISRUPT }
    }

    /// True if the pod may not be moved now.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        match self {
            Self::No | Self::Invalid(_) => false,
            Self::Always => true,
            Self::Until(end) => now < *end,
        }
    }
}

/// Cost of moving the room of one pod, beside 1 for a pod: more than nothing, as a node that holds some is not empty.
const COST_OF_ROOM: f64 = 0.01;

/// Grace period of a pod that does not give one (Kubernetes' default).
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl PodEntry {
    /// Reads a pod of the API. If its quantities are invalid no scheduler can place it, and the error says why.
    ///
    /// # Errors
    /// The fault in its requests.
    pub fn from_kube(pod: &KubePod) -> Result<Self, crate::pod::PodError> {
        Ok(Self::from_pod(pod, Pod::from_kube(pod)?))
    }

    fn from_pod(pod: &KubePod, scheduled: Pod) -> Self {
        let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let (workload, bound) = (workload_of(pod, &scheduled), !node_name.is_empty());
        let refused = refused_by_kubelet(pod);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let none = BTreeMap::new();
        let annotated = pod.metadata.annotations.as_ref().unwrap_or(&none);
        Self {
            eviction_cost: eviction_cost(annotated, scheduled.priority),
            deletion_cost: DeletionCost::from_annotations(annotated),
            spot_share: WrittenShare::from_annotations(annotated),
            consumes: consumed_request(annotated),
            group: GroupMember::from_kube(pod),
            stays_for_good: !returns_elsewhere(pod),
            do_not_disrupt: DoNotDisrupt::from_pod(pod),
            asks_by: DoNotDisrupt::key(pod),
            ready: is_ready(pod),
            since: pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            ends: matches!(
                pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()),
                Some("Never" | "OnFailure")
            ),
            mirror: owned_by(pod, "v1", "Node"),
            controller: controller(&scheduled.namespace, pod.metadata.owner_references.as_deref().unwrap_or_default()),
            stateful: owned_by(pod, "apps/v1", "StatefulSet"),
            pod: Arc::new(scheduled),
            provisionable: node_name.is_empty() && is_provisionable(pod),
            nominated: nominated(pod).filter(|_| !bound).map(str::to_owned),
            unmarked: is_unmarked(pod),
            node_name,
            daemon: owned_by(pod, "apps/v1", "DaemonSet"),
            grace: grace(pod),
            terminal: is_terminal(pod),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            volume_claims: crate::volumes::claims_of(pod),
            drain: DrainFacts::from_kube(pod),
            workload,
            started: refused.is_none() && matches!(phase, Some("Running" | "Succeeded" | "Failed")),
            refused,
            words: if bound { None } else { words_of_scheduler(pod) },
            template: pod.metadata.labels.as_ref().and_then(|own| own.get(POD_TEMPLATE_GENERATION)).cloned(),
            resource_version: pod.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
            unreadable: false,
            expendable: false,
            sizes: None,
        }
    }

    /// The entry with the mark of a pod that is worth no node, if it is such a one. A pod that belongs to its node, and one of
    /// which nothing is known, are not.
    pub(in crate::cluster_state) fn marked_below(mut self, cutoff: ExpendableCutoff) -> Self {
        self.expendable = cutoff.covers(self.pod.priority) && !self.belongs_to_node() && !self.unreadable;
        self
    }

    /// The entry with its requests by container, if somebody creates it anew.
    pub(in crate::cluster_state) fn with_sizes(mut self, pod: &KubePod) -> Self {
        let spec = pod.spec.as_ref().filter(|_| self.controller.is_some());
        self.sizes = spec.and_then(|spec| ContainerSizes::from_spec(spec).ok()).map(Arc::new);
        self
    }

    /// Room that is held on a node, as a pod there: that of a capacity buffer is worth little to disruption, and no more than
    /// room; that of a booking stays where it is.
    pub(in crate::cluster_state) fn of_room(chunk: &Arc<Pod>, node_name: &str) -> Self {
        let entry = Self::from_pod(&KubePod::default(), Pod::clone(chunk));
        let (node_name, workload) = (node_name.to_owned(), format!("capacity-buffer/{}", chunk.namespace));
        let do_not_disrupt = if chunk.is_booked() { DoNotDisrupt::Always } else { DoNotDisrupt::No };
        Self {
            pod: chunk.clone(),
            node_name,
            workload,
            eviction_cost: COST_OF_ROOM,
            do_not_disrupt,
            provisionable: false,
            unmarked: false,
            ..entry
        }
    }

    /// A pod that cannot be read: its metadata, its node and its phase are taken from `pod`, and nothing else. It holds its
    /// node and its room, and is never packed.
    #[must_use]
    pub fn unreadable(pod: &KubePod) -> Self {
        let spec = k8s_openapi::api::core::v1::PodSpec {
            node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            termination_grace_period_seconds: pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds),
            ..Default::default()
        };
        let known = KubePod { metadata: pod.metadata.clone(), spec: Some(spec), status: pod.status.clone() };
        let scheduled = Pod::without_requests(&known);
        let entry = Self::from_pod(&known, scheduled);
        Self { provisionable: false, unmarked: false, unreadable: true, group: None, ..entry }
    }

    /// Reads a pod; one that cannot be read becomes [`PodEntry::unreadable`].
    #[must_use]
    pub fn as_it_is(pod: &KubePod) -> Self {
        Self::from_kube(pod).unwrap_or_else(|_| Self::unreadable(pod))
    }

    /// True if topology rules count it: scheduled, neither ended nor ending (core spec 3.7).
    #[must_use]
    pub fn counts_for_topology(&self) -> bool {
        !self.node_name.is_empty() && !self.terminal && !self.deleting
    }

    /// True if it has neither ended nor is ending.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.terminal && !self.deleting
    }

    /// True if it keeps no node: it belongs to it, or is expendable.
    #[must_use]
    pub fn keeps_no_node(&self) -> bool {
        self.belongs_to_node() || self.expendable
    }

    /// True if it comes again by itself on any node, so that it needs no place.
    #[must_use]
    pub fn belongs_to_node(&self) -> bool {
        self.daemon || self.mirror
    }

    /// True if it would have to be moved if its node went, and comes again elsewhere (core spec 5.2, "reschedulable"). An
    /// expendable pod is not: no place is made for it.
    #[must_use]
    pub fn reschedulable(&self) -> bool {
        !self.terminal && (!self.deleting || self.stateful) && !self.daemon && !self.mirror && !self.expendable
    }

    /// True if it waits for a node, marked by kube-scheduler or not; an expendable pod waits for room alone.
    #[must_use]
    pub fn waits_for_node(&self) -> bool {
        self.node_name.is_empty() && (self.provisionable || self.unmarked) && !self.expendable
    }

    #[must_use]
    pub fn takes_room(&self) -> bool {
        !self.node_name.is_empty() && !self.terminal
    }
}

/// Controllers that replace a pod of theirs on any node. A StatefulSet's pod comes back with its volumes, one of nobody never.
const RECREATING: [(&str, &str); 3] = [("apps/v1", "ReplicaSet"), ("batch/v1", "Job"), ("apps/v1", "DaemonSet")];

/// True if a deleted pod comes back elsewhere, or with its node: Karpenter 1.15 gives no deletion costs on nodes with others.
/// Pods of `kube-system` count as such.
fn returns_elsewhere(pod: &KubePod) -> bool {
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let of = |owner: &OwnerReference| RECREATING.contains(&(owner.api_version.as_str(), owner.kind.as_str()));
    owner.is_some_and(of) || pod.metadata.namespace.as_deref() == Some("kube-system") || owned_by(pod, "v1", "Node")
}

/// True if a pod waits for a node that does not exist (core spec 3.1): kube-scheduler found none, and no DaemonSet or kubelet
/// made it. If it is nominated to a node, the cluster state decides whether kube-scheduler is making room for it there.
#[must_use]
pub fn is_provisionable(pod: &KubePod) -> bool {
    let Some(status) = &pod.status else { return false };
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == SCHEDULED);
    scheduled.is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable")) && can_be_given_a_node(pod)
}

/// True if kube-scheduler has not said anything yet of a pod that only room keeps from a node, as far as one can tell
/// (docs/decisions/015). Pods that wait for another scheduler, a gate or a device are left to them, and so are pods that may
/// get their place by preemption.
#[must_use]
pub fn is_unmarked(pod: &KubePod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let preempts = spec.priority.unwrap_or(0) > 0 && spec.preemption_policy.as_deref() != Some("Never");
    conditions.iter().all(|condition| condition.type_ != SCHEDULED)
        && spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler")
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && spec.resource_claims.as_ref().is_none_or(Vec::is_empty)
        && !preempts
        && nominated(pod).is_none()
        && can_be_given_a_node(pod)
}

const SCHEDULED: &str = "PodScheduled";

/// True if a pod has no node, and only a scheduler can give it one.
fn can_be_given_a_node(pod: &KubePod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.is_none_or(str::is_empty)
        && pod.metadata.deletion_timestamp.is_none()
        && !is_terminal(pod)
        && !owned_by(pod, "apps/v1", "DaemonSet")
        && !owned_by(pod, "v1", "Node")
}

/// The node that a pod's status says it is nominated to.
fn nominated(pod: &KubePod) -> Option<&str> {
    let node = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    node.filter(|node| !node.is_empty())
}

/// The name in the annotation by which a pod takes the room of a request, by the earlier key only where the other is absent.
fn consumed_request(annotated: &BTreeMap<String, String>) -> Option<Arc<str>> {
    let written = annotated.get(provisioning::CONSUME).or_else(|| annotated.get(provisioning::CONSUME_EARLIER));
    written.filter(|name| !name.is_empty()).map(|name| Arc::from(name.as_str()))
}

fn grace(pod: &KubePod) -> Duration {
    let written = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    written.map_or(DEFAULT_GRACE, |seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

fn is_ready(pod: &KubePod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_terminal(pod: &KubePod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn owned_by(pod: &KubePod, api_version: &str, kind: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> KubePod {
        let mut pod = json!({
            "metadata": {"name": "a", "uid": "u"}, "spec": {"containers": []},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_pod_the_scheduler_found_no_node_for_is_provisionable() {
        assert!(is_provisionable(&pod(|_| ())));
    }

    #[test]
    fn gated_bound_daemon_mirror_ended_and_leaving_pods_are_not() {
        assert!(!is_provisionable(&pod(|pod| pod["status"]["conditions"][0]["reason"] = json!("SchedulingGated"))));
        assert!(!is_provisionable(&pod(|pod| pod["spec"]["nodeName"] = json!("n"))));
        assert!(is_provisionable(&pod(|pod| pod["status"]["nominatedNodeName"] = json!("n"))), "it may be ours");
        assert!(!is_provisionable(&pod(|pod| pod["status"]["phase"] = json!("Failed"))));
        assert!(!is_provisionable(&pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))));
        assert!(!is_provisionable(&pod(owner("apps/v1", "DaemonSet"))));
        assert!(!is_provisionable(&pod(owner("v1", "Node"))));
        assert!(is_provisionable(&pod(owner("apps/v1", "ReplicaSet"))));
    }

    fn owner(api: &'static str, kind: &'static str) -> impl FnOnce(&mut Value) {
        move |pod| {
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "o"}]);
        }
    }

    fn unmarked(change: impl FnOnce(&mut Value)) -> KubePod {
        pod(|pod| {
            pod["status"] = json!({"phase": "Pending"});
            change(pod);
        })
    }

    #[test]
    fn a_pod_that_the_scheduler_has_not_spoken_of_is_unmarked() {
        assert!(is_unmarked(&unmarked(|_| ())));
        assert!(is_unmarked(&unmarked(|pod| pod["spec"]["schedulerName"] = json!("default-scheduler"))));
        assert!(is_unmarked(&unmarked(owner("apps/v1", "ReplicaSet"))));
        assert!(!is_unmarked(&pod(|_| ())), "one that it has marked");
        let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        assert!(!is_unmarked(&unmarked(|pod| pod["status"]["conditions"] = gated)));
    }

    #[test]
    fn pod_that_waits_for_something_else_than_room_is_left_alone() {
        assert!(!is_unmarked(&unmarked(|pod| pod["spec"]["schedulingGates"] = json!([{"name": "quota"}]))));
        assert!(!is_unmarked(&unmarked(|pod| pod["spec"]["schedulerName"] = json!("volcano"))));
        assert!(!is_unmarked(&unmarked(|pod| pod["spec"]["resourceClaims"] = json!([{"name": "gpu"}]))));
        assert!(!is_unmarked(&unmarked(|pod| pod["spec"]["nodeName"] = json!("n"))));
        assert!(!is_unmarked(&unmarked(|pod| pod["status"]["nominatedNodeName"] = json!("n"))));
        assert!(!is_unmarked(&unmarked(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))));
        assert!(!is_unmarked(&unmarked(owner("apps/v1", "DaemonSet"))));
    }

    #[test]
    fn a_pod_that_may_preempt_others_is_left_to_the_scheduler() {
        assert!(!is_unmarked(&unmarked(|pod| pod["spec"]["priority"] = json!(1000))));
        assert!(is_unmarked(&unmarked(|pod| pod["spec"]["priority"] = json!(-10))));
        assert!(is_unmarked(&unmarked(|pod| {
            pod["spec"]["priority"] = json!(1000);
            pod["spec"]["preemptionPolicy"] = json!("Never");
        })));
    }

    fn asks(text: &str, started: Option<&str>) -> DoNotDisrupt {
        DoNotDisrupt::from_pod(&pod(|pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": text});
            pod["status"]["startTime"] = json!(started);
        }))
    }

    #[test]
    fn true_holds_a_pod_for_ever_and_a_duration_from_its_start() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let start = "2026-01-01T00:00:00Z";
        assert!(asks("true", None).holds(Timestamp::MAX));
        let hour = asks("1h", Some(start));
        assert!(hour.holds(at("2026-01-01T01:00:00.9Z")) && !hour.holds(at("2026-01-01T01:00:01Z")));
        assert!(asks("1s", None).holds(Timestamp::MAX), "nobody knows since when");
    }

    #[test]
    fn what_is_no_duration_holds_nothing_and_is_told_apart() {
        for text in ["yes", "-5m", "0s", "", "5", "1d"] {
            assert_eq!(asks(text, None), DoNotDisrupt::Invalid(text.into()), "{text:?}");
            assert!(!asks(text, None).holds(Timestamp::MIN), "{text:?}");
        }
        assert_eq!(asks("false", None), DoNotDisrupt::No);
    }
}
