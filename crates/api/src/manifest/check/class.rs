//! Names of roles and profiles: a stray quote makes valid YAML and a name that IAM does not have.

use serde_json::Value;

use super::{Findings, names, text, value_at};
use crate::schema::FieldPath;
use crate::validation::kubelet::{Unfit, kubelet};

/// As `amiFamily` spells them.
const FAMILIES: [&str; 7] = ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
const IAM: &str = "letters, digits and + = , . @ _ -";

/// Checks an EC2NodeClass or an AWSNodeTemplate.
pub fn check(object: &Value, findings: &mut Findings) {
    names_in(object, &["spec"], findings);
    kubelet_in(object, findings);
}

/// The kubelet block, which the schema leaves open.
fn kubelet_in(object: &Value, findings: &mut Findings) {
    let Some(block) = value_at(object, &["spec", "kubelet"]).and_then(Value::as_object) else { return };
    let terms = value_at(object, &["spec", "amiSelectorTerms"]).and_then(Value::as_array);
    let alias = terms.into_iter().flatten().find_map(|term| term.get("alias")?.as_str()?.split('@').next());
    let written = value_at(object, &["spec", "amiFamily"]).and_then(Value::as_str).or(alias).unwrap_or("AL2023");
    let family = FAMILIES.iter().find(|known| known.eq_ignore_ascii_case(written)).copied().unwrap_or(written);
    for Unfit { path, wrong, .. } in kubelet(block, family) {
        let steps = ["spec", "kubelet"].into_iter().chain(path.iter().map(String::as_str));
        findings.add(FieldPath::from_fields(&steps.collect::<Vec<_>>()), wrong.what, wrong.allowed);
    }
}

/// Checks a Provisioner's inline provider.
pub fn check_provider(object: &Value, findings: &mut Findings) {
    names_in(object, &["spec", "provider"], findings);
}

fn names_in(object: &Value, at_path: &[&str], findings: &mut Findings) {
    let Some(spec) = value_at(object, at_path) else { return };
    // A role may be given with its path; what IAM's API is told is the last part.
    let role = text(spec, "role");
    if !role.is_empty() && !role.rsplit('/').next().is_some_and(|name| names::is_iam_name(name, 64)) {
        let what = format!("{} is no role's name", names::shown(role));
        findings.add(FieldPath::from_fields(at_path).key("role"), what, format!("{IAM}, 64 at most"));
    }
    let profile = text(spec, "instanceProfile");
    if !profile.is_empty() && !names::is_iam_name(profile, 128) {
        let what = format!("{} is no instance profile's name", names::shown(profile));
        findings.add(FieldPath::from_fields(at_path).key("instanceProfile"), what, format!("{IAM}, 128 at most"));
    }
    for (field, key) in [("tags", ""), ("tags", " ")] {
        if spec.get(field).and_then(|tags| tags.get(key)).is_some() {
            findings.add(FieldPath::from_fields(at_path).key(field), "a tag has no key", "a key for every tag");
        }
    }
}
