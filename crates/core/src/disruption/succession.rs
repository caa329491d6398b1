//! Successors in static pools: a node that drifts or is unwell says so by a condition on its claim, and stays until another
//! stands in its stead (`crate::static_pools` launches that one). At `spec.limits.nodes` there is no room for two: with the
//! gates TerminateFirstDrift and TerminateFirstRepair the node goes first, one at a time, and is replaced when it is gone.
//!
//! ```text
//! drifted, unwell ──► room below the limit? ── yes ──► marked ──► as many initialized as replicas ──► Remove
//!                          │                             └── ten minutes: unmarked, and the pool's next try waits
//!                          └── no ──► gate ──► Remove, and no other of the pool until it has its nodes again
//! ```
//!
//! Where all that the pool may launch are reservations, and full, the node's own instance is what its successor gets: it goes
//! first as such a node of another pool does (`own_slot`), whatever the gates.
//!
//! The condition is all that a later leader needs.

use std::collections::BTreeSet;

use dovetail_api::names::conditions::{DISRUPTION_REASON, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, condition, set_condition};
use jiff::Timestamp;

use super::cause::DisruptionCause;
use super::drift::{DriftedNode, UnreplacedNode, together};
use super::emptiness::PoolNodeTotals;
use super::look::{DisruptedClaim, Look, disrupted};
use super::machines::NodeAndClaim;
use super::own_slot::{EndedFirst, endless_drain, full_reservations, is_wanted, pods_of, reservation_of, stranded};
use super::pools::{DisruptionPool, Observing};
use super::{Blocked, RemovalReason, allowed};
use crate::clock::later;
use crate::cluster_state::ReplicaCount;
use crate::disruption::claim_status::with_status;
use crate::interruption::LONGEST_PLACE_WAIT;

/// Number of a pool's nodes that are tried at a look, where those before them may not go.
const MOST_TRIED: usize = 20;
/// Beginning of the condition's message.
const SUCCEEDED: &str = "to be removed once its successor in the static nodepool is initialized: ";

/// A condition to be written on a claim of a static pool, or to be taken off it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccessionMark {
    pub disrupted: DisruptedClaim,
    pub reason: RemovalReason,
    /// The cause in words.
    pub why: String,
    /// True if the claim waits for its successor, false if it does not any more.
    pub waits: bool,
}

/// A node that goes before its successor is launched, as `spec.limits.nodes` leaves no room for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedAtLimit {
    pub disrupted: DisruptedClaim,
    pub reason: RemovalReason,
    /// `spec.limits.nodes`.
    pub limit: usize,
}

/// Orders about nodes of static pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Successions {
    pub marks: Vec<SuccessionMark>,
    /// Claims, by name, that wait for their successors: nothing is planned on their nodes.
    pub held: Vec<String>,
    pub ended: Vec<EndedAtLimit>,
}

impl SuccessionMark {
    /// The claim with the condition, or without it. Another claim of its name is left alone.
    #[must_use]
    pub fn on(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        with_status(claim, &self.disrupted.uid, |status, generation| {
            if self.waits {
                let message = format!("{SUCCEEDED}{}", self.why);
                let reason = self.reason.budget_key().unwrap_or("Disrupted");
                let condition = NewCondition::new(DISRUPTION_REASON, TRUE).because(reason, &message);
                set_condition(&mut status.conditions, condition, generation, now);
            } else {
                status.conditions.retain(|one| one.type_ != DISRUPTION_REASON || !one.message.starts_with(SUCCEEDED));
            }
        })
    }
}

/// The reason for which a claim waits for its successor, and the time since when.
fn waits_for_successor(claim: &NodeClaim) -> Option<(RemovalReason, Timestamp)> {
    let written = condition(&claim.status.as_ref()?.conditions, DISRUPTION_REASON).filter(|one| one.status == TRUE)?;
    let reason = RemovalReason::from_budget_key(&written.reason).filter(|_| written.message.starts_with(SUCCEEDED))?;
    Some((reason, written.last_transition_time.0))
}

/// A node of a static pool that waits for its successor.
#[derive(Clone, Copy)]
pub(super) struct WaitingNode<'a> {
    machine: NodeAndClaim<'a>,
    reason: RemovalReason,
    since: Timestamp,
}

