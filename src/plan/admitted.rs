//! The pods among manifests as the API server would have admitted them, with those that it would refuse.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::manifest::{self, Manifest};
use dovetail_core::admission::quota::{Charge, add, charge_of};
use dovetail_core::admission::{LimitRange, Policies, PriorityClass, Quota, RuntimeClass};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};

use super::unplanned::called;

/// Rules for admission among manifests.
#[derive(Default)]
pub struct PlanAdmission {
    policies: Policies,
    quotas: BTreeMap<String, Vec<Quota>>,
    /// Classes that pods name and that are not among the manifests, by kind and name.
    assumed: BTreeSet<(&'static str, String)>,
    /// PriorityClasses that the API server would refuse, and why.
    refused: Vec<(String, String)>,
}

/// A pod of the manifests.
pub struct Admitted {
    /// The manifest that it comes from, by its place.
    pub manifest: usize,
    /// The pod, as it would be stored.
    pub pod: Pod,
    /// Reason why the API server would refuse it, if it would.
    pub refused: Option<String>,
}

impl PlanAdmission {
    /// Reads the policies among manifests. A class that a pod names and that is not among them is assumed: the cluster
    /// that the manifests are meant for has it, or else nothing of them would run.
    pub fn from_manifests(manifests: &[Manifest]) -> Self {
        let mut own = Self::default();
        for manifest in manifests {
            let (name, object) = (manifest.name.clone(), &manifest.object);
            let namespace = manifest.namespace.clone().unwrap_or_else(|| "default".to_owned());
            let policies = &mut own.policies;
            match manifest.kind.as_str() {
                "PriorityClass" => own.priority_class(name, PriorityClass::from_json(object)),
                "RuntimeClass" => drop(policies.runtime_classes.insert(name, RuntimeClass::from_json(object))),
                "LimitRange" => {
                    let ranges = policies.limit_ranges.entry(namespace).or_default();
                    ranges.insert(name, LimitRange::from_json(object));
                }
                "ResourceQuota" => own.quotas.entry(namespace).or_default().push(Quota::from_json(object)),
                _ => {}
            }
        }
        manifests.iter().filter(|manifest| !manifest.foreign).filter_map(pod_spec).for_each(|spec| own.assume(spec));
        own
    }

    /// Takes a PriorityClass, unless the API server would refuse it.
    fn priority_class(&mut self, name: String, class: PriorityClass) {
        let known = &mut self.policies.priority_classes;
        let default = known.iter().find(|(_, known)| known.global_default).map(|(name, _)| name.as_str());
        match class.refusal(&name, default) {
            Some(why) => self.refused.push((name, why)),
            None => drop(known.insert(name, class)),
        }
    }

