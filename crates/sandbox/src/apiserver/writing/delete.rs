//! Deleting: grace, finalizers, preconditions.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::meta;
use crate::apiserver::registry::{FoundResource, ResourceDef, Rid};
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::writing::gc::{FOREGROUND, Garbage, ORPHAN};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// Treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They stay.
    Orphan,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds that a pod gets to end; none for its own.
    pub grace_period_seconds: Option<i64>,
    /// Dependents; none for the resource's default.
    pub propagation: Option<Propagation>,
    /// Only when the object has this uid.
    pub uid: Option<String>,
    /// Only when the object has this resourceVersion.
    pub resource_version: Option<String>,
    /// Check, but delete nothing.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads a `DeleteOptions` object.
    ///
    /// # Errors
    /// 422 for an unknown propagation policy.
    pub fn from_body(body: &Value) -> Result<Self> {
        let propagation = match body["propagationPolicy"].as_str() {
            None if body["orphanDependents"] == true => Some(Propagation::Orphan),
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
                );
                let cause = StatusCause::new("FieldValueNotSupported", "propagationPolicy", message);
                return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause]));
            }
        };
        let text = |v: &Value| v.as_str().filter(|s| !s.is_empty()).map(str::to_owned);
        Ok(DeleteOptions {
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: body["dryRun"].as_array().is_some_and(|list| !list.is_empty()),
        })
    }
}

#[derive(Clone, Debug)]
pub struct Deleted {
    /// The object as it is now, or as it was last.
    pub object: Arc<StoredObject>,
    /// True if it is gone; otherwise it waits for its end.
    pub gone: bool,
}

impl StoreState {
    /// Deletes an object, or marks it when it has finalizers or time to end.
    ///
    /// # Errors
    /// 404, and 409 when a precondition does not hold.
    pub fn delete(&mut self, found: &FoundResource, key: &Key, options: &DeleteOptions) -> Result<Deleted> {
        let def = found.def.clone();
        let object =
            self.get(found.rid, key).cloned().ok_or_else(|| ApiError::not_found(&def.group, &def.plural, &key.name))?;
        hold(&def, &object.value, options)?;
        let grace = grace(&def, &object.value, options);
        if options.dry_run {
            return Ok(Deleted { gone: grace == 0 && meta::finalizers(&object.value).is_empty(), object });
        }
        let deleted =
            self.start_end(found.rid, key, &object, grace, options.propagation.unwrap_or(default_propagation(&def)));
        self.collect();
        Ok(match self.get(found.rid, key) {
            Some(now) if meta::text(&now.value, "uid") == meta::text(&object.value, "uid") => {
                Deleted { object: now.clone(), gone: false }
            }
            _ => deleted,
        })
    }

    /// Marks the object, and removes it if nothing holds it.
    fn start_end(
        &mut self,
        rid: Rid,
        key: &Key,
        object: &Arc<StoredObject>,
        grace: i64,
        propagation: Propagation,
    ) -> Deleted {
        let mut marked = Value::clone(&object.value);
        self.hold_for_dependents(rid, object, propagation, &mut marked);
        let first = !meta::deleting(&marked);
        let shorter = marked["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|left| grace < left);
        if first || shorter {
            let at = self.now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(self.now);
            meta::set(&mut marked, "deletionTimestamp", Some(json!(meta::seconds(at))));
            meta::set(&mut marked, "deletionGracePeriodSeconds", Some(json!(grace)));
            let generation = meta::generation(&marked);
            if generation > 0 && first {
                meta::set(&mut marked, "generation", Some(json!(generation + 1)));
            }
            if self.is_namespace(rid) {
                marked["status"]["phase"] = json!("Terminating");
            }
        }
        let held = !meta::finalizers(&marked).is_empty() || self.has_contents(rid);
        if grace > 0 || held {
            let object = if marked == *object.value { object.clone() } else { self.put(rid, key.clone(), marked) };
            self.garbage.push_back(Garbage::Ending(rid, key.clone()));
            return Deleted { object, gone: false };
        }
        let last = self.remove(rid, key).unwrap_or_else(|| object.clone());
        if last.value["kind"] != "Pod" {
            return Deleted { object: last, gone: true };
        }
        // A pod is answered as it was marked, with no time left.
        meta::set(&mut marked, "resourceVersion", last.value["metadata"].get("resourceVersion").cloned());
        Deleted { object: Arc::new(StoredObject::loose(key.clone(), marked)), gone: true }
    }

    /// Takes an object out and leaves its dependents to the garbage collector.
    pub(in crate::apiserver) fn remove(&mut self, rid: Rid, key: &Key) -> Option<Arc<StoredObject>> {
        let last = self.take_out(rid, key)?;
        self.wake_waiting_owners(&last);
        self.garbage.push_back(Garbage::Gone(meta::text(&last.value, "uid").to_owned()));
        self.garbage.push_back(Garbage::Content(rid, key.namespace.clone()));
        if last.value["kind"] == "CustomResourceDefinition" {
            self.unregister(&last.value);
        }
        Some(last)
    }

    /// The kind is no longer served. Its objects have gone before.
    fn unregister(&mut self, definition: &Value) {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        if let Some(rid) = self.registry.rid(group, plural) {
            self.registry.remove(rid);
        }
    }

    /// Removes an object whose end nothing holds up any more.
    pub(in crate::apiserver) fn finish_if_done(&mut self, rid: Rid, key: &Key) {
        let done = self.get(rid, key).is_some_and(|object| {
            let grace = object.value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
            meta::deleting(&object.value) && meta::finalizers(&object.value).is_empty() && grace == 0
        });
        if done && !self.has_contents(rid) {
            self.remove(rid, key);
        }
    }

    fn hold_for_dependents(&self, rid: Rid, object: &StoredObject, propagation: Propagation, marked: &mut Value) {
        let wanted = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        let Some(wanted) = wanted else { return };
        // Without dependents there is nothing to wait for.
        if self.has_contents(rid) || self.owned_by(meta::text(&object.value, "uid")).is_empty() {
            return;
        }
        let mut list: Vec<&str> =
            meta::finalizers(&object.value).into_iter().filter(|f| ![FOREGROUND, ORPHAN].contains(f)).collect();
        list.push(wanted);
        meta::set(marked, "finalizers", Some(json!(list)));
    }
}

fn default_propagation(def: &ResourceDef) -> Propagation {
    if def.orphans { Propagation::Orphan } else { Propagation::Background }
}

fn hold(def: &ResourceDef, object: &Value, options: &DeleteOptions) -> Result<()> {
    for (name, field, wanted, perhaps) in [
        ("UID", "uid", &options.uid, "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", &options.resource_version, "modified"),
    ] {
        let there = meta::text(object, field);
        if let Some(wanted) = wanted.as_deref().filter(|w| *w != there) {
            let why = format!(
                "the {name} in the precondition ({wanted}) does not match the {name} in record ({there}). The object might have been {perhaps}"
            );
            // By its kind, where other conflicts name the resource: as kube-apiserver does.
            return Err(ApiError::conflict(&def.group, &def.kind, meta::text(object, "name"), &why));
        }
    }
    Ok(())
}

/// Seconds that the object gets to end: only pods that run somewhere get any.
fn grace(def: &ResourceDef, object: &Value, options: &DeleteOptions) -> i64 {
    if def.kind != "Pod" || !def.group.is_empty() {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let bound = object["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let wanted = options.grace_period_seconds.unwrap_or(own);
    match wanted {
        _ if !bound || over => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}
