//! Objects: creating, reading, replacing, deleting.
use super::*;
use crate::apiserver::{NODE_POOLS, PODS};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectList, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};

#[tokio::test(start_paused = true)]
async fn created_pod_carries_uid_version_time_and_cluster_defaults() {
    let server = server();
    let made = make(&server, "a").await;
    assert_eq!(made.uid().unwrap().len(), 36);
    assert!(made.resource_version().is_some());
    assert_eq!(serde_json::to_value(made.creation_timestamp()).unwrap(), "2026-01-01T00:00:00Z");
    let spec = made.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!((spec.termination_grace_period_seconds, spec.priority), (Some(30), Some(0)));
    assert_eq!(spec.tolerations.unwrap().len(), 2);
    assert_eq!(spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0, "1");
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn what_a_csi_driver_attaches_is_a_number_and_no_quantity() {
    let server = server();
    let node: CSINode = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 26}}]},
    }))
    .unwrap();
    let api: Api<CSINode> = Api::all(client(&server));
    api.create(&PostParams::default(), &node).await.unwrap();
    let read = api.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(read.spec.drivers[0].allocatable.as_ref().unwrap().count, Some(26));
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_the_same_uids_and_names() {
    let generated = |server: ApiServer| async move {
        let mut one = pod("");
        one.metadata.name = None;
        one.metadata.generate_name = Some("web-".to_owned());
        let made = pods(&server).create(&PostParams::default(), &one).await.unwrap();
        (made.name_any(), made.uid().unwrap())
    };
    let (a, b) = (generated(server()).await, generated(server()).await);
    assert_eq!(a, b);
    assert_eq!((a.0.len(), &a.0[..4]), (9, "web-"));
}

