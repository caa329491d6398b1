//! Launches that no pod uses: a node ends, or stands, without ever having had a pod that it was launched for, while those pods
//! still wait. Plan and cluster disagree then, and the same launch would be repeated without end. By pool, class and workload the
//! next launch is tried after a minute, doubling to thirty, one at a time, until one is used (docs/decisions/037). The failures
//! stand as an annotation on the NodePool, so that the next leader continues from them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::PAUSE;
use crate::clock::{later, signed};
use crate::resources::Resources;

/// Most workloads written down for a pool: those whose pauses end last.
const MOST_WRITTEN: usize = 64;
/// Most workloads remembered for a pool.
const MOST_KEPT: usize = 4096;
/// Most instance types remembered with the resources that DaemonSets took of them.
const MOST_TYPES: usize = 64;
/// First version that is nonsense: whoever may write the annotation may have written that as well.
pub(crate) const MOST_CHANGES: u64 = 1 << 53;
/// Time after its pause at which a workload that has not been tried again is forgotten.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Longest explanation that is kept, in characters.
const LONGEST_WHY: usize = 300;
/// Time for which the resources that DaemonSets took of a node still count after it is gone.
const HOLDS: SignedDuration = SignedDuration::from_hours(1);

/// A workload whose nodes of a pool go unused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// The pool's class.
    pub class: String,
    /// The workload, see [`crate::cluster_state::PodEntry`].
    pub workload: String,
    /// Number of nodes in a row that were not used.
    pub failures: u32,
    /// Time before which none is launched.
    pub until: Timestamp,
    /// The reason that the last one was not used.
    pub why: String,
}

/// Resources that DaemonSets take of an instance type's nodes beyond their templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// The instance type.
    pub instance_type: String,
    /// The excess over the templates.
    pub more: Resources,
    /// Time until which it counts.
    pub until: Timestamp,
}

/// Knowledge about one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfPool {
    /// Grows with every change, so that a late annotation does not undo newer knowledge.
    version: u64,
    workloads: Vec<Failing>,
    daemons: Vec<Taken>,
}

impl OfPool {
    fn find(&self, class: &str, workload: &str) -> Option<&Failing> {
        self.workloads.iter().find(|one| one.class == class && one.workload == workload)
    }

    fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.daemons.is_empty()
    }
}

/// The use that a node was launched for: a workload on nodes of a pool with a node class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedFor<'k> {
    /// The NodePool's name.
    pub pool: &'k str,
    /// The node class's name.
    pub class: &'k str,
    /// The workload's key, as pods have it.
    pub workload: &'k str,
}

/// The brake on unused launches, for all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedLaunches(BTreeMap<String, OfPool>);

