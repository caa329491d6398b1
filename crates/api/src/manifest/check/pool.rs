//! The runtime validation of pools and claims in every version, at the fields where they write it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Findings, list, text, texts, value_at};
use crate::{
    schema::FieldPath,
    v1::NodeSelectorOperator,
    validation::{self, RequirementPart, WrittenRequirement},
};

/// Checks a NodePool, a NodeClaim or a Provisioner.
pub fn check(object: &Value, kind: &str, findings: &mut Findings) {
    let (metadata, spec): (&[&str], &[&str]) = match kind {
        "NodePool" => (&["spec", "template", "metadata"], &["spec", "template", "spec"]),
        _ => (&["spec"], &["spec"]),
    };
    let below = |at: &[&'static str], name: &'static str| at.iter().copied().chain([name]).collect::<Vec<_>>();
    if kind != "NodeClaim" {
        let (labels, annotations) = (below(metadata, "labels"), below(metadata, "annotations"));
        for (key, value) in texts(object, &labels) {
            let wrong = validation::template_label(key, value);
            findings.add_wrong(wrong, || FieldPath::from_fields(&labels).key(key));
        }
        for (key, _) in texts(object, &annotations) {
            let wrong = validation::template_annotation(key);
            findings.add_wrong(wrong, || FieldPath::from_fields(&annotations).key(key));
        }
    }
    let mut seen = BTreeSet::new();
    for field in ["taints", "startupTaints"] {
        for (index, taint) in list(object, &below(spec, field)).iter().enumerate() {
            let path = || FieldPath::from_fields(&below(spec, field)).index(index);
            self::taint(taint, &mut seen, path, findings);
        }
    }
    for (index, requirement) in list(object, &below(spec, "requirements")).iter().enumerate() {
        let path = FieldPath::from_fields(&below(spec, "requirements")).index(index);
        self::requirement(requirement, kind == "NodeClaim", &path, findings);
    }
}

fn taint<'v>(
    taint: &'v Value,
    seen: &mut BTreeSet<(&'v str, &'v str)>,
    path: impl Fn() -> FieldPath,
    findings: &mut Findings,
) {
    let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
    // The schema reports a key or effect that is missing, or no text.
    if key.is_empty() || effect.is_empty() {
        return;
    }
    if !seen.insert((key, effect)) {
        findings.add_wrong(Some(validation::repeated_taint(key, effect)), &path);
    }
    findings.add_wrong(validation::taint(key, value, effect), &path);
}

fn requirement(requirement: &Value, of_claim: bool, path: &FieldPath, findings: &mut Findings) {
    let key = text(requirement, "key");
    let values: Vec<&str> = list(requirement, &["values"]).iter().filter_map(Value::as_str).collect();
    let Some(operator) = NodeSelectorOperator::named(text(requirement, "operator")).filter(|_| !key.is_empty()) else {
        return;
    };
    let min_values = value_at(requirement, &["minValues"]).and_then(Value::as_i64);
    let written = WrittenRequirement { key, operator, values: &values, min_values, of_claim };
    for (part, wrong) in validation::requirement(&written) {
        let path = match part {
            RequirementPart::Key => path.key("key"),
            RequirementPart::Values => path.key("values"),
            RequirementPart::Value(index) => path.key("values").index(index),
            RequirementPart::MinValues => path.key("minValues"),
        };
        findings.add_wrong(Some(wrong), || path);
    }
}
