//! The pace of a pool's repairs. What many nodes share is repaired one node at a time, and not at all while nodes recover from
//! it, so that its end is no reason to replace the rest. A pool whose new nodes fall sick as well waits ever longer.
//!
//! Times and failures stand at the pool too (`dovetail.dev/repair-pace`), so that a later leader keeps the pace. Which
//! conditions are shared is a term's memory: a later leader takes what two nodes share at its first look for shared by many,
//! and any condition if nodes have just recovered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Patient;
use super::brake::Tally;
use super::diagnosis::Alarm;
use crate::clock::{later, signed};
use crate::cluster_state::ClaimFacts;
use crate::disruption::look::DisruptedClaim;
use crate::disruption::machines::NodeAndClaim;
use crate::pause::DoublingPause;

/// Minimum time between the beginnings of two repairs for what many nodes share.
const SLOW: SignedDuration = SignedDuration::from_mins(10);
/// Time after a node's recovery in which none is repaired for what it had.
const RECOVERY: SignedDuration = SignedDuration::from_mins(10);
/// Time for which a condition counts as shared after so many have had it last.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(30);
/// Time for which a new node is unwell before that is held against its pool.
const FELL_SICK: SignedDuration = SignedDuration::from_mins(5);
/// Time after its last repair for which a pool's repairs are remembered.
const EPISODE: SignedDuration = SignedDuration::from_hours(2);
/// Most failures that are believed of an earlier term: the pause is at its longest by then.
const MOST_FAILURES: u32 = 10;
/// Pause of a pool whose new nodes fall sick.
const PAUSE: DoublingPause =
    DoublingPause { first: Duration::from_secs(20 * 60), longest: Duration::from_secs(4 * 60 * 60) };

/// A condition that many nodes of a pool have, or had lately.
#[derive(Clone, Debug, Default)]
struct SharedAlarm {
    /// Last time at which so many had it.
    seen: Timestamp,
    /// Last time at which a node was seen to have recovered from it.
    recovered: Option<Timestamp>,
    /// Claims of the nodes that have it: uid and name.
    nodes: BTreeSet<(String, String)>,
}

/// Type, status and reason of a condition; of any reason without one.
type AlarmKey = (String, String, Option<String>);

/// The pool's annotation about its repairs.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Note {
    /// Time of the first repair, and of the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    /// Time of the last repair for what many nodes share.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<Timestamp>,
    /// Minute of the last recovery from what many nodes share.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<Timestamp>,
    /// Time until which it begins none as new nodes have fallen sick, and the number of times that they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    failures: u32,
}

/// Repairs of one pool.
#[derive(Clone, Debug, Default)]
struct PoolRepairs {
    /// Alarms by type, status and reason, or without the reason where that differs: a kubelet may give a new one at any moment.
    shared: BTreeMap<AlarmKey, SharedAlarm>,
    /// Times of its first and last repair; nodes that are younger than the first are successors.
    begun: Option<(Timestamp, Timestamp)>,
    /// Last repair for what many nodes share.
    slow: Option<Timestamp>,
    /// Claims of successors, by uid, that have fallen sick and count already.
    blamed: BTreeSet<String>,
    failures: u32,
    until: Timestamp,
    /// Last recovery that an earlier term has noted.
    recovered: Option<Timestamp>,
}

/// Repairs of a term.
#[derive(Clone, Debug, Default)]
pub struct Repairs {
    pools: BTreeMap<String, PoolRepairs>,
    /// Claims that are being repaired or go for it, by uid: name and pool.
    going: BTreeMap<String, (String, String)>,
    /// Claims, by uid, that are there and stay.
    staying: BTreeSet<String>,
}

impl Repairs {
    /// Forgets claims that are gone, and pools that are gone. `stays`: a claim is there and not being deleted.
    pub fn retain(
        &mut self,
        there: impl Fn(&str, &str) -> bool,
        stays: impl Fn(&str, &str) -> bool,
        pool: impl Fn(&str) -> bool,
    ) {
        self.going.retain(|uid, (name, _)| there(uid, name));
        self.pools.retain(|name, _| pool(name));
        let known = self.pools.values().flat_map(|own| own.shared.values()).flat_map(|alarm| &alarm.nodes);
        self.staying = known.filter(|(uid, name)| stays(uid, name)).map(|(uid, _)| uid.clone()).collect();
    }

