//! Commands, which take nodes away to save money: what they launch is needed, what they drain has its replacement, and they
//! leave alone what is young or has just been moved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dovetail_sandbox::log::ActionEntry;
use serde_json::Value;

use super::Checker;
use super::disruption::{CLOCK_OFF, is_of_own_will};
use super::history::{Claim, ClusterRecord, accepted, seconds};
use super::windows::{self, TimeSpan};
use crate::world::Action;

/// The reason of a removal that is to save money.
const SAVES: &str = "underutilized";
/// And one of a node that has no pods.
const EMPTY: &str = "empty";
/// No node goes before it is so old, by clocks of two replicas that are both off.
const LEAST_AGE: f64 = 600.0 - 2.0 * CLOCK_OFF;
/// A command waits for its replacements for ten minutes, by such clocks.
const WAITS: f64 = 600.0 - 2.0 * CLOCK_OFF;
/// A pod rests for so long after a move.
const REST: f64 = 3600.0 - 5.0;
/// A pod that comes later than so long after a move has not come by it.
const ARRIVES_WITHIN: f64 = 1700.0;
/// Seconds after which a change is known to the leader; a request that was sent arrives no later than this.
const KNOWN: f64 = 60.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaimHold {
    /// Seconds at which the hold was first written.
    pub since: f64,
    /// As budgets call it.
    pub reason: String,
    /// Names of what is launched first.
    pub replacements: Vec<String>,
}

impl ClaimHold {
    /// The hold that conditions written now state; `before` where it names the same replacements.
    pub fn anew(conditions: &[Value], before: Option<Self>, now: f64) -> Option<Self> {
        let says = |one: &&Value| one["type"] == "DisruptionReason" && one["status"] == "True";
        let condition = conditions.iter().find(says)?;
        let names = condition["message"].as_str()?.split_once(": ")?.1;
        let replacements: Vec<String> = names.split(", ").map(str::to_owned).collect();
        let same = before.filter(|before| before.replacements == replacements);
        let reason = condition["reason"].as_str().unwrap_or_default().to_owned();
        Some(same.unwrap_or(Self { since: now, reason, replacements }))
    }
}

/// The command that holds the claim which an entry is about.
pub(super) fn hold(state: &ClusterRecord, entry: &ActionEntry) -> Option<ClaimHold> {
    let claim = (entry.kind == "api" && entry.text("resource") == "nodeclaims")
        .then(|| state.claims.get(entry.text("uid")))
        .flatten()?;
    claim.held.clone()
}

/// A move that is to save money: when its command began, and in which term.
#[derive(Clone, Copy)]
struct Move {
    began: f64,
    term: Option<i64>,
}

/// State of commands and moves, as the event log has told it so far.
#[derive(Default)]
struct Known {
    /// Instances whose Node has been Ready.
    stood: BTreeSet<String>,
    /// The uids of the claims that named a replacement, by the replacement's name.
    named: BTreeMap<String, BTreeSet<String>>,
    /// Seconds at which a command let go of a claim, by the claim's uid.
    released: BTreeMap<String, f64>,
    /// Seconds at which pods were bound, by uid.
    bound: BTreeMap<String, f64>,
    /// Pods, by uid, that are on nodes which go to save money.
    moving: BTreeMap<String, Move>,
    /// Moves whose pods have gone and not come again yet, by namespace and owner.
    to_come: BTreeMap<(String, String), VecDeque<Move>>,
    /// Pods, by uid, that have come by a move.
    moved: BTreeMap<String, Move>,
}

impl Checker {
    /// INV-19: what a command launches is for nodes that go: a claim that names it is there when it is made, the command holds on
    /// for ten minutes while its replacements are there, and they stay meanwhile. INV-20: no node goes to save money before the nodes that its
    /// command launches have been Ready. INV-21: no pod is moved twice in an hour to save money, within a term. INV-22: no node
    /// with pods goes to save money before it has been initialized for ten minutes.
    pub(super) fn commands(&mut self, entries: &[ActionEntry]) {
        let blind = windows::steps(entries, hides);
        let (mut state, mut known) = (ClusterRecord::default(), Known::default());
        for entry in entries {
            let removes = entry.kind == "api"
                && entry.replica.is_some()
                && entry.text("resource") == "nodeclaims"
                && entry.text("verb") == "delete"
                && accepted(entry)
                && is_of_own_will(&state, entry);
            if removes {
                self.removed(&state, &mut known, entry, &blind);
            }
            let before = hold(&state, entry);
            known.pod(&state, entry);
            state.apply(entry);
            known.node(&state, entry);
            if entry.kind == "api" && entry.replica.is_some() && entry.text("resource") == "nodeclaims" {
                self.written(&state, &mut known, entry, before.as_ref(), &blind);
            }
        }
    }

