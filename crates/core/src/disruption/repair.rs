//! Node repair, behind the gate NodeRepair (core spec 5.10, aws spec 4.10): a Node that has been unwell for as long as a policy
//! tolerates is replaced, by force and whatever budgets say. Where more than a fifth of a pool's nodes are unwell, none is: then
//! something else is broken.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::look::{DisruptionCause, Look, disrupted};
use super::machines::NodeAndClaim;
use crate::clock::later;

/// Percentage of a pool's nodes that may be unwell, rounded up.
const MOST_PERCENT: usize = 20;
/// Time until the next look where more are unwell.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// A node that is unwell for too long, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRepaired {
    /// The Node's name.
    pub node: String,
    /// The Node's uid: another Node may have had the name before.
    pub node_uid: String,
    /// Number of its pool's nodes that are unwell, and number of all.
    pub unwell: (usize, usize),
    /// Its pool's name.
    pub pool: String,
    /// True if it has not been reported yet.
    pub news: bool,
}

impl<'a> Look<'a> {
    /// Removes nodes that are unwell for too long.
    pub(super) fn repair(&mut self, machines: &[NodeAndClaim<'a>]) {
        if !self.memory.drift.gates.node_repair {
            return;
        }
        let mut pools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for machine in machines {
            // A node of no pool is counted against the whole cluster.
            let counted = ["", machine.claim.pool.as_str()].into_iter();
            for pool in counted.take(if machine.claim.pool.is_empty() { 1 } else { 2 }) {
                let (unwell, all) = pools.entry(pool).or_default();
                *unwell += usize::from(!machine.node.unwell.is_empty());
                *all += 1;
            }
        }
        for machine in machines.iter().filter(|machine| !machine.claim.deleting && !machine.node.deleting) {
            let Some(first) = machine.node.unwell.iter().min_by_key(|one| one.until) else { continue };
            if self.memory.is_asked(&machine.claim.uid) {
                continue;
            }
            if first.until > self.now {
                self.look_again(Some(first.until));
                continue;
            }
            let (unwell, all) = pools.get(machine.claim.pool.as_str()).copied().unwrap_or_default();
            if unwell > (all * MOST_PERCENT).div_ceil(100) {
                self.look_again(Some(later(self.now, AGAIN)));
                self.out.not_repaired.push(NotRepaired {
                    node: machine.node.name.clone(),
                    node_uid: machine.node.uid.clone(),
                    unwell: (unwell, all),
                    pool: machine.claim.pool.clone(),
                    news: self.memory.not_repaired.say(&machine.node.uid, ()),
                });
            } else {
                self.go(DisruptionCause::Unhealthy(first.condition), disrupted(machine));
            }
        }
        self.memory.not_repaired.turn();
    }
}
