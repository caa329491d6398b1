//! The pod that admission makes: the fields that a Kubernetes API server fills in on a new pod before anybody sees it, and its
//! refusals. The planner, the control plane's idea of a DaemonSet's pods, and the sandbox's API server all use this module, so
//! that none of them plans for a pod that no cluster would have.
//!
//! The order is the API server's: defaulting (requests from limits, ports of the host's network, requests of the pod as a whole),
//! LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass, ExtendedResourceToleration (on in EKS), and last ResourceQuota,
//! which is checked apart, as it counts existing pods ([`quota`]). The admitted pod is checked by the API server's validation
//! ([`valid`]): a LimitRange's limit may lie below a container's own request.
//!
//! Pods are JSON here: the API server keeps fields that this version of the types does not know, and so do we.

mod defaults;
mod limit_range;
pub mod quota;
mod runtime_class;
#[cfg(test)]
mod tests;
pub mod valid;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use thiserror::Error;

pub use limit_range::LimitRange;
pub use quota::Quota;
pub use runtime_class::RuntimeClass;

/// The reason that a pod is refused. The texts are those of the API server, after `pods "NAME" is forbidden: `.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodRefusal {
    /// It names a PriorityClass that is not there.
    #[error("no PriorityClass with name {0} was found")]
    NoPriorityClass(String),
    /// It writes a priority that its class does not have.
    #[error(
        "the integer value of priority ({written}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    Priority {
        /// The priority in the pod's spec.
        written: i64,
        /// The priority of its class, or of the default class.
        computed: i64,
    },
    /// It names a RuntimeClass that is not there.
    #[error("pod rejected: RuntimeClass {0:?} not found")]
    NoRuntimeClass(String),
    /// It contradicts its RuntimeClass.
    #[error("pod rejected: {0}")]
    RuntimeClass(String),
    /// The pod is not valid after admission; the text has every invalid field.
    #[error("{0}")]
    Invalid(String),
    /// It breaks a LimitRange of its namespace; the text has every broken rule.
    #[error("{0} (LimitRange {1})")]
    LimitRange(String, String),
}

/// A PriorityClass, as far as admission needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityClass {
    /// The priority of its pods.
    pub value: i64,
    /// True if pods that name no class are of it.
    pub global_default: bool,
    /// Preemption policy of its pods: `PreemptLowerPriority` or `Never`.
    pub preemption_policy: String,
}

impl PriorityClass {
    /// Reads a PriorityClass; absent fields get Kubernetes' defaults.
    #[must_use]
    pub fn from_json(class: &Value) -> Self {
        Self {
            value: class["value"].as_i64().unwrap_or_default(),
            global_default: class["globalDefault"] == true,
            preemption_policy: class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned(),
        }
    }

    /// The reason, in the API server's words, that it refuses a new class of that name; `default` is the existing default class.
    #[must_use]
    pub fn refusal(&self, name: &str, default: Option<&str>) -> Option<String> {
        if SYSTEM.contains(&(name, self.value)) {
            return None;
        }
        if name.starts_with("system-") {
            return Some("priority class names with 'system-' prefix are reserved for system use only".to_owned());
        }
        if self.value > MOST_OF_USERS {
            return Some(format!("maximum allowed value of a user defined priority is {MOST_OF_USERS}"));
        }
        let other = default.filter(|other| self.global_default && *other != name)?;
        Some(format!("PriorityClass {other} is already marked as default. Only one default can exist"))
    }
}

/// The highest priority that users may give (Kubernetes, "Pod Priority and Preemption").
const MOST_OF_USERS: i64 = 1_000_000_000;

/// The classes that are in every cluster (Kubernetes, "Pod Priority and Preemption").
const SYSTEM: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The objects by which a cluster's admission goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// PriorityClasses by name.
    pub priority_classes: BTreeMap<String, PriorityClass>,
    /// RuntimeClasses by name.
    pub runtime_classes: BTreeMap<String, RuntimeClass>,
    /// LimitRanges by namespace, each namespace's by name.
    pub limit_ranges: BTreeMap<String, BTreeMap<String, LimitRange>>,
}

impl Policies {
    /// Fills in a new pod of `namespace` as the API server would.
    ///
    /// # Errors
    /// [`PodRefusal`] if the API server would refuse it.
    pub fn admit(&self, namespace: &str, pod: &mut Value) -> Result<(), PodRefusal> {
        if !pod["spec"].is_object() {
            pod["spec"] = json!({});
        }
        let Some(spec) = pod["spec"].as_object_mut() else { return Ok(()) };
        defaults::ports_of_the_host(spec);
        defaults::requests_from_limits(spec);
        defaults::requests_of_the_pod(spec);
        let ranges = self.limit_ranges.get(namespace);
        for range in ranges.into_iter().flat_map(BTreeMap::values) {
            range.fill(spec);
        }
        self.priority(spec)?;
        defaults::tolerations(spec);
        runtime_class::admit(&self.runtime_classes, spec)?;
        defaults::tolerations_of_devices(spec);
        for (name, range) in ranges.into_iter().flatten() {
            range.check(spec).map_err(|why| PodRefusal::LimitRange(why, name.clone()))?;
        }
        Ok(())
    }

