//! Node repair, behind the gate NodeRepair: a Node that has been unwell for as long as a policy tolerates is replaced, places
//! first and within the budgets for `Unhealthy` (core spec 5.10; Karpenter 1.15; docs/decisions/063).
//!
//! ```text
//! conditions ──► policies ──► diagnosis ──► order ──► brake: shared by many? ── no ──► as many as budgets allow
//! (cluster_state::unwell)                                         └── yes ──► pace: one at a time, none while it ends
//!                                                                       successors fall sick: the pool backs off
//! ```
//!
//! `super::drift` has how a node is replaced once it is chosen, `reboot` how its instance is rebooted instead.

mod brake;
mod diagnosis;
mod legacy;
mod mark;
mod pace;
mod reboot;

use jiff::{SignedDuration, Timestamp};

use self::brake::Tally;
use self::diagnosis::{Diagnosis, first_due};
pub(super) use self::legacy::repair_by_force;
pub use self::mark::RepairMark;
pub(super) use self::pace::Repairs;
pub use self::reboot::{RebootEnd, RebootOrder, RebootStep, on_claim, on_node};
pub(super) use self::reboot::{RefusedReboots, begun_now, go_on_with_reboots};
use super::cause::DisruptionCause;
use super::drift::{moves_any, together};
use super::emptiness::PoolNodeTotals;
use super::look::{Look, disrupted};
use super::machines::NodeAndClaim;
use super::own_slot::needs_slot;
use super::pools::{DisruptionPool, Observing};
use super::succession::{holds_replicas, order_successor};
use super::{RemovalReason, allowed, blocked};
use crate::clock::signed;
use crate::cluster_state::{NominationTarget, PodEntry, RebootState, RepairAction};

/// A node that is unwell for too long, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRepaired {
    /// The Node's name.
    pub node: String,
    /// The Node's uid: another Node may have had the name before.
    pub node_uid: String,
    /// Number of its pool's nodes that are unwell, and number of all.
    pub unwell: (usize, usize),
    /// Its pool's name.
    pub pool: String,
    pub why: HeldRepair,
    /// True if it has not been reported yet.
    pub news: bool,
}

/// The reason that a node is not repaired yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldRepair {
    /// Too many are unwell, and repair is by force: none is repaired.
    TooMany,
    /// Many have the same condition, or had it lately: one at a time is repaired.
    Shared,
    /// As before, and some of them have recovered in the last minutes: none is repaired.
    Recovering,
    /// Nodes that were launched to replace others have fallen sick.
    SuccessorsFellSick,
}

impl HeldRepair {
    /// The consequence, in words.
    #[must_use]
    pub fn consequence(self) -> &'static str {
        match self {
            Self::TooMany => "none is repaired",
            Self::Shared => "they are repaired one at a time",
            Self::Recovering => "none is repaired while others recover",
            Self::SuccessorsFellSick => "repair waits, as replacements have fallen sick too",
        }
    }
}

/// The nodes of a pool as repair sees them.
#[derive(Default)]
pub(super) struct Ward<'a> {
    tally: Tally<'a>,
    /// Unwell nodes that nothing removes yet.
    sick: Vec<NodeAndClaim<'a>>,
    /// Unwell nodes whose pods are getting places.
    running: Vec<NodeAndClaim<'a>>,
    /// Number of nodes that are rebooted.
    rebooting: usize,
}

impl<'a> Ward<'a> {
    /// Counts a node. `repairing`: its pods get places as it is unwell; `leaving`: it goes, for that or another reason.
    pub fn take_in(&mut self, machine: &NodeAndClaim<'a>, repairing: bool, leaving: bool) {
        self.tally.count(machine);
        self.rebooting += usize::from(machine.reboots());
        if repairing {
            self.running.push(*machine);
        } else if !leaving && !machine.node.unwell.is_empty() {
            self.sick.push(*machine);
        }
    }
}

/// An unwell node that is due, with what is known of it.
struct Patient<'a> {
    machine: NodeAndClaim<'a>,
    diagnosis: Diagnosis<'a>,
}

