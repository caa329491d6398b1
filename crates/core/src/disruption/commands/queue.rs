//! The commands that are under way, and the next step of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::question::Moved;
use super::{DisruptionCommand, WantedRemoval};
use crate::clock::{later, signed};
use crate::cluster_state::{Moment, Snapshot, moved_as};
use crate::disruption::allowed;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::machines;
use crate::disruption::methods::takes_reserved;
use crate::lifecycle::ClaimStage;
use crate::pause::DoublingPause;

/// Timeout of a command's replacements to be initialized (core spec 5.8).
const REPLACEMENT_TIME: SignedDuration = SignedDuration::from_mins(10);
/// Time after that for budgets to allow the removal again.
const BUDGET_TIME: SignedDuration = SignedDuration::from_mins(10);
/// Time after which a removal that the API server does not show is asked for again.
const ASKED_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// Timeout of a removal that the API server does not show.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(60);
/// Time that a pool whose replacement has failed is left alone.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(300), longest: Duration::from_secs(3600) };
/// The reason that a place does not do any more.
const GROWN: &str = "its VerticalPodAutoscaler recommends more than when its place was found";
/// Minimum time for which a move that was to save money is remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// Phase of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is being written on its claims; nothing is launched before.
    Marking,
    /// Its replacements are on their way.
    Replacing,
    /// The removal of its claims has been asked for: first and last time.
    Removing { first: Timestamp, last: Timestamp },
}

/// A command under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Number of the command within a term.
    pub id: u64,
    /// The claims that go, with the reason.
    pub wanted: WantedRemoval,
    /// The claims that are launched in their stead, by name.
    pub replacements: Vec<String>,
    /// Time at which it began, in whichever term.
    pub began: Timestamp,
    phase: Phase,
}

impl Running {
    /// A command that an earlier leader has begun.
    pub(super) fn restored(wanted: WantedRemoval, replacements: Vec<String>, began: Timestamp) -> Self {
        Self { id: 0, wanted, replacements, began, phase: Phase::Replacing }
    }
}

/// The next step of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandStep {
    /// Its claims are to be removed; true if that is asked for the first time.
    Remove(Running, bool),
    /// The command is over.
    End(Running, Ended),
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done: all of its claims go.
    Done,
    /// It is given up, and its claims stay: the reason, and the time for which their pools are left alone.
    Undone(String, SignedDuration),
}

/// A pause of a pool in which a command has been given up, with the reason.
#[derive(Clone, Debug)]
struct Pause {
    until: Timestamp,
    failures: u32,
    why: String,
}

/// The commands of a term, and the moves and failures of those that are over.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    running: Vec<Running>,
    begun: u64,
    moved: Arc<Moved>,
    price_moves: Vec<(Timestamp, usize)>,
    /// Times at which claims, by uid, were last to be moved into capacity reservations.
    reserved: BTreeMap<String, Timestamp>,
    paused: BTreeMap<String, Pause>,
    rest: SignedDuration,
}

impl Queue {
    /// A queue that remembers moves for `rest`, and for an hour at least.
    #[must_use]
    pub fn resting(rest: SignedDuration) -> Self {
        Self { rest, ..Self::default() }
    }

    /// Takes over commands that earlier leaders have begun.
    pub fn restore(&mut self, commands: Vec<Running>) {
        for mut command in commands {
            self.begun += 1;
            command.id = self.begun;
            self.running.push(command);
        }
    }

