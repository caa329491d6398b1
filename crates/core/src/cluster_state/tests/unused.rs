//! Nodes that count as not used, and pods that wait for the next try.

use super::*;
use crate::cluster_state::NotUsedReason;

const TURN: Duration = Duration::from_secs(20);

/// A pod of a ReplicaSet of that name.
fn pod_of(name: &str, set: &str, node: &str, status: Value) -> KubePod {
    let mut pod = serde_json::to_value(kube_pod(name, node, "1")).unwrap();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]);
    pod["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn waits(name: &str, set: &str) -> KubePod {
    let words = "0/1 nodes are available: 1 node(s) had untolerated taint {odd: yes}.";
    pod_of(
        name,
        set,
        "",
        json!({"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}),
    )
}

/// A state with pods `a` and `b` of a workload, and one of another, all of them waiting.
fn state() -> ClusterState {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    for pod in [waits("a", "web"), waits("b", "web"), waits("other", "other")] {
        state.apply_pod(&pod).unwrap();
    }
    state
}

/// Plans a claim for pods and has its node come up at that time, ready for pods.
fn comes_up(state: &mut ClusterState, name: &str, pods: &[&str], second: u64) {
    let uids: Vec<String> = pods.iter().map(|pod| format!("uid-{pod}")).collect();
    let launched_for = state.snapshot().launched_for("default", "default", &uids);
    let mut claim = kube_claim(name, None, "0");
    claim.metadata.annotations = Some([("dovetail.dev/launched-for".to_owned(), launched_for)].into());
    state.plan_claim(claim.clone(), Resources::new());
    state.nominate(uids.iter().map(String::as_str), &NominationTarget::Claim(name.into()), Duration::ZERO);
    claim.metadata.uid = Some(format!("uid-{name}"));
    claim.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(2).wall));
    let mut claim = launched_with(&claim, name);
    let status = claim.status.as_mut().unwrap();
    status.node_name = format!("node-{name}");
    for condition in status.conditions.iter_mut() {
        condition.status = "True".into();
        condition.last_transition_time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(second).wall);
    }
    assert_eq!(crate::lifecycle::stage(&claim), Some(crate::lifecycle::ClaimStage::Initialized));
    state.apply_node(&kube_node(
        &format!("node-{name}"),
        name,
        json!({"node.kubernetes.io/instance-type": "m5.large"}),
    ));
    state.apply_claim(Arc::new(claim));
    state.expect_until(name, Duration::from_secs(second) + TURN);
}

fn judge(state: &mut ClusterState, second: u64) -> Vec<NotUsed> {
    state.judge_launches(TURN, true, at(second))
}

fn held(state: &ClusterState, second: u64) -> Vec<String> {
    let planning = state.snapshot().planning(&input(second));
    let name = |uid: &String| uid.trim_start_matches("uid-").to_owned();
    planning.held.keys().map(name).collect()
}

#[test]
fn node_kube_scheduler_avoids_is_unused_and_next_tries_one_pod() {
    let mut state = state();
    comes_up(&mut state, "c", &["a", "b"], 60);
    assert!(judge(&mut state, 60).is_empty() && judge(&mut state, 78).is_empty(), "it is kube-scheduler's turn");
    let found = judge(&mut state, 80);
    assert_eq!((found.len(), found[0].reason, found[0].pause.as_secs()), (1, NotUsedReason::Scheduler, 60));
    assert!(found[0].words.contains("untolerated taint"), "{}", found[0].words);
    assert_eq!(found[0].pods.len(), 2);
    assert!(judge(&mut state, 90).is_empty(), "it is told once");
    assert_eq!(held(&state, 139), ["a", "b"], "the other workload is planned for as ever");
    assert_eq!(held(&state, 140), ["b"], "one is tried");
    comes_up(&mut state, "d", &["a"], 200);
    assert_eq!(held(&state, 201), ["b"], "one at a time");
    judge(&mut state, 201);
    assert_eq!(judge(&mut state, 221)[0].pause.as_secs(), 120);
    // Mended: a pod runs on it.
    state.apply_pod(&pod_of("a", "web", "node-d", json!({"phase": "Running"}))).unwrap();
    judge(&mut state, 230);
    assert!(held(&state, 231).is_empty());
}

/// The node of claim `c` with these taints.
fn with_taints(state: &mut ClusterState, version: &str, taints: Value) {
    let mut node = kube_node("node-c", "c", json!({"node.kubernetes.io/instance-type": "m5.large"}));
    node.metadata.resource_version = Some(version.into());
    node.spec.as_mut().unwrap().taints = serde_json::from_value(taints).unwrap();
    state.apply_node(&node);
}

