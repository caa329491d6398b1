//! Fields of an older object, each with the field of the new objects that it becomes.

use crate::{
    convert::is_gone,
    manifest::tree::{Content, YamlNode},
    schema::{FieldPath, PathStep},
};

/// A value of a file with its path in the object, in the order of the text.
#[derive(Clone, Debug)]
pub(super) struct PlacedValue {
    pub path: FieldPath,
    pub line: usize,
}

/// Every value of an object with its line, parents before children.
pub(super) fn placed(node: &YamlNode) -> Vec<PlacedValue> {
    let mut all = Vec::new();
    walk(node, node.line, FieldPath::root(), &mut all);
    all
}

fn walk(node: &YamlNode, line: usize, path: FieldPath, all: &mut Vec<PlacedValue>) {
    all.push(PlacedValue { path: path.clone(), line });
    match &node.content {
        Content::Scalar(_) => {}
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, item.line, path.index(index), all);
            }
        }
        Content::Mapping(entries) => {
            for entry in entries {
                walk(&entry.value, entry.line, path.key(&entry.key), all);
            }
        }
    }
}

/// One of the objects that a manifest becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ManifestPart {
    Pool,
    Class,
    Claim,
}

/// A field of one of those objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartField {
    pub part: ManifestPart,
    pub path: FieldPath,
}

impl PartField {
    /// The field below it under a key.
    pub fn key(&self, key: &str) -> Self {
        Self { part: self.part, path: self.path.key(key) }
    }

    /// The item at a place in its list.
    pub fn index(&self, index: usize) -> Self {
        Self { part: self.part, path: self.path.index(index) }
    }
}

/// Fields that move, the more specific ones first: `from` as a path of the older object, `to` as one of the newer.
type Moves = &'static [(&'static str, ManifestPart, &'static str)];

const PROVISIONER: Moves = &[
    ("spec.annotations", ManifestPart::Pool, "spec.template.metadata.annotations"),
    ("spec.labels", ManifestPart::Pool, "spec.template.metadata.labels"),
    ("spec.taints", ManifestPart::Pool, "spec.template.spec.taints"),
    ("spec.startupTaints", ManifestPart::Pool, "spec.template.spec.startupTaints"),
    ("spec.requirements", ManifestPart::Pool, "spec.template.spec.requirements"),
    ("spec.kubeletConfiguration", ManifestPart::Class, "spec.kubelet"),
    ("spec.providerRef.apiVersion", ManifestPart::Pool, "spec.template.spec.nodeClassRef.group"),
    ("spec.providerRef", ManifestPart::Pool, "spec.template.spec.nodeClassRef"),
    ("spec.ttlSecondsAfterEmpty", ManifestPart::Pool, "spec.disruption.consolidateAfter"),
    ("spec.ttlSecondsUntilExpired", ManifestPart::Pool, "spec.template.spec.expireAfter"),
    ("spec.consolidation", ManifestPart::Pool, "spec.disruption.consolidationPolicy"),
    ("spec.limits.resources", ManifestPart::Pool, "spec.limits"),
    ("spec.provider.subnetSelector", ManifestPart::Class, "spec.subnetSelectorTerms"),
    ("spec.provider.securityGroupSelector", ManifestPart::Class, "spec.securityGroupSelectorTerms"),
    ("spec.provider", ManifestPart::Class, "spec"),
    ("", ManifestPart::Pool, ""),
];

const TEMPLATE: Moves = &[
    ("spec.subnetSelector", ManifestPart::Class, "spec.subnetSelectorTerms"),
    ("spec.securityGroupSelector", ManifestPart::Class, "spec.securityGroupSelectorTerms"),
    ("spec.amiSelector", ManifestPart::Class, "spec.amiSelectorTerms"),
    ("", ManifestPart::Class, ""),
];

const POOL: Moves = &[
    ("spec.disruption.expireAfter", ManifestPart::Pool, "spec.template.spec.expireAfter"),
    ("spec.template.spec.kubelet", ManifestPart::Class, "spec.kubelet"),
    ("spec.template.spec.nodeClassRef.apiVersion", ManifestPart::Pool, "spec.template.spec.nodeClassRef.group"),
    ("", ManifestPart::Pool, ""),
];

const CLASS: Moves = &[("", ManifestPart::Class, "")];

const CLAIM: Moves = &[
    ("spec.nodeClassRef.apiVersion", ManifestPart::Claim, "spec.nodeClassRef.group"),
    ("spec.machineTemplateRef.apiVersion", ManifestPart::Claim, "spec.nodeClassRef.group"),
    ("spec.machineTemplateRef", ManifestPart::Claim, "spec.nodeClassRef"),
    ("", ManifestPart::Claim, ""),
];

/// The moves of a kind.
pub(super) struct Mapping {
    moves: Vec<(FieldPath, ManifestPart, FieldPath)>,
    /// Requirements of a Provisioner that are left out: those after them stand earlier.
    gone: Vec<usize>,
}

impl Mapping {
    /// The mapping for an object of a kind.
    pub fn from_node(kind: &str, node: &YamlNode) -> Self {
        let moves = match kind {
            "Provisioner" => PROVISIONER,
            "AWSNodeTemplate" => TEMPLATE,
            "NodePool" => POOL,
            "EC2NodeClass" => CLASS,
            _ => CLAIM,
        };
        let parsed =
            |(from, part, to): &(&str, ManifestPart, &str)| (FieldPath::parse(from), *part, FieldPath::parse(to));
        let gone = if kind == "Provisioner" { gone(node) } else { Vec::new() };
        Self { moves: moves.iter().map(parsed).collect(), gone }
    }

    /// The field that a value of the older object becomes; none where it is left out.
    pub fn target(&self, path: &FieldPath) -> Option<PartField> {
        let (from, part, to) = self.moves.iter().find(|(from, ..)| path.0.starts_with(&from.0))?;
        let mut rest = path.0[from.0.len()..].to_vec();
        if *from == FieldPath::from_fields(&["spec", "requirements"])
            && let Some(PathStep::Index(index)) = rest.first_mut()
        {
            if self.gone.contains(index) {
                return None;
            }
            *index -= self.gone.iter().filter(|gone| **gone < *index).count();
        }
        Some(PartField { part: *part, path: FieldPath(to.0.iter().cloned().chain(rest).collect()) })
    }
}

/// Indices of the requirements that are left out.
fn gone(node: &YamlNode) -> Vec<usize> {
    let list = node.entry("spec").and_then(|spec| spec.value.entry("requirements")).map(|list| list.value.items());
    let keys = list.unwrap_or_default().iter().map(|item| item.entry("key").map(|key| key.value.to_value()));
    let left_out = keys.enumerate().filter(|(_, key)| key.as_ref().and_then(|key| key.as_str()).is_some_and(is_gone));
    left_out.map(|(index, _)| index).collect()
}

/// The value at a path.
pub(super) fn value_at<'v>(value: &'v serde_json::Value, path: &FieldPath) -> Option<&'v serde_json::Value> {
    path.0.iter().try_fold(value, |value, step| match step {
        PathStep::Key(key) => value.get(key),
        PathStep::Index(index) => value.get(index),
    })
}
