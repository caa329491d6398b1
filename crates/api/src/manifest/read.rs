//! From files to manifests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    InputError, Manifest, ReadOptions,
    check::{self, ObjectIdentity},
    objects,
    parse::{self, Documents},
    pods::{MAX_PODS, pod_count},
    tree::{Content, MapEntry, YamlNode},
};
use crate::{
    convert,
    schema::{FieldPath, SchemaError, schema_for},
};

/// So many mistakes of a file are told; one cause may make a mistake of every line.
pub(super) const MOST_MISTAKES: usize = 100;

/// Reads files of manifests, given as (name, text).
///
/// # Errors
/// Every mistake of every file, in the order of files and lines.
pub fn read_manifests<N: AsRef<str>, T: AsRef<str>>(
    files: &[(N, T)],
    options: &ReadOptions,
) -> Result<Vec<Manifest>, Vec<InputError>> {
    let mut manifests = Vec::new();
    let mut errors: Vec<(usize, InputError)> = Vec::new();
    let mut pods = 0;
    for (order, (name, text)) in files.iter().enumerate() {
        let mut file = File { name: name.as_ref(), options, manifests: Vec::new(), errors: Vec::new(), more: 0, pods };
        file.read_documents(text.as_ref());
        pods = file.pods;
        errors.extend(file.errors.into_iter().map(|error| (order, error)));
        manifests.extend(file.manifests.into_iter().map(|manifest| (order, manifest)));
    }
    errors.extend(duplicates(&manifests));
    if errors.is_empty() {
        let mut manifests = manifests.into_iter().map(|(_, manifest)| manifest).collect::<Vec<_>>();
        objects::settle(&mut manifests);
        return Ok(manifests);
    }
    errors.sort_by(|(a, x), (b, y)| (a, x.line, &x.field).cmp(&(b, y.line, &y.field)));
    Err(errors.into_iter().map(|(_, error)| error).collect())
}

struct File<'a> {
    name: &'a str,
    options: &'a ReadOptions,
    manifests: Vec<Manifest>,
    errors: Vec<InputError>,
    /// Mistakes that are not told.
    more: usize,
    /// Pods of all files so far.
    pods: u64,
}

