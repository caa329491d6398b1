//! Nodes that are not what they were launched as, and kubelets that say no: `faults.nodes` of a scenario.

use std::time::Duration;

use dovetail_api::names::labels::REGISTERED;
use dovetail_core::Resources;
use dovetail_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use serde_json::{Value, json};

use super::Kubelets;
use crate::cluster::cache::Key;
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::region::RegionInstance;

impl Kubelets {
    /// Delay with which an instance joins, compared with others.
    pub(super) fn joins_late(&self, instance: &RegionInstance) -> Duration {
        let late = self.region.faults().nodes().joins_late;
        late.filter(|late| late.types.matches(&instance.instance_type)).map_or(Duration::ZERO, |late| late.by)
    }

    /// Takes off what a node has less for pods than its instance type promises.
    pub(super) fn has_less(&self, instance: &RegionInstance, allocatable: &mut Resources) {
        let fault = self.region.faults().nodes().allocatable.filter(|one| one.types.matches(&instance.instance_type));
        let Some(fault) = fault.filter(|_| !instance.beforehand) else { return };
        for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
            let has = allocatable.get(name);
            allocatable.set(name, has - (has as f64 * fault.less) as i64);
        }
    }

    /// Gives a Node the taint, the cordon and the label that nobody planned with.
    pub(super) fn joins_otherwise(&self, instance: &RegionInstance, node: &mut Value) {
        if instance.beforehand {
            return;
        }
        let (faults, kind) = (self.region.faults().nodes(), &instance.instance_type);
        if let Some(taint) = faults.taint_on_join.filter(|one| one.types.matches(kind))
            && let Some(taints) = node["spec"]["taints"].as_array_mut()
        {
            taints.push(json!({"key": taint.key, "value": taint.value, "effect": taint.effect}));
        }
        if faults.cordon_on_join.is_some_and(|one| one.types.matches(kind)) {
            node["spec"]["unschedulable"] = json!(true);
        }
        if let Some(label) = faults.label_put_on.filter(|one| one.types.matches(kind)) {
            node["metadata"]["labels"][label.key] = json!(label.value);
        }
    }

    /// An agent has started on a Node: the taint goes with which it has joined.
    pub(crate) fn take_taint_off(&self, ctx: &ClusterContext, name: &str) {
        let Some(fault) = self.region.faults().nodes().taint_on_join else { return };
        ctx.kube.modify(Kind::Node, &Key::new("", name), |node| {
            if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                taints.retain(|taint| taint["key"] != fault.key);
            }
        });
    }

    /// Takes a label off a Node that has registered, as often as somebody puts it on.
    pub(super) fn take_label_off(&self, ctx: &ClusterContext, change: &ClusterChange) {
        let Some(fault) = self.region.faults().nodes().label_taken_off else { return };
        let Some(node) = change.new.as_deref() else { return };
        let labels = &node["metadata"]["labels"];
        let kind = labels["node.kubernetes.io/instance-type"].as_str().unwrap_or_default();
        if labels[&fault.key].is_string() && labels[REGISTERED].is_string() && fault.types.matches(kind) {
            ctx.kube.modify(Kind::Node, &change.key, |node| {
                if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
                    labels.remove(&fault.key);
                }
            });
        }
    }

    /// True if the kubelet does not let a pod run, which has then failed.
    pub(super) fn refuses(&self, ctx: &ClusterContext, node: &str, key: &Key) -> bool {
        let Some(fault) = self.region.faults().nodes().kubelet_refuses else { return false };
        let kind = ctx.cache.named(Kind::Node, node).map(|node| node["metadata"]["labels"].clone()).unwrap_or_default();
        let kind = kind["node.kubernetes.io/instance-type"].as_str().unwrap_or_default().to_owned();
        let Some(pod) = ctx.cache.get(Kind::Pod, key) else { return false };
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let daemon = owners.is_some_and(|all| all.iter().any(|owner| owner["kind"] == "DaemonSet"));
        let labels = &pod["metadata"]["labels"];
        let meant = fault.pods.iter().all(|(key, value)| labels[key] == *value);
        if daemon || !meant || !fault.types.matches(&kind) {
            return false;
        }
        ctx.kube.modify_status(Kind::Pod, key, |pod| {
            if !pod["status"].is_object() {
                pod["status"] = json!({});
            }
            let status = &mut pod["status"];
            status["phase"] = json!("Failed");
            status["reason"] = json!("OutOfcpu");
            status["message"] = json!("Pod was rejected: Node didn't have enough resource: cpu");
            true
        });
        true
    }
}
