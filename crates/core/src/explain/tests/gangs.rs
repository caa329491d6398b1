//! Pods of PodGroups: the answer names the gang, and what it waits for.

use super::*;
use crate::pod_groups::PodGroupApi;

/// Pods that each need a node of their own, of a gang of that many.
fn world(pods: usize, min_count: usize) -> (World, Vec<KubePod>) {
    let mut world = World::with_pool(|pool| pool["spec"]["limits"] = json!({"nodes": "3"}));
    let all = (0..pods).map(|at| {
        world.pending(&format!("train-{at}"), |pod| {
            pod["metadata"]["annotations"] = json!({"dovetail.dev/pod-group": "train"});
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
        })
    });
    let all = all.collect();
    world.state.pod_groups_mut().follow(PodGroupApi::Native, true);
    world.state.pod_groups_mut().insert(PodGroupApi::Native, "default/train", Ok(Some(min_count)));
    (world, all)
}

#[test]
fn pod_of_a_gang_is_explained_with_its_gang() {
    let (small, pods) = world(3, 3);
    let answer = small.of_pod(&pods[1]);
    assert!(matches!(answer.verdict, PodVerdict::Placed { .. }), "{answer:#?}");
    assert!(answer.sentence.ends_with("; it is in PodGroup default/train, whose pods get nodes together"));
    let (large, pods) = world(4, 4);
    let answer = large.of_pod(&pods[3]);
    assert_eq!(answer.verdict, PodVerdict::Unschedulable);
    assert!(
        answer.sentence.starts_with("PodGroup default/train: 3 of 4 members have a place: "),
        "{}",
        answer.sentence
    );
    let (few, pods) = world(2, 3);
    let why = "PodGroup default/train waits for members: 2 of minCount 3 exist";
    assert_eq!(few.of_pod(&pods[0]).sentence, why);
}

/// kube-scheduler says nothing of a pod that it holds for its gang.
#[test]
fn pod_that_its_scheduler_holds_is_explained_with_its_gang() {
    let (mut few, _) = world(1, 3);
    let held = few.pending("held", |pod| {
        pod["metadata"]["annotations"] = json!({"dovetail.dev/pod-group": "train"});
        pod["spec"]["priority"] = json!(100);
        pod["status"] = json!({"phase": "Pending"});
    });
    let answer = few.of_pod(&held);
    assert_eq!(answer.sentence, "PodGroup default/train waits for members: 2 of minCount 3 exist");
}
