//! Keeps EC2NodeClasses resolved and says of each what is found, and keeps NodePools' readiness: a pool is ready when its
//! spec makes sense and its class is ready (core spec 1.1, aws spec 1.3).
//!
//! At the mailbox's bound: one effect a class and one a pool at a time; what changes meanwhile is looked at afterwards.

mod adopt;
mod clock;
mod end;
mod pools;
mod said;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::conditions::{ANNOTATIONS_KNOWN, READY, TRUE};
use dovetail_api::v1::{EC2NodeClass, NodePool, condition, is_true};
use dovetail_cloud::CloudNodeClasses;
use dovetail_core::adoption::AdoptionChange;
use dovetail_core::cluster_state::{WatchedKind, is_older};
use dovetail_core::lifecycle::hash::{KeptHashes, OF_CLASS, OF_POOL};
use dovetail_core::say_once::SayOnce;
use kube::ResourceExt;

use crate::context::alarms::{Alarmed, Alarms};
use crate::context::brakes::Brakes;
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls};
use crate::links::{ToClusterWatcher, ToRecorder};
use crate::messages::{CannotUse, ClassChanged, NodeClassState, Observe, PoolChanged, Record, Wrote};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use write::resolve;

/// Interval at which classes are checked for another resolution (aws spec 6, `AMI_REFRESH_INTERVAL`).
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Attempts to resolve a class when calls fail, before the result counts as it is.
const DOUBTS: u32 = 6;

/// Resolves classes against the cloud, judges pools, writes the status of both, and ends classes.
pub struct NodeClassActor {
    env: Env,
    cloud: Arc<dyn CloudNodeClasses>,
    calls: Calls,
    cluster: ToClusterWatcher,
    recorder: ToRecorder,
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
    pools: BTreeMap<String, Arc<NodePool>>,
    /// Generation and monotonic time at which a class was last resolved.
    resolved: BTreeMap<String, (Option<i64>, Duration)>,
    busy: BTreeSet<String>,
    /// Objects whose writes fail.
    brakes: Brakes,
    /// Alarms for the next check of objects, one for each.
    alarms: Alarms,
    reported: SayOnce<String, (bool, String)>,
    /// Changes of pools taken over from Karpenter, until they are written and reported.
    adoptions: BTreeMap<String, AdoptionChange>,
    /// Pools and classes that cannot be read, by kind and name, with uid and reason.
    unread: BTreeMap<(WatchedKind, String), (String, String)>,
    /// Skew of the clock at the last check of all pools.
    skew: i8,
    /// Hashes as they last stood on classes and pools.
    hashes: KeptHashes,
}

impl NodeClassActor {
    /// An actor that knows no class.
    pub fn new(
        env: &Env,
        cloud: Arc<dyn CloudNodeClasses>,
        calls: Calls,
        cluster: ToClusterWatcher,
        recorder: ToRecorder,
    ) -> Self {
        Self {
            env: env.for_actor("node_class"),
            cloud,
            calls,
            cluster,
            recorder,
            classes: BTreeMap::new(),
            pools: BTreeMap::new(),
            resolved: BTreeMap::new(),
            busy: BTreeSet::new(),
            brakes: Brakes::default(),
            alarms: Alarms::default(),
            reported: SayOnce::default(),
            adoptions: BTreeMap::new(),
            unread: BTreeMap::new(),
            skew: 0,
            hashes: KeptHashes::default(),
        }
    }
}

impl Actor for NodeClassActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(CHECK_INTERVAL, |actor, ctx| {
            actor.look_at_clock(ctx);
            let names: Vec<_> = actor.classes.keys().cloned().collect();
            names.iter().for_each(|name| actor.look_at_class(name, ctx));
        });
    }
}

impl Alarmed for NodeClassActor {
    fn alarms(&mut self) -> &mut Alarms {
        &mut self.alarms
    }
}