    /// The priority that a PriorityClass gives, if it is known.
    #[must_use]
    pub fn priority_named(&self, name: &str) -> Option<i64> {
        self.class_of(Some(name)).ok().flatten().map(|(_, class)| class.value)
    }

    /// [`Policies::admit`], followed by the API server's validation.
    ///
    /// # Errors
    /// [`PodRefusal`] if the API server would refuse the pod.
    pub fn admit_valid(&self, namespace: &str, pod: &mut Value) -> Result<(), PodRefusal> {
        self.admit(namespace, pod)?;
        let wrong: Vec<String> = valid::pod(&pod["spec"], "spec").iter().map(ToString::to_string).collect();
        match wrong.as_slice() {
            [] => Ok(()),
            [one] => Err(PodRefusal::Invalid(one.clone())),
            several => Err(PodRefusal::Invalid(format!("[{}]", several.join(", ")))),
        }
    }

    /// The class that a pod is of: the one that it names, or else the default of the cluster. Of several defaults the
    /// one of least value counts, as in Kubernetes.
    fn class_of(&self, name: Option<&str>) -> Result<Option<(String, PriorityClass)>, PodRefusal> {
        let Some(name) = name else {
            let defaults = self.priority_classes.iter().filter(|(_, class)| class.global_default);
            let least = defaults.min_by_key(|(_, class)| class.value);
            return Ok(least.map(|(name, class)| (name.clone(), class.clone())));
        };
        if let Some(class) = self.priority_classes.get(name) {
            return Ok(Some((name.to_owned(), class.clone())));
        }
        let system = SYSTEM.iter().find(|(system, _)| *system == name);
        let system = system.map(|(name, value)| {
            let preemption_policy = "PreemptLowerPriority".to_owned();
            ((*name).to_owned(), PriorityClass { value: *value, global_default: false, preemption_policy })
        });
        system.map(Some).ok_or_else(|| PodRefusal::NoPriorityClass(name.to_owned()))
    }

    fn priority(&self, spec: &mut Map<String, Value>) -> Result<(), PodRefusal> {
        let class = self.class_of(text(spec, "priorityClassName"))?;
        let (computed, policy) = match &class {
            Some((_, class)) => (class.value, class.preemption_policy.as_str()),
            None => (0, "PreemptLowerPriority"),
        };
        if let Some(written) = spec.get("priority").and_then(Value::as_i64).filter(|written| *written != computed) {
            return Err(PodRefusal::Priority { written, computed });
        }
        spec.insert("priority".into(), json!(computed));
        or(spec, "preemptionPolicy", json!(policy));
        if let Some((name, _)) = class {
            spec.insert("priorityClassName".into(), json!(name));
        }
        Ok(())
    }
}

/// A string field that is there and not empty.
fn text<'a>(map: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    map.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Sets a field that is absent or null.
fn or(map: &mut Map<String, Value>, field: &str, value: Value) {
    let slot = map.entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

/// The containers of a pod that ask for resources: init containers and sidecars among them.
fn containers(spec: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().filter_map(|list| spec.get(list)?.as_array()).flatten()
}

/// The same containers as [`containers`], to be changed.
fn containers_mut(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let lists = spec.iter_mut().filter(|(field, _)| matches!(field.as_str(), "containers" | "initContainers"));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter(|container| container.is_object())
}

/// Quantities by resource, as text; plain numbers become text too. Empty when there are none.
fn quantities(amounts: &Value) -> BTreeMap<String, String> {
    let written = amounts.as_object().into_iter().flatten().filter_map(|(name, amount)| {
        let text = match amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((name.clone(), text))
    });
    written.collect()
}

/// Sets the requests or limits of a container (or pod) that it does not name.
fn fill(owner: &mut Value, field: &str, from: &BTreeMap<String, String>) {
    if from.is_empty() {
        return;
    }
    let level = &mut owner["resources"];
    if !level.is_object() {
        *level = json!({});
    }
    if !level[field].is_object() {
        level[field] = json!({});
    }
    let Some(amounts) = level[field].as_object_mut() else { return };
    for (name, amount) in from {
        or(amounts, name, json!(amount));
    }
}
