//! DaemonSets: a pod on each node that takes it.

use std::collections::BTreeMap;
use std::rc::Rc;

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Value, json};

use super::template::{count, deleting, hash, pod, to_i64, write_status};
use crate::cluster::cache::{CachedObject, Key};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;
use crate::cluster::pod::PodView;
use crate::cluster::scheduler::node::NodeInfo;
use crate::cluster::scheduler::selector::SelectorTerm;
use crate::cluster::scheduler::spec::PodSpec;
use crate::cluster::work::Work;

const REVISION: &str = "controller-revision-hash";

/// Rules for the nodes that the pods of a template can go to.
struct TemplatePlacement {
    spec: PodSpec,
    terms: Option<Vec<SelectorTerm>>,
}

/// A DaemonSet's verdict on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DaemonVerdict {
    /// A pod is to run there.
    Run,
    /// None is to be started, but one that is there stays (an untolerated `NoSchedule` taint).
    Stay,
    /// None may run there.
    Leave,
}

/// Has every DaemonSet look at its nodes again when a node's labels or taints change.
pub(crate) fn node_changed(ctx: &mut ClusterContext, change: &ClusterChange) {
    let face = |node: &CachedObject| (node["metadata"]["labels"].clone(), node["spec"]["taints"].clone());
    if change.old.as_ref().map(face) != change.new.as_ref().map(face) {
        let sets: Vec<Key> = ctx.cache.all(Kind::DaemonSet).map(|(key, _)| key.clone()).collect();
        for key in sets {
            ctx.queue.push(Work::Sync(Kind::DaemonSet, key));
        }
    }
}

/// Makes and deletes pods, then writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(set) = ctx.cache.get(Kind::DaemonSet, key).cloned() else { return };
    if deleting(&set) {
        return;
    }
    let placement = TemplatePlacement::from_daemon_set(&set);
    let revision = hash(&set["spec"]["template"]);
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let pods = ctx.cache.pods_of(uid);
    let mut by_node: BTreeMap<String, Vec<Rc<PodView>>> = BTreeMap::new();
    for pod in &pods {
        if let Some(node) = target(ctx, pod) {
            by_node.entry(node).or_default().push(pod.clone());
        }
    }
    let verdicts: Vec<(String, DaemonVerdict)> =
        ctx.cache.nodes().map(|node| (node.name.clone(), placement.judge(node))).collect();
    for (node, verdict) in &verdicts {
        let here = by_node.remove(node).unwrap_or_default();
        tend(ctx, key, &set, node, *verdict, &here, &revision);
    }
    for pod in by_node.into_values().flatten().filter(|p| p.node.is_none() && !p.terminating) {
        ctx.kube.delete(Kind::Pod, &pod.key, None);
    }
    replace_one(ctx, &set, &pods, &revision);
    report(ctx, key, &set, &pods, &verdicts, &revision);
}

fn tend(
    ctx: &mut ClusterContext,
    key: &Key,
    set: &Value,
    node: &str,
    verdict: DaemonVerdict,
    here: &[Rc<PodView>],
    revision: &str,
) {
    for ended in here.iter().filter(|p| p.finished() && !p.terminating) {
        ctx.kube.delete(Kind::Pod, &ended.key, None);
    }
    let mut live: Vec<&Rc<PodView>> = here.iter().filter(|p| p.active()).collect();
    match verdict {
        DaemonVerdict::Run if here.is_empty() => create(ctx, key, set, node, revision),
        DaemonVerdict::Leave => live.drain(..).for_each(|pod| ctx.kube.delete(Kind::Pod, &pod.key, None)),
        _ => {}
    }
    // The oldest of several pods on one node stays.
    live.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
    for surplus in live.into_iter().skip(1) {
        ctx.kube.delete(Kind::Pod, &surplus.key, None);
    }
}

fn create(ctx: &mut ClusterContext, key: &Key, set: &Value, node: &str, revision: &str) {
    let mut pod = pod(Kind::DaemonSet, set);
    pod["metadata"]["generateName"] = json!(format!("{}-", key.name));
    pod["metadata"]["labels"][REVISION] = json!(revision);
    pod["metadata"]["labels"]["pod-template-generation"] =
        json!(set["metadata"]["generation"].as_i64().unwrap_or(1).to_string());
    pin(&mut pod, node);
    let tolerations = TemplatePlacement::from_daemon_set(set).spec.tolerations;
    pod["spec"]["tolerations"] = serde_json::to_value(tolerations).unwrap_or_default();
    if ctx.kube.create(Kind::Pod, pod).is_err() {
        ctx.queue.push_after(std::time::Duration::from_secs(1), Work::Sync(Kind::DaemonSet, key.clone()));
    }
}