    fn assume(&mut self, spec: &Value) {
        let text = |field: &str| spec[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(name) = text("priorityClassName").filter(|name| !name.starts_with("system-")) {
            let known = &mut self.policies.priority_classes;
            let is_refused = self.refused.iter().any(|(refused, _)| *refused == name);
            if !known.contains_key(&name) && !is_refused {
                let value = spec["priority"].as_i64().unwrap_or_default();
                known.insert(name.clone(), PriorityClass::from_json(&json!({ "value": value })));
                self.assumed.insert(("PriorityClass", name));
            }
        }
        if let Some(name) = text("runtimeClassName") {
            let known = &mut self.policies.runtime_classes;
            if !known.contains_key(&name) {
                let class = json!({"overhead": {"podFixed": spec["overhead"]}});
                known.insert(name.clone(), RuntimeClass::from_json(&class));
                self.assumed.insert(("RuntimeClass", name));
            }
        }
    }

    /// The pods of all workloads. What is refused, held back or assumed is said once a workload.
    pub fn pods(&self, manifests: &[Manifest], warnings: &mut Vec<String>) -> Vec<Admitted> {
        for (name, why) in &self.refused {
            warnings.push(format!("PriorityClass {name}: the API server would refuse it: {why}"));
        }
        for (kind, name) in self.assumed.iter().filter(|(_, name)| !self.refused.iter().any(|(one, _)| one == name)) {
            let what = if *kind == "PriorityClass" {
                "taken with the priority that its pods write, or 0"
            } else {
                "taken as one that adds nothing"
            };
            warnings.push(format!("{kind} {name} is not among the manifests; {what}"));
        }
        let mut all = Vec::new();
        let mut used: BTreeMap<String, Vec<Charge>> = BTreeMap::new();
        for (at, manifest) in manifests.iter().enumerate().filter(|(_, manifest)| manifest.kind != "DaemonSet") {
            let pods = manifest::workload_pods(manifest);
            let Some(first) = pods.first() else { continue };
            let namespace = manifest.namespace.clone().unwrap_or_else(|| "default".to_owned());
            let (template, refused) = self.admit(&namespace, first);
            let (charge, typed) = (charge_of(&template), serde_json::from_value::<Pod>(template.clone()).ok());
            let spec = typed.and_then(|pod| pod.spec);
            let before = all.len();
            for pod in pods {
                let refused = refused.clone().or_else(|| self.over_quota(&namespace, &template, &charge, &mut used));
                all.push(Admitted { manifest: at, pod: with_spec(pod, spec.as_ref()), refused });
            }
            say(manifest, &all[before..], warnings);
        }
        all
    }

    /// The DaemonSets, by their places among the manifests, whose pods the API server would refuse: no node has any of them. Each
    /// is said.
    pub fn refused_daemon_sets(&self, manifests: &[Manifest], warnings: &mut Vec<String>) -> BTreeSet<usize> {
        let mut refused = BTreeSet::new();
        for (at, manifest) in manifests.iter().enumerate().filter(|(_, manifest)| manifest.kind == "DaemonSet") {
            let Some(pod) = manifest::workload_pods(manifest).into_iter().next() else { continue };
            let namespace = manifest.namespace.as_deref().unwrap_or("default");
            if let Some(why) = self.admit(namespace, &pod).1 {
                let who = format!("DaemonSet {}", called(manifest));
                warnings.push(format!("{who}: the API server would refuse its pods, which count on no node: {why}"));
                refused.insert(at);
            }
        }
        refused
    }

    fn admit(&self, namespace: &str, pod: &Pod) -> (Value, Option<String>) {
        let mut value = serde_json::to_value(pod).unwrap_or_default();
        let refused = self.policies.admit_valid(namespace, &mut value).err().map(|why| why.to_string());
        (value, refused)
    }

    fn over_quota(
        &self,
        namespace: &str,
        pod: &Value,
        charge: &Charge,
        used: &mut BTreeMap<String, Vec<Charge>>,
    ) -> Option<String> {
        let quotas = self.quotas.get(namespace)?;
        let used = used.entry(namespace.to_owned()).or_insert_with(|| vec![Charge::new(); quotas.len()]);
        let counting: Vec<usize> = (0..quotas.len()).filter(|at| quotas[*at].counts(pod)).collect();
        for at in &counting {
            if let Err(why) = quotas[*at].admit(&used[*at], charge) {
                return Some(format!("{why} (ResourceQuota)"));
            }
        }
        counting.into_iter().for_each(|at| add(&mut used[at], charge));
        None
    }
}

/// The spec of the pods that a manifest makes.
fn pod_spec(manifest: &Manifest) -> Option<&Value> {
    let spec = manifest.object.get("spec")?;
    if manifest.kind == "Pod" { Some(spec) } else { spec.get("template")?.get("spec") }
}

/// A pod of a workload with the spec that was admitted for the first of them; a StatefulSet's volumes are each pod's own.
fn with_spec(mut pod: Pod, admitted: Option<&PodSpec>) -> Pod {
    if let Some(admitted) = admitted {
        let volumes = pod.spec.take().and_then(|spec| spec.volumes);
        pod.spec = Some(PodSpec { volumes, ..admitted.clone() });
    }
    pod
}

/// True if scheduling gates hold the pod back.
pub fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

/// Says once a workload what its pods are refused or held back for.
fn say(manifest: &Manifest, pods: &[Admitted], warnings: &mut Vec<String>) {
    let who = format!("{} {}", manifest.kind, called(manifest));
    let refused: Vec<&str> = pods.iter().filter_map(|pod| pod.refused.as_deref()).collect();
    if let Some(why) = refused.first() {
        let (some, all) = (refused.len(), pods.len());
        warnings.push(format!("{who}: the API server would refuse {some} of {all} pod(s): {why}"));
    }
    let gated = pods.iter().filter(|pod| is_gated(&pod.pod)).count();
    if gated > 0 {
        warnings.push(format!("{who}: {gated} pod(s) with schedulingGates get no node before their gates are gone"));
    }
}
