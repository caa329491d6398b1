//! Pods that move, by what is recommended for their workloads.

use dovetail_api::vertical::VerticalPodAutoscaler;

use super::*;

/// An autoscaler of a workload; with a mode, and targets by container.
fn autoscaler(name: &str, created: i64, target: (&str, &str), mode: &Value, targets: &Value) -> VerticalPodAutoscaler {
    let containers: Vec<Value> = targets
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, target)| json!({"containerName": name, "target": target}))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default",
            "creationTimestamp": Timestamp::from_second(created).unwrap().to_string()},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": target.0, "name": target.1},
            "updatePolicy": {"updateMode": mode}},
        "status": {"recommendation": {"containerRecommendations": containers}},
    }))
    .unwrap()
}

/// A pod of two containers of 500m each, of the Deployment `web`.
fn of_web(name: &str, node: &str) -> KubePod {
    let mut pod = serde_json::to_value(kube_pod(name, node, "500m")).unwrap();
    pod["metadata"]["labels"] = json!({"pod-template-hash": "7d"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d", "uid": "rs", "controller": true}]);
    let more = json!({"name": "side", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}});
    pod["spec"]["containers"].as_array_mut().unwrap().push(more);
    pod["spec"]["initContainers"] = json!([{"name": "first", "resources": {"requests": {"cpu": "700m"}}}]);
    serde_json::from_value(pod).unwrap()
}

/// A cluster of a node `n`, which leaves, with a pod `there`, and a node `m`; a pod `new` waits.
fn cluster(followed: bool) -> ClusterState {
    let mut state = ClusterState::new();
    state.follow_recommendations(followed);
    for name in ["n", "m"] {
        let mut claim = serde_json::to_value(kube_claim(name, Some(&format!("claim-{name}")), "5")).unwrap();
        claim["status"] = json!({"providerID": format!("id-{name}"), "nodeName": name, "conditions": []});
        state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
        state.apply_node(&kube_node(name, &format!("id-{name}"), json!({})));
    }
    state.apply_pod(&of_web("there", "n")).unwrap();
    state.apply_pod(&of_web("new", "")).unwrap();
    state.mark_deleting(["n"], true);
    state
}

/// CPU of the pods of a plan, by name, in thousandths.
fn planned(state: &ClusterState) -> BTreeMap<String, i64> {
    let planning = state.snapshot().planning(&PlanningInput { now: at(10), ..PlanningInput::default() });
    planning.problem.pods.iter().map(|pod| (pod.name.clone(), pod.requests.get("cpu"))).collect()
}

fn cpu(amount: &str) -> Value {
    json!({"c": {"cpu": amount}})
}

#[test]
fn pod_that_leaves_counts_as_it_will_be_created_anew() {
    let mut state = cluster(true);
    assert_eq!(planned(&state), [("new".into(), 1000), ("there".into(), 1000)].into());
    let web = ("Deployment", "web");
    assert!(state.recommendations_mut().apply(&autoscaler("a", 5, web, &Value::Null, &cpu("100m"))));
    // The init container's moment is larger than what the others take by then.
    assert_eq!(planned(&state), [("new".into(), 1000), ("there".into(), 700)].into());
    let older =
        autoscaler("b", 1, web, &json!("Initial"), &json!({"c": {"cpu": "1", "memory": "2Gi"}, "x": {"cpu": "9"}}));
    assert!(state.recommendations_mut().apply(&older) && !state.recommendations_mut().apply(&older));
    assert_eq!(planned(&state)["there"], 1500, "of two the older one counts");
    let recreated = state.snapshot().recreated(&state.snapshot().pods["uid-there"]).requests.clone();
    assert_eq!(recreated.get("memory"), 3 << 30, "the container that nobody names keeps its own");
    assert!(state.recommendations_mut().retain_keys(|key| key == "default/a"));
    assert_eq!(planned(&state)["there"], 700);
    assert!(state.recommendations_mut().remove("default/a") && !state.recommendations_mut().remove("default/a"));
    assert_eq!(planned(&state)["there"], 1000);
}

#[test]
fn recommendations_that_make_no_sense_change_nothing() {
    let mut state = cluster(true);
    let web = ("Deployment", "web");
    for (mode, target, amounts) in [
        (json!("Off"), web, cpu("100m")),
        (json!("Auto"), ("Deployment", "other"), cpu("100m")),
        (json!("Auto"), ("StatefulSet", "web"), cpu("100m")),
        (json!("Auto"), web, cpu("-5")),
        (json!("Auto"), web, cpu("lots")),
        (json!("Auto"), web, json!({})),
    ] {
        state.recommendations_mut().apply(&autoscaler("a", 5, target, &mode, &amounts));
        assert_eq!(planned(&state)["there"], 1000, "{mode} {target:?} {amounts}");
    }
    let mut none: VerticalPodAutoscaler = autoscaler("a", 5, web, &json!("Auto"), &cpu("100m"));
    assert!(state.recommendations_mut().apply(&none));
    none.spec.target_ref = None;
    assert!(state.recommendations_mut().apply(&none) && state.recommendations_mut().is_empty());
    let mut closed = cluster(false);
    closed.recommendations_mut().apply(&autoscaler("a", 5, web, &json!("Auto"), &cpu("100m")));
    assert_eq!(planned(&closed)["there"], 1000, "with the gate closed pods keep nothing that it needs");
}

/// A place counts as taken by as much as its pod will ask for there, and is the successor's although that asks for less.
#[test]
fn place_of_a_pod_is_as_large_as_what_is_recommended() {
    let mut state = cluster(true);
    let web = ("Deployment", "web");
    let place = NominationTarget::Node("m".into());
    state.nominate(["uid-there"], &place, Duration::from_secs(20));
    state.recommendations_mut().apply(&autoscaler("a", 5, web, &json!("Recreate"), &cpu("900m")));
    let taken = |state: &ClusterState| {
        let planning = state.snapshot().planning(&PlanningInput { now: at(10), ..PlanningInput::default() });
        planning.problem.existing_nodes.iter().find(|node| node.name == "m").unwrap().used.get("cpu")
    };
    assert_eq!(taken(&state), 1400);
    assert_eq!(state.snapshot().outgrown(&["n"].into()), None);
    assert_eq!(state.snapshot().outgrown(&["m"].into()), None);
    state.recommendations_mut().apply(&autoscaler("a", 5, web, &json!("Recreate"), &cpu("1600m")));
    assert_eq!(state.snapshot().outgrown(&["n"].into()).as_deref(), Some("default/there"));
    state.recommendations_mut().apply(&autoscaler("a", 5, web, &json!("Recreate"), &cpu("200m")));
    state.delete_pod("uid-new");
    let mut going = serde_json::to_value(of_web("there", "n")).unwrap();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["metadata"]["resourceVersion"] = json!("6");
    state.apply_pod(&serde_json::from_value(going).unwrap()).unwrap();
    let mut successor = serde_json::to_value(of_web("next", "")).unwrap();
    successor["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("200m");
    state.apply_pod(&serde_json::from_value(successor).unwrap()).unwrap();
    assert_eq!(state.snapshot().expected_on("uid-next", at(10)), Some(&place));
}