/// Pins the pod to its node by name, in place of whatever fields its affinity named.
fn pin(pod: &mut Value, node: &str) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let required = &mut pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
    match required.as_array_mut().filter(|terms| !terms.is_empty()) {
        Some(terms) => terms.iter_mut().for_each(|term| term["matchFields"] = fields.clone()),
        None => *required = json!([{"matchFields": fields}]),
    }
}

/// The node that a pod is on or pinned to.
fn target(ctx: &ClusterContext, pod: &PodView) -> Option<String> {
    if let Some(node) = &pod.node {
        return Some(node.clone());
    }
    let object = ctx.cache.get(Kind::Pod, &pod.key)?;
    let terms = &object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let fields = terms.get(0)?["matchFields"].as_array()?;
    let name = fields.iter().find(|f| f["key"] == "metadata.name")?["values"].get(0)?;
    name.as_str().map(str::to_owned)
}

impl TemplatePlacement {
    /// Reads the template, with the tolerations that the controller adds.
    pub(crate) fn from_daemon_set(set: &Value) -> Self {
        let mut spec = PodSpec::from_pod(&set["spec"]["template"]);
        let added = [
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        ];
        let network = spec.host_network.then_some(("network-unavailable", "NoSchedule"));
        for (name, effect) in added.into_iter().chain(network) {
            spec.tolerations.push(Toleration {
                key: Some(format!("node.kubernetes.io/{name}")),
                operator: Some("Exists".into()),
                effect: Some(effect.into()),
                ..Toleration::default()
            });
        }
        let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required = affinity.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref());
        let terms = required.map(|r| r.node_selector_terms.iter().map(SelectorTerm::new).collect());
        Self { spec, terms }
    }

    pub(crate) fn judge(&self, node: &NodeInfo) -> DaemonVerdict {
        let selected = self.spec.node_selector.iter().flatten().all(|(k, v)| node.labels.get(k) == Some(v))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(&node.name, &node.labels)));
        if !selected || node.untolerated(&self.spec.tolerations, &["NoExecute"]).is_some() {
            return DaemonVerdict::Leave;
        }
        match node.untolerated(&self.spec.tolerations, &["NoSchedule"]) {
            Some(_) => DaemonVerdict::Stay,
            None => DaemonVerdict::Run,
        }
    }
}

/// RollingUpdate with one pod unavailable at a time: deletes an outdated pod when all others are ready.
fn replace_one(ctx: &mut ClusterContext, set: &Value, pods: &[Rc<PodView>], revision: &str) {
    if set["spec"]["updateStrategy"]["type"] == "OnDelete" || pods.iter().any(|p| p.terminating) {
        return;
    }
    let outdated = |pod: &&Rc<PodView>| {
        let object = ctx.cache.get(Kind::Pod, &pod.key);
        object.is_some_and(|o| o["metadata"]["labels"][REVISION] != revision)
    };
    let old: Vec<Key> = pods.iter().filter(outdated).map(|p| p.key.clone()).collect();
    let unready = pods.iter().find(|p| !p.ready).map(|p| p.key.clone());
    let next = match unready {
        Some(key) => old.into_iter().find(|k| *k == key),
        None => old.into_iter().next(),
    };
    if let Some(key) = next {
        ctx.kube.delete(Kind::Pod, &key, None);
    }
}

fn report(
    ctx: &mut ClusterContext,
    key: &Key,
    set: &Value,
    pods: &[Rc<PodView>],
    verdicts: &[(String, DaemonVerdict)],
    revision: &str,
) {
    let live: Vec<Rc<PodView>> = pods.iter().filter(|p| p.active()).cloned().collect();
    let counts = count(ctx, Kind::DaemonSet, key, set, &live);
    let wanted = to_i64(verdicts.iter().filter(|(_, v)| *v == DaemonVerdict::Run).count());
    let on_wanted = |p: &&Rc<PodView>| {
        let verdict = p.node.as_ref().and_then(|n| verdicts.iter().find(|(name, _)| name == n));
        verdict.is_some_and(|(_, v)| *v == DaemonVerdict::Run)
    };
    let current = to_i64(live.iter().filter(on_wanted).count());
    let updated = live
        .iter()
        .filter(|p| ctx.cache.get(Kind::Pod, &p.key).is_some_and(|o| o["metadata"]["labels"][REVISION] == revision));
    let fields = [
        ("desiredNumberScheduled", json!(wanted)),
        ("currentNumberScheduled", json!(current)),
        ("numberMisscheduled", json!(to_i64(live.len()) - current)),
        ("updatedNumberScheduled", json!(updated.count())),
        ("numberReady", json!(counts.ready)),
        ("numberAvailable", json!(counts.available)),
        ("numberUnavailable", json!((wanted - counts.available).max(0))),
        ("observedGeneration", set["metadata"]["generation"].clone()),
    ];
    write_status(ctx, Kind::DaemonSet, key, &fields);
}
