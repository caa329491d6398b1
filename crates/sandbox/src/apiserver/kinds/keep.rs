//! Fields that an update may not change, whatever the client sends.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::gvr::Key;
use crate::apiserver::registry::{FoundResource, ResourceDef};
use crate::apiserver::writing::write::WriteOptions;
use crate::apiserver::{meta, resize, writing::managed};
use serde_json::{Value, json};

/// Refuses a write that is about another state, or another object, than the one stored.
pub fn preconditions(def: &ResourceDef, key: &Key, old: &Value, new: &Value) -> Result<()> {
    let version = meta::text(new, "resourceVersion");
    if !version.is_empty() && version != meta::text(old, "resourceVersion") {
        return Err(ApiError::modified(&def.group, &def.plural, &key.name));
    }
    let uid = meta::text(new, "uid");
    if !uid.is_empty() && uid != meta::text(old, "uid") {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::text(old, "uid"));
        return Err(ApiError::conflict(&def.group, &def.plural, &key.name, &why));
    }
    let name = meta::text(new, "name");
    if !name.is_empty() && name != key.name {
        let message = format!("the name of the object ({name}) does not match the name on the URL ({})", key.name);
        return Err(ApiError::bad_request(message));
    }
    let space = meta::text(new, "namespace");
    if !space.is_empty() && space != key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Metadata that only the server writes stays as it is.
pub fn keep_metadata(def: &ResourceDef, options: &WriteOptions, old: &Value, new: &mut Value) {
    if !options.subresource.is_empty() && def.custom {
        let managed = new["metadata"].get("managedFields").cloned();
        new["metadata"] = old["metadata"].clone();
        if options.applied && managed.is_some() {
            meta::set(new, "managedFields", managed);
        }
        return;
    }
    const KEPT: [&str; 10] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
        "generateName",
    ];
    let keep = |new: &mut Value, field: &str| {
        let kept = old["metadata"].get(field);
        if new["metadata"].get(field) != kept {
            meta::set(new, field, kept.cloned());
        }
    };
    KEPT.iter().for_each(|field| keep(new, field));
    if !options.subresource.is_empty() {
        ["ownerReferences", "finalizers"].iter().for_each(|field| keep(new, field));
    }
    if new["metadata"].get("managedFields").is_none() && !options.applied {
        meta::set(new, "managedFields", old["metadata"].get("managedFields").cloned());
    }
    for field in ["apiVersion", "kind"] {
        if new[field] != old[field] {
            new[field] = old[field].clone();
        }
    }
}

/// Members of the metadata that hold nothing are not there.
pub fn drop_empty(object: &mut Value) {
    let Some(map) = object["metadata"].as_object_mut() else { return };
    const LISTS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
    let empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.is_null(),
    };
    map.retain(|name, value| !LISTS.contains(&name.as_str()) || !empty(value));
}

/// A write of the status changes nothing else; any other write does not change the status.
pub fn isolate(found: &FoundResource, options: &WriteOptions, old: &Value, new: &mut Value) {
    let put = |new: &mut Value, field: &str| match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => {
            if let Some(map) = new.as_object_mut() {
                map.remove(field);
            }
        }
    };
    match options.subresource.as_str() {
        "status" => {
            let other = |field: &str| field != "status" && field != "metadata" && old.get(field) != new.get(field);
            let fields = old.as_object().into_iter().chain(new.as_object()).flat_map(|map| map.keys());
            let fields: Vec<String> = fields.filter(|field| other(field)).cloned().collect();
            for field in &fields {
                put(new, field);
            }
        }
        // It is made from the old object, and may report in the status what was allocated so far.
        resize::RESIZE => {}
        _ if found.version.status && old.get("status") != new.get("status") => put(new, "status"),
        _ => {}
    }
}

/// The generation counts changes of everything but metadata and status.
pub fn count_generation(def: &ResourceDef, old: &Value, new: &mut Value) {
    if !def.generation {
        return;
    }
    let counts = |(name, _): &(&String, &Value)| *name != "metadata" && *name != "status";
    let rest = |object: &Value| -> usize { object.as_object().into_iter().flatten().filter(counts).count() };
    let mut counted = old.as_object().into_iter().flatten().filter(counts);
    if rest(old) != rest(new) || counted.any(|(name, value)| new.get(name) != Some(value)) {
        meta::set(new, "generation", Some(json!(meta::generation(old) + 1)));
    }
}

/// True if a write changes nothing (then no version is given, as in etcd3 storage). Times of managed fields do not count.
pub fn same(old: &Value, new: &Value) -> bool {
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else { return false };
    let rest = |m: &serde_json::Map<String, Value>| m.iter().filter(|(k, _)| *k != "metadata").count();
    rest(a) == rest(b)
        && a.iter().filter(|(k, _)| *k != "metadata").all(|(k, v)| b.get(k) == Some(v))
        && managed::same_but_for_times(&old["metadata"], &new["metadata"])
}