impl UnusedLaunches {
    /// True if nothing is held back, and nothing known of DaemonSets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(OfPool::is_empty)
    }

    /// Number of workloads that are held back, over all pools.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.values().map(|known| known.workloads.len()).sum()
    }

    /// True if some workload of a pool is held back.
    #[must_use]
    pub fn holds_any(&self, pool: &str) -> bool {
        self.0.get(pool).is_some_and(|known| !known.workloads.is_empty())
    }

    /// Number of nodes in a row that a workload has not used.
    #[must_use]
    pub fn failures(&self, pool: &str, class: &str, workload: &str) -> u32 {
        self.0.get(pool).and_then(|known| known.find(class, workload)).map_or(0, |one| one.failures)
    }

    /// All workloads that did not use nodes, with the pool's name.
    pub fn failing(&self) -> impl Iterator<Item = (&str, &Failing)> {
        self.0.iter().flat_map(|(pool, known)| known.workloads.iter().map(move |one| (pool.as_str(), one)))
    }

    /// A node was not used that was launched after `launched_after` others had not been. A node that was launched before the
    /// last of these was known says nothing new. Answers the pause before the next launch, if there is one.
    pub fn not_used(
        &mut self,
        LaunchedFor { pool, class, workload }: LaunchedFor<'_>,
        launched_after: u32,
        why: &str,
        now: Timestamp,
    ) -> Option<Duration> {
        if self.failures(pool, class, workload) != launched_after {
            return None;
        }
        let pause = PAUSE.length_after(launched_after);
        let failing = Failing {
            class: class.to_owned(),
            workload: workload.to_owned(),
            failures: launched_after.saturating_add(1),
            until: later(now, signed(pause)),
            why: why.chars().take(LONGEST_WHY).collect(),
        };
        let known = self.0.entry(pool.to_owned()).or_default();
        known.version += 1;
        known.workloads.retain(|one| one.class != class || one.workload != workload);
        known.workloads.push(failing);
        keep_latest(&mut known.workloads, MOST_KEPT);
        Some(pause)
    }

    /// A pod of a workload runs on a node that was launched for it after `launched_after` others had not been used: the pool
    /// is trusted again. A node that was launched before the latest of them says nothing new. Answers true if the pool was
    /// not trusted.
    pub fn used(&mut self, launched_for: LaunchedFor<'_>, launched_after: u32) -> bool {
        let LaunchedFor { pool, class, workload } = launched_for;
        if launched_after.saturating_add(1) < self.failures(pool, class, workload) {
            return false;
        }
        let Some(known) = self.0.get_mut(pool) else { return false };
        let before = known.workloads.len();
        known.workloads.retain(|one| one.class != class || one.workload != workload);
        let news = known.workloads.len() < before;
        known.version += u64::from(news);
        news
    }

    /// DaemonSets took `more` of a node than their templates say; empty if they did not.
    pub fn daemons_took(&mut self, pool: &str, instance_type: &str, more: Resources, now: Timestamp) {
        let before =
            self.0.get(pool).and_then(|known| known.daemons.iter().find(|one| one.instance_type == instance_type));
        if before.map_or(more.is_empty(), |one| one.more == more && later(now, HOLDS / 2) < one.until) {
            return;
        }
        let known = self.0.entry(pool.to_owned()).or_default();
        known.version += 1;
        known.daemons.retain(|one| one.instance_type != instance_type);
        if !more.is_empty() {
            let taken = Taken { instance_type: instance_type.to_owned(), more, until: later(now, HOLDS) };
            known.daemons.push(taken);
        }
        let over = known.daemons.len().saturating_sub(MOST_TYPES);
        known.daemons.drain(..over);
    }

    /// Resources that DaemonSets take beyond their templates, by pool.
    pub fn taken(&self, now: Timestamp) -> impl Iterator<Item = (&str, &Taken)> {
        let valid = move |one: &&Taken| now < one.until;
        self.0.iter().flat_map(move |(pool, known)| known.daemons.iter().filter(valid).map(|one| (pool.as_str(), one)))
    }

    /// True if something has not been tried again for long after its time.
    #[must_use]
    pub fn has_old(&self, now: Timestamp) -> bool {
        let mut times = self.0.values().flat_map(|known| {
            known.workloads.iter().map(|one| one.until).chain(known.daemons.iter().map(|one| one.until))
        });
        times.any(|until| is_old(until, now))
    }

    /// Forgets workloads and DaemonSets that have not been tried again for long after their time.
    pub fn forget_old(&mut self, now: Timestamp) {
        for known in self.0.values_mut() {
            let before = (known.workloads.len(), known.daemons.len());
            known.workloads.retain(|one| !is_old(one.until, now));
            known.daemons.retain(|one| !is_old(one.until, now));
            known.version += u64::from(before != (known.workloads.len(), known.daemons.len()));
        }
    }

    /// A pool is gone, or an operator has taken the annotation off: nothing is known of it any more.
    pub fn forget(&mut self, pool: &str) {
        self.0.remove(pool);
    }

    /// The pools of which something is known, or was.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value that a pool's annotation is to have; `None` if the written one is as new, or there is nothing to write.
    #[must_use]
    pub fn to_write(&self, pool: &str, written: Option<&str>) -> Option<String> {
        let known = self.0.get(pool)?;
        let there = written.and_then(parse_unused);
        if there.as_ref().map_or(known.is_empty(), |there| there.version >= known.version) {
            return None;
        }
        let mut text = known.clone();
        keep_latest(&mut text.workloads, MOST_WRITTEN);
        serde_json::to_string(&text).ok()
    }

    /// Takes in a pool's annotation if its version is later than the known one. A pause that ends too late by our clock is
    /// cut; text that cannot be read is ignored.
    pub fn take_annotation(&mut self, pool: &str, written: &str, now: Timestamp) {
        let Some(mut there) = parse_unused(written) else { return };
        if self.0.get(pool).is_some_and(|known| known.version >= there.version) {
            return;
        }
        let latest = later(now, signed(PAUSE.longest));
        there.workloads.truncate(MOST_WRITTEN);
        there.daemons.truncate(MOST_TYPES);
        there.workloads.iter_mut().for_each(|one| one.until = one.until.min(latest));
        there.daemons.iter_mut().for_each(|one| one.until = one.until.min(later(now, HOLDS)));
        self.0.insert(pool.to_owned(), there);
    }
}

fn parse_unused(written: &str) -> Option<OfPool> {
    serde_json::from_str(written).ok().filter(|one: &OfPool| one.version < MOST_CHANGES)
}

/// Keeps the workloads whose pauses end last, in the order of their names.
fn keep_latest(all: &mut Vec<Failing>, most: usize) {
    if all.len() > most {
        all.sort_by(|a, b| b.until.cmp(&a.until).then_with(|| a.workload.cmp(&b.workload)));
        all.truncate(most);
    }
    all.sort_by(|a, b| (&a.class, &a.workload).cmp(&(&b.class, &b.workload)));
}

