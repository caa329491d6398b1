//! Hears from the SQS queue which instances the cloud takes away, and says so at once: their nodes are leaving, their pods
//! are to be packed elsewhere, and their ends are to be written down. A message is deleted when that is written, so that
//! one that a dying leader had in its hands comes again to the next; once the term is over none is received or deleted.
//! What a message means is decided by `dovetail_core::interruption`.
//!
//! At the mailbox's bound: the queue is read no faster than messages are passed on, and no further while
//! [`MOST_UNWRITTEN`] wait to be written; what is not read waits in the queue.

mod acting;
mod claims;
mod condition;
mod deletion;
mod queue;
mod status;
mod unheard;
mod unknown;

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::{Cloud, CloudError, QueueMessage};
use dovetail_core::cluster_state::ClaimEntry;
use dovetail_core::interruption::{
    Announcement, AskedRemovals, InterruptionKind, InterruptionNotice, KnownEvents, PassedOver, Rebalancing,
};
use dovetail_core::say_once::SayOnce;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToPacker, ToRecorder, ToTerminator};
use crate::messages::{Counts, InterruptionState, Observe, Record, TakeSnapshot, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use claims::ClaimsByInstance;

/// Messages that wait to be written down before more are read.
const MOST_UNWRITTEN: usize = 1000;
/// Claims of which the last report is remembered.
const MOST_SAID: usize = 10_000;
/// Addresses that the interruption actor sends to.
#[derive(Clone)]
pub struct InterruptionLinks {
    /// For snapshots and marks.
    pub cluster: ToClusterWatcher,
    /// For offerings that were taken back.
    pub catalogue: ToCatalogue,
    /// For pods that lose their node.
    pub packer: ToPacker,
    /// For claims that are to go.
    pub terminator: ToTerminator,
    /// For events.
    pub recorder: ToRecorder,
    /// Cloud whose queue is read and whose messages are deleted.
    pub cloud: Arc<dyn Cloud>,
    /// For the condition of pools whose interruptions nobody hears.
    pub calls: Calls,
    /// Term of the leader; a message that arrives after its end is left to the next leader.
    pub leader_term: LeaderTerm,
}

/// The actor `interruption`: acts on what EC2 announces of instances through the interruption queue.
pub struct Interruption {
    env: Env,
    links: InterruptionLinks,
    rng: fastrand::Rng,
    /// Messages by their result.
    counts: Counts,
    /// Calls to the queue that failed.
    failures: u64,
    /// Messages that wait to be written down.
    unwritten: usize,
    /// Events of which what they announce is written, or is being written.
    events: KnownEvents,
    /// Last report about each claim that is taken away, by its uid: a message that could not be written comes again without news.
    said: SayOnce<String, (String, InterruptionKind)>,
    passed_over: PassedOver,
    /// Messages to be deleted.
    deletions: deletion::Deletions,
    /// Messages about instances that no claim has yet.
    unknown: unknown::UnknownInstances,
    /// Claims that follow a recommendation to rebalance.
    rebalancing: Rebalancing,
    /// Claims whose removal was asked for as their checks fail.
    removed: AskedRemovals,
    /// Spot nodes whose interruptions nobody hears, and who was told of it.
    unheard: unheard::UnheardSpot,
}

/// Messages of the queue.
#[derive(Message)]
#[rtype(result = "()")]
struct Received {
    queue_url: String,
    messages: Vec<QueueMessage>,
}

/// A call to the queue has failed.
#[derive(Message)]
#[rtype(result = "()")]
struct Failed(CloudError);

/// A call to the queue was answered: the first, or the first after one that failed.
#[derive(Message)]
#[rtype(result = "()")]
struct Heard;

/// An instance that a message takes away.
struct Due {
    event: String,
    notice: InterruptionNotice,
    claim: Arc<ClaimEntry>,
    instance: String,
    trace: TraceContext,
}

impl Interruption {
    /// At the start of a term.
    pub fn new(env: &Env, links: InterruptionLinks) -> Self {
        let env = env.for_actor("interruption");
        let rng = env.rng("trace");
        Self {
            env,
            links,
            rng,
            counts: Counts::new(),
            failures: 0,
            unwritten: 0,
            events: KnownEvents::default(),
            said: SayOnce::with_bound(MOST_SAID),
            passed_over: PassedOver::default(),
            deletions: deletion::Deletions::default(),
            unknown: unknown::UnknownInstances::default(),
            rebalancing: Rebalancing::default(),
            removed: AskedRemovals::default(),
            unheard: unheard::UnheardSpot::default(),
        }
    }
}

impl Actor for Interruption {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.env.settings.interruption_queue.is_empty() {
            self.look_unheard(ctx);
        } else {
            let listening = queue::listen(self.links.clone(), self.env.clone(), ctx.address());
            ctx.spawn(listening.into_actor(self));
        }
        let polling = status::poll(self.links.clone(), self.env.clone(), ctx.address());
        ctx.spawn(polling.into_actor(self));
    }
}

