//! Pods that wait on the console, those of one workload with one reason together.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_actors::replica::ReplicaView;
use dovetail_core::cluster_state::{NominationTarget, PodEntry};
use dovetail_core::resources::{CPU, MEMORY};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// Most groups that are shown; the total counts all pods.
const MOST_GROUPS: usize = 100;
/// Most pods of a group that are named.
const MOST_NAMED: usize = 8;
/// Most places of a group that are named.
const MOST_PLACES: usize = 3;

/// Reasons to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Wait {
    /// No pool has a place.
    Stuck,
    /// It is in no packing yet.
    New,
    /// A node is named.
    Expected,
}

/// Pods of a workload that wait for the same.
#[derive(Debug, Serialize)]
pub(super) struct WaitGroup {
    state: Wait,
    namespace: String,
    /// Name of the workload, or of the pod where it is one alone.
    owner: String,
    why: String,
    count: usize,
    /// The first of the pods by name.
    pods: Vec<String>,
    /// Creation of the oldest, in seconds since 1970.
    since: Option<i64>,
    /// Requests of all together, in millicores and bytes.
    cpu: i64,
    memory: i64,
    #[serde(skip)]
    places: BTreeSet<String>,
}

/// The pods that wait, those that no pool has a place for first, and their number.
pub(super) fn waiting(view: &ReplicaView, actors: &Value) -> (Vec<WaitGroup>, usize) {
    let mut groups: BTreeMap<(Wait, String, String, String), WaitGroup> = BTreeMap::new();
    let mut total = 0;
    for pod in view.snapshot.unbound().filter(|pod| pod.provisionable) {
        total += 1;
        let (state, why, place) = reason(view, actors, pod);
        // A reason that names a pod's own place is the same reason for its siblings.
        let key = (state, pod.pod.namespace.clone(), controller(pod).unwrap_or(&pod.workload).to_owned(), why.clone());
        let group = groups.entry(key).or_insert_with(|| WaitGroup {
            state,
            namespace: pod.pod.namespace.clone(),
            owner: owner(pod),
            why,
            count: 0,
            pods: vec![],
            since: None,
            cpu: 0,
            memory: 0,
            places: BTreeSet::new(),
        });
        group.add(pod, place);
    }
    let mut all: Vec<WaitGroup> = groups.into_values().map(WaitGroup::named).collect();
    all.sort_by(|one, other| one.state.cmp(&other.state).then(other.count.cmp(&one.count)));
    all.truncate(MOST_GROUPS);
    (all, total)
}

impl WaitGroup {
    fn add(&mut self, pod: &PodEntry, place: Option<String>) {
        self.count += 1;
        let at = self.pods.partition_point(|one| *one < pod.pod.name);
        if at < MOST_NAMED {
            self.pods.insert(at, pod.pod.name.clone());
            self.pods.truncate(MOST_NAMED);
        }
        let created = pod.pod.created.map(Timestamp::as_second);
        self.since = self.since.into_iter().chain(created).min();
        self.cpu = self.cpu.saturating_add(pod.pod.requests.get(CPU));
        self.memory = self.memory.saturating_add(pod.pod.requests.get(MEMORY));
        self.places.extend(place);
        if controller(pod).is_none() && self.count > 1 {
            self.owner = common(&self.owner, &pod.pod.name);
        }
    }

    /// The group with its places in its reason.
    fn named(mut self) -> Self {
        let named: Vec<&str> = self.places.iter().take(MOST_PLACES).map(String::as_str).collect();
        if !named.is_empty() {
            self.why = format!("{} {}", self.why, named.join(", "));
            let more = self.places.len().saturating_sub(MOST_PLACES);
            if more > 0 {
                self.why = format!("{} and {more} more", self.why);
            }
        }
        self
    }
}

/// The reason of a pod, and the place that it names.
fn reason(view: &ReplicaView, actors: &Value, pod: &PodEntry) -> (Wait, String, Option<String>) {
    if let Some(why) = actors["packer"]["leftOver"][&pod.pod.uid].as_str() {
        return (Wait::Stuck, why.to_owned(), None);
    }
    match view.snapshot.expected_on(&pod.pod.uid, view.now) {
        Some(NominationTarget::Claim(name)) => (Wait::Expected, "expected on nodeclaim".to_owned(), Some(name.clone())),
        Some(NominationTarget::Node(name)) => (Wait::Expected, "expected on node".to_owned(), Some(name.clone())),
        None => (Wait::New, "waits for its batch".to_owned(), None),
    }
}

fn controller(pod: &PodEntry) -> Option<&str> {
    pod.controller.as_deref()
}

/// The name that people gave: of a ReplicaSet, the Deployment's.
fn owner(pod: &PodEntry) -> String {
    let Some(name) = controller(pod).and_then(|key| key.rsplit('/').next()) else { return pod.pod.name.clone() };
    let hash = pod.pod.labels.get("pod-template-hash").map(|hash| format!("-{hash}"));
    hash.and_then(|hash| name.strip_suffix(&hash)).unwrap_or(name).to_owned()
}

/// The beginning that two names have in common, with a mark that there is more.
fn common(one: &str, other: &str) -> String {
    let shared = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    let shared: String = shared.map(|(one, _)| one).collect();
    format!("{}…", shared.trim_end_matches('…'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use dovetail_core::cluster_state::{ClusterState, Moment};
    use serde_json::json;

    use super::*;

    /// A pod that kube-scheduler finds no node for.
    fn put(state: &mut ClusterState, name: &str, owner: Option<&str>, hash: &str) {
        let owners = owner.map(|owner| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]));
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"pod-template-hash": hash},
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owners},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap();
    }

    #[test]
    fn pods_of_a_workload_with_one_reason_are_one_line() {
        let mut state = ClusterState::default();
        (0..30).for_each(|n| put(&mut state, &format!("web-7f-{n:02}"), Some("web-7f"), "7f"));
        put(&mut state, "alone", None, "");
        let mut left_over: serde_json::Map<String, Value> =
            (0..20).map(|n| (format!("web-7f-{n:02}"), "too large".into())).collect();
        left_over.insert("alone".to_owned(), "<b>no pool</b>".into());
        let now = Moment { monotonic: Duration::from_secs(1000), ..Moment::default() };
        let view =
            ReplicaView { snapshot: state.snapshot(), types: BTreeMap::new(), commitments: Default::default(), now };
        let (groups, total) = waiting(&view, &json!({"packer": {"leftOver": left_over}}));
        assert_eq!(total, 31);
        let told: Vec<_> =
            groups.iter().map(|one| (one.owner.as_str(), one.count, one.why.as_str(), one.state)).collect();
        let expected = [
            ("web", 20, "too large", Wait::Stuck),
            ("alone", 1, "<b>no pool</b>", Wait::Stuck),
            ("web", 10, "waits for its batch", Wait::New),
        ];
        assert_eq!(told, expected);
        assert_eq!((groups[0].pods.len(), groups[0].cpu), (MOST_NAMED, 10_000));
        assert_eq!(groups[0].since, Some(1_767_225_600));
    }

    #[test]
    fn pods_without_controller_are_named_by_what_they_share() {
        assert_eq!(common("batch-1-x", "batch-1-y"), "batch-1-…");
        assert_eq!(common("batch-1-…", "batch-2"), "batch-…");
    }
}
