//! Commands that are found and not begun: when each is looked at again (decision 049).
//!
//! ```text
//! found ──► 5 s, and all is quiet ──┐
//!       └─► 15 s ───────────────────┴► due, with all others that are: validated one after another, and begun
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{DisruptionCommand, WantedRemoval};
use crate::clock::{later, signed};
use crate::cluster_state::{Moment, NominationTarget, Planning, PodEntry, Snapshot};
use crate::disruption::machines::machines;

/// What is found is looked at again after this (core spec 5.8).
const VALIDATION: Duration = Duration::from_secs(15);
/// Or already after this, where all is quiet.
const SOONEST: Duration = Duration::from_secs(5);
/// Nodes are quiet on which no pod has come or gone for so long.
const WITHOUT_POD_EVENTS: SignedDuration = SignedDuration::from_secs(10);
/// What only deletes waits so long at most for what else is found meanwhile.
const TOGETHER: Duration = Duration::from_secs(30);

/// A command that is found and not begun. It is validated by asking for its claims alone; what comes out is done.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingCommand {
    /// What goes, and why.
    pub wanted: WantedRemoval,
    /// Pods, by uid, and where they come that is there already.
    pub places: Vec<(NominationTarget, Vec<String>)>,
    /// Whether nothing is launched for it.
    deletes: bool,
    found: Duration,
    due: bool,
}

/// What is to be done about commands that wait.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitingStep {
    /// This one is validated; it waits no longer.
    Validate(WaitingCommand),
    /// None yet: after so long, if nothing changes before.
    Wait(Duration),
    /// None waits.
    Nothing,
}

/// All commands that wait, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingCommands {
    commands: Vec<WaitingCommand>,
    /// The last question has found one: the next may as well.
    more: bool,
}

impl WaitingCommands {
    /// A question has found this command; its nodes are indices of that planning.
    pub fn found(&mut self, command: &DisruptionCommand, planning: &Planning, now: Moment) {
        let places = command.on_existing.iter();
        self.commands.push(WaitingCommand {
            wanted: command.wanted.clone(),
            places: places.map(|(node, pods)| (planning.existing[*node].target(), pods.clone())).collect(),
            deletes: command.replacements.is_empty(),
            found: now.monotonic,
            due: false,
        });
        self.more = true;
    }

    /// A question has found nothing, or was not answered.
    pub fn found_nothing(&mut self) {
        self.more = false;
    }

    /// What comes next. Those that are due are so together: what the first of them sets going is no reason for the next to wait.
    pub fn next(&mut self, snapshot: &Snapshot, now: Moment) -> WaitingStep {
        if self.commands.is_empty() {
            return WaitingStep::Nothing;
        }
        if self.commands.iter().all(|command| !command.due) {
            let due: Vec<Duration> =
                self.commands.iter().map(|command| self.due_from(command, snapshot, now)).collect();
            let left = due.iter().min().map_or(Duration::ZERO, |due| due.saturating_sub(now.monotonic));
            if !left.is_zero() {
                return WaitingStep::Wait(left);
            }
            self.commands.iter_mut().zip(due).for_each(|(command, due)| command.due = due <= now.monotonic);
        }
        match self.commands.iter().position(|command| command.due) {
            Some(at) => WaitingStep::Validate(self.commands.remove(at)),
            None => WaitingStep::Nothing,
        }
    }

    /// From when a command is due by what is known now. Monotonic time.
    fn due_from(&self, command: &WaitingCommand, snapshot: &Snapshot, now: Moment) -> Duration {
        let at_the_latest = command.found + VALIDATION;
        let due = match command.quiet_from(snapshot, now) {
            Some(quiet) => {
                let left = Duration::try_from(quiet.duration_since(now.wall)).unwrap_or_default();
                (now.monotonic + left).max(command.found + SOONEST).min(at_the_latest)
            }
            None => at_the_latest,
        };
        if self.more && command.deletes { due.max(command.found + TOGETHER) } else { due }
    }

    /// Those that wait.
    #[must_use]
    pub fn commands(&self) -> &[WaitingCommand] {
        &self.commands
    }
}

impl WaitingCommand {
    /// Since when, or from when on, the nodes that go and those that pods come to count as quiet; none while pods of theirs end or
    /// are not Ready, while any pod waits, or where a place is on its way itself.
    fn quiet_from(&self, snapshot: &Snapshot, now: Moment) -> Option<Timestamp> {
        if now.monotonic < self.found + SOONEST {
            // It is not asked before; nothing is looked through for it.
            return Some(later(now.wall, signed(self.found + SOONEST - now.monotonic)));
        }
        let going = self.wanted.claims.iter().map(|claim| Some(claim.node.as_str()));
        let nodes = going.chain(self.places.iter().map(|(place, _)| match place {
            NominationTarget::Node(name) => Some(name.as_str()),
            NominationTarget::Claim(_) => None,
        }));
        let nodes: Vec<&str> = nodes.collect::<Option<_>>()?;
        let settled = |pod: &PodEntry| pod.belongs_to_node() || pod.terminal || (pod.ready && !pod.deleting);
        let all_settled =
            |node: &str| snapshot.loads.get(node).is_none_or(|load| load.pods.values().all(|pod| settled(pod)));
        let waits = |pod: &PodEntry| pod.node_name.is_empty() && (pod.provisionable || pod.unmarked);
        if !nodes.iter().all(|node| all_settled(node)) || snapshot.pods.values().any(|pod| waits(pod)) {
            return None;
        }
        let seen = nodes.iter().filter_map(|node| snapshot.moves.get(*node)).map(|moves| moves.last);
        let machines = machines(snapshot, now);
        let own = machines.iter().filter(|machine| nodes.contains(&machine.node.name.as_str()));
        let last = seen.chain(own.filter_map(|machine| machine.last_pod_event())).max();
        Some(last.map_or(Timestamp::MIN, |last| later(last, WITHOUT_POD_EVENTS)))
    }
}
