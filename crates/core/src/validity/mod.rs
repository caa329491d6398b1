//! Validity of a NodePool: a NodeClaim of it can be created, and a node can be as the claim says. One judgement for
//! manifests, for the condition ValidationSucceeded and for packing. The rules of single fields are
//! `dovetail_api::validation`; here are those over several fields, or over the algebra of requirements.

mod claim;
mod requirements;

use std::collections::BTreeSet;
use std::time::Duration;

use dovetail_api::names::conditions::{FALSE, TRUE};
use dovetail_api::names::provider::Provider;
use dovetail_api::quantity::billionths;
use dovetail_api::schema::{ErrorKind, FieldPath, SchemaError};
use dovetail_api::v1::{NodeClaimTemplateSpec, NodeClassRef, NodePool};
use dovetail_api::validation::{self, Wrong};
use jiff::Timestamp;

pub use claim::{claim, claim_of};

use crate::budgets::{RemovalReason, allowed};

/// The least `expireAfter` that nodes are planned for. A node needs a minute or more to be initialized: one that expires
/// before it is launched, drained and launched again without end.
pub const LEAST_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The same for nodes of kwok, which boot nothing.
const LEAST_OF_KWOK: Duration = Duration::from_secs(20);
/// The reason of ValidationSucceeded=False, and of the event that says so (core spec 1.1).
pub const REASON: &str = "NodePoolValidationFailed";
/// Bytes of annotations that are left for the control plane's own on a claim and its Node.
const OWN_ANNOTATIONS: usize = 16 * 1024;

/// The faults in a pool's own fields. It costs microseconds: every packing asks.
#[must_use]
pub fn node_pool(pool: &NodePool) -> Vec<SchemaError> {
    let mut found = Found::default();
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    // The name becomes the value of a label of each claim.
    found.add(validation::label_value(name), || FieldPath::from_fields(&["metadata", "name"]));
    metadata(pool, &mut found);
    let spec = &pool.spec.template.spec;
    node_class_ref(&spec.node_class_ref, &mut found);
    taints(spec, &mut found);
    requirements::check(pool, &mut found);
    lifetime(spec, &mut found);
    numbers(pool, &mut found);
    found.0
}

/// The faults of a pool, those of the claims that would be created for it included. This costs milliseconds when the pool is new.
#[must_use]
pub fn node_pool_with_claim(pool: &NodePool) -> Vec<SchemaError> {
    let found = node_pool(pool);
    if !found.is_empty() {
        return found;
    }
    let as_a_claim = |mut error: SchemaError| {
        error.what = format!("a NodeClaim of it would be refused: {}", error.what);
        error
    };
    claim(&claim_of(pool)).into_iter().map(as_a_claim).collect()
}

/// The condition ValidationSucceeded of a pool: status, reason, message.
#[must_use]
pub fn verdict(pool: &NodePool) -> (&'static str, &'static str, String) {
    let mistakes = node_pool_with_claim(pool);
    if mistakes.is_empty() { (TRUE, "", String::new()) } else { (FALSE, REASON, sentence(&mistakes)) }
}

/// The faults in a pool's budgets. With one of them nothing of the pool is disrupted.
#[must_use]
pub fn budgets(pool: &NodePool) -> Vec<String> {
    allowed(pool, RemovalReason::Empty, 0, Timestamp::UNIX_EPOCH).mistakes
}

/// Several mistakes as one sentence: the first few, and how many more there are.
#[must_use]
pub fn sentence<T: ToString>(mistakes: &[T]) -> String {
    const SHOWN: usize = 3;
    let mut shown: Vec<String> = mistakes.iter().take(SHOWN).map(|mistake| cut(mistake.to_string())).collect();
    if mistakes.len() > SHOWN {
        shown.push(format!("and {} more", mistakes.len() - SHOWN));
    }
    shown.join("; ")
}

