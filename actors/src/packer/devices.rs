//! Packing where pods claim devices: their places are decided before, and again where packing does not keep to them.

use std::sync::Arc;

use dovetail_core::cluster_state::Planning;
use dovetail_core::dra::{DevicePlan, DeviceQuestion};
use dovetail_core::pack::{Isolated, Options};

use super::committed::{self, Account};
use super::packing::LeftOutPods;
use crate::context::solver::{Solver, place_devices};

/// Packs a planning's problem, which becomes that of the plan that is taken. Without a question about devices packing is all there
/// is.
pub async fn pack(
    solver: Arc<dyn Solver>,
    planning: &mut Planning,
    question: Option<DeviceQuestion>,
    (options, held): (Options, &LeftOutPods),
    account: Option<&Account>,
) -> (Isolated, DevicePlan) {
    let Some(mut question) = question else {
        let isolated = committed::pack(solver, &mut planning.problem, options, held, account).await;
        return (isolated, DevicePlan::default());
    };
    loop {
        let mut answer = place_devices(solver.clone(), question.clone()).await;
        planning.problem = std::mem::take(&mut answer.problem);
        let isolated = committed::pack(solver.clone(), &mut planning.problem, options.clone(), held, account).await;
        if !question.note_left_over(&answer, isolated.packing.unscheduled.iter().map(|(pod, _)| *pod)) {
            return (isolated, answer.plan);
        }
    }
}
