//! The events that a kube-scheduler writes about pods, for `kubectl describe`. The simulation does without: nobody reads
//! them there.

use std::rc::Rc;
use std::sync::Arc;

use dovetail_sandbox::apiserver::{ChangeKind, EVENTS, Happened, PODS};
use dovetail_simulation::World;
use serde_json::{Value, json};

/// Writes them for as long as the world lives.
pub fn start(world: &Rc<World>) {
    let (mut changes, world) = (world.api.subscribe(&[PODS]), world.clone());
    tokio::task::spawn_local(async move {
        while let Some(change) = changes.recv().await {
            if let Some((kind, reason, message)) = said(&change) {
                write(&world, &change.new, kind, reason, &message);
            }
        }
    });
}

/// Event that a change of a pod is worth.
fn said(change: &Happened) -> Option<(&'static str, &'static str, String)> {
    if change.kind == ChangeKind::Deleted {
        return None;
    }
    let (old, new) = (change.old.as_deref(), change.new.as_ref());
    let node = |pod: &Value| pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned);
    if let Some(node) = node(new).filter(|_| old.is_some_and(|old| node(old).is_none())) {
        return Some(("Normal", "Scheduled", format!("Successfully assigned {} to {node}", change.key)));
    }
    let why = unschedulable(new)?;
    let again = old.and_then(unschedulable).is_some_and(|before| before == why);
    (!again).then_some(("Warning", "FailedScheduling", why))
}

fn unschedulable(pod: &Value) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False")?;
    condition["message"].as_str().map(str::to_owned)
}

fn write(world: &World, pod: &Arc<Value>, kind: &str, reason: &str, message: &str) {
    let meta = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let now = world.wall();
    let (whole, fine) = (format!("{now:.0}"), format!("{now:.6}"));
    let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": meta("namespace"), "name": meta("name"), "uid": meta("uid"),
        "resourceVersion": meta("resourceVersion")});
    let event = json!({"metadata": {"name": format!("{}.{:x}", meta("name"), now.as_microsecond())}, "involvedObject": about,
        "type": kind, "reason": reason, "message": message, "eventTime": fine, "firstTimestamp": whole, "lastTimestamp": whole, "count": 1,
        "source": {"component": "default-scheduler"}, "reportingComponent": "default-scheduler", "reportingInstance": ""});
    // A namespace that is on its way out takes no events.
    let _ = world.api.create(&EVENTS, meta("namespace"), event);
}