#[test]
fn own_pods_wait_five_minutes_for_a_taint_of_the_first_minutes() {
    let agent = json!([{"key": "agent.example.com/not-ready", "effect": "NoSchedule"}]);
    let expected = |state: &ClusterState, second| state.snapshot().expected_on("uid-a", at(second)).is_some();
    let mut state = state();
    comes_up(&mut state, "c", &["a"], 60);
    with_taints(&mut state, "6", agent);
    for second in (60..350).step_by(10) {
        assert!(judge(&mut state, second).is_empty() && expected(&state, second), "at {second} s");
    }
    let told = state.taints_awaited(TURN, at(100));
    assert_eq!((told.len(), told[0].taint.key.as_str()), (1, "agent.example.com/not-ready"));
    assert_eq!((told[0].pods.len(), told[0].until), (2, at(360).wall));
    assert!(state.taints_awaited(TURN, at(110)).is_empty(), "it is told once");
    assert!(state.snapshot().unjudged.contains("c"), "it is not empty");
    let mut gone = state;
    with_taints(&mut gone, "7", json!([]));
    assert!(judge(&mut gone, 352).is_empty() && expected(&gone, 352), "kube-scheduler's turn begins");
    assert_eq!(judge(&mut gone, 372).len(), 1);
}

#[test]
fn taint_that_stays_or_is_kubernetes_own_is_not_waited_for() {
    let mut stays = state();
    comes_up(&mut stays, "c", &["a"], 60);
    with_taints(&mut stays, "6", json!([{"key": "odd", "effect": "NoSchedule"}]));
    judge(&mut stays, 60);
    judge(&mut stays, 359);
    judge(&mut stays, 361);
    let found = judge(&mut stays, 385);
    assert!(found.len() == 1 && found[0].seen.as_ref().is_some_and(|seen| seen.contains("odd")), "{found:?}");
    for taint in ["node.kubernetes.io/unschedulable", "node.kubernetes.io/disk-pressure", "karpenter.sh/disrupted"] {
        let mut cordoned = state();
        comes_up(&mut cordoned, "c", &["a"], 60);
        with_taints(&mut cordoned, "6", json!([{"key": taint, "effect": "NoSchedule"}]));
        judge(&mut cordoned, 60);
        assert_eq!(judge(&mut cordoned, 80).len(), 1, "{taint}");
    }
}

#[test]
fn node_whose_pods_left_or_found_room_is_no_disagreement() {
    let mut gone = state();
    comes_up(&mut gone, "c", &["a", "b"], 60);
    judge(&mut gone, 60);
    gone.delete_pod("uid-a");
    gone.delete_pod("uid-b");
    assert!(judge(&mut gone, 100).is_empty());
    let mut elsewhere = state();
    elsewhere.apply_node(&kube_node("n", "p", json!({})));
    comes_up(&mut elsewhere, "c", &["a"], 60);
    judge(&mut elsewhere, 60);
    elsewhere.apply_pod(&pod_of("a", "web", "n", json!({"phase": "Running"}))).unwrap();
    assert!(judge(&mut elsewhere, 100).is_empty(), "b of the same workload was not planned on it");
    let mut taken = state();
    comes_up(&mut taken, "c", &["a"], 60);
    judge(&mut taken, 60);
    taken.apply_pod(&pod_of("stranger", "other", "node-c", json!({"phase": "Pending"}))).unwrap();
    assert!(judge(&mut taken, 100).is_empty());
    let mut unseen = state();
    comes_up(&mut unseen, "c", &["a"], 60);
    unseen.judge_launches(TURN, true, at(60));
    assert!(unseen.judge_launches(TURN, false, at(100)).is_empty(), "an outage is nobody's refusal");
}

#[test]
fn node_filled_by_daemon_sets_is_unused_and_their_load_is_known() {
    let mut state = state();
    let mut daemon = serde_json::to_value(pod_of("agent", "agent", "node-c", json!({"phase": "Running"}))).unwrap();
    daemon["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent"}]);
    daemon["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1500m");
    state.apply_pod(&serde_json::from_value(daemon).unwrap()).unwrap();
    // It loses its place as the node becomes ready, and does not wait for kube-scheduler's time.
    comes_up(&mut state, "c", &["a"], 60);
    let found = judge(&mut state, 60);
    assert_eq!((found.len(), found[0].reason), (1, NotUsedReason::NoRoom));
    let snapshot = state.snapshot();
    let beyond = snapshot.daemons_beyond(at(61).wall);
    assert_eq!((beyond.len(), beyond[0].requests.get("cpu")), (1, 1500));
    assert_eq!(snapshot.unused_to_write().len(), 1);
}

