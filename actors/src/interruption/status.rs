//! EC2's status checks, asked for every minute whether there is a queue or not. What follows from them is decided by
//! `dovetail_core::interruption::status`: an instance whose checks fail goes by force, for an event its node is replaced first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudInstances;
use dovetail_core::cluster_state::{ClaimEntry, Snapshot};
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::status::{Judged, Trouble, judge};
use dovetail_core::interruption::{Announcement, InterruptionKind, InterruptionNotice};
use jiff::SignedDuration;
use kube::ResourceExt;

use super::claims::ClaimsByInstance;
use super::{Due, Interruption, InterruptionLinks};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::messages::{ClaimRef, Record, Remove, TakeSnapshot, TraceContext};
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;

/// Interval between two questions to EC2 (aws spec 5.1).
const PAUSE: Duration = Duration::from_secs(60);
/// Longest pause while it does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Minimum time between two reports that too many instances fail (core spec 7.2).
const BRAKED_REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// Findings of the status checks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Troubled(Vec<Trouble>);

/// Asks EC2 until the term ends.
pub(super) async fn poll(links: InterruptionLinks, env: Env, to: Addr<Interruption>) {
    tokio::select! {
        biased;
        () = links.leader_term.over() => {}
        () = ask(&*links.cloud, env, to) => {}
    }
}

async fn ask(cloud: &dyn CloudInstances, env: Env, to: Addr<Interruption>) {
    const WHAT: &str = "asking for the status of instances";
    let mut backoff = Backoff::new(PAUSE, LONGEST_PAUSE, env.rng("status"));
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        match cloud.instance_troubles().await {
            Ok(troubles) => {
                if backoff.failures() > 0 {
                    env.emit(LogEvent::Recovered { what: WHAT.to_owned(), attempts: backoff.failures() + 1 });
                }
                backoff.reset();
                pause = PAUSE;
                if to.send(Troubled(troubles)).await.is_err() {
                    return;
                }
            }
            Err(error) if error.is_denied() => {
                return env.emit(LogEvent::StatusForbidden { error: error.to_string() });
            }
            Err(error) => {
                pause = backoff.pause();
                if backoff.failures() == 1 {
                    env.emit(LogEvent::Retrying { what: WHAT.to_owned(), error: error.to_string() });
                }
            }
        }
    }
}

impl Handler<Troubled> for Interruption {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Troubled(troubles): Troubled, _: &mut Self::Context) -> Self::Result {
        if troubles.is_empty() {
            self.removed.clear();
            return Box::pin(async {}.into_actor(self));
        }
        let snapshot = self.links.cluster.send(TakeSnapshot).into_actor(self);
        Box::pin(snapshot.map(move |snapshot, actor, ctx| {
            if let (Ok(Some(snapshot)), true) = (snapshot, actor.links.leader_term.holds()) {
                actor.judge_troubles(troubles, &snapshot, ctx);
            }
        }))
    }
}

impl Interruption {
    fn judge_troubles(&mut self, troubles: Vec<Trouble>, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let known: BTreeMap<&str, bool> =
            snapshot.claims.values().map(|entry| (entry.facts.uid.as_str(), entry.facts.deleting)).collect();
        self.removed.keep_awaited(&known, self.env.now());
        let stays = |claim: &&Arc<ClaimEntry>| {
            !claim.facts.deleting
                && InterruptionNotice::on(&claim.claim).is_none()
                && !self.removed.is_asked(&claim.facts.uid)
        };
        let claims = ClaimsByInstance::from_snapshot(snapshot);
        // An event is found again at each look until it is written on the claim.
        let news = |one: &Trouble| !self.events.is_being_written(&event_of(one));
        let wall = self.env.wall();
        let counts = |one: &Trouble| {
            let claim = claims.on(&one.instance).filter(stays);
            let fails_anyway = |claim: &ClaimEntry| claim.facts.reboot.is_some_and(|reboot| reboot.fails_checks(wall));
            claim.is_some_and(|claim| one.kind == InterruptionKind::EventStatus || !fails_anyway(claim))
        };
        let own: Vec<Trouble> = troubles.into_iter().filter(|one| counts(one) && news(one)).collect();
        let Judged { go, braked } = judge(&own, snapshot.claims.len(), self.removed.count(), wall);
        for trouble in &braked {
            if let Some(claim) = claims.on(&trouble.instance) {
                self.tell_braked(claim);
            }
        }
        if let Some(first) = braked.first() {
            self.pass_over("status_checks_of_many", &format!("{} of {}", first.kind, first.instance));
        }
        let mut due = Vec::new();
        for trouble in go {
            let Some(claim) = claims.on(&trouble.instance).cloned() else { continue };
            self.env.measure(&Measure::InstanceUnhealthy { category: trouble.kind.label() });
            self.count(trouble.kind.label());
            match trouble.kind {
                InterruptionKind::EventStatus => due.extend(self.scheduled(trouble, claim)),
                _ => self.remove_unhealthy(&trouble, &claim),
            }
        }
        if !due.is_empty() {
            let due = due.into_iter().map(|one| (String::new(), vec![one])).collect();
            self.act(due, true, "", ctx);
        }
    }

    /// An event of the status checks is as one of AWS Health.
    fn scheduled(&mut self, trouble: Trouble, claim: Arc<ClaimEntry>) -> Option<Due> {
        let (begins, now) = (trouble.time, self.env.wall());
        let event = event_of(&trouble);
        let Trouble { instance, kind, .. } = trouble;
        let instances = vec![instance.clone()];
        let announced = Announcement { id: event.clone(), kind, instances, time: Some(now), begins };
        let notice = InterruptionNotice::from_announcement(&announced, None, now).ok().flatten()?;
        let trace = TraceContext::root(&mut self.rng);
        self.events.begin(&event);
        Some(Due { event, notice, claim, instance, trace })
    }

    fn remove_unhealthy(&mut self, trouble: &Trouble, claim: &ClaimEntry) {
        let Trouble { instance, kind, what, .. } = trouble;
        self.removed.ask(&claim.facts.uid, self.env.now());
        self.record(claim, *kind, format!("Instance {instance}: its check {what} ({kind}) has failed for two minutes"));
        let trace = TraceContext::root(&mut self.rng);
        let (node_claim, instance, check) = (claim.claim.name_any(), instance.clone(), what.clone());
        self.env
            .emit_in(LogEvent::StatusFailed { node_claim, instance, status: kind.label().to_owned(), check }, trace);
        let claims = vec![ClaimRef { name: claim.claim.name_any(), uid: claim.facts.uid.clone() }];
        // EC2 itself finds the instance broken: nothing on it is waited for.
        let grace = Some(SignedDuration::ZERO);
        let order = Remove {
            term: self.env.term,
            claims,
            reason: RemovalReason::Unhealthy,
            grace,
            disrupted: BTreeMap::new(),
            trace,
        };
        self.env.post(&self.links.terminator, order);
    }

    /// Without counts: an event whose text changes is another event, and would be said at each look.
    fn tell_braked(&self, claim: &ClaimEntry) {
        const WHY: &str = "More than 20% of the nodes fail their status checks: none is removed";
        self.record_of(claim, |one| Record::warning(one, "NodeRepairBlocked", WHY).quiet_for(BRAKED_REPEAT_INTERVAL));
    }
}

/// Key of a finding of the status checks.
fn event_of(trouble: &Trouble) -> String {
    format!("{} of {}", trouble.what, trouble.instance)
}
