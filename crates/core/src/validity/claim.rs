//! A claim of a pool, validated by the API server's rules.

use dovetail_api::schema::{ErrorKind, FieldPath, SchemaError, UnknownFields, schema_for};
use dovetail_api::v1::{NodeClaim, NodePool};
use dovetail_api::validation;

use crate::labels;
use crate::lifecycle::claim::{ClaimPlan, node_claim, packing_requirement};
use crate::requirements::{Requirement, Requirements};
use crate::resources::Resources;

/// Suffix of a claim's name after the pool's.
const SUFFIX: &str = "-xxxxx";
/// Value that stands for packing's choice.
const CHOSEN: &str = "chosen";

/// A claim as packing makes it of the pool, with the fewest requirements that it can have.
#[must_use]
pub fn claim_of(pool: &NodePool) -> NodeClaim {
    let template = &pool.spec.template;
    let written: Vec<_> = template.spec.requirements.iter().map(packing_requirement).collect();
    let mut all = Requirements::from_written(&written).unwrap_or_default();
    all.intersect(&Requirements::from_labels(&template.metadata.labels));
    let name = pool.metadata.name.clone().unwrap_or_default();
    all.add(labels::NODE_POOL, Requirement::one_of([name.as_str()]));
    for key in [labels::ZONE, labels::CAPACITY_TYPE] {
        if all.get(key).is_none() {
            all.add(key, Requirement::one_of([CHOSEN]));
        }
    }
    // A packing leaves a claim as many instance types as `minValues` asks for, or makes none.
    let of_types = written.iter().filter(|one| labels::stable(&one.key) == labels::INSTANCE_TYPE);
    let types = of_types.filter_map(|one| one.min_values).max().unwrap_or(1);
    node_claim(ClaimPlan {
        name: &format!("{name}{SUFFIX}"),
        pool,
        requirements: &all.to_written(),
        instance_types: (0..types.max(1)).map(|nth| format!("{CHOSEN}-{nth}")).collect(),
        requests: &Resources::new(),
        term: 0,
        traceparent: "",
        pool_hash: CHOSEN,
        class_hash: Some(CHOSEN),
    })
}

/// The faults for which the API server would refuse to create a claim: by its CRD's schema, and by Kubernetes' rules for
/// metadata.
#[must_use]
pub fn claim(claim: &NodeClaim) -> Vec<SchemaError> {
    let mut found = Vec::new();
    let mut wrong = |wrong: Option<validation::Wrong>, path: FieldPath| {
        found.extend(wrong.map(|one| SchemaError::new(path, ErrorKind::Invalid, one.what, one.allowed)));
    };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let legal = dovetail_api::names::syntax::is_subdomain(name);
    let no_name = || validation::Wrong::new(format!("{name:?} is no object's name"), "253 characters at most");
    wrong((!legal).then(no_name), FieldPath::from_fields(&["metadata", "name"]));
    for (key, value) in claim.metadata.labels.iter().flatten() {
        let path = FieldPath::from_fields(&["metadata", "labels"]).key(key);
        wrong(validation::label_key(key).or_else(|| validation::label_value(value)), path);
    }
    for key in claim.metadata.annotations.iter().flatten().map(|(key, _)| key) {
        wrong(validation::annotation_key(key), FieldPath::from_fields(&["metadata", "annotations"]).key(key));
    }
    let (Some(schema), Ok(object)) = (schema_for("karpenter.sh/v1", "NodeClaim"), serde_json::to_value(claim)) else {
        return found;
    };
    let errors = schema.validate(&object, UnknownFields::Ignore);
    // Rules are for objects of the right form.
    let rules = if errors.is_empty() { schema.check_rules(&object, None) } else { Vec::new() };
    found.extend(errors.into_iter().chain(rules));
    found
}
