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

/// Most tries of one packing; the last stands.
const MOST_TRIES: usize = 4;

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
    let mut tries = 1;
    loop {
        let answer = place_devices(solver.clone(), question.clone()).await;
        planning.problem = answer.problem;
        let isolated = committed::pack(solver.clone(), &mut planning.problem, options.clone(), held, account).await;
        let left_over = isolated.packing.unscheduled.iter().map(|(pod, _)| *pod);
        match answer.plan.misfits(left_over, &question.misfits) {
            Some(more) if tries < MOST_TRIES => question.misfits = more,
            _ => return (isolated, answer.plan),
        }
        tries += 1;
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