impl Handler<ClassChanged> for NodeClassActor {
    type Result = ();

    fn handle(&mut self, changed: ClassChanged, ctx: &mut Self::Context) {
        match changed.class {
            Some(class) => {
                self.unread.remove(&(WatchedKind::NodeClass, changed.name.clone()));
                // Knowledge of an earlier class of the name says nothing of this one.
                if !is_same(&self.classes, &changed.name, &class) {
                    self.forget_class(&changed.name);
                }
                self.classes.insert(changed.name.clone(), class);
                self.look_at_class(&changed.name, ctx);
            }
            None => {
                self.unread.remove(&(WatchedKind::NodeClass, changed.name.clone()));
                self.forget_class(&changed.name);
            }
        }
        self.look_at_pools_of(&changed.name, ctx);
    }
}

impl Handler<PoolChanged> for NodeClassActor {
    type Result = ();

    fn handle(&mut self, changed: PoolChanged, ctx: &mut Self::Context) {
        match changed.pool {
            Some(pool) => {
                self.unread.remove(&(WatchedKind::NodePool, changed.name.clone()));
                if !is_same(&self.pools, &changed.name, &pool) {
                    self.forget_pool(&changed.name);
                }
                self.pools.insert(changed.name.clone(), pool);
                self.look_at_pool(&changed.name, ctx);
            }
            None => {
                self.unread.remove(&(WatchedKind::NodePool, changed.name.clone()));
                self.forget_pool(&changed.name);
            }
        }
    }
}

impl Handler<CannotUse> for NodeClassActor {
    type Result = ();

    /// Writes that the object is not Ready where it can be written, once for each reason.
    fn handle(&mut self, CannotUse { kind, object }: CannotUse, ctx: &mut Self::Context) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let said = (object.metadata.uid.clone().unwrap_or_default(), object.why.clone());
        if self.unread.insert((kind, name.clone()), said.clone()) == Some(said) {
            return;
        }
        match kind {
            WatchedKind::NodeClass => {
                self.forget_class(&name);
                self.look_at_pools_of(&name, ctx);
            }
            _ => self.forget_pool(&name),
        }
        let writing = pools::write_unreadable(self.calls.clone(), kind, object, self.env.wall());
        ctx.spawn(writing.into_actor(self));
    }
}

impl Handler<Observe> for NodeClassActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let ready = |name: &String| self.reported.last_said(name).is_some_and(|(ready, _)| *ready);
        let classes = self.classes.keys().map(|name| (name.clone(), ready(&format!("class/{name}"))));
        let pools = self.pools.keys().map(|name| (name.clone(), ready(&format!("pool/{name}"))));
        let unreadable = self.unread.keys().map(|(kind, name)| format!("{}/{name}", kind.resource())).collect();
        MessageResult(
            NodeClassState { classes_ready: classes.collect(), pools_ready: pools.collect(), unreadable }.into(),
        )
    }
}

impl NodeClassActor {
    /// A class is gone, or cannot be read any more.
    fn forget_class(&mut self, name: &str) {
        self.classes.remove(name);
        self.resolved.remove(name);
        self.reported.gone(&format!("class/{name}"));
        self.brakes.forget(&format!("class/{name}"));
        self.hashes.forget(&format!("class/{name}"));
    }

    /// Forgets a pool that is gone or cannot be read.
    fn forget_pool(&mut self, name: &str) {
        self.pools.remove(name);
        self.adoptions.remove(name);
        self.brakes.forget(&format!("pool/{name}"));
        self.hashes.forget(&format!("pool/{name}"));
        for what in ["pool", "complaints"] {
            self.reported.gone(&format!("{what}/{name}"));
        }
    }

    /// A write has failed: the object is left alone for a while.
    fn brake(&mut self, key: &str, generation: Option<i64>) -> Duration {
        // A tick early would find the brake on: the alarms' clock and ours may differ a little.
        let early = Duration::from_millis(50);
        let rng = self.env.rng(key);
        self.brakes.failed(key, generation, self.env.now(), || rng) + early
    }