impl File<'_> {
    fn fail(&mut self, line: usize, field: impl Into<String>, what: impl Into<String>, allowed: impl Into<String>) {
        if self.errors.len() >= MOST_MISTAKES {
            self.more += 1;
            return;
        }
        let (file, field, what, allowed) = (self.name.into(), field.into(), what.into(), allowed.into());
        self.errors.push(InputError { file, line, field, what, allowed });
    }

    fn read_documents(&mut self, text: &str) {
        let Documents { documents, complaints, marks } = parse::parse(text, self.options);
        if documents.is_empty() && complaints.is_empty() {
            self.fail(1, "", "holds no object", "one Kubernetes object or more, in YAML");
        }
        for document in &documents {
            self.document(document);
        }
        self.errors.retain(|error| !marks.explains(error.line));
        for error in &mut self.errors {
            error.what = marks.as_written(&error.what);
        }
        for (name, lines) in marks.unset() {
            let mut lines = lines.iter();
            let first = lines.next().copied().unwrap_or(1);
            let more: Vec<String> = lines.map(ToString::to_string).collect();
            let also = if more.is_empty() { String::new() } else { format!(", used on line {} too", more.join(", ")) };
            self.fail(
                first,
                "",
                format!("variable {name} is not set{also}"),
                format!("--env {name}=VALUE, or a line of --env-file"),
            );
        }
        for (line, what, allowed) in complaints {
            self.fail(line, "", what, allowed);
        }
        if let (more @ 1.., Some(last)) = (self.more, self.errors.last()) {
            let (line, what) = (last.line, format!("{more} mistake(s) of this file, or more, are not told"));
            let (file, field, allowed) = (self.name.into(), String::new(), String::new());
            self.errors.push(InputError { file, line, field, what, allowed });
        }
    }

    /// True if the pods requested so far are too many for one run; reports the object at which that begins.
    fn too_many_pods(&mut self, node: &YamlNode, kind: &str, object: &serde_json::Value) -> bool {
        let (count, field) = pod_count(kind, object);
        let before = self.pods;
        self.pods = before.saturating_add(count);
        if before > MAX_PODS || self.pods <= MAX_PODS {
            return before > MAX_PODS;
        }
        let line = node.line_of(&FieldPath::from_fields(&field.split('.').collect::<Vec<_>>()));
        let what = if before > 0 {
            format!("makes {count} pods, {} with those before", self.pods)
        } else {
            format!("makes {count} pods")
        };
        self.fail(line, field, what, format!("{MAX_PODS} pods in one run at most"));
        true
    }

    fn document(&mut self, node: &YamlNode) {
        if !matches!(node.content, Content::Mapping(_)) {
            return self.fail(node.line, "", "is no object", "a mapping with apiVersion, kind and metadata");
        }
        if self.twice(node) {
            return;
        }
        if is_list(node) {
            let items = node.entry("items").map(|items| items.value.items()).unwrap_or_default();
            items.iter().for_each(|item| self.document(&of_list(node, item)));
            return;
        }
        let mut object = node.to_value();
        // The API server's own record of who wrote which field plays no part; `kubectl get -o yaml` prints it.
        if let Some(metadata) = object.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let identity = match check::identify(&object) {
            Ok(identity) => identity,
            Err(error) => return self.report_error(node, &error),
        };
        if !identity.known {
            return self.keep_manifest(node, identity, object, None);
        }
        if let Some(schema) = schema_for(&identity.api_version, &identity.kind) {
            schema.whole_numbers(&mut object);
        }
        let findings = check::object(node, &object, &identity);
        findings.0.iter().for_each(|error| self.report_error(node, error));
        if !findings.0.is_empty() || self.too_many_pods(node, &identity.kind, &object) {
            return;
        }
        let v1 = match convert::to_v1(&object, &self.options.context()).transpose() {
            Ok(v1) => v1,
            Err(error) => {
                return self.fail(node.line_of(&error.path), error.path.to_string(), error.what, error.allowed);
            }
        };
        self.keep_manifest(node, identity, object, v1);
    }

    fn keep_manifest(
        &mut self,
        node: &YamlNode,
        identity: ObjectIdentity,
        object: serde_json::Value,
        v1: Option<convert::Converted>,
    ) {
        self.manifests.push(Manifest {
            api_version: identity.api_version,
            kind: identity.kind,
            namespace: identity.namespace,
            name: identity.name,
            file: self.name.into(),
            line: node.line,
            object,
            foreign: !identity.known,
            v1,
        });
    }

    fn report_error(&mut self, node: &YamlNode, error: &SchemaError) {
        self.fail(node.line_of(&error.path), error.path.to_string(), &error.what, &error.allowed);
    }

    /// Keys that stand twice in one mapping. Of an object's own keys one mistake is told, for all have the same cause.
    fn twice(&mut self, root: &YamlNode) -> bool {
        let mut found = false;
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in root.entries() {
            if let Some(first) = lines.insert(&entry.key, entry.line) {
                let what = format!("stands on line {first} already; is a line --- missing between two objects?");
                self.fail(entry.line, entry.key.clone(), what, "each key once in an object");
                return true;
            }
        }
        for entry in root.entries() {
            found |= self.twice_below(&entry.value, &mut vec![entry.key.as_str().into()]);
        }
        found
    }

    /// The same below an object's own keys. How deep that goes is bounded by the parser.
    fn twice_below<'n>(&mut self, node: &'n YamlNode, path: &mut Vec<Cow<'n, str>>) -> bool {
        let mut found = false;
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in node.entries() {
            path.push(format!(".{}", entry.key).into());
            match lines.get(entry.key.as_str()) {
                Some(first) => {
                    let what = format!("stands on line {first} already");
                    self.fail(entry.line, path.concat(), what, "each key once");
                    found = true;
                }
                None => {
                    lines.insert(&entry.key, entry.line);
                    found |= self.twice_below(&entry.value, path);
                }
            }
            path.pop();
        }
        for (index, item) in node.items().iter().enumerate() {
            path.push(format!("[{index}]").into());
            found |= self.twice_below(item, path);
            path.pop();
        }
        found
    }
}

