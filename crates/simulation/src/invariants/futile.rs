//! Launches that come to nothing, whatever the cause: a pool is not launched for without end while none of its nodes gets ready.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::{ClusterRecord, accepted, base, seconds};

/// Instances of a pool that may come to nothing within an hour before launches are tried one at a time.
const FREE: usize = 10;
/// Instances of all pools together that may do so.
const FREE_IN_ALL: usize = 3 * FREE;
/// Trials an hour after that: they come after 1, 2, 4, … minutes.
const TRIALS: usize = 8;
/// The time that the bound is about.
const HOUR: f64 = 3600.0;
/// Seconds by which a launch ordered before an end was known may come later than that end.
const UNDER_WAY: f64 = 30.0;
/// Time for which a pool counts as one that works after a claim of it was initialized: the hour, and some for the replica, which
/// waits until it is sure that the node is used.
const PROVEN: f64 = HOUR + 300.0;

/// Seconds after a claim was initialized in which losses of its pool do not count: the replica, which waits until it is sure that the
/// node is used, forgets them then.
const FORGOTTEN: f64 = 120.0;

/// State of launches, as the event log has told it so far.
#[derive(Default)]
struct Futile {
    term: i64,
    /// Claims' uids by launch token: several of a call for several.
    by_token: BTreeMap<String, BTreeSet<String>>,
    /// Instances that are known.
    seen: BTreeSet<String>,
    /// Number of instances that are known, by launch token.
    seen_of: BTreeMap<String, usize>,
    /// Seconds at which instances ended whose nodes had never been ready for pods, by pool.
    lost: BTreeMap<String, Vec<f64>>,
    /// Claims that were made when their pool had lost as many as it may.
    braked: BTreeSet<String>,
    /// Seconds at which such claims got their instances, by pool.
    trials: BTreeMap<String, Vec<f64>>,
    /// The same for what all pools have lost together.
    braked_in_all: BTreeSet<String>,
    trials_in_all: BTreeMap<String, Vec<f64>>,
    /// Times at which a claim was last initialized, by pool.
    proven: BTreeMap<String, f64>,
}

/// Trials within an hour after too much had come to nothing.
struct Trials {
    count: usize,
    /// The pool, or all of them.
    whose: String,
    free: usize,
}

impl Checker {
    /// INV-23: under one term, and while no node of a pool gets ready for pods, no more than eight instances an hour are launched
    /// for claims that replicas make after ten instances of the pool had come to nothing within an hour. The same holds after
    /// thirty of all pools, for all of which no node got ready within the hour.
    pub(super) fn futile_launches(&mut self, entries: &[ActionEntry]) {
        let (mut state, mut futile) = (ClusterRecord::default(), Futile::default());
        for entry in entries {
            state.apply(entry);
            for Trials { count, whose, free } in futile.apply(entry, &state) {
                self.expect("INV-23", state.now, count <= TRIALS, || {
                    format!(
                        "{count} instances were launched for {whose} within an hour after {free} of it had come to nothing, at most \
                         {TRIALS} may be"
                    )
                });
            }
        }
    }
}

impl Futile {
    /// Applies an entry; returns the trials of a pool and of all pools, if an instance was launched as one of these.
    fn apply(&mut self, entry: &ActionEntry, state: &ClusterRecord) -> Vec<Trials> {
        if let Some(term) = entry.term.filter(|term| *term > self.term) {
            // A new leader knows of the living only.
            (self.term, self.lost, self.trials) = (term, BTreeMap::new(), BTreeMap::new());
            self.trials_in_all.clear();
            self.braked.clear();
            self.braked_in_all.clear();
        }
        match entry.kind.as_str() {
            "api" if entry.text("resource") == "nodeclaims" && accepted(entry) => self.claim(entry, state),
            "instance" if entry.text("change") == "shutting-down" => self.ended(entry, state),
            "instance" if self.seen.insert(entry.text("id").to_owned()) => return self.launched(entry, state),
            _ => {}
        }
        Vec::new()
    }

    fn claim(&mut self, entry: &ActionEntry, state: &ClusterRecord) {
        let uid = entry.text("uid");
        let Some(claim) = state.claims.get(uid) else { return };
        if !claim.token.is_empty() {
            self.by_token.entry(claim.token.clone()).or_default().insert(uid.to_owned());
        }
        if claim.initialized_at == Some(state.now) {
            self.lost.remove(&claim.pool);
            self.trials.remove(&claim.pool);
            self.trials_in_all.remove(&claim.pool);
            self.proven.insert(claim.pool.clone(), state.now);
        }
        if entry.replica.is_some() && entry.text("verb") == "create" {
            let of_pool = self.lost.get(&claim.pool).into_iter().flatten();
            if is_reached(of_pool, FREE, state.now) {
                self.braked.insert(uid.to_owned());
            }
            let proven = self.proven.get(&claim.pool).is_some_and(|at| state.now - at < PROVEN);
            if !proven && is_reached(self.lost.values().flatten(), FREE_IN_ALL, state.now) {
                self.braked_in_all.insert(uid.to_owned());
            }
        }
    }

    fn launched(&mut self, entry: &ActionEntry, state: &ClusterRecord) -> Vec<Trials> {
        let mut found = Vec::new();
        let token = base(entry.text("token"));
        let Some(uids) = self.by_token.get(token) else { return found };
        let Some(claim) = uids.first().and_then(|uid| state.claims.get(uid)) else { return found };
        let count = self.seen_of.entry(token.to_owned()).or_default();
        *count += 1;
        // Any of the instances may be for any of the claims: first for those that were made before.
        let is_trial = |braked: &BTreeSet<String>| *count > uids.iter().filter(|uid| !braked.contains(*uid)).count();
        let (braked, braked_in_all) = (is_trial(&self.braked), is_trial(&self.braked_in_all));
        let lately = |at: &&f64| state.now - **at < HOUR;
        if braked {
            let trials = self.trials.entry(claim.pool.clone()).or_default();
            trials.retain(|at| lately(&at));
            trials.push(state.now);
            let (count, whose) = (trials.len(), format!("pool {}", claim.pool));
            found.push(Trials { count, whose, free: FREE });
        }
        if braked_in_all {
            self.trials_in_all.entry(claim.pool.clone()).or_default().push(state.now);
            let count = self.trials_in_all.values().flatten().filter(lately).count();
            found.push(Trials { count, whose: "all pools together".to_owned(), free: FREE_IN_ALL });
        }
        found
    }

    fn ended(&mut self, entry: &ActionEntry, state: &ClusterRecord) {
        let Some(machine) = state.machines.get(entry.text("id")) else { return };
        let of_token = || self.by_token.get(&machine.token)?.first().and_then(|uid| state.claims.get(uid));
        let claim = state.claim_of(entry.text("id")).or_else(of_token);
        if let Some(claim) = claim.filter(|claim| claim.initialized_at.is_none() && !machine.warned) {
            let now = seconds(entry);
            if self.proven.get(&claim.pool).is_some_and(|at| now - at < FORGOTTEN) {
                return;
            }
            let lost = self.lost.entry(claim.pool.clone()).or_default();
            lost.retain(|at| now - at < HOUR);
            lost.push(now);
        }
    }
}

/// True if so many of these were lost within the hour, the last of them so long ago that what was under way has come.
fn is_reached<'t>(lost: impl Iterator<Item = &'t f64>, free: usize, now: f64) -> bool {
    let mut lost: Vec<f64> = lost.copied().filter(|at| now - at < HOUR).collect();
    lost.sort_by(f64::total_cmp);
    lost.get(free - 1).is_some_and(|last| last + UNDER_WAY <= now)
}
