//! Packing where there are Savings Plans or Reserved Instances: without and with what they have left. The plan that adds least
//! to the bill is taken.

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::cluster_state::{PlanningInput, Snapshot};
use dovetail_core::commitments::{self, ChosenPlan, Commitments, Uses};
use dovetail_core::pack::{Isolated, Options};
use dovetail_core::paid_machines::Running;

use super::packing::{self, LeftOutPods};
use crate::context::solver::Solver;

/// Commitments, and all that takes of them.
pub struct Account {
    commitments: Commitments,
    uses: Uses,
    /// The reason that commitments do not count, if they do not.
    pub mistrust: Option<String>,
}

impl Account {
    /// Reads what takes of the commitments; `None` where none are declared.
    pub fn open(snapshot: &Snapshot, input: &PlanningInput) -> Option<Self> {
        if input.commitments.is_empty() {
            return None;
        }
        let running = Running::from_snapshot(snapshot, &input.instance_types).beside(input.commitments.others());
        let mistrust = running.mistrust();
        let commitments =
            if mistrust.is_none() { input.commitments.in_force(input.now.wall) } else { Commitments::default() };
        Some(Self { commitments, uses: running.all_uses(), mistrust })
    }
}

/// Packs a problem, which becomes that of the plan that is taken.
pub async fn pack(
    solver: Arc<dyn Solver>,
    problem: &mut Arc<Problem>,
    options: Options,
    held: &LeftOutPods,
    account: Option<&Account>,
) -> Isolated {
    let mut best = packing::pack(solver.clone(), problem.clone(), options.clone(), held).await;
    let Some(Account { commitments, uses, .. }) = account.filter(|one| !one.commitments.is_empty()) else {
        return best;
    };
    for offered in commitments::offered(problem, commitments, uses) {
        let offered = Arc::new(offered);
        let with = packing::pack(solver.clone(), offered.clone(), options.clone(), held).await;
        let chosen = commitments::choose(problem, (commitments, uses), &best.packing, &with.packing);
        if chosen == ChosenPlan::WithCommitments {
            (*problem, best) = (offered, with);
        }
    }
    best
}