fn class_of(image: &str, more: Value) -> EC2NodeClass {
    let mut annotations = json!({"karpenter.k8s.aws/ec2nodeclass-hash": "1"});
    annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": annotations},
        "spec": {"role": "r", "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        "status": {"amis": [{"id": image, "name": image, "requirements": []}]}}))
    .unwrap()
}

/// Has a node come up that was launched then as an m5.large with 4 CPUs; its Node has `cpu` and says the type `label`.
fn joins(state: &mut ClusterState, name: &str, launched: u64, cpu: &str, label: &str) {
    comes_up(state, name, &[], 60);
    let mut claim = NodeClaim::clone(&state.snapshot().claims[name].claim);
    claim.metadata.resource_version = Some("9".into());
    let created = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(launched).wall);
    claim.metadata.creation_timestamp = Some(created);
    let own = claim.metadata.annotations.get_or_insert_default();
    own.insert("karpenter.k8s.aws/ec2nodeclass-hash".into(), "1".into());
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.insert("node.kubernetes.io/instance-type".into(), "m5.large".into());
    let foreseen = serde_json::from_value(json!({"cpu": "4", "pods": "29"})).unwrap();
    claim.status.as_mut().unwrap().allocatable = foreseen;
    state.apply_claim(Arc::new(claim));
    says(state, name, cpu, label);
}

/// The kubelet of a node writes what it has, and a type.
fn says(state: &mut ClusterState, name: &str, cpu: &str, label: &str) {
    let mut node = kube_node(&format!("node-{name}"), name, json!({"node.kubernetes.io/instance-type": label}));
    node.metadata.resource_version = Some("9".into());
    let own = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
    own.insert("cpu".into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity(cpu.into()));
    state.apply_node(&node);
}

/// The CPUs that a plan counts for a type whose nodes are foreseen to have 4.
fn planned_cpu(state: &ClusterState, kind: &str, second: u64) -> i64 {
    let kind: crate::InstanceType = serde_json::from_value(json!({
        "name": kind, "capacity": {"cpu": "4"}, "offerings": [], "requirements": [],
    }))
    .unwrap();
    state.snapshot().as_observed("default", &[Arc::new(kind)], at(second).wall)[0].allocatable().get("cpu")
}

#[test]
fn observed_allocatable_counts_for_type_class_hash_and_image() {
    let mut state = state();
    state.apply_class(class_of("ami", json!({})));
    joins(&mut state, "c", 2, "3500m", "m5.large");
    judge(&mut state, 61);
    let cpu = |state: &ClusterState, second| planned_cpu(state, "m5.large", second);
    assert_eq!((cpu(&state, 62), cpu(&state, 3600)), (3500, 3500));
    assert_eq!(cpu(&state, 3700), 4000, "it is tried again after an hour");
    // A successor knows it from the annotation, and that it was of another image.
    let (_, text) = state.snapshot().observed_to_write().remove(0);
    let mut after = ClusterState::new();
    after.apply_class(class_of("ami", json!({"dovetail.dev/observed-allocatable": text})));
    judge(&mut after, 70);
    assert_eq!(cpu(&after, 71), 3500);
    after.apply_class(class_of("another", json!({"dovetail.dev/observed-allocatable": text})));
    assert_eq!(cpu(&after, 72), 4000);
}

#[test]
fn claim_of_anothers_instance_hides_no_node_of_its_own_claim() {
    let mut state = state();
    state.apply_class(class_of("ami", json!({})));
    joins(&mut state, "c", 2, "3500m", "m5.large");
    // It comes after the own one by name, and its instance is refused.
    state.apply_claim(Arc::new(launched_with(&kube_claim("thief", Some("2"), "9"), "c")));
    state.refuse("thief", true);
    judge(&mut state, 61);
    assert_eq!(planned_cpu(&state, "m5.large", 62), 3500);
}

#[test]
fn going_node_that_copies_a_provider_id_goes_alone() {
    let mut state = state();
    joins(&mut state, "c", 2, "3500m", "m5.large");
    let mut copy = kube_node("z", "c", json!({}));
    copy.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(61).wall));
    state.apply_node(&copy);
    let deleting = state.snapshot().deleting;
    assert!(deleting.claims.is_empty() && deleting.nodes.iter().eq(["z"]), "{deleting:?}");
    // The claim that goes leaves the copy alone too.
    copy.metadata.deletion_timestamp = None;
    state.apply_node(&copy);
    state.mark_deleting(["c"], true);
    let deleting = state.snapshot().deleting;
    assert!(deleting.claims.iter().eq(["c"]) && deleting.nodes.iter().eq(["node-c"]), "{deleting:?}");
}

