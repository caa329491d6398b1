//! Defaults of the built-in kinds, and of custom kinds by their schema.
use crate::apiserver::error::Result;
use crate::apiserver::registry::{FoundResource, ResourceDef};
use crate::apiserver::store::StoreState;
use crate::apiserver::{kinds::forms, kinds::pod_defaults, meta};
use serde_json::{Map, Value, json};

/// Fills in what is not written. `old` is what the object replaces.
///
/// # Errors
/// 403 for a pod whose priority class does not exist.
pub fn apply(state: &StoreState, found: &FoundResource, object: &mut Value, old: Option<&Value>) -> Result<()> {
    if let Some(schema) = &found.version.schema {
        schema.default(object);
    }
    if found.def.custom {
        return Ok(());
    }
    let def: &ResourceDef = &found.def;
    if GROUPS_WITH_QUANTITIES.contains(&def.group.as_str()) {
        quantities(object);
    }
    match (def.group.as_str(), def.kind.as_str()) {
        ("", "Pod") => {
            pod_defaults::spec(meta::member(object, "spec"));
            if old.is_none() {
                pod_defaults::admit(state, object)?;
            }
        }
        ("", "ReplicationController") | ("apps", "ReplicaSet") => counted(object),
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object, old.is_none()),
        ("", "Namespace") => namespace(object),
        ("", "PersistentVolumeClaim") => claim(state, object),
        ("", "PersistentVolume") => volume(object),
        ("", "Service") => service(object),
        // A member without `omitempty`.
        ("", "Event") => drop(object_map(object).entry("eventTime").or_insert(Value::Null)),
        ("storage.k8s.io", "StorageClass") => {
            or(object_map(object), "reclaimPolicy", json!("Delete"));
            or(object_map(object), "volumeBindingMode", json!("Immediate"));
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            or(object_map(object), "preemptionPolicy", json!("PreemptLowerPriority"))
        }
        _ => {}
    }
    Ok(())
}

/// API groups whose kinds hold quantities by resource name; a CSINode's `allocatable` is something else.
const GROUPS_WITH_QUANTITIES: [&str; 3] = ["", "apps", "batch"];

/// Members that hold quantities by resource name, wherever they stand in a kind of these groups.
const QUANTITIES: [&str; 6] = ["requests", "limits", "capacity", "allocatable", "overhead", "hard"];

/// Quantities are written as Kubernetes writes them: as text, without fractions.
fn quantities(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(quantities),
        Value::Object(members) => {
            for (name, member) in members {
                if let (true, Value::Object(amounts)) = (QUANTITIES.contains(&name.as_str()), &mut *member) {
                    // An unreadable amount was refused before; the sandbox's own controllers write none.
                    amounts.values_mut().for_each(|amount| drop(forms::quantity(amount)));
                }
                quantities(member);
            }
        }
        _ => {}
    }
}

