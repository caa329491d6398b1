//! The order of the writes that are due: what is wrong goes first, and what is left over has its share of the pace.

use jiff::Timestamp;

use super::{CostChange, CostWrite, LEAVING};
use crate::cluster_state::PodEntry;
use crate::pod::DeletionCost;

/// Number of values that are written for each that is taken off, while both are due.
const SETS_FOR_A_REMOVAL: usize = 3;

/// Writes that are due, each kind in the order in which it was added.
#[derive(Default)]
pub(super) struct DueWrites {
    /// Writes of pods that would be deleted first and are not to be: their node stays after all, or they ask to be left alone.
    wrong: Vec<CostWrite>,
    sets: Vec<CostWrite>,
    removals: Vec<CostWrite>,
}

impl DueWrites {
    /// Adds the write of a pod, if there is one.
    pub(super) fn add(&mut self, pod: &PodEntry, now: Timestamp, write: Option<CostWrite>) {
        let Some(write) = write else { return };
        let stays = pod.deletion_cost == DeletionCost::Ours(LEAVING) || pod.do_not_disrupt.holds(now);
        let list = match write.change {
            _ if stays => &mut self.wrong,
            CostChange::Set(_) => &mut self.sets,
            CostChange::Remove | CostChange::Unmark => &mut self.removals,
        };
        list.push(write);
    }

    /// All of them, the most urgent first.
    pub(super) fn in_order(self) -> Vec<CostWrite> {
        let mut all = self.wrong;
        let mut removals = self.removals.into_iter();
        for (at, set) in self.sets.into_iter().enumerate() {
            all.push(set);
            if (at + 1) % SETS_FOR_A_REMOVAL == 0 {
                all.extend(removals.next());
            }
        }
        all.extend(removals);
        all
    }
}
