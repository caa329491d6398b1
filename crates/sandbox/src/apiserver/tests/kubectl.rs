//! Requests of kubectl beyond the API itself: tables, OpenAPI, logs, reviews, bodies in YAML.
use super::*;
use crate::apiserver::{LogBook, PODS};
use http::Request;
use http_body_util::BodyExt;
use std::time::Duration;

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

async fn send(server: &ApiServer, request: Request<http_body_util::Full<bytes::Bytes>>) -> (u16, bytes::Bytes) {
    let response = tower::Service::call(&mut server.service(Caller::named("test")), request).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes())
}

async fn get(server: &ApiServer, path: &str, accept: &str) -> (u16, Value) {
    let request = Request::get(path).header("accept", accept).body(Default::default()).unwrap();
    let (code, body) = send(server, request).await;
    (code, serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body))))
}

async fn post(server: &ApiServer, path: &str, kind: &str, body: &str) -> (u16, Value) {
    let request = Request::post(path).header("content-type", kind).body(body.to_owned().into()).unwrap();
    let (code, body) = send(server, request).await;
    (code, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_list_an_object_and_a_watch_can_be_tables() {
    let server = server();
    make(&server, "a").await;
    let (_, list) = get(&server, "/api/v1/namespaces/default/pods?limit=500", TABLE).await;
    assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("Table"), Some("meta.k8s.io/v1")));
    assert_eq!(list["columnDefinitions"][0]["name"], "Name");
    assert_eq!(list["rows"][0]["cells"].as_array().unwrap()[..3], [json!("a"), json!("0/1"), json!("Pending")]);
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, one) = get(&server, "/api/v1/namespaces/default/pods/a?includeObject=Object", TABLE).await;
    assert_eq!(one["rows"][0]["object"]["spec"]["containers"][0]["name"], "main");
    let (_, none) = get(&server, "/api/v1/namespaces/default/pods?includeObject=None", TABLE).await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let (_, events) = get(&server, "/api/v1/pods?watch=true&timeoutSeconds=1", TABLE).await;
    // One event is one JSON text, several are lines.
    let first: Value = match events {
        Value::String(lines) => serde_json::from_str(lines.lines().next().unwrap()).unwrap(),
        only => only,
    };
    assert_eq!((first["type"].as_str(), first["object"]["rows"][0]["cells"][0].as_str()), (Some("ADDED"), Some("a")));
    let (_, plain) = get(&server, "/api/v1/pods", "application/json, */*").await;
    assert_eq!(plain["kind"], "PodList");
}

#[tokio::test(start_paused = true)]
async fn client_of_older_discovery_form_gets_the_oldest() {
    let server = server();
    let of = |version: &str| format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let (old, new) =
        (format!("{},application/json", of("v2beta1")), format!("{},{},application/json", of("v2"), of("v2beta1")));
    assert_eq!(get(&server, "/apis", &old).await.1["kind"], "APIGroupList");
    assert_eq!(get(&server, "/api", &old).await.1["kind"], "APIVersions");
    assert_eq!(get(&server, "/apis", &new).await.1["kind"], "APIGroupDiscoveryList");
}

#[tokio::test(start_paused = true)]
async fn an_age_is_counted_when_it_is_shown() {
    let server = server();
    make(&server, "a").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let (_, list) = get(&server, "/api/v1/pods", TABLE).await;
    assert_eq!(list["rows"][0]["cells"][4], "5m");
}

