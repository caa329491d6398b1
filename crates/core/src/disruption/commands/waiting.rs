//! Commands that are found and not begun, with the time at which each is validated (decision 049).
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
use crate::pack::PlannedClaim;

/// Time from a command's finding to its validation (core spec 5.8).
const VALIDATION: Duration = Duration::from_secs(15);
/// Minimum of that time, where all is quiet.
const SOONEST: Duration = Duration::from_secs(5);
/// Time without a pod that came or went after which nodes are quiet.
const WITHOUT_POD_EVENTS: SignedDuration = SignedDuration::from_secs(10);
/// Longest time for which a command that only deletes waits for others that are found meanwhile.
const TOGETHER: Duration = Duration::from_secs(30);

/// A command that is found and not begun. It is validated by asking for its claims alone; the answer is then carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingCommand {
    /// The claims that go, with the reason.
    pub wanted: WantedRemoval,
    /// Places that are there already, each with the pods, by uid, that come to it.
    pub places: Vec<(NominationTarget, Vec<String>)>,
    /// Capacity reservations, by id, of which it has found a free instance.
    pub reserved: Vec<String>,
    /// True if it was found without regard to commitments.
    pub blind: bool,
    /// True if nothing is launched for it.
    deletes: bool,
    found: Duration,
    due: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WaitingStep {
    /// This one is validated; it waits no longer.
    Validate(WaitingCommand),
    /// None is due yet: the time until one is, if nothing changes before.
    Wait(Duration),
    Nothing,
}

/// All commands that wait, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingCommands {
    commands: Vec<WaitingCommand>,
    /// True if the last question has found one: the next may as well.
    more: bool,
}

impl WaitingCommands {
    /// Adds a command that a question has found; its nodes are indices of that planning.
    pub fn found(&mut self, command: &DisruptionCommand, planning: &Planning, now: Moment) {
        let places = command.on_existing.iter();
        self.commands.push(WaitingCommand {
            wanted: command.wanted.clone(),
            places: places.map(|(node, pods)| (planning.existing[*node].target(), pods.clone())).collect(),
            reserved: command.replacements.iter().flat_map(PlannedClaim::reservations).map(str::to_owned).collect(),
            blind: command.blind,
            deletes: command.replacements.is_empty(),
            found: now.monotonic,
            due: false,
        });
        self.more = true;
    }

    /// Notes that a question has found nothing, or was not answered.
    pub fn found_nothing(&mut self) {
        self.more = false;
    }

    /// The next step. Commands that are due are so together: changes that the first of them makes are no reason for the next to
    /// wait.
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

    /// Time from which a command is due by what is known now. Monotonic time.
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

    #[must_use]
    pub fn commands(&self) -> &[WaitingCommand] {
        &self.commands
    }
}

impl WaitingCommand {
    /// Time from which the nodes that go and those that pods come to count as quiet; `None` while pods of theirs end or are not
    /// Ready, while any pod waits, or where a place is on its way itself.
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
        let settled = |pod: &PodEntry| pod.keeps_no_node() || pod.terminal || (pod.ready && !pod.deleting);
        let all_settled =
            |node: &str| snapshot.loads.get(node).is_none_or(|load| load.pods.values().all(|pod| settled(pod)));
        if !nodes.iter().all(|node| all_settled(node)) || snapshot.unbound().any(|pod| pod.waits_for_node()) {
            return None;
        }
        let seen = nodes.iter().filter_map(|node| snapshot.moves.get(*node)).map(|moves| moves.last);
        let machines = machines(snapshot, now);
        let own = machines.iter().filter(|machine| nodes.contains(&machine.node.name.as_str()));
        let last = seen.chain(own.filter_map(|machine| machine.last_pod_event())).max();
        Some(last.map_or(Timestamp::MIN, |last| later(last, WITHOUT_POD_EVENTS)))
    }
}
