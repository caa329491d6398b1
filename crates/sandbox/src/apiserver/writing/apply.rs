//! Server-side apply: a client says what it wants to own, the server merges it and tells of conflicts.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::handler::RoutedRequest;
use crate::apiserver::meta;
use crate::apiserver::store::StoreState;
use crate::apiserver::writing::fields::{Fields, compare};
use crate::apiserver::writing::managed::{self, ManagedFieldsEntry};
use crate::apiserver::writing::shape::{ListType, SchemaPosition, item_key};
use crate::apiserver::writing::write::WriteResult;
use serde_json::{Value, json};

/// Applies the configuration in a request's body: creates the object, or merges into it.
///
/// # Errors
/// 422 without field manager; 400 for a configuration that names another object; 409 for fields of others, without `force`.
pub(in crate::apiserver) fn apply(
    state: &mut StoreState,
    call: &mut RoutedRequest<'_>,
    key: &Key,
) -> Result<WriteResult> {
    if call.query.manager.is_none() {
        let cause =
            StatusCause::new("FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
        return Err(ApiError::bad_options("PatchOptions", cause));
    }
    let config = configuration(call, key)?;
    let found = call.found;
    let mut options = call.options.clone();
    options.applied = true;
    let now = state.now;
    if state.get(found.rid, key).is_none() {
        if !options.subresource.is_empty() {
            return Err(ApiError::not_found(&found.def.group, &found.def.plural, &key.name));
        }
        let mut mine = ManagedFieldsEntry::new(found, "Apply", &options, now);
        mine.fields = owned(call, &config);
        let mut object = config;
        managed::set_entries(&mut object, &[mine]);
        return state.create(found, &key.namespace, object, &options);
    }
    let force = call.query.force;
    state.modify(found, key, &options, |live| {
        let mut mine = ManagedFieldsEntry::new(found, "Apply", &options, now);
        mine.fields = owned(call, &config);
        merge_into(live, &config, mine, SchemaPosition::from_resource(found), force)
    })
}

fn configuration(call: &mut RoutedRequest<'_>, key: &Key) -> Result<Value> {
    let written = std::mem::take(&mut call.body);
    if written["apiVersion"].is_null() || written["kind"].is_null() {
        return Err(ApiError::bad_request("the configuration to apply needs apiVersion and kind"));
    }
    if !written["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let name = meta::text(&written, "name");
    if !name.is_empty() && name != key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    call.body = written;
    let mut config = crate::apiserver::http::handler::written_in_part(call)?;
    meta::set(&mut config, "name", Some(json!(key.name)));
    Ok(config)
}

fn owned(call: &RoutedRequest<'_>, config: &Value) -> Fields {
    let mut fields = Fields::from_value(config, SchemaPosition::from_resource(call.found));
    managed::strip(&mut fields);
    // Through the main resource nobody owns a status that is a subresource of its own, and the other way round.
    match call.options.subresource.as_str() {
        "status" => ["f:spec", "f:metadata"].iter().for_each(|part| fields.remove(part)),
        _ if call.found.version.status => fields.remove("f:status"),
        _ => {}
    }
    fields
}

/// The object after `mine` applied `config` to `live`.
fn merge_into(
    live: &Value,
    config: &Value,
    mine: ManagedFieldsEntry,
    shape: SchemaPosition<'_>,
    force: bool,
) -> Result<Value> {
    let mut entries = managed::entries(live);
    let mut merged = live.clone();
    merge(&mut merged, config, shape);
    let (mut changed, _) = compare(live, &merged, shape);
    managed::strip(&mut changed);
    let changed = changed.common(&mine.fields);
    let (before, others): (Vec<&ManagedFieldsEntry>, Vec<&ManagedFieldsEntry>) =
        entries.iter().partition(|e| e.same_owner(&mine));
    if !force {
        refuse_conflicts(&others, &changed)?;
    }
    let mut theirs = Fields::default();
    others.iter().for_each(|other| theirs.union(&other.fields));
    if let Some(before) = before.first() {
        remove(&mut merged, &before.fields.without(&mine.fields), &theirs, shape);
    }
    for entry in entries.iter_mut().filter(|e| !e.same_owner(&mine)) {
        entry.fields = entry.fields.without(&changed);
    }
    match entries.iter_mut().find(|e| e.same_owner(&mine)) {
        Some(entry) if entry.fields == mine.fields && changed.is_empty() => {}
        Some(entry) => *entry = mine,
        None => entries.push(mine),
    }
    managed::set_entries(&mut merged, &entries);
    Ok(merged)
}

fn refuse_conflicts(others: &[&ManagedFieldsEntry], changed: &Fields) -> Result<()> {
    let conflicts: Vec<(String, Vec<String>)> = others
        .iter()
        .map(|other| (other.named(), other.fields.common(changed).paths()))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match (count, conflicts.first()) {
        (0, _) | (_, None) => return Ok(()),
        (1, Some((manager, paths))) => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths.concat())
        }
        _ => {
            let of = |(manager, paths): &(String, Vec<String>)| {
                let list: String = paths.iter().map(|path| format!("\n- {path}")).collect();
                format!("conflicts with {manager}:{list}")
            };
            let all: Vec<String> = conflicts.iter().map(of).collect();
            format!("Apply failed with {count} conflicts: {}", all.join("\n"))
        }
    };
    let causes = conflicts.iter().flat_map(|(manager, paths)| {
        paths.iter().map(move |path| StatusCause::new("FieldManagerConflict", path, format!("conflict with {manager}")))
    });
    Err(ApiError::new(409, "Conflict", message).with_causes(causes.collect()))
}