/// The outcome for a node that waits.
enum Outcome {
    Waits,
    Goes(DisruptionCause),
    /// It stays, with the reason; true if no successor came in time.
    Stays(String, bool),
}

/// True if a pool is static and its nodes are held.
pub(super) fn holds_replicas(look: &Look<'_>, view: &DisruptionPool<'_>) -> bool {
    look.memory.drift.gates.static_capacity && view.pool.spec.replicas.is_some()
}

/// The node, if it waits for its successor.
pub(super) fn waiting_node<'a>(
    look: &Look<'a>,
    machine: &NodeAndClaim<'a>,
    view: &DisruptionPool<'_>,
) -> Option<WaitingNode<'a>> {
    let stays = !machine.claim.deleting && !machine.node.deleting && !look.memory.is_asked(&machine.claim.uid);
    let claim = look.snapshot.claims.get(&machine.claim.name).filter(|_| stays && holds_replicas(look, view))?;
    let (reason, since) = waits_for_successor(&claim.claim)?;
    Some(WaitingNode { machine: *machine, reason, since })
}

fn replica_count<'a>(look: &Look<'a>, pool: &str) -> Option<ReplicaCount<'a>> {
    look.snapshot.replica_counts(|uid| look.memory.is_asked(uid)).remove(pool)
}

/// Goes on with the nodes of a pool that wait for their successors, those first that wait longest.
pub(super) fn follow_successions<'a>(
    look: &mut Look<'a>,
    pool: &'a str,
    mut waiting: Vec<WaitingNode<'a>>,
    totals: PoolNodeTotals,
) {
    let (Some(view), Some(count)) = (look.pools.get(pool).cloned(), replica_count(look, pool)) else { return };
    waiting.sort_by_key(|one| (one.since, one.machine.claim.name.as_str()));
    let mut spare = (count.initialized() + waiting.len()).saturating_sub(count.desired);
    for one in waiting {
        match succession_outcome(look, &one, &view, totals, spare) {
            Outcome::Waits => {
                look.out.successions.held.push(one.machine.claim.name.clone());
                look.look_again(Some(later(one.since, LONGEST_PLACE_WAIT)).filter(|late| *late > look.now));
            }
            Outcome::Goes(cause) => {
                spare = spare.saturating_sub(1);
                look.memory.replacing.note_replaced(pool, one.reason);
                look.go(cause, disrupted(&one.machine));
            }
            Outcome::Stays(why, failed) => keep_after_all(look, &one, why, failed),
        }
    }
}

fn succession_outcome<'a>(
    look: &Look<'a>,
    one: &WaitingNode<'a>,
    view: &DisruptionPool<'a>,
    totals: PoolNodeTotals,
    spare: usize,
) -> Outcome {
    let allowed = allowed(view.pool, one.reason, totals.nodes, look.now);
    let repairs = one.reason == RemovalReason::Unhealthy;
    let cause = match repairs {
        true => look.repair_cause(&one.machine),
        false => one.machine.claim.drifted.map(|_| DisruptionCause::Drifted),
    };
    let Some(cause) = cause else {
        let why = if repairs { "it needs no repair any more" } else { "it does not drift any more" };
        return Outcome::Stays(why.into(), false);
    };
    if view.observing != Observing::No {
        return Outcome::Stays("its nodepool is only observed".into(), false);
    }
    if allowed.is_none() {
        return Outcome::Stays("the pool's budgets do not allow it any more".into(), false);
    }
    let holds = if repairs { look.holds_from_repair(&one.machine, cause.grace()) } else { look.holds(&one.machine) };
    let disrupting = if repairs { totals.leaving } else { totals.disrupting };
    let over = allowed.nodes.is_some_and(|nodes| disrupting > nodes);
    if spare > 0 && holds.is_none() && !over {
        return Outcome::Goes(cause);
    }
    if look.now.duration_since(one.since) >= LONGEST_PLACE_WAIT {
        let why = holds.map_or_else(|| "no successor was initialized within ten minutes".to_owned(), |(why, _)| why);
        return Outcome::Stays(why, true);
    }
    Outcome::Waits
}