impl Handler<Failed> for Interruption {
    type Result = ();

    fn handle(&mut self, Failed(error): Failed, ctx: &mut Self::Context) {
        self.failures += 1;
        self.queue_failed(&error, ctx);
    }
}

impl Handler<Heard> for Interruption {
    type Result = ();

    fn handle(&mut self, _: Heard, ctx: &mut Self::Context) {
        self.queue_answered(ctx);
    }
}

impl Handler<Received> for Interruption {
    type Result = ResponseActFuture<Self, ()>;

    /// Answers when more may be read.
    fn handle(&mut self, received: Received, _: &mut Self::Context) -> Self::Result {
        let (cluster, patience) = (self.links.cluster.clone(), queue::RETRY_PAUSE);
        let snapshot = async move {
            loop {
                match cluster.send(TakeSnapshot).await {
                    Ok(None) => tokio::time::sleep(patience).await,
                    other => return other.ok().flatten(),
                }
            }
        };
        Box::pin(snapshot.into_actor(self).then(move |snapshot, actor, ctx| {
            if let Some(snapshot) = snapshot.filter(|_| actor.links.leader_term.holds()) {
                actor.act_on(received, &ClaimsByInstance::from_snapshot(&snapshot), true, ctx);
            }
            let this = ctx.address();
            let room = !actor.is_crowded();
            async move {
                // Those that wait are written, or their term ends.
                while !room && this.send(Crowded).await.unwrap_or(false) {
                    tokio::time::sleep(patience).await;
                }
            }
            .into_actor(actor)
        }))
    }
}

/// Asks if too many messages wait to be written down.
#[derive(Message)]
#[rtype(result = "bool")]
struct Crowded;

impl Handler<Crowded> for Interruption {
    type Result = bool;

    fn handle(&mut self, _: Crowded, _: &mut Self::Context) -> bool {
        self.is_crowded()
    }
}

impl Handler<Observe> for Interruption {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = InterruptionState {
            queue: self.env.settings.interruption_queue.clone(),
            messages: self.counts.clone(),
            failures: self.failures,
            unwritten: self.unwritten,
            unknown: self.unknown.len(),
            unheard: self.unheard.nodes(),
            lost: self.unheard.lost(),
        };
        MessageResult(state.into())
    }
}

impl Interruption {
    /// True if no more messages are to be read for now.
    fn is_crowded(&self) -> bool {
        self.unwritten >= MOST_UNWRITTEN || self.deletions.len() >= MOST_UNWRITTEN
    }

