//! Takes part in the election on every replica: looks at the Lease, takes it, renews it, and ends the term at its
//! deadline with nobody's help. What to do is decided by `dovetail_core::lease`; here it is done.
//!
//! A standby watches the Lease: one that is given back is taken at once, and one that runs out as soon as it does.
//!
//! At the mailbox's bound: one look at a time; the deadline's alarm does not wait for it.

mod calls;
mod distrust;
mod skew;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::lease::{
    Deposition, Distrust, Election, JITTER, LeaseInput, LeaseOutput, LeaseSettings, LeaseView, LeaseWrite,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube_runtime::watcher::{Config, Event};

use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::kube::watch::{WatchNews, tell_failure, tell_recovered, watch_some};
use crate::leadership::lease_object::LeaseObject;
use crate::leadership::messages::{Deposed, Elected, ReleaseLease};
use crate::links::ToClusterWatcher;
use crate::messages::{LeaderState, Observe, Term};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;
use calls::{CallFailure, give_back, held_by, read_lease, write};

/// Pause after a call that failed: a renewal is not to wait for its turn while the deadline comes nearer.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Pause between two looks at whether claims are known yet.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

const NO_ANSWER: &str = "the API server does not answer";
/// The fence knows a newer term than the Lease.
const SHUT_OUT: &str = "the API server knows a newer term, although this replica holds the lease: the fence uses another lease, or this one was restored";

/// Takes part in the election, and keeps the deadline by which the leader's actors may write.
pub struct Leader {
    env: Env,
    client: Client,
    lease: LeaseObject,
    cluster: ToClusterWatcher,
    elected: Recipient<Elected>,
    deposed: Recipient<Deposed>,
    settings: LeaseSettings,
    election: Election,
    leader_term: Option<LeaderTerm>,
    reported_holder: Option<String>,
    /// Reason last reported for ignoring the Lease.
    distrusted: Option<Distrust>,
    released: bool,
    rng: fastrand::Rng,
    /// A look or a write is under way.
    busy: Rc<Cell<bool>>,
    /// Something was heard meanwhile.
    heard: bool,
    next: Option<SpawnHandle>,
    /// Rings at the deadline of the term.
    deadline: Option<SpawnHandle>,
    /// True after an attempt to take the Lease: a lost answer may hide that it succeeded.
    tried: bool,
    /// Calls that failed in a row, and why the last one did.
    failures: u32,
    failed: String,
    /// Writes that failed since one was done, or since none was due.
    unwritten: u32,
    /// Skew of the clock as last reported.
    skew: i8,
}

/// The Lease has changed, and not by this replica.
#[derive(Message)]
#[rtype(result = "()")]
struct Changed;

impl Leader {
    /// A standby; whom it tells that it leads, and that it no longer does.
    pub fn new(
        env: &Env,
        client: Client,
        cluster: ToClusterWatcher,
        elected: Recipient<Elected>,
        deposed: Recipient<Deposed>,
    ) -> Self {
        let env = env.for_actor("leader");
        let settings = env.settings.lease;
        Self {
            lease: LeaseObject::new(client.clone(), &env.settings.lease_namespace, &env.settings.lease_name),
            client,
            election: Election::new(&*env.identity, settings),
            settings,
            cluster,
            elected,
            deposed,
            leader_term: None,
            reported_holder: None,
            distrusted: None,
            released: false,
            rng: env.rng("pauses"),
            busy: Rc::default(),
            heard: false,
            next: None,
            deadline: None,
            tried: false,
            failures: 0,
            failed: String::new(),
            unwritten: 0,
            skew: 0,
            env,
        }
    }
}

impl Actor for Leader {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.env.settings.disable_leader_election {
            self.lead(LeaderTerm::new(Term(1), Duration::MAX, self.env.clock()));
        } else {
            self.read_lease(ctx);
            let (this, env, own) = (ctx.address(), self.env.clone(), self.env.identity.clone());
            let only = Config::default().fields(&format!("metadata.name={}", self.env.settings.lease_name));
            let on = move |heard: WatchNews<Lease>| match heard {
                WatchNews::Event(Event::Init | Event::InitDone) | WatchNews::Failed(..) | WatchNews::Runs => {}
                WatchNews::Event(Event::Apply(lease) | Event::InitApply(lease)) if held_by(&lease) == Some(&*own) => {}
                WatchNews::Event(Event::Apply(_) | Event::InitApply(_) | Event::Delete(_)) | WatchNews::NotRead(..) => {
                    env.post(&this, Changed);
                }
            };
            let api = LenientApi::namespaced(self.client.clone(), &self.env.settings.lease_namespace);
            ctx.spawn(watch_some(api, only, self.env.clone(), "the lease", on).into_actor(self));
        }
    }
}

