//! Nodes that are no longer what is asked for, and nodes that are unwell: what is decided of them (`dovetail_core::disruption`) is
//! ordered and told here.
//!
//! A node that is to be replaced is marked as leaving first, which makes places for its pods; it is removed when
//! those are ready. The mark is this term's own: where the leader is succeeded before, the node stays, and the successor begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::drift::{DriftMark, Gates, Orders, Unpinned, UnreplacedNode};
use dovetail_core::disruption::own_slot::{EndedFirst, LostSlot};
use dovetail_core::disruption::repair::NotRepaired;
use dovetail_core::disruption::{DisruptionCause, DisruptionDecision};

use super::report::{NAMES_LISTED, claim_object, node_object};
use super::writes::Write;
use super::{Disruptor, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::context::measures;
use crate::messages::{InstancesSeen, MarkDeleting, Record, reference};
use crate::settings::Settings;
use crate::telemetry::log_event::{LogEvent, Names};

/// Minimum time between two events that say that a Node is not repaired (core spec 7.2).
const REPAIR_REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Minimum time between two reports that a class's images change by themselves; each new image is reported once.
const UNPINNED_REPEAT_INTERVAL: Duration = Duration::from_secs(3600);

/// Minimum time between two events at a NodePool that an instance of a reservation is lost.
const LOST_REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// Kinds of disruption that are switched on.
pub(super) fn gates(settings: &Settings) -> Gates {
    Gates {
        node_repair: settings.node_repair(),
        legacy_repair: settings.churn.legacy_node_repair,
        reboot_for_repair: settings.reboot_for_repair(),
        reserved_capacity: settings.reserved_capacity(),
        static_capacity: settings.static_capacity(),
        terminate_first_drift: settings.terminate_first_drift(),
        terminate_first_repair: settings.terminate_first_repair(),
        drift_off: !settings.drift(),
    }
}

pub(super) fn writes(orders: Orders, snapshot: &Snapshot) -> Vec<Write> {
    let claim = |name: &str| snapshot.claims.get(name).map(|entry| entry.claim.clone());
    let marks = orders.marks.into_iter().filter_map(|mark| Some(Write::Drift { claim: claim(&mark.claim)?, mark }));
    let stamps = orders.stamps.into_iter();
    let repairs = orders.repairs.into_iter();
    let repairs = repairs.filter_map(|mark| Some(Write::Repair { claim: claim(&mark.disrupted.claim)?, mark }));
    let stamps = stamps.filter_map(|stamp| Some(Write::Stamp { claim: claim(&stamp.claim)?, stamp }));
    let notes = orders.notes.into_iter();
    let notes = notes.filter_map(|note| Some(Write::Note { pool: snapshot.pools.get(&note.pool)?.clone(), note }));
    marks.chain(stamps).chain(repairs).chain(notes).collect()
}

/// True for a write that is decided once and not anew at each look.
pub(super) fn is_decided_once(write: &Write) -> bool {
    matches!(write, Write::Drift { .. } | Write::Stamp { .. })
}

/// Claims of which a look has decided something.
pub(super) struct Decided<'a> {
    going: BTreeSet<&'a str>,
    marked: BTreeSet<&'a str>,
    stamped: BTreeSet<&'a str>,
}

impl<'a> Decided<'a> {
    pub(super) fn by(decision: &'a DisruptionDecision) -> Self {
        let going = decision.removals.iter().flat_map(|one| &one.claims).map(|disrupted| disrupted.claim.as_str());
        let orders = &decision.drift;
        Self {
            going: going.collect(),
            marked: orders.marks.iter().map(|mark| mark.claim.as_str()).collect(),
            stamped: orders.stamps.iter().map(|stamp| stamp.claim.as_str()).collect(),
        }
    }

    /// True if a write that has not begun is still to be made: its claim is not on its way out, and nothing else has been decided
    /// of it since.
    pub(super) fn leaves(&self, write: &Write) -> bool {
        let free = |claim: &str, anew: &BTreeSet<&str>| !self.going.contains(claim) && !anew.contains(claim);
        match write {
            Write::Drift { mark, .. } => free(&mark.claim, &self.marked),
            Write::Stamp { stamp, .. } => free(&stamp.claim, &self.stamped),
            _ => false,
        }
    }
}

impl Handler<InstancesSeen> for Disruptor {
    type Result = ();

    fn handle(&mut self, InstancesSeen(networks): InstancesSeen, ctx: &mut Self::Context) {
        self.memory.learn_networks(networks);
        self.look_at_change(SETTLING_TIME, ctx);
    }
}

impl Disruptor {
    /// Orders and tells what is decided of drift and repair, but for removals and writes.
    pub(super) fn order(&self, decision: &DisruptionDecision, snapshot: &Snapshot) {
        for removal in &decision.removals {
            let DisruptionCause::Unhealthy { condition, .. } = removal.cause else { continue };
            let claims = removal.claims.iter().filter_map(|disrupted| snapshot.claims.get(&disrupted.claim));
            claims
                .for_each(|entry| measures::claim_unhealthy(&self.env, &entry.claim, condition, removal.cause.grace()));
        }
        let orders = &decision.drift;
        orders.marks.iter().for_each(|mark| self.tell_drift(mark));
        orders.unpinned.iter().for_each(|class| self.warn_unpinned(class));
        let begin: Vec<String> = orders.begin.iter().map(|disrupted| disrupted.claim.clone()).collect();
        if !begin.is_empty() {
            self.tell_begin(orders);
            self.mark(begin, true);
        }
        orders.first.iter().for_each(|one| self.tell_ended_first(one));
        orders.lost.iter().for_each(|one| self.tell_lost_slot(one));
        let stay: Vec<String> = orders.stay.iter().map(|one| one.disrupted.claim.clone()).collect();
        if !stay.is_empty() {
            orders.stay.iter().for_each(|one| self.tell_stays(one));
            self.mark(stay, false);
        }
        decision.not_repaired.iter().for_each(|one| self.tell_not_repaired(one));
    }