/// Merges a configuration into an object: maps and map-lists by key, the rest as a whole.
fn merge(live: &mut Value, config: &Value, shape: SchemaPosition<'_>) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !shape.atomic_map() => {
            for (field, value) in config {
                merge(live.entry(field).or_insert(Value::Null), value, shape.field(field));
            }
        }
        (Value::Array(live), Value::Array(config)) if shape.list() != ListType::Atomic => {
            merge_list(live, config, shape)
        }
        (live, config) => *live = config.clone(),
    }
}

fn merge_list(live: &mut Vec<Value>, config: &[Value], shape: SchemaPosition<'_>) {
    for item in config {
        let place = match shape.list() {
            ListType::Map(keys) => live.iter().position(|there| item_key(there, &keys) == item_key(item, &keys)),
            _ => live.iter().position(|there| there == item),
        };
        match place {
            Some(at) => merge(&mut live[at], item, shape.item()),
            None => live.push(item.clone()),
        }
    }
}

/// Takes out what is no longer owned by anybody.
fn remove(value: &mut Value, dropped: &Fields, theirs: &Fields, shape: SchemaPosition<'_>) {
    for (element, inner) in dropped.parts() {
        let shared = theirs.get(element);
        match (element.split_once(':'), &mut *value) {
            (Some(("f", field)), Value::Object(map)) => {
                let Some(there) = map.get_mut(field) else { continue };
                if shared.is_none() && (inner.is_empty() || !there.is_object() && !there.is_array()) {
                    map.remove(field);
                    continue;
                }
                remove(there, inner, shared.unwrap_or(&Fields::default()), shape.field(field));
                if is_hollow(there) && shared.is_none() {
                    map.remove(field);
                }
            }
            (Some(("k", key)), Value::Array(items)) => {
                let ListType::Map(keys) = shape.list() else { continue };
                let Some(at) = items.iter().position(|item| text_of(&item_key(item, &keys)) == key) else { continue };
                match shared {
                    None if inner.get(".").is_some() => drop(items.remove(at)),
                    shared => remove(&mut items[at], inner, shared.unwrap_or(&Fields::default()), shape.item()),
                }
            }
            (Some(("v", text)), Value::Array(items)) if shared.is_none() => {
                items.retain(|item| text_of(item) != text);
            }
            _ => {}
        }
    }
}

/// A value as managedFields names it: its JSON text.
fn text_of(value: &Value) -> String {
    value.to_string()
}

fn is_hollow(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
