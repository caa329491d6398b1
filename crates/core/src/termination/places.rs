//! Places come first: a pod is not sent off a node that still serves before the place for its successor is ready, as far as there
//! is time for that. Packing finds the place; this module decides which places are worth waiting for, and how long.
//!
//! ```text
//! has to leave ── place is ready ─────────────────────────────► evicted
//!      ├── a place on its way, or one to be had later ── 10 m ─► evicted
//!      ├── no place anywhere ── 30 s ─────────────────────────► evicted
//!      └── its node ends ── its own time and 10 s before ─────► evicted
//! ```
//!
//! Each pod is waited for alone: one whose place is ready goes, and takes the place before others do. The time since when a pod
//! is waited for is known within one term: the next leader begins anew, and waits for places that it makes itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Drain;
use crate::clock::later;
use crate::cluster_state::{Moment, NominationTarget, PodEntry, Snapshot, forced_from};
use crate::interruption::LONGEST_PLACE_WAIT;

/// Time for which a pod is waited for that packing has no place for.
pub const WITHOUT_A_PLACE: SignedDuration = SignedDuration::from_secs(30);
/// Time that the eviction itself needs beside the pod's grace.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// The state of the place for a pod's successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuccessorPlace {
    /// The place is there and ready.
    Ready,
    /// The node is on its way.
    Coming(NominationTarget),
    /// There is none now, because EC2 has no capacity or launches are refused; there may be one later.
    Later,
    /// There is none, or none was looked for yet.
    None,
}

impl SuccessorPlace {
    /// The place of a pod that has to leave its node.
    #[must_use]
    pub fn for_pod(snapshot: &Snapshot, pod: &PodEntry, now: Moment) -> Self {
        let uid = &pod.pod.uid;
        match snapshot.expected_on(uid, now) {
            Some(_) if snapshot.place_is_ready(uid, now) => Self::Ready,
            Some(target) => Self::Coming(target.clone()),
            None if snapshot.sold_out.contains_key(uid) || !snapshot.closed_pools.is_empty() => Self::Later,
            None => Self::None,
        }
    }
}

/// A pod that is not sent away yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaiting {
    /// The pod as it was last seen, still on its node.
    pub pod: Arc<PodEntry>,
    pub place: SuccessorPlace,
    /// Time at which it is sent away, as things stand, even if its place is not ready.
    pub until: Timestamp,
}

/// The result of a look at a drain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceWait {
    /// Pods that stay for now. They are in the drain's `waiting`, and not in its `evict`.
    pub awaiting: Vec<Awaiting>,
    /// Pods that are sent away from now on although their places are not ready, and were not sent away before.
    pub given_up: Vec<Arc<PodEntry>>,
}

/// Times from which a pod is waited for.
#[derive(Clone, Copy, Debug)]
struct Since {
    first: Timestamp,
    /// Last time at which there was hope of a place.
    hoped: Timestamp,
    given_up: bool,
}

/// Times from which pods have been waited for, by uid.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    pods: BTreeMap<String, Since>,
}

impl Patience {
    /// Takes out of a drain's evictions the pods whose places are worth waiting for: only pods that are Ready.
    pub fn wait(&mut self, drain: &mut Drain, snapshot: &Snapshot, ends: Option<Timestamp>, now: Moment) -> PlaceWait {
        let mut waited = PlaceWait::default();
        for pod in std::mem::take(&mut drain.evict) {
            let moves = pod.ready && snapshot.must_move(&pod, now.wall);
            let near = || ends.is_some() && snapshot.place_is_near(&pod, now);
            let place =
                if moves && !near() { SuccessorPlace::for_pod(snapshot, &pod, now) } else { SuccessorPlace::Ready };
            let until =
                if place == SuccessorPlace::Ready { now.wall } else { self.until(&pod, &place, ends, now.wall) };
            if until > now.wall {
                waited.awaiting.push(Awaiting { pod, place, until });
                continue;
            }
            if place != SuccessorPlace::Ready && self.give_up(&pod) {
                waited.given_up.push(pod.clone());
            }
            drain.evict.push(pod);
        }
        waited
    }

    /// Time until which a pod is waited for.
    fn until(&mut self, pod: &PodEntry, place: &SuccessorPlace, ends: Option<Timestamp>, now: Timestamp) -> Timestamp {
        let fresh = Since { first: now, hoped: now, given_up: false };
        let since = self.pods.entry(pod.pod.uid.clone()).or_insert(fresh);
        let patience = match place {
            SuccessorPlace::None => WITHOUT_A_PLACE,
            SuccessorPlace::Ready | SuccessorPlace::Coming(_) | SuccessorPlace::Later => {
                since.hoped = now;
                LONGEST_PLACE_WAIT
            }
        };
        let longest = later(since.first, LONGEST_PLACE_WAIT).min(later(since.hoped, patience));
        let latest = ends.map(|ends| forced_from(ends, pod).checked_sub(MARGIN).unwrap_or(Timestamp::MIN));
        latest.map_or(longest, |latest| latest.min(longest))
    }

    /// Marks a pod as no longer waited for. Answers true if that is new.
    fn give_up(&mut self, pod: &PodEntry) -> bool {
        self.pods.get_mut(&pod.pod.uid).is_some_and(|since| !std::mem::replace(&mut since.given_up, true))
    }

    /// Forgets pods that are no longer there.
    pub fn retain(&mut self, there: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| there(uid));
    }
}

#[cfg(test)]
mod tests;