    /// Begins a command whose replacements have these names; returns its number. Without any its claims are being removed
    /// already.
    pub fn begin(
        &mut self,
        command: &DisruptionCommand,
        replacements: Vec<String>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> u64 {
        self.begun += 1;
        let phase = if replacements.is_empty() { Phase::Removing { first: now, last: now } } else { Phase::Marking };
        let wanted = command.wanted.clone();
        self.running.push(Running { id: self.begun, wanted, replacements, began: now, phase });
        if command.saves() {
            let moved = Arc::make_mut(&mut self.moved);
            let entries = command.pods.iter().filter_map(|uid| snapshot.pods.get(uid));
            let workloads = entries.map(|entry| moved_as(entry).into_owned());
            for workload in workloads.collect::<BTreeSet<_>>() {
                moved.entry(workload).or_default().push(now);
            }
        }
        if takes_reserved(&command.replacements) {
            self.reserved.extend(command.wanted.claims.iter().map(|claim| (claim.uid.clone(), now)));
        }
        if command.price_move {
            self.price_moves.push((now, command.wanted.claims.len()));
        }
        self.begun
    }

    /// Notes that a command is written on its claims: its replacements may be launched. Returns it, unless it is over, or all
    /// of its claims go for other reasons meanwhile.
    pub fn marked(&mut self, id: u64) -> Option<Running> {
        let command = self.running.iter_mut().find(|command| command.id == id)?;
        if command.wanted.claims.is_empty() {
            self.running.retain(|command| command.id != id);
            return None;
        }
        command.phase = Phase::Replacing;
        Some(command.clone())
    }

    /// Gives up a command that cannot be carried on; returns its end.
    pub fn give_up(&mut self, id: u64, why: String, now: Timestamp) -> Option<CommandStep> {
        let at = self.running.iter().position(|command| command.id == id)?;
        let command = self.running.remove(at);
        Some(self.undone(command, why, now))
    }

    /// The next step of each command.
    ///
    /// `going` are claims, by uid, that are about to go though the snapshot may not show it.
    pub fn next(&mut self, snapshot: &Snapshot, going: &BTreeSet<String>, now: Timestamp) -> Vec<CommandStep> {
        self.forget(snapshot, now);
        let mut steps = Vec::new();
        for mut command in std::mem::take(&mut self.running) {
            match command.next_step(snapshot, going, now) {
                Next::Wait => self.running.push(command),
                Next::Remove(first) => {
                    if first {
                        // Its replacements stand: nothing is wrong with its pools.
                        command.wanted.claims.iter().for_each(|claim| {
                            self.paused.remove(&claim.pool);
                        });
                    }
                    steps.push(CommandStep::Remove(command.clone(), first));
                    self.running.push(command);
                }
                Next::Done => steps.push(CommandStep::End(command, Ended::Done)),
                Next::Undo(why) => {
                    let step = self.undone(command, why, now);
                    steps.push(step);
                }
            }
        }
        steps
    }

    fn undone(&mut self, command: Running, why: String, now: Timestamp) -> CommandStep {
        if command.wanted.claims.is_empty() {
            return CommandStep::End(command, Ended::Done);
        }
        let pools: BTreeSet<&String> = command.wanted.claims.iter().map(|claim| &claim.pool).collect();
        let mut longest = Duration::ZERO;
        for pool in pools {
            let earlier = self.paused.get(pool).map_or(0, |pause| pause.failures);
            let length = PAUSE.length_after(earlier);
            let pause =
                Pause { until: later(now, signed(length)), failures: earlier.saturating_add(1), why: why.clone() };
            self.paused.insert(pool.clone(), pause);
            longest = longest.max(length);
        }
        CommandStep::End(command, Ended::Undone(why, signed(longest)))
    }

    fn forget(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let rest = self.rest.max(REMEMBERED);
        let rests = |time: &Timestamp| now.duration_since(*time) < rest;
        if self.moved.values().flatten().any(|time| !rests(time)) {
            let moved = Arc::make_mut(&mut self.moved);
            moved.values_mut().for_each(|times| times.retain(rests));
            moved.retain(|_, times| !times.is_empty());
        }
        self.price_moves.retain(|(time, _)| now.duration_since(*time) < REMEMBERED);
        self.reserved.retain(|_, time| now.duration_since(*time) < REMEMBERED);
        // A failure that follows soon takes a while to show itself.
        let lately = |pause: &Pause| now < later(pause.until, signed(PAUSE.longest));
        self.paused.retain(|pool, pause| snapshot.pools.contains_key(pool) && lately(pause));
    }

    /// The commands that are being carried out.
    #[must_use]
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// Claims, by uid, that commands hold.
    pub fn held(&self) -> impl Iterator<Item = &str> {
        self.running.iter().flat_map(|command| &command.wanted.claims).map(|claim| claim.uid.as_str())
    }

    /// Times at which pods were moved to save money, by workload: within the last hour, or the rest that is kept to where that
    /// is longer.
    #[must_use]
    pub fn moved(&self) -> Arc<Moved> {
        self.moved.clone()
    }

    /// Claims, by uid, that were to be moved into capacity reservations within the last hour: such a move is not repeated sooner.
    #[must_use]
    pub fn reserved_lately(&self) -> BTreeSet<String> {
        self.reserved.keys().cloned().collect()
    }

    /// Number of nodes that have been replaced within the last hour because prices differ alone.
    #[must_use]
    pub fn price_moves(&self) -> usize {
        self.price_moves.iter().map(|(_, nodes)| nodes).sum()
    }

    /// Nodes that stay as a command in their pool was given up lately, by the uid of the claim, with the reason.
    #[must_use]
    pub fn refused(&self, snapshot: &Snapshot, now: Timestamp) -> BTreeMap<String, String> {
        let paused = |pool: &String| self.paused.get(pool).filter(|pause| now < pause.until);
        let all = snapshot.claims.values().filter_map(|entry| {
            let Pause { until, why, .. } = paused(&entry.facts.pool)?;
            let pool = &entry.facts.pool;
            let why = format!("the last command in nodepool {pool} has failed ({why}), the next is tried at {until}");
            Some((entry.facts.uid.clone(), why))
        });
        if self.paused.is_empty() { BTreeMap::new() } else { all.collect() }
    }
}

enum Next {
    Wait,
    Remove(bool),
    Done,
    Undo(String),
}

impl Running {
    fn next_step(&mut self, snapshot: &Snapshot, going: &BTreeSet<String>, now: Timestamp) -> Next {
        // Claims that go for other reasons meanwhile need nothing of this command.
        self.wanted.claims.retain(|claim| {
            let entry = snapshot.claims.get(&claim.claim);
            entry.is_some_and(|entry| entry.facts.uid == claim.uid && !entry.facts.deleting)
        });
        if self.wanted.claims.is_empty() {
            return if self.phase == Phase::Marking { Next::Wait } else { Next::Done };
        }
        match self.phase {
            Phase::Marking => Next::Wait,
            Phase::Replacing => self.replacing(snapshot, going, now),
            Phase::Removing { first, .. } if now.duration_since(first) >= REMOVAL_TIME => {
                Next::Undo("the API server has not taken the removal for a minute".into())
            }
            Phase::Removing { last, .. } if now.duration_since(last) < ASKED_AGAIN => Next::Wait,
            Phase::Removing { first, .. } => {
                self.phase = Phase::Removing { first, last: now };
                Next::Remove(false)
            }
        }
    }

