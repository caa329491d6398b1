//! Diagnosis of an unwell Node: its conditions that are due, taken together.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use crate::clock::later;
use crate::cluster_state::{RepairAction, UnhealthyCondition};

/// Time of waiting that makes up for one rank.
const WORTH_A_RANK: SignedDuration = SignedDuration::from_mins(30);

/// A condition as many nodes may have it: type, status and reason.
pub type Alarm<'a> = (&'a str, &'a str, &'a str);

pub fn alarm_of(one: &UnhealthyCondition) -> Alarm<'_> {
    (one.condition, one.status, &one.reason)
}

/// Everything for which a node is to be repaired now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis<'a> {
    /// `type` of the condition with the highest rank; of these the one that is due longest.
    pub condition: &'static str,
    /// Shortest bound of the drain among the policies.
    pub grace: Option<SignedDuration>,
    /// Rank and waiting as one figure, in seconds.
    weight: i64,
    /// The harshest remedy among the policies.
    pub action: RepairAction,
    /// The conditions that are due.
    pub alarms: Vec<Alarm<'a>>,
}

impl<'a> Diagnosis<'a> {
    /// `None` while nothing is due. After a reboot conditions are tolerated anew.
    pub fn from_conditions(
        unwell: &'a [UnhealthyCondition],
        rebooted: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let due = || unwell.iter().filter(|one| due_at(one, rebooted) <= now);
        let first = due().min_by_key(|one| (Reverse(one.rank), one.until, one.condition))?;
        let weigh = |one: &UnhealthyCondition| {
            let waited = now.duration_since(due_at(one, rebooted));
            i64::from(one.rank) * WORTH_A_RANK.as_secs() + waited.as_secs()
        };
        let mut alarms: Vec<_> = due().map(alarm_of).collect();
        alarms.sort_unstable();
        alarms.dedup();
        Some(Self {
            condition: first.condition,
            grace: due().filter_map(|one| one.grace).min(),
            weight: due().map(weigh).max()?,
            action: due().map(|one| one.action).max()?,
            alarms,
        })
    }

    /// Place in the order of repairs, the least first.
    pub fn order(&self) -> Reverse<i64> {
        Reverse(self.weight)
    }
}

/// Time at which the first of these is due.
pub fn first_due(unwell: &[UnhealthyCondition], rebooted: Option<Timestamp>) -> Option<Timestamp> {
    unwell.iter().map(|one| due_at(one, rebooted)).min()
}

fn due_at(one: &UnhealthyCondition, rebooted: Option<Timestamp>) -> Timestamp {
    let anew = rebooted.filter(|at| *at > one.since).map(|at| later(at, one.until.duration_since(one.since)));
    anew.unwrap_or(one.until)
}
