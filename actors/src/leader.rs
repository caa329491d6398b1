//! Takes part in the election on every replica: looks at the Lease, takes it, renews it, and ends the term at its
//! deadline with nobody's help. What to do is decided by `dovetail_core::lease`; here it is done.
//!
//! A standby watches the Lease: one that is given back is taken at once, and one that runs out as soon as it does.
//!
//! At the mailbox's bound: one look at a time; the deadline's alarm does not wait for it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::annotations;
use dovetail_core::lease::{
    self, AHEAD, Deposition, Election, JITTER, LeaseInput, LeaseOutput, LeaseSettings, LeaseView, LeaseWrite, Origin,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::{Config, Event};
use serde_json::json;

use crate::backoff::Backoff;
use crate::cluster_watcher::ClusterWatcher;
use crate::control_plane::ControlPlane;
use crate::desk::Desk;
use crate::messages::{Deposed, Elected, Observe, Release, TakeSnapshot, Term};
use crate::story::Story;
use crate::tenure::Tenure;
use crate::watch::{tell_failed, tell_recovered, watch_some};

/// Pause after a call that failed: a renewal is not to wait for its turn while the deadline comes nearer.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Pause between two looks at whether claims are known yet.
const SOON: Duration = Duration::from_millis(50);

const NO_ANSWER: &str = "the API server does not answer";
/// The fence knows a newer term than the Lease.
const SHUT_OUT: &str =
    "the API server knows a newer term, though the lease is ours: the fence goes by another, or this one was restored";

/// See the module.
pub struct Leader {
    desk: Desk,
    api: Api<Lease>,
    cluster: Addr<ClusterWatcher>,
    control_plane: Addr<ControlPlane>,
    settings: LeaseSettings,
    election: Election,
    tenure: Option<Tenure>,
    told_holder: Option<String>,
    released: bool,
    rng: fastrand::Rng,
    /// A look or a write is under way.
    busy: Rc<Cell<bool>>,
    /// Something was heard meanwhile.
    heard: bool,
    next: Option<SpawnHandle>,
    /// It has tried to take the Lease: an answer that was lost may hide that it has it.
    tried: bool,
    /// Calls that failed in a row, and why the last one did.
    failures: u32,
    failed: String,
}

/// The Lease has changed, and not by this replica.
#[derive(Message)]
#[rtype(result = "()")]
struct Changed;

impl Leader {
    /// A standby.
    pub fn new(desk: &Desk, client: Client, cluster: Addr<ClusterWatcher>, control_plane: Addr<ControlPlane>) -> Self {
        let desk = desk.of("leader");
        let settings = desk.settings.lease;
        Self {
            api: Api::namespaced(client, &desk.settings.lease_namespace),
            election: Election::new(&*desk.identity, settings),
            settings,
            cluster,
            control_plane,
            tenure: None,
            told_holder: None,
            released: false,
            rng: desk.rng("pauses"),
            busy: Rc::default(),
            heard: false,
            next: None,
            tried: false,
            failures: 0,
            failed: String::new(),
            desk,
        }
    }
}

impl Actor for Leader {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.desk.settings.disable_leader_election {
            self.lead(Tenure::new(Term(1), Duration::MAX, self.desk.clock()));
        } else {
            self.look(ctx);
            let (this, desk, own) = (ctx.address(), self.desk.clone(), self.desk.identity.clone());
            let only = Config::default().fields(&format!("metadata.name={}", self.desk.settings.lease_name));
            let on = move |event: Event<Lease>| match event {
                Event::Init | Event::InitDone => {}
                Event::Apply(lease) | Event::InitApply(lease) if *holder(&lease) == *own => {}
                Event::Apply(_) | Event::InitApply(_) | Event::Delete(_) => desk.post(&this, Changed),
            };
            ctx.spawn(watch_some(self.api.clone(), only, self.desk.clone(), "the lease", on).into_actor(self));
        }
    }
}

