//! EC2's status checks of instances, and the instances that are replaced for them (AWS spec 5.1): asked for every minute,
//! with or without a queue.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::InterruptionKind;

/// Minimum time for which a check has failed: an instance that reboots fails its checks as well.
const IMPAIRED: SignedDuration = SignedDuration::from_secs(120);
/// One node of this many, rounded up, may be replaced for its checks at a time. If more fail, a zone or the checks themselves
/// are at fault, and taking the nodes away would make it worse (core spec 5.10).
const ONE_OF: usize = 5;

/// A failed check of an instance, or an event scheduled for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Id of the instance, `i-…`.
    pub instance: String,
    /// [`InterruptionKind::InstanceStatus`], [`InterruptionKind::SystemStatus`] or [`InterruptionKind::EventStatus`].
    pub kind: InterruptionKind,
    /// Time since which a check fails, or at which an event begins; `None` if EC2 does not say.
    pub time: Option<Timestamp>,
    /// EC2's own words: the check that fails, the event's code.
    pub what: String,
}

/// The decision about the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Instances to replace, one trouble each: a failed check before an event.
    pub go: Vec<Trouble>,
    /// Instances with failed checks that stay because too many fail.
    pub braked: Vec<Trouble>,
}

/// Judges the troubles of the cluster's own instances; `nodes` is their number, `going` the number already on their way for
/// failed checks.
#[must_use]
pub fn judge(troubles: &[Trouble], nodes: usize, going: usize, now: Timestamp) -> Judged {
    let counts = |one: &&Trouble| match one.kind {
        InterruptionKind::EventStatus => true,
        // A failure without a time of its beginning is no reason to be quick.
        _ => one.time.is_some_and(|since| now.duration_since(since) >= IMPAIRED),
    };
    let mut first: BTreeMap<&str, &Trouble> = BTreeMap::new();
    for one in troubles.iter().filter(counts) {
        let known = first.entry(&one.instance).or_insert(one);
        if (one.kind, one.time) < (known.kind, known.time) {
            *known = one;
        }
    }
    let (events, failed): (Vec<_>, Vec<_>) =
        first.into_values().cloned().partition(|one| one.kind == InterruptionKind::EventStatus);
    let too_many = failed.len() + going > nodes.div_ceil(ONE_OF);
    let (go, braked) = if too_many { (events, failed) } else { ([failed, events].concat(), Vec::new()) };
    Judged { go, braked }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn now() -> Timestamp {
        "2026-03-02T10:15:00Z".parse().unwrap()
    }

    fn failing(instance: &str, seconds: i64) -> Trouble {
        let time = now() - SignedDuration::from_secs(seconds);
        Trouble {
            instance: instance.into(),
            kind: InterruptionKind::InstanceStatus,
            time: Some(time),
            what: "reachability".into(),
        }
    }

    fn event(instance: &str) -> Trouble {
        let time = now() + SignedDuration::from_hours(24);
        let what = "instance-retirement".to_owned();
        Trouble { instance: instance.into(), kind: InterruptionKind::EventStatus, time: Some(time), what }
    }

    fn went(troubles: &[Trouble], nodes: usize) -> Vec<String> {
        judge(troubles, nodes, 0, now()).go.into_iter().map(|one| one.instance).collect()
    }

    #[test]
    fn check_has_to_fail_for_two_minutes_and_event_acts_at_once() {
        let unknown = Trouble { time: None, ..failing("i-3", 0) };
        assert_eq!(went(&[failing("i-1", 119), failing("i-2", 120), unknown, event("i-4")], 20), ["i-2", "i-4"]);
    }

    #[test]
    fn a_failed_check_counts_before_an_event_of_the_same_instance() {
        let judged = judge(&[event("i-1"), failing("i-1", 300)], 20, 0, now());
        assert_eq!(judged.go, [failing("i-1", 300)]);
    }

    #[test]
    fn more_than_a_fifth_of_the_nodes_stays_but_for_events() {
        let all: Vec<_> = (0..4).map(|one| failing(&format!("i-{one}"), 300)).collect();
        assert_eq!(went(&all, 20).len(), 4);
        assert_eq!(went(&[all.clone(), vec![event("i-9")]].concat(), 15), ["i-9"]);
        assert_eq!(judge(&all, 15, 0, now()).braked.len(), 4);
        assert_eq!(judge(&all[..1], 20, 4, now()).braked.len(), 1, "those on their way count");
        assert_eq!(went(&all[..1], 1), ["i-0"], "a single node may go");
    }
}