/// The objects that a document holds: itself, or the items of a list.
pub(super) fn items_of(node: &YamlNode) -> Vec<YamlNode> {
    if !is_list(node) {
        return vec![node.clone()];
    }
    let items = node.entry("items").map(|items| items.value.items()).unwrap_or_default();
    items.iter().flat_map(|item| items_of(&of_list(node, item))).collect()
}

/// A List of v1, or what an API server answers to who asks for all objects of a kind.
fn is_list(node: &YamlNode) -> bool {
    let text = |key: &str| node.entry(key).map(|entry| entry.value.to_value()).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let items = node
        .entry("items")
        .is_some_and(|items| items.value.is_null() || matches!(items.value.content, Content::List(_)));
    version == "v1" && kind == "List" || items && kind.as_str().is_some_and(|kind| kind.ends_with("List"))
}

/// An item of a list. In a list of one kind an item need not say what it is, as an API server leaves that out.
fn of_list<'n>(list: &YamlNode, item: &'n YamlNode) -> Cow<'n, YamlNode> {
    let text = |node: &YamlNode, key: &str| match node.entry(key).map(|entry| entry.value.to_value()) {
        Some(serde_json::Value::String(text)) => text,
        _ => String::new(),
    };
    let (version, kind) = (text(list, "apiVersion"), text(list, "kind"));
    let of = kind.strip_suffix("List").unwrap_or_default();
    let says = !text(item, "apiVersion").is_empty() && !text(item, "kind").is_empty();
    if of.is_empty() || says {
        return Cow::Borrowed(item);
    }
    let mut named = item.clone();
    let Content::Mapping(entries) = &mut named.content else { return Cow::Borrowed(item) };
    entries.retain(|entry| entry.key != "apiVersion" && entry.key != "kind");
    for (key, value) in [("apiVersion", version.as_str()), ("kind", of)] {
        let value = YamlNode { line: item.line, content: Content::Scalar(value.into()) };
        entries.push(MapEntry { key: key.to_owned(), line: item.line, value });
    }
    Cow::Owned(named)
}

/// Objects that are there already, what older kinds are converted to included.
fn duplicates(manifests: &[(usize, Manifest)]) -> Vec<(usize, InputError)> {
    let mut seen: BTreeMap<(String, String, String, String), &Manifest> = BTreeMap::new();
    let mut errors = Vec::new();
    for (order, manifest) in manifests.iter().filter(|(_, manifest)| !manifest.foreign) {
        for (group, kind, name) in identities(manifest) {
            let key = (group, kind.clone(), manifest.namespace.clone().unwrap_or_default(), name.clone());
            let Some(first) = seen.get(&key) else {
                seen.insert(key, manifest);
                continue;
            };
            let becomes = if kind == manifest.kind {
                String::new()
            } else {
                format!(" (which {} {} becomes)", manifest.kind, manifest.name)
            };
            errors.push((
                *order,
                InputError {
                    file: manifest.file.clone(),
                    line: manifest.line,
                    field: "metadata.name".into(),
                    what: format!("{kind} {name}{becomes} is there already, {}:{}", first.file, first.line),
                    allowed: "each object once".into(),
                },
            ));
            break;
        }
    }
    errors
}

/// Group, kind and name of the objects that a manifest is or becomes.
fn identities(manifest: &Manifest) -> Vec<(String, String, String)> {
    let Some(v1) = &manifest.v1 else {
        let group = manifest.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        return vec![(group.into(), manifest.kind.clone(), manifest.name.clone())];
    };
    let pool = v1.node_pool.as_ref().map(|pool| ("NodePool", &pool.metadata));
    let class = v1.node_class.as_ref().map(|class| ("EC2NodeClass", &class.metadata));
    let claim = v1.node_claim.as_ref().map(|claim| ("NodeClaim", &claim.metadata));
    let all = pool.into_iter().chain(class).chain(claim);
    all.map(|(kind, metadata)| ("karpenter".into(), kind.into(), metadata.name.clone().unwrap_or_default())).collect()
}
