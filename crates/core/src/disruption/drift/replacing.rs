//! Replacements that go on, and the pauses of those that have failed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::clock::{later, signed};
use crate::disruption::RemovalReason;
use crate::disruption::cause::DisruptionCause;
use crate::disruption::look::DisruptedClaim;
use crate::pause::DoublingPause;

/// Pause of a pool whose node could not be replaced.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(120), longest: Duration::from_secs(3600) };

/// A node whose pods' places are being made.
#[derive(Clone, Debug)]
pub(super) struct Replacing {
    pub disrupted: DisruptedClaim,
    pub cause: DisruptionCause,
    pub since: Timestamp,
    /// Time of the last hope of a place for every pod.
    pub hoped: Timestamp,
}

/// A pool whose nodes could not be replaced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    failures: u32,
    until: Timestamp,
}

/// Replacements of a term, and those that have failed.
#[derive(Clone, Debug, Default)]
pub struct Replacements {
    pub(super) running: BTreeMap<String, Replacing>,
    /// Pauses by pool and reason: a failed replacement of one kind does not hold the other up.
    pub(super) pauses: BTreeMap<(String, RemovalReason), Pause>,
    /// Numbers of failed replacements of claims, by uid, with their names: others are tried first.
    pub(super) failed: BTreeMap<String, (String, u32)>,
}

impl Replacements {
    /// True if a claim's pods are getting places.
    pub fn has(&self, uid: &str) -> bool {
        self.running.contains_key(uid)
    }

    /// Number of nodes whose pods are getting places.
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// True if a claim's pods are getting places because its node is unwell.
    pub fn is_repair(&self, uid: &str) -> bool {
        self.running.get(uid).is_some_and(|one| one.cause.reason() == RemovalReason::Unhealthy)
    }

    /// Number of times that a claim's replacement has failed.
    pub fn failures(&self, uid: &str) -> u32 {
        self.failed.get(uid).map_or(0, |(_, count)| *count)
    }

    /// Number of a pool's nodes whose replacement has begun at that time.
    pub fn begun_at(&self, pool: &str, now: Timestamp) -> usize {
        self.running.values().filter(|one| one.disrupted.pool == pool && one.since == now).count()
    }

    /// Begins to replace a node: its pods get places.
    pub fn begin(&mut self, disrupted: DisruptedClaim, cause: DisruptionCause, now: Timestamp) {
        let one = Replacing { cause, since: now, hoped: now, disrupted };
        self.running.insert(one.disrupted.uid.clone(), one);
    }

    /// Time until which a pool begins nothing for a reason, and true if it may have one replacement at a time only, as some
    /// have failed.
    pub fn pause(&self, pool: &str, reason: RemovalReason) -> (Timestamp, bool) {
        let pause = self.pauses.get(&(pool.to_owned(), reason)).copied().unwrap_or_default();
        (pause.until, pause.failures > 0)
    }

    /// Notes that a node of a pool was replaced: its next one waits no longer.
    pub fn note_replaced(&mut self, pool: &str, reason: RemovalReason) {
        self.pauses.remove(&(pool.to_owned(), reason));
    }

    /// Number of a pool's nodes that are being replaced for a reason.
    pub fn running_for(&self, pool: &str, reason: RemovalReason) -> usize {
        self.running.values().filter(|one| one.disrupted.pool == pool && one.cause.reason() == reason).count()
    }

    /// Forgets claims that are gone or being deleted, and pools that are gone.
    pub fn retain(&mut self, there: impl Fn(&str, &str) -> bool, pool: impl Fn(&str) -> bool) {
        self.running.retain(|uid, one| there(uid, &one.disrupted.claim));
        self.failed.retain(|uid, (name, _)| there(uid, name));
        self.pauses.retain(|(name, _), _| pool(name));
    }

    /// Claims, by uid, whose pods are getting places.
    pub fn claims(&self) -> impl Iterator<Item = &String> {
        self.running.keys()
    }

    /// Notes that a node could not be replaced; returns the time for which its pool waits. Those that fail together are one
    /// failure.
    pub(in crate::disruption) fn fail(
        &mut self,
        one: &DisruptedClaim,
        reason: RemovalReason,
        now: Timestamp,
    ) -> SignedDuration {
        self.failed.entry(one.uid.clone()).or_insert_with(|| (one.claim.clone(), 0)).1 += 1;
        let pause = self.pauses.entry((one.pool.clone(), reason)).or_default();
        if pause.until > now {
            return pause.until.duration_since(now);
        }
        let length = signed(PAUSE.length_after(pause.failures));
        *pause = Pause { failures: pause.failures + 1, until: later(now, length) };
        length
    }
}