#[test]
fn claim_not_judged_yet_takes_no_node_from_the_registered_one() {
    let mut state = state();
    joins(&mut state, "c", 2, "3500m", "m5.large");
    state.apply_claim(Arc::new(launched_with(&kube_claim("thief", Some("2"), "9"), "c")));
    let snapshot = state.snapshot();
    assert_eq!(snapshot.claim_of(&snapshot.nodes["node-c"]).map(|claim| &*claim.facts.name), Some("c"));
}

#[test]
fn lying_kubelet_costs_its_type_a_fifth_and_other_types_nothing() {
    let mut state = state();
    state.apply_class(class_of("ami", json!({})));
    joins(&mut state, "c", 2, "100m", "m5.large");
    judge(&mut state, 61);
    let kinds = ["m5.large", "m5.xlarge", "c5.large", "r5.large"];
    for (second, kind) in (62..).zip(kinds) {
        // It walks its label through the types.
        says(&mut state, "c", "100m", kind);
        judge(&mut state, second);
    }
    let found = |state: &ClusterState| kinds.map(|kind| planned_cpu(state, kind, 70));
    assert_eq!(found(&state), [3200, 4000, 4000, 4000]);
    let told: Vec<String> = state.snapshot().doubted_nodes().into_iter().map(|(_, node)| node.to_string()).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("node node-c says that it has far less for pods than m5.large"), "{told:?}");
    assert!(told[0].contains("cpu 100m, and 3200m is counted"), "{told:?}");
    // Another of the same packing says no more than it does.
    joins(&mut state, "d", 3, "100m", "m5.large");
    judge(&mut state, 71);
    assert_eq!(found(&state)[0], 3200);
    // A Node that names the machine of somebody else's claim is nobody.
    let mut stranger = kube_node("stranger", "c", json!({"node.kubernetes.io/instance-type": "m5.large"}));
    stranger.status.as_mut().unwrap().allocatable = Some(BTreeMap::new());
    state.apply_node(&stranger);
    judge(&mut state, 72);
    assert_eq!(found(&state)[0], 3200);
    // One that was launched later is a second witness; what they agree on counts, down to a half.
    joins(&mut state, "e", 400, "100m", "m5.large");
    judge(&mut state, 460);
    assert_eq!(found(&state), [2000, 4000, 4000, 4000]);
}

#[test]
fn administrator_clears_what_is_known_of_types_for_good() {
    let mut state = state();
    state.apply_class(class_of("ami", json!({})));
    joins(&mut state, "c", 2, "100m", "m5.large");
    joins(&mut state, "e", 400, "100m", "m5.large");
    judge(&mut state, 461);
    let (_, text) = state.snapshot().observed_to_write().remove(0);
    state.apply_class(class_of("ami", json!({"dovetail.dev/observed-allocatable": text})));
    judge(&mut state, 462);
    assert_eq!(planned_cpu(&state, "m5.large", 463), 2000);
    assert!(state.snapshot().observed_to_write().is_empty() && state.snapshot().doubted_nodes().is_empty());
    state.apply_class(class_of("ami", json!({})));
    judge(&mut state, 464);
    // Its kubelet goes on.
    says(&mut state, "c", "99m", "m5.large");
    judge(&mut state, 465);
    assert_eq!(planned_cpu(&state, "m5.large", 466), 4000);
    // A successor knows it, too.
    let (_, text) = state.snapshot().observed_to_write().remove(0);
    let mut after = self::state();
    after.apply_class(class_of("ami", json!({"dovetail.dev/observed-allocatable": text})));
    joins(&mut after, "c", 2, "100m", "m5.large");
    judge(&mut after, 470);
    assert_eq!(planned_cpu(&after, "m5.large", 471), 4000);
    joins(&mut after, "f", 480, "3500m", "m5.large");
    judge(&mut after, 540);
    assert_eq!(planned_cpu(&after, "m5.large", 541), 3500, "one that was launched since says what it has");
}

#[test]
fn kubelet_s_no_is_told_in_its_words() {
    let mut state = state();
    comes_up(&mut state, "c", &["a", "b"], 60);
    judge(&mut state, 60);
    let no = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"});
    state.apply_pod(&pod_of("a", "web", "node-c", no)).unwrap();
    let found = judge(&mut state, 80);
    assert_eq!((found.len(), found[0].reason), (1, NotUsedReason::Kubelet));
    assert_eq!(found[0].words, "OutOfcpu: Node didn't have enough resource: cpu");
}

