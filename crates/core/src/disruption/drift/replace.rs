//! Replacement of drifted nodes: as many at a time as budgets allow, those without pods first, then those that have drifted
//! longest. Unwell nodes are replaced in the same way; `super::super::repair` chooses them.
//!
//! Places for a node's pods are made while it serves, tainted so that no new pod comes to it; only when all are ready does it go.
//! Where a place does not come in time, the node stays and loses the taint, and its pool's next try waits: two minutes, then four, up to an hour, one node at a time. So a
//! fault that makes all replacements bad replaces nobody.

use std::sync::Arc;

use dovetail_api::names::annotations::ENDED_FIRST;
use dovetail_api::names::taints;
use jiff::{SignedDuration, Timestamp};

use super::{Drift, UnreplacedNode};
use crate::clock::later;
use crate::cluster_state::PodEntry;
use crate::disruption::cause::DisruptionCause;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::look::{DisruptedClaim, Look, disrupted};
use crate::disruption::machines::NodeAndClaim;
use crate::disruption::own_slot::{EndedFirst, find_own_slot, movable, needs_slot, pods_of, stranded};
use crate::disruption::pool_notes::noted;
use crate::disruption::pools::{DisruptionPool, Observing};
use crate::disruption::repair::RepairMark;
use crate::disruption::succession::{holds_replicas, succeed_drifted};
use crate::disruption::{Blocked, RemovalReason, allowed, blocked};
use crate::interruption::LONGEST_PLACE_WAIT;
use crate::termination::SuccessorPlace;
use crate::termination::places::WITHOUT_A_PLACE;

/// Number of a pool's nodes that may be replaced together, or a tenth of the pool where that is more, whatever budgets allow.
const TOGETHER: usize = 10;

/// Number of a pool's drifted nodes for which each look finds and reports the reason that holds them, whether there is room or
/// not.
const ASKED: usize = 100;

/// A drifted node that is known to be so at the API server too, with the time since when.
#[derive(Clone, Copy)]
pub struct DriftedNode<'a> {
    pub machine: NodeAndClaim<'a>,
    pub since: Timestamp,
}

/// State of a node that is being replaced.
enum Outcome {
    /// Not all places are ready; true if each is on its way.
    Waits(bool),
    /// All places are ready.
    Ready,
    /// Its pods' only place is its own instance of that reservation: it goes before its successor stands.
    OwnSlot(String),
    /// It stays, with the reason; true if it could not be replaced.
    Stays(String, bool),
}

