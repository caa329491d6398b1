//! Served resources, and the behaviour of each.
use super::columns::CustomColumn;
use super::custom::crd;
use super::error::{ApiError, Result};
use dovetail_api::schema::Schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Index of a resource's table in the store.
pub type Rid = usize;

/// Places of the replicas of a scalable kind, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The wanted count.
    pub spec: String,
    /// The count there is.
    pub status: String,
    /// The selector as a string, or (built-in kinds) as a LabelSelector.
    pub selector: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ServedVersion {
    /// As `v1`.
    pub name: String,
    /// True if clients may use it.
    pub served: bool,
    /// True if `status` is a subresource.
    pub status: bool,
    pub scale: Option<ScalePaths>,
    /// Structural schema of a custom resource (`openAPIV3Schema`), as written.
    pub openapi: Option<Arc<Value>>,
    /// The same, ready for use.
    pub schema: Option<Arc<Schema>>,
    /// Columns of a custom resource's table beside the name.
    pub columns: Vec<CustomColumn>,
}

#[derive(Clone, Debug)]
pub struct ResourceDef {
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Groups of resources for kubectl (`all`).
    pub categories: Vec<String>,
    /// True if its objects live in namespaces.
    pub namespaced: bool,
    /// Versions, preferred first.
    pub versions: Vec<Arc<ServedVersion>>,
    /// Index of the version stored.
    pub storage: usize,
    /// True if `metadata.generation` counts the changes of its spec.
    pub generation: bool,
    /// True if it comes from a CustomResourceDefinition.
    pub custom: bool,
    /// True if a delete that says nothing leaves the dependents (Jobs, ReplicationControllers).
    pub orphans: bool,
    /// True if a PUT has to carry the resourceVersion.
    pub needs_version: bool,
    /// True if it is answered and never stored (`SelfSubjectAccessReview`).
    pub review: bool,
}

impl ResourceDef {
    pub fn stored(&self) -> &ServedVersion {
        &self.versions[self.storage]
    }

    /// The `apiVersion` of its stored objects.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.stored().name)
    }
}

/// `apiVersion` of a group and a version.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The resource that a request's path stands for.
#[derive(Clone, Debug)]
pub struct FoundResource {
    /// Index of the table that its objects are stored in.
    pub rid: Rid,
    /// Its kind, scope and subresources.
    pub def: Arc<ResourceDef>,
    pub version: Arc<ServedVersion>,
    /// The group asked for (differs from the resource's for `events.k8s.io`, which shows core events).
    pub group: String,
}

impl FoundResource {
    /// The same in the version that is stored, where an older one of a custom kind was asked for.
    #[must_use]
    pub fn in_storage(&self) -> Self {
        let stored = self.def.versions.get(self.def.storage).filter(|_| self.def.custom);
        Self { version: stored.unwrap_or(&self.version).clone(), ..self.clone() }
    }
}

/// Tables by group and name.
type RidsByGroup = BTreeMap<String, BTreeMap<String, Rid>>;

fn rid_in(rids: &RidsByGroup, group: &str, name: &str) -> Option<Rid> {
    rids.get(group)?.get(name).copied()
}

fn set_rid(rids: &mut RidsByGroup, group: &str, name: &str, rid: Rid) {
    rids.entry(group.to_owned()).or_default().insert(name.to_owned(), rid);
}

/// All resources by group and plural name.
#[derive(Debug, Default)]
pub struct Registry {
    defs: Vec<Option<Arc<ResourceDef>>>,
    names: RidsByGroup,
    kinds: RidsByGroup,
}

impl Registry {
    /// The built-in resources.
    pub fn builtin() -> Self {
        let mut registry = Registry::default();
        for def in super::kinds::builtin::resources() {
            registry.add(def);
        }
        if let Some(events) = registry.rid("", "events") {
            set_rid(&mut registry.names, "events.k8s.io", "events", events);
            set_rid(&mut registry.kinds, "events.k8s.io", "Event", events);
        }
        registry
    }

    /// Adds a resource, or replaces what the same name stood for.
    pub fn add(&mut self, def: ResourceDef) -> Rid {
        let rid = self.rid(&def.group, &def.plural).unwrap_or_else(|| {
            self.defs.push(None);
            self.defs.len() - 1
        });
        set_rid(&mut self.names, &def.group, &def.plural, rid);
        set_rid(&mut self.kinds, &def.group, &def.kind, rid);
        self.defs[rid] = Some(Arc::new(def));
        rid
    }

    /// Takes a resource out of service. Its table number is not used again.
    pub fn remove(&mut self, rid: Rid) {
        self.defs[rid] = None;
        for rids in [&mut self.names, &mut self.kinds] {
            rids.values_mut().for_each(|of_group| of_group.retain(|_, r| *r != rid));
        }
    }

    /// Number of tables ever made.
    pub fn tables(&self) -> usize {
        self.defs.len()
    }

    /// A resource by table.
    pub fn def(&self, rid: Rid) -> Option<&Arc<ResourceDef>> {
        self.defs.get(rid).and_then(Option::as_ref)
    }

    /// Table of a group and plural name.
    pub fn rid(&self, group: &str, plural: &str) -> Option<Rid> {
        rid_in(&self.names, group, plural)
    }

    /// Table of an object reference's kind.
    pub fn rid_of_kind(&self, api_version: &str, kind: &str) -> Option<Rid> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        rid_in(&self.kinds, group, kind)
    }

    /// The resource that a path's group, version and plural name stand for.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Result<FoundResource> {
        let rid = self.rid(group, plural).ok_or_else(ApiError::no_such_path)?;
        let def = self.def(rid).ok_or_else(ApiError::no_such_path)?;
        let version = def.versions.iter().find(|v| v.served && v.name == version).ok_or_else(ApiError::no_such_path)?;
        Ok(FoundResource { rid, def: def.clone(), version: version.clone(), group: group.to_owned() })
    }

    /// Every resource with the group it is shown under, in order of group and name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Arc<ResourceDef>)> {
        let all = self.names.iter().flat_map(|(group, rids)| rids.values().map(move |rid| (group.as_str(), *rid)));
        all.filter_map(|(group, rid)| self.def(rid).map(|def| (group, def)))
    }

    /// Registers what a CustomResourceDefinition describes.
    pub fn add_custom(&mut self, definition: &Value) -> Result<Rid> {
        Ok(self.add(crd::resource(definition)?))
    }
}
