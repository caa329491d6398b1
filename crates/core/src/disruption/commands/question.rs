//! The question for consolidation, with all that it looks at: computed away from the actor that asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::live::{ClaimsGoingAnyway, Live, StayNote, live};
use super::{DisruptionCommand, SpareNodes, WaitingCommand, WantedRemoval};
use crate::cluster_state::{Moment, Planning, PlanningInput, Snapshot};
use crate::disruption::look::DisruptedClaim;
use crate::disruption::methods::{self, ConsolidationSettings};
use crate::pack::{PackingError, PlannedClaim};

/// Times at which pods of a workload were moved to save money, the latest last.
pub type Moved = BTreeMap<String, Vec<Timestamp>>;

/// The question which nodes are worth taking away now.
#[derive(Clone, Debug)]
pub struct Question {
    /// The cluster at the moment that the question is about.
    pub snapshot: Snapshot,
    /// Further input that packing would get.
    pub input: PlanningInput,
    /// The rules of consolidation.
    pub settings: ConsolidationSettings,
    /// The moves of the last hour, by workload.
    pub moved: Arc<Moved>,
    /// Nodes that stay for now, by the uid of the claim, with the reason.
    pub refused: BTreeMap<String, String>,
    /// Times since which nodes could have gone that have yet to pay for it.
    pub spare: Arc<SpareNodes>,
    /// Capacity reservations, by id, of which an instance is kept for a node's successor.
    pub kept_slots: Vec<String>,
    /// Claims, by uid, for which a capacity reservation was tried within the last hour.
    pub reserved_lately: BTreeSet<String>,
    /// Claims, by uid, whose removal has been asked for.
    pub asked: ClaimsGoingAnyway,
    /// Commands that are found and not begun: their nodes are left out, and the room that they have found is kept.
    pub waiting: Vec<WaitingCommand>,
    /// Claims, by uid, that are asked about; all if `None`.
    pub only: Option<BTreeSet<String>>,
    /// The way in which the command that is validated was found ([`methods::decide`]); `None` for a new one.
    pub blind: Option<bool>,
    /// Time of the question: ages and times are compared with it.
    pub now: Moment,
}

/// The answer to a question: a command, or the reason that keeps each node.
#[derive(Clone, Debug)]
pub struct CommandAnswer {
    /// The cluster that it is about.
    pub snapshot: Snapshot,
    /// The planning by which the command's indices are read.
    pub planning: Planning,
    /// The decision, if something pays.
    pub command: Option<DisruptionCommand>,
    /// Nodes that could go and have yet to pay for it, by the uid of the claim.
    pub spare: Vec<String>,
    /// Nodes that stay, each with one reason.
    pub stays: Vec<StayingNode>,
    /// Nodes whose reason passes by itself, or is seen to elsewhere: no event says it.
    pub passing: Vec<StayingNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StayingNode {
    pub node: DisruptedClaim,
    /// The reason that keeps it, as a sentence without its end.
    pub why: String,
    /// True if it is an annotation or a PodDisruptionBudget: the node may not be disrupted at all.
    pub blocked: bool,
}

impl Question {
    /// Answers the question.
    ///
    /// # Errors
    /// As [`methods::decide`].
    pub fn answer(mut self) -> Result<CommandAnswer, PackingError> {
        let snapshot = self.snapshot.clone();
        if !self.waiting.is_empty() {
            let claims = self.waiting.iter().flat_map(|one| &one.wanted.claims).map(|claim| claim.claim.as_str());
            let places = self.waiting.iter().flat_map(|one| &one.places);
            let places = places.flat_map(|(place, pods)| pods.iter().map(move |uid| (uid.as_str(), place)));
            self.snapshot = snapshot.as_if_held(claims, places);
        }
        let Live { cluster, mut planning, claims, said } = live(&self);
        let decision = match self.blind {
            Some(blind) => methods::decide_by(&cluster, &self.settings, self.now.wall, blind)?,
            None => methods::decide(&cluster, &self.settings, self.now.wall)?,
        };
        let spare = decision.spare.iter().filter_map(|node| Some(claims[*node].as_ref()?.uid.clone())).collect();
        let (mut stays, mut passing) = (Vec::new(), Vec::new());
        for one in decision.unconsolidatable {
            let (Some(node), note) = (claims[one.node].clone(), said[one.node]) else { continue };
            let list = if note == StayNote::Nothing { &mut passing } else { &mut stays };
            list.push(StayingNode { node, why: one.why, blocked: note == StayNote::Blocked });
        }
        let command = decision.command.map(|command| {
            let uid = |pod: usize| cluster.problem().pods[pod].uid.clone();
            let mut on_existing: BTreeMap<usize, Vec<String>> = BTreeMap::new();
            for (pod, to) in &command.moves {
                to.iter().for_each(|to| on_existing.entry(*to).or_default().push(uid(*pod)));
            }
            let of_pods = |claim: &PlannedClaim| {
                claim.pods.iter().filter_map(|pod| command.drivers.get(pod)).flatten().cloned().collect()
            };
            let drivers = command.replacements.iter().map(of_pods).collect();
            let going = command.candidates.iter().filter_map(|node| claims[*node].clone()).collect();
            DisruptionCommand {
                wanted: WantedRemoval { reason: command.reason, method: type_of(&command), claims: going },
                pods: command.moves.iter().map(|(pod, _)| uid(*pod)).collect(),
                on_existing: on_existing.into_iter().collect(),
                price_before: command.price_before,
                price_after: command.price_after,
                price_move: decision.price_move,
                drivers,
                blind: decision.blind,
                replacements: command.replacements,
            }
        });
        planning.problem = Arc::new(cluster.into_problem());
        Ok(CommandAnswer { snapshot, planning, command, spare, stays, passing })
    }
}

/// A command's kind as Karpenter's metrics call it.
fn type_of(command: &methods::ConsolidationCommand) -> &'static str {
    if command.candidates.len() == 1 { "single" } else { "multi" }
}
