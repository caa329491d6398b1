//! Pods of PodGroups in the known state: which are planned, who counts as there, and how long their places are kept.

use super::*;
use crate::pack::{Options, solve};
use crate::pod_groups::PodGroupApi;

/// A pod of the group `train`; one that kube-scheduler has not marked if it is held.
fn member(name: &str, node: &str, is_marked: bool) -> KubePod {
    let mut pod = serde_json::to_value(kube_pod(name, node, "1500m")).unwrap();
    pod["metadata"]["annotations"] = json!({"dovetail.dev/pod-group": "train"});
    if !is_marked {
        pod["status"] = json!({"phase": "Pending"});
    }
    serde_json::from_value(pod).unwrap()
}

/// A state with such members that wait, and a group that needs that many.
fn waiting(members: usize, min_count: usize) -> ClusterState {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    for at in 0..members {
        state.apply_pod(&member(&format!("m{at}"), "", true)).unwrap();
    }
    let groups = state.pod_groups_mut();
    groups.follow(PodGroupApi::Native, true);
    groups.insert(PodGroupApi::Native, "default/train", Ok(Some(min_count)));
    state
}

fn whole(now: u64) -> PlanningInput {
    PlanningInput { whole_gangs: true, ..input(now) }
}

/// Reasons for which pods are blocked, each once.
fn blocked(planning: &Planning) -> Vec<String> {
    let mut all: Vec<String> = planning.problem.pods.iter().filter_map(|pod| pod.blocked.clone()).collect();
    all.dedup();
    all
}

#[test]
fn gang_is_planned_once_enough_members_exist() {
    let mut state = waiting(3, 4);
    state.apply_pod(&kube_pod("web", "", "1")).unwrap();
    let planning = state.snapshot().planning(&whole(0));
    assert!(planning.gangs.is_empty());
    assert_eq!(blocked(&planning), ["PodGroup default/train waits for members: 3 of minCount 4 exist"]);
    assert!(planning.problem.pods.iter().any(|pod| pod.name == "web" && pod.blocked.is_none()));
    state.apply_pod(&member("m3", "", true)).unwrap();
    let planning = state.snapshot().planning(&whole(0));
    let gang = &planning.gangs.gangs[0];
    assert_eq!((gang.key.as_str(), gang.min_count, gang.members, gang.held), ("default/train", 4, 4, 0));
    assert_eq!((gang.waiting.len(), blocked(&planning).len()), (4, 0));
    assert_eq!(
        blocked(&state.snapshot().planning(&input(0))),
        ["PodGroup default/train: its members are planned together"]
    );
}

#[test]
fn missing_or_faulty_group_holds_its_pods_a_basic_one_none() {
    let mut state = waiting(2, 2);
    let groups = state.pod_groups_mut();
    groups.insert(PodGroupApi::Native, "default/train", Err("it cannot be read: odd".to_owned()));
    assert_eq!(blocked(&state.snapshot().planning(&whole(0))), ["PodGroup default/train: it cannot be read: odd"]);
    state.pod_groups_mut().remove(PodGroupApi::Native, "default/train");
    let why = blocked(&state.snapshot().planning(&whole(0)));
    assert_eq!(why, ["PodGroup default/train: there is no such object of scheduling.k8s.io yet"]);
    state.pod_groups_mut().insert(PodGroupApi::Native, "default/train", Ok(None));
    assert!(blocked(&state.snapshot().planning(&whole(0))).is_empty());
    state.pod_groups_mut().follow(PodGroupApi::Native, false);
    assert!(blocked(&state.snapshot().planning(&input(0))).is_empty(), "nothing is looked at");
}

/// kube-scheduler has marked one and holds the others, which are planned with it; those with gates are not.
#[test]
fn members_that_are_held_are_planned_with_those_marked() {
    let mut state = waiting(1, 3);
    state.apply_pod(&member("held", "", false)).unwrap();
    let mut other = serde_json::to_value(member("other", "", false)).unwrap();
    other["spec"]["schedulerName"] = json!("coscheduling");
    state.apply_pod(&serde_json::from_value(other.clone()).unwrap()).unwrap();
    other["metadata"]["uid"] = json!("uid-gated");
    other["metadata"]["name"] = json!("gated");
    other["spec"]["schedulingGates"] = json!([{"name": "quota"}]);
    state.apply_pod(&serde_json::from_value(other).unwrap()).unwrap();
    let names = |state: &ClusterState, input: &PlanningInput| {
        let all: Vec<String> = state.snapshot().to_pack(input).iter().map(|entry| entry.pod.name.clone()).collect();
        all.join(" ")
    };
    assert_eq!(names(&state, &input(0)), "m0");
    assert_eq!(names(&state, &whole(0)), "held m0 other");
    let only = PlanningInput { only: Some(Arc::new(["uid-held".to_owned()].into())), ..whole(0) };
    assert_eq!(names(&state, &only), "held m0 other", "a batch of one of them");
    let planning = state.snapshot().planning(&whole(0));
    assert_eq!((planning.gangs.gangs[0].members, planning.gangs.gangs[0].waiting.len()), (4, 3));
    state.pod_groups_mut().follow(PodGroupApi::Native, false);
    assert_eq!(names(&state, &whole(0)), "m0", "where no groups are followed, nobody is added");
}

