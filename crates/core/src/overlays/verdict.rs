//! The conditions of an overlay: what it acts on, or why it does not.

use dovetail_api::names::conditions::{FALSE, READY, TRUE, UNHEALTHY_DEPENDENTS, VALIDATION_SUCCEEDED};
use dovetail_api::overlays::NodeOverlayStatus;
use dovetail_api::v1::{NewCondition, set_condition};
use jiff::Timestamp;

use super::{OverlayConflict, OverlayEffect, OverlayReach};

/// Most names of pools in a message.
const MOST_NAMES: usize = 5;
/// Most characters of a message.
const LONGEST_MESSAGE: usize = 2_000;

/// Status, reason and message of an overlay's condition `ValidationSucceeded`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayVerdict {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// The verdict on an overlay.
#[must_use]
pub fn judge_overlay(effect: &OverlayEffect) -> OverlayVerdict {
    let (status, reason, message) = match effect {
        OverlayEffect::Invalid(why) => (FALSE, "RuntimeValidation", why.clone()),
        OverlayEffect::Conflict(conflict) => (FALSE, "Conflict", conflict_message(conflict)),
        OverlayEffect::Applied(reach) => (TRUE, VALIDATION_SUCCEEDED, reach_message(reach)),
    };
    OverlayVerdict { status, reason, message: message.chars().take(LONGEST_MESSAGE).collect() }
}

fn conflict_message(conflict: &OverlayConflict) -> String {
    let OverlayConflict { other, weight, both_say } = conflict;
    format!(
        "conflict with another overlay: {other}, which counts, has the same weight {weight} and sets {both_say} as well; give one of them another weight"
    )
}

fn reach_message(reach: &OverlayReach) -> String {
    if reach.types == 0 {
        return "it selects no instance type of any NodePool".to_owned();
    }
    let names: Vec<&str> = reach.pools.iter().take(MOST_NAMES).map(String::as_str).collect();
    let more = match reach.pools.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (types, offerings) = (reach.types, reach.offerings);
    format!(
        "it selects {types} instance type(s) and prices {offerings} offering(s), in nodepools {}{more}",
        names.join(", ")
    )
}

impl OverlayVerdict {
    /// Writes both conditions.
    pub fn write_to(&self, status: &mut NodeOverlayStatus, generation: Option<i64>, now: Timestamp) {
        let validated = NewCondition::new(VALIDATION_SUCCEEDED, self.status).because(self.reason, &self.message);
        set_condition(&mut status.conditions, validated, generation, now);
        let dependents = format!("{VALIDATION_SUCCEEDED}={}", self.status);
        let ready = match self.status {
            TRUE => NewCondition::new(READY, TRUE),
            other => NewCondition::new(READY, other).because(UNHEALTHY_DEPENDENTS, &dependents),
        };
        set_condition(&mut status.conditions, ready, generation, now);
    }
}
