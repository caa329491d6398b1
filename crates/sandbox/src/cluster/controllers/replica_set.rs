//! ReplicaSets: as many pods as asked for, and the least missed go first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::recommended;
use super::template::{count, deleting, pod, replicas, to_i64, write_status};
use crate::cluster::cache::{Key, controller_uid};
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::PodView;
use crate::cluster::work::Work;

/// Pods made or deleted in one go (`BurstReplicas` of kube-controller-manager).
const BURST: usize = 500;

/// Makes or deletes pods; when there is nothing to make or delete, writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(set) = ctx.cache.get(Kind::ReplicaSet, key).cloned() else { return };
    if deleting(&set) {
        return;
    }
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let pods: Vec<Rc<PodView>> = ctx.cache.pods_of(uid).into_iter().filter(|p| p.active()).collect();
    let missing = replicas(&set) - to_i64(pods.len());
    if missing > 0 {
        if !create(ctx, key, &set, usize::try_from(missing).unwrap_or(0)) {
            return;
        }
    } else if missing < 0 {
        delete(ctx, &set, pods, usize::try_from(-missing).unwrap_or(0));
    } else {
        return report(ctx, key, &set, &pods);
    }
    if missing.unsigned_abs() > BURST as u64 {
        ctx.queue.push(Work::Sync(Kind::ReplicaSet, key.clone()));
    }
}

/// Answers whether none was refused. Who is refused is tried again after a while: where that is a quota's doing, for ever.
fn create(ctx: &mut ClusterContext, key: &Key, set: &Value, missing: usize) -> bool {
    let mut pod = pod(Kind::ReplicaSet, set);
    pod["metadata"]["generateName"] = json!(format!("{}-", key.name));
    recommended::admit(ctx, Kind::ReplicaSet, set, &mut pod);
    for _ in 0..missing.min(BURST) {
        if ctx.kube.create(Kind::Pod, pod.clone()).is_err() {
            // A quota, a policy or a namespace that goes: tried again after a while.
            ctx.queue.push_after(std::time::Duration::from_secs(1), Work::Sync(Kind::ReplicaSet, key.clone()));
            return false;
        }
    }
    true
}

fn delete(ctx: &mut ClusterContext, set: &Value, mut pods: Vec<Rc<PodView>>, surplus: usize) {
    let neighbours = neighbours(ctx, set);
    let now = ctx.wall();
    let crowd = |pod: &PodView| pod.node.as_ref().and_then(|n| neighbours.get(n)).copied().unwrap_or(0);
    pods.sort_by_cached_key(|pod| precedence(pod, crowd(pod), now));
    for pod in pods.iter().take(surplus.min(BURST)) {
        ctx.kube.delete(Kind::Pod, &pod.key, None);
    }
}

/// Number of pods of the same controller's ReplicaSets on each node: co-located ones go first.
fn neighbours(ctx: &ClusterContext, set: &Value) -> BTreeMap<String, usize> {
    let own = set["metadata"]["uid"].as_str().unwrap_or_default();
    let sets: Vec<String> = match controller_uid(set) {
        Some(owner) => {
            let sets = ctx.cache.owned_by(owner).filter(|(kind, _)| *kind == Kind::ReplicaSet);
            let uid = |k: &Key| {
                ctx.cache.get(Kind::ReplicaSet, k).and_then(|s| s["metadata"]["uid"].as_str()).map(str::to_owned)
            };
            sets.filter_map(|(_, key)| uid(key)).collect()
        }
        None => vec![own.to_owned()],
    };
    let mut by_node = BTreeMap::new();
    for pod in sets.iter().flat_map(|uid| ctx.cache.pods_of(uid)).filter(|p| p.active()) {
        if let Some(node) = &pod.node {
            *by_node.entry(node.clone()).or_insert(0) += 1;
        }
    }
    by_node
}

