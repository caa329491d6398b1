//! Older manifests written again as v1, for `dovetail convert`.
//!
//! ```text
//! text ──► documents ──► one that is v1 already, or of another kind ─────────────────► as it is, byte for byte
//!                   └──► one of an older version ──► what it means (crate::convert) ──► lines ──► comments put back
//! ```
//!
//! No library writes YAML whose fields have moved to other depths and other objects and keeps its comments: those that keep
//! comments edit values in place. So an object that changes is written anew, its fields in the order in which they stood, and
//! each comment goes to the field that it was about; where there is none, to the field above that, and that is said.

mod comments;
mod documents;
mod emit;
mod explain;
mod paths;
mod read_back;
mod variables;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use self::{
    comments::{Comment, comments, subject},
    documents::{Document, documents},
    emit::{EmittedLine, Order, emit},
    explain::{Parts, changes},
    paths::{ManifestPart, Mapping, PartField, PlacedValue, placed},
    read_back::{Origin, read_back},
    variables::Variables,
};
use super::{
    InputError, Manifest, ReadOptions,
    parse::parse,
    read::{self, items_of},
    tree::YamlNode,
};
use crate::{
    convert::{self, Converted},
    names::{AWS_GROUP, GROUP, annotations, labels, taints},
    schema::FieldPath,
};

/// A file written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Its name, as the user gave it.
    pub name: String,
    /// Its text as v1.
    pub text: String,
    /// Changes that were made, in the order of the lines.
    pub changes: Vec<ManifestChange>,
    /// Parts of the original that the result cannot say: they have to be written by hand.
    pub lost: Vec<ManifestChange>,
}

/// One change, or something that is worth knowing, with its place in the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestChange {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Kind and name of the object.
    pub object: String,
    /// A sentence about the change.
    pub what: String,
}

impl fmt::Display for ManifestChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.object, self.what)
    }
}

/// Writes files, given as (name, text), again as v1. Variables that `options` has no values of stay variables.
///
/// # Errors
/// As [`super::read`]; and where what would be written is nothing that v1 takes, at the field that it comes of.
pub fn rewrite<N: AsRef<str>, T: AsRef<str>>(
    files: &[(N, T)],
    options: &ReadOptions,
) -> Result<Vec<Rewritten>, Vec<InputError>> {
    let mut variables = Variables::from_files(files, &options.env);
    let mut options = options.clone();
    let manifests = loop {
        options.env.extend(variables.values());
        match read::read_manifests(files, &options) {
            Ok(manifests) => break manifests,
            Err(errors) if variables.try_next(&errors) => {}
            Err(errors) => return Err(errors.into_iter().map(|error| variables.shown(error)).collect()),
        }
    };
    let one = |(name, text): &(N, T)| {
        let made = Rewritten { name: name.as_ref().to_owned(), ..Rewritten::default() };
        let mut file = File { name: name.as_ref(), variables: &variables, made, origins: Vec::new() };
        file.write(text.as_ref(), &manifests, &options);
        (file.made, file.origins)
    };
    let (made, origins): (Vec<_>, Vec<_>) = files.iter().map(one).unzip();
    let errors = read_back(&made, &origins, &options);
    if errors.is_empty() { Ok(made) } else { Err(errors.into_iter().map(|error| variables.shown(error)).collect()) }
}

struct File<'a> {
    name: &'a str,
    variables: &'a Variables,
    made: Rewritten,
    /// Origins of the text's lines in the original.
    origins: Vec<Origin>,
}

