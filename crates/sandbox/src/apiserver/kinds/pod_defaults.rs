//! Defaults of pods, and the admission steps that every cluster has on for them.
use crate::apiserver::ApiServer;
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::gvr::Key;
use crate::apiserver::kinds::defaults::or;
use crate::apiserver::meta;
use crate::apiserver::store::StoreState;
use dovetail_core::admission::quota::{Charge, add, charge_of};
use dovetail_core::admission::{LimitRange, PodRefusal, Policies, PriorityClass, Quota, RuntimeClass};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Defaults of a pod's spec; for templates too.
pub fn spec(spec: &mut Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        or(spec, field, value);
    }
    for list in ["initContainers", "containers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(map) = one.as_object_mut() {
                container(map);
            }
        }
    }
}

fn container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    or(container, "imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" }));
    or(container, "terminationMessagePath", json!("/dev/termination-log"));
    or(container, "terminationMessagePolicy", json!("File"));
    or(container, "resources", json!({}));
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            or(port, "protocol", json!("TCP"));
        }
    }
}

/// Adds to a new pod what admission adds: service account, `dovetail_core::admission`'s defaults, status.
///
/// # Errors
/// 403 for what admission refuses: a class that does not exist, a LimitRange, a ResourceQuota.
pub fn admit(state: &StoreState, pod: &mut Value) -> Result<()> {
    let space = meta::text(pod, "namespace").to_owned();
    let account = pod["spec"]["serviceAccountName"].as_str().filter(|s| !s.is_empty()).unwrap_or("default").to_owned();
    pod["spec"]["serviceAccountName"] = json!(account);
    pod["spec"]["serviceAccount"] = json!(account);
    or(meta::member(pod, "spec"), "enableServiceLinks", json!(true));
    let forbidden = |pod: &Value, why: &str| ApiError::forbidden("", "pods", meta::text(pod, "name"), why);
    policies(state, &space).admit(&space, pod).map_err(|why| forbidden(pod, &words(&why)))?;
    let class = quality(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
    quotas(state, &space, pod).map_err(|why| forbidden(pod, &why))
}

/// The API server's words: it does not name the LimitRange.
fn words(why: &PodRefusal) -> String {
    match why {
        PodRefusal::LimitRange(why, _) => why.clone(),
        other => other.to_string(),
    }
}

impl ApiServer {
    /// The spec of a pod of this template in a namespace, as it would be stored; as far as admission comes where it refuses it.
    pub fn admitted_spec(&self, namespace: &str, template: &Value) -> Value {
        let mut pod = json!({ "spec": template["spec"] });
        // A pod that admission refuses does not exist; whoever asks counts existing ones.
        let _ = policies(&self.lock(), namespace).admit(namespace, &mut pod);
        pod["spec"].take()
    }
}

/// Objects of a kind in a namespace, with their names; the namespace of a cluster-wide kind is empty.
fn objects<'a>(
    state: &'a StoreState,
    group: &str,
    resource: &str,
    space: &'a str,
) -> impl Iterator<Item = (String, &'a Value)> {
    let table = state.registry.rid(group, resource).map(|rid| state.table(rid));
    let from = Key::new(space, "");
    let all = table.into_iter().flat_map(move |table| table.objects.range(from.clone()..));
    all.take_while(move |(key, _)| key.namespace == space).map(|(key, object)| (key.name.clone(), &*object.value))
}

fn policies(state: &StoreState, space: &str) -> Policies {
    let priorities = objects(state, "scheduling.k8s.io", "priorityclasses", "");
    let runtimes = objects(state, "node.k8s.io", "runtimeclasses", "");
    let ranges = objects(state, "", "limitranges", space);
    let ranges: BTreeMap<_, _> = ranges.map(|(name, range)| (name, LimitRange::from_json(range))).collect();
    Policies {
        priority_classes: priorities.map(|(name, class)| (name, PriorityClass::from_json(class))).collect(),
        runtime_classes: runtimes.map(|(name, class)| (name, RuntimeClass::from_json(class))).collect(),
        limit_ranges: BTreeMap::from([(space.to_owned(), ranges)]),
    }
}

/// Holds a new pod against the namespace's ResourceQuotas, by the pods that are there.
fn quotas(state: &StoreState, space: &str, pod: &Value) -> std::result::Result<(), String> {
    let counting = objects(state, "", "resourcequotas", space).map(|(_, quota)| Quota::from_json(quota));
    let counting: Vec<Quota> = counting.filter(|quota| quota.counts(pod)).collect();
    if counting.is_empty() {
        return Ok(());
    }
    let charge = charge_of(pod);
    for quota in counting {
        quota.admit(&used(state, space, &quota), &charge)?;
    }
    Ok(())
}

/// Usage of a quota by the pods of a namespace.
pub fn used(state: &StoreState, space: &str, quota: &Quota) -> Charge {
    let mut used = Charge::new();
    let counted = objects(state, "", "pods", space).filter(|(_, pod)| quota.counts(pod));
    counted.for_each(|(_, pod)| add(&mut used, &charge_of(pod)));
    used
}

/// The quality-of-service class, by cpu and memory of all containers.
pub fn quality(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|f| spec[f].as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in lists {
        for resource in ["cpu", "memory"] {
            let (request, limit) =
                (&container["resources"]["requests"][resource], &container["resources"]["limits"][resource]);
            any |= !request.is_null() || !limit.is_null();
            all &= !limit.is_null() && request == limit;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