#[test]
fn members_on_nodes_and_expected_ones_count_as_there() {
    let mut state = waiting(2, 4);
    state.apply_node(&kube_node("n", "p", json!({})));
    state.apply_pod(&member("runs", "n", true)).unwrap();
    state.apply_pod(&member("comes", "", true)).unwrap();
    let mut done = serde_json::to_value(member("done", "n", true)).unwrap();
    done["status"]["phase"] = json!("Succeeded");
    state.apply_pod(&serde_json::from_value(done).unwrap()).unwrap();
    state.plan_claim(kube_claim("c", None, "0"), Resources::new());
    state.nominate(["uid-comes"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    let planning = state.snapshot().planning(&whole(0));
    let gang = &planning.gangs.gangs[0];
    assert_eq!((gang.members, gang.held, gang.waiting.len()), (4, 2, 2), "what has ended is no member any more");
}

/// kube-scheduler binds none before all nodes of a gang are ready: its time is counted from the last.
#[test]
fn places_of_a_gang_are_kept_until_the_last_node_is_ready() {
    let mut state = waiting(2, 2);
    for (claim, pod) in [("c0", "uid-m0"), ("c1", "uid-m1")] {
        state.plan_claim(kube_claim(claim, None, "0"), Resources::new());
        state.nominate([pod], &NominationTarget::Claim(claim.into()), Duration::from_secs(20));
    }
    let ready = |state: &mut ClusterState, name: &str, second: u64| {
        let claim = kube_claim(name, Some(name), "1");
        let mut claim = launched_with(&claim, name);
        let status = claim.status.as_mut().unwrap();
        status.node_name = format!("node-{name}");
        status.conditions.iter_mut().for_each(|one| one.status = "True".into());
        state.apply_node(&kube_node(&format!("node-{name}"), name, json!({})));
        state.apply_claim(Arc::new(claim));
        state.expect_until(name, Duration::from_secs(second + 20));
    };
    ready(&mut state, "c0", 40);
    assert!(pending(&state, 200).is_empty(), "the other node is on its way");
    ready(&mut state, "c1", 200);
    assert!(pending(&state, 219).is_empty());
    assert_eq!(pending(&state, 220), ["m0", "m1"], "kube-scheduler has had its turn");
}

#[test]
fn nodes_of_a_gang_go_back_but_for_those_that_others_use() {
    let mut state = waiting(2, 2);
    state.apply_pod(&kube_pod("web", "", "100m")).unwrap();
    for name in ["c0", "c1", "c2", "c3"] {
        let mut claim = kube_claim(name, Some(name), "1");
        let groups = if name == "c3" { "default/other" } else { "default/other,default/train" };
        claim.metadata.annotations = Some([("dovetail.dev/launched-for-pod-group".into(), groups.into())].into());
        state.apply_claim(Arc::new(claim));
    }
    let until = Duration::from_secs(20);
    state.nominate(["uid-m0"], &NominationTarget::Claim("c0".into()), until);
    state.nominate(["uid-web"], &NominationTarget::Claim("c1".into()), until);
    let names = |state: &ClusterState| {
        let all = state.snapshot().claims_to_return("default/train", at(0));
        all.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&state), ["c0", "c2"]);
    state.mark_deleting(["c2"], true);
    assert_eq!(names(&state), ["c0"], "it goes already");
}

/// With groups that nobody follows every plan is as without, to the byte.
#[test]
fn problem_is_the_same_bytes_where_no_groups_are_followed() {
    let mut with = waiting(3, 9);
    with.pod_groups_mut().follow(PodGroupApi::Native, false);
    let mut without = ClusterState::new();
    without.apply_pool(pool("default", true));
    for at in 0..3 {
        without.apply_pod(&kube_pod(&format!("m{at}"), "", "1500m")).unwrap();
    }
    let bytes = |state: &ClusterState| {
        let planning = state.snapshot().planning(&whole(0));
        let packing = solve(&planning.problem, &Options::default());
        (serde_json::to_string(&*planning.problem).unwrap(), format!("{packing:?}"))
    };
    assert_eq!(bytes(&with), bytes(&without));
}