fn keep_after_all(look: &mut Look<'_>, one: &WaitingNode<'_>, why: String, failed: bool) {
    let disrupted = disrupted(&one.machine);
    let pause = failed.then(|| look.memory.replacing.fail(&disrupted, one.reason, look.now).as_secs());
    look.memory.repairs.called_off(&disrupted.uid);
    let DisruptedClaim { claim, uid, node, node_uid, .. } = disrupted.clone();
    look.out.blocked.push(Blocked { claim, uid, node, node_uid, why: why.clone(), news: true });
    let mark = SuccessionMark { disrupted: disrupted.clone(), reason: one.reason, why: why.clone(), waits: false };
    look.out.successions.marks.push(mark);
    look.out.drift.stay.push(UnreplacedNode { disrupted, why, pause });
}

/// Begins with drifted nodes of a static pool, as many as budgets allow.
pub(super) fn succeed_drifted<'a>(
    look: &mut Look<'a>,
    pool: &'a str,
    candidates: Vec<DriftedNode<'a>>,
    view: &DisruptionPool<'a>,
    totals: PoolNodeTotals,
) {
    let allowed = allowed(view.pool, RemovalReason::Drifted, totals.nodes, look.now);
    let begun = look.leaving_now(pool) + successions_begun(look, pool);
    let outgoing = replica_count(look, pool).map_or(0, |count| count.outgoing.len());
    let room = allowed.after(totals.disrupting + begun).min(together(totals.nodes).saturating_sub(outgoing + begun));
    let observed = view.observing != Observing::No;
    let (mut candidates, rest) = look.free_to_go(pool, candidates, view, if observed { usize::MAX } else { room });
    if candidates.is_empty() {
        return;
    }
    if observed {
        return candidates.iter().for_each(|one| look.go(DisruptionCause::Drifted, disrupted(&one.machine)));
    }
    if allowed.is_none() {
        look.exhausted(view, pool, RemovalReason::Drifted, candidates.len() + rest);
    }
    if let Some(full) = full_reservations(look, view) {
        // Only these can be replaced.
        let has_slot = |one: &DriftedNode<'_>| reservation_of(&one.machine).is_some_and(|own| full.contains(own));
        candidates.sort_by_key(|one| !has_slot(one));
    }
    // One that may not go now holds up no other.
    let mut left = room;
    for one in candidates.iter().take(room.max(MOST_TRIED)) {
        left -= usize::from(left > 0 && order_successor(look, pool, view, &one.machine, DisruptionCause::Drifted));
    }
}

/// Begins to replace a node of a static pool; true if that has begun.
pub(super) fn order_successor<'a>(
    look: &mut Look<'a>,
    pool: &str,
    view: &DisruptionPool<'a>,
    machine: &NodeAndClaim<'a>,
    cause: DisruptionCause,
) -> bool {
    let Some(count) = replica_count(look, pool) else { return false };
    // The pool gets the nodes that it lacks first.
    if count.missing() > 0 || count.surplus() > 0 {
        return false;
    }
    let begun = successions_begun(look, pool);
    if let Some(full) = full_reservations(look, view) {
        return begun == 0 && end_in_slot(look, view, machine, &count, cause, &full);
    }
    if count.room() <= begun {
        return begun == 0 && end_at_limit(look, view, machine, &count, cause);
    }
    let reason = cause.reason();
    let (_, alone) = look.memory.replacing.pause(pool, reason);
    if look.replacing_is_paused(pool, reason) || alone && count.outgoing.len() + begun > 0 {
        return false;
    }
    let why = match cause {
        DisruptionCause::Unhealthy { condition, .. } => format!("its Node's condition {condition}"),
        DisruptionCause::Drifted
        // Nodes of a static pool have no successor for these.
        | DisruptionCause::Ttl(_) | DisruptionCause::Empty | DisruptionCause::Expired => "it has drifted".to_owned(),
    };
    let mark = SuccessionMark { disrupted: disrupted(machine), reason, why, waits: true };
    look.out.successions.marks.push(mark);
    true
}

