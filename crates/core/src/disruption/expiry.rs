//! Claims whose time is over: at creation + expireAfter, whatever budgets and PodDisruptionBudgets say (core spec 4).
//!
//! Nodes made together expire together. So that not all pods of a pool lose their node at once, at most a tenth of it
//! (ten nodes, where that is more) is on its way out or in at a time; what waits goes half an hour after its time at the
//! latest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::cluster_state::{ClaimFacts, Kind, Snapshot};

/// So many of a pool may always expire together.
const TOGETHER: usize = 10;
/// So late does it go whatever else is on its way.
const LATEST: SignedDuration = SignedDuration::from_mins(30);

/// What is known of a pool's claims.
#[derive(Default)]
struct Turnover<'a> {
    total: usize,
    moving: usize,
    due: Vec<(Timestamp, &'a ClaimFacts)>,
}

/// The claims that go now, each pool's oldest first, and when to look again. `asked` says of a claim whether it is on its
/// way out though the API server does not say so yet, `told` whether it has been said that it would go.
pub fn expired(
    snapshot: &Snapshot,
    asked: impl Fn(&ClaimFacts) -> bool,
    told: impl Fn(&ClaimFacts) -> bool,
    now: Timestamp,
) -> (Vec<&ClaimFacts>, Option<Timestamp>) {
    let mut pools: BTreeMap<&str, Turnover<'_>> = BTreeMap::new();
    let mut again: Option<Timestamp> = None;
    for entry in snapshot.claims.values().filter(|entry| !snapshot.is_refused(&entry.facts.name)) {
        let claim = &entry.facts;
        // What cannot be read is not removed by our own decision.
        if snapshot.unreadable(Kind::NodeClaim, &claim.name).is_some() {
            continue;
        }
        let pool = pools.entry(claim.pool.as_str()).or_default();
        pool.total += 1;
        let deleting = claim.deleting || snapshot.deleting.claims.contains(&claim.name) || asked(claim);
        pool.moving += usize::from(deleting || claim.initialized.is_none());
        match claim.expires.filter(|_| !deleting && !claim.uid.is_empty() && !told(claim)) {
            Some(expires) if expires <= now => pool.due.push((expires, claim)),
            Some(expires) => again = Some(again.map_or(expires, |again| again.min(expires))),
            None => {}
        }
    }
    let mut all = Vec::new();
    for pool in pools.into_values() {
        let room = TOGETHER.max(pool.total.div_ceil(10)).saturating_sub(pool.moving);
        let mut due = pool.due;
        due.sort_by_key(|(expires, claim)| (*expires, claim.name.as_str()));
        let late = |expires: &Timestamp| now.duration_since(*expires) >= LATEST;
        all.extend(
            due.iter().enumerate().filter(|(at, (expires, _))| *at < room || late(expires)).map(|(_, one)| one.1),
        );
    }
    (all, again)
}
