//! Times in which something is not asked of the system, each stated here, and how long something lasted outside of them.

use dovetail_sandbox::log::Entry;

use super::events::lease_term;
use super::history::{accepted, seconds};
use crate::scenario::parse_duration;

/// From when to when, in seconds.
pub(super) type Window = (f64, f64);

/// Steps that keep nobody from collecting.
const HARMLESS: [&str; 10] = [
    "Scale",
    "Interrupt",
    "Apply",
    "Delete",
    "Message",
    "ForeignInstances",
    "AllowCollection",
    "LookAfter",
    "ZoneDown",
    "Snapshot",
];
/// A leader whose Lease is not written for so long leads no more.
const SILENT: f64 = 15.0;
/// What stands still is said again after ten minutes, at the next pass; what is not said again has ended.
const SAID_AGAIN: f64 = 600.0 + 135.0;
/// So much ends in ten minutes before the collection may have reached its bound.
const BOUND: usize = 5;
/// The time that the bound is about.
pub(super) const TEN_MINUTES: f64 = 600.0;

/// When steps of a kind began, and how long they last (for ever where they do not say).
pub(super) fn steps(entries: &[Entry], kind: &str) -> Vec<Window> {
    let steps = entries.iter().filter(|entry| entry.kind == "step" && entry.text("what").starts_with(kind));
    steps.map(|entry| (seconds(entry), seconds(entry) + lasts(entry.text("what")))).collect()
}

/// The duration in a step's description: `duration: Some(300s)`, or `duration: 1800s`.
fn lasts(what: &str) -> f64 {
    let Some((_, rest)) = what.rsplit_once("duration: ") else { return 0.0 };
    let text: String =
        rest.trim_start_matches("Some(").chars().take_while(|c| c.is_alphanumeric() || *c == '.').collect();
    match text.as_str() {
        "None" => f64::INFINITY,
        text => parse_duration(text).map_or(f64::INFINITY, |time| time.as_secs_f64()),
    }
}

/// The time to whose state a step puts the API server back.
pub(super) fn restored_to(entry: &Entry) -> Option<f64> {
    let what = entry.text("what").strip_prefix("Restore { of: ").filter(|_| entry.kind == "step")?;
    Some(parse_duration(what.split(',').next()?)?.as_secs_f64())
}

/// When nobody can be asked to collect what nobody owns: while a step makes trouble; around a new term, which begins to look
/// anew; while the Lease is not written; while the collection says that it is braked and no operator has released it; while
/// so much has ended within ten minutes that its bound may be reached.
pub(super) fn uncollected(entries: &[Entry], end: f64) -> Vec<Window> {
    let mut windows = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == "step") {
        let what = entry.text("what");
        // Of what replicas cannot read, NodeClaims alone decide what is collected.
        let elsewhere = what.starts_with("Spoil") && !what.contains("NodeClaim");
        if !elsewhere && !HARMLESS.iter().any(|one| what.starts_with(one)) {
            windows.push((seconds(entry), seconds(entry) + lasts(what)));
        }
    }
    leaderless(entries, end, &mut windows);
    braked(entries, &mut windows);
    full(entries, &mut windows);
    windows
}

fn leaderless(entries: &[Entry], end: f64, windows: &mut Vec<Window>) {
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

fn braked(entries: &[Entry], windows: &mut Vec<Window>) {
    let released = steps(entries, "AllowCollection");
    for entry in entries.iter().filter(|entry| entry.kind == "story" && entry.text("event") == "collection_braked") {
        if matches!(entry.text("reason"), "over_bound" | "no_instances" | "claims_lost" | "held") {
            let (from, to) = (seconds(entry), seconds(entry) + SAID_AGAIN);
            let release = released.iter().map(|(at, _)| *at).find(|at| *at > from).unwrap_or(f64::INFINITY);
            windows.push((from, to.min(release)));
        }
    }
}

fn full(entries: &[Entry], windows: &mut Vec<Window>) {
    let ending = |entry: &&Entry| entry.kind == "instance" && entry.text("change") == "shutting-down";
    let ends: Vec<f64> = entries.iter().filter(ending).map(seconds).collect();
    for few in ends.windows(BOUND) {
        let (first, last) = (few[0], few[BOUND - 1]);
        if last - first < TEN_MINUTES {
            windows.push((last, first + TEN_MINUTES));
        }
    }
}

/// The longest time of a window that lies in none of the others.
pub(super) fn longest_outside((from, to): Window, others: &[Window]) -> f64 {
    let mut within: Vec<Window> =
        others.iter().filter(|(a, b)| *b > from && *a < to || (*a == *b && *a > from && *a < to)).copied().collect();
    within.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut free, mut longest) = (from, 0.0_f64);
    for (begin, end) in within {
        longest = longest.max(begin - free);
        free = free.max(end);
    }
    longest.max(to - free)
}

/// Whether a time lies in one of the windows, or no more than `after` behind it.
pub(super) fn lies_in(at: f64, windows: &[Window], after: f64) -> bool {
    windows.iter().any(|(from, to)| *from <= at && at <= to + after)
}