/// Ends a node for which there is no room for a successor, where the gate is on and the pool has all its nodes.
fn end_at_limit<'a>(
    look: &mut Look<'a>,
    view: &DisruptionPool<'a>,
    machine: &NodeAndClaim<'a>,
    count: &ReplicaCount<'_>,
    cause: DisruptionCause,
) -> bool {
    let (gates, reason) = (look.memory.drift.gates, cause.reason());
    let (gate, on) = match reason {
        RemovalReason::Unhealthy => ("TerminateFirstRepair", gates.terminate_first_repair),
        RemovalReason::Drifted
        // No cause of a succession has these.
        | RemovalReason::Empty
        | RemovalReason::Expired
        | RemovalReason::Underutilized
        | RemovalReason::Interrupted
        | RemovalReason::GarbageCollected
        | RemovalReason::Overprovisioned => ("TerminateFirstDrift", gates.terminate_first_drift),
    };
    let limit = count.limit().unwrap_or_default();
    let at_limit = format!("spec.limits.nodes {limit} of its static NodePool leaves no room for its successor");
    if !on {
        let why = format!("{at_limit}; raise it, or open the gate {gate}, with which it goes first");
        look.block(machine, why, None);
        return false;
    }
    if view.pool.metadata.deletion_timestamp.is_some() || !view.is_ready() {
        look.block(machine, format!("{at_limit}, and nothing is launched for the NodePool now"), None);
        return false;
    }
    if !is_whole(count) {
        return false;
    }
    if let Some(why) = endless(look, machine, cause) {
        look.block(machine, why, None);
        return false;
    }
    let disrupted = disrupted(machine);
    look.out.successions.ended.push(EndedAtLimit { disrupted: disrupted.clone(), reason, limit });
    look.go(cause, disrupted);
    true
}

/// Ends a node whose successor has no place but the instance of a reservation that the node is in.
fn end_in_slot<'a>(
    look: &mut Look<'a>,
    view: &DisruptionPool<'a>,
    machine: &NodeAndClaim<'a>,
    count: &ReplicaCount<'_>,
    cause: DisruptionCause,
    full: &BTreeSet<String>,
) -> bool {
    let own = reservation_of(machine).filter(|own| full.contains(*own));
    let full = "the capacity reservations of its static NodePool have no instance left for its successor";
    if view.pool.metadata.deletion_timestamp.is_some() || !view.is_ready() {
        look.block(machine, format!("{full}, and nothing is launched for the NodePool now"), None);
        return false;
    }
    let Some(own) = own else {
        look.block(machine, format!("{full}, and it is in none that would get one by its end"), None);
        return false;
    };
    if !is_whole(count) {
        return false;
    }
    let other = look.memory.own_slots.other_than(&machine.claim.pool, &machine.claim.uid);
    let why = match other {
        Some(other) => Some(format!("the successor of node {other} of its nodepool comes first")),
        None if cause.reason() != RemovalReason::Unhealthy && is_wanted(look, own) => {
            Some(format!("{full}, and pods that wait already would get one that it gives up"))
        }
        None => endless(look, machine, cause),
    };
    if let Some(why) = why {
        look.block(machine, why, None);
        return false;
    }
    look.end_first(EndedFirst { disrupted: disrupted(machine), reservation: own.to_owned() }, cause);
    true
}

/// True if a pool has all its nodes and none is about to go: those that go before their successors do so one at a time.
fn is_whole(count: &ReplicaCount<'_>) -> bool {
    count.going == 0 && count.outgoing.is_empty() && count.initialized() >= count.desired
}

/// The reason that a node's drain would never end, if nothing bounds it.
fn endless<'a>(look: &Look<'a>, machine: &NodeAndClaim<'a>, cause: DisruptionCause) -> Option<String> {
    let bounded = cause.grace().is_some() || look.claims_grace(machine).is_some();
    // The plan is for those that may need it.
    let pods = pods_of(machine);
    let may = !bounded && endless_drain(look.snapshot, &pods).is_some();
    may.then(|| endless_drain(look.snapshot, &stranded(look, machine, &pods))).flatten()
}

/// Number of a pool's nodes that this look has marked.
fn successions_begun(look: &Look<'_>, pool: &str) -> usize {
    look.out.successions.marks.iter().filter(|mark| mark.waits && mark.disrupted.pool == pool).count()
}
