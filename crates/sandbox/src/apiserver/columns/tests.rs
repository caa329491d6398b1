//! Cells as kubectl's users know them.
#![allow(clippy::expect_used)]
use super::*;
use crate::apiserver::registry::Registry;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn shown(group: &str, plural: &str, object: Value) -> Vec<(String, Value)> {
    let registry = Registry::builtin();
    let known = registry.all().find(|(own, def)| *own == group && def.plural == plural).expect("built in");
    let found = registry.find(group, &known.1.versions[0].name, plural).expect("built in");
    let mut object = object;
    object["metadata"]["creationTimestamp"] = json!("2025-12-31T23:55:00Z");
    let names: Vec<String> = definitions(&found)
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c["name"].as_str().unwrap_or("").into())
        .collect();
    let cells = cells(&found, &object, NOW);
    assert_eq!(names.len(), cells.len(), "{names:?} {cells:?}");
    names.into_iter().zip(cells).collect()
}

fn cell(group: &str, plural: &str, object: Value, column: &str) -> Value {
    let cells = shown(group, plural, object);
    cells.into_iter().find(|(name, _)| name == column).expect("the column is there").1
}

#[test]
fn every_built_in_kind_has_as_many_cells_as_columns() {
    let registry = Registry::builtin();
    for (group, def) in registry.all() {
        shown(group, &def.plural, json!({"metadata": {"name": "a"}}));
    }
}

#[test]
fn a_pod_s_status_is_what_holds_it_up() {
    let status = |pod: Value| cell("", "pods", pod, "Status");
    assert_eq!(status(json!({"status": {"phase": "Pending"}})), "Pending");
    assert_eq!(
        status(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}})),
        "Terminating"
    );
    let waiting = json!({"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    assert_eq!(status(waiting), "ImagePullBackOff");
    let ended =
        json!({"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}});
    assert_eq!(status(ended), "ExitCode:2");
    let init = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}]},
        "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}});
    assert_eq!(status(init), "Init:1/2");
    let gated =
        json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}});
    assert_eq!(status(gated), "SchedulingGated");
}

#[test]
fn readiness_restarts_and_age_of_a_pod() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
            {"ready": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2025-12-31T23:59:00Z"}}},
            {"ready": false, "state": {"running": {}}}]}});
    let cells: Vec<Value> = shown("", "pods", pod).into_iter().map(|(_, cell)| cell).collect();
    let expected = json!(["p", "1/2", "Running", "2 (60s ago)", "5m", "10.0.0.1", "n", "<none>", "<none>"]);
    assert_eq!(Value::Array(cells), expected);
}

#[test]
fn nodes_say_whether_they_take_pods() {
    let node = |closed: bool| json!({"spec": {"unschedulable": closed}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(cell("", "nodes", node(false), "Status"), "Ready");
    assert_eq!(cell("", "nodes", node(true), "Status"), "Ready,SchedulingDisabled");
    assert_eq!(cell("", "nodes", json!({}), "Status"), "Unknown");
    assert_eq!(cell("", "nodes", node(false), "Roles"), "<none>");
}

#[test]
fn storage_is_shown_in_the_short_words_of_its_modes() {
    let claim = json!({"spec": {"volumeName": "pv", "storageClassName": "gp3"},
        "status": {"phase": "Bound", "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"]}});
    assert_eq!(cell("", "persistentvolumeclaims", claim.clone(), "Access Modes"), "RWO");
    assert_eq!(cell("", "persistentvolumeclaims", claim, "Capacity"), "4Gi");
    let class =
        json!({"metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    assert_eq!(cell("storage.k8s.io", "storageclasses", class, "Name"), "gp3 (default)");
}

#[test]
fn workloads_count_what_is_ready() {
    let deployment = json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}]}}}, "status": {"readyReplicas": 2, "updatedReplicas": 3}});
    assert_eq!(cell("apps", "deployments", deployment.clone(), "Ready"), "2/3");
    assert_eq!(cell("apps", "deployments", deployment.clone(), "Images"), "i:1,j:2");
    assert_eq!(cell("apps", "deployments", deployment, "Selector"), "app=a");
    let job = json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2025-12-31T23:59:00Z"}});
    assert_eq!(cell("batch", "jobs", job.clone(), "Completions"), "1/2");
    assert_eq!(cell("batch", "jobs", job, "Duration"), "60s");
}