    fn replacing(&mut self, snapshot: &Snapshot, going: &BTreeSet<String>, now: Timestamp) -> Next {
        let mut all = true;
        for name in &self.replacements {
            match snapshot.claims.get(name) {
                Some(entry) if !entry.facts.deleting => all &= entry.facts.stage == Some(ClaimStage::Initialized),
                _ => return Next::Undo(format!("its replacement {name} is gone")),
            }
        }
        let late = now.duration_since(self.began);
        if all && !self.wanted.within_budgets(snapshot, going, now) {
            let over = late >= REPLACEMENT_TIME + BUDGET_TIME;
            return if over {
                Next::Undo("the budgets of its nodepool do not allow it any more".into())
            } else {
                Next::Wait
            };
        }
        if all {
            let nodes = self.wanted.claims.iter().map(|claim| claim.node.as_str()).collect();
            if let Some(pod) = snapshot.outgrown(&nodes) {
                return Next::Undo(format!("pod {pod} will ask for more than there is room for: {GROWN}"));
            }
            self.phase = Phase::Removing { first: now, last: now };
            return Next::Remove(true);
        }
        if late >= REPLACEMENT_TIME {
            return Next::Undo("its replacement has not become ready within ten minutes".into());
        }
        Next::Wait
    }
}

impl WantedRemoval {
    /// True if the budgets of the pools allow it now, with all that goes already, and that is about to, by uid: they may be
    /// other ones than when it was found.
    #[must_use]
    pub fn within_budgets(&self, snapshot: &Snapshot, going: &BTreeSet<String>, now: Timestamp) -> bool {
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        self.claims.iter().for_each(|claim| *own.entry(claim.pool.as_str()).or_default() += 1);
        let machines = machines(snapshot, Moment { monotonic: Duration::ZERO, wall: now });
        own.into_iter().all(|(name, count)| {
            let Some(pool) = snapshot.pools.get(name) else { return true };
            let mut totals = PoolNodeTotals::default();
            for machine in machines.iter().filter(|machine| machine.claim.pool == name) {
                let uid = &machine.claim.uid;
                let own = self.claims.iter().any(|claim| claim.uid == *uid);
                totals.count(machine, (machine.deleting || going.contains(uid)) && !own);
            }
            allowed(pool, self.reason, totals.nodes, now).after(totals.disrupting) >= count
        })
    }
}
