//! Memory of a term about requests: the places of their pods, the claims that were ordered, and pauses after trials that came to
//! nothing. A successor starts without it: it knows requests by their conditions, and claims by their annotation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::placing::GangPlaces;
use crate::cluster_state::Snapshot;
use crate::lifecycle::ClaimStage;
use crate::pause::DoublingPause;

/// Pause of a request after a trial that came to nothing (Cluster Autoscaler's).
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: Duration::from_secs(600) };
/// Claims that may come to nothing in a trial beside as many as it ordered at first: others are ordered in their place.
const SPARE_FAILURES: usize = 3;
/// Time for which booked room may be without a place until it is given up: pods and their room are shown one after the other.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Requests of a term.
#[derive(Clone, Debug, Default)]
pub struct GangMemory {
    trials: BTreeMap<String, Trial>,
    /// Places of the last plan, by namespace and name of the request.
    places: BTreeMap<String, GangPlaces>,
}

/// The trials of one request.
#[derive(Clone, Debug, Default)]
struct Trial {
    /// Claims that have been ordered and are not initialized yet, by name.
    ordered: BTreeSet<String>,
    /// Number of claims of the trial's first order.
    first: usize,
    /// Number of claims of the trial that came to nothing.
    failed: usize,
    /// Number of trials that came to nothing.
    given_up: u32,
    /// Time until which it is not tried. Monotonic.
    until: Duration,
    /// Time since which booked room has had no place. Monotonic.
    lost: Option<Duration>,
}

impl GangMemory {
    /// Places of the last plan.
    #[must_use]
    pub fn places(&self) -> &BTreeMap<String, GangPlaces> {
        &self.places
    }

    /// Notes the places of a request's pods; none for one for which no room is held.
    pub fn note_places(&mut self, key: &str, places: GangPlaces) {
        match places.is_empty() {
            true => drop(self.places.remove(key)),
            false => drop(self.places.insert(key.to_owned(), places)),
        }
    }

    /// Notes claims that are ordered for a request.
    pub fn note_ordered(&mut self, key: &str, claims: impl IntoIterator<Item = String>) {
        let trial = self.trials.entry(key.to_owned()).or_default();
        trial.ordered.extend(claims);
        if trial.first == 0 {
            trial.first = trial.ordered.len();
        }
    }

    /// Takes in the outcome of orders, and forgets requests that are not among `known`.
    pub fn look_back(&mut self, snapshot: &Snapshot, known: &BTreeSet<String>) {
        self.trials.retain(|key, _| known.contains(key));
        self.places.retain(|key, _| known.contains(key));
        for trial in self.trials.values_mut() {
            let mut failed = 0;
            trial.ordered.retain(|name| match snapshot.claims.get(name) {
                None => {
                    failed += 1;
                    false
                }
                Some(entry) => entry.facts.stage != Some(ClaimStage::Initialized),
            });
            trial.failed += failed;
        }
    }

    /// Number of a trial's claims that came to nothing, once that is too many for it to go on.
    #[must_use]
    pub fn failed_too_often(&self, key: &str) -> Option<usize> {
        self.trials
            .get(key)
            .map(|trial| (trial.failed, trial.first + SPARE_FAILURES))
            .and_then(|(failed, most)| (failed > most).then_some(failed))
    }

    /// True while a request is not tried.
    #[must_use]
    pub fn is_paused(&self, key: &str, now: Duration) -> bool {
        self.trials.get(key).is_some_and(|trial| now < trial.until)
    }

    /// The end of the pause that ends first.
    #[must_use]
    pub fn next_trial(&self, now: Duration) -> Option<Duration> {
        self.trials.values().map(|trial| trial.until).filter(|until| *until > now).min()
    }

    /// A trial has come to nothing.
    pub fn give_up(&mut self, key: &str, now: Duration) {
        let given_up = self.trials.get(key).map_or(0, |trial| trial.given_up);
        let until = now + PAUSE.length_after(given_up);
        let trial = Trial { given_up: given_up.saturating_add(1), until, ..Trial::default() };
        self.trials.insert(key.to_owned(), trial);
        self.places.remove(key);
    }

    /// Nothing more is to be known of a request's trials.
    pub fn forget_trials(&mut self, key: &str) {
        self.trials.remove(key);
    }

    /// True if booked room has had no place for too long. `lacks` is true if some has none now.
    pub fn is_lost(&mut self, key: &str, lacks: bool, now: Duration) -> bool {
        let trial = self.trials.entry(key.to_owned()).or_default();
        trial.lost = trial.lost.or(Some(now)).filter(|_| lacks);
        trial.lost.is_some_and(|since| now.saturating_sub(since) >= LOST_AFTER)
    }
}