    fn look_at_class_in(&mut self, name: String, pause: Duration, ctx: &mut Context<Self>) {
        let (key, now) = (format!("class/{name}"), self.env.now());
        self.ring_in(key, now, pause, ctx, move |actor, ctx| actor.look_at_class(&name, ctx));
    }

    fn look_at_class(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(class) = self.classes.get(name).cloned() else { return };
        let key = format!("class/{name}");
        let now = self.env.now();
        let fresh = self.resolved.get(name).is_some_and(|(generation, when)| {
            *generation == class.metadata.generation && now.saturating_sub(*when) < self.env.settings.class_refresh()
        });
        if class.metadata.deletion_timestamp.is_some() {
            return self.end_class(class, ctx);
        }
        let generation = class.metadata.generation;
        if fresh || self.brakes.hold(&key, generation, now) || !self.busy.insert(key.clone()) {
            return;
        }
        let mut seen = EC2NodeClass::clone(&class);
        self.hashes.see(&key, OF_CLASS, &mut seen.metadata);
        let resolving = resolve(self.cloud.clone(), self.calls.clone(), self.env.clone(), class.clone(), seen);
        let name = name.to_owned();
        ctx.spawn(resolving.into_actor(self).map(move |written, actor, ctx| {
            actor.busy.remove(&key);
            // Another has come under its name meanwhile, of which the answer says nothing.
            if actor.classes.contains_key(&name) && !is_same(&actor.classes, &name, &class) {
                return actor.look_at_class(&name, ctx);
            }
            match written {
                Ok(written) => {
                    actor.brakes.forget(&key);
                    actor.resolved.insert(name.clone(), (written.metadata.generation, actor.env.now()));
                    actor.tell_class(&written);
                    keep_newer(&mut actor.classes, &name, &written);
                    actor.env.post(&actor.cluster, Wrote::Class(Box::new(written)));
                    actor.look_at_class(&name, ctx);
                    actor.look_at_pools_of(&name, ctx);
                }
                Err(CallError::Deposed | CallError::NotFound(_)) => {}
                // Somebody wrote the class meanwhile, and the watch says what; or it is refused.
                Err(_) => {
                    let pause = actor.brake(&key, generation);
                    actor.look_at_class_in(name, pause, ctx);
                }
            }
        }));
    }

    fn look_at_pools_of(&mut self, class: &str, ctx: &mut Context<Self>) {
        let provider = self.env.settings.provider;
        let of_class = |pool: &NodePool| pool.spec.template.spec.node_class_ref.name_for(provider) == Some(class);
        let names: Vec<_> =
            self.pools.iter().filter(|(_, pool)| of_class(pool)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.look_at_pool(name, ctx));
    }

