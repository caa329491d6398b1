//! Creating and updating: what every write goes through before it is stored.
use crate::apiserver::admission::Review;
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::body::{MOST_STORED, too_large};
use crate::apiserver::kinds::keep::{count_generation, drop_empty, isolate, keep_metadata, preconditions, same};
use crate::apiserver::registry::{FoundResource, ResourceDef};
use crate::apiserver::resize::RESIZE;
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::{
    custom::crd, custom::schema, kinds::amounts, kinds::defaults, kinds::typed, kinds::validate, meta, writing::managed,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Treatment of fields that the schema does not know (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refuse the write.
    Strict,
    /// Drop them and say so in a `Warning` header.
    #[default]
    Warn,
    /// Drop them.
    Ignore,
}

#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Go through everything, store nothing.
    pub dry_run: bool,
    /// The field manager; none for the sandbox's own controllers, whose fields nobody owns.
    pub manager: Option<String>,
    pub validation: FieldValidation,
    /// Name of the user who writes.
    pub user: String,
    /// `status`, `scale`, … or empty.
    pub subresource: String,
    /// True if `metadata.managedFields` of the new object is already right (server-side apply).
    pub applied: bool,
    /// Fields that stand twice in what was sent.
    pub duplicates: Vec<String>,
    /// Fields that the version does not know in which it was sent, where another is stored.
    pub unknown: Vec<String>,
    /// Number of bytes that were sent.
    pub sent: usize,
    /// True for the outcome of a patch: one that cannot be decoded does not fit, where a whole body is a bad request.
    pub patched: bool,
}

#[derive(Clone, Debug)]
pub struct WriteResult {
    pub object: Arc<StoredObject>,
    /// For the `Warning` headers.
    pub warnings: Vec<String>,
    /// True if the object is new.
    pub created: bool,
}

