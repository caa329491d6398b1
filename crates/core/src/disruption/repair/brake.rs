//! The brake: conditions that more than a fifth of a pool's nodes share point at something else than these nodes.

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
}

impl<'a> Tally<'a> {
    pub fn count(&mut self, machine: &NodeAndClaim<'a>) {
        if !machine.initialized() && !machine.reboots() {
            return;
        }
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

    /// True if more nodes share a condition than may be unwell, be it that those with its rarer reasons are so many together: a
    /// reason tells one node from an alarm only while few have another.
    pub fn is_shared(&self, alarm: &Alarm<'a>) -> bool {
        let most = self.most();
        let Some(nodes) = self.by_alarm.get(alarm) else { return false };
        if nodes.len() > most {
            return true;
        }
        let (condition, status, _) = *alarm;
        let alike = self.by_alarm.range((condition, status, "")..);
        let alike = alike.take_while(|((other, its, _), _)| (*other, *its) == (condition, status));
        let rarer: BTreeSet<_> = alike.map(|(_, nodes)| nodes).filter(|nodes| nodes.len() <= most).flatten().collect();
        rarer.len() > most
    }
}
