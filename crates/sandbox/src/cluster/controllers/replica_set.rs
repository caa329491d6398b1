//! ReplicaSets: as many pods as asked for, and the least missed go first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::template::{count, deleting, pod, replicas, to_i64, write_status};
use crate::cluster::cache::{Key, controller_uid};
use crate::cluster::context::Context;
use crate::cluster::kind::Kind;
use crate::cluster::pod::PodView;
use crate::cluster::work::Work;

/// Pods made or deleted in one go (`BurstReplicas` of kube-controller-manager).
const BURST: usize = 500;

/// Makes or deletes pods; when there is nothing to make or delete, writes the status.
pub(crate) fn sync(ctx: &mut Context, key: &Key) {
    let Some(set) = ctx.cache.get(Kind::ReplicaSet, key).cloned() else { return };
    if deleting(&set) {
        return;
    }
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let pods: Vec<Rc<PodView>> = ctx.cache.pods_of(uid).into_iter().filter(|p| p.active()).collect();
    let missing = replicas(&set) - to_i64(pods.len());
    if missing > 0 {
        create(ctx, key, &set, usize::try_from(missing).unwrap_or(0));
    } else if missing < 0 {
        delete(ctx, &set, pods, usize::try_from(-missing).unwrap_or(0));
    } else {
        return report(ctx, key, &set, &pods);
    }
    if missing.unsigned_abs() > BURST as u64 {
        ctx.queue.push(Work::Sync(Kind::ReplicaSet, key.clone()));
    }
}

fn create(ctx: &mut Context, key: &Key, set: &Value, missing: usize) {
    let mut pod = pod(Kind::ReplicaSet, set);
    pod["metadata"]["generateName"] = json!(format!("{}-", key.name));
    for _ in 0..missing.min(BURST) {
        if ctx.kube.create(Kind::Pod, pod.clone()).is_err() {
            // A quota, a policy or a namespace that goes: tried again after a while.
            ctx.queue.push_after(std::time::Duration::from_secs(1), Work::Sync(Kind::ReplicaSet, key.clone()));
            break;
        }
    }
}

fn delete(ctx: &mut Context, set: &Value, mut pods: Vec<Rc<PodView>>, surplus: usize) {
    let neighbours = neighbours(ctx, set);
    let now = ctx.wall();
    let crowd = |pod: &PodView| pod.node.as_ref().and_then(|n| neighbours.get(n)).copied().unwrap_or(0);
    pods.sort_by(|a, b| precedence(a, b, crowd(a), crowd(b), now));
    for pod in pods.iter().take(surplus.min(BURST)) {
        ctx.kube.delete(Kind::Pod, &pod.key, None);
    }
}

/// How many pods of the same controller's ReplicaSets each node has: co-located ones go first.
fn neighbours(ctx: &Context, set: &Value) -> BTreeMap<String, usize> {
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
/// with more of the same, ready for a shorter time, younger. Times are compared by their order of magnitude.
fn precedence(a: &PodView, b: &PodView, crowd_a: usize, crowd_b: usize, now: Timestamp) -> Ordering {
    a.node
        .is_some()
        .cmp(&b.node.is_some())
        .then(a.phase.cmp(&b.phase))
        .then(a.ready.cmp(&b.ready))
        .then(a.deletion_cost.cmp(&b.deletion_cost))
        .then(crowd_b.cmp(&crowd_a))
        .then_with(|| younger(a.ready_since, b.ready_since, a, b, now))
        .then_with(|| younger(a.created, b.created, a, b, now))
        .then_with(|| a.uid.cmp(&b.uid))
}

fn younger(at: Option<Timestamp>, bt: Option<Timestamp>, a: &PodView, b: &PodView, now: Timestamp) -> Ordering {
    let (Some(at), Some(bt)) = (at, bt) else { return Ordering::Equal };
    if at == bt {
        return Ordering::Equal;
    }
    let magnitude = |t: Timestamp| (now.as_second() - t.as_second()).max(1).ilog2();
    magnitude(at).cmp(&magnitude(bt)).then_with(|| a.uid.cmp(&b.uid))
}

fn report(ctx: &mut Context, key: &Key, set: &Value, pods: &[Rc<PodView>]) {
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
        match precedence(&a, &b, crowds.0, crowds.1, NOW) {
            Ordering::Greater => b.uid,
            _ => a.uid,
        }
    }

    #[test]
    fn the_unassigned_go_before_the_pending_and_those_before_the_unready() {
        let unassigned = PodView { node: None, phase: Phase::Pending, ready: false, deletion_cost: 100, ..pod("x") };
        let pending = PodView { phase: Phase::Pending, ready: false, deletion_cost: 0, ..pod("a") };
        let unready = PodView { ready: false, ..pod("u") };
        assert_eq!(first(pending.clone(), unassigned), "x");
        assert_eq!(first(unready.clone(), pending), "a");
        assert_eq!(first(pod("a"), unready), "u");
    }

    #[test]
    fn a_lower_deletion_cost_goes_first_then_the_crowded_node_then_the_younger() {
        let cheap = PodView { deletion_cost: -1, ..pod("z") };
        assert_eq!(first_of(pod("a"), cheap, (9, 0)), "z");
        assert_eq!(first_of(pod("a"), pod("b"), (1, 2)), "b");
        let young = PodView { ready_since: Some(Timestamp::constant(999_990, 0)), ..pod("z") };
        assert_eq!(first(pod("a"), young), "z");
    }
}
