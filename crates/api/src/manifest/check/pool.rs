//! The runtime validation of pools and claims (core spec 1.1), in every version: labels, taints, requirements.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Findings, at, list, names, text, texts};
use crate::{
    names::{alias, labels},
    schema::Path,
    v1::Operator,
};

/// Checks a NodePool, a NodeClaim or a Provisioner.
pub fn check(object: &Value, kind: &str, findings: &mut Findings) {
    let (metadata, spec): (&[&str], &[&str]) = match kind {
        "NodePool" => (&["spec", "template", "metadata"], &["spec", "template", "spec"]),
        _ => (&["spec"], &["spec"]),
    };
    let below = |at: &[&'static str], name: &'static str| at.iter().copied().chain([name]).collect::<Vec<_>>();
    if kind != "NodeClaim" {
        for (key, value) in texts(object, &below(metadata, "labels")) {
            label(key, value, &Path::of(&below(metadata, "labels")).key(key), findings);
        }
    }
    let mut seen = BTreeSet::new();
    for field in ["taints", "startupTaints"] {
        for (index, taint) in list(object, &below(spec, field)).iter().enumerate() {
            let (key, effect) = (text(taint, "key"), text(taint, "effect"));
            let path = Path::of(&below(spec, field)).index(index);
            if !key.is_empty() && !seen.insert((key, effect)) {
                findings.add(
                    path,
                    format!("a taint {key}:{effect} is there already"),
                    "each key and effect once over taints and startupTaints",
                );
            }
        }
    }
    for (index, requirement) in list(object, &below(spec, "requirements")).iter().enumerate() {
        let path = Path::of(&below(spec, "requirements")).index(index);
        self::requirement(requirement, kind == "NodeClaim", &path, findings);
    }
}

fn label(key: &str, value: &str, path: &Path, findings: &mut Findings) {
    if !names::is_key(key) {
        findings.add(path.clone(), format!("{} is no label's key", names::shown(key)), names::KEY);
    } else if let Some(why) = labels::restriction(alias::normalize(key)) {
        findings.add(path.clone(), why, WHERE_FREE);
    } else if !names::is_label_value(value) {
        findings.add(path.clone(), format!("{} is no label's value", names::shown(value)), names::LABEL_VALUE);
    }
}

/// Which labels a pool may name.
const WHERE_FREE: &str = "well-known labels, or labels of other domains";

fn requirement(requirement: &Value, claim: bool, path: &Path, findings: &mut Findings) {
    let key = text(requirement, "key");
    let stable = alias::normalize(key);
    let exempt =
        matches!(stable, labels::INSTANCE_PODS | labels::INSTANCE_AMI_ID) || (claim && stable == labels::NODE_POOL);
    if let Some(why) = labels::restriction(stable).filter(|_| !key.is_empty() && !exempt) {
        findings.add(path.key("key"), why, WHERE_FREE);
    }
    let values: Vec<&str> = list(requirement, &["values"]).iter().filter_map(Value::as_str).collect();
    let Some(operator) = Operator::parse(text(requirement, "operator")) else { return };
    for (index, value) in values.iter().enumerate().filter(|(_, value)| !names::is_label_value(value)) {
        findings.add(
            path.key("values").index(index),
            format!("{} is no label's value", names::shown(value)),
            names::LABEL_VALUE,
        );
    }
    let at_values = path.key("values");
    match operator {
        Operator::In if values.is_empty() => findings.add(at_values, "operator In has no value", "one value or more"),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            findings.add(at_values, format!("operator {operator} has values"), "no values");
        }
        _ if operator.is_numeric() => {
            let number = values.first().is_some_and(|value| value.parse::<u32>().is_ok() && !value.starts_with('+'));
            if values.len() != 1 || !number {
                findings.add(
                    at_values,
                    format!("operator {operator} needs one integer, {values:?} is none"),
                    "one integer, 0 or more",
                );
            }
        }
        _ => {}
    }
    counts(requirement, stable, operator, &values, path, findings);
}

fn counts(requirement: &Value, key: &str, operator: Operator, values: &[&str], path: &Path, findings: &mut Findings) {
    let least = at(requirement, &["minValues"]).and_then(Value::as_u64).unwrap_or(0);
    if operator != Operator::In || values.is_empty() {
        return;
    }
    if least > values.len() as u64 {
        let what = format!("asks for {least} values of {}", values.len());
        findings.add(path.key("minValues"), what, format!("{} at most", values.len()));
    }
    if key == labels::CAPACITY_TYPE {
        let known = values.iter().filter(|value| labels::CAPACITY_TYPES.contains(value)).count();
        if known == 0 || (known as u64) < least {
            let what = format!("{values:?} are no capacity types");
            findings.add(path.key("values"), what, labels::CAPACITY_TYPES.join(", "));
        }
    }
}