fn is_old(until: Timestamp, now: Timestamp) -> bool {
    now >= later(until, FORGOTTEN_AFTER)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const KEY: LaunchedFor<'_> = LaunchedFor { pool: "pool", class: "class", workload: "web" };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn until(brake: &UnusedLaunches) -> Option<Timestamp> {
        brake.failing().find(|(_, one)| one.workload == "web").map(|(_, one)| one.until)
    }

    #[test]
    fn pauses_double_from_one_to_thirty_minutes_until_node_is_used() {
        let mut brake = UnusedLaunches::default();
        let pauses: Vec<u64> = (0..8).map(|before| brake.not_used(KEY, before, "", at(0)).unwrap().as_secs()).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1800, 1800, 1800]);
        assert_eq!(brake.failures("pool", "class", "web"), 8);
        assert_eq!(brake.failures("pool", "other", "web"), 0, "another class is tried at once");
        assert!(!brake.used(KEY, 0) && !brake.used(KEY, 6), "such a node was there before");
        assert!(brake.used(KEY, 7) && !brake.used(KEY, 7));
        assert_eq!(brake.not_used(KEY, 0, "", at(0)), Some(Duration::from_secs(60)));
    }

    #[test]
    fn nodes_launched_before_first_known_unused_say_nothing_new() {
        let mut brake = UnusedLaunches::default();
        assert!(brake.not_used(KEY, 0, "", at(0)).is_some());
        assert_eq!(brake.not_used(KEY, 0, "", at(30)), None);
        assert_eq!(until(&brake), Some(at(60)));
    }

    #[test]
    fn impossible_version_says_nothing_and_is_written_over() {
        let mut brake = UnusedLaunches::default();
        let written = format!(r#"{{"version": {}, "workloads": [], "daemons": []}}"#, u64::MAX);
        brake.take_annotation("pool", &written, at(0));
        assert!(brake.not_used(KEY, 0, "", at(0)).is_some());
        assert!(brake.to_write("pool", Some(&written)).is_some());
    }

    #[test]
    fn the_next_leader_goes_on_from_the_annotation() {
        let mut brake = UnusedLaunches::default();
        brake.not_used(KEY, 0, "0/3 nodes are available", at(0)).unwrap();
        brake.not_used(KEY, 1, "0/3 nodes are available", at(90)).unwrap();
        let text = brake.to_write("pool", None).unwrap();
        assert_eq!(brake.to_write("pool", Some(&text)), None, "it is written once");
        let mut next = UnusedLaunches::default();
        next.take_annotation("pool", &text, at(100));
        assert_eq!(next.failures("pool", "class", "web"), 2);
        assert_eq!(until(&next), Some(at(210)));
        assert_eq!(next.not_used(KEY, 2, "", at(300)), Some(Duration::from_secs(240)));
        next.take_annotation("pool", &text, at(301));
        assert_eq!(next.failures("pool", "class", "web"), 3, "an older state undoes nothing");
        assert!(next.used(KEY, 2));
        let empty = next.to_write("pool", Some(&text)).unwrap();
        brake.take_annotation("pool", &empty, at(302));
        assert_eq!(brake.failures("pool", "class", "web"), 0);
    }

    #[test]
    fn written_text_is_bounded_and_nonsense_says_nothing() {
        let mut brake = UnusedLaunches::default();
        for number in 0..500 {
            let workload = &number.to_string();
            brake.not_used(LaunchedFor { workload, ..KEY }, 0, &"x".repeat(5000), at(number));
        }
        assert!(brake.to_write("pool", None).unwrap().len() < 64 * 500);
        let mut next = UnusedLaunches::default();
        for wrong in ["", "[]", "{\"version\": -1}", "{\"version\": 1, \"workloads\": [{}]}", "null"] {
            next.take_annotation("pool", wrong, at(0));
        }
        assert!(next.is_empty());
        let far = "{\"version\":1,\"workloads\":[{\"class\":\"class\",\"workload\":\"web\",\"failures\":1,\"until\":\"9999-12-30T00:00:00Z\",\"why\":\"\"}]}";
        next.take_annotation("pool", far, at(0));
        assert_eq!(until(&next), Some(at(1800)), "no pause is longer than the longest");
    }

    #[test]
    fn what_is_not_tried_again_is_forgotten_an_hour_after_its_time() {
        let mut brake = UnusedLaunches::default();
        brake.not_used(KEY, 0, "", at(0));
        brake.forget_old(at(3659));
        assert!(!brake.is_empty());
        brake.forget_old(at(3660));
        assert!(brake.is_empty());
    }

    #[test]
    fn what_daemons_took_counts_for_an_hour() {
        let (mut brake, more) = (UnusedLaunches::default(), Resources::parse([("memory", "2Gi")]).unwrap());
        brake.daemons_took("pool", "m5.large", Resources::new(), at(0));
        assert!(brake.is_empty());
        brake.daemons_took("pool", "m5.large", more.clone(), at(0));
        assert_eq!(brake.taken(at(3599)).map(|(_, one)| one.more.clone()).collect::<Vec<_>>(), [more]);
        assert_eq!(brake.taken(at(3600)).count(), 0);
    }
}
