//! Selectors of a class, in words: a condition that nothing matches names the field and the value.

use std::collections::BTreeMap;

use dovetail_api::v1::{AmiSelectorTerm, EC2NodeClassSpec};

/// Most terms that one message names.
const MOST: usize = 5;

/// The terms of a selector, `[0] id "subnet-1"; [1] tags a="b"`.
fn terms_text(field: &str, what: &str, terms: impl ExactSizeIterator<Item = String>) -> String {
    let count = terms.len();
    let terms: Vec<String> = terms.enumerate().take(MOST).map(|(at, term)| format!("[{at}] {term}")).collect();
    let more = if count > MOST { format!("; and {} more", count - MOST) } else { String::new() };
    format!("{field} matches no {what}: {}{more}", terms.join("; "))
}

fn term(keys: &[(&str, Option<&String>)], tags: &BTreeMap<String, String>) -> String {
    let keys = keys.iter().filter_map(|(key, value)| Some(format!("{key} {:?}", value.as_ref()?)));
    let tags = tags.iter().map(|(key, value)| format!("tag {key}={value:?}"));
    let all: Vec<String> = keys.chain(tags).collect();
    all.join(", ")
}

pub(in crate::ec2) fn no_subnet(spec: &EC2NodeClassSpec) -> String {
    let terms = spec.subnet_selector_terms.iter();
    terms_text("spec.subnetSelectorTerms", "subnet", terms.map(|one| term(&[("id", one.id.as_ref())], &one.tags)))
}

pub(in crate::ec2) fn no_security_group(spec: &EC2NodeClassSpec) -> String {
    let terms = spec.security_group_selector_terms.iter();
    let words = terms.map(|one| term(&[("id", one.id.as_ref()), ("name", one.name.as_ref())], &one.tags));
    terms_text("spec.securityGroupSelectorTerms", "security group", words)
}

/// `unfit`: images that are there, each with what keeps it from being a node's.
pub(in crate::ec2) fn no_image(spec: &EC2NodeClassSpec, unfit: &[String]) -> String {
    let words = |one: &AmiSelectorTerm| {
        let keys = [
            ("alias", one.alias.as_ref()),
            ("id", one.id.as_ref()),
            ("name", one.name.as_ref()),
            ("owner", one.owner.as_ref()),
            ("ssmParameter", one.ssm_parameter.as_ref()),
        ];
        term(&keys, &one.tags)
    };
    let described =
        terms_text("spec.amiSelectorTerms", "image of amd64 or arm64", spec.ami_selector_terms.iter().map(words));
    match unfit.is_empty() {
        true => described,
        false => format!("{described} (there is {})", unfit.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_matches_nothing_is_told_by_its_field_and_its_values() {
        let spec: EC2NodeClassSpec = serde_json::from_value(json!({
            "subnetSelectorTerms": [{"id": "subnet-0"}, {"tags": {"team": "blue", "env": "*"}}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "amiSelectorTerms": [{"name": "own-*", "owner": "self"}],
        }))
        .unwrap();
        let subnets =
            "spec.subnetSelectorTerms matches no subnet: [0] id \"subnet-0\"; [1] tag env=\"*\", tag team=\"blue\"";
        assert_eq!(no_subnet(&spec), subnets);
        assert!(no_security_group(&spec).ends_with("[0] name \"nodes\""));
        assert!(no_image(&spec, &["ami-1 of i386".into()]).ends_with("owner \"self\" (there is ami-1 of i386)"));
    }
}
