//! Time for which nodes have to be to spare before they go, by what pods ask for now and an hour ago (decision 050).
//!
//! ```text
//! pods of each minute ──► Demand ──► for how long a move has to have paid ──► Question
//!                           ▲                                                    │
//!                           └── since when, by claim ◄── could go, has not paid ─┘
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::{CommandAnswer, WaitingCommands};
use crate::cluster_state::{Moment, PodEntry, Snapshot};
use crate::disruption::methods::ConsolidationSettings;
use crate::resources::{CPU, MEMORY};

/// Time over which requests of pods are compared: longer than a wave of scaling, shorter than a day's.
const WINDOW: Duration = Duration::from_secs(3600);
/// Minimum time between two observations.
const NOTED: Duration = Duration::from_secs(60);
/// Part of the largest requests within that time below which it is no wave that comes back, but a scale-in.
const SCALED_IN: f64 = 0.75;
/// Factor on the payback time while demand rises.
const RISING: i32 = 3;

/// Times since which nodes could have gone, by the uid of the claim. Monotonic time.
pub type SpareNodes = BTreeMap<String, Duration>;

/// Requests of all pods at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Requested {
    /// Monotonic time.
    when: Duration,
    cpu: i64,
    memory: i64,
}

/// Requests of pods within the last hour, and times since which nodes could have gone that have yet to pay for it.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    requested: VecDeque<Requested>,
    spare: Arc<SpareNodes>,
}

impl Demand {
    /// Notes the requests of all pods now. Pods that run to their end are left out: that they come and go says nothing of what
    /// comes next.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Moment) {
        let now = now.monotonic;
        if self.requested.back().is_some_and(|last| now < last.when + NOTED) {
            return;
        }
        let counts = |pod: &&PodEntry| pod.is_active() && !pod.ends && !pod.keeps_no_node();
        let mut requested = Requested { when: now, cpu: 0, memory: 0 };
        for entry in snapshot.pods.values().map(|pod| &**pod).filter(counts) {
            requested.cpu = requested.cpu.saturating_add(entry.pod.requests.get(CPU));
            requested.memory = requested.memory.saturating_add(entry.pod.requests.get(MEMORY));
        }
        self.requested.push_back(requested);
        // The last one from before the window is what was asked for then.
        while self.requested.get(1).is_some_and(|second| second.when + WINDOW <= now) {
            self.requested.pop_front();
        }
    }

    /// Factor on the payback time: 0, which asks for no payback, after a scale-in within the hour, and where the requests of an
    /// hour ago are not known.
    fn payback_factor(&self) -> i32 {
        let (Some(then), Some(now)) = (self.requested.front(), self.requested.back()) else {
            return 0;
        };
        let most = |of: fn(&Requested) -> i64| self.requested.iter().map(of).max().unwrap_or_default();
        let scaled_in = |of: fn(&Requested) -> i64| (of(now) as f64) < SCALED_IN * most(of) as f64;
        if then.when + WINDOW > now.when || scaled_in(|one| one.cpu) || scaled_in(|one| one.memory) {
            0
        } else if then.cpu < now.cpu || then.memory < now.memory {
            RISING
        } else {
            1
        }
    }

    /// The rules, with the payback time for the present demand.
    #[must_use]
    pub fn adapted(&self, rules: ConsolidationSettings) -> ConsolidationSettings {
        ConsolidationSettings {
            payback: rules.payback.checked_mul(self.payback_factor()).unwrap_or(SignedDuration::MAX),
            ..rules
        }
    }

    /// Times since which nodes could have gone, by the uid of the claim.
    #[must_use]
    pub fn spare(&self) -> Arc<SpareNodes> {
        self.spare.clone()
    }

    /// Takes the nodes that could go from the answer to a question about all nodes. Where it has found a command it has not
    /// looked at all nodes, and those of commands that wait are left out of it: what is known of these is kept.
    pub fn answered(&mut self, answer: &CommandAnswer, waiting: &WaitingCommands, now: Moment) {
        if answer.spare.is_empty() && self.spare.is_empty() {
            return;
        }
        let waiting = waiting.commands().iter().flat_map(|command| &command.wanted.claims);
        let waiting: BTreeSet<&str> = waiting.map(|claim| claim.uid.as_str()).collect();
        let found: BTreeSet<&str> = answer.spare.iter().map(String::as_str).collect();
        let kept = |uid: &str| answer.command.is_some() || waiting.contains(uid) || found.contains(uid);
        let before = self.spare.iter().filter(|(uid, _)| kept(uid));
        let mut spare: SpareNodes = before.map(|(uid, since)| (uid.clone(), *since)).collect();
        found.into_iter().for_each(|uid| _ = spare.entry(uid.to_owned()).or_insert(now.monotonic));
        self.spare = Arc::new(spare);
    }
}
