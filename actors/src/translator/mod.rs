//! Keeps what alpha objects mean in step with them: of each Provisioner a NodePool, of each AWSNodeTemplate (and of a Provisioner
//! that names none) an EC2NodeClass (aws spec 10). What they mean is decided by `dovetail_api::convert::translate`; what is made
//! belongs to the alpha object and goes with it, by the API server's garbage collection.
//!
//! ```text
//! watches (where the kinds are served) ──► look ──► per alpha object: what it means, beside what is there ──► writes, conditions
//!                                            └──── every 15 s, while there are such objects
//! ```
//!
//! Only what is ours is written. One object is worked on by one effect at a time. After a write of it, or a failure, the next
//! one waits for a pause that doubles to five minutes, unless the object itself has changed: neither a server that refuses
//! it nor somebody else who writes the same pool is asked in a loop.

mod cluster;
mod handlers;
mod known;
mod outcome;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::convert::ConversionContext as Meaning;
use dovetail_api::convert::translate::{Source, Translation, TranslationProblem, translate};
use dovetail_api::names::provider::Provider;
use dovetail_api::v1alpha1::AWSNodeTemplate;
use dovetail_api::v1alpha5::{Machine, Provisioner};
use dovetail_cloud::CloudNodeClasses;
use dovetail_core::cluster_state::{Snapshot, Unreadable};
use dovetail_core::say_once::SayOnce;
use kube_runtime::watcher::Event;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls};
use crate::kube::watch::{AfterWatchFailure, WatchNews, tell_failed, tell_recovered, watch};
use crate::links::{ToClusterWatcher, ToRecorder};
use crate::messages::{Came, Record, TakeSnapshot};
use crate::reading::LenientApi;
use crate::reading::report::{self, Reports};
use crate::telemetry::log_event::{LogEvent, Names};
use cluster::{meaning_of, served};
use known::{KnownObjects, Unread};
use outcome::TranslationOutcome;
use writes::{Task, carry_out};

/// Interval at which it is checked that all objects are still in step.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time that a change waits, to be handled together with others.
const SETTLING_TIME: Duration = Duration::from_millis(200);
/// Interval at which it is checked that the alpha kinds are served, until they are.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(60);
/// The longest pause between two writes of one object's meaning.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Name in the log of the questions that alpha objects wait for.
const ASKING: &str = "asking what Provisioners and AWSNodeTemplates mean in this cluster";
/// The API versions of the alpha kinds.
const VERSIONS: [&str; 2] = ["karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1"];

/// An event of a watch, as a message.
#[derive(Message)]
#[rtype(result = "()")]
struct Seen<K: 'static>(Event<K>);

/// An alpha object that cannot be read.
#[derive(Message)]
#[rtype(result = "()")]
struct SeenUnreadable(Box<Unreadable>, Came);

/// An alpha object as it was written for: one that was deleted and made anew is another, of the same name and generation.
#[derive(Clone, PartialEq, Eq)]
struct Written {
    uid: String,
    generation: Option<i64>,
}

/// Brake on repeated writes to one object.
struct Brake {
    backoff: Backoff,
    /// State that it was last written for.
    written: Written,
    /// Time before which it is not written again. Monotonic.
    until: Duration,
}

/// The actor `translator`: writes a NodePool and an EC2NodeClass for each alpha object.
pub struct Translator {
    env: Env,
    cloud: Arc<dyn CloudNodeClasses>,
    calls: Calls,
    cluster: ToClusterWatcher,
    recorder: ToRecorder,
    provisioners: KnownObjects<Provisioner>,
    templates: KnownObjects<AWSNodeTemplate>,
    machines: KnownObjects<Machine>,
    /// Alpha objects that cannot be read, as `KIND/NAME`.
    unread: Unread,
    reports: Reports,
    /// The kinds that are watched.
    watched: BTreeSet<String>,
    /// Properties of the cluster, once known.
    meaning: Option<Meaning>,
    /// Number of failed questions to the cluster in a row.
    not_known: u32,
    busy: BTreeSet<Source>,
    brakes: BTreeMap<Source, Brake>,
    /// Last report about each object.
    reported: SayOnce<Source, String>,
    /// True while a look is scheduled or under way.
    looking: bool,
    /// True if something has changed since the look began.
    again: bool,
    /// Looks when the first brake is off.
    wakes: Option<SpawnHandle>,
}

impl Translator {
    /// An actor that knows no alpha object.
    pub fn new(
        env: &Env,
        cloud: Arc<dyn CloudNodeClasses>,
        calls: Calls,
        cluster: ToClusterWatcher,
        recorder: ToRecorder,
    ) -> Self {
        Self {
            env: env.for_actor("translator"),
            cloud,
            calls,
            cluster,
            recorder,
            provisioners: KnownObjects::default(),
            templates: KnownObjects::default(),
            machines: KnownObjects::default(),
            unread: Unread::default(),
            reports: Reports::default(),
            watched: BTreeSet::new(),
            meaning: None,
            not_known: 0,
            busy: BTreeSet::new(),
            brakes: BTreeMap::new(),
            reported: SayOnce::default(),
            looking: false,
            again: false,
            wakes: None,
        }
    }