/// Sets a field that is absent or null.
pub fn or(map: &mut Map<String, Value>, field: &str, value: Value) {
    let slot = map.entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

fn object_map(object: &mut Value) -> &mut Map<String, Value> {
    match object {
        Value::Object(map) => map,
        _ => unreachable!("every stored object is a map"),
    }
}

fn template(spec: &mut Map<String, Value>) {
    if let Some(template) = spec.get_mut("template").filter(|t| t.is_object()) {
        pod_defaults::spec(meta::member(template, "spec"));
    }
}

fn counted(object: &mut Value) {
    let spec = meta::member(object, "spec");
    or(spec, "replicas", json!(1));
    template(spec);
}

fn deployment(object: &mut Value) {
    counted(object);
    let spec = meta::member(object, "spec");
    or(spec, "revisionHistoryLimit", json!(10));
    or(spec, "progressDeadlineSeconds", json!(600));
    or(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    or(object_map(strategy), "type", json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        let rolling = meta::member(strategy, "rollingUpdate");
        or(rolling, "maxUnavailable", json!("25%"));
        or(rolling, "maxSurge", json!("25%"));
    }
}

fn stateful_set(object: &mut Value) {
    counted(object);
    let spec = meta::member(object, "spec");
    or(spec, "revisionHistoryLimit", json!(10));
    or(spec, "podManagementPolicy", json!("OrderedReady"));
    or(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    or(spec, "persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        or(object_map(claim), "apiVersion", json!("v1"));
        or(object_map(claim), "kind", json!("PersistentVolumeClaim"));
        or(meta::member(claim, "spec"), "volumeMode", json!("Filesystem"));
        or(meta::member(claim, "status"), "phase", json!("Pending"));
    }
}

fn daemon_set(object: &mut Value) {
    let spec = meta::member(object, "spec");
    template(spec);
    or(spec, "revisionHistoryLimit", json!(10));
    or(spec, "updateStrategy", json!({"type": "RollingUpdate"}));
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"] == "RollingUpdate" {
        let rolling = meta::member(strategy, "rollingUpdate");
        or(rolling, "maxUnavailable", json!(1));
        or(rolling, "maxSurge", json!(0));
    }
}

fn job(object: &mut Value, new: bool) {
    let (uid, name) = (meta::text(object, "uid").to_owned(), meta::text(object, "name").to_owned());
    let spec = meta::member(object, "spec");
    if spec.get("completions").is_none_or(Value::is_null) && spec.get("parallelism").is_none_or(Value::is_null) {
        or(spec, "completions", json!(1));
    }
    or(spec, "parallelism", json!(1));
    or(spec, "backoffLimit", json!(6));
    or(spec, "completionMode", json!("NonIndexed"));
    or(spec, "suspend", json!(false));
    or(spec, "manualSelector", json!(false));
    if new && spec["manualSelector"] == false && spec.get("selector").is_none_or(Value::is_null) {
        spec.insert("selector".to_owned(), json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
        if let Some(template) = spec.get_mut("template").filter(|t| t.is_object()) {
            let meta_of = meta::metadata_mut(template);
            or(meta_of, "labels", json!({}));
            for (key, value) in [("controller-uid", &uid), ("job-name", &name)] {
                meta_of["labels"][key] = json!(value);
                meta_of["labels"][format!("batch.kubernetes.io/{key}")] = json!(value);
            }
        }
    }
    template(spec);
}

fn namespace(object: &mut Value) {
    let name = meta::text(object, "name").to_owned();
    or(meta::member(object, "spec"), "finalizers", json!(["kubernetes"]));
    or(meta::member(object, "status"), "phase", json!("Active"));
    or(meta::metadata_mut(object), "labels", json!({}));
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
}

fn claim(state: &StoreState, object: &mut Value) {
    let class = default_storage_class(state);
    let spec = meta::member(object, "spec");
    or(spec, "volumeMode", json!("Filesystem"));
    if let Some(class) = class {
        or(spec, "storageClassName", json!(class));
    }
    or(meta::member(object, "status"), "phase", json!("Pending"));
}

/// The newest storage class that is marked as the default.
fn default_storage_class(state: &StoreState) -> Option<String> {
    let rid = state.registry.rid("storage.k8s.io", "storageclasses")?;
    let is_default = |v: &Value| v["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
    let classes = state.table(rid).objects.values().filter(|o| is_default(&o.value));
    classes
        .max_by_key(|o| o.value["metadata"]["creationTimestamp"].as_str().map(str::to_owned))
        .map(|o| o.key.name.clone())
}

fn volume(object: &mut Value) {
    let spec = meta::member(object, "spec");
    or(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
    or(spec, "volumeMode", json!("Filesystem"));
    or(meta::member(object, "status"), "phase", json!("Pending"));
}

fn service(object: &mut Value) {
    let uid = meta::text(object, "uid").to_owned();
    let spec = meta::member(object, "spec");
    or(spec, "type", json!("ClusterIP"));
    // From the range that EKS names for the cluster, drawn from the uid: nothing answers there.
    if spec["type"] != "ExternalName" {
        let bits = u32::from_str_radix(uid.get(..8).unwrap_or_default(), 16).unwrap_or_default();
        or(spec, "clusterIP", json!(format!("172.20.{}.{}", 1 + bits % 250, 2 + bits / 250 % 250)));
        let own = spec["clusterIP"].clone();
        or(spec, "clusterIPs", json!([own]));
    }
    or(spec, "sessionAffinity", json!("None"));
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["port"].clone();
        let port = object_map(port);
        or(port, "protocol", json!("TCP"));
        or(port, "targetPort", number);
    }
}
