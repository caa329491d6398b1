//! The admission of VerticalPodAutoscaler: pods of its workload are created with the requests that it recommends. The recommender
//! is an annotation of the object.

use serde_json::{Value, json};

use crate::cluster::cache::{Key, controller};
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;

/// Requests by container that a recommender has found, as JSON: `{"main": {"cpu": "300m"}}`.
const RECOMMENDS: &str = "sandbox.dovetail.dev/recommends";

/// Writes what the annotation says into the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(vpa) = ctx.cache.get(Kind::VerticalPodAutoscaler, key) else { return };
    let written = vpa["metadata"]["annotations"][RECOMMENDS].as_str().unwrap_or_default();
    let found: Value = serde_json::from_str(written).unwrap_or_default();
    let containers: Vec<Value> = found
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, target)| json!({"containerName": name, "target": target}))
        .collect();
    let recommendation = json!({"containerRecommendations": containers});
    ctx.kube.modify_status(Kind::VerticalPodAutoscaler, key, |object| {
        let news = object["status"]["recommendation"] != recommendation;
        object["status"] = json!({"recommendation": recommendation});
        news
    });
}

/// Gives a pod that is about to be created what is recommended for its owner's workload.
pub(crate) fn admit(ctx: &ClusterContext, owner_kind: Kind, owner: &Value, pod: &mut Value) {
    let namespace = owner["metadata"]["namespace"].as_str().unwrap_or_default();
    let of_workload = |vpa: &Value| {
        let target = &vpa["spec"]["targetRef"];
        let is_owner = target["kind"] == owner_kind.name() && target["name"] == owner["metadata"]["name"];
        is_owner || controller(owner).is_some_and(|of| target["kind"] == of["kind"] && target["name"] == of["name"])
    };
    let all = ctx.cache.within(Kind::VerticalPodAutoscaler, namespace).map(|(_, vpa)| vpa);
    let mut own: Vec<_> = all.filter(|vpa| of_workload(vpa)).collect();
    own.sort_by_key(|vpa| {
        let text = |field: &str| vpa["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("name"))
    });
    let Some(vpa) = own.first().filter(|vpa| vpa["spec"]["updatePolicy"]["updateMode"] != "Off") else { return };
    let found = vpa["status"]["recommendation"]["containerRecommendations"].as_array();
    for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
        let own = found.into_iter().flatten().find(|one| one["containerName"] == container["name"]);
        for (resource, amount) in own.and_then(|own| own["target"].as_object()).into_iter().flatten() {
            container["resources"]["requests"][resource] = amount.clone();
        }
    }
}
