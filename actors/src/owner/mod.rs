//! Finds out whose the instances are that are written on claims, by their tags, and says so to who acts on them. A claim is an
//! object of the API: anybody who may write its status can write any instance's id there. What the tags mean is decided by
//! `dovetail_core::ownership`.
//!
//! What this leader launches itself is known without asking. Of the rest EC2 is asked together, at most once a second, and
//! again with growing pauses while it knows no such instance: its describes are consistent only after a while.
//!
//! At the mailbox's bound: one call at a time; who is asked for meanwhile is in the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{CloudError, CloudInstances, FoundInstances};
use dovetail_core::ownership::{Instances, NotOwned, OwnershipMarks, OwnershipVerdict, instance_of};
use dovetail_core::pause::DoublingPause;
use kube::ResourceExt;

use crate::context::backoff::Backoff;
use crate::context::book::{Book, Key, Latest};
use crate::context::env::Env;
use crate::links::{ToClusterWatcher, ToRecorder};
use crate::messages::{ClaimChanged, ClaimGone, ClaimRefused, InstanceKnown, LookUp, Observe, OwnerState, Record};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Time in which ids are gathered for one question to EC2.
const GATHER: Duration = Duration::from_millis(100);
/// Pause between two calls.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);
/// Pause before an instance that EC2 does not know is asked for again.
const MISSING_AGAIN: DoublingPause = DoublingPause { first: Duration::from_secs(2), longest: Duration::from_secs(60) };
/// Instances of one call.
const TOGETHER: usize = 200;
/// Minimum time between two reports that a claim's instance is not its own.
const SAID_AGAIN: Duration = Duration::from_secs(600);

/// Addresses that the owner sends to.
#[derive(Clone)]
pub struct OwnerLinks {
    /// For claims that are nobody's room.
    pub cluster: ToClusterWatcher,
    /// For events.
    pub recorder: ToRecorder,
    /// For tags.
    pub cloud: Arc<dyn CloudInstances>,
    /// Actors that act on instances.
    pub listeners: Vec<Recipient<InstanceKnown>>,
}

/// Finds out whose instances are by their tags, and says it to those who act on them.
pub struct Owner {
    env: Env,
    links: OwnerLinks,
    known: Book<Refusal>,
    instances: Instances,
    /// Instances that EC2 is to be asked of, by id: when, and how often it has been.
    wanted: BTreeMap<String, (Duration, u32)>,
    asking: bool,
    scheduled: bool,
    /// The earliest time of the next call to EC2. Monotonic.
    next_call: Duration,
    backoff: Backoff,
}

/// Last report about a claim's instance that is not the claim's: the instance's id, and the reason.
#[derive(Default)]
struct Refusal(Option<(String, NotOwned)>);

impl Owner {
    /// At the start of a term.
    pub fn new(env: &Env, links: OwnerLinks) -> Self {
        let env = env.for_actor("owner");
        let backoff = Backoff::cloud(env.rng("asking"));
        Self {
            env,
            links,
            known: Book::default(),
            instances: Instances::default(),
            wanted: BTreeMap::new(),
            asking: false,
            scheduled: false,
            next_call: Duration::ZERO,
            backoff,
        }
    }
}

impl Actor for Owner {
    type Context = Context<Self>;
}

impl Handler<ClaimChanged> for Owner {
    type Result = ();

    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        let name = claim.name_any();
        let named_anew = instance_of(&claim).is_some_and(|id| !self.instances.is_named(id));
        self.instances.note(&claim);
        // The report about a name stands until another is made: others know a claim by its name.
        let said = self.known.get_mut(&Key::claim(&name)).and_then(|own| own.0.take());
        self.known.note(Latest::Claim(claim.clone()));
        self.known.open(&Key::claim(&name)).0 = said;
        if let Some(id) = instance_of(&claim) {
            match self.instances.marks(id) {
                None => self.look_up(id, ctx),
                // A listener that has forgotten the instance with an earlier claim hears of it again.
                Some(marks) if named_anew => {
                    let known = InstanceKnown { id: id.to_owned(), marks: marks.cloned().map(Arc::new) };
                    self.links.listeners.iter().for_each(|to| self.env.post(to, known.clone()));
                }
                Some(_) => {}
            }
        }
        self.judge(&name);
    }
}

impl Handler<ClaimGone> for Owner {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, _: &mut Self::Context) {
        let Some(claim) = self.known.claim(&gone.name).cloned() else { return };
        self.instances.forget(&claim);
        self.known.gone(&Key::Claim(gone.name));
        if let Some(id) = instance_of(&claim).filter(|id| !self.instances.is_named(id)) {
            self.wanted.remove(id);
        }
    }
}

impl Handler<InstanceKnown> for Owner {
    type Result = ();

    /// Takes the tags of an instance that has just been launched, or found by its token.
    fn handle(&mut self, known: InstanceKnown, _: &mut Self::Context) {
        self.wanted.remove(&known.id);
        self.say(known);
    }
}

impl Handler<LookUp> for Owner {
    type Result = ();

    fn handle(&mut self, look: LookUp, ctx: &mut Self::Context) {
        self.look_up(&look.id, ctx);
    }
}

impl Handler<Observe> for Owner {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let why = |claim: &Arc<NodeClaim>| {
            let (name, (_, why)) = (claim.name_any(), self.known.get(&Key::claim(&claim.name_any()))?.0.as_ref()?);
            Some((name, why.reason()))
        };
        let (claims, refused) = (self.known.count().0, self.known.claims().filter_map(why).collect());
        MessageResult(OwnerState { claims, unknown: self.wanted.len(), refused }.into())
    }
}

