//! The brake: conditions that more than a fifth of a pool's nodes share point at something else than these nodes.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::diagnosis::{Alarm, alarm_of};
use crate::disruption::machines::NodeAndClaim;

/// Percentage of a pool's nodes that may be unwell, rounded up.
pub const MOST_PERCENT: usize = 20;

/// Number of nodes that may be unwell, of so many.
pub fn most_unwell(nodes: usize) -> usize {
    (nodes * MOST_PERCENT).div_ceil(100)
}

/// The nodes of a pool, counted by what is reported of them, tolerated or not. A node that has not become initialized is not
/// unwell, but on its way, unless it is rebooted.
#[derive(Default)]
pub struct Tally<'a> {
    nodes: usize,
    unwell: usize,
    /// Claims of the nodes by their conditions: uid and name.
    pub by_alarm: BTreeMap<Alarm<'a>, BTreeSet<(&'a str, &'a str)>>,
    /// Conditions, by type and status, that are an alarm with all their rarer reasons together; found when first asked for.
    of_any_reason: OnceCell<BTreeSet<Kind<'a>>>,
}

/// Type and status of a condition.
pub type Kind<'a> = (&'a str, &'a str);

impl<'a> Tally<'a> {
    pub fn count(&mut self, machine: &NodeAndClaim<'a>) {
        if !machine.initialized() && !machine.reboots() {
            return;
        }
        self.of_any_reason.take();
        self.nodes += 1;
        self.unwell += usize::from(!machine.node.unwell.is_empty());
        for one in &machine.node.unwell {
            let claim = (machine.claim.uid.as_str(), machine.claim.name.as_str());
            self.by_alarm.entry(alarm_of(one)).or_default().insert(claim);
        }
    }

    /// Number of nodes that are unwell, and number of all.
    pub fn figures(&self) -> (usize, usize) {
        (self.unwell, self.nodes)
    }

    /// True if more nodes are unwell than may be.
    pub fn brakes(&self) -> bool {
        self.unwell > self.most()
    }

    /// Number of nodes that may be unwell.
    pub fn most(&self) -> usize {
        most_unwell(self.nodes)
    }

    /// True if more nodes share a condition than may be unwell, with its reason or by [`Tally::is_of_any_reason`].
    pub fn is_shared(&self, alarm: &Alarm<'a>) -> bool {
        self.is_common(alarm) || self.is_of_any_reason(alarm)
    }

    /// True if more nodes share a condition with its reason than may be unwell.
    fn is_common(&self, alarm: &Alarm<'a>) -> bool {
        self.by_alarm.get(alarm).is_some_and(|nodes| nodes.len() > self.most())
    }

    /// True if it is none of these, and those nodes that have the condition with such rarer reasons are so many together: a reason
    /// tells a node from an alarm only while few have another.
    pub fn is_of_any_reason(&self, alarm: &Alarm<'a>) -> bool {
        let (condition, status, _) = *alarm;
        let known = self.of_any_reason.get_or_init(|| {
            let mut rarer: BTreeMap<Kind<'a>, BTreeSet<(&str, &str)>> = BTreeMap::new();
            for ((condition, status, reason), nodes) in &self.by_alarm {
                if !self.is_common(&(*condition, *status, *reason)) {
                    rarer.entry((*condition, *status)).or_default().extend(nodes);
                }
            }
            rarer.into_iter().filter(|(_, nodes)| nodes.len() > self.most()).map(|(kind, _)| kind).collect()
        });
        known.contains(&(condition, status)) && !self.is_common(alarm)
    }

    /// Claims of the nodes that have a condition, with that reason or with any.
    pub fn nodes_with(&self, condition: &str, status: &str, reason: Option<&str>) -> BTreeSet<(&'a str, &'a str)> {
        let of_kind = self.by_alarm.iter().filter(|((kind, its, _), _)| (*kind, *its) == (condition, status));
        let own = of_kind.filter(|((_, _, its), _)| reason.is_none_or(|reason| *its == reason));
        own.flat_map(|(_, nodes)| nodes.iter().copied()).collect()
    }
}
