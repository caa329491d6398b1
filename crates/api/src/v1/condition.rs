//! Setting and reading conditions as Karpenter's library does: the time changes only when the status changes.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use crate::names::conditions::{TRUE, UNKNOWN};

/// The condition of that type.
pub fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Its status, `Unknown` when it is not there.
pub fn condition_status<'a>(conditions: &'a [Condition], type_: &str) -> &'a str {
    condition(conditions, type_).map_or(UNKNOWN, |condition| condition.status.as_str())
}

/// True if the condition is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    condition_status(conditions, type_) == TRUE
}

/// A condition to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewCondition<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> NewCondition<'a> {
    /// With the type's name for its reason, and no message: what a condition says that is `True`.
    #[must_use]
    pub const fn new(type_: &'a str, status: &'a str) -> Self {
        Self { type_, status, reason: "", message: "" }
    }

    /// With a reason, which is one word, and a message for people. An empty reason becomes the type's name.
    #[must_use]
    pub const fn because(self, reason: &'a str, message: &'a str) -> Self {
        Self { reason, message, ..self }
    }
}

/// Writes a condition; answers whether anything but the observed generation changed. Conditions stay sorted by type.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    condition: NewCondition<'_>,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let NewCondition { type_, status, reason, message } = condition;
    let reason = if reason.is_empty() { type_ } else { reason };
    let written = Condition {
        last_transition_time: Time(now),
        message: message.into(),
        observed_generation: generation,
        reason: reason.into(),
        status: status.into(),
        type_: type_.into(),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(old) => {
            let time = if old.status == status { old.last_transition_time.clone() } else { Time(now) };
            let changed = old.status != status || old.reason != reason || old.message != message;
            *old = Condition { last_transition_time: time, ..written };
            changed
        }
        None => {
            conditions.push(written);
            conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let mut all = Vec::new();
        assert!(set_condition(&mut all, NewCondition::new("Ready", "False").because("Why", ""), Some(1), early));
        assert!(set_condition(&mut all, NewCondition::new("Ready", "False").because("Other", ""), Some(2), late));
        assert_eq!(all[0].last_transition_time.0, early);
        assert!(!set_condition(&mut all, NewCondition::new("Ready", "False").because("Other", ""), Some(3), late));
        assert!(set_condition(&mut all, NewCondition::new("Ready", "True"), Some(3), late));
        assert_eq!((all[0].last_transition_time.0, all[0].reason.as_str()), (late, "Ready"));
        assert!(is_true(&all, "Ready"));
    }
}