#[test]
fn a_successor_goes_on_from_the_annotations_of_pool_and_claim() {
    let mut before = state();
    comes_up(&mut before, "c", &["a"], 60);
    judge(&mut before, 60);
    judge(&mut before, 80);
    let (name, text) = before.snapshot().unused_to_write().remove(0);
    assert_eq!(name, "default");
    let mut after = state();
    let mut known = pool("default", true);
    known.metadata.annotations = Some([("dovetail.dev/unused-launches".to_owned(), text)].into());
    after.apply_pool(known);
    judge(&mut after, 90);
    assert_eq!(held(&after, 100), ["a", "b"]);
    assert!(after.snapshot().unused_to_write().is_empty());
    // An operator takes it off.
    after.apply_pool(pool("default", true));
    assert!(held(&after, 100).is_empty());
}

#[test]
fn newest_daemon_set_pod_requests_count_over_its_template() {
    let mut state = ClusterState::new();
    let set = json!({"metadata": {"name": "agent", "namespace": "default", "uid": "agent",
        "annotations": {"deprecated.daemonset.template.generation": "2"}},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    state.apply_daemon_set(serde_json::from_value(set).unwrap());
    let asked = |state: &ClusterState| state.snapshot().daemon_pods()[0].requests.get("cpu");
    assert_eq!(asked(&state), 100);
    let mut pod = |name: &str, cpu: &str, created: &str, generation: &str| {
        let mut pod = serde_json::to_value(kube_pod(name, "n", cpu)).unwrap();
        pod["metadata"]["labels"] = json!({"pod-template-generation": generation});
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}]);
        state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        asked(&state)
    };
    assert_eq!(pod("older", "300m", "2026-01-01T00:00:00Z", "2"), 300);
    assert_eq!(pod("newer", "400m", "2026-01-01T00:00:01Z", "2"), 400);
    assert_eq!(
        pod("of-before", "900m", "2026-01-01T00:00:02Z", "1"),
        100,
        "another template's pod says nothing of this one"
    );
}

#[test]
fn kube_scheduler_turn_begins_at_node_readiness_not_first_look() {
    let mut state = state();
    comes_up(&mut state, "c", &["a"], 60);
    state.note_ready("c", Duration::from_secs(60));
    assert_eq!(judge(&mut state, 80).len(), 1, "the first look is when its turn is over");
}

#[test]
fn a_new_leader_gives_kube_scheduler_a_turn_of_its_own() {
    let mut state = state();
    comes_up(&mut state, "c", &["a"], 60);
    state.forget_plans();
    state.note_ready("c", Duration::from_secs(60));
    assert!(judge(&mut state, 100).is_empty(), "for whom it was planned is not known here");
}

#[test]
fn unused_node_is_forgotten_an_hour_after_its_pause() {
    let mut state = state();
    comes_up(&mut state, "c", &["a", "b"], 60);
    assert!(judge(&mut state, 60).is_empty());
    assert_eq!(judge(&mut state, 80).len(), 1);
    state.delete_claim("c", Some("uid-c"));
    judge(&mut state, 3700);
    assert_eq!(state.snapshot().unused.count(), 1, "its pause has ended at 140");
    judge(&mut state, 140 + 3600);
    assert_eq!(state.snapshot().unused.count(), 0);
}

#[test]
fn node_used_once_takes_no_pause_back_on_later_claim_writes() {
    let mut state = state();
    comes_up(&mut state, "c", &["a"], 60);
    state.apply_pod(&pod_of("a", "web", "node-c", json!({"phase": "Running"}))).unwrap();
    judge(&mut state, 61);
    comes_up(&mut state, "d", &["b"], 100);
    judge(&mut state, 100);
    assert_eq!(judge(&mut state, 121).len(), 1, "the pool has served the workload, and does no longer");
    let again = state.snapshot().claims["c"].claim.clone();
    state.apply_claim(again);
    judge(&mut state, 122);
    assert_eq!(held(&state, 123), ["b"], "that is known of c since it came");
}

#[test]
fn node_whose_turn_was_unseen_is_judged_before_going_as_empty() {
    let mut state = state();
    comes_up(&mut state, "c", &["a"], 60);
    judge(&mut state, 60);
    assert!(state.judge_launches(TURN, false, at(100)).is_empty(), "an outage is nobody's refusal");
    assert!(state.snapshot().unjudged.contains("c"));
    assert_eq!(judge(&mut state, 120).len(), 1);
    assert!(state.snapshot().unjudged.is_empty());
}
