//! Node repair, behind the gate NodeRepair (core spec 5.10, aws spec 4.10): a Node that has been unwell for as long as a policy
//! tolerates is replaced, by force and whatever budgets say. Where more than a fifth of a pool's nodes are unwell, none is: then
//! something else is broken.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::look::{Cause, Look, doomed};
use super::machines::Machine;
use crate::clock::later;

/// A policy: condition, status, and for how many minutes it is tolerated.
type Policy = (&'static str, &'static str, i64);

/// EC2's policies.
const POLICIES: [Policy; 7] = [
    ("Ready", "False", 30),
    ("Ready", "Unknown", 30),
    ("AcceleratedHardwareReady", "False", 10),
    ("StorageReady", "False", 30),
    ("NetworkingReady", "False", 30),
    ("KernelReady", "False", 30),
    ("ContainerRuntimeReady", "False", 30),
];
/// So many of a hundred nodes of a pool may be unwell, rounded up.
const MOST_PERCENT: usize = 20;
/// Where more are, it is looked again after so long.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// A condition of a Node that it is repaired for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwell {
    /// Its type.
    pub condition: &'static str,
    /// Its status.
    pub status: &'static str,
    /// Until when it is tolerated.
    pub until: Timestamp,
}

/// A node that is unwell for too long, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRepaired {
    /// The Node's name.
    pub node: String,
    /// Its uid.
    pub node_uid: String,
    /// How many of its pool's nodes are unwell, of how many.
    pub unwell: (usize, usize),
    /// Its pool's name.
    pub pool: String,
    /// Whether it has not been told yet.
    pub news: bool,
}

/// The conditions of a Node that it is repaired for; one whose beginning is not said is not.
#[must_use]
pub fn unwell(node: &Node) -> Vec<Unwell> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let of = |&(condition, status, minutes): &Policy| {
        let mut all = conditions.into_iter().flatten();
        let one = all.find(|one| one.type_ == condition && one.status == status)?;
        let until = later(one.last_transition_time.as_ref()?.0, SignedDuration::from_mins(minutes));
        Some(Unwell { condition, status, until })
    };
    POLICIES.iter().filter_map(of).collect()
}

impl<'a> Look<'a> {
    /// Removes nodes that are unwell for too long.
    pub(super) fn repair(&mut self, machines: &[Machine<'a>]) {
        if !self.memory.drift.gates.node_repair {
            return;
        }
        let mut pools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for machine in machines {
            // One of no pool is held against the whole cluster.
            let counted = ["", machine.claim.pool.as_str()].into_iter();
            for pool in counted.take(if machine.claim.pool.is_empty() { 1 } else { 2 }) {
                let (unwell, all) = pools.entry(pool).or_default();
                *unwell += usize::from(!machine.node.unwell.is_empty());
                *all += 1;
            }
        }
        for machine in machines.iter().filter(|machine| !machine.claim.leaving && !machine.node.deleting) {
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
                    news: self.memory.not_repaired.keep(&machine.node.uid, ()),
                });
            } else {
                self.go(Cause::Unhealthy(first.condition), doomed(machine));
            }
        }
        self.memory.not_repaired.turn();
    }
}