impl File<'_> {
    fn write(&mut self, text: &str, manifests: &[Manifest], options: &ReadOptions) {
        let trees = parse(text, options).documents;
        let notes = comments(text);
        for document in documents(text) {
            let trees: Vec<&YamlNode> = trees.iter().filter(|tree| document.has(tree.line)).collect();
            let objects: Vec<YamlNode> = trees.iter().flat_map(|tree| items_of(tree)).collect();
            let of = |node: &YamlNode| manifests.iter().find(|one| one.file == self.name && one.line == node.line);
            let all: Vec<(&YamlNode, &Manifest)> = objects.iter().filter_map(|node| Some((node, of(node)?))).collect();
            if all.iter().any(|(_, manifest)| is_changed(manifest)) {
                self.write_anew(&document, &all, &notes);
            } else {
                self.made.text.push_str(document.marker.unwrap_or_default());
                self.made.text.push_str(document.text);
            }
            all.iter().filter(|(_, manifest)| manifest.v1.is_none()).for_each(|(node, one)| self.old_words(node, one));
        }
    }

    /// A document of which something changes.
    fn write_anew(&mut self, document: &Document<'_>, objects: &[(&YamlNode, &Manifest)], notes: &[Comment]) {
        if let Some(marker) = document.marker {
            let comment = marker.trim_start_matches('-').trim();
            let keeps = comment.is_empty() || comment.starts_with('#');
            self.made.text.push_str(if keeps { marker } else { "---\n" });
        }
        let notes: Vec<&Comment> = notes
            .iter()
            .filter(|one| document.has(one.line) && (one.line >= document.first || document.marker.is_none()))
            .collect();
        for (index, (node, manifest)) in objects.iter().enumerate() {
            if index > 0 {
                self.made.text.push_str("---\n");
            }
            let until = objects.get(index + 1).map_or(usize::MAX, |(next, _)| next.line);
            let from = if index == 0 { 0 } else { node.line };
            let own: Vec<&Comment> = notes.iter().copied().filter(|one| (from..until).contains(&one.line)).collect();
            self.write_object(node, manifest, &own);
        }
    }

    fn write_object(&mut self, node: &YamlNode, manifest: &Manifest, notes: &[&Comment]) {
        let object = format!("{} {}", manifest.kind, manifest.name);
        let mut parts = manifest.v1.as_ref().map_or_else(
            || Parts(vec![(ManifestPart::Claim, node.to_value())]),
            |v1| Parts::from_converted(&without_bookkeeping(v1, manifest)),
        );
        if manifest.v1.is_some() && !is_changed(manifest) {
            parts = Parts(vec![(part_of(&manifest.kind), node.to_value())]);
        }
        let mapping = Mapping::from_node(&manifest.kind, node);
        let places = placed(node);
        let mut lines = lines_of(&parts, &mapping, &places);
        for line in lines.iter_mut().flat_map(|(_, lines)| lines) {
            line.text = self.variables.written(&line.text);
        }
        let lost = put_back(&mut lines, notes, &places, &mapping);
        for (index, (part, lines)) in lines.iter().enumerate() {
            if index > 0 {
                self.made.text.push_str("---\n");
            }
            let first = self.made.text.matches('\n').count() + 1;
            self.origins.push(Origin::new(first, node.line, *part, &places, &mapping));
            for line in lines {
                self.made.text.push_str(&line.text);
                self.made.text.push('\n');
            }
        }
        if !is_changed(manifest) {
            return;
        }
        let becomes = format!("{} becomes {}", manifest.api_version, parts.named().join(" and "));
        self.note(node.line, &object, becomes);
        for (line, what) in changes(node, &parts, &mapping) {
            self.note(line, &object, what);
        }
        for line in lost {
            self.note(line, &object, "the comment stands above the field that held its field".to_owned());
        }
        let converted = manifest.v1.clone().unwrap_or_default();
        for what in converted.warnings {
            self.note(node.line, &object, what);
        }
        self.lose(node, &object, manifest);
    }

    /// Reports the parts of an object that the result cannot say.
    fn lose(&mut self, node: &YamlNode, object: &str, manifest: &Manifest) {
        let Some(v1) = &manifest.v1 else { return };
        let notes = v1.node_pool.as_ref().and_then(|pool| pool.metadata.annotations.as_ref());
        if notes.is_some_and(|notes| notes.contains_key(annotations::V1BETA1_KUBELET)) {
            let reference = v1.node_pool.as_ref().map(|pool| pool.spec.template.spec.node_class_ref.name.clone());
            let class = reference.unwrap_or_default();
            let what = format!(
                "the kubelet's configuration belongs in EC2NodeClass {class}, spec.kubelet, which is not among the files"
            );
            self.lost(node.line, object, what);
        }
        for what in v1.left_out.iter().filter(|what| !harmless(what)) {
            self.lost(node.line, object, what.clone());
        }
    }

    /// Old words in manifests of other kinds: they are understood, and changing them would restart pods.
    fn old_words(&mut self, node: &YamlNode, manifest: &Manifest) {
        let object = format!("{} {}", manifest.kind, manifest.name);
        for place in placed(node) {
            let value = paths::value_at(&manifest.object, &place.path).and_then(Value::as_str).unwrap_or_default();
            let word = |text: &str| OLD_WORDS.iter().find(|(old, _)| *old == text);
            if let Some((old, new)) = word(place.path.last_key().unwrap_or_default()).or_else(|| word(value)) {
                self.note(place.line, &object, format!("{old} is left as it is, and understood; v1 says {new}"));
            }
        }
    }

    fn note(&mut self, line: usize, object: &str, what: String) {
        self.made.changes.push(self.change(line, object, what));
    }

    fn lost(&mut self, line: usize, object: &str, what: String) {
        self.made.lost.push(self.change(line, object, what));
    }

    fn change(&self, line: usize, object: &str, what: String) -> ManifestChange {
        let (what, object) = (self.variables.put_back(&what), self.variables.put_back(object));
        ManifestChange { file: self.name.into(), line, object, what }
    }
}