    fn look_at_pool(&mut self, name: &str, ctx: &mut Context<Self>) {
        let Some(pool) = self.pools.get(name).cloned() else { return };
        if pools::is_of_another(&pool, self.env.settings.provider) {
            return;
        }
        let its_class = pool.spec.template.spec.node_class_ref.name_for(self.env.settings.provider);
        let class = its_class.and_then(|name| self.classes.get(name));
        let mut seen = NodePool::clone(&pool);
        self.hashes.see(&format!("pool/{name}"), OF_POOL, &mut seen.metadata);
        let (mut wanted, change) = adopt::judged(&seen, class.map(AsRef::as_ref), &self.env.settings, self.env.wall());
        let its_class = its_class.map(|name| (WatchedKind::NodeClass, name.to_owned()));
        if let Some((_, why)) = its_class.and_then(|key| self.unread.get(&key)) {
            wanted = pools::of_unreadable_class(wanted, why, self.env.wall());
        }
        said::write_gate(&mut wanted, self.env.settings.static_capacity(), self.env.wall());
        clock::write(&mut wanted, self.env.skew(), &self.env.identity, self.env.wall());
        self.tell_pool(&wanted);
        let key = format!("pool/{name}");
        let generation = pool.metadata.generation;
        if wanted == *pool
            || pool.metadata.deletion_timestamp.is_some()
            || self.brakes.hold(&key, generation, self.env.now())
            || !self.busy.insert(key.clone())
        {
            return;
        }
        self.adoptions.extend(change.map(|change| (name.to_owned(), change)));
        let writing = pools::write(self.calls.clone(), pool.clone(), wanted).into_actor(self);
        let name = name.to_owned();
        ctx.spawn(writing.map(move |written, actor, ctx| {
            actor.busy.remove(&key);
            if actor.pools.contains_key(&name) && !is_same(&actor.pools, &name, &pool) {
                return actor.look_at_pool(&name, ctx);
            }
            match written {
                Ok(written) => {
                    actor.brakes.forget(&key);
                    actor.tell_adoption(&written);
                    keep_newer(&mut actor.pools, &name, &written);
                    actor.env.post(&actor.cluster, Wrote::Pool(Box::new(written)));
                    actor.look_at_pool(&name, ctx);
                }
                Err(CallError::Deposed | CallError::NotFound(_)) => {}
                Err(_) => {
                    let (pause, now) = (actor.brake(&key, generation), actor.env.now());
                    actor.ring_in(key, now, pause, ctx, move |actor, ctx| actor.look_at_pool(&name, ctx));
                }
            }
        }));
    }

    fn tell_class(&mut self, class: &EC2NodeClass) {
        let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (ready, node_class) = (is_true(conditions, READY), class.name_any());
        let wrong = conditions
            .iter()
            .filter(|one| one.status != TRUE && ![READY, ANNOTATIONS_KNOWN].contains(&one.type_.as_str()));
        let each: Vec<_> = wrong.map(|one| format!("{} ({})", one.reason, one.message)).collect();
        let why = each.join(", ");
        if self.reported.is_news(format!("class/{node_class}"), (ready, why.clone())) {
            self.env.emit(LogEvent::NodeClass { node_class, ready, why });
        }
    }

    fn tell_pool(&mut self, pool: &NodePool) {
        let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (ready, node_pool) = (is_true(conditions, READY), pool.name_any());
        let why = condition(conditions, READY).map(|ready| ready.message.clone()).unwrap_or_default();
        if self.reported.is_news(format!("pool/{node_pool}"), (ready, why.clone())) {
            self.env.emit(LogEvent::NodePool { node_pool, ready, why });
        }
        self.report_complaints(pool);
    }

    /// Events on a pool that is not valid, once for each thing that is wrong.
    fn report_complaints(&mut self, pool: &NodePool) {
        let complaints = pools::complaints(pool);
        let news = (complaints.is_empty(), format!("{complaints:?}"));
        if !self.reported.is_news(format!("complaints/{}", pool.name_any()), news) {
            return;
        }
        for (reason, message) in complaints {
            self.env.post(&self.recorder, Record::warning(object::pool(pool), reason, message));
        }
    }
}

/// True if the object known by a name is this one, and not an earlier or a later one of that name.
fn is_same<K: ResourceExt>(known: &BTreeMap<String, Arc<K>>, name: &str, object: &K) -> bool {
    known.get(name).is_some_and(|known| known.meta().uid == object.meta().uid)
}

/// Keeps what was written, unless the watch has told meanwhile of a later state or of the end: an object that is being
/// deleted would look alive again, for as long as nothing else is written to it.
fn keep_newer<K: ResourceExt + Clone>(known: &mut BTreeMap<String, Arc<K>>, name: &str, written: &K) {
    if let Some(known) = known.get_mut(name)
        && known.meta().uid == written.meta().uid
        && !is_older(written.meta(), known.meta())
    {
        *known = Arc::new(written.clone());
    }
}