impl Handler<Changed> for Leader {
    type Result = ();

    fn handle(&mut self, _: Changed, ctx: &mut Self::Context) {
        // What is heard is where to look, not what is there: it may be old by now.
        if self.busy.get() {
            self.heard = true;
        } else {
            self.look(ctx);
        }
    }
}

impl Handler<Release> for Leader {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Release, _: &mut Self::Context) -> Self::Result {
        self.released = true;
        if let Some(tenure) = self.tenure.take() {
            tenure.end();
            self.desk.in_term(tenure.term()).tell(Story::Deposed { why: "shutting down".into() });
        }
        // A write that is under way, or was not answered, may name this replica.
        if self.election.leads().is_none() && !self.busy.get() && !self.tried {
            return Box::pin(async {});
        }
        let (api, desk, busy) = (self.api.clone(), self.desk.clone(), self.busy.clone());
        let patience = self.settings.patience();
        Box::pin(async move {
            let _ = tokio::time::timeout(patience, give_back(&api, &desk, &busy)).await;
        })
    }
}

impl Handler<Observe> for Leader {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let term = self.tenure.as_ref().map(|tenure| tenure.term().0);
        MessageResult(json!({"leads": term.is_some(), "term": term, "holder": self.election.holder()}))
    }
}

impl Leader {
    /// Reads the Lease and goes on from there.
    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.released {
            return;
        }
        if let Some(next) = self.next.take() {
            ctx.cancel_future(next);
        }
        self.busy.set(true);
        self.heard = false;
        let reading = read(self.api.clone(), self.desk.clone(), self.settings, self.cluster.clone());
        ctx.spawn(reading.into_actor(self).map(|read, leader, ctx| {
            let read = read.map(|(read, terms)| {
                leader.election.saw_term(terms.highest);
                if let Some(claim) = terms.absurd {
                    let what = format!("reading the term of NodeClaim {claim}");
                    leader.desk.tell(Story::Retrying { what, error: "no leader can have had it: not heeded".into() });
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
        match self.election.step(input, self.desk.now()) {
            LeaseOutput::Write(write) => self.write(write, ctx),
            LeaseOutput::Wait => {
                self.extend(ctx);
                self.look_in(pause, ctx);
            }
            LeaseOutput::Elected { term } => {
                let until = self.election.leads().map_or(Duration::ZERO, |(_, until)| until);
                self.lead(Tenure::new(Term(term), until, self.desk.clock()));
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
    }

    fn lead(&mut self, tenure: Tenure) {
        let desk = self.desk.in_term(tenure.term());
        desk.tell(Story::Elected { lease: self.desk.settings.lease_name.clone() });
        self.tenure = Some(tenure.clone());
        self.told_holder = None;
        self.desk.post(&self.control_plane, Elected { tenure });
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
        if let Some(tenure) = self.tenure.take() {
            tenure.end();
        }
        self.desk.in_term(Term(term)).tell(Story::Deposed { why: why.clone() });
        self.desk.post(&self.control_plane, Deposed { why });
    }

    fn extend(&mut self, ctx: &mut Context<Self>) {
        // To go on renewing would keep others from leading while nothing is done here.
        if self.tenure.as_ref().is_some_and(Tenure::has_ended) {
            if let Some(term) = self.election.resign() {
                self.depose(term, SHUT_OUT.to_owned());
            }
            return;
        }
        if let (Some(tenure), Some((_, until))) = (&self.tenure, self.election.leads()) {
            tenure.extend(until);
            self.watch_deadline(ctx);
        }
    }

    /// Sets an alarm at the deadline, whatever the calls under way come to.
    fn watch_deadline(&mut self, ctx: &mut Context<Self>) {
        let Some((_, until)) = self.election.leads() else { return };
        let left = until.saturating_sub(self.desk.now()).max(Duration::from_millis(1));
        ctx.run_later(left, |leader, _| {
            if let LeaseOutput::Deposed { term, why } = leader.election.step(LeaseInput::Time, leader.desk.now()) {
                leader.depose(term, leader.reason(why));
            }
        });
    }

    /// Looks again after a pause; at once if something has changed meanwhile.
    fn look_in(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        self.busy.set(false);
        if self.heard {
            self.look(ctx);
            return;
        }
        let jitter = if self.tenure.is_some() { 1.0 } else { 1.0 + JITTER * self.rng.f64() };
        let pause = self.election.pause(pause.mul_f64(jitter), self.desk.now());
        self.next = Some(ctx.run_later(pause, |leader, ctx| leader.look(ctx)));
    }

    fn write(&mut self, order: LeaseWrite, ctx: &mut Context<Self>) {
        let asked = self.desk.now();
        self.tried |= order.acquires;
        let writing = write(self.api.clone(), self.desk.clone(), self.settings, order).into_actor(self);
        ctx.spawn(writing.map(move |written, leader, ctx| {
            let input = leader.heard_of_lease(written.map(|lease| LeaseInput::Wrote { lease, asked }));
            leader.step(input, ctx);
        }));
    }

    /// What a call came to; why it failed is kept, and told once when it goes on.
    fn heard_of_lease(&mut self, answer: Result<LeaseInput, String>) -> LeaseInput {
        let what = format!("asking for lease {}", self.desk.settings.lease_name);
        match answer {
            Ok(input) => {
                self.desk.outage.answered(self.desk.now());
                tell_recovered(&self.desk, &what, self.failures);
                (self.failures, self.failed) = (0, String::new());
                input
            }
            Err(error) => {
                if error == NO_ANSWER {
                    self.desk.outage.unanswered();
                }
                self.failures = self.failures.saturating_add(1);
                tell_failed(&self.desk, &what, self.failures, &error);
                self.failed = error;
                LeaseInput::Failed
            }
        }
    }

    /// Standbys say once who leads.
    fn tell_holder(&mut self) {
        let holder = self.election.holder().to_owned();
        if self.tenure.is_none() && !holder.is_empty() && self.told_holder.as_ref() != Some(&holder) {
            self.desk.tell(Story::Standby { holder: holder.clone() });
            self.told_holder = Some(holder);
        }
    }
}

/// Terms on claims.
#[derive(Default)]
struct Terms {
    highest: u64,
    /// A claim with one that no leader can have had.
    absurd: Option<String>,
}

/// The Lease as it stands; when it is gone also the highest term on any claim: a new one starts above it. Or why nobody knows.
async fn read(
    api: Api<Lease>,
    desk: Desk,
    settings: LeaseSettings,
    cluster: Addr<ClusterWatcher>,
) -> Result<(LeaseInput, Terms), String> {
    let (patience, asked) = (settings.patience(), desk.now());
    match tokio::time::timeout(patience, api.get_opt(&desk.settings.lease_name)).await {
        // What was read before a sleep says nothing of what stands now.
        Ok(Ok(_)) if desk.now().saturating_sub(asked) > patience => Err(NO_ANSWER.into()),
        Ok(Ok(Some(lease))) => {
            let view = view(&lease, &settings, desk.wall());
            Ok((LeaseInput::Read(Some(view)), Terms::default()))
        }
        Ok(Ok(None)) => match tokio::time::timeout(patience, terms(&cluster)).await {
            Ok(Some(terms)) => Ok((LeaseInput::Read(None), terms)),
            Ok(None) | Err(_) => Err("the lease is gone, and the NodeClaims are not known yet".into()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(NO_ANSWER.into()),
    }
}

async fn write(api: Api<Lease>, desk: Desk, settings: LeaseSettings, order: LeaseWrite) -> Result<LeaseView, String> {
    let name = desk.settings.lease_name.clone();
    let now = MicroTime(desk.wall());
    let term = i32::try_from(order.term).map_err(|_| {
        format!("its leaseTransitions cannot be raised any further: term {}; delete it to begin anew", order.term)
    })?;
    let mark = if order.origin() == Origin::Vacant { annotations::LEASE_VACANT } else { annotations::LEASE_LED };
    let spec = LeaseSpec {
        holder_identity: Some(desk.identity.to_string()),
        lease_transitions: Some(term),
        lease_duration_seconds: i32::try_from(settings.duration.as_secs()).ok(),
        renew_time: Some(now.clone()),
        // A renewal leaves the time of acquisition as it is.
        acquire_time: order.acquires.then_some(now),
        ..LeaseSpec::default()
    };
    let meta = ObjectMeta {
        name: Some(name.clone()),
        resource_version: order.resource_version,
        annotations: Some([(annotations::LEASE.to_owned(), mark.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let lease = Lease { metadata: meta, spec: Some(spec) };
    let writing = async {
        if lease.metadata.resource_version.is_none() {
            return api.create(&PostParams::default(), &lease).await;
        }
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&lease)).await
    };
    match tokio::time::timeout(settings.patience(), writing).await {
        Ok(Ok(lease)) => Ok(view(&lease, &settings, desk.wall())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(NO_ANSWER.into()),
    }
}

/// Takes this replica's name off the Lease, however often that is refused, and until no write is under way that could put
/// it there again.
async fn give_back(api: &Api<Lease>, desk: &Desk, busy: &Cell<bool>) {
    let mut backoff = Backoff::new(SOON, AFTER_FAILURE, desk.rng("give back"));
    loop {
        // Before it is read: what is written after that is seen at the next look.
        let last = !busy.get();
        match api.get_opt(&desk.settings.lease_name).await {
            Ok(Some(mut lease)) if *holder(&lease) == *desk.identity => {
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(String::new());
                let given = api.replace(&desk.settings.lease_name, &PostParams::default(), &lease).await;
                if given.is_ok() && last {
                    return;
                }
            }
            Ok(_) if last => return,
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn view(lease: &Lease, settings: &LeaseSettings, now: Timestamp) -> LeaseView {
    let spec = lease.spec.clone().unwrap_or_default();
    let whole = |number: Option<i32>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
    let origin = match lease.annotations().get(annotations::LEASE).map(String::as_str) {
        // client-go takes what has run out and leaves the mark.
        Some(annotations::LEASE_VACANT) if whole(spec.lease_transitions) == 0 => Origin::Vacant,
        Some(annotations::LEASE_LED) => Origin::Led,
        _ => Origin::Foreign,
    };
    let age = spec.renew_time.map(|renewed| now.duration_since(renewed.0));
    let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let (longest, ahead) = (signed(settings.duration), -signed(AHEAD));
    LeaseView {
        holder: holder(lease).to_owned(),
        term: whole(spec.lease_transitions),
        duration: Duration::from_secs(whole(spec.lease_duration_seconds).max(1)),
        resource_version: lease.resource_version().unwrap_or_default(),
        origin,
        stale: age.is_some_and(|age| age > longest || age < ahead),
    }
}

/// The terms on claims, as soon as claims are known.
async fn terms(cluster: &Addr<ClusterWatcher>) -> Option<Terms> {
    loop {
        if let Some(snapshot) = cluster.send(TakeSnapshot).await.ok()? {
            // Where there are claims somebody has led, though it need not have been a Dovetail.
            let mut terms = Terms { highest: u64::from(!snapshot.claims.is_empty()), absurd: None };
            for entry in snapshot.claims.values() {
                let written = entry.claim.annotations().get(annotations::TERM).and_then(|term| term.parse().ok());
                match written {
                    Some(term) if lease::is_plausible_term(term) => terms.highest = terms.highest.max(term),
                    Some(_) => terms.absurd = Some(entry.claim.name_any()),
                    None => {}
                }
            }
            return Some(terms);
        }
        tokio::time::sleep(SOON).await;
    }
}
