//! `plan --commitments`: what Savings Plans and Reserved Instances have left is used where the bill is lower with it.

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::clock::Clock as _;
use dovetail_core::commitments::{self, ChosenPlan, Commitments, PlanBill};
use dovetail_core::pack::{Options, Packing};
use dovetail_core::paid_machines::Running;
use dovetail_input::{Failure, Mistake, read_text};

use super::Loaded;
use crate::cli::PlanArgs;
use crate::run::clock::SystemClock;
use crate::survive;

/// The commitments of `--commitments`, or those that the live cluster's settings declare, as far as they are in force.
pub(super) fn declared(args: &PlanArgs, loaded: &Loaded) -> Result<Commitments, Failure> {
    let Some(file) = &args.commitments else { return Ok(loaded.commitments.in_force(SystemClock.wall())) };
    let text = read_text(file)?;
    let mistake = |what: String| Failure::from(Mistake::of_file(file, what));
    let written = dovetail_actors::settings::read_commitments(&text).map_err(|(what, _)| mistake(what))?;
    let all = Commitments::from_written(&written, 1.0).map_err(|all| mistake(all.join("; ")))?;
    Ok(all.in_force(SystemClock.wall()))
}

/// Everything that takes of commitments.
pub(super) fn running(loaded: &Loaded) -> Running {
    loaded.running.clone().unwrap_or_else(|| Running::from_problem(&loaded.problem))
}

/// Packs, with and without what commitments have left; returns the plan that adds less to the bill, and its effect on it.
pub(super) fn solve(
    problem: &Arc<Problem>,
    options: &Options,
    commitments: &Commitments,
    running: &Running,
) -> (Packing, Option<PlanBill>) {
    let plain = survive::solve(problem, options);
    if running.counted(commitments).is_none() {
        return (plain, None);
    }
    let uses = running.all_uses();
    let mut packing = plain;
    for offered in commitments::offered(problem, commitments, &uses) {
        let mut with = survive::solve(&Arc::new(offered), options);
        if commitments::choose(problem, (commitments, &uses), &packing, &with) == ChosenPlan::WithCommitments {
            commitments::as_bought(problem, &mut with);
            packing = with;
        }
    }
    let bill = commitments::plan_bill(problem, &packing, commitments, &uses);
    (packing, Some(bill))
}