    /// Watches the kinds that are served and are not watched yet; looks again later while one is missing.
    fn look_for_kinds(&self, ctx: &mut Context<Self>) {
        let calls = self.calls.clone();
        ctx.spawn(served(calls).into_actor(self).map(|served, actor, ctx| {
            for kind in served.unwrap_or_default() {
                if !actor.watched.insert(kind.clone()) {
                    continue;
                }
                match kind.as_str() {
                    "Provisioner" => {
                        actor.provisioners.begin();
                        actor.watch::<Provisioner>("provisioners", ctx);
                    }
                    "AWSNodeTemplate" => {
                        actor.templates.begin();
                        actor.watch::<AWSNodeTemplate>("awsnodetemplates", ctx);
                    }
                    "Machine" => actor.watch::<Machine>("machines", ctx),
                    _ => {}
                }
            }
            if !["Provisioner", "AWSNodeTemplate", "Machine"].iter().all(|kind| actor.watched.contains(*kind)) {
                ctx.run_later(LOOK_FOR_KINDS, |actor, ctx| actor.look_for_kinds(ctx));
            }
        }));
    }

    fn watch<K>(&self, name: &'static str, ctx: &mut Context<Self>)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
        Self: Handler<Seen<K>> + Handler<SeenUnreadable>,
    {
        let (this, env) = (ctx.address(), self.env.clone());
        let api = LenientApi::<K>::all(self.env.outage.for_watches(self.calls.client.clone()));
        let on = move |heard| match heard {
            WatchNews::Event(event) => env.post(&this, Seen(event)),
            WatchNews::NotRead(object, came) => env.post(&this, SeenUnreadable(object, came)),
            WatchNews::Failed(..) | WatchNews::Runs => {}
        };
        ctx.spawn(watch(api, self.env.clone(), name, AfterWatchFailure::GoOn, on).into_actor(self));
    }

    /// Looks soon, once for all that changes until then.
    fn touch(&mut self, ctx: &mut Context<Self>) {
        if self.looking {
            self.again = true;
            return;
        }
        self.looking = true;
        ctx.run_later(SETTLING_TIME, |actor, ctx| actor.start_pass(ctx));
    }

    /// True if there is nothing to do.
    fn is_idle(&self) -> bool {
        self.provisioners.is_empty() && self.templates.is_empty() && self.machines.is_empty() && self.unread.is_empty()
    }

    /// Asks what the cluster is like and what is there, then compares.
    fn start_pass(&mut self, ctx: &mut Context<Self>) {
        if self.is_idle() || !self.provisioners.is_listed() || !self.templates.is_listed() {
            self.looking = false;
            return;
        }
        let (calls, cloud, env) = (self.calls.clone(), self.cloud.clone(), self.env.clone());
        let (known, cluster) = (self.meaning.clone(), self.cluster.clone());
        let asked = async move {
            let meaning = match known {
                Some(meaning) => meaning,
                None => meaning_of(&calls, cloud.as_ref(), &env).await?,
            };
            let snapshot = cluster.send(TakeSnapshot).await.ok().flatten();
            Ok::<_, String>((meaning, snapshot))
        };
        ctx.spawn(asked.into_actor(self).map(|found, actor, ctx| {
            actor.looking = false;
            match found {
                Ok((meaning, snapshot)) => {
                    tell_recovered(&actor.env, ASKING, std::mem::take(&mut actor.not_known));
                    actor.meaning = Some(meaning.clone());
                    if let Some(snapshot) = snapshot {
                        actor.compare(&meaning, &snapshot, ctx);
                    }
                }
                Err(why) => actor.wait_for_meaning(&why),
            }
            if std::mem::take(&mut actor.again) {
                actor.touch(ctx);
            }
        }));
    }

    /// Notes that the cluster's properties are not known: nothing is made until then, and the log says why.
    fn wait_for_meaning(&mut self, why: &str) {
        self.not_known = self.not_known.saturating_add(1);
        tell_failed(&self.env, ASKING, self.not_known, why);
    }

    fn compare(&mut self, meaning: &Meaning, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let unread = self.unread.keys().filter_map(|key| key.strip_prefix("AWSNodeTemplate/"));
        let all = translate(self.templates.all(), self.provisioners.all(), &unread.collect(), meaning);
        self.brakes.retain(|source, _| all.contains_key(source));
        self.reported.retain(|source| all.contains_key(source));
        let waits: Vec<Duration> =
            all.into_iter().filter_map(|(source, meant)| self.work_on(source, meant, snapshot, ctx)).collect();
        if let Some(until) = waits.into_iter().min() {
            // One of them is enough: each look finds out anew which comes first.
            let wakes = ctx.run_later(until.saturating_sub(self.env.now()), |actor, ctx| actor.touch(ctx));
            if let Some(earlier) = self.wakes.replace(wakes) {
                ctx.cancel_future(earlier);
            }
        }
        self.say_of_machines(ctx);
        self.say_of_unreadable(ctx);
    }

    /// Brings one object's meaning into the cluster, unless that is under way. Answers until when it waits, where it is braked.
    fn work_on(
        &mut self,
        source: Source,
        meant: Result<Translation, TranslationProblem>,
        there: &Snapshot,
        ctx: &mut Context<Self>,
    ) -> Option<Duration> {
        let object = self.object_of(&source)?;
        if self.busy.contains(&source) {
            return None;
        }
        let written = Written { uid: object.uid.clone(), generation: object.generation };
        let braked = self.braked(&source, &written);
        let task = Task::next_for(object, meant, there, self.env.wall())?;
        if braked.is_some() {
            return braked;
        }
        self.busy.insert(source.clone());
        let (calls, env) = (self.calls.clone(), self.env.clone());
        ctx.spawn(carry_out(calls, task, env).into_actor(self).map(move |done, actor, ctx| {
            actor.busy.remove(&source);
            actor.brake(&source, written);
            match done {
                Ok(outcome) => actor.report_once(&source, &outcome),
                Err(CallError::Deposed) => return,
                Err(_) => {}
            }
            actor.touch(ctx);
        }));
        None
    }

    fn object_of(&self, source: &Source) -> Option<outcome::Alpha> {
        match source {
            Source::Provisioner(name) => self.provisioners.get(name).map(outcome::Alpha::provisioner),
            Source::Template(name) => self.templates.get(name).map(outcome::Alpha::template),
        }
    }

    fn braked(&self, source: &Source, written: &Written) -> Option<Duration> {
        let brake = self.brakes.get(source)?;
        (brake.written == *written && self.env.now() < brake.until).then_some(brake.until)
    }

    /// A write, or a failure: the next one waits.
    fn brake(&mut self, source: &Source, written: Written) {
        let now = self.env.now();
        let rng = self.env.rng(&source.display_name());
        let backoff = || Backoff::new(Duration::from_secs(1), LONGEST_PAUSE, rng);
        let new = || Brake { backoff: backoff(), written: written.clone(), until: now };
        let brake = self.brakes.entry(source.clone()).or_insert_with(new);
        // The pauses start over after a long time in step, and for an object that the user has changed or made anew.
        if brake.written != written || now.saturating_sub(brake.until) > LONGEST_PAUSE.saturating_mul(2) {
            brake.backoff.reset();
        }
        brake.written = written;
        brake.until = now + brake.backoff.pause();
    }

    /// Tells what became of an object, once for each outcome.
    fn report_once(&mut self, source: &Source, outcome: &TranslationOutcome) {
        let (object, text) = (source.display_name(), outcome.text());
        if !self.reported.is_news(source.clone(), text.clone()) {
            return;
        }
        let reference = self.object_of(source).map(|alpha| alpha.reference()).unwrap_or_default();
        match outcome {
            TranslationOutcome::InStep { made, defaults, left_out } => {
                let (defaults, left_out) = (defaults.len(), Names::first(5, left_out.clone()));
                self.env.post(&self.recorder, Record::normal(reference, "Translated", text));
                self.env.emit(LogEvent::Translated { object, made: made.clone(), defaults, left_out });
            }
            TranslationOutcome::Not(problem) => {
                self.env.post(&self.recorder, Record::warning(reference, "NotTranslated", &*problem.message));
                let (reason, why) = (problem.reason.to_owned(), problem.message.clone());
                self.env.emit(LogEvent::NotTranslated { object, reason, why });
            }
        }
    }

    /// Machines are an earlier control plane's own: nothing is made of them, which is said on each once.
    fn say_of_machines(&mut self, ctx: &mut Context<Self>) {
        let silent: Vec<Arc<Machine>> = self.machines.take_unreported(outcome::is_reported);
        for machine in silent {
            let (calls, now) = (self.calls.clone(), self.env.wall());
            ctx.spawn(outcome::refuse_machine(calls, machine, now).into_actor(self));
        }
    }

    /// Reports objects that cannot be read, on them too as far as the API server lets them be written.
    fn say_of_unreadable(&mut self, ctx: &mut Context<Self>) {
        for object in self.unread.values() {
            if self.reports.note(&self.env, object) {
                self.env.post(&self.recorder, report::event(object));
                let (calls, object, now) = (self.calls.clone(), object.clone(), self.env.wall());
                ctx.spawn(outcome::refuse_unreadable(calls, object, now).into_actor(self));
            }
        }
    }
}

impl Actor for Translator {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // The alpha kinds mean nodes on EC2.
        if self.env.settings.provider != Provider::Ec2 {
            return;
        }
        self.look_for_kinds(ctx);
        ctx.run_interval(CHECK_INTERVAL, |actor, ctx| {
            if !actor.is_idle() {
                actor.touch(ctx);
            }
        });
    }
}
