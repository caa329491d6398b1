//! v1beta1 of our kinds: written, stored as v1, and told as it was written.
use super::*;
use crate::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, NODE_POOLS};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};

fn served() -> ApiServer {
    let server = server();
    for mut crd in dovetail_api::crds::crds() {
        crd.spec.versions.iter_mut().for_each(|version| version.served = true);
        server.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
    }
    server
}

fn pools(server: &ApiServer) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1beta1", "NodePool");
    Api::all_with(client(server), &ApiResource::from_gvk(&kind))
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "100h"},
            "template": {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}},
        },
    })
}

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn older_version_is_stored_as_newer_and_served_as_written() {
    let server = served();
    let made = pools(&server).create(&PostParams::default(), &object(&pool())).await.unwrap();
    assert_eq!(made.types.unwrap().api_version, "karpenter.sh/v1beta1");
    let stored = server.get(&NODE_POOLS, "", "default").unwrap();
    let spec = &stored["spec"];
    assert_eq!(
        (&stored["apiVersion"], &spec["template"]["spec"]["expireAfter"]),
        (&json!("karpenter.sh/v1"), &json!("100h"))
    );
    assert_eq!(spec["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");
    assert_eq!(spec["template"]["spec"]["nodeClassRef"]["group"], "karpenter.k8s.aws");

    let patch = json!({"spec": {"disruption": {"expireAfter": "Never"}}});
    let patched = pools(&server).patch("default", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.data["spec"]["disruption"]["expireAfter"], "Never");
    assert_eq!(server.get(&NODE_POOLS, "", "default").unwrap()["spec"]["template"]["spec"]["expireAfter"], "Never");
    server.patch_status(&NODE_POOLS, "", "default", &json!({"status": {"nodes": 3}})).unwrap();
    let all = pools(&server).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all[0].data["spec"]["template"]["spec"]["nodeClassRef"], json!({"name": "default"}));
    assert_eq!(all[0].data["status"]["nodes"], 3, "v1beta1 declares all of the status");
    assert!(all[0].metadata.annotations.is_none(), "{:?}", all[0].metadata);
}

#[tokio::test(start_paused = true)]
async fn the_same_applied_again_changes_nothing() {
    let server = served();
    let apply = || async {
        let applied = pools(&server).patch("default", &PatchParams::apply("test"), &Patch::Apply(&pool())).await;
        applied.unwrap().metadata.resource_version
    };
    assert_eq!(apply().await, apply().await);
}

#[tokio::test(start_paused = true)]
async fn what_the_older_version_refuses_is_refused_by_its_own_rules() {
    let server = served();
    let mut wrong = pool();
    wrong["spec"]["disruption"]["consolidateAfter"] = json!("30s");
    let refused = refusal(pools(&server).create(&PostParams::default(), &object(&wrong)).await);
    assert!(refused.code == 422 && refused.message.contains("consolidationPolicy=WhenUnderutilized"), "{refused:?}");
}