    /// A replica has written a claim.
    fn written(
        &mut self,
        state: &ClusterRecord,
        known: &mut Known,
        entry: &ActionEntry,
        before: Option<&ClaimHold>,
        blind: &[TimeSpan],
    ) {
        let (uid, now) = (entry.text("uid"), seconds(entry));
        let Some(claim) = state.claims.get(uid).filter(|_| accepted(entry)) else { return };
        if entry.text("verb") == "create" {
            self.made(state, known, claim, now);
        }
        match (before, &claim.held) {
            (None, Some(held)) => {
                known.released.remove(uid);
                for name in &held.replacements {
                    known.named.entry(name.clone()).or_default().insert(uid.to_owned());
                }
                if held.reason == "Underutilized" {
                    self.saves(state, known, claim, entry, blind);
                }
            }
            (Some(held), None) if claim.deleting.is_none() && claim.gone.is_none() => {
                known.released.insert(uid.to_owned(), now);
                known.stays(state, claim);
                self.released(state, claim, held, now, blind);
            }
            _ => {}
        }
    }

    /// A NodeClaim is made: where a command has named it, one of the command's claims is there still, or was until just now.
    fn made(&mut self, state: &ClusterRecord, known: &Known, claim: &Claim, now: f64) {
        let Some(named_by) = known.named.get(&claim.name) else { return };
        let needs_it = |uid: &String| {
            let ended = state.claims.get(uid).and_then(|one| one.deleting.or(one.gone));
            let until = ended.or_else(|| known.released.get(uid).copied());
            until.is_none_or(|until| now - until < KNOWN)
        };
        self.expect("INV-19", now, named_by.iter().any(needs_it), || {
            format!("claim {} is made at {now} s to replace claims of which none goes", claim.name)
        });
    }

    /// A command has let go of a claim that stays: not while everything that it waits for is there.
    fn released(&mut self, state: &ClusterRecord, claim: &Claim, held: &ClaimHold, now: f64, blind: &[TimeSpan]) {
        let there =
            |name: &String| state.claims_named(name).any(|one| one.gone.is_none() && !one.given_up && state.stays(one));
        let waits = now < held.since + WAITS && held.replacements.iter().all(there);
        let hidden = blind.iter().any(|(from, to)| *from <= now && *to + KNOWN >= held.since);
        self.expect("INV-19", now, !waits || hidden, || {
            format!(
                "claim {} is held no more at {now} s, {} was launched in its stead since {} s and is there",
                claim.name,
                held.replacements.join(", "),
                held.since
            )
        });
    }

    /// A claim is removed as it costs too much: not while a command waits for it.
    fn unused(&mut self, state: &ClusterRecord, claim: &Claim, now: f64, blind: &[TimeSpan]) {
        let waits = |one: &&Claim| {
            let names = |held: &ClaimHold| now < held.since + WAITS && held.replacements.contains(&claim.name);
            let hidden = |held: &ClaimHold| blind.iter().any(|(from, to)| *from <= now && *to + KNOWN >= held.since);
            one.held.as_ref().is_some_and(|held| names(held) && !hidden(held)) && state.stays(one)
        };
        let waiting = state.living_claims().find(waits);
        self.expect("INV-19", now, waiting.is_none(), || {
            let name = waiting.map_or("", |one| one.name.as_str());
            format!("claim {} is removed at {now} s, {name} waits for it, in whose stead it was launched", claim.name)
        });
    }

    /// A replica removes a claim by its own will.
    fn removed(&mut self, state: &ClusterRecord, known: &mut Known, entry: &ActionEntry, blind: &[TimeSpan]) {
        let Some(claim) = state.claims.get(entry.text("uid")) else { return };
        let now = seconds(entry);
        if claim.goes_for == SAVES || claim.goes_for == EMPTY {
            self.unused(state, claim, now, blind);
        }
        if claim.goes_for != SAVES {
            return;
        }
        let Some(held) = &claim.held else { return self.saves(state, known, claim, entry, blind) };
        if pods_on(state, claim).is_empty() {
            return;
        }
        let stands = |name: &&String| state.claims_named(name).any(|one| known.stood.contains(&one.instance));
        let missing = held.replacements.iter().find(|name| !stands(name));
        self.expect("INV-20", now, missing.is_none(), || {
            format!(
                "claim {} is removed at {now} s, the node of {} has never been Ready",
                claim.name,
                missing.cloned().unwrap_or_default()
            )
        });
    }

