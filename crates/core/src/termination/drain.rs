//! The drain of a node: pods that leave it now, pods that are waited for, and their order (core spec 5.9).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::taints::{disrupted, disruption};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;

use crate::cluster_state::{PodEntry, Snapshot};
use crate::pod::Pod;

/// Time after its due end for which a pod that is still there is waited for.
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The order of eviction: a later group stays until the earlier ones are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainGroup {
    /// Pods that are no DaemonSet's and of no system priority class.
    Plain,
    /// DaemonSets' pods of no system priority class.
    Daemon,
    /// Pods of a system priority class.
    Critical,
    /// DaemonSets' pods of a system priority class.
    CriticalDaemon,
}

impl DrainGroup {
    #[must_use]
    pub fn from_pod(pod: &PodEntry) -> Self {
        match (pod.drain.critical, pod.daemon) {
            (false, false) => Self::Plain,
            (false, true) => Self::Daemon,
            (true, false) => Self::Critical,
            (true, true) => Self::CriticalDaemon,
        }
    }
}

/// The division of a node's pods. All lists in the order of namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drain {
    pub evict: Vec<Arc<PodEntry>>,
    /// Pods to delete whatever protects them, with this many seconds to end: the node's time is up.
    pub delete: Vec<(Arc<PodEntry>, u32)>,
    /// All pods that are waited for, those above among them.
    pub waiting: Vec<Arc<PodEntry>>,
    /// Pods that stay until the node is removed; the drain does not wait for them.
    pub staying: Vec<Arc<PodEntry>>,
}

impl Drain {
    /// Sorts the pods that take longest to end first: on a node that ends, others have the time to wait.
    pub fn slow_first(&mut self) {
        self.evict.sort_by_key(|pod| Reverse(pod.grace));
    }
}

/// Pods that have come to a node since its deletion began, as they tolerate its taint. Evicting them would bring the next ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latecomers {
    /// Uids of those that nothing protects: they end with the node, and the drain does not wait for them.
    pub staying: BTreeSet<String>,
    /// Uids of those that a budget or their own annotation protects: the drain waits until that ends, and evicts none.
    pub kept: BTreeSet<String>,
}

impl Latecomers {
    /// Latecomers among the pods on a node that is being deleted since then, by the cluster's budgets now.
    #[must_use]
    pub fn on<'a>(
        pods: impl IntoIterator<Item = &'a Arc<PodEntry>>,
        since: Timestamp,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Self {
        Self::tolerating(&leaving(), pods, since, snapshot, now)
    }

    /// The same for a node that pods are told to leave by other taints.
    #[must_use]
    pub fn tolerating<'a>(
        taints: &[Taint],
        pods: impl IntoIterator<Item = &'a Arc<PodEntry>>,
        since: Timestamp,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Self {
        let mut late = Self::default();
        for pod in pods.into_iter().filter(|pod| comes_late(pod, since, taints)) {
            let refuses = || pod.ready && snapshot.budgets_of(&pod.pod).any(|budget| budget.refuses_now(true));
            let kept = pod.do_not_disrupt.holds(now) || refuses();
            let uids = if kept { &mut late.kept } else { &mut late.staying };
            uids.insert(pod.pod.uid.clone());
        }
        late
    }

    /// Latecomers if budgets are not known: nothing protects any.
    #[must_use]
    pub fn unkept<'a>(pods: impl IntoIterator<Item = &'a Arc<PodEntry>>, since: Timestamp) -> Self {
        let taints = leaving();
        let late = pods.into_iter().filter(|pod| comes_late(pod, since, &taints));
        Self { staying: late.map(|pod| pod.pod.uid.clone()).collect(), kept: BTreeSet::new() }
    }
}

/// True if a pod was made after its node's deletion began, and is there because it tolerates that. The API dates both in
/// whole seconds: the successor of a pod that is evicted at once is of the same second.
fn comes_late(pod: &PodEntry, since: Timestamp, taints: &[Taint]) -> bool {
    pod.pod.created.is_some_and(|created| created >= since) && !pod.deleting && tolerates_any(&pod.pod, taints)
}

