//! What consolidation is asked, with all that it looks at: computed away from the actor that asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::live::{Asked, Live, Said, live};
use super::{Command, Wanted};
use crate::cluster_state::{Moment, Planning, PlanningInput, Snapshot};
use crate::disruption::look::DisruptedClaim;
use crate::disruption::methods::{self, Settings};
use crate::pack::PackingError;

/// When pods of a workload were moved to save money, the latest last.
pub type Moved = BTreeMap<String, Vec<Timestamp>>;

/// The question which nodes are worth taking away now.
#[derive(Clone, Debug)]
pub struct Question {
    /// The cluster at the moment that the question is about.
    pub snapshot: Snapshot,
    /// What packing would be asked with.
    pub input: PlanningInput,
    /// By which rules.
    pub settings: Settings,
    /// The moves of the last hour, by workload.
    pub moved: Arc<Moved>,
    /// Nodes that stay for now, by the uid of the claim, and why.
    pub refused: BTreeMap<String, String>,
    /// Claims, by uid, whose removal has been asked for.
    pub asked: Asked,
    /// Claims, by uid, that are asked about; all if `None`.
    pub only: Option<BTreeSet<String>>,
    /// When it is asked: what is young, late or over is held against this.
    pub now: Moment,
}

/// What a question came to: a command, or what stands in the way of each node.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The cluster that it is about.
    pub snapshot: Snapshot,
    /// What the command's indices mean.
    pub planning: Planning,
    /// What is to be done, if anything is.
    pub command: Option<Command>,
    /// What stands in the way of nodes that stay, each with one thing.
    pub stays: Vec<Stays>,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stays {
    /// The node and its claim.
    pub node: DisruptedClaim,
    /// What stands in the way, as a sentence without its end.
    pub why: String,
    /// Whether it is an annotation or a PodDisruptionBudget: the node may not be disrupted at all.
    pub blocked: bool,
}

impl Question {
    /// Answers it.
    ///
    /// # Errors
    /// As [`methods::decide`].
    pub fn answer(self) -> Result<Answer, PackingError> {
        let Live { cluster, mut planning, claims, said } = live(&self);
        let decision = methods::decide(&cluster, &self.settings, self.now.wall)?;
        let stays = decision.unconsolidatable.into_iter().filter(|one| said[one.node] != Said::Nothing);
        let stays = stays.filter_map(|one| {
            let node = claims[one.node].clone()?;
            Some(Stays { node, why: one.why, blocked: said[one.node] == Said::Blocked })
        });
        let stays = stays.collect();
        let command = decision.command.map(|command| {
            let uid = |pod: usize| cluster.problem().pods[pod].uid.clone();
            let mut on_existing: BTreeMap<usize, Vec<String>> = BTreeMap::new();
            for (pod, to) in &command.moves {
                to.iter().for_each(|to| on_existing.entry(*to).or_default().push(uid(*pod)));
            }
            let going = command.candidates.iter().filter_map(|node| claims[*node].clone()).collect();
            Command {
                wanted: Wanted { reason: command.reason, method: type_of(&command), claims: going },
                pods: command.moves.iter().map(|(pod, _)| uid(*pod)).collect(),
                on_existing: on_existing.into_iter().collect(),
                price_before: command.price_before,
                price_after: command.price_after,
                price_move: decision.price_move,
                replacements: command.replacements,
            }
        });
        planning.problem = Arc::new(cluster.into_problem());
        Ok(Answer { snapshot: self.snapshot, planning, command, stays })
    }
}

/// A command's kind as Karpenter's metrics call it.
fn type_of(command: &methods::Command) -> &'static str {
    if command.candidates.len() == 1 { "single" } else { "multi" }
}
