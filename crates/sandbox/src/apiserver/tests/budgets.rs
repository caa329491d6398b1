//! Scale, binding, eviction.
use super::*;
use crate::apiserver::{NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{EvictParams, Patch, PatchParams};

fn running(server: &ApiServer, name: &str) {
    server.create(&PODS, "default", pod_value(name)).unwrap();
    server.bind("default", name, "n1").unwrap();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    server.patch_status(&PODS, "default", name, &ready).unwrap();
}

fn budget(server: &ApiServer, name: &str, allowed: i64) {
    let value =
        json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    server.create(&POD_DISRUPTION_BUDGETS, "default", value).unwrap();
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    server.patch_status(&POD_DISRUPTION_BUDGETS, "default", name, &status).unwrap();
}

#[tokio::test(start_paused = true)]
async fn eviction_spends_the_pdb_and_the_next_is_refused_with_429() {
    let server = server();
    running(&server, "a");
    running(&server, "b");
    budget(&server, "web", 1);
    pods(&server).evict("a", &EvictParams::default()).await.unwrap();
    assert!(server.get(&PODS, "default", "a").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let status = &server.get(&POD_DISRUPTION_BUDGETS, "default", "web").unwrap()["status"];
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["a"].is_string());
    let refused = refusal(pods(&server).evict("b", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refused.details.unwrap().causes[0].reason, "DisruptionBudget");
}

#[tokio::test(start_paused = true)]
async fn pod_with_two_pdbs_cannot_be_evicted_but_unstarted_pod_can() {
    let server = server();
    running(&server, "a");
    budget(&server, "one", 5);
    budget(&server, "two", 5);
    assert_eq!(refusal(pods(&server).evict("a", &EvictParams::default()).await).code, 500);
    server.create(&PODS, "default", pod_value("new")).unwrap();
    pods(&server).evict("new", &EvictParams::default()).await.unwrap();
    assert!(server.get(&PODS, "default", "new").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_for_another_uid_is_refused() {
    let server = server();
    running(&server, "a");
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "other"}}});
    let request =
        http::Request::post("/api/v1/namespaces/default/pods/a/eviction").header("content-type", "application/json");
    let result = client(&server).request::<Value>(request.body(serde_json::to_vec(&body).unwrap()).unwrap()).await;
    assert_eq!(refusal(result).code, 409);
    assert!(server.get(&PODS, "default", "a").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn binding_sets_the_node_and_the_condition_once() {
    let server = server();
    make(&server, "a").await;
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let bind = || {
        let request =
            http::Request::post("/api/v1/namespaces/default/pods/a/binding").header("content-type", "application/json");
        request.body(serde_json::to_vec(&body).unwrap()).unwrap()
    };
    client(&server).request::<Value>(bind()).await.unwrap();
    let bound = pods(&server).get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.status.unwrap().conditions.unwrap()[0].type_, "PodScheduled");
    assert_eq!(refusal(client(&server).request::<Value>(bind()).await).code, 409);
    let moved = Patch::Merge(json!({"spec": {"nodeName": "n2"}}));
    assert_eq!(refusal(pods(&server).patch("a", &PatchParams::default(), &moved).await).code, 422);
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_replica_set_reads_and_writes_its_replicas() {
    let server = server();
    let value = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    server.create(&REPLICA_SETS, "default", value).unwrap();
    let sets: Api<ReplicaSet> = Api::namespaced(client(&server), "default");
    let scale = sets.get_scale("web").await.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, scale.status.unwrap().selector.as_deref()), (Some(2), Some("app=web")));
    let more = Patch::Merge(json!({"spec": {"replicas": 7}}));
    sets.patch_scale("web", &PatchParams::default(), &more).await.unwrap();
    let set = sets.get("web").await.unwrap();
    assert_eq!((set.spec.unwrap().replicas, set.metadata.generation), (Some(7), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_node_s_provider_id_is_written_once() {
    let server = server();
    server.create(&NODES, "", json!({"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "2"}}})).unwrap();
    assert_eq!(server.get(&NODES, "", "n1").unwrap()["status"]["capacity"]["cpu"], "2");
    server.patch(&NODES, "", "n1", &json!({"spec": {"providerID": "aws:///a/i-1"}})).unwrap();
    assert_eq!(
        server.patch(&NODES, "", "n1", &json!({"spec": {"providerID": "aws:///a/i-2"}})).unwrap_err().code(),
        422
    );
    server.patch(&NODES, "", "n1", &json!({"spec": {"unschedulable": true}})).unwrap();
}