/// The drain of a node with these pods; `deadline` is the end of the node's own grace.
#[must_use]
pub fn drain(
    pods: impl IntoIterator<Item = Arc<PodEntry>>,
    late: &Latecomers,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Drain {
    let mut there: Vec<_> = pods.into_iter().filter(|pod| !pod.terminal).collect();
    there.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
    let (waiting, staying): (Vec<_>, Vec<_>) = there.into_iter().partition(|pod| is_waited_for(pod, late, now));
    let first = waiting.iter().map(|pod| DrainGroup::from_pod(pod)).min();
    let mut drain = Drain { staying, ..Drain::default() };
    for pod in &waiting {
        if let Some(grace) = deadline.and_then(|deadline| forced(pod, deadline, now)) {
            drain.delete.push((pod.clone(), grace));
        } else if Some(DrainGroup::from_pod(pod)) == first
            && !pod.deleting
            && !pod.do_not_disrupt.holds(now)
            && !late.kept.contains(&pod.pod.uid)
        {
            drain.evict.push(pod.clone());
        }
    }
    drain.waiting = waiting;
    drain
}

/// True if the node stays for the pod.
#[must_use]
pub fn is_waited_for(pod: &PodEntry, late: &Latecomers, now: Timestamp) -> bool {
    let stuck = pod.drain.deletion.is_some_and(|due| now.duration_since(due) > STUCK_AFTER);
    !stuck && !ends_with_its_node(pod) && !late.staying.contains(&pod.pod.uid)
}

/// True if a pod is its node's own and is never evicted: a static pod's mirror, and if it tolerates the taint of nodes that
/// go, a DaemonSet's pod or one that asks for this very node. Any other that tolerates the taint is drained: its budget and
/// its workload know nothing of tolerations.
#[must_use]
pub fn ends_with_its_node(pod: &PodEntry) -> bool {
    pod.mirror || ((pod.daemon || names_its_node(&pod.pod)) && tolerates_leaving(&pod.pod))
}

fn tolerates_leaving(pod: &Pod) -> bool {
    tolerates_any(pod, &leaving())
}

fn tolerates_any(pod: &Pod, taints: &[Taint]) -> bool {
    !pod.tolerations.is_empty() && taints.iter().any(|taint| pod.tolerates(taint))
}

/// Taints of nodes that go.
fn leaving() -> [Taint; 2] {
    [disrupted(), disruption()]
}

/// True if a pod can be on no node but one of that name, such as pods that other kinds of DaemonSets make.
fn names_its_node(pod: &Pod) -> bool {
    let nodes = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = nodes.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(terms) = required.map(|required| &required.node_selector_terms).filter(|terms| !terms.is_empty()) else {
        return false;
    };
    let by_name = |field: &k8s_openapi::api::core::v1::NodeSelectorRequirement| {
        field.key == "metadata.name" && field.operator == "In"
    };
    terms.iter().all(|term| term.match_fields.iter().flatten().any(by_name))
}

/// Seconds that a pod gets whose time is up: the node has less time left than the pod's own grace.
fn forced(pod: &PodEntry, deadline: Timestamp, now: Timestamp) -> Option<u32> {
    let grace = SignedDuration::try_from(pod.grace).unwrap_or(SignedDuration::MAX);
    let left = deadline.duration_since(now);
    // A pod that is ending already is hurried only if it would outlive the node.
    let due = match pod.drain.deletion {
        Some(gone_by) => gone_by > deadline,
        None => left < grace,
    };
    due.then(|| u32::try_from(left.as_secs().max(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::{Value, json};

    use super::*;

    fn drain(pods: impl IntoIterator<Item = Arc<PodEntry>>, deadline: Option<Timestamp>, now: Timestamp) -> Drain {
        super::drain(pods, &Latecomers::default(), deadline, now)
    }

    fn at(seconds: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Arc<PodEntry> {
        let mut pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {}},
            "spec": {"containers": [], "nodeName": "n"}, "status": {"phase": "Running"}});
        change(&mut pod);
        Arc::new(PodEntry::from_kube(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    fn plain(name: &str) -> Arc<PodEntry> {
        pod(name, |_| ())
    }

    fn daemon(pod: &mut Value) {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "o", "controller": true}]);
    }

    fn critical(pod: &mut Value) {
        pod["spec"]["priorityClassName"] = json!("system-cluster-critical");
    }

    fn stubborn(pod: &mut Value) {
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    }

    fn going(since: i64) -> impl FnOnce(&mut Value) {
        move |pod| pod["metadata"]["deletionTimestamp"] = json!(at(since).to_string())
    }

    fn names<'a>(pods: impl IntoIterator<Item = &'a Arc<PodEntry>>) -> Vec<&'a str> {
        pods.into_iter().map(|pod| pod.pod.name.as_str()).collect()
    }

    #[test]
    fn a_group_goes_when_the_one_before_it_is_gone() {
        let all = [
            pod("d", |pod| (daemon(pod), critical(pod)).0),
            pod("c", critical),
            pod("b", daemon),
            plain("a2"),
            plain("a1"),
        ];
        let mut left = all.to_vec();
        for group in [&["a1", "a2"][..], &["b"], &["c"], &["d"]] {
            let drain = drain(left.clone(), None, at(0));
            assert_eq!(names(&drain.evict), group);
            assert_eq!(drain.waiting.len(), left.len());
            left.retain(|pod| !group.contains(&pod.pod.name.as_str()));
        }
    }

    #[test]
    fn do_not_disrupt_pod_is_waited_for_and_not_evicted() {
        let all = drain([pod("stays", stubborn), plain("goes"), pod("later", critical)], None, at(0));
        assert_eq!((names(&all.evict), all.waiting.len()), (vec!["goes"], 3));
        let left = drain([pod("stays", stubborn), pod("later", critical)], None, at(0));
        assert!(left.evict.is_empty(), "the group is not gone");
    }

    #[test]
    fn slow_pods_go_first_from_a_node_that_ends_and_equals_by_name() {
        let slow = |pod: &mut Value| pod["spec"]["terminationGracePeriodSeconds"] = json!(90);
        let mut drain = drain([plain("b"), pod("c", slow), plain("a")], None, at(0));
        drain.slow_first();
        assert_eq!(names(&drain.evict), ["c", "a", "b"]);
    }

    #[test]
    fn drain_ignores_mirror_tolerant_daemon_ended_and_stuck_pods() {
        let exists = |pod: &mut Value| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        let pods = [
            pod("mirror", |pod| {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true}]);
            }),
            pod("tolerant", |pod| (daemon(pod), exists(pod)).0),
            pod("v1beta1", |pod| {
                daemon(pod);
                pod["spec"]["tolerations"] = json!([{"key": "karpenter.sh/disruption", "operator": "Exists"}]);
            }),
            pod("pinned", |pod| {
                exists(pod);
                let own = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
                pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
                    own;
            }),
            pod("ended", |pod| pod["status"]["phase"] = json!("Succeeded")),
            pod("stuck", going(0)),
        ];
        assert_eq!(names(&drain(pods.clone(), None, at(60)).waiting), ["stuck"]);
        let drain = drain(pods, None, at(61));
        assert!(drain.waiting.is_empty() && drain.evict.is_empty());
        assert_eq!(names(&drain.staying), ["mirror", "pinned", "stuck", "tolerant", "v1beta1"]);
    }

    #[test]
    fn pod_that_tolerates_all_is_drained_unless_it_came_late() {
        let exists = |pod: &mut Value| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        let made = |seconds| {
            move |pod: &mut Value| {
                exists(pod);
                pod["metadata"]["creationTimestamp"] = json!(at(seconds).to_string());
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            }
        };
        let pods = [pod("before", made(-60)), pod("same", made(0)), pod("late", made(1)), plain("plain")];
        let drained = |late: &Latecomers| {
            let drain = super::drain(pods.clone(), late, None, at(5));
            let all = [&drain.evict, &drain.waiting, &drain.staying].map(|all| names(all).join(" "));
            all.join(" | ")
        };
        let nothing = Snapshot::default();
        assert_eq!(drained(&Latecomers::default()), "before late plain same | before late plain same | ");
        assert_eq!(drained(&Latecomers::on(&pods, at(0), &nothing, at(5))), "before plain | before plain | late same");
        let budget = json!({"metadata": {"name": "all", "namespace": "default"}, "spec": {"selector": {}, "minAvailable": 4},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 4, "expectedPods": 4}});
        let budget = crate::cluster_state::BudgetEntry::new(serde_json::from_value(budget).unwrap());
        let kept = Snapshot { budgets: Arc::new([("default/all".to_owned(), Arc::new(budget))].into()), ..nothing };
        let late = Latecomers::on(&pods, at(0), &kept, at(5));
        assert_eq!(drained(&late), "before plain | before late plain same | ", "they are waited for and not chased");
    }

    #[test]
    fn a_pod_is_deleted_in_time_for_its_own_grace_whatever_it_says() {
        let slow = |pod: &mut Value| {
            stubborn(pod);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
        };
        let pods = [pod("slow", slow), pod("quick", stubborn), pod("critical", critical)];
        let deadline = Some(at(600));
        assert!(drain(pods.clone(), deadline, at(540)).delete.is_empty());
        let first = drain(pods.clone(), deadline, at(541));
        assert_eq!((names(first.delete.iter().map(|(pod, _)| pod)), first.delete[0].1), (vec!["slow"], 59));
        let all = drain(pods.clone(), deadline, at(571));
        assert_eq!(names(all.delete.iter().map(|(pod, _)| pod)), ["critical", "quick", "slow"], "all groups at once");
        assert_eq!(drain(pods, deadline, at(700)).delete[0].1, 1);
    }

    #[test]
    fn terminating_pod_is_hurried_only_if_it_would_outlive_node() {
        let pods = [pod("in-time", going(590)), pod("late", going(3600))];
        let drain = drain(pods, Some(at(600)), at(580));
        assert_eq!(names(drain.delete.iter().map(|(pod, _)| pod)), ["late"]);
        assert!(drain.evict.is_empty(), "what goes is not evicted");
    }
}
