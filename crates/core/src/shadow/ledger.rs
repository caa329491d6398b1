//! The books of both sides: one per side, and the rounds in which the two are compared.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::fact::{Fact, ShadowNode, Side, SideDecision};
use super::report::{ShadowReport, SideTotals};
use super::rounds::Rounds;

/// The reason of a node that is removed for an unknown reason.
const UNKNOWN: &str = "Unknown";

/// A node that is there.
#[derive(Clone, Debug)]
struct Open {
    machine: ShadowNode,
    since: Timestamp,
    leaves: bool,
}

/// Running totals of one side.
#[derive(Clone, Debug, Default)]
struct Book {
    machines: BTreeMap<String, Open>,
    /// Cost of the nodes that are gone, $.
    cost: f64,
    launched: usize,
    removed: BTreeMap<String, usize>,
    /// Time since which each waiting pod waits.
    waiting: BTreeMap<String, Timestamp>,
    placed: usize,
    /// Seconds of waiting of the pods that wait no longer.
    pending_seconds: f64,
    seconds_to_launch: f64,
    longest: f64,
    /// Pods whose eviction has been counted and that are not gone yet.
    evicted: BTreeSet<String>,
    evictions: usize,
}

/// Totals of both sides since the shadow began.
#[derive(Clone, Debug)]
pub struct Ledger {
    began: Timestamp,
    active: Book,
    shadow: Book,
    rounds: Rounds,
}

impl Ledger {
    /// An empty ledger. Launches and removals of both sides that follow each other within `window` are one round: the longest
    /// batch window of either side, as the same pods may be answered at its beginning here and at its end there.
    #[must_use]
    pub fn new(began: Timestamp, window: SignedDuration) -> Self {
        Self { began, active: Book::default(), shadow: Book::default(), rounds: Rounds::new(window) }
    }

    /// Takes a fact in. Answers the decision that it shows for the first time.
    pub fn record(&mut self, side: Side, at: Timestamp, fact: Fact) -> Option<SideDecision> {
        let decision = self.book(side).record(at, fact);
        match &decision {
            Some(SideDecision::Launch(machine)) => self.rounds.launched(side, at, machine),
            Some(SideDecision::Remove { machine, .. }) => self.rounds.removed(side, at, machine),
            None => {}
        }
        decision
    }

    /// The report on both sides until now.
    #[must_use]
    pub fn report(&self, now: Timestamp) -> ShadowReport {
        let totals = |book: &Book| book.totals(now);
        ShadowReport::new(self.began, now, totals(&self.active), totals(&self.shadow), &self.rounds)
    }

    fn book(&mut self, side: Side) -> &mut Book {
        match side {
            Side::Active => &mut self.active,
            Side::Shadow => &mut self.shadow,
        }
    }
}

impl Book {
    fn record(&mut self, at: Timestamp, fact: Fact) -> Option<SideDecision> {
        match fact {
            Fact::Launched(machine) => self.launched(at, machine),
            Fact::Leaves { claim, reason } => self.leaves(&claim, reason),
            Fact::Gone { claim } => self.gone(&claim, at),
            Fact::Waits { pod } => {
                self.waiting.entry(pod).or_insert(at);
                None
            }
            Fact::Placed { pod, claim } => {
                self.placed(&pod, claim.as_deref(), at);
                None
            }
            Fact::Ended { pod } => {
                self.settle(&pod, at);
                self.evicted.remove(&pod);
                None
            }
            Fact::Evicted { pod } => {
                self.evictions += usize::from(self.evicted.insert(pod));
                None
            }
        }
    }

    fn launched(&mut self, at: Timestamp, machine: ShadowNode) -> Option<SideDecision> {
        if self.machines.contains_key(&machine.claim) {
            return None;
        }
        let decision = (!machine.before).then(|| SideDecision::Launch(machine.clone()));
        self.launched += usize::from(decision.is_some());
        self.machines.insert(machine.claim.clone(), Open { machine, since: at, leaves: false });
        decision
    }

    fn leaves(&mut self, claim: &str, reason: String) -> Option<SideDecision> {
        let open = self.machines.get_mut(claim).filter(|open| !open.leaves)?;
        open.leaves = true;
        *self.removed.entry(reason.clone()).or_default() += 1;
        Some(SideDecision::Remove { machine: open.machine.clone(), reason })
    }

    fn gone(&mut self, claim: &str, at: Timestamp) -> Option<SideDecision> {
        // A node may go without having been seen about to go.
        let decision = self.leaves(claim, UNKNOWN.to_owned());
        if let Some(open) = self.machines.remove(claim) {
            self.cost += open.cost(at);
        }
        decision
    }

    fn placed(&mut self, pod: &str, claim: Option<&str>, at: Timestamp) {
        let Some((since, waited)) = self.settle(pod, at) else { return };
        self.placed += 1;
        self.longest = self.longest.max(waited);
        let launched = claim.and_then(|claim| self.machines.get(claim)).map(|open| open.since);
        self.seconds_to_launch += launched.map_or(0.0, |launched| seconds(since, launched).min(waited));
    }

    /// A pod waits no longer. Answers the time since when it did, and the seconds.
    fn settle(&mut self, pod: &str, at: Timestamp) -> Option<(Timestamp, f64)> {
        let since = self.waiting.remove(pod)?;
        let waited = seconds(since, at);
        self.pending_seconds += waited;
        Some((since, waited))
    }

    fn totals(&self, now: Timestamp) -> SideTotals {
        let open = || self.machines.values();
        let waiting = || self.waiting.values().map(|since| seconds(*since, now));
        SideTotals {
            nodes: self.machines.len(),
            cost_per_hour: open().filter_map(|open| open.machine.price_per_hour).fold(0.0, |sum, price| sum + price),
            cost: self.cost + open().map(|open| open.cost(now)).fold(0.0, |sum, cost| sum + cost),
            unpriced: open().filter(|open| open.machine.price_per_hour.is_none()).count(),
            launched: self.launched,
            removed: self.removed.values().sum(),
            removed_by_reason: self.removed.clone(),
            pods_placed: self.placed,
            pods_waiting: self.waiting.len(),
            pending_seconds: self.pending_seconds + waiting().fold(0.0, |sum, waited| sum + waited),
            seconds_to_launch: self.seconds_to_launch,
            longest_pending_seconds: waiting().fold(self.longest, f64::max),
            evictions: self.evictions,
        }
    }
}

impl Open {
    /// Its cost until then, $.
    fn cost(&self, until: Timestamp) -> f64 {
        self.machine.price_per_hour.unwrap_or_default() * seconds(self.since, until) / 3600.0
    }
}

/// Seconds from one time to a later one; zero if the clock was set back.
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}