/// Words that v1 has others for.
const OLD_WORDS: [(&str, &str); 5] = [
    (annotations::DO_NOT_EVICT, annotations::DO_NOT_DISRUPT),
    (annotations::DO_NOT_CONSOLIDATE, annotations::DO_NOT_DISRUPT),
    (labels::PROVISIONER_NAME, labels::NODE_POOL),
    ("karpenter.sh/disruption", taints::DISRUPTED),
    ("node.k8s.aws/instance-type", labels::INSTANCE_TYPE),
];

/// True for a field whose loss changes nothing.
fn harmless(left_out: &str) -> bool {
    left_out.contains("containerRuntime") || left_out.contains(".tags[")
}

/// True if a manifest is written anew.
fn is_changed(manifest: &Manifest) -> bool {
    let Some(v1) = &manifest.v1 else { return false };
    let group = manifest.api_version.split('/').next().unwrap_or_default();
    if manifest.api_version != format!("{GROUP}/v1") && manifest.api_version != format!("{AWS_GROUP}/v1") {
        return group == GROUP || group == AWS_GROUP;
    }
    // Another manifest may have changed it: a pool's kubelet block belongs to its class.
    let alone = convert::to_v1(&manifest.object, &convert::ConversionContext::default());
    !matches!(alone, Some(Ok(alone)) if alone == *v1)
}

fn part_of(kind: &str) -> ManifestPart {
    match kind {
        "NodePool" => ManifestPart::Pool,
        "EC2NodeClass" => ManifestPart::Class,
        _ => ManifestPart::Claim,
    }
}

/// Without annotations that only serve to go back to the older version.
fn without_bookkeeping(v1: &Converted, manifest: &Manifest) -> Converted {
    let mut v1 = v1.clone();
    let pool = v1.node_pool.as_mut().map(|one| &mut one.metadata);
    let class = v1.node_class.as_mut().map(|one| &mut one.metadata);
    let claim = v1.node_claim.as_mut().map(|one| &mut one.metadata);
    for metadata in [pool, class, claim].into_iter().flatten() {
        if let Some(notes) = &mut metadata.annotations {
            notes.remove(annotations::V1BETA1_NODE_CLASS_REF);
            if !manifest.api_version.contains("alpha") {
                notes.remove(annotations::CONVERTED_FROM);
            }
        }
        metadata.annotations.take_if(|notes| notes.is_empty());
    }
    v1
}

