//! The four patch kinds, and who owns which field.
use super::*;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::core::Status;

fn deployments(server: &ApiServer) -> Api<Deployment> {
    Api::namespaced(client(server), "default")
}

fn deployment(replicas: Option<i64>, image: &str) -> Value {
    let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": image}]}}}});
    if let Some(replicas) = replicas {
        value["spec"]["replicas"] = json!(replicas);
    }
    value
}

async fn apply(server: &ApiServer, manager: &str, config: &Value) -> Result<Value, kube::Error> {
    let applied = deployments(server).patch("web", &PatchParams::apply(manager), &Patch::Apply(config)).await?;
    Ok(serde_json::to_value(applied).unwrap())
}

fn causes(status: &Status) -> Vec<(String, String)> {
    let details = status.details.as_ref().unwrap();
    details.causes.iter().map(|c| (c.reason.clone(), c.field.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn json_patch_changes_one_place_and_failed_test_changes_nothing() {
    let server = server();
    make(&server, "a").await;
    let patch = |ops: Value| Patch::Json::<()>(serde_json::from_value(ops).unwrap());
    let good = patch(json!([{"op": "add", "path": "/metadata/labels/x", "value": "1"}]));
    let changed = pods(&server).patch("a", &PatchParams::default(), &good).await.unwrap();
    assert_eq!(changed.metadata.labels.unwrap()["x"], "1");
    let stale = patch(
        json!([{"op": "test", "path": "/metadata/labels/x", "value": "2"}, {"op": "remove", "path": "/metadata/labels/x"}]),
    );
    assert_eq!(refusal(pods(&server).patch("a", &PatchParams::default(), &stale).await).code, 422);
    assert!(pods(&server).get("a").await.unwrap().metadata.labels.unwrap().contains_key("x"));
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_patch_changes_one_container() {
    let server = server();
    apply(&server, "a", &deployment(None, "nginx:1")).await.unwrap();
    let patch = Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}, {"name": "side", "image": "s"}]}}}}),
    );
    let changed = deployments(&server).patch("web", &PatchParams::default(), &patch).await.unwrap();
    let containers = changed.spec.unwrap().template.spec.unwrap().containers;
    assert_eq!(containers.iter().map(|c| c.image.clone().unwrap()).collect::<Vec<_>>(), ["nginx:2", "s"]);
    assert_eq!(changed.metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_patch_from_an_old_version_conflicts() {
    let server = server();
    let made = make(&server, "a").await;
    let label = |value: &str| {
        Patch::Merge(json!({"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"x": value}}}))
    };
    pods(&server).patch("a", &PatchParams::default(), &label("1")).await.unwrap();
    assert_eq!(refusal(pods(&server).patch("a", &PatchParams::default(), &label("2")).await).reason, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn apply_creates_changes_and_removes_omitted_fields() {
    let server = server();
    let made = apply(&server, "a", &deployment(Some(3), "nginx:1")).await.unwrap();
    assert_eq!(
        (&made["spec"]["replicas"], &made["metadata"]["managedFields"][0]["operation"]),
        (&json!(3), &json!("Apply"))
    );
    let again = apply(&server, "a", &deployment(Some(3), "nginx:1")).await.unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let mut less = deployment(Some(4), "nginx:2");
    less["metadata"]["labels"] = json!({});
    let changed = apply(&server, "a", &less).await.unwrap();
    assert_eq!(changed["spec"]["replicas"], 4);
    assert_eq!(changed["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
    assert!(
        changed["metadata"]["labels"].as_object().is_none_or(|l| l.is_empty()),
        "{}",
        changed["metadata"]["labels"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let server = server();
    apply(&server, "a", &deployment(Some(3), "nginx:1")).await.unwrap();
    // The same value is owned together, without a conflict.
    apply(&server, "b", &deployment(Some(3), "nginx:1")).await.unwrap();
    let conflict = refusal(apply(&server, "b", &deployment(Some(5), "nginx:1")).await);
    assert_eq!(
        (conflict.code, causes(&conflict)),
        (409, vec![("FieldManagerConflict".to_owned(), ".spec.replicas".to_owned())])
    );
    let forced = PatchParams::apply("b").force();
    deployments(&server).patch("web", &forced, &Patch::Apply(deployment(Some(5), "nginx:1"))).await.unwrap();
    let back = refusal(apply(&server, "a", &deployment(Some(3), "nginx:1")).await);
    assert_eq!(causes(&back)[0].1, ".spec.replicas");
    // Manager b still owns the field that a leaves out.
    let kept = apply(&server, "a", &deployment(None, "nginx:1")).await.unwrap();
    assert_eq!(kept["spec"]["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_fields_over_and_a_dropped_list_item_goes() {
    let server = server();
    let mut two = deployment(Some(1), "nginx:1");
    two["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "side", "image": "s"}));
    apply(&server, "a", &two).await.unwrap();
    let scale = Patch::Merge(json!({"spec": {"replicas": 9}}));
    deployments(&server)
        .patch("web", &PatchParams { field_manager: Some("hpa".to_owned()), ..PatchParams::default() }, &scale)
        .await
        .unwrap();
    let conflict = refusal(apply(&server, "a", &two).await);
    assert!(conflict.message.contains("conflict with \"hpa\""), "{}", conflict.message);
    let one = apply(&server, "a", &deployment(None, "nginx:1")).await.unwrap();
    assert_eq!(one["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(one["spec"]["replicas"], 9);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_as_if_and_stores_nothing() {
    let server = server();
    let params = PatchParams::apply("a").dry_run();
    let shown = deployments(&server).patch("web", &params, &Patch::Apply(deployment(Some(2), "i"))).await.unwrap();
    assert_eq!(shown.spec.unwrap().replicas, Some(2));
    assert!(deployments(&server).get_opt("web").await.unwrap().is_none());
}