/// Kubernetes' order of deletion (`ActivePodsWithRanks`): unassigned, pending, not ready, cheaper to delete, on a node
/// with more of the same, ready for a shorter time, younger. Times are compared by their order of magnitude; those of one
/// magnitude go by uid. Kubernetes has pods that are ready since the same second go by their age: its order is none of three.
fn precedence(pod: &PodView, crowd: usize, now: Timestamp) -> impl Ord + use<> {
    let magnitude = |at: Timestamp| u128::try_from(now.as_nanosecond() - at.as_nanosecond()).ok()?.checked_ilog2();
    let ready_for = pod.ready_since.filter(|_| pod.ready).map(magnitude);
    let lived = pod.created.filter(|_| !pod.ready).map(magnitude);
    (pod.node.is_some(), pod.phase, pod.ready, pod.deletion_cost, Reverse(crowd), ready_for, lived, pod.uid.clone())
}

fn report(ctx: &mut ClusterContext, key: &Key, set: &Value, pods: &[Rc<PodView>]) {
    let counts = count(ctx, Kind::ReplicaSet, key, set, pods);
    let fields = [
        ("replicas", json!(counts.all)),
        ("fullyLabeledReplicas", json!(counts.all)),
        ("readyReplicas", json!(counts.ready)),
        ("availableReplicas", json!(counts.available)),
        ("observedGeneration", set["metadata"]["generation"].clone()),
    ];
    write_status(ctx, Kind::ReplicaSet, key, &fields);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cluster::pod::Phase;

    const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

    fn pod(name: &str) -> PodView {
        PodView {
            key: Key::new("default", name),
            uid: name.into(),
            node: Some("node".into()),
            phase: Phase::Running,
            ready: true,
            ready_since: Some(Timestamp::constant(900_000, 0)),
            terminating: false,
            created: Some(Timestamp::constant(900_000, 0)),
            owner: None,
            deletion_cost: 0,
        }
    }

    fn first(a: PodView, b: PodView) -> String {
        first_of(a, b, (0, 0))
    }

    fn first_of(a: PodView, b: PodView, crowds: (usize, usize)) -> String {
        if precedence(&a, crowds.0, NOW) <= precedence(&b, crowds.1, NOW) { a.uid } else { b.uid }
    }

    #[test]
    fn pods_that_are_alike_two_and_two_have_one_order() {
        // By Kubernetes' pairs c goes before a by its age, a before b and b before c by uid.
        let of = |name: &str, ready: i64, created: i64| PodView {
            ready_since: Some(Timestamp::constant(ready, 0)),
            created: Some(Timestamp::constant(created, 0)),
            ..pod(name)
        };
        let [a, b, c] = [of("a", 999_000, 100_000), of("b", 999_001, 100_000), of("c", 999_000, 998_000)];
        let before = |one: &PodView, other: &PodView| precedence(one, 0, NOW) < precedence(other, 0, NOW);
        assert!(before(&a, &b) && before(&b, &c) && before(&a, &c));
    }

    #[test]
    fn scale_down_takes_unassigned_then_pending_then_unready_pods() {
        let unassigned = PodView { node: None, phase: Phase::Pending, ready: false, deletion_cost: 100, ..pod("x") };
        let pending = PodView { phase: Phase::Pending, ready: false, deletion_cost: 0, ..pod("a") };
        let unready = PodView { ready: false, ..pod("u") };
        assert_eq!(first(pending.clone(), unassigned), "x");
        assert_eq!(first(unready.clone(), pending), "a");
        assert_eq!(first(pod("a"), unready), "u");
    }

    #[test]
    fn scale_down_goes_by_deletion_cost_crowded_node_and_youth() {
        let cheap = PodView { deletion_cost: -1, ..pod("z") };
        assert_eq!(first_of(pod("a"), cheap, (9, 0)), "z");
        assert_eq!(first_of(pod("a"), pod("b"), (1, 2)), "b");
        let young = PodView { ready_since: Some(Timestamp::constant(999_990, 0)), ..pod("z") };
        assert_eq!(first(pod("a"), young), "z");
    }
}
