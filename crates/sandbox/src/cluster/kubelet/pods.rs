//! The life of a pod on its node.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Kubelets;
use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::controllers::attachments::all_attached;
use crate::cluster::controllers::nodes;
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, PodView, set_condition};
use crate::cluster::work::Work;

/// Annotation: run time of a pod that ends by itself, such as `90s` or `5m`.
const RUNS_FOR: &str = "sandbox.dovetail.dev/runs-for";

impl Kubelets {
    pub(super) fn pod_changed(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        let Some(object) = change.new.as_deref() else { return };
        let Some(node) = object["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) else { return };
        let was_bound = change.old.as_deref().is_some_and(|old| old["spec"]["nodeName"] == node);
        let deleting = |o: &Value| o["metadata"]["deletionTimestamp"].is_string();
        let went = deleting(object) && !change.old.as_deref().is_some_and(deleting);
        if was_bound && !went {
            return self.resize_wanted(ctx, change, object);
        }
        let Some(pod) = ctx.cache.pod(&change.key).cloned() else { return };
        nodes::judge(ctx, &pod);
        if ctx.cache.node(node).is_none() {
            // A restored API server may have a pod of a Node that had gone.
            ctx.queue.push_after(ctx.settings.pod_collection, Work::CollectPods(node.to_owned()));
        }
        if let Some(kubelet) = self.kubelet_of(node).filter(|k| k.alive) {
            let ready_at = kubelet.ready_at;
            if pod.terminating { plan_end(ctx, &pod, object) } else { plan_start(ctx, &pod, ready_at) }
        }
    }

    /// Continues a pod's life once its kubelet is back.
    pub(super) fn resume(&mut self, ctx: &mut ClusterContext, pod: &PodView) {
        let Some(object) = ctx.cache.get(Kind::Pod, &pod.key).cloned() else { return };
        if pod.terminating {
            plan_end(ctx, pod, &object);
        } else if pod.phase == Phase::Pending {
            plan_start(ctx, pod, None);
        } else if pod.phase == Phase::Running && !pod.ready {
            let now = ctx.now();
            ctx.kube.modify_status(Kind::Pod, &pod.key, |pod| set_condition(pod, "Ready", "True", "", "", &now));
        }
    }

    /// The pod's containers run, if its volumes are there; else it waits for them.
    pub(crate) fn start_pod(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str) {
        let Some(pod) = ctx.cache.pod(key).filter(|p| p.uid == uid && p.active()).cloned() else { return };
        let Some(node) = pod.node.clone() else { return };
        let Some(address) = self.kubelet_of(&node).filter(|k| k.alive).map(|k| k.address) else { return };
        if pod.phase != Phase::Pending {
            return;
        }
        if self.refuses(ctx, &node, key) {
            return;
        }
        if !all_attached(ctx, &pod) {
            self.waiting.entry(node).or_default().insert((key.clone(), uid.to_owned()));
            return;
        }
        let host = address.to_string();
        let ip = self.pod_address(ctx, key, address.octets()[0]).unwrap_or_else(|| host.clone());
        let now = ctx.now();
        ctx.kube.modify_status(Kind::Pod, key, |pod| run(pod, &ip, &host, &now));
        if let Some(time) = run_time(ctx, key) {
            ctx.queue.push_after(time, Work::FinishPod(key.clone(), uid.to_owned()));
        }
    }

    /// An address of the VPC that nobody else has; none for a pod in its node's network.
    fn pod_address(&mut self, ctx: &ClusterContext, key: &Key, network: u8) -> Option<String> {
        let object = ctx.cache.get(Kind::Pod, key)?;
        if object["spec"]["hostNetwork"] == true {
            return None;
        }
        self.addresses = self.addresses.wrapping_add(1);
        let n = self.addresses;
        Some(format!("{network}.{}.{}.{}", 64 + (n / 62_500) % 128, (n / 250) % 250, 2 + n % 250))
    }

    /// The pod's containers have done their work.
    pub(crate) fn finish_pod(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str) {
        let Some(pod) = ctx.cache.pod(key).filter(|p| p.uid == uid && p.active()).cloned() else { return };
        if pod.node.as_deref().is_none_or(|node| self.is_silent(node)) {
            return;
        }
        let now = ctx.now();
        ctx.kube.modify_status(Kind::Pod, key, |pod| succeed(pod, &now));
    }

    /// A pod that is being deleted has ended; its object goes.
    pub(crate) fn end_pod(&mut self, ctx: &mut ClusterContext, key: &Key, uid: &str) {
        let Some(node) = ctx.cache.pod(key).filter(|p| p.uid == uid).and_then(|p| p.node.clone()) else { return };
        if !self.is_silent(&node) {
            ctx.kube.delete_pod(key, uid, 0);
        }
    }
}

fn plan_start(ctx: &mut ClusterContext, pod: &PodView, ready_at: Option<Instant>) {
    let range = ctx.settings.pod_ready.clone();
    let delay = ctx.draw(&range);
    let at = ready_at.map_or_else(Instant::now, |ready| ready.max(Instant::now())) + delay;
    ctx.queue.push_at(at, Work::StartPod(pod.key.clone(), pod.uid.clone()));
}

fn plan_end(ctx: &mut ClusterContext, pod: &PodView, object: &Value) {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
    let range = ctx.settings.pod_end.clone();
    let delay = ctx.draw(&range).min(Duration::from_secs(grace));
    ctx.queue.push_after(delay, Work::EndPod(pod.key.clone(), pod.uid.clone()));
}

/// Run time of a pod that ends by itself; none for others.
fn run_time(ctx: &ClusterContext, key: &Key) -> Option<Duration> {
    let object = ctx.cache.get(Kind::Pod, key)?;
    if object["spec"]["restartPolicy"].as_str().is_none_or(|p| p == "Always") {
        return None;
    }
    let written = object["metadata"]["annotations"][RUNS_FOR].as_str();
    let asked = written.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
    Some(asked.map_or(ctx.settings.job_run, |d| d.unsigned_abs()))
}

fn run(pod: &mut Value, ip: &str, host: &str, now: &str) -> bool {
    let container = |spec: &Value, state: Value, ready: bool| {
        let image = &spec["image"];
        json!({"name": spec["name"], "image": image, "imageID": image, "containerID": format!("containerd://{}", spec["name"].as_str().unwrap_or_default()),
            "ready": ready, "started": ready, "restartCount": 0, "state": state})
    };
    let of = |pod: &Value, list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let running: Vec<Value> =
        of(pod, "containers").iter().map(|c| container(c, json!({"running": {"startedAt": now}}), true)).collect();
    let init: Vec<Value> = of(pod, "initContainers")
        .iter()
        .map(|c| match c["restartPolicy"] == "Always" {
            true => container(c, json!({"running": {"startedAt": now}}), true),
            false => container(
                c,
                json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}),
                true,
            ),
        })
        .collect();
    if !pod["status"].is_object() {
        pod["status"] = json!({});
    }
    let status = &mut pod["status"];
    for (field, value) in [
        ("phase", json!("Running")),
        ("startTime", json!(now)),
        ("hostIP", json!(host)),
        ("hostIPs", json!([{"ip": host}])),
        ("podIP", json!(ip)),
        ("podIPs", json!([{"ip": ip}])),
        ("containerStatuses", Value::Array(running)),
    ] {
        status[field] = value;
    }
    if !init.is_empty() {
        status["initContainerStatuses"] = Value::Array(init);
    }
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        set_condition(pod, kind, "True", "", "", now);
    }
    true
}

fn succeed(pod: &mut Value, now: &str) -> bool {
    pod["status"]["phase"] = json!("Succeeded");
    for status in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        let started = status["state"]["running"]["startedAt"].clone();
        status["ready"] = json!(false);
        status["started"] = json!(false);
        status["state"] =
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": now}});
    }
    for kind in ["Ready", "ContainersReady"] {
        set_condition(pod, kind, "False", "PodCompleted", "", now);
    }
    true
}