impl<'a> Look<'a> {
    /// Goes on with the nodes of a pool that are being repaired, and begins with those that are due.
    pub(super) fn repair(&mut self, pool: &'a str, ward: Ward<'a>, totals: PoolNodeTotals) {
        let nothing = ward.sick.is_empty() && ward.running.is_empty() && !self.memory.repairs.knows(pool);
        if !self.memory.drift.gates.repairs_by_budget() || nothing {
            return;
        }
        let Some(view) = self.pools.get(pool).cloned() else { return };
        let allowed = allowed(view.pool, RemovalReason::Unhealthy, totals.nodes, self.now);
        let over = allowed.nodes.is_some_and(|nodes| totals.leaving > nodes);
        ward.running.iter().for_each(|machine| self.go_on_replacing(machine, &view, allowed.is_none(), over));
        self.memory.repairs.observe(pool, &ward.tally, self.first, self.now);
        self.memory.repairs.blame(pool, &ward.sick, self.now);
        let due = self.find_due(&ward.sick);
        if view.observing != Observing::No {
            return due.iter().for_each(|one| self.go(one.cause(None), disrupted(&one.machine)));
        }
        if due.is_empty() {
            return;
        }
        // A node that has never served is no disruption: budgets are of those that have.
        let (new, due): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|one| !one.machine.initialized() && !one.machine.reboots());
        if allowed.is_none() && !due.is_empty() {
            self.exhausted(&view, pool, RemovalReason::Unhealthy, due.len());
        }
        if let Some(until) = self.memory.repairs.backs_off(pool, self.now) {
            self.look_again(Some(until));
            let all = new.iter().chain(&due);
            return all.for_each(|one| self.report_held(one, &ward.tally, HeldRepair::SuccessorsFellSick));
        }
        let together = together(totals.nodes).saturating_sub(ward.running.len() + ward.rebooting);
        let room = allowed.after(totals.leaving + self.leaving_now(pool)).min(together);
        if !allowed.is_none() {
            self.repair_some(pool, &view, due, &ward.tally, room);
        }
        if !new.is_empty() && !self.memory.repairs.any_going(pool) {
            let may_launch = self.may_launch_for_repair(pool, &view);
            // One at a time, the first that nothing holds.
            for one in &new {
                if self.begin_repair(pool, one, may_launch) {
                    break;
                }
            }
        }
    }

    /// Those that are due and that nobody forbids to repair, in the order of their repair.
    fn find_due(&mut self, sick: &[NodeAndClaim<'a>]) -> Vec<Patient<'a>> {
        let mut due = Vec::new();
        for machine in sick {
            let unwell = &machine.node.unwell;
            let rebooted = machine.claim.reboot.and_then(RebootState::succeeded);
            let Some(diagnosis) = Diagnosis::from_conditions(unwell, rebooted, self.now) else {
                self.look_again(first_due(unwell, rebooted));
                continue;
            };
            match find_veto(machine) {
                Some(why) => self.block(machine, why, None),
                None => due.push(Patient { machine: *machine, diagnosis }),
            }
        }
        let replacing = &self.memory.replacing;
        due.sort_by_cached_key(|one| {
            let claim = one.machine.claim;
            let pods = one.machine.load.map_or(0, |load| load.costly);
            (replacing.failures(&claim.uid), one.diagnosis.order(), pods, one.machine.node.name.clone())
        });
        due
    }

    /// Begins with as many as there is room for: those whose condition is their own, then one of those that share it.
    fn repair_some(
        &mut self,
        pool: &'a str,
        view: &DisruptionPool<'a>,
        due: Vec<Patient<'a>>,
        tally: &Tally<'a>,
        mut room: usize,
    ) {
        let may_launch = self.may_launch_for_repair(pool, view);
        let (own, shared) = self.memory.repairs.split(pool, due, tally);
        for one in own {
            room -= usize::from(room > 0 && self.begin_repair(pool, &one, may_launch));
        }
        let mut held = self.memory.repairs.holds_shared(pool, self.now);
        for one in shared {
            // A removal that has not come to pass is asked for again.
            if self.memory.repairs.is_going(&one.machine.claim.uid) {
                room -= usize::from(room > 0 && self.begin_repair(pool, &one, may_launch));
                continue;
            }
            let recovering = self.memory.repairs.recovering_until(pool, &one.diagnosis.alarms, self.now);
            let why = match recovering {
                Some(until) => {
                    self.look_again(Some(until));
                    HeldRepair::Recovering
                }
                None if room > 0 && held.is_none() && self.begin_repair(pool, &one, may_launch) => {
                    self.memory.repairs.slow_down(pool, self.now);
                    held = self.memory.repairs.holds_shared(pool, self.now);
                    continue;
                }
                None => HeldRepair::Shared,
            };
            self.report_held(&one, tally, why);
        }
        self.look_again(held);
    }

    fn may_launch_for_repair(&mut self, pool: &str, view: &DisruptionPool<'a>) -> bool {
        let class = view.pool.spec.template.spec.node_class_ref.known_name();
        self.memory.drift.may_replace(self.snapshot, pool, class, self.offers)
            && !self.replacing_is_paused(pool, RemovalReason::Unhealthy)
    }

    /// Begins the repair of a node, if nothing holds it; true if it has begun.
    fn begin_repair(&mut self, pool: &str, one: &Patient<'a>, may_launch: bool) -> bool {
        let machine = &one.machine;
        if let Some((why, until)) = self.holds_from_repair(machine, one.diagnosis.grace) {
            self.block(machine, why, until);
            return false;
        }
        let cause = one.cause(self.claims_grace(machine));
        let disrupted = disrupted(machine);
        let gate = self.memory.drift.gates.reboot_for_repair && one.diagnosis.action == RepairAction::Reboot;
        if gate && reboot::may_help(self, machine) {
            self.memory.repairs.note_begun(pool, &disrupted, self.now);
            let claims = self.claims_grace(machine);
            let grace = one.diagnosis.grace.into_iter().chain(claims).min();
            reboot::request(self, machine, one.diagnosis.condition, grace);
            return true;
        }
        if let Some(view) = self.pools.get(pool).filter(|view| holds_replicas(self, view)).cloned() {
            let begins = order_successor(self, pool, &view, machine, cause);
            if begins {
                self.memory.repairs.note_begun(pool, &disrupted, self.now);
            }
            return begins;
        }
        if !moves_any(machine) {
            self.memory.repairs.note_begun(pool, &disrupted, self.now);
            self.go(cause, disrupted);
            return true;
        }
        // With a place elsewhere it does not wait for the slot of another.
        let first = self.memory.own_slots.before_repair(pool, &machine.claim.uid, self.now);
        if let Some((other, _)) = first.filter(|(_, reservation)| needs_slot(self, machine, reservation)) {
            let why = format!("the successor of node {other} of its nodepool comes first");
            self.block(machine, why, None);
            return false;
        }
        let (_, alone) = self.memory.replacing.pause(pool, RemovalReason::Unhealthy);
        if !may_launch || alone && self.memory.replacing.running_for(pool, RemovalReason::Unhealthy) > 0 {
            return false;
        }
        self.memory.repairs.note_begun(pool, &disrupted, self.now);
        self.out.drift.repairs.push(RepairMark { disrupted: disrupted.clone(), condition: one.diagnosis.condition });
        self.memory.replacing.begin(disrupted, cause, self.now);
        true
    }

    /// The reason that keeps a node from being repaired. A bound of the drain ends what pods ask for.
    pub(super) fn holds_from_repair(
        &self,
        machine: &NodeAndClaim<'a>,
        grace: Option<SignedDuration>,
    ) -> Option<(String, Option<Timestamp>)> {
        if grace.is_some() || self.claims_grace(machine).is_some() {
            return None;
        }
        let (why, until) = blocked::by_pods(machine, self.snapshot, self.now)?;
        Some((format!("{why}, and no terminationGracePeriod bounds that: repair waits for it"), until))
    }

    /// The reason that a node which is being repaired needs no repair any more.
    pub(super) fn needs_no_repair(&self, machine: &NodeAndClaim<'a>) -> Option<String> {
        let well = Diagnosis::from_conditions(&machine.node.unwell, None, self.now).is_none();
        find_veto(machine).or_else(|| well.then(|| "it is healthy again".to_owned()))
    }

    /// The cause for which a node is repaired now; `None` if it needs no repair.
    pub(super) fn repair_cause(&self, machine: &NodeAndClaim<'a>) -> Option<DisruptionCause> {
        let diagnosis = Diagnosis::from_conditions(&machine.node.unwell, None, self.now)?;
        let cause = Patient { machine: *machine, diagnosis }.cause(self.claims_grace(machine));
        find_veto(machine).is_none().then_some(cause)
    }

    /// True if the node that a pod is expected on is not unwell itself.
    pub(super) fn place_is_well(&self, pod: &PodEntry) -> bool {
        let node = match self.snapshot.expected_on(&pod.pod.uid, self.moment) {
            Some(NominationTarget::Node(name)) => name.as_str(),
            Some(NominationTarget::Claim(name)) => {
                self.snapshot.claims.get(name).map_or("", |entry| entry.facts.node.as_str())
            }
            None => "",
        };
        self.snapshot.nodes.get(node).is_none_or(|node| node.unwell.is_empty())
    }

    /// The claim's `terminationGracePeriod`, which bounds how long pods may keep its node.
    pub(super) fn claims_grace(&self, machine: &NodeAndClaim<'a>) -> Option<SignedDuration> {
        let claim = &self.snapshot.claims.get(&machine.claim.name)?.claim;
        claim.spec.termination_grace_period.as_ref().map(|grace| signed(grace.get()))
    }

    fn report_held(&mut self, one: &Patient<'a>, tally: &Tally<'a>, why: HeldRepair) {
        let node = one.machine.node;
        self.out.not_repaired.push(NotRepaired {
            node: node.name.clone(),
            node_uid: node.uid.clone(),
            unwell: tally.figures(),
            pool: one.machine.claim.pool.clone(),
            why,
            news: self.memory.not_repaired.say(&node.uid, why),
        });
    }
}

impl Patient<'_> {
    /// The cause of its removal. The policy's bound can only shorten that of its claim.
    fn cause(&self, claims_grace: Option<SignedDuration>) -> DisruptionCause {
        let grace = self.diagnosis.grace.map(|grace| claims_grace.map_or(grace, |own| own.min(grace)));
        DisruptionCause::Unhealthy { condition: self.diagnosis.condition, grace }
    }
}

/// The reason if somebody forbids to repair a node.
fn find_veto(machine: &NodeAndClaim<'_>) -> Option<String> {
    if let Some(shifted) = machine.shifted {
        return Some(shifted.to_string());
    }
    let vetoed = machine.node.do_not_repair || machine.claim.do_not_repair;
    vetoed.then(|| format!("it has the annotation {}", dovetail_api::names::annotations::DO_NOT_REPAIR))
}
