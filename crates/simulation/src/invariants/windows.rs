//! Times in which something is not asked of the system, each stated here, and how long something lasted outside of them.

use std::time::Duration;

use dovetail_sandbox::log::ActionEntry;

use super::events::lease_term;
use super::history::{accepted, seconds};
use crate::world::{Action, step};

/// Begin and end, in seconds.
pub(super) type TimeSpan = (f64, f64);

/// A leader whose Lease is not written for so long leads no more.
const SILENT: f64 = 15.0;
/// Seconds until a collection that stands still says so again: ten minutes, then the next pass. Silence after that means its end.
const SAID_AGAIN: f64 = 600.0 + 135.0;
/// So much ends in ten minutes before the collection may have reached its bound.
const BOUND: usize = 5;
/// The time that the bound is about.
pub(super) const TEN_MINUTES: f64 = 600.0;

/// Beginnings and ends of steps of a kind, in seconds (without end where they do not say).
pub(super) fn steps(entries: &[ActionEntry], of_kind: impl Fn(&Action) -> bool) -> Vec<TimeSpan> {
    let steps = entries.iter().filter_map(|entry| Some((seconds(entry), step(entry)?)));
    steps.filter(|(_, action)| of_kind(action)).map(|(at, action)| (at, at + lasts(&action))).collect()
}

/// Duration of a step, in seconds; zero for a step that is over at once.
pub(super) fn lasts(action: &Action) -> f64 {
    let duration = match action {
        Action::Kill { duration, .. }
        | Action::Pause { duration, .. }
        | Action::Partition { duration, .. }
        | Action::Spoil { duration, .. }
        | Action::Unwell { duration, .. }
        | Action::EmptyLists { duration }
        | Action::SlowWatches { duration, .. }
        | Action::HoldWrites { duration, .. }
        | Action::ZoneDown { duration, .. }
        | Action::ZonalShift { duration, .. } => *duration,
        Action::AllowCollection { duration }
        | Action::LookAfterCollection { duration }
        | Action::Restart { duration }
        | Action::Restore { duration, .. } => Some(*duration),
        Action::Scale { .. }
        | Action::Resize { .. }
        | Action::Delete { .. }
        | Action::DeleteSome { .. }
        | Action::Apply { .. }
        | Action::InterruptSpot { .. }
        | Action::InterruptNode { .. }
        | Action::InterruptPool { .. }
        | Action::Message { .. }
        | Action::Lose { .. }
        | Action::ForeignInstances { .. }
        | Action::TakeReserved { .. }
        | Action::ResizeReserved { .. }
        | Action::Others { .. }
        | Action::Snapshot => Some(Duration::ZERO),
    };
    duration.map_or(f64::INFINITY, |time| time.as_secs_f64())
}

/// True if a step keeps replicas from collecting while it lasts.
fn hinders(action: &Action) -> bool {
    match action {
        Action::Kill { .. }
        | Action::Pause { .. }
        | Action::Partition { .. }
        | Action::Lose { .. }
        | Action::EmptyLists { .. }
        | Action::Restart { .. }
        | Action::SlowWatches { .. }
        | Action::HoldWrites { .. }
        | Action::Restore { .. } => true,
        // Collection depends on NodeClaims alone, of all objects that replicas cannot read.
        Action::Spoil { kind, .. } => kind == "NodeClaim",
        Action::Scale { .. }
        | Action::Resize { .. }
        | Action::Delete { .. }
        | Action::DeleteSome { .. }
        | Action::Apply { .. }
        | Action::InterruptSpot { .. }
        | Action::InterruptNode { .. }
        | Action::InterruptPool { .. }
        | Action::Message { .. }
        | Action::ForeignInstances { .. }
        | Action::Unwell { .. }
        | Action::AllowCollection { .. }
        | Action::LookAfterCollection { .. }
        | Action::Snapshot
        | Action::TakeReserved { .. }
        | Action::ResizeReserved { .. }
        | Action::Others { .. }
        | Action::ZoneDown { .. }
        | Action::ZonalShift { .. } => false,
    }
}

/// The time to whose state a step puts the API server back.
pub(super) fn restored_to(entry: &ActionEntry) -> Option<f64> {
    match step(entry)? {
        Action::Restore { of, .. } => Some(of.as_secs_f64()),
        _ => None,
    }
}

/// Times in which nobody can be expected to collect instances without owner: while a step makes trouble; around a new term, which
/// begins to look anew; while the Lease is not written; while the collection says that it is braked and no operator has released
/// it; while so much has ended within ten minutes that its bound may be reached.
pub(super) fn uncollected(entries: &[ActionEntry], end: f64) -> Vec<TimeSpan> {
    let mut windows = steps(entries, hinders);
    leaderless(entries, end, &mut windows);
    braked(entries, &mut windows);
    full(entries, &mut windows);
    windows
}

fn leaderless(entries: &[ActionEntry], end: f64, windows: &mut Vec<TimeSpan>) {
    let (mut newest, mut last) = (0, 0.0);
    for entry in entries.iter().filter(|entry| entry.kind == "api" && accepted(entry)) {
        let Some((term, holder)) = lease_term(entry) else { continue };
        let now = seconds(entry);
        if term > newest || holder.is_empty() || now - last > SILENT {
            windows.push((last, now));
        }
        (newest, last) = (term.max(newest), now);
    }
    if end - last > SILENT {
        windows.push((last, end));
    }
}

fn braked(entries: &[ActionEntry], windows: &mut Vec<TimeSpan>) {
    let released = steps(entries, |action| matches!(action, Action::AllowCollection { .. }));
    for entry in entries.iter().filter(|entry| entry.kind == "story" && entry.text("event") == "collection_braked") {
        if matches!(entry.text("reason"), "over_bound" | "no_instances" | "claims_lost" | "held") {
            let (from, to) = (seconds(entry), seconds(entry) + SAID_AGAIN);
            let release = released.iter().map(|(at, _)| *at).find(|at| *at > from).unwrap_or(f64::INFINITY);
            windows.push((from, to.min(release)));
        }
    }
}

fn full(entries: &[ActionEntry], windows: &mut Vec<TimeSpan>) {
    let ending = |entry: &&ActionEntry| entry.kind == "instance" && entry.text("change") == "shutting-down";
    let ends: Vec<f64> = entries.iter().filter(ending).map(seconds).collect();
    for few in ends.windows(BOUND) {
        let (first, last) = (few[0], few[BOUND - 1]);
        if last - first < TEN_MINUTES {
            windows.push((last, first + TEN_MINUTES));
        }
    }
}

/// The longest time of a window that lies in none of the others.
pub(super) fn longest_outside((from, to): TimeSpan, others: &[TimeSpan]) -> f64 {
    let mut within: Vec<TimeSpan> =
        others.iter().filter(|(a, b)| *b > from && *a < to || (*a == *b && *a > from && *a < to)).copied().collect();
    within.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut free, mut longest) = (from, 0.0_f64);
    for (begin, end) in within {
        longest = longest.max(begin - free);
        free = free.max(end);
    }
    longest.max(to - free)
}

/// True if a time lies in one of the windows, or no more than `after` seconds behind it.
pub(super) fn lies_in(at: f64, windows: &[TimeSpan], after: f64) -> bool {
    windows.iter().any(|(from, to)| *from <= at && at <= to + after)
}
