//! Deployments, StatefulSets, DaemonSets, Jobs, budgets.

use super::*;

#[test]
fn deployment_of_400_is_bound_and_ready_on_existing_nodes() {
    on(&[nodes("m5.24xlarge", 2)], async |rig| {
        rig.deployment("web", 400, "250m");
        rig.after(6.0).await;
        assert_eq!((rig.bound(), rig.ready()), (400, 400));
        let deployment = rig.get(&api::DEPLOYMENTS, "web");
        assert_eq!(deployment["status"]["availableReplicas"], 400);
        assert_eq!(
            (status(&deployment, "Available").as_str(), status(&deployment, "Progressing").as_str()),
            ("True", "True")
        );
        let pod = &rig.pods()[0];
        let set = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap();
        assert!(set.starts_with("web-") && pod["metadata"]["name"].as_str().unwrap().starts_with(&format!("{set}-")));
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], set[4..]);
        assert!(pod["status"]["podIP"].is_string() && pod["status"]["startTime"].is_string());
    });
}

#[test]
fn scale_down_leaves_the_asked_count_and_takes_unbound_first() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.deployment("web", 10, "500m");
        rig.after(5.0).await;
        let bound = rig.bound();
        assert!(bound > 0 && bound < 10, "{bound}");
        rig.api.patch(&api::DEPLOYMENTS, "default", "web", &json!({"spec": {"replicas": bound}})).unwrap();
        rig.after(3.0).await;
        assert_eq!((rig.pods().len(), rig.bound(), rig.ready()), (bound, bound, bound));
    });
}

#[test]
fn rolling_update_replaces_all_pods_within_its_bounds() {
    on(&[nodes("m5.4xlarge", 1)], async |rig| {
        rig.deployment("web", 8, "100m");
        rig.after(5.0).await;
        let change = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
        rig.api.patch(&api::DEPLOYMENTS, "default", "web", &change).unwrap();
        for _ in 0..400 {
            rig.after(0.1).await;
            assert!(rig.ready() >= 6, "{}", rig.ready());
            assert!(rig.pods().iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null()).count() <= 10);
        }
        assert_eq!(rig.pods().iter().filter(|p| p["metadata"]["labels"]["version"] == "2").count(), 8);
        assert_eq!((rig.pods().len(), rig.api.list(&api::REPLICA_SETS).len()), (8, 2));
        assert_eq!(rig.get(&api::DEPLOYMENTS, "web")["status"]["updatedReplicas"], 8);
    });
}

#[test]
fn deleting_a_deployment_ends_its_pods() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.deployment("web", 3, "100m");
        rig.after(5.0).await;
        rig.delete(&api::DEPLOYMENTS, "web");
        rig.after(2.0).await;
        assert_eq!((rig.pods().len(), rig.api.list(&api::REPLICA_SETS).len()), (0, 0));
    });
}

#[test]
fn a_deleted_pod_is_replaced_after_its_grace_was_honoured() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.deployment("web", 1, "100m");
        rig.after(5.0).await;
        let name = rig.places().keys().next().unwrap().clone();
        rig.api
            .delete(
                &api::PODS,
                "default",
                &name,
                &DeleteOptions { grace_period_seconds: Some(30), ..Default::default() },
            )
            .unwrap();
        rig.after(5.0).await;
        assert!(!rig.places().contains_key(&name));
        assert_eq!(rig.ready(), 1);
    });
}

fn stateful(replicas: u32, policy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": replicas, "serviceName": "db", "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "100m")},
    })
}

#[test]
fn stateful_set_starts_each_pod_after_the_one_before_is_ready() {
    on(&[nodes("m5.large", 2)], async |rig| {
        rig.create(stateful(4, "OrderedReady"));
        rig.after(20.0).await;
        let (created, ready) = (rig.told("pod", "created"), rig.told("pod", "ready"));
        let names: Vec<&str> = created.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["db-0", "db-1", "db-2", "db-3"]);
        for n in 1..4 {
            assert!(created[n].0 >= ready[n - 1].0, "{} before {}", created[n].0, ready[n - 1].0);
        }
        assert_eq!(rig.get(&api::STATEFUL_SETS, "db")["status"]["readyReplicas"], 4);
    });
}

#[test]
fn parallel_stateful_set_starts_at_once_and_shrinks_at_its_end() {
    on(&[nodes("m5.large", 2)], async |rig| {
        rig.create(stateful(4, "Parallel"));
        rig.after(5.0).await;
        assert_eq!(rig.ready(), 4);
        let created = rig.told("pod", "created");
        assert!((created[3].0 - created[0].0) < 0.1);
        rig.api.patch(&api::STATEFUL_SETS, "default", "db", &json!({"spec": {"replicas": 2}})).unwrap();
        rig.after(5.0).await;
        assert_eq!(rig.places().keys().map(String::as_str).collect::<Vec<_>>(), ["db-0", "db-1"]);
        rig.api.delete(&api::PODS, "default", "db-0", &DeleteOptions::default()).unwrap();
        rig.after(5.0).await;
        assert_eq!(rig.ready(), 2);
    });
}

