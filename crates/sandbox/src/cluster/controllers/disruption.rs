//! PodDisruptionBudgets: how many of the pods that a budget selects may be evicted now.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::template::{replicas, scaled, to_i64};
use crate::cluster::cache::{Key, controller};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::{PodView, set_condition};
use crate::cluster::scheduler::selector::{Labels, PodSelector};
use crate::cluster::work::Work;

/// Time after which an eviction that did not happen is forgotten (`DeletionTimeout`).
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Has the budgets of the pod's namespace worked out again, with what else changes meanwhile.
pub(crate) fn pod_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    let budgets: Vec<Key> =
        ctx.cache.within(Kind::PodDisruptionBudget, &change.key.namespace).map(|(key, _)| key.clone()).collect();
    for key in budgets {
        ctx.queue.push_after(ctx.settings.status_window, Work::Sync(Kind::PodDisruptionBudget, key));
    }
}

/// The figures of a budget's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    expected: i64,
    healthy: i64,
    desired: i64,
}

impl Figures {
    fn allowed(self) -> i64 {
        if self.expected > 0 { (self.healthy - self.desired).max(0) } else { 0 }
    }
}

/// Writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(budget) = ctx.kube.get(Kind::PodDisruptionBudget, key) else { return };
    let written = LabelSelector::deserialize(&budget["spec"]["selector"]).ok();
    let selector = PodSelector::new(written.as_ref());
    let pods: Vec<Rc<PodView>> = ctx
        .cache
        .pods_within(&key.namespace)
        .filter(|pod| ctx.cache.get(Kind::Pod, &pod.key).is_some_and(|o| selects(&selector, o)))
        .cloned()
        .collect();
    let disrupted = disrupted(ctx, key, &budget, &pods);
    let healthy = pods.iter().filter(|p| p.ready && p.active() && !disrupted.contains_key(&p.key.name)).count();
    let (expected, desired) = demand(ctx, &budget, &pods);
    let figures = Figures { expected, healthy: to_i64(healthy), desired };
    let now = ctx.now();
    ctx.kube.modify_status(Kind::PodDisruptionBudget, key, |budget| write(budget, figures, &disrupted, &now));
}

fn selects(selector: &PodSelector, pod: &Value) -> bool {
    selector.matches(&Labels::deserialize(&pod["metadata"]["labels"]).unwrap_or_default())
}

/// Evictions that were granted and whose pods are still there; the API server notes them, we forget them in time.
fn disrupted(ctx: &mut ClusterContext, key: &Key, budget: &Value, pods: &[Rc<PodView>]) -> BTreeMap<String, String> {
    let now = ctx.wall();
    let mut kept = BTreeMap::new();
    for (name, time) in budget["status"]["disruptedPods"].as_object().into_iter().flatten() {
        let there = pods.iter().any(|p| p.key.name == *name && !p.terminating);
        let since = time.as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let Some(left) = since.map(|s| FORGET_AFTER.as_secs() as i64 - (now.as_second() - s.as_second())) else {
            continue;
        };
        if there && left > 0 {
            kept.insert(name.clone(), time.as_str().unwrap_or_default().to_owned());
            let again = Duration::from_secs(left.unsigned_abs() + 1);
            ctx.queue.push_after(again, Work::Sync(Kind::PodDisruptionBudget, key.clone()));
        }
    }
    kept
}

/// Number of pods expected, and the number of them that must be healthy.
fn demand(ctx: &ClusterContext, budget: &Value, pods: &[Rc<PodView>]) -> (i64, i64) {
    let spec = &budget["spec"];
    if !spec["maxUnavailable"].is_null() {
        let expected = expected(ctx, pods);
        let gone = scaled(&spec["maxUnavailable"], expected, true).unwrap_or(0);
        return (expected, (expected - gone).max(0));
    }
    if let Some(number) = spec["minAvailable"].as_i64() {
        return (to_i64(pods.len()), number);
    }
    let expected = expected(ctx, pods);
    (expected, scaled(&spec["minAvailable"], expected, true).unwrap_or(expected))
}

/// The sum of what the pods' controllers are to have.
fn expected(ctx: &ClusterContext, pods: &[Rc<PodView>]) -> i64 {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = &pod.owner else { continue };
        let at = |name: &str| Key::new(&pod.key.namespace, name);
        let (uid, count) = match owner.kind.as_str() {
            "StatefulSet" => {
                (owner.uid.clone(), ctx.cache.get(Kind::StatefulSet, &at(&owner.name)).map(|s| replicas(s)))
            }
            "ReplicaSet" => match ctx.cache.get(Kind::ReplicaSet, &at(&owner.name)) {
                Some(set) => behind(ctx, &pod.key, set),
                None => continue,
            },
            _ => continue,
        };
        scales.insert(uid, count.unwrap_or(0));
    }
    scales.values().sum()
}

/// The Deployment behind a ReplicaSet, or the set itself.
fn behind(ctx: &ClusterContext, pod: &Key, set: &Value) -> (String, Option<i64>) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    match controller(set).filter(|o| o["kind"] == "Deployment") {
        Some(owner) => {
            let key = Key::new(&pod.namespace, &text(&owner["name"]));
            (text(&owner["uid"]), ctx.cache.get(Kind::Deployment, &key).map(|d| replicas(d)))
        }
        None => (text(&set["metadata"]["uid"]), Some(replicas(set))),
    }
}

fn write(budget: &mut Value, figures: Figures, disrupted: &BTreeMap<String, String>, now: &str) -> bool {
    let before = budget["status"].clone();
    if !budget["status"].is_object() {
        budget["status"] = json!({});
    }
    let generation = budget["metadata"]["generation"].clone();
    let status = &mut budget["status"];
    status["observedGeneration"] = generation;
    status["expectedPods"] = json!(figures.expected);
    status["currentHealthy"] = json!(figures.healthy);
    status["desiredHealthy"] = json!(figures.desired);
    status["disruptionsAllowed"] = json!(figures.allowed());
    match (disrupted.is_empty(), status.as_object_mut()) {
        (true, Some(status)) => {
            status.remove("disruptedPods");
        }
        _ => status["disruptedPods"] = json!(disrupted),
    }
    let (state, reason) =
        if figures.allowed() > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(budget, "DisruptionAllowed", state, reason, "", now);
    budget["status"] != before
}