impl Handler<Changed> for Leader {
    type Result = ();

    fn handle(&mut self, _: Changed, ctx: &mut Self::Context) {
        // A message only starts a look: its contents may be old by now.
        if self.busy.get() {
            self.heard = true;
        } else {
            self.read_lease(ctx);
        }
    }
}

impl Handler<ReleaseLease> for Leader {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: ReleaseLease, _: &mut Self::Context) -> Self::Result {
        self.released = true;
        if let Some(leader_term) = self.leader_term.take() {
            leader_term.end();
            self.env.in_term(leader_term.term()).emit(LogEvent::Deposed { why: "shutting down".into() });
        }
        // A write that is under way, or was not answered, may name this replica.
        if self.election.leads().is_none() && !self.busy.get() && !self.tried {
            return Box::pin(async {});
        }
        let (lease, env, busy) = (self.lease.clone(), self.env.clone(), self.busy.clone());
        let patience = self.settings.patience();
        Box::pin(async move {
            let _ = tokio::time::timeout(patience, give_back(&lease, &env, &busy)).await;
        })
    }
}

impl Handler<Observe> for Leader {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let term = self.leader_term.as_ref().map(|leader_term| leader_term.term().0);
        let refuses = self.election.distrust().map(|distrust| self.distrust_in_words(distrust));
        let (holder, clock_ahead_seconds) = (self.election.holder().to_owned(), self.env.skew().ahead.as_secs());
        MessageResult(LeaderState { leads: term.is_some(), term, holder, refuses, clock_ahead_seconds }.into())
    }
}

impl Leader {
    /// Reads the Lease and goes on from there.
    fn read_lease(&mut self, ctx: &mut Context<Self>) {
        if self.released {
            return;
        }
        if let Some(next) = self.next.take() {
            ctx.cancel_future(next);
        }
        self.busy.set(true);
        self.heard = false;
        let reading = read_lease(self.lease.clone(), self.env.clone(), self.settings, self.cluster.clone());
        ctx.spawn(reading.into_actor(self).map(|read, leader, ctx| {
            let read = read.map(|(read, terms)| {
                leader.election.saw_term(terms.highest);
                if let Some(claim) = terms.absurd {
                    let what = format!("reading the term of NodeClaim {claim}");
                    leader.env.emit(LogEvent::Retrying { what, error: "no leader can have had it: not heeded".into() });
                }
                read
            });
            let input = leader.heard_of_lease(read);
            leader.step(input, ctx);
        }));
    }

    fn step(&mut self, input: LeaseInput, ctx: &mut Context<Self>) {
        if self.released {
            self.busy.set(false);
            return;
        }
        let failed = matches!(input, LeaseInput::Failed);
        let pause = if failed { AFTER_FAILURE.min(self.settings.retry) } else { self.settings.retry };
        match self.election.step(input, self.env.now()) {
            LeaseOutput::Write(write) => self.write(write, ctx),
            LeaseOutput::Wait => {
                if !failed && std::mem::take(&mut self.unwritten) > 0 {
                    self.env.outage.gave_up(&self.writing());
                }
                self.extend(ctx);
                self.look_in(pause, ctx);
            }
            LeaseOutput::Elected { term } => {
                let until = self.election.leads().map_or(Duration::ZERO, |(_, until)| until);
                self.lead(LeaderTerm::new(Term(term), until, self.env.clock()));
                self.watch_deadline(ctx);
                self.look_in(pause, ctx);
            }
            LeaseOutput::Deposed { term, why } => {
                self.depose(term, self.reason(why));
                // Until its deadline who led may take the next Lease at once.
                let again = if why == Deposition::Missing { AFTER_FAILURE } else { pause };
                self.look_in(again, ctx);
            }
        }
        self.tell_holder();
        self.tell_distrust();
    }

    fn lead(&mut self, leader_term: LeaderTerm) {
        let env = self.env.in_term(leader_term.term());
        env.emit(LogEvent::Elected { lease: self.env.settings.lease_name.clone() });
        self.leader_term = Some(leader_term.clone());
        self.reported_holder = None;
        self.env.post(&self.elected, Elected { leader_term });
    }

    fn reason(&self, why: Deposition) -> String {
        match why {
            Deposition::NotRenewed if self.failed.is_empty() => "the lease could not be renewed in time".to_owned(),
            Deposition::NotRenewed => format!("the lease could not be renewed in time: {}", self.failed),
            Deposition::Taken => "the lease is another's, or of another term".to_owned(),
            Deposition::Missing => "the lease is gone".to_owned(),
        }
    }

