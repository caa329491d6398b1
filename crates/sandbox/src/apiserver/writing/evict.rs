//! Eviction: a deletion that a PodDisruptionBudget may refuse.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::handler::{Reply, RoutedRequest};
use crate::apiserver::meta;
use crate::apiserver::registry::FoundResource;
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::subresource::{success, there};
use crate::apiserver::viewing::select::ListSelector;
use crate::apiserver::writing::delete::DeleteOptions;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers the creation of an Eviction.
///
/// # Errors
/// 400 for another name; 404; 409 for another uid; 429 when the budget has no disruption left; 500 for a pod with more than one budget.
pub(in crate::apiserver) fn handle(state: &mut StoreState, call: &mut RoutedRequest<'_>) -> Result<Reply> {
    let key = call.key()?;
    let named = meta::text(&call.body, "name");
    if !named.is_empty() && named != key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::from_body(&call.body["deleteOptions"])?;
    options.dry_run |= call.options.dry_run;
    evict(state, call.found, &key, &options)?;
    Ok(success(201))
}

fn evict(state: &mut StoreState, found: &FoundResource, key: &Key, options: &DeleteOptions) -> Result<()> {
    let pod = there(state, found, key)?.clone();
    if needs_budget(&pod.value)
        && let Some(budget) = budget(state, &pod)?
    {
        spend(state, &pod, &budget, options.dry_run)?;
    }
    let options = mark(state, found, &pod, options);
    state.delete(found, key, &options).map(drop)
}

/// The pod says why it goes, before it does: the condition DisruptionTarget, as kube-apiserver writes it. Answers the
/// options for the deletion, which no longer rests on the version before.
fn mark(state: &mut StoreState, found: &FoundResource, pod: &StoredObject, options: &DeleteOptions) -> DeleteOptions {
    let same =
        |wanted: &Option<String>, field| wanted.as_deref().is_none_or(|one| one == meta::text(&pod.value, field));
    let holds = same(&options.uid, "uid") && same(&options.resource_version, "resourceVersion");
    if options.dry_run || !holds || meta::deleting(&pod.value) {
        return options.clone();
    }
    let mut marked = Value::clone(&pod.value);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": meta::seconds(state.now),
    });
    if !marked["status"]["conditions"].is_array() {
        marked["status"]["conditions"] = json!([]);
    }
    if let Some(all) = marked["status"]["conditions"].as_array_mut() {
        all.retain(|one| one["type"] != "DisruptionTarget");
        all.push(condition);
    }
    state.put(found.rid, pod.key.clone(), marked);
    DeleteOptions { resource_version: None, ..options.clone() }
}

/// Pods that are over, not yet running, or already on their way out are no disruption.
fn needs_budget(pod: &Value) -> bool {
    !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending")) && !meta::deleting(pod)
}

fn budget(state: &StoreState, pod: &StoredObject) -> Result<Option<Arc<StoredObject>>> {
    let Some(rid) = state.registry.rid("policy", "poddisruptionbudgets") else { return Ok(None) };
    let covers = |budget: &&Arc<StoredObject>| {
        let selector = &budget.value["spec"]["selector"];
        selector.is_object() && ListSelector::of_labels(selector).matches(&pod.value)
    };
    let mut budgets = state.table(rid).within(Some(&pod.key.namespace)).filter(covers);
    let first = budgets.next().cloned();
    if budgets.next().is_some() {
        return Err(ApiError::new(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    Ok(first)
}

/// Takes one disruption from the budget, or refuses.
fn spend(state: &mut StoreState, pod: &StoredObject, budget: &StoredObject, dry_run: bool) -> Result<()> {
    let (spec, status) = (&budget.value["spec"], &budget.value["status"]);
    let ready = pod.value["status"]["conditions"]
        .as_array()
        .is_some_and(|list| list.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
    let healthy = |field: &str| status[field].as_i64().unwrap_or_default();
    let unhealthy_may_go = spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (healthy("currentHealthy") >= healthy("desiredHealthy") && healthy("desiredHealthy") > 0);
    if !ready && unhealthy_may_go {
        return Ok(());
    }
    if status["observedGeneration"].as_i64().unwrap_or_default() < meta::generation(&budget.value) {
        let error =
            ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", Some(10));
        let why = format!("The disruption budget {} is still being processed by the server.", budget.key.name);
        return Err(error.with_causes(vec![StatusCause::new("DisruptionBudget", "", why)]));
    }
    let allowed = healthy("disruptionsAllowed");
    if allowed <= 0 {
        let error =
            ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", None);
        let why = format!(
            "The disruption budget {} needs {} healthy pods and has {} currently",
            budget.key.name,
            healthy("desiredHealthy"),
            healthy("currentHealthy")
        );
        return Err(error.with_causes(vec![StatusCause::new("DisruptionBudget", "", why)]));
    }
    if !dry_run && let Some(rid) = state.registry.rid("policy", "poddisruptionbudgets") {
        let mut spent = Value::clone(&budget.value);
        let disrupted = state.now.to_string();
        spent["status"]["disruptionsAllowed"] = json!(allowed - 1);
        meta::member(&mut spent["status"], "disruptedPods").insert(pod.key.name.clone(), json!(disrupted));
        state.put(rid, budget.key.clone(), spent);
    }
    Ok(())
}
