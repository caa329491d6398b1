//! RuntimeClasses: overhead of their pods beside the containers, and the nodes on which they can run.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{PodRefusal, quantities, text};
use crate::resources::Resources;

/// A RuntimeClass, as far as admission needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeClass {
    /// Resources that a pod of it takes beside its containers, as quantity text by resource.
    pub overhead: BTreeMap<String, String>,
    /// Labels that its nodes have.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations that its pods get, as the API has them.
    pub tolerations: Vec<Value>,
}

impl RuntimeClass {
    /// Reads a RuntimeClass of the API.
    #[must_use]
    pub fn from_json(class: &Value) -> Self {
        let selector = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
        let labels = selector.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Self {
            overhead: quantities(&class["overhead"]["podFixed"]),
            node_selector: labels.collect(),
            tolerations: class["scheduling"]["tolerations"].as_array().cloned().unwrap_or_default(),
        }
    }
}

/// Applies a pod's RuntimeClass to it.
///
/// # Errors
/// [`PodRefusal`] for a class that is not there, or that the pod contradicts.
pub fn admit(classes: &BTreeMap<String, RuntimeClass>, spec: &mut Map<String, Value>) -> Result<(), PodRefusal> {
    let none = RuntimeClass::default();
    let class = match text(spec, "runtimeClassName") {
        None => &none,
        Some(name) => classes.get(name).ok_or_else(|| PodRefusal::NoRuntimeClass(name.to_owned()))?,
    };
    overhead(class, spec)?;
    node_selector(class, spec)?;
    for toleration in &class.tolerations {
        let list = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut().filter(|list| !list.contains(toleration)) {
            list.push(toleration.clone());
        }
    }
    Ok(())
}

fn overhead(class: &RuntimeClass, spec: &mut Map<String, Value>) -> Result<(), PodRefusal> {
    let written = spec.get("overhead").map(quantities).unwrap_or_default();
    let amounts = |texts: &BTreeMap<String, String>| {
        Resources::parse(texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))).ok()
    };
    match (written.is_empty(), class.overhead.is_empty()) {
        (true, true) => {}
        (true, false) => drop(spec.insert("overhead".into(), json!(class.overhead))),
        (false, true) => {
            let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(PodRefusal::RuntimeClass(why.into()));
        }
        (false, false) if amounts(&written) == amounts(&class.overhead) => {}
        (false, false) => {
            let why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(PodRefusal::RuntimeClass(why.into()));
        }
    }
    Ok(())
}

fn node_selector(class: &RuntimeClass, spec: &mut Map<String, Value>) -> Result<(), PodRefusal> {
    if class.node_selector.is_empty() {
        return Ok(());
    }
    let own = spec.entry("nodeSelector").or_insert_with(|| json!({}));
    if own.is_null() {
        *own = json!({});
    }
    let Some(own) = own.as_object_mut() else { return Ok(()) };
    for (key, value) in &class.node_selector {
        match own.get(key).and_then(Value::as_str) {
            Some(other) if other != value => {
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                );
                return Err(PodRefusal::RuntimeClass(why));
            }
            _ => drop(own.insert(key.clone(), json!(value))),
        }
    }
    Ok(())
}
