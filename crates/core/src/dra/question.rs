//! The stage before packing as a question that can be answered elsewhere: a search for devices may take seconds of CPU.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::book::DeviceBook;
use super::places::{DeviceGates, DeviceModel, DeviceNode};
use super::stage::{DevicePlan, Misfits, plan_devices};
use crate::pack::Packing;
use crate::problem::Problem;

/// All that decides the places of pods with claims.
#[derive(Clone, Debug, Default)]
pub struct DeviceQuestion {
    pub problem: Arc<Problem>,
    pub book: DeviceBook,
    /// Existing nodes, in the problem's order.
    pub nodes: Vec<DeviceNode>,
    /// Nodes that run and are no places, as they leave.
    pub models: Vec<DeviceModel>,
    /// Uids of pods whose claims are as good as free.
    pub leaving: BTreeSet<String>,
    pub gates: DeviceGates,
    /// Places that packing has refused so far.
    pub misfits: Misfits,
}

/// The places of pods with claims, and the problem with the rules that keep packing to them.
#[derive(Clone, Debug, Default)]
pub struct DeviceAnswer {
    pub problem: Arc<Problem>,
    pub plan: DevicePlan,
}

impl DeviceQuestion {
    /// Decides the places.
    #[must_use]
    pub fn answer(&self) -> DeviceAnswer {
        let mut problem = Problem::clone(&self.problem);
        let leaving: BTreeSet<&str> = self.leaving.iter().map(String::as_str).collect();
        let plan =
            plan_devices(&mut problem, (&self.book, &self.nodes, &self.models), &leaving, self.gates, &self.misfits);
        DeviceAnswer { problem: Arc::new(problem), plan }
    }

    /// Notes the pods that packing has left over with an answer. True if other places are left to be tried for them: the question
    /// is to be asked again.
    pub fn note_left_over(&mut self, answer: &DeviceAnswer, left_over: impl Iterator<Item = usize>) -> bool {
        let more = answer.plan.misfits(left_over, &self.misfits);
        more.map(|more| self.misfits = more).is_some()
    }

    /// Packs with the places of pods that claim devices, again while others are left to be tried; answers the problem as it was
    /// packed.
    pub fn pack(mut self, pack: impl Fn(&Arc<Problem>) -> Packing) -> (Arc<Problem>, Packing) {
        loop {
            let answer = self.answer();
            let packing = pack(&answer.problem);
            if !self.note_left_over(&answer, packing.unscheduled.iter().map(|(pod, _)| *pod)) {
                return (answer.problem, packing);
            }
        }
    }

    /// The answer where there is none: pods with claims wait for this reason, and others are packed.
    #[must_use]
    pub fn unanswered(&self, why: &str) -> DeviceAnswer {
        let mut problem = Problem::clone(&self.problem);
        let plan = DevicePlan::without_places(&mut problem, why);
        DeviceAnswer { problem: Arc::new(problem), plan }
    }
}