    /// True if something of a pool is remembered.
    pub fn knows(&self, pool: &str) -> bool {
        self.pools.contains_key(pool)
    }

    /// A claim's repair has not come to pass: its node stays.
    pub fn called_off(&mut self, uid: &str) {
        self.going.remove(uid);
    }

    /// Takes notice of what a pool's nodes have now. At a term's first look it is unknown how many had it a moment before.
    pub fn observe(&mut self, pool: &str, tally: &Tally<'_>, first: bool, now: Timestamp) {
        let own = self.pools.entry(pool.to_owned()).or_default();
        let recovered = own.recovered.take().filter(|at| now.duration_since(*at) < RECOVERY);
        for (alarm, nodes) in &tally.by_alarm {
            if tally.is_shared(alarm) || first && (nodes.len() > 1 || recovered.is_some()) {
                let [any, exact] = keys_of(alarm);
                let alarm = own.shared.entry(if tally.is_of_any_reason(alarm) { any } else { exact }).or_default();
                (alarm.seen, alarm.recovered) = (now, alarm.recovered.max(recovered));
            }
        }
        for ((condition, status, reason), alarm) in &mut own.shared {
            let nodes = tally.nodes_with(condition, status, reason.as_deref());
            let nodes: BTreeSet<(String, String)> =
                nodes.into_iter().map(|(uid, name)| (uid.to_owned(), name.to_owned())).collect();
            let recovered = |(uid, _): &&(String, String)| self.staying.contains(uid) && !self.going.contains_key(uid);
            if alarm.nodes.difference(&nodes).any(|one| recovered(&one)) {
                alarm.recovered = Some(now);
            }
            alarm.nodes = nodes;
        }
        own.shared.retain(|_, alarm| now.duration_since(alarm.seen) < REMEMBERED);
        if own.begun.is_some_and(|(_, last)| now.duration_since(last) >= EPISODE && own.until <= now) {
            own.begun = None;
            own.blamed.clear();
            own.failures = 0;
        }
        if own.shared.is_empty() && own.begun.is_none() {
            self.pools.remove(pool);
        }
    }

    /// Holds new nodes that have fallen sick against their pool; those that do so during a pause are one failure with it.
    pub fn blame(&mut self, pool: &str, sick: &[NodeAndClaim<'_>], now: Timestamp) {
        let Some(own) = self.pools.get_mut(pool) else { return };
        let Some((first, _)) = own.begun else { return };
        let fell_sick = |machine: &&NodeAndClaim<'_>| {
            machine.initialized()
                && machine.claim.created.is_some_and(|created| created >= first)
                && machine.node.unwell.iter().any(|one| now.duration_since(one.since) >= FELL_SICK)
        };
        let mut news = false;
        for machine in sick.iter().filter(fell_sick) {
            news |= own.blamed.insert(machine.claim.uid.clone());
        }
        if news && own.until <= now {
            own.until = later(now, signed(PAUSE.length_after(own.failures)));
            own.failures += 1;
        }
    }

    /// Time until which a pool begins no repair, as its new nodes have fallen sick.
    pub fn backs_off(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        self.pools.get(pool).map(|own| own.until).filter(|until| *until > now)
    }

    /// Notes that a repair has begun.
    pub fn note_begun(&mut self, pool: &str, disrupted: &DisruptedClaim, now: Timestamp) {
        let own = self.pools.entry(pool.to_owned()).or_default();
        own.begun = Some((own.begun.map_or(now, |(first, _)| first), now));
        self.going.insert(disrupted.uid.clone(), (disrupted.claim.clone(), pool.to_owned()));
    }

    /// Notes that a claim goes for a repair that an earlier term has begun.
    pub fn note_going(&mut self, claim: &ClaimFacts) {
        self.going.insert(claim.uid.clone(), (claim.name.clone(), claim.pool.clone()));
    }

