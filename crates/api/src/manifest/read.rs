//! From files to manifests.

use std::collections::BTreeMap;

use super::{
    InputError, Manifest, ReadOptions, check, objects,
    parse::{self, Documents},
    tree::{Content, Node},
};
use crate::{convert, schema::SchemaError};

/// Reads files of manifests, given as (name, text).
///
/// # Errors
/// Every mistake of every file, in the order of files and lines.
pub fn read<N: AsRef<str>, T: AsRef<str>>(
    files: &[(N, T)],
    options: &ReadOptions,
) -> Result<Vec<Manifest>, Vec<InputError>> {
    let mut manifests = Vec::new();
    let mut errors: Vec<(usize, InputError)> = Vec::new();
    for (order, (name, text)) in files.iter().enumerate() {
        let mut file = File { name: name.as_ref(), options, manifests: Vec::new(), errors: Vec::new() };
        file.read(text.as_ref());
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
}

impl File<'_> {
    fn fail(&mut self, line: usize, field: impl Into<String>, what: impl Into<String>, allowed: impl Into<String>) {
        let (file, field, what, allowed) = (self.name.into(), field.into(), what.into(), allowed.into());
        self.errors.push(InputError { file, line, field, what, allowed });
    }

    fn read(&mut self, text: &str) {
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
    }

    fn document(&mut self, node: &Node) {
        if !matches!(node.content, Content::Mapping(_)) {
            return self.fail(node.line, "", "is no object", "a mapping with apiVersion, kind and metadata");
        }
        if self.twice(node) {
            return;
        }
        let is_list = node.entry("kind").is_some_and(|kind| kind.value.to_value() == "List");
        if is_list && node.entry("apiVersion").is_some_and(|version| version.value.to_value() == "v1") {
            node.entry("items")
                .map(|items| items.value.items())
                .unwrap_or_default()
                .iter()
                .for_each(|item| self.document(item));
            return;
        }
        let object = node.to_value();
        let identity = match check::identify(&object) {
            Ok(identity) => identity,
            Err(error) => return self.tell(node, &error),
        };
        let findings = check::object(node, &object, &identity);
        findings.0.iter().for_each(|error| self.tell(node, error));
        if !findings.0.is_empty() {
            return;
        }
        let v1 = match convert::to_v1(&object, &self.options.context()).transpose() {
            Ok(v1) => v1,
            Err(error) => {
                return self.fail(node.line_of(&error.path), error.path.to_string(), error.what, error.allowed);
            }
        };
        self.manifests.push(Manifest {
            api_version: identity.api_version,
            kind: identity.kind,
            namespace: identity.namespace,
            name: identity.name,
            file: self.name.into(),
            line: node.line,
            object,
            v1,
        });
    }

    fn tell(&mut self, node: &Node, error: &SchemaError) {
        self.fail(node.line_of(&error.path), error.path.to_string(), &error.what, &error.allowed);
    }

    /// Keys that stand twice in one mapping. Of an object's own keys one mistake is told, for all have the same cause.
    fn twice(&mut self, root: &Node) -> bool {
        let mut found = false;
        let mut open = vec![(String::new(), root)];
        while let Some((path, node)) = open.pop() {
            let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
            for entry in node.entries() {
                let field = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                match lines.get(entry.key.as_str()) {
                    Some(first) if path.is_empty() => {
                        let what =
                            format!("stands on line {first} already; is a line --- missing between two objects?");
                        self.fail(entry.line, field, what, "each key once in an object");
                        return true;
                    }
                    Some(first) => {
                        let what = format!("stands on line {first} already");
                        self.fail(entry.line, field, what, "each key once");
                        found = true;
                    }
                    None => {
                        lines.insert(&entry.key, entry.line);
                        open.push((field, &entry.value));
                    }
                }
            }
            open.extend(node.items().iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)));
        }
        found
    }
}

/// Objects that are there already, what older kinds are converted to included.
fn duplicates(manifests: &[(usize, Manifest)]) -> Vec<(usize, InputError)> {
    let mut seen: BTreeMap<(String, String, String, String), &Manifest> = BTreeMap::new();
    let mut errors = Vec::new();
    for (order, manifest) in manifests {
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