/// Cuts a fault to a bounded length: conditions and events have bounds, an author's text has none.
fn cut(text: String) -> String {
    const MOST: usize = 300;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
struct Found(Vec<SchemaError>);

impl Found {
    fn add(&mut self, wrong: Option<Wrong>, path: impl FnOnce() -> FieldPath) {
        if let Some(Wrong { what, allowed }) = wrong {
            self.0.push(SchemaError::new(path(), ErrorKind::Invalid, what, allowed));
        }
    }
}

/// A field of the template's metadata.
fn of_metadata(field: &str) -> FieldPath {
    FieldPath::from_fields(&["spec", "template", "metadata", field])
}

/// A field of the template's spec.
fn of_spec(field: &str) -> FieldPath {
    FieldPath::from_fields(&["spec", "template", "spec", field])
}

fn metadata(pool: &NodePool, found: &mut Found) {
    let metadata = &pool.spec.template.metadata;
    for (key, value) in &metadata.labels {
        found.add(validation::template_label(key, value), || of_metadata("labels").key(key));
    }
    for key in metadata.annotations.keys() {
        found.add(validation::template_annotation(key), || of_metadata("annotations").key(key));
    }
    let bytes: usize = metadata.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    let most = validation::MOST_ANNOTATIONS - OWN_ANNOTATIONS;
    let wrong = (bytes > most).then(|| Wrong::new(format!("has {bytes} bytes"), format!("{most} bytes at most")));
    found.add(wrong, || of_metadata("annotations"));
}

fn node_class_ref(class: &NodeClassRef, found: &mut Found) {
    let ours = NodeClassRef::ec2("");
    let wrong = class.known_name().is_none().then(|| {
        let what = format!("kind {:?} of group {:?} is not supported", class.kind, class.group);
        Wrong::new(what, format!("kind {} of group {}", ours.kind, ours.group))
    });
    found.add(wrong, || of_spec("nodeClassRef"));
    // The class's name becomes the value of a label, too.
    found.add(validation::label_value(&class.name), || of_spec("nodeClassRef").key("name"));
}

fn taints(spec: &NodeClaimTemplateSpec, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (field, taints) in [("taints", &spec.taints), ("startupTaints", &spec.startup_taints)] {
        for (index, taint) in taints.iter().enumerate() {
            let (key, effect) = (taint.key.as_str(), taint.effect.as_str());
            let value = taint.value.as_deref().unwrap_or_default();
            found.add(validation::taint(key, value, effect), || of_spec(field).index(index));
            let repeated = !seen.insert((key, effect));
            let wrong = repeated.then(|| validation::repeated_taint(key, effect));
            found.add(wrong, || of_spec(field).index(index));
        }
    }
}

fn lifetime(spec: &NodeClaimTemplateSpec, found: &mut Found) {
    let pretends = spec.node_class_ref.name_for(Provider::Kwok).is_some();
    let (least, allowed) = if pretends { (LEAST_OF_KWOK, "20s") } else { (LEAST_LIFETIME, "5m") };
    let short = spec.expire_after.get().is_some_and(|after| after < least);
    let wrong = short.then(|| {
        let what = format!("{} is over before a node is initialized", spec.expire_after);
        Wrong::new(what, format!("{allowed} or more, or Never"))
    });
    found.add(wrong, || of_spec("expireAfter"));
}

fn numbers(pool: &NodePool, found: &mut Found) {
    for (name, quantity) in pool.spec.limits.iter().flatten() {
        let negative = billionths(&quantity.0).is_some_and(|amount| amount < 0);
        let wrong = negative.then(|| Wrong::new(format!("is {}", quantity.0), "0 or more"));
        found.add(wrong, || FieldPath::from_fields(&["spec", "limits"]).key(name));
    }
    let weight = pool.spec.weight.filter(|weight| !(1..=100).contains(weight));
    let wrong = weight.map(|weight| Wrong::new(format!("is {weight}"), "1 to 100"));
    found.add(wrong, || FieldPath::from_fields(&["spec", "weight"]));
}

#[cfg(test)]
mod tests;
