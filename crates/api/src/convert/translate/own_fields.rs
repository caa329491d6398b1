//! An alpha object's own names for fields of v1. Messages about the objects that were made from it name fields of v1; whoever
//! wrote the alpha object has to be told of its own fields.

use std::collections::BTreeMap;

use super::{Source, Translation, TranslationProblem};
use crate::v1::EC2NodeClass;

/// Fields of v1 and what an alpha object calls them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnFields {
    all: Vec<OwnField>,
}

/// One field of v1.
#[derive(Clone, Debug, PartialEq)]
struct OwnField {
    v1: &'static str,
    own: String,
    /// True if fields below it, such as `[0].tags`, have no counterpart either.
    is_whole: bool,
}

/// Fields of a NodePool and what a Provisioner calls them.
const OF_POOL: [(&str, &str); 9] = [
    ("spec.template.spec.requirements", "spec.requirements"),
    ("spec.template.spec.taints", "spec.taints"),
    ("spec.template.spec.startupTaints", "spec.startupTaints"),
    ("spec.template.metadata.labels", "spec.labels"),
    ("spec.template.metadata.annotations", "spec.annotations"),
    ("spec.template.spec.nodeClassRef", "spec.providerRef"),
    ("spec.template.spec.expireAfter", "spec.ttlSecondsUntilExpired"),
    ("spec.disruption.consolidateAfter", "spec.ttlSecondsAfterEmpty"),
    ("spec.limits", "spec.limits.resources"),
];

/// Fields of an EC2NodeClass that have the same name in a template; `true` where the others' paths are.
const OF_CLASS: [(&str, &str, bool); 11] = [
    ("subnetSelectorTerms", "subnetSelector", true),
    ("securityGroupSelectorTerms", "securityGroupSelector", true),
    ("amiFamily", "amiFamily", false),
    ("instanceProfile", "instanceProfile", false),
    ("role", "instanceProfile", false),
    ("tags", "tags", false),
    ("context", "context", false),
    ("metadataOptions", "metadataOptions", false),
    ("blockDeviceMappings", "blockDeviceMappings", false),
    ("userData", "userData", false),
    ("detailedMonitoring", "detailedMonitoring", false),
];

impl OwnFields {
    /// Names in an AWSNodeTemplate that makes this class.
    pub(super) fn of_template(class: Option<&EC2NodeClass>) -> Self {
        Self::default().with_class(class, "spec", "").with_kubelet("spec.kubeletConfiguration of a Provisioner")
    }

    /// Names in a Provisioner that says itself how instances are launched.
    pub(super) fn of_provider(class: Option<&EC2NodeClass>) -> Self {
        Self::of_pool().with_class(class, "spec.provider", "").with_kubelet("spec.kubeletConfiguration")
    }

    /// Names in a Provisioner that references a template; a class of v1 that it may name instead has its own fields.
    pub(super) fn of_reference(name: &str, all: &BTreeMap<Source, Result<Translation, TranslationProblem>>) -> Self {
        let Some(Ok(template)) = all.get(&Source::Template(name.to_owned())) else { return Self::of_pool() };
        let whose = format!(" of AWSNodeTemplate {name}");
        Self::of_pool().with_class(template.classes.first(), "spec", &whose).with_kubelet("spec.kubeletConfiguration")
    }

    fn of_pool() -> Self {
        // A Provisioner has two fields, and uses one of them, for this one of v1.
        let policy = OwnField {
            v1: "spec.disruption.consolidationPolicy",
            own: "spec.consolidation.enabled".to_owned(),
            is_whole: true,
        };
        let same = OF_POOL.map(|(v1, own)| OwnField { v1, own: own.to_owned(), is_whole: v1.ends_with("After") });
        Self { all: same.into_iter().chain([policy]).collect() }
    }

    fn with_class(mut self, class: Option<&EC2NodeClass>, at: &str, whose: &str) -> Self {
        let by_family =
            class.is_some_and(|class| class.spec.ami_selector_terms.iter().any(|term| term.alias.is_some()));
        let images = if by_family { "amiFamily" } else { "amiSelector" };
        let fields = OF_CLASS.into_iter().chain([("amiSelectorTerms", images, true)]);
        self.all.extend(fields.map(|(v1, own, is_whole)| OwnField {
            v1,
            own: match v1 {
                "role" => format!("{at}.{own}{whose} (not given, which means the role)"),
                _ => format!("{at}.{own}{whose}"),
            },
            is_whole: is_whole || !whose.is_empty(),
        }));
        self
    }

    fn with_kubelet(mut self, own: &str) -> Self {
        self.all.push(OwnField { v1: "kubelet", own: own.to_owned(), is_whole: false });
        self
    }

    /// A message about the objects that were made, with the alpha object's own fields in it.
    pub fn in_own_words(&self, said: &str) -> String {
        let mut rest = said;
        let mut words = String::with_capacity(said.len());
        while let Some(at) = rest.find("spec.") {
            let (before, path) = rest.split_at(at);
            words.push_str(before);
            let within = before.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '.');
            match self.all.iter().find(|field| !within && field.begins(path)) {
                Some(field) => {
                    words.push_str(&field.own);
                    rest = &path[field.length()..];
                    if field.is_whole {
                        rest = past_path(rest);
                    }
                }
                None => {
                    words.push_str("spec.");
                    rest = &path["spec.".len()..];
                }
            }
        }
        words.push_str(rest);
        words
    }
}

impl OwnField {
    /// True if a path is of this field or below it.
    fn begins(&self, path: &str) -> bool {
        let rest = path.strip_prefix("spec.").and_then(|path| path.strip_prefix(self.v1.trim_start_matches("spec.")));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    }

    /// Length of the field in a path, in bytes.
    fn length(&self) -> usize {
        "spec.".len() + self.v1.trim_start_matches("spec.").len()
    }
}

/// The text after a path: `[0].tags matches` becomes ` matches`.
fn past_path(mut rest: &str) -> &str {
    loop {
        let next = match rest.as_bytes() {
            [b'[', ..] => rest.find(']').map(|end| end + 1),
            [b'.', letter, ..] if letter.is_ascii_alphabetic() => {
                Some(1 + rest[1..].find(|one: char| !one.is_alphanumeric()).unwrap_or(rest.len() - 1))
            }
            _ => None,
        };
        let Some(next) = next else { return rest };
        rest = &rest[next..];
    }
}
