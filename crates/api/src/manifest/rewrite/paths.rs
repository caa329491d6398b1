//! Which field of an older object is which field of the objects that it becomes.

use crate::{
    convert::is_gone,
    manifest::tree::{Content, Node},
    schema::{Path, Step},
};

/// A value of a file with its path in the object, in the order of the text.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub path: Path,
    pub line: usize,
}

/// Every value of an object with its line, parents before children.
pub(super) fn placed(node: &Node) -> Vec<Placed> {
    let mut all = Vec::new();
    walk(node, node.line, Path::root(), &mut all);
    all
}

fn walk(node: &Node, line: usize, path: Path, all: &mut Vec<Placed>) {
    all.push(Placed { path: path.clone(), line });
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

/// Which of the objects that a manifest becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Pool,
    Class,
    Claim,
}

/// Fields that move, the more specific ones first: `from` as a path of the older object, `to` as one of the newer.
type Moves = &'static [(&'static str, Part, &'static str)];

const PROVISIONER: Moves = &[
    ("spec.annotations", Part::Pool, "spec.template.metadata.annotations"),
    ("spec.labels", Part::Pool, "spec.template.metadata.labels"),
    ("spec.taints", Part::Pool, "spec.template.spec.taints"),
    ("spec.startupTaints", Part::Pool, "spec.template.spec.startupTaints"),
    ("spec.requirements", Part::Pool, "spec.template.spec.requirements"),
    ("spec.kubeletConfiguration", Part::Class, "spec.kubelet"),
    ("spec.providerRef.apiVersion", Part::Pool, "spec.template.spec.nodeClassRef.group"),
    ("spec.providerRef", Part::Pool, "spec.template.spec.nodeClassRef"),
    ("spec.ttlSecondsAfterEmpty", Part::Pool, "spec.disruption.consolidateAfter"),
    ("spec.ttlSecondsUntilExpired", Part::Pool, "spec.template.spec.expireAfter"),
    ("spec.consolidation", Part::Pool, "spec.disruption.consolidationPolicy"),
    ("spec.limits.resources", Part::Pool, "spec.limits"),
    ("spec.provider.subnetSelector", Part::Class, "spec.subnetSelectorTerms"),
    ("spec.provider.securityGroupSelector", Part::Class, "spec.securityGroupSelectorTerms"),
    ("spec.provider", Part::Class, "spec"),
    ("", Part::Pool, ""),
];

const TEMPLATE: Moves = &[
    ("spec.subnetSelector", Part::Class, "spec.subnetSelectorTerms"),
    ("spec.securityGroupSelector", Part::Class, "spec.securityGroupSelectorTerms"),
    ("spec.amiSelector", Part::Class, "spec.amiSelectorTerms"),
    ("", Part::Class, ""),
];

const POOL: Moves = &[
    ("spec.disruption.expireAfter", Part::Pool, "spec.template.spec.expireAfter"),
    ("spec.template.spec.kubelet", Part::Class, "spec.kubelet"),
    ("spec.template.spec.nodeClassRef.apiVersion", Part::Pool, "spec.template.spec.nodeClassRef.group"),
    ("", Part::Pool, ""),
];

const CLASS: Moves = &[("", Part::Class, "")];

const CLAIM: Moves = &[
    ("spec.nodeClassRef.apiVersion", Part::Claim, "spec.nodeClassRef.group"),
    ("spec.machineTemplateRef.apiVersion", Part::Claim, "spec.nodeClassRef.group"),
    ("spec.machineTemplateRef", Part::Claim, "spec.nodeClassRef"),
    ("", Part::Claim, ""),
];

/// The moves of a kind.
pub(super) struct Mapping {
    moves: Vec<(Path, Part, Path)>,
    /// Requirements of a Provisioner that are left out: those after them stand earlier.
    gone: Vec<usize>,
}

impl Mapping {
    /// Of an object of a kind.
    pub fn of(kind: &str, node: &Node) -> Self {
        let moves = match kind {
            "Provisioner" => PROVISIONER,
            "AWSNodeTemplate" => TEMPLATE,
            "NodePool" => POOL,
            "EC2NodeClass" => CLASS,
            _ => CLAIM,
        };
        let parsed = |(from, part, to): &(&str, Part, &str)| (Path::parse(from), *part, Path::parse(to));
        let gone = if kind == "Provisioner" { gone(node) } else { Vec::new() };
        Self { moves: moves.iter().map(parsed).collect(), gone }
    }

    /// Where a value of the older object is; none where it is left out.
    pub fn target(&self, path: &Path) -> Option<(Part, Path)> {
        let (from, part, to) = self.moves.iter().find(|(from, ..)| path.0.starts_with(&from.0))?;
        let mut rest = path.0[from.0.len()..].to_vec();
        if *from == Path::of(&["spec", "requirements"])
            && let Some(Step::Index(index)) = rest.first_mut()
        {
            if self.gone.contains(index) {
                return None;
            }
            *index -= self.gone.iter().filter(|gone| **gone < *index).count();
        }
        Some((*part, Path(to.0.iter().cloned().chain(rest).collect())))
    }
}

/// Which requirements are left out.
fn gone(node: &Node) -> Vec<usize> {
    let list = node.entry("spec").and_then(|spec| spec.value.entry("requirements")).map(|list| list.value.items());
    let keys = list.unwrap_or_default().iter().map(|item| item.entry("key").map(|key| key.value.to_value()));
    let left_out = keys.enumerate().filter(|(_, key)| key.as_ref().and_then(|key| key.as_str()).is_some_and(is_gone));
    left_out.map(|(index, _)| index).collect()
}

/// The value at a path.
pub(super) fn at<'v>(value: &'v serde_json::Value, path: &Path) -> Option<&'v serde_json::Value> {
    path.0.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}
