//! Handling of an announcement: the nodes are marked and their pods packed, offerings and reservations that are taken back are
//! not requested, the ends are written down, and the message is deleted when they are.

use actix::dev::RecipientRequest;
use actix::prelude::*;
use dovetail_api::names::labels;
use dovetail_cloud::launch::OfferingRefusal;
use dovetail_core::cluster_state::{ClaimEntry, Snapshot};
use dovetail_core::interruption::{InterruptionKind, InterruptionNotice};
use kube::ResourceExt;

use super::{Due, Interruption};
use crate::context::traces;
use crate::messages::{ClaimRef, Interrupted, MarkDeleting, PackNow, Refused, ReservationTakenBack, TraceContext};
use crate::settings::{Interruptions, Rebalance};
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::span::{OpenSpan, names};

/// The code by which the catalogue knows an offering that EC2 has taken back.
const TAKEN_BACK: &str = "SpotInterrupted";

impl Interruption {
    /// Says a recommendation to rebalance. Answers what follows, where the settings want one to be followed and it is.
    pub(super) fn recommended(
        &mut self,
        claim: &ClaimEntry,
        instance: &str,
        snapshot: &Snapshot,
        trace: TraceContext,
    ) -> Option<InterruptionNotice> {
        let (node_claim, instance) = (claim.claim.name_any(), instance.to_owned());
        self.record(
            claim,
            InterruptionKind::RebalanceRecommendation,
            format!("EC2 recommends to rebalance instance {instance}"),
        );
        self.env.emit_in(LogEvent::RebalanceRecommended { node_claim, instance }, trace);
        let follows = self.env.settings.rebalance == Rebalance::Replace
            && self.rebalancing.follow(&claim.claim, snapshot.claims.values().map(|entry| &*entry.claim));
        follows.then(|| InterruptionNotice::of_recommendation(self.env.wall()))
    }

    /// `due`: what is to be done, by message; `last`: no more messages wait in the queue.
    pub(super) fn act(&mut self, due: Vec<(String, Vec<Due>)>, last: bool, queue_url: &str, ctx: &mut Context<Self>) {
        let all = || due.iter().flat_map(|(_, found)| found);
        let Some(trace) = all().next().map(|one| one.trace) else { return };
        let term = self.env.term;
        let replace = self.env.settings.interruption == Interruptions::Replace;
        if replace {
            let claims = all().map(|one| one.claim.claim.name_any()).collect();
            self.env.post(&self.links.cluster, MarkDeleting { term, claims, deleting: true });
        }
        let also: Vec<TraceContext> = all().skip(1).map(|one| one.trace).take(traces::MOST_LINKS).collect();
        let refusals: Vec<_> = all().filter_map(taken_back).collect();
        if !refusals.is_empty() {
            self.env.post(&self.links.catalogue, Refused { refusals, trace });
        }
        for id in all().filter_map(reservation_taken_back) {
            self.env.post(&self.links.catalogue, ReservationTakenBack { id });
        }
        for (receipt, found) in due {
            self.pass_on(receipt, found, queue_url.to_owned(), ctx);
        }
        // While more is to come, the mark has the packer wait for a moment, and pack for all of them.
        if replace && last {
            self.env.post(&self.links.packer, PackNow { term, trace, also });
        }
    }

    /// Has the ends that a message announces written down, and the message deleted when they all are.
    fn pass_on(&mut self, receipt: String, found: Vec<Due>, queue_url: String, ctx: &mut Context<Self>) {
        let Some(event) = found.first().map(|one| one.event.clone()) else { return };
        self.unwritten += 1;
        let written: Vec<_> = found.iter().map(|one| self.tell_and_send(one)).collect();
        let span = found.first().map(|one| self.span(one));
        let uids: Vec<String> = found.iter().filter_map(|one| one.claim.claim.uid()).collect();
        ctx.spawn(futures::future::join_all(written).into_actor(self).map(move |written, actor, ctx| {
            actor.unwritten -= 1;
            let all = written.into_iter().all(|written| written.unwrap_or(false));
            if let Some(span) = span {
                let span = if all { span } else { span.failed("NotWritten", "the announcement comes again") };
                span.end();
            }
            actor.events.end(&event, all);
            if all {
                uids.iter().for_each(|uid| actor.said.gone(uid));
            }
            let receipts = Some(receipt).filter(|receipt| all && !receipt.is_empty());
            actor.delete(&queue_url, receipts.into_iter().collect(), ctx);
        }));
    }

    /// Span of everything that follows from an announcement.
    fn span(&self, due: &Due) -> OpenSpan {
        let span = self.env.open(due.trace, None, "interruption").with(names::REASON, due.notice.kind.label());
        let span = span.with_all(|| traces::attributes(&due.claim.claim));
        span.with("dovetail.deadline", due.notice.deadline.to_string())
    }

    fn tell_and_send(&mut self, due: &Due) -> RecipientRequest<Interrupted> {
        let Due { notice, claim, trace, .. } = due;
        let node_claim = claim.claim.name_any();
        // A recommendation has been told, and ends nothing.
        let news = (due.event.clone(), notice.kind);
        let uid = claim.claim.uid().unwrap_or_default();
        if notice.kind != InterruptionKind::RebalanceRecommendation && self.said.is_news(uid, news) {
            self.tell_interrupted(due, &node_claim);
        }
        let claim = ClaimRef { name: node_claim, uid: claim.claim.uid().unwrap_or_default() };
        self.links.terminator.send(Interrupted { term: self.env.term, claim, notice: *notice, trace: *trace })
    }

    fn tell_interrupted(&self, due: &Due, node_claim: &str) {
        let Due { notice, claim, instance, trace, .. } = due;
        let (kind, deadline) = (notice.kind, format!("{:.0}", notice.deadline));
        self.record(claim, kind, format!("Instance {instance}: {kind}, runs until {deadline}"));
        let log_event = LogEvent::Interrupted {
            node_claim: node_claim.to_owned(),
            node: claim.claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default(),
            instance: instance.clone(),
            reason: kind.label().to_owned(),
            deadline,
        };
        self.env.emit_in(log_event, *trace);
    }
}

/// The offering that EC2 takes back: for a while it is not asked for again.
fn taken_back(due: &Due) -> Option<OfferingRefusal> {
    let label = |key: &str| due.claim.claim.labels().get(key).cloned();
    let refusal = OfferingRefusal {
        instance_type: label(labels::INSTANCE_TYPE)?,
        zone: label(labels::ZONE)?,
        capacity_type: label(labels::CAPACITY_TYPE)?,
        code: TAKEN_BACK.to_owned(),
        ..OfferingRefusal::default()
    };
    // A recommendation to leave also closes the offering, so that the next node is not placed there.
    let leaves =
        matches!(due.notice.kind, InterruptionKind::SpotInterruption | InterruptionKind::RebalanceRecommendation);
    (leaves && refusal.capacity_type == labels::SPOT).then_some(refusal)
}

/// The capacity reservation that EC2 takes back.
fn reservation_taken_back(due: &Due) -> Option<String> {
    let kind = due.notice.kind;
    let id = due.claim.claim.labels().get(labels::CAPACITY_RESERVATION_ID)?;
    (kind == InterruptionKind::CapacityReservationInterrupted).then(|| id.clone())
}