    /// Acts on what the queue has given, now or before; what asks for nothing is deleted.
    fn act_on(&mut self, received: Received, claims: &ClaimsByInstance<'_>, new: bool, ctx: &mut Context<Self>) {
        let Received { queue_url, messages } = received;
        let (mut due, mut done) = (Vec::new(), Vec::new());
        let last = messages.len() < queue::FULL;
        for message in messages {
            let Some(announced) = self.parse(&message, new) else {
                done.push(message.receipt);
                continue;
            };
            let known = announced.instances.iter().any(|id| claims.on(id).is_some());
            if !known
                && new
                && !self.events.is_written(&announced.id)
                && self.keep_unknown(&announced, &message, &queue_url, ctx)
            {
                continue;
            }
            self.unknown.forget(&announced.id);
            match self.interpret(announced, message.sent, claims) {
                // It comes again, and by then it is known whether it was written.
                None => {}
                Some(found) if found.is_empty() => done.push(message.receipt),
                Some(found) => due.push((message.receipt, found)),
            }
        }
        self.delete(&queue_url, done, ctx);
        if !due.is_empty() {
            self.act(due, last, &queue_url, ctx);
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Parses a message's announcement, if it has one. A new message is counted.
    fn parse(&mut self, message: &QueueMessage, new: bool) -> Option<Announcement> {
        let waited = message.sent.map(|sent| self.env.wall().duration_since(sent).as_secs_f64());
        match Announcement::parse(&message.body) {
            Ok(announced) => {
                if new {
                    self.count(announced.kind.label());
                    self.env.measure(&Measure::MessageReceived { kind: announced.kind.label(), waited });
                }
                Some(announced)
            }
            Err(ignored) => {
                self.count(ignored.label());
                self.env.measure(&Measure::MessageReceived { kind: ignored.label(), waited });
                if ignored.is_odd() {
                    self.pass_over(ignored.label(), &ignored.to_string());
                }
                None
            }
        }
    }

    /// Returns the work that an announcement asks for; empty for most. `None` while the work of an earlier one like it is being
    /// written.
    fn interpret(
        &mut self,
        announced: Announcement,
        sent: Option<Timestamp>,
        claims: &ClaimsByInstance<'_>,
    ) -> Option<Vec<Due>> {
        if self.events.is_being_written(&announced.id) {
            self.count("being_written");
            return None;
        }
        if self.events.is_written(&announced.id) {
            self.count("duplicate");
            return Some(Vec::new());
        }
        let notice = match InterruptionNotice::from_announcement(&announced, sent, self.env.wall()) {
            Ok(notice) => notice,
            Err(late) => {
                self.count("late");
                self.pass_over("late", &format!("{} of {}: {late}", announced.kind, announced.instances.join(", ")));
                return Some(Vec::new());
            }
        };
        let trace = TraceContext::of_event(&announced.id, &mut self.rng);
        let mut due = Vec::new();
        for instance in &announced.instances {
            let Some(claim) = claims.on(instance) else {
                self.count("unknown_instance");
                // Every cluster of an account hears of every instance, and we of those that we have just ended.
                if !announced.kind.is_over() {
                    self.pass_over("unknown_instance", &format!("{} of {instance}", announced.kind));
                }
                continue;
            };
            let Some(notice) = notice.or_else(|| self.recommended(claim, instance, claims.snapshot, trace)) else {
                continue;
            };
            let known = InterruptionNotice::on(&claim.claim);
            if claim.claim.metadata.deletion_timestamp.is_some()
                || known.is_some_and(|known| known.sooner(notice) == known)
            {
                self.count("known_already");
                continue;
            }
            let (event, claim, instance) = (announced.id.clone(), claim.clone(), instance.clone());
            due.push(Due { event, notice, claim, instance, trace });
        }
        if !due.is_empty() {
            self.events.begin(&announced.id);
        }
        Some(due)
    }

    /// Tells of a message that is passed over, unless one like it was told of lately.
    fn pass_over(&mut self, reason: &'static str, example: &str) {
        if let Some(messages) = self.passed_over.note(reason, self.env.now()) {
            let (reason, example) = (reason.to_owned(), example.to_owned());
            self.env.emit(LogEvent::MessagesIgnored { reason, messages, example });
        }
    }

    fn record(&self, claim: &ClaimEntry, kind: InterruptionKind, message: String) {
        let warning = kind != InterruptionKind::RebalanceRecommendation;
        self.record_of(claim, |one| Record { warning, ..Record::normal(one, kind.event(), &*message) });
    }

    /// Writes an event at a claim and at its Node.
    pub(super) fn record_of(&self, claim: &ClaimEntry, record: impl Fn(ObjectReference) -> Record) {
        let node = claim.claim.status.as_ref().map(|status| status.node_name.as_str()).filter(|name| !name.is_empty());
        for one in [Some(object::claim(&claim.claim)), node.map(object::node_named)].into_iter().flatten() {
            self.env.post(&self.links.recorder, record(one));
        }
    }
}