    fn depose(&mut self, term: u64, why: String) {
        if let Some(leader_term) = self.leader_term.take() {
            leader_term.end();
        }
        self.env.in_term(Term(term)).emit(LogEvent::Deposed { why: why.clone() });
        self.env.post(&self.deposed, Deposed { why });
    }

    fn extend(&mut self, ctx: &mut Context<Self>) {
        // To go on renewing would keep others from leading while nothing is done here.
        if self.leader_term.as_ref().is_some_and(LeaderTerm::has_ended) {
            if let Some(term) = self.election.resign() {
                self.depose(term, SHUT_OUT.to_owned());
            }
            return;
        }
        if let (Some(leader_term), Some((_, until))) = (&self.leader_term, self.election.leads()) {
            leader_term.extend(until);
            self.watch_deadline(ctx);
        }
    }

    /// Sets the alarm at the deadline, whatever the calls under way come to; one before it is called off.
    fn watch_deadline(&mut self, ctx: &mut Context<Self>) {
        let Some((_, until)) = self.election.leads() else { return };
        let left = until.saturating_sub(self.env.now()).max(Duration::from_millis(1));
        if let Some(earlier) = self.deadline.take() {
            ctx.cancel_future(earlier);
        }
        let alarm = ctx.run_later(left, |leader, _| {
            leader.deadline = None;
            // A replica that has given the Lease back has reported it, and its term is over.
            if leader.released {
                return;
            }
            if let LeaseOutput::Deposed { term, why } = leader.election.step(LeaseInput::Time, leader.env.now()) {
                leader.depose(term, leader.reason(why));
            }
        });
        self.deadline = Some(alarm);
    }

    /// Looks again after a pause; at once if something has changed meanwhile.
    fn look_in(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        self.busy.set(false);
        if self.heard {
            self.read_lease(ctx);
            return;
        }
        let jitter = if self.leader_term.is_some() { 1.0 } else { 1.0 + JITTER * self.rng.f64() };
        let pause = self.election.pause(pause.mul_f64(jitter), self.env.now());
        self.next = Some(ctx.run_later(pause, |leader, ctx| leader.read_lease(ctx)));
    }

    fn write(&mut self, order: LeaseWrite, ctx: &mut Context<Self>) {
        let asked = self.env.now();
        self.tried |= order.acquires;
        let writing = write(self.lease.clone(), self.env.clone(), self.settings, order).into_actor(self);
        ctx.spawn(writing.map(move |written, leader, ctx| {
            leader.tell_unwritten(&written);
            let input = leader.heard_of_lease(written.map(|lease| LeaseInput::Wrote { lease, asked }));
            leader.step(input, ctx);
        }));
    }

    /// Handles the outcome of a call; a failure's reason is kept, and the recovery is reported once.
    fn heard_of_lease(&mut self, answer: Result<LeaseInput, CallFailure>) -> LeaseInput {
        let what = format!("asking for lease {}", self.env.settings.lease_name);
        match answer {
            Ok(input) => {
                self.env.outage.answered(self.env.now());
                tell_recovered(&self.env, &what, self.failures);
                (self.failures, self.failed) = (0, String::new());
                self.tell_skew();
                input
            }
            Err(error) => {
                if error.unanswered {
                    self.env.outage.unanswered();
                }
                self.failures = self.failures.saturating_add(1);
                tell_failure(&self.env, &what, self.failures, &error.words, error.unreached);
                self.failed = error.words;
                LeaseInput::Failed
            }
        }
    }

    /// Says once that the Lease can be read and not written, as where the right to it is missing: nobody would know otherwise why
    /// this replica never leads.
    fn tell_unwritten(&mut self, written: &Result<LeaseView, CallFailure>) {
        let what = self.writing();
        match written {
            Ok(_) => {
                tell_recovered(&self.env, &what, self.unwritten);
                self.unwritten = 0;
            }
            Err(error) => {
                self.unwritten = self.unwritten.saturating_add(1);
                tell_failure(&self.env, &what, self.unwritten, &error.words, error.unreached);
            }
        }
    }

    fn writing(&self) -> String {
        format!("writing lease {}", self.env.settings.lease_name)
    }

    /// Standbys say once who leads.
    fn tell_holder(&mut self) {
        let holder = self.election.holder().to_owned();
        // A Lease that names this replica is out of an earlier life of it, or of a term that has just ended.
        let another = !holder.is_empty() && *holder != *self.env.identity;
        if self.leader_term.is_none() && another && self.reported_holder.as_ref() != Some(&holder) {
            self.env.emit(LogEvent::Standby { holder: holder.clone() });
            self.reported_holder = Some(holder);
        }
    }
}