impl StoreState {
    /// Creates an object in `namespace` (empty for cluster-wide kinds).
    ///
    /// # Errors
    /// 400, 403 (namespace going), 404 (no such namespace), 409 (exists) and 422 as the Kubernetes API does.
    pub fn create(
        &mut self,
        found: &FoundResource,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<WriteResult> {
        let def = found.def.clone();
        let warnings = self.name_new(found, namespace, &mut object, options)?;
        let key = Key::new(namespace, meta::text(&object, "name"));
        if self.get(found.rid, &key).is_some() {
            return Err(ApiError::already_exists(&def.group, &def.plural, &key.name));
        }
        self.namespace_open(&def, &key)?;
        if self.kind_is_ending(&def) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::new(405, "MethodNotAllowed", why));
        }
        self.stamp(found, &mut object);
        drop_empty(&mut object);
        defaults::apply(self, found, &mut object, None)?;
        self.admit(found, &mut object, None, options)?;
        check(found, &object, None, options)?;
        if def.kind == "CustomResourceDefinition" {
            object = crd::established(object, &meta::seconds(self.now));
            crd::resource(&object)?;
        }
        if !options.applied {
            managed::track(found, None, &mut object, options, self.now);
        }
        if options.dry_run {
            return Ok(WriteResult { object: Arc::new(StoredObject::loose(key, object)), warnings, created: true });
        }
        if def.kind == "Event" {
            self.expire_events(found.rid);
        }
        let object = self.put(found.rid, key, object);
        self.registered(&def, &object)?;
        self.watch_garbage(found.rid, &object);
        self.collect();
        Ok(WriteResult { object, warnings, created: true })
    }

    /// Replaces an object by what `change` makes of it; keeps what a client may not change.
    ///
    /// # Errors
    /// 404, 409 (resourceVersion or uid differ), 422, and whatever `change` refuses.
    pub fn modify(
        &mut self,
        found: &FoundResource,
        key: &Key,
        options: &WriteOptions,
        change: impl FnOnce(&Value) -> Result<Value>,
    ) -> Result<WriteResult> {
        let def = found.def.clone();
        let missing = || ApiError::not_found(&def.group, &def.plural, &key.name);
        let stored = self.get(found.rid, key).cloned().ok_or_else(missing)?;
        let old = &stored.value;
        let mut new = change(old)?;
        preconditions(&def, key, old, &new)?;
        let aside = managed::set_aside(old, &mut new, options);
        let warnings = unknown_fields(found, &mut new, options)?;
        managed::put_back(&mut new, aside);
        keep_metadata(&def, options, old, &mut new);
        drop_empty(&mut new);
        isolate(found, options, old, &mut new);
        defaults::apply(self, found, &mut new, Some(old))?;
        self.admit(found, &mut new, Some(old), options)?;
        check(found, &new, Some(old), options)?;
        if def.kind == "CustomResourceDefinition" && options.subresource.is_empty() {
            new = crd::established(new, &meta::seconds(self.now));
            crd::resource(&new)?;
        }
        count_generation(&def, old, &mut new);
        if !options.applied {
            managed::track(found, Some(old), &mut new, options, self.now);
        }
        if same(old, &new) {
            return Ok(WriteResult { object: stored, warnings, created: false });
        }
        if options.dry_run {
            return Ok(WriteResult {
                object: Arc::new(StoredObject::loose(key.clone(), new)),
                warnings,
                created: false,
            });
        }
        let object = self.put(found.rid, key.clone(), new);
        self.registered(&def, &object)?;
        self.finish_if_done(found.rid, key);
        self.watch_garbage(found.rid, &object);
        self.collect();
        Ok(WriteResult { object, warnings, created: false })
    }

    fn name_new(
        &mut self,
        found: &FoundResource,
        namespace: &str,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Result<Vec<String>> {
        let def = &found.def;
        if !object.is_object() {
            return Err(ApiError::bad_request("the object provided is no JSON object"));
        }
        let written = meta::text(object, "namespace");
        if def.namespaced && !written.is_empty() && written != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !meta::text(object, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let warnings = unknown_fields(found, object, options)?;
        if options.manager.is_none() {
            // The sandbox's own controllers copy templates as they are; what is stored has one form.
            let _ = schema::decode(found, object);
        }
        let prefix = meta::text(object, "generateName").to_owned();
        if meta::text(object, "name").is_empty() {
            if prefix.is_empty() {
                let cause = StatusCause::new(
                    "FieldValueRequired",
                    "metadata.name",
                    "Required value: name or generateName is required",
                );
                return Err(ApiError::invalid(&def.group, &def.kind, "", vec![cause]));
            }
            let name = self.free_name(found, namespace, &prefix);
            meta::set(object, "name", Some(json!(name)));
        }
        meta::set(object, "namespace", def.namespaced.then(|| json!(namespace)));
        Ok(warnings)
    }

    fn free_name(&mut self, found: &FoundResource, namespace: &str, prefix: &str) -> String {
        let prefix: String = prefix.chars().take(58).collect();
        loop {
            let name = format!("{prefix}{}", meta::suffix(&mut self.rng));
            if self.get(found.rid, &Key::new(namespace, &name)).is_none() {
                return name;
            }
        }
    }

    fn namespace_open(&self, def: &ResourceDef, key: &Key) -> Result<()> {
        if !def.namespaced {
            return Ok(());
        }
        let spaces = self.registry.rid("", "namespaces").unwrap_or_default();
        let space = self.get(spaces, &Key::new("", &key.namespace));
        let space = space.ok_or_else(|| ApiError::not_found("", "namespaces", &key.namespace))?;
        if meta::deleting(&space.value) {
            let why =
                format!("unable to create new content in namespace {} because it is being terminated", key.namespace);
            let error = ApiError::forbidden(&def.group, &def.plural, &key.name, &why);
            return Err(error.with_causes(vec![StatusCause::new("NamespaceTerminating", "metadata.namespace", why)]));
        }
        Ok(())
    }

    /// Fills in the fields that the server itself writes into a new object.
    fn stamp(&mut self, found: &FoundResource, object: &mut Value) {
        let def = &found.def;
        object["apiVersion"] = json!(def.api_version());
        object["kind"] = json!(def.kind);
        let uid = meta::uid(&mut self.rng);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            meta::set(object, field, None);
        }
        meta::set(object, "uid", Some(json!(uid)));
        meta::set(object, "creationTimestamp", Some(json!(meta::seconds(self.now))));
        meta::set(object, "generation", def.generation.then(|| json!(1)));
        // A node's kubelet creates it with its status; for all others the status starts empty.
        if found.version.status
            && def.kind != "Node"
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
    }

    fn admit(
        &self,
        found: &FoundResource,
        object: &mut Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<()> {
        let review = Review { def: &found.def, subresource: &options.subresource, old, user: &options.user };
        self.admission.iter().try_for_each(|hook| hook.admit(&review, object))?;
        self.ask_policies(found, object, old, options)
    }

    /// A definition that was written takes effect.
    fn registered(&mut self, def: &ResourceDef, object: &StoredObject) -> Result<()> {
        if def.kind == "CustomResourceDefinition" && !meta::deleting(&object.value) {
            self.registry.add_custom(&object.value)?;
            self.grow();
        }
        Ok(())
    }
}

/// Drops what the schema does not know; warnings or a refusal by `fieldValidation`.
fn unknown_fields(found: &FoundResource, object: &mut Value, options: &WriteOptions) -> Result<Vec<String>> {
    if options.manager.is_none() {
        return Ok(Vec::new());
    }
    decoded(found, object, options).map_err(|refused| if options.patched { refused.of_a_patch() } else { refused })
}

fn decoded(found: &FoundResource, object: &mut Value, options: &WriteOptions) -> Result<Vec<String>> {
    managed::read_sent(object);
    typed::zeros(object);
    let unknown = schema::prune(found, object)?;
    schema::decode(found, object)?;
    let twice = options.duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let warnings: Vec<String> =
        options.unknown.iter().chain(&unknown).map(|path| format!("unknown field \"{path}\"")).chain(twice).collect();
    let mut warnings = match options.validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict if !warnings.is_empty() => {
            return Err(schema::undecodable(&found.def, &format!("strict decoding error: {}", warnings.join(", "))));
        }
        _ => warnings,
    };
    if found.def.kind == "Pod" && found.def.group.is_empty() {
        warnings.extend(amounts::warnings(&object["spec"], "spec"));
    }
    Ok(warnings)
}

/// Objects below this are not measured: they cannot be too large, unless grown piece by piece.
const SMALL: usize = 128 * 1024;

fn check(found: &FoundResource, new: &Value, old: Option<&Value>, options: &WriteOptions) -> Result<()> {
    if options.sent > SMALL && new.to_string().len() > MOST_STORED {
        return Err(too_large(MOST_STORED));
    }
    let def = &found.def;
    let mut causes = validate::object(def, new, old);
    if def.kind == "Pod" && def.group.is_empty() && options.subresource != RESIZE {
        causes.extend(old.and_then(|old| validate::pod_change(&old["spec"], &new["spec"])));
    }
    causes.extend(schema::check(found, new, old));
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(&def.group, &def.kind, meta::text(new, "name"), causes))
    }
}
