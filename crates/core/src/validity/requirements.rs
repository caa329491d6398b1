//! The requirements and labels of a pool's template: each by itself, and together.

use dovetail_api::names::labels as names;
use dovetail_api::v1::{self, NodePool};
use dovetail_api::validation::{self, RequirementPart, WrittenRequirement, Wrong};

use super::{Found, of_metadata, of_spec};
use crate::labels;
use crate::lifecycle::claim::packing_requirement;
use crate::requirements::{Incompatible, Requirement, Requirements, describe};

/// Labels whose values are the same in every region: no node has any other value.
const KNOWN: [(&str, &[&str]); 3] = [
    (labels::ARCH, &["amd64", "arm64"]),
    (labels::OS, &["linux", "windows"]),
    (labels::CAPACITY_TYPE, &names::CAPACITY_TYPES),
];

pub(super) fn check(pool: &NodePool, found: &mut Found) {
    let before = found.0.len();
    let template = &pool.spec.template;
    for (index, requirement) in template.spec.requirements.iter().enumerate() {
        each(index, requirement, found);
    }
    // Requirements that are wrong by themselves are not checked together.
    if found.0.len() == before {
        together(pool, found);
    }
}

fn each(index: usize, requirement: &v1::NodeSelectorRequirementWithMinValues, found: &mut Found) {
    let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
    let written = WrittenRequirement {
        key: &requirement.key,
        operator: requirement.operator,
        values: &values,
        min_values: requirement.min_values.map(i64::from),
        of_claim: false,
    };
    for (part, wrong) in validation::requirement(&written) {
        found.add(Some(wrong), || {
            let path = of_spec("requirements").index(index);
            match part {
                RequirementPart::Key => path.key("key"),
                RequirementPart::Values => path.key("values"),
                RequirementPart::Value(value) => path.key("values").index(value),
                RequirementPart::MinValues => path.key("minValues"),
            }
        });
    }
}

/// Checks labels and requirements together; a label is a requirement of one value.
fn together(pool: &NodePool, found: &mut Found) {
    let template = &pool.spec.template;
    let mut all = Requirements::new();
    for (key, value) in &template.metadata.labels {
        let one = Requirement::one_of([value.as_str()]);
        let wrong = unsatisfiable(key, &one).or_else(|| conflict(&all, key, &one));
        found.add(wrong, || of_metadata("labels").key(key));
        all.add(key, one);
    }
    for (index, requirement) in template.spec.requirements.iter().enumerate() {
        let one = match Requirement::from_written(&packing_requirement(requirement)) {
            Ok(one) => one,
            Err(error) => {
                found.add(Some(Wrong::new(error.to_string(), "")), || of_spec("requirements").index(index));
                continue;
            }
        };
        let wrong = unsatisfiable(&requirement.key, &one).or_else(|| conflict(&all, &requirement.key, &one));
        found.add(wrong, || of_spec("requirements").index(index));
        all.add(&requirement.key, one);
    }
    for (key, one) in all.iter() {
        let (least, count) = (one.min_values().map_or(0, |least| least as usize), one.values().len());
        if !one.is_complement() && count > 0 && least > count {
            let what = format!("minValues {least} of {key}: labels and requirements leave {count} value(s)");
            found.add(Some(Wrong::new(what, format!("{count} at most"))), || of_spec("requirements"));
        }
    }
}

/// The fault of a requirement that no node can meet.
fn unsatisfiable(key: &str, one: &Requirement) -> Option<Wrong> {
    if one.is_empty() && !one.allows_absence() {
        return Some(Wrong::new(format!("{}: no value satisfies it", describe(key, one)), ""));
    }
    let (_, known) = KNOWN.iter().find(|(known, _)| *known == labels::stable(key))?;
    let possible = known.iter().any(|value| one.has(value));
    (!possible).then(|| Wrong::new(format!("{}: no node is that", describe(key, one)), known.join(", ")))
}

fn conflict(all: &Requirements, key: &str, one: &Requirement) -> Option<Wrong> {
    let mut wanted = Requirements::new();
    wanted.add(key, one.clone());
    match all.intersects(&wanted) {
        Err(Incompatible::Conflict { wanted, offered, .. }) => {
            Some(Wrong::new(format!("{wanted} contradicts {offered}"), ""))
        }
        _ => None,
    }
}
