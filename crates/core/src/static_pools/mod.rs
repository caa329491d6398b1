//! Static pools: a NodePool with `spec.replicas` has that many nodes, whatever pods wait (feature gate StaticCapacity;
//! docs/decisions/071).
//!
//! ```text
//! claims of the pool ──► count ─┬─ too few ──► as many as limits.nodes leaves ──► planning ──► packing ──► claims
//!                               └─ too many ──► surplus: those go that disturb least
//! ```
//!
//! Counted are the API server's claims, and claims that are planned and not created yet. So a leader that is killed between
//! decision and creation leaves nothing that its successor would count twice, or not at all. A node that drifts or is unwell
//! says so by a condition (`crate::disruption::succession`): it does not count any more, and stays until its successor stands.

mod planning;
mod surplus;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use planning::{plan_replicas, unplaced};
pub use verdict::{ReplicaVerdict, Shortfall, judge_replicas};

use crate::cluster_state::{Moment, Snapshot, is_unsettled};
use crate::disruption::DisruptedClaim;
use crate::pause::DoublingPause;

/// Most claims of one pool that are planned or launched at a time, and not launched yet.
pub const MOST_AT_ONCE: usize = 100;
/// Pause of a pool some of whose claims have come to nothing, or for which nothing could be planned.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(2), longest: Duration::from_secs(60) };
/// Time after which a removal that the API server does not show is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Changes that static pools need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticDecision {
    /// Number of claims to be planned now, by pool.
    pub wanted: BTreeMap<String, usize>,
    /// Claims beyond `replicas`, by pool.
    pub removals: BTreeMap<String, Vec<DisruptedClaim>>,
    /// Pools that lack nodes and wait, each with the reason.
    pub waiting: BTreeMap<String, Shortfall>,
    /// Time until a pool waits no longer.
    pub again: Option<Duration>,
}

/// Memory of a term: orders that have not come to anything yet. A successor starts without it.
#[derive(Clone, Debug, Default)]
pub struct StaticMemory {
    /// Claims whose removal has been asked for, by uid: name and monotonic time.
    asked: BTreeMap<String, (String, Duration)>,
    paces: BTreeMap<String, Pace>,
}

/// Pace of one pool's launches.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// Claims that have been ordered and not launched yet, by name.
    ordered: BTreeSet<String>,
    failures: u32,
    /// Time until which nothing is planned. Monotonic.
    until: Duration,
    why: Option<Shortfall>,
}

/// Decides what static pools need. `memory` is this term's.
pub fn decide_replicas(snapshot: &Snapshot, memory: &mut StaticMemory, now: Moment) -> StaticDecision {
    memory.look_back(snapshot, now.monotonic);
    let mut decision = StaticDecision::default();
    for (pool, count) in snapshot.replica_counts(|uid| memory.asked.contains_key(uid)) {
        if count.pool.metadata.deletion_timestamp.is_some() {
            continue;
        }
        if count.surplus() > 0 {
            let claims = surplus::claims_to_remove(snapshot, &count, now.wall);
            if !claims.is_empty() {
                claims.iter().for_each(|one| memory.ask(one, now.monotonic));
                decision.removals.insert(pool.to_owned(), claims);
            }
            continue;
        }
        let missing = count.missing();
        if missing == 0 {
            memory.paces.entry(pool.to_owned()).or_default().why = None;
            continue;
        }
        let room = count.room();
        let pace = memory.paces.entry(pool.to_owned()).or_default();
        if room == 0 {
            decision.waiting.insert(pool.to_owned(), Shortfall::AtLimit);
        } else if is_unsettled(count.pool) {
            // Its change brings the next look.
            decision.waiting.insert(pool.to_owned(), Shortfall::Unsettled);
        } else if pace.until > now.monotonic {
            let left = pace.until - now.monotonic;
            decision.again = Some(decision.again.map_or(left, |again| again.min(left)));
            decision.waiting.insert(pool.to_owned(), pace.why.clone().unwrap_or(Shortfall::Lost));
        } else {
            let free = MOST_AT_ONCE.saturating_sub(count.unlaunched());
            let wanted = missing.min(room).min(free);
            decision.wanted.extend((wanted > 0).then(|| (pool.to_owned(), wanted)));
        }
    }
    decision
}

impl StaticMemory {
    /// Notes claims that have been ordered for a pool.
    pub fn note_ordered(&mut self, pool: &str, claims: impl IntoIterator<Item = String>) {
        self.paces.entry(pool.to_owned()).or_default().ordered.extend(claims);
    }

    /// Notes that nothing, or less than was wanted, could be planned for a pool.
    pub fn note_unplaced(&mut self, pool: &str, why: Shortfall, now: Duration) {
        let pace = self.paces.entry(pool.to_owned()).or_default();
        pace.fail(now);
        pace.why = Some(why);
    }

    /// Takes in what has become of orders.
    fn look_back(&mut self, snapshot: &Snapshot, now: Duration) {
        let there = |uid: &str, name: &str| {
            snapshot.claims.get(name).is_some_and(|entry| entry.facts.uid == uid && !entry.facts.deleting)
        };
        self.asked.retain(|uid, (name, since)| there(uid, name) && now.saturating_sub(*since) < ASK_AGAIN_AFTER);
        self.paces.retain(|pool, _| snapshot.pools.get(pool).is_some_and(|pool| pool.spec.replicas.is_some()));
        for pace in self.paces.values_mut() {
            let (mut lost, mut launched) = (false, false);
            pace.ordered.retain(|name| match snapshot.claims.get(name) {
                None => {
                    lost = true;
                    false
                }
                Some(entry) if !entry.provider_id().is_empty() => {
                    launched = true;
                    false
                }
                Some(entry) => !entry.facts.deleting,
            });
            if launched {
                (pace.failures, pace.why) = (0, None);
            }
            if lost {
                pace.fail(now);
            }
        }
    }

    fn ask(&mut self, one: &DisruptedClaim, now: Duration) {
        self.asked.insert(one.uid.clone(), (one.claim.clone(), now));
    }
}

impl Pace {
    fn fail(&mut self, now: Duration) {
        self.until = now + PAUSE.length_after(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}
