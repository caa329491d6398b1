//! Gauges of the pods that wait for a place.

use dovetail_actors::replica::ReplicaView;
use dovetail_observability::metrics::MetricsPage;
use serde_json::Value;

/// Writes the gauges.
pub(super) fn write(page: &mut MetricsPage, view: &ReplicaView, actors: &Value) {
    let is_expendable = |uid: &String| view.snapshot.pods.get(uid).is_some_and(|entry| entry.expendable);
    let waiting = view.snapshot.pending(view.now).into_iter().filter(|entry| !entry.expendable).count();
    page.gauge("karpenter_scheduler_queue_depth", "Pods that wait for a place");
    let own = [("controller", "provisioner"), ("scheduling_id", "")];
    page.sample("karpenter_scheduler_queue_depth", &own, waiting as f64);
    let left_over = actors["packer"]["leftOver"].as_object();
    let (expendable, left_over): (Vec<&String>, Vec<&String>) =
        left_over.into_iter().flat_map(|all| all.keys()).partition(|uid| is_expendable(uid));
    page.gauge("karpenter_scheduler_unschedulable_pods_count", "Pods that fit nowhere");
    let controller = [("controller", "provisioner")];
    page.sample("karpenter_scheduler_unschedulable_pods_count", &controller, left_over.len() as f64);
    if !view.snapshot.expendable.is_unset() {
        page.gauge(
            "karpenter_scheduler_pending_expendable_pods_count",
            "Pods that are worth no node and wait for room",
        );
        page.sample("karpenter_scheduler_pending_expendable_pods_count", &controller, expendable.len() as f64);
    }
}
