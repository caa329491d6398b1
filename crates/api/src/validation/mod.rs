//! The runtime validation of pools and claims (core spec 1.1), field by field: what Kubernetes lets an object carry and
//! what Karpenter lets a user write. It is one for manifests as they are read ([`crate::manifest`]) and for live objects
//! (`dovetail_core::validity`), in every version.

pub mod kubelet;
pub mod own;
mod requirement;

pub use requirement::{RequirementPart, WrittenRequirement, requirement};

use crate::names::{alias, annotations, labels, syntax, taints};

/// A mistake in a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The value and what it is not.
    pub what: String,
    /// Values that are allowed.
    pub allowed: String,
}

impl Wrong {
    /// A mistake.
    pub fn new(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { what: what.into(), allowed: allowed.into() }
    }
}

/// Labels that a pool may name, in words.
const UNRESTRICTED: &str = "well-known labels, or labels of other domains";

/// Most requirements of a pool and of a claim.
pub const MOST_REQUIREMENTS: usize = 100;

/// Most bytes of all annotations of an object, keys and values (Kubernetes' `TotalAnnotationSizeLimitB`).
pub const MOST_ANNOTATIONS: usize = 256 * 1024;

/// A label that every node of a pool gets.
pub fn template_label(key: &str, value: &str) -> Option<Wrong> {
    if let wrong @ Some(_) = label_key(key) {
        return wrong;
    }
    if let Some(why) = labels::restriction(alias::normalize(key)) {
        return Some(Wrong::new(why, UNRESTRICTED));
    }
    label_value(value)
}

/// A label's key.
pub fn label_key(key: &str) -> Option<Wrong> {
    (!syntax::is_key(key)).then(|| Wrong::new(format!("{} is no label's key", syntax::shown(key)), syntax::KEY))
}

/// A label's value.
pub fn label_value(value: &str) -> Option<Wrong> {
    let wrong = || Wrong::new(format!("{} is no label's value", syntax::shown(value)), syntax::LABEL_VALUE);
    (!syntax::is_label_value(value)).then(wrong)
}

/// An annotation's key; Kubernetes looks at it in lower case.
pub fn annotation_key(key: &str) -> Option<Wrong> {
    let wrong = || Wrong::new(format!("{} is no annotation's key", syntax::shown(key)), syntax::KEY);
    (!syntax::is_key(&key.to_ascii_lowercase())).then(wrong)
}

/// An annotation that a pool's template may not set: by it the control plane knows a claim's own launch and its end.
pub fn template_annotation(key: &str) -> Option<Wrong> {
    let kept = [
        annotations::LAUNCH_TOKEN,
        annotations::LAUNCH_PLACE,
        annotations::INTERRUPTION,
        annotations::END_TRACEPARENT,
        annotations::END_REASON,
        annotations::TERMINATION_TIMESTAMP,
    ];
    if let wrong @ Some(_) = annotation_key(key) {
        return wrong;
    }
    kept.contains(&key)
        .then(|| Wrong::new(format!("the annotation {key} is written by the control plane"), "other annotations"))
}

/// A taint that a node can carry.
pub fn taint(key: &str, value: &str, effect: &str) -> Option<Wrong> {
    if !syntax::is_key(key) {
        return Some(Wrong::new(format!("{} is no taint's key", syntax::shown(key)), syntax::KEY));
    }
    if !syntax::is_label_value(value) {
        return Some(Wrong::new(format!("{} is no taint's value", syntax::shown(value)), syntax::LABEL_VALUE));
    }
    let known = taints::EFFECTS.contains(&effect);
    (!known).then(|| Wrong::new(format!("{effect:?} is no taint's effect"), taints::EFFECTS.join(", ")))
}

/// A taint whose key and effect are there already.
pub fn repeated_taint(key: &str, effect: &str) -> Wrong {
    Wrong::new(
        format!("a taint {key}:{effect} is there already"),
        "each key and effect once over taints and startupTaints",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_no_node_can_carry_are_wrong() {
        let long = "a".repeat(64);
        for (key, value) in [
            ("a b", "c"),
            ("", "c"),
            ("-a", "c"),
            ("a/b/c", "c"),
            ("A.b/c", "c"),
            ("team", "a b"),
            ("team", "-a"),
            ("team", "a/b"),
            ("team", long.as_str()),
            (long.as_str(), "c"),
            ("kubernetes.io/hostname", "a"),
            ("karpenter.sh/nodepool", "a"),
            ("karpenter.sh/registered", "true"),
            ("x.karpenter.sh/y", "a"),
            ("karpenter.k8s.aws/ec2nodeclass", "a"),
        ] {
            assert!(template_label(key, value).is_some(), "{key}={value}");
        }
        let domain = format!("{}.example.com/team", "a".repeat(100));
        for (key, value) in
            [("team", ""), ("a.b/C_d", "x.Y_z-1"), (domain.as_str(), "a"), ("karpenter.sh/capacity-type", "spot")]
        {
            assert_eq!(template_label(key, value), None, "{key}={value}");
        }
    }

    #[test]
    fn taints_that_no_node_can_carry_are_wrong() {
        let long = "a".repeat(64);
        for (key, value, effect) in [
            ("", "", "NoSchedule"),
            ("a b", "", "NoSchedule"),
            ("a", "b c", "NoSchedule"),
            ("a", "example.com/b", "NoSchedule"),
            ("a", long.as_str(), "NoSchedule"),
            (long.as_str(), "", "NoSchedule"),
            ("a", "", ""),
            ("a", "", "Never"),
        ] {
            assert!(taint(key, value, effect).is_some(), "{key}={value}:{effect}");
        }
        for (key, value, effect) in
            [("a", "", "NoSchedule"), ("a.b/c", "x", "NoExecute"), ("a", "b", "PreferNoSchedule")]
        {
            assert_eq!(taint(key, value, effect), None, "{key}={value}:{effect}");
        }
    }

    #[test]
    fn annotations_of_claim_launch_and_end_are_not_for_templates() {
        for key in ["dovetail.dev/launch-token", "dovetail.dev/interruption", "a b", "", "a/b/c"] {
            assert!(template_annotation(key).is_some(), "{key}");
        }
        for key in ["karpenter.sh/do-not-disrupt", "Example.com/Note", "note"] {
            assert_eq!(template_annotation(key), None, "{key}");
        }
    }
}