    /// A command begins that takes a claim away to save money.
    fn saves(
        &mut self,
        state: &ClusterRecord,
        known: &mut Known,
        claim: &Claim,
        entry: &ActionEntry,
        blind: &[TimeSpan],
    ) {
        let (now, term) = (seconds(entry), entry.term);
        let pods = pods_on(state, claim);
        if pods.is_empty() {
            return;
        }
        let young = claim.initialized_at.is_none_or(|since| now - since < LEAST_AGE);
        self.expect("INV-22", now, !young, || {
            format!(
                "claim {} is to go at {now} s with {} pod(s), it was initialized at {:?} s",
                claim.name,
                pods.len(),
                claim.initialized_at
            )
        });
        let hidden = windows::lies_in(now, blind, KNOWN);
        for uid in pods {
            let again =
                known.moved.get(uid).filter(|before| before.term == term && now - before.began < REST && !hidden);
            let again = again.filter(|before| known.bound.get(uid).is_some_and(|bound| before.is_known(*bound, now)));
            self.expect("INV-21", now, again.is_none(), || {
                let pod = &state.pods[uid];
                let before = again.map_or(0.0, |before| before.began);
                format!("pod {}/{} is moved at {now} s, and was at {before} s", pod.namespace, pod.name)
            });
            known.moving.insert(uid.clone(), Move { began: now, term });
        }
    }
}

impl Move {
    /// True if the present leader can know that a pod, bound at `bound` seconds, has come by this move.
    fn is_known(self, bound: f64, now: f64) -> bool {
        bound <= now - KNOWN && bound - self.began <= ARRIVES_WITHIN
    }
}

impl Known {
    /// Follows an entry about a pod; called before the state has taken it.
    fn pod(&mut self, state: &ClusterRecord, entry: &ActionEntry) {
        if entry.kind != "pod" {
            return;
        }
        let uid = entry.text("uid");
        match entry.text("change") {
            "created" => {
                let key = (entry.text("namespace").to_owned(), entry.text("owner").to_owned());
                if let Some(by) = self.to_come.get_mut(&key).and_then(VecDeque::pop_front) {
                    self.moved.insert(uid.to_owned(), by);
                }
            }
            "bound" => drop(self.bound.insert(uid.to_owned(), seconds(entry))),
            "evicted" | "deleting" => {
                if let (Some(by), Some(pod)) = (self.moving.remove(uid), state.pods.get(uid)) {
                    self.to_come.entry((pod.namespace.clone(), pod.owner.clone())).or_default().push_back(by);
                }
            }
            "deleted" => {
                self.bound.remove(uid);
                self.moving.remove(uid);
                self.moved.remove(uid);
            }
            _ => {}
        }
    }

    fn node(&mut self, state: &ClusterRecord, entry: &ActionEntry) {
        if entry.kind == "node" && entry.text("change") == "ready" {
            let node = state.nodes.get(entry.text("name"));
            self.stood.extend(node.map(|node| node.instance.clone()));
        }
    }

    /// A claim stays, with its pods.
    fn stays(&mut self, state: &ClusterRecord, claim: &Claim) {
        for uid in pods_on(state, claim) {
            self.moving.remove(uid);
        }
    }
}

/// Pods that would have to be moved from a claim's node, by uid.
fn pods_on<'a>(state: &'a ClusterRecord, claim: &Claim) -> Vec<&'a String> {
    let node = state.index.nodes_of(&claim.instance).next().filter(|_| !claim.instance.is_empty());
    let on_it = node.and_then(|name| state.index.pods_by_node().get(name));
    let moves = |pod: &super::history::PodRecord| !pod.ended && !pod.deleting && !pod.owner.starts_with("DaemonSet/");
    on_it.into_iter().flatten().filter(|uid| state.pods.get(*uid).is_some_and(moves)).collect()
}

/// True if a step keeps replicas from seeing how things stand.
fn hides(action: &Action) -> bool {
    matches!(
        action,
        Action::Partition { .. }
            | Action::Lose { .. }
            | Action::EmptyLists { .. }
            | Action::Restart { .. }
            | Action::SlowWatches { .. }
            | Action::HoldWrites { .. }
            | Action::Restore { .. }
            | Action::Spoil { .. }
    )
}
