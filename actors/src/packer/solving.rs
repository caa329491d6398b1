//! Computation of a packing, off the mailbox: from a snapshot that shows the cluster and the instance types of its classes.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_core::cluster_state::{Planning, PlanningInput, Snapshot};
use dovetail_core::dra::DevicePlan;
use dovetail_core::pack::{Isolated, Packing};
use jiff::Timestamp;

use super::committed::Account;
use super::gangs::{self, GangMemory};
use super::packing::{LeftOutPods, are_left_over};
use super::{PackerLinks, SETTLING_TIME};
use crate::context::env::Env;
use crate::context::solver::Solver;
use crate::context::traces;
use crate::messages::{CommitmentsKnown, InstanceTypesFor, TakeObserved};

/// Attempts of a packing to await pools whose readiness is unknown, [`SETTLING_TIME`] apart.
const LONGEST_UNSETTLED: u32 = 25;

/// Outcome of a computation.
pub(super) struct Solved {
    pub(super) snapshot: Snapshot,
    pub(super) planning: Planning,
    pub(super) packing: Packing,
    /// Failures of packing and the pods left out for them; the remaining packing is above.
    pub(super) failed: Isolated,
    /// Pods that were left out from the start.
    pub(super) held: LeftOutPods,
    pub(super) solving: traces::SolveTimes,
    /// The reason that commitments did not count, if they did not.
    pub(super) mistrust: Option<String>,
    /// Places of pods that claim devices.
    pub(super) devices: DevicePlan,
    /// Gangs that were tried by themselves and lack places.
    pub(super) failed_gangs: Vec<String>,
}

impl Solved {
    /// The outcome where no pod is to be packed.
    fn nothing(snapshot: Snapshot, held: LeftOutPods, now: Timestamp) -> Self {
        Self {
            snapshot,
            planning: Planning::default(),
            packing: Packing::default(),
            failed: Isolated::default(),
            held,
            solving: traces::SolveTimes { asked: now, answered: now },
            mistrust: None,
            devices: DevicePlan::default(),
            failed_gangs: Vec::new(),
        }
    }
}

/// Waits until the cluster is known and shown, the catalogue is known and pools have had time to become ready, then packs.
pub(super) async fn compute(
    links: PackerLinks,
    solver: Arc<dyn Solver>,
    mut input: PlanningInput,
    (held, memory): (LeftOutPods, GangMemory),
    left_over: BTreeSet<String>,
    env: Env,
) -> Option<Solved> {
    let mut unsettled = 0;
    loop {
        let Some(snapshot) = links.cluster.send(TakeObserved).await.ok()? else {
            tokio::time::sleep(SETTLING_TIME).await;
            continue;
        };
        let classes = snapshot.used_classes();
        input.now = env.moment();
        let to_pack = snapshot.to_pack(&input);
        if to_pack.is_empty() {
            return Some(Solved::nothing(snapshot, held, input.now.wall));
        }
        let query = InstanceTypesFor { last_resort: are_left_over(&to_pack, &left_over), classes };
        let Some(types) = links.catalogue.send(query).await.ok()? else {
            tokio::time::sleep(SETTLING_TIME).await;
            continue;
        };
        input.instance_types = types;
        if env.settings.commitments.account {
            let Some(known) = links.catalogue.send(CommitmentsKnown).await.ok()? else {
                tokio::time::sleep(SETTLING_TIME).await;
                continue;
            };
            input.commitments = known.all;
        }
        input.now = env.moment();
        let mut planning = snapshot.planning(&input);
        if planning.unsettled && unsettled < LONGEST_UNSETTLED && !planning.problem.pods.is_empty() {
            unsettled += 1;
            tokio::time::sleep(SETTLING_TIME).await;
            continue;
        }
        let account = Account::open(&snapshot, &input);
        let asked = env.wall();
        let (mut failed, devices, failed_gangs) = if planning.problem.pods.is_empty() {
            Default::default()
        } else {
            let options = env.pack_options();
            let question =
                |planning: &Planning| snapshot.device_question(&planning.problem, input.devices?, input.now.wall);
            gangs::pack(solver, &mut planning, question, (options, &held), account.as_ref(), &memory).await
        };
        let packing = std::mem::take(&mut failed.packing);
        let solving = traces::SolveTimes { asked, answered: env.wall() };
        let mistrust = account.and_then(|account| account.mistrust);
        return Some(Solved { snapshot, planning, packing, failed, held, solving, mistrust, devices, failed_gangs });
    }
}
