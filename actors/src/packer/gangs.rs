//! Packing where pods are in gangs: it is made again until every gang that has places has enough of them. The nodes of a gang that
//! lacks places for others of it are given back.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::annotations::LAUNCHED_FOR_POD_GROUP;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{Planning, Snapshot};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::dra::{DevicePlan, DeviceQuestion};
use dovetail_core::pack::{Isolated, Options, Packing};
use dovetail_core::pod_groups::{GangRounds, GangTrials, write_groups};

use super::committed::Account;
use super::packing::LeftOutPods;
use super::{NAMES_LISTED, devices};
use crate::context::env::Env;
use crate::context::solver::Solver;
use crate::links::ToTerminator;
use crate::messages::{ClaimRef, Remove, TraceContext};
use crate::telemetry::log_event::{LogEvent, Names};

/// Memory of gangs with which a packing begins: their trials, and those that are not tried, with the reason.
#[derive(Clone, Debug, Default)]
pub struct GangMemory {
    pub trials: GangTrials,
    pub paused: BTreeMap<String, String>,
}

/// Packs a planning's problem, which becomes that of the packing that stands. Answers the gangs that were tried by themselves and
/// lack places, too.
pub async fn pack(
    solver: Arc<dyn Solver>,
    planning: &mut Planning,
    question: impl Fn(&Planning) -> Option<DeviceQuestion>,
    (options, held): (Options, &LeftOutPods),
    account: Option<&Account>,
    memory: &GangMemory,
) -> (Isolated, DevicePlan, Vec<String>) {
    if planning.gangs.is_empty() {
        let question = question(planning);
        let (isolated, devices) = devices::pack(solver, planning, question, (options, held), account).await;
        return (isolated, devices, Vec::new());
    }
    let mut rounds = GangRounds::new(planning.gangs.clone(), planning.problem.clone(), &memory.paused);
    loop {
        planning.problem = rounds.problem();
        let (question, options) = (question(planning), options.clone());
        let (isolated, devices) = devices::pack(solver.clone(), planning, question, (options, held), account).await;
        if rounds.judge(&isolated.packing, &memory.trials) {
            let failed = rounds.failed().into_iter().map(str::to_owned).collect();
            return (isolated, devices, failed);
        }
    }
}

/// Notes at a claim the PodGroups of its pods: where not all nodes of a gang can be had, the others are known by that.
pub(super) fn note_groups(claim: &mut NodeClaim, planning: &Planning, pods: &[usize]) {
    if let Some(groups) = write_groups(&planning.gangs, pods) {
        claim.metadata.annotations.get_or_insert_default().insert(LAUNCHED_FOR_POD_GROUP.to_owned(), groups);
    }
}

/// Gangs of a term, and the way to those who take their nodes back.
pub(super) struct PackerGangs {
    env: Env,
    terminator: ToTerminator,
    trials: GangTrials,
}

impl PackerGangs {
    /// None that is known.
    pub(super) fn new(env: &Env, terminator: ToTerminator) -> Self {
        Self { env: env.clone(), terminator, trials: GangTrials::default() }
    }

    /// All that is known of gangs, for a packing that begins now.
    pub(super) fn memory(&self) -> GangMemory {
        GangMemory { trials: self.trials.clone(), paused: self.trials.paused(self.env.now()) }
    }

    /// Gives back the nodes of gangs that lack places for others of them, except those on which other pods are or are expected.
    pub(super) fn settle(
        &mut self,
        snapshot: &Snapshot,
        (planning, packing): (&Planning, &Packing),
        failed: &[String],
        trace: TraceContext,
    ) {
        let now = self.env.now();
        let waiting = planning.gangs.gangs.iter().map(|gang| gang.key.as_str()).collect();
        self.trials.note_packing(&waiting, failed.iter().map(String::as_str), now);
        for (at, _) in planning.gangs.short_in(packing, planning.problem.pods.len()) {
            let key = &planning.gangs.gangs[at].key;
            if !failed.contains(key) && !self.trials.is_paused(key, now) {
                // It waits for its turn: it may have places for all.
                continue;
            }
            let claims = snapshot.claims_to_return(key, self.env.moment());
            if claims.is_empty() {
                continue;
            }
            if !self.trials.is_paused(key, now) {
                self.trials.give_back(key, now);
            }
            let node_claims = Names::first(NAMES_LISTED, claims.iter().map(|(name, _)| name.clone()));
            let log_event = LogEvent::GangGivenBack { pod_group: key.clone(), nodes: claims.len(), node_claims };
            self.env.emit_in(log_event, trace);
            let claims = claims.into_iter().map(|(name, uid)| ClaimRef { name, uid }).collect();
            let (term, reason, disrupted) = (self.env.term, RemovalReason::Overprovisioned, BTreeMap::new());
            self.env.post(&self.terminator, Remove { term, claims, reason, grace: None, disrupted, trace });
        }
    }
}