    fn mark(&self, claims: Vec<String>, deleting: bool) {
        self.env.post(&self.links.cluster, MarkDeleting { term: self.env.term, claims, deleting });
    }

    fn tell_drift(&self, mark: &DriftMark) {
        let (node_claim, node) = (mark.claim.clone(), mark.node.clone());
        let Some((reason, what)) = &mark.drifted else {
            return self.env.emit(LogEvent::DriftCleared { node_claim, node });
        };
        let (reason, why) = (reason.name().to_owned(), what.clone());
        let record = Record::normal(claim_object(&mark.claim, &mark.uid), "Drifted", format!("{reason}: {why}"));
        self.env.post(&self.links.recorder, record);
        self.env.emit(LogEvent::Drifted { node_claim, node, reason, why });
    }

    fn tell_begin(&self, orders: &Orders) {
        let mut by_pool: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for disrupted in &orders.begin {
            by_pool.entry(&disrupted.pool).or_default().push(&disrupted.node);
        }
        for (pool, nodes) in by_pool {
            let names = Names::first(NAMES_LISTED, nodes.iter().map(|node| (*node).to_owned()));
            self.env.emit(LogEvent::Replacing { node_pool: pool.to_owned(), nodes: names });
        }
    }

    fn tell_stays(&self, one: &UnreplacedNode) {
        let (node, node_claim) = (one.disrupted.node.clone(), one.disrupted.claim.clone());
        let (why, pause_seconds) = (one.why.clone(), one.pause);
        self.env.emit(LogEvent::ReplacementOff { node, node_claim, why, pause_seconds });
    }

    fn tell_ended_first(&self, one: &EndedFirst) {
        let EndedFirst { disrupted, reservation } = one;
        let message = format!(
            "Ended before its successor is launched: its only place is its own instance of capacity reservation {reservation}, which is full"
        );
        let objects =
            [node_object(&disrupted.node, &disrupted.node_uid), claim_object(&disrupted.claim, &disrupted.uid)];
        for object in objects {
            self.env.post(&self.links.recorder, Record::normal(object, "TerminatingFirst", &*message));
        }
        let (node, node_claim, reservation) = (disrupted.node.clone(), disrupted.claim.clone(), reservation.clone());
        self.env.emit(LogEvent::TerminatingFirst { node, node_claim, reservation });
    }

    fn tell_lost_slot(&self, one: &LostSlot) {
        let LostSlot { pool, uid, node, reservation, news } = one;
        let message = format!(
            "Somebody else has the instance of capacity reservation {reservation} that node {node} gave up: its pods wait until one is free, and no other node is ended first"
        );
        let object = reference("karpenter.sh/v1", "NodePool", "", pool, uid);
        let record = Record::warning(object, "ReservedInstanceLost", message).quiet_for(LOST_REPEAT_INTERVAL);
        self.env.post(&self.links.recorder, record);
        if *news {
            let (node_pool, node, reservation) = (pool.clone(), node.clone(), reservation.clone());
            self.env.emit(LogEvent::ReservedInstanceLost { node_pool, node, reservation });
        }
    }

    fn warn_unpinned(&self, class: &Unpinned) {
        let Unpinned { class, uid, selector, image } = class;
        let message = format!(
            "Nodes drift because {selector} now finds image {image}: such a selector replaces nodes whenever an image is published, which is unsafe in production; name one image or version"
        );
        let object = reference("karpenter.k8s.aws/v1", "EC2NodeClass", "", class, uid);
        let record = Record::warning(object, "UnpinnedImage", message).quiet_for(UNPINNED_REPEAT_INTERVAL);
        self.env.post(&self.links.recorder, record);
        let (node_class, selector, image) = (class.clone(), selector.clone(), image.clone());
        self.env.emit(LogEvent::UnpinnedImage { node_class, selector, image });
    }

    fn tell_not_repaired(&self, one: &NotRepaired) {
        let (unwell, all) = one.unwell;
        let consequence = one.why.consequence();
        let message = format!("{unwell} of {all} nodes of nodepool {} are unhealthy: {consequence}", one.pool);
        let object = node_object(&one.node, &one.node_uid);
        // Without counts: an event whose text changes is another event, and would be said at each look.
        let said = format!("Several nodes of nodepool {} are unhealthy: {consequence}", one.pool);
        let record = Record::warning(object, "NodeRepairBlocked", said).quiet_for(REPAIR_REPEAT_INTERVAL);
        self.env.post(&self.links.recorder, record);
        if one.news {
            self.env.emit(LogEvent::NodeRepairBlocked { node: one.node.clone(), why: message });
        }
    }
}
