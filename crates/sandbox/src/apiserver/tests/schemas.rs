//! Custom kinds by their schema; unknown fields; discovery; events in both groups.
use super::*;
use crate::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, Gvr};
use k8s_openapi::api::events::v1::Event as NewEvent;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};

const THINGS: Gvr = Gvr::from_static("example.com", "v1", "things");

fn define(server: &ApiServer) -> Api<DynamicObject> {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "default": "calm", "enum": ["calm", "wild"]},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}}},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "size only grows"}]}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]}, "versions": [version("v1", true), version("v1beta1", false)]}});
    server.create(&CUSTOM_RESOURCE_DEFINITIONS, "", definition).unwrap();
    api(server, "v1")
}

fn api(server: &ApiServer, version: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client(server), "default", &resource(version))
}

fn resource(version: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", version, "Thing"))
}

fn thing(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &resource("v1")).data(json!({"spec": spec}))
}

#[tokio::test(start_paused = true)]
async fn a_custom_object_is_defaulted_pruned_and_checked() {
    let server = server();
    let api = define(&server);
    let made = api.create(&PostParams::default(), &thing("a", json!({"size": 2, "extra": 1}))).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 2, "mode": "calm"}));
    let wrong = refusal(api.create(&PostParams::default(), &thing("b", json!({"mode": "odd"}))).await);
    assert_eq!((wrong.code, wrong.reason.as_str()), (422, "Invalid"));
    let fields: Vec<String> = wrong.details.unwrap().causes.into_iter().map(|c| c.field).collect();
    assert_eq!(fields.len(), 2, "{fields:?}");
    let shrink = Patch::Merge(json!({"spec": {"size": 1}}));
    let refused = refusal(api.patch("a", &PatchParams::default(), &shrink).await);
    assert!(refused.message.contains("size only grows"), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn strict_validation_refuses_unknown_fields_of_any_kind() {
    let server = server();
    let api = define(&server);
    let strict =
        PatchParams { field_validation: Some(kube::api::ValidationDirective::Strict), ..PatchParams::apply("t") };
    let config = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1, "extra": true}});
    let refused = refusal(api.patch("a", &strict, &Patch::Apply(config)).await);
    assert!(refused.code == 400 && refused.message.contains("unknown field \"spec.extra\""), "{}", refused.message);
    let mut typo = pod_value("p");
    typo["spec"]["nodeSelektor"] = json!({"a": "b"});
    let refused = refusal(pods(&server).patch("p", &strict, &Patch::Apply(typo)).await);
    assert!(refused.message.contains("nodeSelektor"), "{}", refused.message);
    let mut wrong = pod_value("p");
    wrong["spec"]["priority"] = json!("high");
    assert_eq!(refusal(pods(&server).patch("p", &PatchParams::apply("t"), &Patch::Apply(wrong)).await).code, 400);
}

#[tokio::test(start_paused = true)]
async fn each_served_version_shows_the_same_object() {
    let server = server();
    let v1 = define(&server);
    v1.create(&PostParams::default(), &thing("a", json!({"size": 2}))).await.unwrap();
    let beta = api(&server, "v1beta1").list(&ListParams::default()).await.unwrap();
    assert_eq!(beta.items.len(), 1);
    let one = api(&server, "v1beta1").get("a").await.unwrap();
    assert_eq!(one.types.unwrap().api_version, "example.com/v1beta1");
    assert_eq!(server.get(&THINGS, "default", "a").unwrap()["apiVersion"], "example.com/v1");
}