#[test]
fn sets_asking_for_billions_of_pods_have_only_those_due() {
    on(&[nodes("m5.large", 2)], async |rig| {
        let most = 2_147_483_647_u32;
        let mut set = stateful(most, "OrderedReady");
        set["spec"]["ordinals"] = json!({"start": most});
        rig.create(set);
        rig.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"parallelism": 3, "completions": most, "completionMode": "Indexed", "template": job_template()}}));
        rig.after(1.0).await;
        let names: Vec<String> = rig.told("pod", "created").into_iter().map(|(_, name)| name).collect();
        assert!(names.contains(&format!("db-{most}")) && (4..10).contains(&names.len()), "{names:?}");
    });
}

fn job_template() -> Value {
    let mut template = template("work", "10m");
    template["spec"]["restartPolicy"] = json!("Never");
    template
}

#[test]
fn sets_above_a_quota_have_the_pods_it_allows_and_time_goes_on() {
    on(&[nodes("m5.large", 2)], async |rig| {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "7"}}});
        rig.create(quota);
        rig.deployment("web", 2000, "10m");
        rig.create(stateful(2000, "Parallel"));
        rig.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"parallelism": 2000, "completions": 2000, "template": job_template()}}));
        rig.after(30.0).await;
        assert_eq!(rig.pods().len(), 7);
    });
}

#[test]
fn a_daemon_set_runs_on_each_node_that_it_tolerates_and_selects() {
    let mut tainted = nodes("m5.large", 1);
    tainted.taints = vec![serde_json::from_value(json!({"key": "team", "effect": "NoSchedule"})).unwrap()];
    let mut special = nodes("m5.large", 1);
    special.labels = BTreeMap::from([("disk".to_owned(), "fast".to_owned())]);
    on(&[nodes("m5.large", 2), tainted, special], async |rig| {
        let set = |name: &str, selector: Value| {
            let mut template = template(name, "10m");
            template["spec"]["nodeSelector"] = selector;
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
        };
        rig.create(set("all", json!({})));
        rig.create(set("fast", json!({"disk": "fast"})));
        rig.after(5.0).await;
        let of = |name: &str| rig.get(&api::DAEMON_SETS, name)["status"]["numberReady"].as_i64().unwrap();
        assert_eq!((of("all"), of("fast")), (3, 1));
        rig.node("late", "us-east-1a", "4");
        rig.after(2.0).await;
        assert_eq!(rig.get(&api::DAEMON_SETS, "all")["status"]["desiredNumberScheduled"], 4);
        assert_eq!(rig.places().values().filter(|n| *n == "late").count(), 1);
    });
}

#[test]
fn job_runs_its_completions_by_its_parallelism_and_completes() {
    on(&[nodes("m5.large", 1)], async |rig| {
        let mut template = template("sum", "100m");
        template["spec"]["restartPolicy"] = json!("Never");
        template["metadata"]["annotations"] = json!({"sandbox.dovetail.dev/runs-for": "5s"});
        rig.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
            "spec": {"completions": 5, "parallelism": 2, "template": template}}));
        for _ in 0..60 {
            rig.after(1.0).await;
            assert!(rig.pods().iter().filter(|p| p["status"]["phase"] == "Running").count() <= 2);
        }
        let job = rig.get(&api::JOBS, "sum");
        assert_eq!((status(&job, "Complete").as_str(), job["status"]["succeeded"].as_i64()), ("True", Some(5)));
    });
}

#[test]
fn pdb_allows_as_many_disruptions_as_healthy_pods_to_spare() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.deployment("web", 5, "100m");
        for (name, field, value) in [("least", "minAvailable", json!(4)), ("most", "maxUnavailable", json!("40%"))] {
            rig.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, field: value}}));
        }
        rig.after(6.0).await;
        let of = |name: &str| rig.get(&api::POD_DISRUPTION_BUDGETS, name)["status"].clone();
        let (least, most) = (of("least"), of("most"));
        assert_eq!((least["disruptionsAllowed"].as_i64(), least["currentHealthy"].as_i64()), (Some(1), Some(5)));
        assert_eq!((most["disruptionsAllowed"].as_i64(), most["expectedPods"].as_i64()), (Some(2), Some(5)));
        let name = rig.places().keys().next().unwrap().clone();
        rig.api.delete(&api::PODS, "default", &name, &DeleteOptions::default()).unwrap();
        rig.after(0.5).await;
        assert_eq!(of("least")["disruptionsAllowed"], 0);
    });
}
