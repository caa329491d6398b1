//! Answers that tests/conformance found to differ from those of the real API server.
use super::*;
use http::{Method, Request};
use http_body_util::BodyExt;

async fn ask(server: &ApiServer, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let request =
        Request::builder().method(method).uri(path).header("content-type", kind).header("user-agent", "test/1");
    let request = request.body(http_body_util::Full::from(text)).unwrap();
    let response = tower::Service::call(&mut server.service(Caller::named("test")), request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    ask(server, Method::GET, path, "", &Value::Null).await
}

async fn post(server: &ApiServer, path: &str, body: &Value) -> (u16, Value) {
    ask(server, Method::POST, path, "application/json", body).await
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test(start_paused = true)]
async fn items_of_a_built_in_list_carry_no_api_version_or_kind() {
    let server = server();
    make(&server, "a").await;
    assert_eq!(post(&server, MAPS, &map("m")).await.0, 201);
    for path in [PODS, MAPS] {
        let (_, list) = get(&server, path).await;
        let item = &list["items"][0];
        assert!(list["kind"].is_string() && item["metadata"]["name"].is_string(), "{list}");
        assert_eq!((item.get("kind"), item.get("apiVersion")), (None, None), "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_its_preconditions_refuse_names_the_kind() {
    let server = server();
    post(&server, MAPS, &map("m")).await;
    let body = json!({"preconditions": {"resourceVersion": "1"}});
    let (code, said) = ask(&server, Method::DELETE, &format!("{MAPS}/m"), "application/json", &body).await;
    assert_eq!((code, said["details"]["kind"].as_str()), (409, Some("ConfigMap")));
    assert!(said["message"].as_str().unwrap().contains("the ResourceVersion in the precondition (1)"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn empty_metadata_fields_vanish_and_finalizers_need_a_domain() {
    let server = server();
    post(&server, MAPS, &map("m")).await;
    let patch = json!({"metadata": {"finalizers": [], "labels": {}, "annotations": {}}});
    let (_, said) = ask(&server, Method::PATCH, &format!("{MAPS}/m"), "application/merge-patch+json", &patch).await;
    for name in ["finalizers", "labels", "annotations"] {
        assert_eq!(said["metadata"].get(name), None, "{said}");
    }
    let mut odd = map("n");
    odd["metadata"]["finalizers"] = json!(["keep"]);
    assert_eq!(post(&server, MAPS, &odd).await.0, 422);
    odd["metadata"]["finalizers"] = json!(["example.com/keep"]);
    assert_eq!(post(&server, MAPS, &odd).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn who_makes_a_map_owns_the_map_too() {
    let server = server();
    let (_, said) = post(&server, MAPS, &map("m")).await;
    assert_eq!(said["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
    let patch = json!({"data": {"b": "2"}});
    let path = format!("{MAPS}/m");
    let (_, said) = ask(&server, Method::PATCH, &path, "application/merge-patch+json", &patch).await;
    assert_eq!(said["metadata"]["managedFields"][0]["fieldsV1"]["f:data"], json!({".": {}, "f:a": {}, "f:b": {}}));
}

#[tokio::test(start_paused = true)]
async fn options_that_cannot_be_meant_are_told_by_their_field() {
    let server = server();
    let cases = [
        (format!("{MAPS}?resourceVersionMatch=NotOlderThan"), 422),
        (format!("{MAPS}?resourceVersion=5&resourceVersionMatch=About"), 422),
        (format!("{MAPS}?resourceVersion=0&resourceVersionMatch=Exact"), 422),
        (format!("{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact"), 422),
        (format!("{MAPS}?watch=true&resourceVersionMatch=NotOlderThan"), 422),
        (format!("{MAPS}?fieldSelector=data.a%3D1"), 400),
        (format!("{PODS}?fieldSelector=spec.none%3D1"), 400),
        (format!("{PODS}?labelSelector=x%3Da%20b"), 400),
        (format!("{PODS}?fieldSelector=spec.nodeName%3Dn,status.phase%3DRunning"), 200),
    ];
    for (path, expected) in cases {
        let (code, said) = get(&server, &path).await;
        assert_eq!(code, expected, "{path}: {said}");
    }
    for query in ["dryRun=Some", "fieldValidation=Some"] {
        assert_eq!(post(&server, &format!("{MAPS}?{query}"), &map("m")).await.0, 422, "{query}");
    }
    let (code, _) = ask(&server, Method::PATCH, &format!("{MAPS}/m"), "application/apply-patch+yaml", &map("m")).await;
    assert_eq!(code, 422, "who applies has to say who it is");
    let (code, said) = get(&server, &format!("{MAPS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!((code, &said["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")), "{said}");
    let (code, said) = get(&server, "/api/v1/nothings").await;
    assert_eq!((code, &said["details"]), (404, &json!({})));
}

#[tokio::test(start_paused = true)]
async fn patch_with_other_uid_and_eviction_by_other_name_are_refused() {
    let server = server();
    make(&server, "a").await;
    let patch = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}});
    let path = format!("{PODS}/a");
    let (code, said) = ask(&server, Method::PATCH, &path, "application/merge-patch+json", &patch).await;
    assert_eq!((code, &said["details"]["causes"][0]["field"]), (422, &json!("metadata.uid")));
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}});
    assert_eq!(post(&server, &format!("{PODS}/a/eviction"), &eviction).await.0, 400);
    let (_, gone) = ask(&server, Method::DELETE, &path, "application/json", &Value::Null).await;
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0, "it ran nowhere, so it went at once");
}

#[tokio::test(start_paused = true)]
async fn leases_budgets_and_events_that_make_no_sense_are_refused() {
    let server = server();
    let cases = [
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}}),
        ),
        (
            "/api/v1/namespaces/default/events",
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"}}),
        ),
    ];
    for (path, body) in cases {
        assert_eq!(post(&server, path, &body).await.0, 422, "{path}");
    }
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let (code, said) = post(&server, "/api/v1/namespaces/default/events", &event).await;
    assert_eq!((code, said.get("eventTime")), (201, Some(&Value::Null)));
    let (code, _) = ask(&server, Method::POST, MAPS, "text/plain", &map("m")).await;
    assert_eq!(code, 415);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_hold_owner_references_and_drop_removed_fields() {
    let server = server();
    let (_, owner) = post(&server, MAPS, &map("owner")).await;
    let mut owned = map("owned");
    let uid = &owner["metadata"]["uid"];
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    owned["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let (_, said) = post(&server, MAPS, &owned).await;
    let metadata = &said["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
    let item = format!("k:{{\"uid\":{uid}}}");
    assert_eq!(metadata["f:ownerReferences"], json!({".": {}, (item.as_str()): {}}), "{metadata}");
    let patch = json!({"metadata": {"finalizers": null}});
    let path = format!("{MAPS}/owned");
    let (_, said) = ask(&server, Method::PATCH, &path, "application/merge-patch+json", &patch).await;
    let metadata = &said["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
    assert_eq!(metadata.get("f:finalizers"), None, "{metadata}");
}

#[tokio::test(start_paused = true)]
async fn operations_taints_and_replicas_that_are_none_are_refused() {
    let server = server();
    post(&server, MAPS, &map("m")).await;
    let (path, kind) = (format!("{MAPS}/m"), "application/json-patch+json");
    let jump = json!([{"op": "jump", "path": "/data/a"}]);
    assert_eq!(ask(&server, Method::PATCH, &path, kind, &jump).await.0, 422);
    assert_eq!(ask(&server, Method::PATCH, &path, kind, &json!({})).await.0, 400);
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}});
    let (code, said) = post(&server, "/api/v1/nodes", &node).await;
    assert_eq!((code, &said["details"]["causes"][0]["field"]), (422, &json!("metadata.taints[0].effect")));
    let cidr = json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    assert_eq!(post(&server, "/apis/networking.k8s.io/v1/servicecidrs", &cidr).await.0, 201);
}