#[tokio::test(start_paused = true)]
async fn openapi_has_a_document_per_group_with_paths_and_merge_keys() {
    let server = server();
    let (_, index) = get(&server, "/openapi/v3", "application/json").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, apps) = get(&server, url, "application/json").await;
    assert_eq!(code, 200);
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let names: Vec<&str> = patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{names:?}");
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let schemas = &apps["components"]["schemas"];
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"][0]["group"], "apps");
    let text = apps.to_string();
    assert!(!text.contains("$defs"), "references point into the document");
    assert_eq!(get(&server, "/openapi/v3/apis/none/v1", "").await.0, 404);
    let (_, two) = get(&server, "/openapi/v2", "application/json").await;
    assert!(two["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    let patch = &two["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(patch["consumes"].as_array().unwrap().contains(&json!("application/merge-patch+json")), "{patch}");
    let spec = &two["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(!two.to_string().contains("#/components/"), "references point among the definitions");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let (code, bytes) = get(&server, "/openapi/v2", &format!("{protobuf}, application/json")).await;
    assert!(code == 200 && bytes.as_str().unwrap().starts_with("\n\u{3}2.0"), "the first field is the version");
    assert_eq!(get(&server, "/openapi/v2", "text/plain").await.0, 406);
}

#[tokio::test(start_paused = true)]
async fn a_pod_s_log_is_read_from_its_end_and_followed() {
    let server = server();
    let (book, now) = (Arc::new(LogBook::default()), DEFAULT_START);
    server.create(&PODS, "default", pod_value("a")).unwrap();
    let unbound = get(&server, "/api/v1/namespaces/default/pods/a/log", "*/*").await;
    assert!(unbound.0 == 400 && unbound.1["message"] == "pod a does not have a host assigned", "{unbound:?}");
    server.keep_log("default", "a", book.clone());
    for line in ["one", "two", "three"] {
        book.write(now, line);
    }
    let path = "/api/v1/namespaces/default/pods/a/log";
    assert_eq!(get(&server, path, "*/*").await.1, "one\ntwo\nthree\n");
    assert_eq!(
        get(&server, &format!("{path}?tailLines=1&timestamps=true"), "*/*").await.1,
        "2026-01-01T00:00:00.000000000Z three\n"
    );
    assert_eq!(get(&server, &format!("{path}?limitBytes=5"), "*/*").await.1, "one\nt");
    let writer = book.clone();
    tokio::task::LocalSet::new()
        .run_until(async move {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                writer.write(now, "four");
                tokio::time::sleep(Duration::from_secs(1)).await;
                writer.close();
            });
            let followed = get(&server, &format!("{path}?follow=true&tailLines=1"), "*/*").await.1;
            assert_eq!(followed, "three\nfour\n");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_and_not_stored() {
    let server = server();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, review) = post(&server, path, "application/json", "{\"spec\": {}}").await;
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)));
    assert_eq!(get(&server, path, "").await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn bodies_are_json_or_yaml_and_no_larger_than_they_may_be() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, made) = post(
        &server,
        maps,
        "application/yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"1\"}\n",
    )
    .await;
    assert_eq!((code, made["data"]["x"].as_str()), (201, Some("1")));
    let twice = "{\"metadata\": {\"name\": \"b\"}, \"data\": {\"x\": \"1\", \"x\": \"2\"}}";
    let (code, refused) = post(&server, &format!("{maps}?fieldValidation=Strict"), "application/json", twice).await;
    assert!(code == 400 && refused["message"].as_str().unwrap().contains("duplicate field \"data.x\""), "{refused}");
    let large =
        |bytes: usize| json!({"metadata": {"name": format!("c{bytes}")}, "data": {"x": "y".repeat(bytes)}}).to_string();
    assert_eq!(post(&server, maps, "application/json", &large(1 << 20)).await.0, 201);
    let (code, refused) = post(&server, maps, "application/json", &large(2 << 20)).await;
    assert_eq!((code, refused["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    assert_eq!(post(&server, maps, "application/json", &large(5 << 20)).await.0, 413);
    let annotated = json!({"metadata": {"name": "d", "annotations": {"x": "y".repeat(300_000)}}}).to_string();
    let (code, refused) = post(&server, maps, "application/json", &annotated).await;
    assert!(
        code == 422 && refused["message"].as_str().unwrap().contains("metadata.annotations: Too long"),
        "{refused}"
    );
}