#[tokio::test(start_paused = true)]
async fn applied_list_items_merge_by_the_keys_of_the_schema() {
    let server = server();
    let api = define(&server);
    let config = |items: Value| {
        Patch::Apply(
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1, "items": items}}),
        )
    };
    api.patch("a", &PatchParams::apply("x"), &config(json!([{"name": "one", "value": "1"}]))).await.unwrap();
    let both = api.patch("a", &PatchParams::apply("y"), &config(json!([{"name": "two", "value": "2"}]))).await.unwrap();
    assert_eq!(both.data["spec"]["items"].as_array().unwrap().len(), 2);
    let rest = api.patch("a", &PatchParams::apply("x"), &config(json!([]))).await.unwrap();
    assert_eq!(rest.data["spec"]["items"], json!([{"name": "two", "value": "2"}]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_served_is_refused() {
    let server = server();
    let bad = json!({"metadata": {"name": "x.example.com"}, "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": []}});
    assert_eq!(server.create(&CUSTOM_RESOURCE_DEFINITIONS, "", bad).unwrap_err().code(), 422);
}

#[tokio::test(start_paused = true)]
async fn discovery_finds_built_in_and_custom_kinds_both_ways() {
    let server = server();
    define(&server);
    let client = client(&server);
    let found = kube::Discovery::new(client.clone()).run().await.unwrap();
    let (resource, capabilities) = found.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing")).unwrap();
    assert_eq!((resource.plural.as_str(), capabilities.supports_operation("watch")), ("things", true));
    assert!(found.resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment")).is_some());
    let aggregated = kube::Discovery::new(client.clone()).run_aggregated().await.unwrap();
    assert!(aggregated.resolve_gvk(&GroupVersionKind::gvk("", "v1", "Pod")).is_some());
    assert_eq!(client.apiserver_version().await.unwrap().minor, "33");
    let alive = http::Request::get("/livez").body(Vec::new()).unwrap();
    assert_eq!(client.request_text(alive).await.unwrap(), "ok");
    let nowhere = http::Request::get("/apis/none/v1/things").body(Vec::new()).unwrap();
    assert_eq!(refusal(client.request_text(nowhere).await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_one_object_in_two_groups() {
    let server = server();
    let event: NewEvent = serde_json::from_value(json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Nominated",
        "note": "pod fits", "regarding": {"kind": "Pod", "name": "a"}, "reportingController": "dovetail", "reportingInstance": "0", "action": "Nominate", "type": "Normal"})).unwrap();
    let new: Api<NewEvent> = Api::namespaced(client(&server), "default");
    new.create(&PostParams::default(), &event).await.unwrap();
    assert_eq!(new.get("e").await.unwrap().note.as_deref(), Some("pod fits"));
    let core: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(client(&server), "default");
    let of_pod = core.list(&ListParams::default().fields("involvedObject.name=a")).await.unwrap();
    assert_eq!(of_pod.items[0].message.as_deref(), Some("pod fits"));
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_served_to_those_who_ask_for_it() {
    let server = server();
    make(&server, "a").await;
    let list = pods(&server).list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].metadata.name.as_deref(), Some("a"));
    assert_eq!(list.types.kind, "PartialObjectMetadataList");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_until_the_last_of_its_objects_is_gone() {
    let server = server();
    let api = define(&server);
    let mut held = thing("a", json!({"size": 1}));
    held.metadata.finalizers = Some(vec!["test/hold".to_owned()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    let now = crate::apiserver::DeleteOptions::default();
    server.delete(&CUSTOM_RESOURCE_DEFINITIONS, "", "things.example.com", &now).unwrap();
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(refusal(api.create(&PostParams::default(), &thing("b", json!({"size": 1}))).await).code, 405);
    server.patch(&THINGS, "default", "a", &json!({"metadata": {"finalizers": null}})).unwrap();
    assert!(!server.serves(&THINGS));
    assert!(server.get(&CUSTOM_RESOURCE_DEFINITIONS, "", "things.example.com").is_none());
}

#[tokio::test(start_paused = true)]
async fn events_are_forgotten_after_an_hour() {
    let server = server();
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "r"});
    server.create(&crate::apiserver::EVENTS, "default", event("old")).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3_000)).await;
    server.create(&crate::apiserver::EVENTS, "default", event("new")).unwrap();
    assert_eq!(server.list(&crate::apiserver::EVENTS).len(), 2);
    tokio::time::sleep(std::time::Duration::from_secs(700)).await;
    server.create(&crate::apiserver::EVENTS, "default", event("newest")).unwrap();
    assert_eq!(server.list(&crate::apiserver::EVENTS).len(), 2);
}