impl<'a> Look<'a> {
    /// Checks a node for drift.
    pub(in crate::disruption) fn drift(&mut self, machine: &NodeAndClaim<'a>) -> Option<DriftedNode<'a>> {
        let (snapshot, offers, now) = (self.snapshot, self.offers, self.now);
        let drift = self.memory.drift.judge(machine, snapshot, offers, &mut self.out.drift, now)?;
        let since = machine.claim.drifted.filter(|_| matches!(drift, Drift::Is(..)) && machine.initialized())?;
        Some(DriftedNode { machine: *machine, since })
    }

    /// Goes on with a pool's nodes that are being replaced, and begins with drifted ones.
    pub(in crate::disruption) fn replace(
        &mut self,
        pool: &'a str,
        candidates: Vec<DriftedNode<'a>>,
        running: &[NodeAndClaim<'a>],
        totals: PoolNodeTotals,
    ) {
        let Some(view) = self.pools.get(pool).filter(|_| !candidates.is_empty() || !running.is_empty()).cloned() else {
            return;
        };
        if holds_replicas(self, &view) {
            return succeed_drifted(self, pool, candidates, &view, totals);
        }
        let allowed = allowed(view.pool, RemovalReason::Drifted, totals.nodes, self.now);
        let over = allowed.nodes.is_some_and(|nodes| totals.disrupting > nodes);
        running.iter().for_each(|machine| self.go_on_replacing(machine, &view, allowed.is_none(), over));
        let gone = self.leaving_now(pool);
        let together = together(totals.nodes).saturating_sub(running.len());
        let room = allowed.after(totals.disrupting + gone).min(together);
        let observed = view.observing != Observing::No;
        let (candidates, rest) = self.free_to_go(pool, candidates, &view, if observed { usize::MAX } else { room });
        if candidates.is_empty() {
            return;
        }
        if observed {
            return candidates.iter().for_each(|one| self.go(DisruptionCause::Drifted, disrupted(&one.machine)));
        }
        if allowed.is_none() {
            self.exhausted(&view, pool, RemovalReason::Drifted, candidates.len() + rest);
        }
        self.begin_some(pool, &candidates, room);
    }

    /// Goes on with a node that is being replaced. `closed`: its pool's budgets allow nothing; `over`: more nodes are being
    /// disrupted than they allow.
    pub(in crate::disruption) fn go_on_replacing(
        &mut self,
        machine: &NodeAndClaim<'a>,
        view: &DisruptionPool<'a>,
        closed: bool,
        over: bool,
    ) {
        if self.memory.is_asked(&machine.claim.uid) {
            return;
        }
        let outcome = match self.outcome(machine, view, closed || over) {
            _ if closed => Outcome::Stays("the pool's budgets do not allow it any more".into(), false),
            // Others are being disrupted beyond what is allowed: it goes when they are back or gone, in time.
            Outcome::Ready if over && self.is_late(&machine.claim.uid) => {
                Outcome::Stays("the pool's budgets do not allow it any more".into(), false)
            }
            Outcome::Ready | Outcome::OwnSlot(_) if over => Outcome::Waits(true),
            outcome => outcome,
        };
        self.settle(machine, outcome);
    }

    /// Starts with as many as `room` allows.
    fn begin_some(&mut self, pool: &str, candidates: &[DriftedNode<'a>], room: usize) {
        let held = self.replacing_is_paused(pool, RemovalReason::Drifted)
            || self.memory.own_slots.other_than(pool, "").is_some();
        let (_, alone) = self.memory.replacing.pause(pool, RemovalReason::Drifted);
        let mut begun = self.memory.replacing.running_for(pool, RemovalReason::Drifted);
        for one in candidates.iter().take(room) {
            let disrupted = disrupted(&one.machine);
            if !moves_any(&one.machine) {
                self.go(DisruptionCause::Drifted, disrupted);
            } else if !(held || alone && begun > 0) {
                begun += 1;
                self.out.drift.begin.push(disrupted.clone());
                self.memory.replacing.begin(disrupted, DisruptionCause::Drifted, self.now);
            }
        }
    }

    /// As many as there is room for of those that nothing holds: without pods first, then those that have failed less often,
    /// then the longest drifted. Returns as well the number of those for which it has not looked for a reason that holds them,
    /// which is dear: they wait for room.
    pub(in crate::disruption) fn free_to_go(
        &mut self,
        pool: &str,
        mut candidates: Vec<DriftedNode<'a>>,
        view: &DisruptionPool<'a>,
        room: usize,
    ) -> (Vec<DriftedNode<'a>>, usize) {
        let class = view.pool.spec.template.spec.node_class_ref.known_name();
        let may = self.memory.drift.may_replace(self.snapshot, pool, class, self.offers);
        candidates.retain(|one| !one.machine.nominated && !self.is_leaving_now(&one.machine.claim.uid));
        let replacing = &self.memory.replacing;
        candidates.sort_by_cached_key(|one| {
            let claim = one.machine.claim;
            (moves_any(&one.machine), replacing.failures(&claim.uid), one.since, claim.name.clone())
        });
        let (mut free, mut asked, all) = (Vec::new(), 0, candidates.len());
        for one in candidates {
            if asked >= ASKED && free.len() >= room {
                break;
            }
            asked += 1;
            match self.holds(&one.machine) {
                Some((why, until)) => self.block(&one.machine, why, until),
                None if may => free.push(one),
                None => {}
            }
        }
        (free, if may { all - asked } else { 0 })
    }

    /// The reason that keeps a drifted node. With a `terminationGracePeriod` pods do not: it bounds how long they may (core
    /// spec 5.2).
    pub(in crate::disruption) fn holds(&self, machine: &NodeAndClaim<'a>) -> Option<(String, Option<Timestamp>)> {
        let claim = self.snapshot.claims.get(&machine.claim.name)?;
        if claim.claim.spec.termination_grace_period.is_none() {
            return blocked::why(machine, self.snapshot, self.now);
        }
        blocked::held_by_node(machine)
    }

    /// True if a pod on it asks that the node stay, and nothing bounds that.
    fn asks(&self, machine: &NodeAndClaim<'a>, grace: Option<SignedDuration>) -> bool {
        let bounded = grace.is_some() || self.claims_grace(machine).is_some();
        !bounded && blocked::asked_by_pod(machine, self.now).is_some()
    }

    /// The outcome for a node that is being replaced. `closed`: it does not go now, whatever comes of it.
    fn outcome(&self, machine: &NodeAndClaim<'a>, view: &DisruptionPool<'a>, closed: bool) -> Outcome {
        let uid = &machine.claim.uid;
        let Some(one) = self.memory.replacing.running.get(uid) else { return Outcome::Ready };
        if view.observing != Observing::No {
            return Outcome::Stays("its nodepool is only observed".into(), false);
        }
        let repairs = one.cause.reason() == RemovalReason::Unhealthy;
        if !repairs && machine.claim.drifted.is_none() {
            return Outcome::Stays("it does not drift any more".into(), false);
        }
        if let Some(why) = self.needs_no_repair(machine).filter(|_| repairs) {
            return Outcome::Stays(why, false);
        }
        let holds = match repairs {
            true => self.holds_from_repair(machine, one.cause.grace()),
            false => self.holds(machine),
        };
        let holds = holds.map(|(why, _)| why);
        // Annotations that ask to be left alone are heeded at once; a budget over its pods may let them go in a moment.
        let asked = || !repairs && machine.node.do_not_disrupt.is_some() || self.asks(machine, one.cause.grace());
        let asks = holds.clone().filter(|_| asked());
        if let Some(why) = asks {
            return Outcome::Stays(why, false);
        }
        let late = self.is_late(uid);
        // The mark may not have come through yet.
        if !self.snapshot.deleting.claims.contains(&machine.claim.name) {
            let why = "it could not be marked as leaving for ten minutes";
            return if late { Outcome::Stays(why.into(), true) } else { Outcome::Waits(true) };
        }
        let displaced = self.snapshot.displaced(&machine.node.name, self.now);
        let place = |pod: &PodEntry| match SuccessorPlace::for_pod(self.snapshot, pod, self.moment) {
            SuccessorPlace::Ready if repairs && !self.place_is_well(pod) => SuccessorPlace::Later,
            place => place,
        };
        let places = displaced.iter().map(|pod| (pod, place(pod)));
        let missing: Vec<_> = places.filter(|(_, place)| *place != SuccessorPlace::Ready).collect();
        let Some((pod, _)) = missing.first() else {
            return match holds {
                None if closed => Outcome::Ready,
                None => self.outcome_by_force(machine, repairs, &displaced),
                Some(why) if late => Outcome::Stays(why, true),
                Some(_) => Outcome::Waits(true),
            };
        };
        let (namespace, name) = (&pod.pod.namespace, &pod.pod.name);
        let hope = missing.iter().all(|(_, place)| *place != SuccessorPlace::None);
        if late {
            return Outcome::Stays(format!("no place is ready for pod {namespace}/{name} after ten minutes"), true);
        }
        if !hope && self.now.duration_since(one.hoped) >= WITHOUT_A_PLACE {
            return self.outcome_in_own_slot(machine, repairs, holds, pod);
        }
        Outcome::Waits(hope)
    }

    /// The outcome for a node whose pods have places, but for those that stay until its `terminationGracePeriod` has passed: these
    /// lose theirs then, so that each needs one that can be had.
    fn outcome_by_force(&self, machine: &NodeAndClaim<'a>, repairs: bool, displaced: &[&Arc<PodEntry>]) -> Outcome {
        let is_left = |pod: &&Arc<PodEntry>| {
            !self.snapshot.rolling.contains(&pod.pod.uid) && !displaced.iter().any(|one| one.pod.uid == pod.pod.uid)
        };
        let mut left = pods_of(machine);
        left.retain(is_left);
        if left.is_empty() {
            return Outcome::Ready;
        }
        // Places that nodes which go before it will need are none for these.
        let going = self.snapshot.deleting.claims.iter().filter_map(|name| self.snapshot.claims.get(name));
        let going = going.map(|entry| &entry.facts).filter(|claim| claim.deleting || self.memory.is_asked(&claim.uid));
        let going = going.map(|claim| &claim.node).filter(|node| **node != machine.node.name);
        let pods = going.filter_map(|node| self.snapshot.loads.get(node)).flat_map(|load| movable(load));
        left.extend(pods.filter(|pod| self.snapshot.expected_on(&pod.pod.uid, self.moment).is_none()));
        match stranded(self, machine, &left).first() {
            None => Outcome::Ready,
            Some(pod) => self.outcome_in_own_slot(machine, repairs, None, pod),
        }
    }

    /// The outcome for a node where a pod has no other place.
    fn outcome_in_own_slot(
        &self,
        machine: &NodeAndClaim<'a>,
        repairs: bool,
        holds: Option<String>,
        pod: &PodEntry,
    ) -> Outcome {
        if let Some((other, begins_again)) = self.comes_first(machine, &machine.claim.pool, repairs) {
            let why = format!("the successor of node {other} of its nodepool comes first");
            return Outcome::Stays(why, begins_again);
        }
        let Some(slot) = find_own_slot(self, machine) else {
            return Outcome::Stays(format!("there is no place for pod {}/{}", pod.pod.namespace, pod.pod.name), true);
        };
        let cause = self.memory.replacing.running.get(&machine.claim.uid).and_then(|one| one.cause.grace());
        let bounded = cause.is_some() || self.claims_grace(machine).is_some();
        match holds.or(slot.held).or(slot.endless.filter(|_| !bounded)) {
            None => Outcome::OwnSlot(slot.reservation),
            Some(why) => Outcome::Stays(why, true),
        }
    }

    /// The node of a pool whose successor is awaited before this one may go first; true if this one would begin again at once and
    /// has to pause, as its repair waits for no slot.
    fn comes_first(&self, machine: &NodeAndClaim<'a>, pool: &str, repairs: bool) -> Option<(String, bool)> {
        let (slots, uid) = (&self.memory.own_slots, &machine.claim.uid);
        if !repairs {
            return slots.other_than(pool, uid).map(|node| (node.to_owned(), false));
        }
        let (node, reservation) = slots.before_repair(pool, uid, self.now)?;
        Some((node.to_owned(), !needs_slot(self, machine, reservation)))
    }

    /// True if a node has been waiting for its places for as long as it may.
    fn is_late(&self, uid: &str) -> bool {
        let running = &self.memory.replacing.running;
        running.get(uid).is_some_and(|one| self.now.duration_since(one.since) >= LONGEST_PLACE_WAIT)
    }

    /// Ends a node before its successor stands, once its pool names it: a later leader has nothing else to know it by.
    pub(in crate::disruption) fn end_first(&mut self, ended: EndedFirst, cause: DisruptionCause) {
        let (name, disrupted) = (ended.disrupted.pool.clone(), ended.disrupted.clone());
        self.memory.own_slots.begin(&ended, self.now);
        let note = self.memory.own_slots.note(&name);
        if self.snapshot.pools.get(&name).is_none_or(|pool| noted(pool, ENDED_FIRST) != note.as_deref()) {
            return self.look_again(Some(later(self.now, SignedDuration::from_secs(1))));
        }
        if self.memory.own_slots.order(&name) {
            self.out.drift.first.push(ended);
        }
        self.go(cause, disrupted);
    }

    fn settle(&mut self, machine: &NodeAndClaim<'a>, outcome: Outcome) {
        let uid = &machine.claim.uid;
        let Some(one) = self.memory.replacing.running.get_mut(uid) else { return };
        match outcome {
            Outcome::Waits(hope) => {
                one.hoped = if hope { self.now } else { one.hoped };
                let marked = self.snapshot.deleting.claims.contains(&machine.claim.name);
                let disrupted = one.disrupted.clone();
                match one.cause {
                    // The condition comes first: a later leader, and who looks at the claim, see why its pods move.
                    DisruptionCause::Unhealthy { condition, .. } if !machine.claim.repaired => {
                        self.out.drift.repairs.push(RepairMark { disrupted, condition });
                    }
                    _ if !marked => self.out.drift.begin.push(disrupted),
                    _ => {}
                }
                let tainted = machine.node.taints.iter().any(|taint| taint.key == taints::DISRUPTED);
                if marked && !tainted {
                    self.out.taint.push((machine.node.name.clone(), machine.node.uid.clone()));
                }
                // Places become ready without a change of the cluster that comes here: the next look is in a second.
                self.look_again(Some(later(self.now, SignedDuration::from_secs(1))));
            }
            Outcome::Ready => {
                let cause = one.cause;
                let disrupted = DisruptedClaim { pods: disrupted(machine).pods, ..one.disrupted.clone() };
                self.memory.replacing.pauses.remove(&(disrupted.pool.clone(), cause.reason()));
                self.memory.replacing.failed.remove(&disrupted.uid);
                self.memory.own_slots.forget(&disrupted.uid);
                self.go(cause, disrupted);
            }
            Outcome::OwnSlot(reservation) => {
                let cause = one.cause;
                let disrupted = DisruptedClaim { pods: disrupted(machine).pods, ..one.disrupted.clone() };
                self.end_first(EndedFirst { disrupted, reservation }, cause);
            }
            Outcome::Stays(why, failed) => {
                self.memory.own_slots.forget(uid);
                let (disrupted, reason) = (one.disrupted.clone(), one.cause.reason());
                self.memory.replacing.running.remove(uid);
                self.memory.repairs.called_off(uid);
                let pause = failed.then(|| self.memory.replacing.fail(&disrupted, reason, self.now));
                let DisruptedClaim { claim, uid, node, node_uid, .. } = disrupted.clone();
                self.out.blocked.push(Blocked { claim, uid, node, node_uid, why: why.clone(), news: true });
                self.out.drift.stay.push(UnreplacedNode { disrupted, why, pause: pause.map(|pause| pause.as_secs()) });
            }
        }
    }
}

/// Most of a pool's nodes that are replaced together for one reason.
pub(in crate::disruption) fn together(nodes: usize) -> usize {
    TOGETHER.max(nodes.div_ceil(10))
}

/// True if a pod on it needs a place elsewhere.
pub(in crate::disruption) fn moves_any(machine: &NodeAndClaim<'_>) -> bool {
    machine.load.is_some_and(|load| load.pods.values().any(|pod| PodEntry::reschedulable(pod)))
}
