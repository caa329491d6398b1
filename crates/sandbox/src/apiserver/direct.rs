//! The server's own methods, for the sandbox's controllers, scheduler and kubelets: synchronous, without HTTP.
//!
//! Values are shared, never copied, on reading. Writes go through the same admission, defaults and checks as a
//! client's; field ownership is not tracked and unknown fields are not looked for.
use super::error::{ApiError, Result};
use super::gvr::{Gvr, Key, PODS};
use super::registry::FoundResource;
use super::store::{Happened, StoreState};
use super::viewing::select::ListSelector;
use super::writing::delete::{DeleteOptions, Deleted};
use super::writing::write::{WriteOptions, WriteResult};
use super::{ApiServer, meta, resize, subresource};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;

fn find(state: &StoreState, gvr: &Gvr) -> Result<FoundResource> {
    state.registry.find(&gvr.group, &gvr.version, &gvr.resource)
}

fn options(subresource: &str) -> WriteOptions {
    WriteOptions { subresource: subresource.to_owned(), user: "system:sandbox".to_owned(), ..WriteOptions::default() }
}

impl ApiServer {
    /// One object; `namespace` is empty for cluster-wide kinds.
    pub fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let state = self.lock();
        let found = find(&state, gvr).ok()?;
        state.get(found.rid, &Key::new(namespace, name)).map(|o| o.value.clone())
    }

    /// All objects of a resource, in order of namespace and name; empty for a resource that is not served.
    pub fn list(&self, gvr: &Gvr) -> Vec<Arc<Value>> {
        self.list_selected(gvr, None, &ListSelector::default())
    }

    /// The objects of a namespace (none: of all) that a selector selects.
    pub fn list_selected(&self, gvr: &Gvr, namespace: Option<&str>, selector: &ListSelector) -> Vec<Arc<Value>> {
        let state = self.lock();
        let Ok(found) = find(&state, gvr) else { return Vec::new() };
        let within = state.table(found.rid).within(namespace);
        within.filter(|o| selector.is_empty() || selector.matches(&o.value)).map(|o| o.value.clone()).collect()
    }

    /// The pods bound to a node, from an index.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        self.lock().pods_on(node).map(|o| o.value.clone()).collect()
    }

    /// Objects that name `uid` as one of their owners, from an index, with the resource of each.
    pub fn owned_by(&self, uid: &str) -> Vec<(Gvr, Arc<Value>)> {
        let state = self.lock();
        let owned = state.owned_by(uid).into_iter();
        owned
            .filter_map(|(rid, key)| {
                let def = state.registry.def(rid)?;
                let value = state.get(rid, &key)?.value.clone();
                Some((Gvr::new(&def.group, &def.stored().name, &def.plural), value))
            })
            .collect()
    }

    /// Creates an object. `apiVersion` and `kind` may be left out.
    ///
    /// # Errors
    /// As over HTTP: 404 for the namespace, 409 when it exists, 422 when it is not valid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Arc<Value>> {
        let mut state = self.lock();
        let found = find(&state, gvr)?;
        value(state.create(&found, namespace, object, &options("")))
    }

    /// Replaces an object; 409 when it carries a resourceVersion that is not the stored one.
    ///
    /// # Errors
    /// 404, 409 and 422 as over HTTP.
    pub fn update(&self, gvr: &Gvr, object: Value) -> Result<Arc<Value>> {
        self.replace(gvr, object, "")
    }

    /// Replaces an object's status.
    ///
    /// # Errors
    /// 404, 409 and 422 as over HTTP.
    pub fn update_status(&self, gvr: &Gvr, object: Value) -> Result<Arc<Value>> {
        self.replace(gvr, object, "status")
    }

    fn replace(&self, gvr: &Gvr, object: Value, sub: &str) -> Result<Arc<Value>> {
        let mut state = self.lock();
        let found = find(&state, gvr)?;
        let key = Key::new(meta::text(&object, "namespace"), meta::text(&object, "name"));
        value(state.modify(&found, &key, &options(sub), |_| Ok(object)))
    }

    /// Applies a JSON merge patch to an object (its status is left alone where it is a subresource).
    ///
    /// # Errors
    /// 404, 409 and 422 as over HTTP.
    pub fn patch(&self, gvr: &Gvr, namespace: &str, name: &str, patch: &Value) -> Result<Arc<Value>> {
        self.merge(gvr, namespace, name, patch, "")
    }

    /// Applies a JSON merge patch to an object's status: `{"status": {…}}`.
    ///
    /// # Errors
    /// 404, 409 and 422 as over HTTP.
    pub fn patch_status(&self, gvr: &Gvr, namespace: &str, name: &str, patch: &Value) -> Result<Arc<Value>> {
        self.merge(gvr, namespace, name, patch, "status")
    }

    fn merge(&self, gvr: &Gvr, namespace: &str, name: &str, patch: &Value, sub: &str) -> Result<Arc<Value>> {
        let merged = |old: &Value| {
            let mut new = old.clone();
            json_patch::merge(&mut new, patch);
            Ok(new)
        };
        let mut state = self.lock();
        let found = find(&state, gvr)?;
        value(state.modify(&found, &Key::new(namespace, name), &options(sub), merged))
    }

    /// Resizes a running pod: its first container requests these amounts from now on.
    ///
    /// # Errors
    /// 404, and 422 for a change that is not allowed.
    pub fn resize_pod(&self, namespace: &str, pod: &str, requests: &Value) -> Result<Arc<Value>> {
        let mut state = self.lock();
        let (found, key) = (find(&state, &Gvr::new("", "v1", "pods"))?, Key::new(namespace, pod));
        value(state.modify(&found, &key, &options(resize::RESIZE), |old| {
            let mut wanted = old.clone();
            let patch = serde_json::json!({"resources": {"requests": requests}});
            if let Some(first) = wanted["spec"]["containers"].get_mut(0) {
                json_patch::merge(first, &patch);
            }
            resize::resized(&key, old, &wanted)
        }))
    }

    /// Deletes an object, or starts its end when it has finalizers or, a running pod, time to end.
    ///
    /// # Errors
    /// 404, and 409 when a precondition does not hold.
    pub fn delete(&self, gvr: &Gvr, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Deleted> {
        let mut state = self.lock();
        let found = find(&state, gvr)?;
        state.delete(&found, &Key::new(namespace, name), options)
    }

    /// Loses objects of a resource without a trace, at most so many, as a server does that was restored from an older
    /// state. Answers what was lost.
    pub fn lose(&self, gvr: &Gvr, most: usize) -> Vec<Arc<Value>> {
        let mut state = self.lock();
        let Ok(found) = find(&state, gvr) else { return Vec::new() };
        state.lose(found.rid, most).into_iter().map(|object| object.value.clone()).collect()
    }

    /// Binds a pod to a node, as the scheduler does.
    ///
    /// # Errors
    /// 404 for the pod, 409 when it is bound or being deleted.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<Arc<Value>> {
        let mut state = self.lock();
        let found = find(&state, &PODS)?;
        value(subresource::bind(&mut state, &found, &Key::new(namespace, pod), node, None, &options("binding")))
    }

    /// Tells of every later change of these resources, in order. Resources that are not served are left out.
    pub fn subscribe(&self, resources: &[Gvr]) -> mpsc::UnboundedReceiver<Happened> {
        let mut state = self.lock();
        let rids: BTreeSet<_> =
            resources.iter().filter_map(|gvr| state.registry.rid(&gvr.group, &gvr.resource)).collect();
        state.subscribe(rids)
    }

    pub fn serves(&self, gvr: &Gvr) -> bool {
        find(&self.lock(), gvr).is_ok()
    }

    /// The resource of an object's `apiVersion` and `kind`, and whether it is namespaced.
    ///
    /// # Errors
    /// 404 when the kind is not served.
    pub fn resource_of(&self, api_version: &str, kind: &str) -> Result<(Gvr, bool)> {
        let state = self.lock();
        let rid = state.registry.rid_of_kind(api_version, kind).ok_or_else(ApiError::no_such_path)?;
        let def = state.registry.def(rid).ok_or_else(ApiError::no_such_path)?;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let found = state.registry.find(&def.group, version, &def.plural)?;
        Ok((Gvr::new(&def.group, &found.version.name, &def.plural), def.namespaced))
    }

    /// The latest resourceVersion.
    pub fn version(&self) -> u64 {
        self.lock().rv
    }
}

fn value(written: Result<WriteResult>) -> Result<Arc<Value>> {
    written.map(|w| w.object.value.clone())
}
