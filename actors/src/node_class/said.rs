//! Conditions of a NodePool or an EC2NodeClass about requests that have no effect: annotations of ours that are misspelt, and
//! fields that are not implemented. Each condition exists only while it has something to say.

use dovetail_api::names::conditions::{ANNOTATIONS_KNOWN, FALSE, NOT_IMPLEMENTED, REPLICAS_READY, TRUE};
use dovetail_api::unimplemented::sentence;
use dovetail_api::v1::{NewCondition, NodePool, set_condition};
use dovetail_api::validation::Wrong;
use dovetail_core::validity;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The reason of the condition and of the event that an annotation is misspelt.
pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";
/// The reason of the condition that something is asked for which nothing is done about.
const NOT_YET: &str = "NotImplemented";

/// Writes both conditions, or takes them away.
pub fn write(
    conditions: &mut Vec<Condition>,
    misspelt: Vec<(String, Wrong)>,
    missing: &[String],
    generation: Option<i64>,
    now: Timestamp,
) {
    let each =
        misspelt.into_iter().map(|(field, Wrong { what, allowed })| format!("{field}: {what} (allowed: {allowed})"));
    let misspelt: Vec<String> = each.collect();
    let misspelt = (!misspelt.is_empty()).then(|| format!("{}; it has no effect", validity::sentence(&misspelt)));
    let said =
        [(ANNOTATIONS_KNOWN, FALSE, INVALID_ANNOTATION, misspelt), (NOT_IMPLEMENTED, TRUE, NOT_YET, sentence(missing))];
    for (type_, status, reason, message) in said {
        match message {
            Some(message) => {
                set_condition(conditions, NewCondition::new(type_, status).because(reason, &message), generation, now);
            }
            None => conditions.retain(|one| one.type_ != type_),
        }
    }
}

/// Says of a static pool that it gets no nodes, where the feature gate StaticCapacity is off. Where it is on, `static_pools` says
/// what the pool has.
pub fn write_gate(pool: &mut NodePool, on: bool, now: Timestamp) {
    if on || pool.spec.replicas.is_none() {
        return;
    }
    let generation = pool.metadata.generation;
    let message =
        format!("{}; FEATURE_GATES=StaticCapacity=true opens it", dovetail_api::unimplemented::STATIC_GATE_OFF);
    let condition = NewCondition::new(REPLICAS_READY, FALSE).because("FeatureGateOff", &message);
    set_condition(&mut pool.status.get_or_insert_default().conditions, condition, generation, now);
}

#[cfg(test)]
mod tests {
    use dovetail_api::v1::condition;

    use super::*;

    #[test]
    fn each_is_there_while_it_has_something_to_say() {
        let mut all = Vec::new();
        let now = Timestamp::UNIX_EPOCH;
        let misspelt = || {
            vec![("metadata.annotations[dovetail.dev/x]".to_owned(), Wrong::new("there is no such annotation", "y"))]
        };
        write(&mut all, misspelt(), &["spec.replicas".to_owned()], Some(1), now);
        let told =
            |all: &[Condition], type_: &str| condition(all, type_).map(|one| (one.status.clone(), one.message.clone()));
        let (status, message) = told(&all, ANNOTATIONS_KNOWN).unwrap_or_default();
        assert!(status == FALSE && message.contains("dovetail.dev/x") && message.contains("no effect"), "{message}");
        assert_eq!(told(&all, NOT_IMPLEMENTED), Some((TRUE.into(), "not implemented: spec.replicas".into())));
        write(&mut all, vec![], &[], Some(2), now);
        assert!(all.is_empty());
    }
}
