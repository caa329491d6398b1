//! The root condition of a kind, computed from its dependents.

use dovetail_api::names::conditions::{
    FALSE, INITIALIZED, LAUNCHED, NODE_CLASS_READY, READY, RECONCILING_DEPENDENTS, REGISTERED, TRUE,
    UNHEALTHY_DEPENDENTS, UNKNOWN, VALIDATION_SUCCEEDED,
};
use dovetail_api::v1::{NewCondition, condition, condition_status, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Conditions on which a NodeClaim's Ready rests.
pub const OF_CLAIM: [&str; 3] = [LAUNCHED, REGISTERED, INITIALIZED];
/// Conditions on which a NodePool's Ready rests.
pub const OF_POOL: [&str; 2] = [VALIDATION_SUCCEEDED, NODE_CLASS_READY];

/// Sets a NodeClaim's Ready from its three stages.
pub fn set_root(conditions: &mut Vec<Condition>, generation: Option<i64>, now: Timestamp) -> bool {
    set_root_of(conditions, &OF_CLAIM, generation, now)
}

/// Sets Ready from `dependents`: True when all are, False when one is, else Unknown. Answers whether it changed.
pub fn set_root_of(
    conditions: &mut Vec<Condition>,
    dependents: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let with = |status: &str| -> Vec<&str> {
        dependents.iter().copied().filter(|type_| condition_status(conditions, type_) == status).collect()
    };
    let (failed, unknown) = (with(FALSE), with(UNKNOWN));
    let (status, reason, message) = if !failed.is_empty() {
        (FALSE, UNHEALTHY_DEPENDENTS, listed(&failed, FALSE))
    } else if !unknown.is_empty() {
        (UNKNOWN, RECONCILING_DEPENDENTS, listed(&unknown, UNKNOWN))
    } else {
        (TRUE, READY, String::new())
    };
    set_condition(conditions, NewCondition::new(READY, status).because(reason, &message), generation, now)
}

/// The causes of an object that is not Ready: the conditions that its Ready names, without those that only sum up others.
pub fn roots(conditions: &[Condition]) -> impl Iterator<Item = &Condition> {
    const SUM: &str = "DependenciesNotReady";
    let ready = condition(conditions, READY);
    // Conditions that only inform, such as of a field that is not implemented, keep nothing from being Ready.
    let is_named = move |one: &&Condition| {
        ready.is_some_and(|ready| ready.message.split(", ").any(|each| each.split('=').next() == Some(&one.type_)))
    };
    conditions.iter().filter(|one| one.type_ != READY && one.status != TRUE && one.reason != SUM).filter(is_named)
}

/// The causes ([`roots`]) in words, each condition with its message; the message of Ready itself if it names none.
pub fn why(conditions: &[Condition]) -> String {
    let each: Vec<String> =
        roots(conditions).map(|one| format!("{}={} ({})", one.type_, one.status, one.message)).collect();
    match condition(conditions, READY) {
        Some(ready) if each.is_empty() => ready.message.clone(),
        _ => each.join(", "),
    }
}

fn listed(types: &[&str], status: &str) -> String {
    let each: Vec<_> = types.iter().map(|type_| format!("{type_}={status}")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn root(launched: &str, registered: &str) -> (String, String) {
        let mut all = Vec::new();
        set_condition(&mut all, NewCondition::new(LAUNCHED, launched).because("x", ""), None, Timestamp::UNIX_EPOCH);
        set_condition(
            &mut all,
            NewCondition::new(REGISTERED, registered).because("x", ""),
            None,
            Timestamp::UNIX_EPOCH,
        );
        set_condition(&mut all, NewCondition::new(INITIALIZED, TRUE).because("x", ""), None, Timestamp::UNIX_EPOCH);
        set_root(&mut all, None, Timestamp::UNIX_EPOCH);
        let ready = dovetail_api::v1::condition(&all, READY).unwrap();
        (ready.status.clone(), ready.message.clone())
    }

    #[test]
    fn why_names_blocking_conditions_not_summaries_or_notices() {
        let mut all = Vec::new();
        let mut set = |type_: &str, reason: &str, message: &str| {
            set_condition(
                &mut all,
                NewCondition::new(type_, FALSE).because(reason, message),
                None,
                Timestamp::UNIX_EPOCH,
            );
        };
        set("SubnetsReady", "SubnetsNotFound", "spec.subnetSelectorTerms matches no subnet");
        set("ValidationSucceeded", "DependenciesNotReady", "others are not ready");
        set("dovetail.dev/NotImplemented", "NotImplemented", "spec.replicas");
        set(READY, UNHEALTHY_DEPENDENTS, "SubnetsReady=False, ValidationSucceeded=False");
        assert_eq!(why(&all), "SubnetsReady=False (spec.subnetSelectorTerms matches no subnet)");
        assert_eq!(roots(&all).map(|one| one.reason.as_str()).collect::<Vec<_>>(), ["SubnetsNotFound"]);
        all.retain(|one| one.type_ == READY);
        assert_eq!(why(&all), "SubnetsReady=False, ValidationSucceeded=False");
    }

    #[test]
    fn one_false_dependent_makes_the_root_false_and_is_named() {
        assert_eq!(root(UNKNOWN, FALSE), (FALSE.into(), "Registered=False".into()));
        assert_eq!(root(UNKNOWN, TRUE), (UNKNOWN.into(), "Launched=Unknown".into()));
        assert_eq!(root(TRUE, TRUE), (TRUE.into(), String::new()));
    }
}