/// The lines of the new objects.
fn lines_of(parts: &Parts, mapping: &Mapping, places: &[PlacedValue]) -> Vec<(ManifestPart, Vec<EmittedLine>)> {
    let mut order: BTreeMap<ManifestPart, BTreeMap<FieldPath, usize>> = BTreeMap::new();
    for place in places {
        let Some(PartField { part, mut path }) = mapping.target(&place.path) else { continue };
        let lines = order.entry(part).or_default();
        // A field stands where the first of what it holds stood.
        loop {
            let line = lines.entry(path.clone()).or_insert(place.line);
            *line = (*line).min(place.line);
            if path.0.pop().is_none() {
                break;
            }
        }
    }
    let none = BTreeMap::new();
    let one = |(part, object): &(ManifestPart, Value)| {
        (*part, emit(object, &Order { lines: order.get(part).unwrap_or(&none) }))
    };
    parts.0.iter().map(one).collect()
}

/// Puts comments where their fields are now; answers the lines of those that stand elsewhere.
fn put_back(
    objects: &mut [(ManifestPart, Vec<EmittedLine>)],
    notes: &[&Comment],
    places: &[PlacedValue],
    mapping: &Mapping,
) -> Vec<usize> {
    let mut lost = Vec::new();
    let mut above: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let mut end = Vec::new();
    for comment in notes {
        let Some(subject) = subject(comment, places) else {
            end.push(comment.text.clone());
            continue;
        };
        let (at, exact) = place_of(objects, subject, mapping);
        let line = objects.get_mut(at.0).and_then(|(_, lines)| lines.get_mut(at.1));
        match line {
            Some(line) if exact && !comment.alone && !line.text.contains(" #") => {
                line.text = format!("{} {}", line.text, comment.text);
            }
            _ => above.entry(at).or_default().push(comment.text.clone()),
        }
        lost.extend((!exact).then_some(comment.line));
    }
    for ((object, line), texts) in above.into_iter().rev() {
        let Some((_, lines)) = objects.get_mut(object) else { continue };
        let indent = lines.get(line).map_or(0, |line| line.text.len() - line.text.trim_start().len());
        let texts =
            texts.into_iter().map(|text| EmittedLine { text: format!("{}{text}", " ".repeat(indent)), paths: vec![] });
        lines.splice(line..line, texts);
    }
    if let Some((_, lines)) = objects.last_mut() {
        lines.extend(end.into_iter().map(|text| EmittedLine { text, paths: Vec::new() }));
    }
    lost
}

/// The object and line at which a field of the old object is now, or what holds it; and whether it is the field itself, or one
/// that was made of it.
fn place_of(
    objects: &[(ManifestPart, Vec<EmittedLine>)],
    subject: &FieldPath,
    mapping: &Mapping,
) -> ((usize, usize), bool) {
    let mut old = subject.clone();
    let mut exact = true;
    loop {
        if let Some(PartField { part, mut path }) = mapping.target(&old)
            && let Some(object) = objects.iter().position(|(own, _)| *own == part)
        {
            while !path.0.is_empty() {
                let has = |line: &EmittedLine| line.paths.contains(&path);
                if let Some(line) = objects[object].1.iter().position(has) {
                    // Selectors have become terms: what was said of a tag is said of the list.
                    return ((object, line), exact || path.0.len() > 2);
                }
                exact = false;
                path.0.pop();
            }
        }
        if old.0.pop().is_none() {
            return ((0, 0), *subject == FieldPath::root());
        }
        exact = false;
    }
}
