//! Packing where pods claim devices: their places are decided before, and again where packing does not keep to them.

use std::sync::Arc;

use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClaim;
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

/// Notes at a claim the drivers that have to publish its pods' devices before its node is ready.
pub fn request_drivers(claim: &mut NodeClaim, devices: &DevicePlan, pods: &[usize]) {
    let drivers: Vec<&str> = devices.drivers_of(pods).into_iter().collect();
    if !drivers.is_empty() {
        let own = claim.metadata.annotations.get_or_insert_default();
        own.insert(annotations::REQUESTED_DRA_DRIVERS.to_owned(), drivers.join(","));
    }
}