    /// The annotation of a pool that has had repairs, or whose nodes recover.
    pub fn note(&self, pool: &str) -> Option<String> {
        let own = self.pools.get(pool)?;
        let recovered = own.shared.values().filter_map(|alarm| alarm.recovered).max();
        let minute = |at: Timestamp| Timestamp::from_second(at.as_second() / 60 * 60).unwrap_or(at);
        let note = Note {
            first: own.begun.map(|(first, _)| first),
            last: own.begun.map(|(_, last)| last),
            shared: own.slow,
            recovered: recovered.map(minute),
            until: Some(own.until).filter(|until| *until > Timestamp::UNIX_EPOCH),
            failures: own.failures,
        };
        if note == Note::default() { None } else { serde_json::to_string(&note).ok() }
    }

    /// Goes on with what an earlier term has noted at a pool, within bounds: nothing lies further in the future than it could.
    pub fn restore(&mut self, pool: &str, text: &str, now: Timestamp) {
        let Ok(note) = serde_json::from_str::<Note>(text) else { return };
        let past = |at: Option<Timestamp>| at.map(|at| at.min(now));
        let own = PoolRepairs {
            begun: past(note.first).zip(past(note.last)).map(|(first, last)| (first.min(last), last)),
            slow: past(note.shared),
            recovered: past(note.recovered),
            failures: note.failures.min(MOST_FAILURES),
            until: note.until.unwrap_or_default().min(later(now, signed(PAUSE.longest))),
            ..PoolRepairs::default()
        };
        self.pools.insert(pool.to_owned(), own);
    }

    /// True if a claim's repair has begun, and it is still there.
    pub fn is_going(&self, uid: &str) -> bool {
        self.going.contains_key(uid)
    }

    /// True if a repair of a pool's nodes is under way.
    pub fn any_going(&self, pool: &str) -> bool {
        self.going.values().any(|(_, of)| of == pool)
    }

    /// Notes that the repair begun last is for what many nodes share.
    pub fn slow_down(&mut self, pool: &str, now: Timestamp) {
        self.pools.entry(pool.to_owned()).or_default().slow = Some(now);
    }

    /// Time at which the next node may be repaired for what many share, unless it may be now.
    pub fn holds_shared(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        let slow = self.pools.get(pool).and_then(|own| own.slow).map(|slow| later(slow, SLOW));
        // The end of a repair changes the cluster: that look needs no alarm, and a late one costs nothing.
        let going = self.any_going(pool).then(|| later(now, SignedDuration::from_secs(10)));
        slow.filter(|until| *until > now).max(going)
    }

    /// Time until which none is repaired for these conditions, as nodes have just recovered from them.
    pub fn recovering_until(&self, pool: &str, alarms: &[Alarm<'_>], now: Timestamp) -> Option<Timestamp> {
        let own = self.pools.get(pool)?;
        let ends = |key: AlarmKey| Some(later(own.shared.get(&key)?.recovered?, RECOVERY));
        alarms.iter().flat_map(keys_of).filter_map(ends).max().filter(|until| *until > now)
    }

    /// Parts those that are due into nodes with a condition of their own and nodes that only share one. If more have one of their
    /// own than may be unwell, none of them stands out.
    pub(super) fn split<'a>(
        &self,
        pool: &str,
        due: Vec<Patient<'a>>,
        tally: &Tally<'a>,
    ) -> (Vec<Patient<'a>>, Vec<Patient<'a>>) {
        let known = self.pools.get(pool);
        let is_shared = |alarm: &Alarm<'a>| {
            tally.is_shared(alarm)
                || known.is_some_and(|own| keys_of(alarm).iter().any(|key| own.shared.contains_key(key)))
        };
        let (mut own, mut shared): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|one| !one.diagnosis.alarms.iter().all(is_shared));
        // Those that are not due yet, or are being repaired, are no fewer.
        let apart = tally.by_alarm.iter().filter(|(alarm, _)| !is_shared(alarm)).flat_map(|(_, nodes)| nodes);
        if tally.brakes() && apart.collect::<BTreeSet<_>>().len() > tally.most() {
            own.append(&mut shared);
            shared = std::mem::take(&mut own);
        }
        (own, shared)
    }
}

/// The names by which a condition is remembered: with any reason, and with its own.
fn keys_of((condition, status, reason): &Alarm<'_>) -> [AlarmKey; 2] {
    let key = |reason: Option<&str>| ((*condition).to_owned(), (*status).to_owned(), reason.map(str::to_owned));
    [key(None), key(Some(reason))]
}