#[tokio::test(start_paused = true)]
async fn missing_existing_or_invalid_objects_get_kubernetes_reasons() {
    let server = server();
    make(&server, "a").await;
    let api = pods(&server);
    assert_eq!(refusal(api.get("b").await).reason, "NotFound");
    assert_eq!(refusal(api.create(&PostParams::default(), &pod("a")).await).reason, "AlreadyExists");
    let mut empty = pod("c");
    empty.spec.as_mut().unwrap().containers.clear();
    let status = refusal(api.create(&PostParams::default(), &empty).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(status.details.unwrap().causes[0].field, "spec.containers");
    let elsewhere: Api<Pod> = Api::namespaced(client(&server), "nowhere");
    assert_eq!(refusal(elsewhere.create(&PostParams::default(), &pod("a")).await).code, 404);
    assert_eq!(refusal(api.create(&PostParams::default(), &pod("UPPER")).await).code, 422);
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_writes_from_one_version_conflicts() {
    let server = server();
    let api: Api<Lease> = Api::namespaced(client(&server), "kube-system");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}})).unwrap();
    let first = api.create(&PostParams::default(), &lease).await.unwrap();
    let mut mine = first.clone();
    mine.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    api.replace("leader", &PostParams::default(), &mine).await.unwrap();
    let late = refusal(api.replace("leader", &PostParams::default(), &mine).await);
    assert_eq!((late.code, late.reason.as_str()), (409, "Conflict"));
    mine.metadata.resource_version = None;
    assert_eq!(refusal(api.replace("leader", &PostParams::default(), &mine).await).code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_gives_no_new_version() {
    let server = server();
    let made = make(&server, "a").await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let same = pods(&server).patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_one_consistent_view() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        make(&server, name).await;
    }
    let api = pods(&server);
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    api.delete("d", &DeleteParams::default()).await.unwrap();
    make(&server, "f").await;
    let names = |list: &ObjectList<Pod>| list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(",");
    let token = first.metadata.continue_.clone().unwrap();
    let rest = api.list(&ListParams::default().limit(10).continue_token(&token)).await.unwrap();
    assert_eq!((names(&first), names(&rest)), ("a,b".to_owned(), "c,d,e".to_owned()));
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    for at in 0..70 {
        make(&server, &format!("more-{at}")).await;
    }
    let late = refusal(api.list(&ListParams::default().continue_token(&token)).await);
    assert_eq!((late.code, late.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn deleted_unbound_pod_goes_at_once_and_bound_pod_after_kubelet() {
    let server = server();
    make(&server, "a").await;
    make(&server, "b").await;
    let api = pods(&server);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
    server.bind("default", "b", "n1").unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let ending = api.get("b").await.unwrap();
    assert_eq!(ending.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(serde_json::to_value(ending.metadata.deletion_timestamp).unwrap(), "2026-01-01T00:00:30Z");
    api.delete("b", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(api.get_opt("b").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_stays_until_the_finalizer_goes() {
    let server = server();
    let mut one = pod("a");
    one.metadata.finalizers = Some(vec!["test/hold".to_owned()]);
    let api = pods(&server);
    api.create(&PostParams::default(), &one).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let more = Patch::Merge(json!({"metadata": {"finalizers": ["test/hold", "test/more"]}}));
    assert_eq!(refusal(api.patch("a", &PatchParams::default(), &more).await).code, 422);
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &none).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_for_another_uid_or_version_is_refused() {
    let server = server();
    let made = make(&server, "a").await;
    let api = pods(&server);
    let with = |uid: Option<&str>, rv: Option<&str>| {
        let preconditions =
            kube::api::Preconditions { uid: uid.map(str::to_owned), resource_version: rv.map(str::to_owned) };
        DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
    };
    assert_eq!(refusal(api.delete("a", &with(Some("other"), None)).await).code, 409);
    assert_eq!(refusal(api.delete("a", &with(None, Some("1"))).await).code, 409);
    api.delete("a", &with(made.uid().as_deref(), made.resource_version().as_deref())).await.unwrap();
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {"group": "karpenter.sh", "scope": "Cluster", "names": {"plural": "nodepools", "kind": "NodePool"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"weight": {"type": "integer", "minimum": 1}, "replicas": {"type": "integer", "default": 3}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}}}]},
    })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_definition_serves_its_kind_with_status_apart_from_spec() {
    let server = server();
    let kinds: Api<CustomResourceDefinition> = Api::all(client(&server));
    assert!(!server.serves(&NODE_POOLS));
    let made = kinds.create(&PostParams::default(), &definition()).await.unwrap();
    assert!(made.status.unwrap().conditions.unwrap().iter().any(|c| c.type_ == "Established" && c.status == "True"));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
    let api: Api<DynamicObject> = Api::all_with(client(&server), &resource);
    let pool = DynamicObject::new("a", &resource).data(json!({"spec": {"weight": 5}, "status": {"nodes": 9}}));
    let made = api.create(&PostParams::default(), &pool).await.unwrap();
    assert_eq!((made.metadata.generation, made.data.get("status")), (Some(1), None));
    let patch = Patch::Merge(json!({"spec": {"weight": 7}, "status": {"nodes": 2}}));
    let by_status = api.patch_status("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!((&by_status.data["spec"]["weight"], &by_status.data["status"]["nodes"]), (&json!(5), &json!(2)));
    assert_eq!(by_status.metadata.generation, Some(1));
    let by_spec = api
        .patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"weight": 7}, "status": null})))
        .await
        .unwrap();
    assert_eq!((&by_spec.data["spec"]["weight"], &by_spec.data["status"]["nodes"]), (&json!(7), &json!(2)));
    assert_eq!(by_spec.metadata.generation, Some(2));
    kinds.delete("nodepools.karpenter.sh", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(api.get("a").await).code, 404);
    assert!(!server.serves(&NODE_POOLS));
}

#[tokio::test(start_paused = true)]
async fn the_direct_methods_and_clients_see_the_same_objects() {
    let server = server();
    let mut changes = server.subscribe(&[PODS]);
    server
        .create(
            &PODS,
            "default",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        )
        .unwrap();
    server.bind("default", "a", "n1").unwrap();
    server.patch_status(&PODS, "default", "a", &json!({"status": {"phase": "Running"}})).unwrap();
    let seen = pods(&server).get("a").await.unwrap();
    assert_eq!(seen.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(server.pods_on("n1").len(), 1);
    assert_eq!(server.bind("default", "a", "n2").unwrap_err().code(), 409);
    let kinds: Vec<&str> = std::iter::from_fn(|| changes.try_recv().ok()).map(|c| c.kind.name()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED"]);
}
