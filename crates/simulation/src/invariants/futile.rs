//! Launches that come to nothing, whatever the cause: a pool is not launched for without end while none of its nodes gets ready.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::{ClusterRecord, accepted, base, seconds};

/// Instances of a pool that may come to nothing within an hour before launches are tried one at a time.
const FREE: usize = 10;
/// Trials an hour after that: they come after 1, 2, 4, … minutes.
const TRIALS: usize = 8;
/// The time that the bound is about.
const HOUR: f64 = 3600.0;
/// Seconds by which a launch ordered before an end was known may come later than that end.
const UNDER_WAY: f64 = 30.0;

/// State of launches, as the event log has told it so far.
#[derive(Default)]
struct Futile {
    term: i64,
    /// Claims' uids by launch token.
    by_token: BTreeMap<String, String>,
    /// Instances that are known.
    seen: BTreeSet<String>,
    /// Seconds at which instances ended whose nodes had never been ready for pods, by pool.
    lost: BTreeMap<String, Vec<f64>>,
    /// Claims that were made when their pool had lost as many as it may.
    braked: BTreeSet<String>,
    /// Seconds at which such claims got their instances, by pool.
    trials: BTreeMap<String, Vec<f64>>,
}

impl Checker {
    /// INV-23: under one term, and while no node of a pool gets ready for pods, no more than eight instances an hour are launched
    /// for claims that replicas make after ten instances of the pool had come to nothing within an hour.
    pub(super) fn futile_launches(&mut self, entries: &[ActionEntry]) {
        let (mut state, mut futile) = (ClusterRecord::default(), Futile::default());
        for entry in entries {
            state.apply(entry);
            if let Some(pool) = futile.apply(entry, &state) {
                let trials = futile.trials.get(&pool).map_or(0, Vec::len);
                self.expect("INV-23", state.now, trials <= TRIALS, || {
                    format!(
                        "{trials} instances were launched for pool {pool} within an hour after {FREE} of it had come to nothing, at most \
                         {TRIALS} may be"
                    )
                });
            }
        }
    }
}

impl Futile {
    /// Applies an entry; returns the pool for which an instance was launched beyond what it may lose.
    fn apply(&mut self, entry: &ActionEntry, state: &ClusterRecord) -> Option<String> {
        if let Some(term) = entry.term.filter(|term| *term > self.term) {
            // A new leader knows of the living only.
            (self.term, self.lost, self.trials) = (term, BTreeMap::new(), BTreeMap::new());
            self.braked.clear();
        }
        match entry.kind.as_str() {
            "api" if entry.text("resource") == "nodeclaims" && accepted(entry) => self.claim(entry, state),
            "instance" if entry.text("change") == "shutting-down" => self.ended(entry, state),
            "instance" if self.seen.insert(entry.text("id").to_owned()) => return self.launched(entry, state),
            _ => {}
        }
        None
    }

    fn claim(&mut self, entry: &ActionEntry, state: &ClusterRecord) {
        let uid = entry.text("uid");
        let Some(claim) = state.claims.get(uid) else { return };
        if !claim.token.is_empty() {
            self.by_token.insert(claim.token.clone(), uid.to_owned());
        }
        if claim.initialized_at == Some(state.now) {
            self.lost.remove(&claim.pool);
            self.trials.remove(&claim.pool);
        }
        if entry.replica.is_some() && entry.text("verb") == "create" {
            let lost = lately(self.lost.entry(claim.pool.clone()).or_default(), state.now);
            if lost.get(FREE - 1).is_some_and(|tenth| tenth + UNDER_WAY <= state.now) {
                self.braked.insert(uid.to_owned());
            }
        }
    }

    fn launched(&mut self, entry: &ActionEntry, state: &ClusterRecord) -> Option<String> {
        let uid = self.by_token.get(base(entry.text("token")))?;
        let claim = state.claims.get(uid).filter(|_| self.braked.contains(uid))?;
        let trials = self.trials.entry(claim.pool.clone()).or_default();
        lately(trials, state.now);
        trials.push(state.now);
        Some(claim.pool.clone())
    }

    fn ended(&mut self, entry: &ActionEntry, state: &ClusterRecord) {
        let Some(machine) = state.machines.get(entry.text("id")) else { return };
        let claim = self.by_token.get(&machine.token).and_then(|uid| state.claims.get(uid));
        if let Some(claim) = claim.filter(|claim| claim.initialized_at.is_none() && !machine.warned) {
            self.lost.entry(claim.pool.clone()).or_default().push(seconds(entry));
        }
    }
}

/// Those of the last hour.
fn lately(times: &mut Vec<f64>, now: f64) -> &[f64] {
    times.retain(|at| now - at < HOUR);
    times
}
