//! Claims whose time is over: at creation + expireAfter, whatever budgets and PodDisruptionBudgets say (core spec 4).
//!
//! Nodes made together expire together. So that not all pods of a pool lose their node at once, at most a tenth of it
//! (ten nodes, where that is more) is on its way out or in at a time; what waits goes half an hour after its time at the
//! latest.
//!
//! Nodes in a capacity block go forty minutes before its end, all of them: EC2 ends what runs there half an hour before it
//! (aws spec 6).

use std::collections::BTreeMap;

use dovetail_api::names::labels::CAPACITY_BLOCK;
use jiff::{SignedDuration, Timestamp};

use crate::cluster_state::{ClaimFacts, Snapshot, WatchedKind};
use crate::labels;

/// Number of a pool's nodes that may always expire together.
const TOGETHER: usize = 10;
/// Longest delay of an expiry, whatever else is on its way.
const LATEST: SignedDuration = SignedDuration::from_mins(30);

/// Time before the end of a capacity block at which its nodes go, ten minutes before EC2 ends them.
const BEFORE_END: SignedDuration = SignedDuration::from_mins(40);

/// Time at which a capacity block that ends at `end` is left: nothing more is launched into it, and its nodes go.
#[must_use]
pub fn expiring_from(end: Timestamp) -> Timestamp {
    end.checked_sub(BEFORE_END).unwrap_or(Timestamp::MIN)
}

/// Times at which the capacity blocks of all classes are left, by id.
fn blocks(snapshot: &Snapshot) -> BTreeMap<&str, Timestamp> {
    let reservations = snapshot.classes.values().filter_map(|class| class.status.as_ref());
    let blocks = reservations.flat_map(|status| &status.capacity_reservations);
    let blocks = blocks.filter(|one| one.reservation_type == CAPACITY_BLOCK);
    blocks.filter_map(|one| Some((one.id.as_str(), expiring_from(one.end_time.as_ref()?.0)))).collect()
}

/// Claims of a pool, counted for expiry.
#[derive(Default)]
struct Turnover<'a> {
    total: usize,
    moving: usize,
    due: Vec<(Timestamp, &'a ClaimFacts)>,
}

/// The claims that go now, each pool's oldest first, and the time to look again. `asked` returns true for a claim that is on
/// its way out though the API server does not show it yet, `is_reported` for one whose expiry has been reported.
pub fn expired(
    snapshot: &Snapshot,
    asked: impl Fn(&ClaimFacts) -> bool,
    is_reported: impl Fn(&ClaimFacts) -> bool,
    now: Timestamp,
) -> (Vec<&ClaimFacts>, Option<Timestamp>) {
    let mut pools: BTreeMap<&str, Turnover<'_>> = BTreeMap::new();
    let mut again: Option<Timestamp> = None;
    let (blocks, mut all) = (blocks(snapshot), Vec::new());
    for entry in snapshot.claims.values().filter(|entry| !snapshot.is_refused(&entry.facts.name)) {
        let claim = &entry.facts;
        // A claim that cannot be read is not removed by our own decision.
        if snapshot.unreadable(WatchedKind::NodeClaim, &claim.name).is_some() {
            continue;
        }
        let pool = pools.entry(claim.pool.as_str()).or_default();
        pool.total += 1;
        let deleting = claim.deleting || snapshot.deleting.claims.contains(&claim.name) || asked(claim);
        pool.moving += usize::from(deleting || claim.initialized.is_none());
        // A node that left such a zone would be missing when the cluster comes back.
        let own_labels = entry.claim.metadata.labels.as_ref();
        if own_labels.is_some_and(|own| snapshot.shifted_zones.of_labels(own).is_some()) {
            continue;
        }
        let of_block = own_labels.and_then(|own| own.get(labels::CAPACITY_RESERVATION_ID));
        let block_ends = of_block.and_then(|id| blocks.get(id.as_str())).copied();
        if block_ends.is_some_and(|at| at <= now) && !deleting && !claim.uid.is_empty() && !is_reported(claim) {
            all.push(claim);
            continue;
        }
        let expires = claim.expires.into_iter().chain(block_ends).min();
        match expires.filter(|_| !deleting && !claim.uid.is_empty() && !is_reported(claim)) {
            Some(expires) if expires <= now => pool.due.push((expires, claim)),
            Some(expires) => again = Some(again.map_or(expires, |again| again.min(expires))),
            None => {}
        }
    }
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