impl Owner {
    fn look_up(&mut self, id: &str, ctx: &mut Context<Self>) {
        // EC2 refuses a whole call for an id that is none.
        if !self.env.settings.provider.is_instance_id(id) {
            return self
                .say(InstanceKnown { id: id.to_owned(), marks: Some(Arc::new(OwnershipMarks::of_no_instance())) });
        }
        let now = self.env.now();
        self.wanted.entry(id.to_owned()).or_insert((now, 0));
        self.schedule(GATHER, ctx);
    }

    fn schedule(&mut self, after: Duration, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.scheduled, true) {
            ctx.run_later(after, |owner, ctx| {
                owner.scheduled = false;
                owner.ask(ctx);
            });
        }
    }

    /// Asks EC2 of what is due.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        if self.asking || self.wanted.is_empty() {
            return;
        }
        let now = self.env.now();
        if now < self.next_call {
            return self.schedule(self.next_call - now, ctx);
        }
        let due = self.wanted.iter().filter(|(_, (when, _))| *when <= now);
        let due: Vec<String> = due.map(|(id, _)| id.clone()).take(TOGETHER).collect();
        if due.is_empty() {
            return self.schedule(BETWEEN_CALLS, ctx);
        }
        self.asking = true;
        let cloud = self.links.cloud.clone();
        let asking = async move { (cloud.instances_of(&due).await, due) }.into_actor(self);
        ctx.spawn(asking.map(|(answer, due), owner, ctx| {
            owner.asking = false;
            let pause = match answer {
                Ok(found) => {
                    owner.backoff.reset();
                    owner.heard(&due, &found);
                    BETWEEN_CALLS
                }
                Err(error) if error.is_retryable() => owner.failed(&error),
                // EC2 will not say of these: none of them is known to be ours.
                Err(error) => {
                    let pause = owner.failed(&error);
                    let failed = due.iter().map(|id| (id.clone(), error.clone())).collect();
                    owner.heard(&due, &FoundInstances { failed, ..FoundInstances::default() });
                    pause
                }
            };
            owner.next_call = owner.env.now() + pause;
            if !owner.wanted.is_empty() {
                owner.schedule(pause, ctx);
            }
        }));
    }

    fn failed(&mut self, error: &CloudError) -> Duration {
        let pause = self.backoff.pause();
        if self.backoff.failures() == 1 {
            let what = "asking whose the instances of nodeclaims are".to_owned();
            self.env.emit(LogEvent::Retrying { what, error: error.to_string() });
        }
        pause.max(BETWEEN_CALLS)
    }

    fn heard(&mut self, asked: &[String], found: &FoundInstances) {
        let cluster = self.env.cluster(&*self.links.cloud);
        for one in &found.instances {
            self.wanted.remove(&one.id);
            let marks = OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name);
            self.say(InstanceKnown { id: one.id.clone(), marks: Some(Arc::new(marks)) });
        }
        let now = self.env.now();
        for id in asked {
            let Some((when, times)) = self.wanted.get_mut(id) else { continue };
            *when = now + MISSING_AGAIN.length_after(*times);
            *times = times.saturating_add(1);
            let is_none = found.failed.get(id).is_some_and(|error| !error.is_retryable());
            if found.missing.contains(id) || is_none {
                self.say(InstanceKnown { id: id.clone(), marks: None });
            }
        }
        // One that nobody names any more is asked for no longer than it takes to say that it is not there.
        let instances = &self.instances;
        let short = |times: u32| MISSING_AGAIN.length_of_nth(times) < MISSING_AGAIN.longest;
        self.wanted.retain(|id, (_, times)| short(*times) || instances.is_named(id));
    }

    /// Says what is known of an instance, and judges the claims that name it.
    fn say(&mut self, known: InstanceKnown) {
        self.instances.learn(&known.id, known.marks.clone());
        self.links.listeners.iter().for_each(|to| self.env.post(to, known.clone()));
        self.instances.naming(&known.id).iter().for_each(|name| self.judge(name));
        if !self.instances.is_named(&known.id) && known.marks.as_ref().is_none_or(|marks| marks.maker.is_err()) {
            self.instances.forget_instance(&known.id);
        }
    }

    fn judge(&mut self, name: &str) {
        let Some(claim) = self.known.claim(name).cloned() else { return };
        let (id, verdict) = (instance_of(&claim).unwrap_or_default().to_owned(), self.instances.verdict(&claim));
        let OwnershipVerdict::NotOurs(why) = verdict else {
            if self.known.open(&Key::claim(name)).0.take().is_some() {
                let claim = name.to_owned();
                self.env.post(&self.links.cluster, ClaimRefused { claim, refused: false });
            }
            return;
        };
        let said = (id.clone(), why.clone());
        if self.known.open(&Key::claim(name)).0.replace(said.clone()) == Some(said) {
            return;
        }
        self.env.post(&self.links.cluster, ClaimRefused { claim: name.to_owned(), refused: true });
        let message = format!("Instance {id} is not this NodeClaim's: {why}; it is neither drained nor ended");
        let record = Record::warning(object::claim(&claim), "InstanceNotOwned", message).quiet_for(SAID_AGAIN);
        self.env.post(&self.links.recorder, record);
        let (reason, error) = (why.reason().to_owned(), why.to_string());
        self.env.emit(LogEvent::InstanceNotOwned { node_claim: name.to_owned(), instance: id, reason, error });
    }
}
