//! The commands that are under way, and what comes next of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::question::Moved;
use super::{DisruptionCommand, WantedRemoval};
use crate::clock::later;
use crate::cluster_state::{Moment, Snapshot, moved_as};
use crate::disruption::allowed;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::machines;
use crate::lifecycle::ClaimStage;

/// A replacement that is not initialized by then is waited for no longer (core spec 5.8).
const REPLACEMENT_TIME: SignedDuration = SignedDuration::from_mins(10);
/// And so long after that for budgets to allow the removal again.
const BUDGET_TIME: SignedDuration = SignedDuration::from_mins(10);
/// A removal that the API server does not show is asked for again after this.
const ASKED_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// And no longer after that.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(60);
/// A pool whose replacement has failed is left alone for this, then for twice as long, and so on.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(5);
/// Up to this.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// For so long a move that was to save money is remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is being written on its claims; nothing is launched before.
    Marking,
    /// Its replacements are on their way.
    Replacing,
    /// The removal of its claims has been asked for: first, and last.
    Removing { first: Timestamp, last: Timestamp },
}

/// A command under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Counts commands within a term.
    pub id: u64,
    /// What goes, and why.
    pub wanted: WantedRemoval,
    /// What is launched in its stead, by name.
    pub replacements: Vec<String>,
    /// When it began, in whichever term.
    pub began: Timestamp,
    phase: Phase,
}

impl Running {
    /// One that an earlier leader has begun.
    pub(super) fn restored(wanted: WantedRemoval, replacements: Vec<String>, began: Timestamp) -> Self {
        Self { id: 0, wanted, replacements, began, phase: Phase::Replacing }
    }
}

/// What is to be done about a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandStep {
    /// Its claims are to be removed; whether that is asked for the first time.
    Remove(Running, bool),
    /// It is over.
    End(Running, Ended),
}

/// How a command has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All of its claims go.
    Done,
    /// It is given up, and its claims stay: why, and for how long their pools are left alone.
    Undone(String, SignedDuration),
}

/// A pool in which a command has been given up, and why.
#[derive(Clone, Debug)]
struct Pause {
    until: Timestamp,
    length: SignedDuration,
    why: String,
}

/// The commands of a term, and what is remembered of those that are over.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    running: Vec<Running>,
    begun: u64,
    moved: Arc<Moved>,
    price_moves: Vec<(Timestamp, usize)>,
    paused: BTreeMap<String, Pause>,
    rest: SignedDuration,
}

impl Queue {
    /// Remembers moves at least for so long, and for an hour in any case.
    #[must_use]
    pub fn resting(rest: SignedDuration) -> Self {
        Self { rest, ..Self::default() }
    }

    /// Takes over what earlier leaders have begun.
    pub fn restore(&mut self, commands: Vec<Running>) {
        for mut command in commands {
            self.begun += 1;
            command.id = self.begun;
            self.running.push(command);
        }
    }

    /// A command begins whose replacements have these names; answers its number. Without any its claims are being removed already.
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
        if command.price_move {
            self.price_moves.push((now, command.wanted.claims.len()));
        }
        self.begun
    }

    /// A command is written on its claims: its replacements may be launched. Answers it, unless it is over, or all of its claims
    /// go for other reasons meanwhile.
    pub fn marked(&mut self, id: u64) -> Option<Running> {
        let command = self.running.iter_mut().find(|command| command.id == id)?;
        if command.wanted.claims.is_empty() {
            self.running.retain(|command| command.id != id);
            return None;
        }
        command.phase = Phase::Replacing;
        Some(command.clone())
    }

    /// A command cannot be carried on; answers its end.
    pub fn give_up(&mut self, id: u64, why: String, now: Timestamp) -> Option<CommandStep> {
        let at = self.running.iter().position(|command| command.id == id)?;
        let command = self.running.remove(at);
        Some(self.undone(command, why, now))
    }

    /// What comes next of each command.
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
        let mut longest = FIRST_PAUSE;
        for pool in pools {
            let length = self.paused.get(pool).map_or(FIRST_PAUSE, |pause| (pause.length * 2).min(LONGEST_PAUSE));
            let pause = Pause { until: later(now, length), length, why: why.clone() };
            self.paused.insert(pool.clone(), pause);
            longest = longest.max(length);
        }
        CommandStep::End(command, Ended::Undone(why, longest))
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
        // A failure that follows soon takes a while to show itself.
        let lately = |pause: &Pause| now < later(pause.until, LONGEST_PAUSE);
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

    /// When pods were moved to save money, by workload: within the last hour, or the rest that is kept to where that is longer.
    #[must_use]
    pub fn moved(&self) -> Arc<Moved> {
        self.moved.clone()
    }

    /// How many nodes have been replaced within the last hour because prices differ alone.
    #[must_use]
    pub fn price_moves(&self) -> usize {
        self.price_moves.iter().map(|(_, nodes)| nodes).sum()
    }

    /// Nodes that stay as a command in their pool was given up lately, by the uid of the claim, and why.
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
        // What goes for other reasons meanwhile needs nothing of this.
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
    /// Whether the budgets of the pools allow it now, with all that goes already, and that is about to, by uid: they may be
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
