//! Spot nodes whose interruptions nobody hears, as there is no queue or it cannot be read: said to each pool that uses spot and,
//! where a queue is lost, at the leader's own Pod and by a condition of these pools; by a metric for as long as it is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodePool;
use dovetail_cloud::CloudError;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::interruption::unheard;
use dovetail_core::say_once::SayOnce;
use kube::ResourceExt;

use super::{Interruption, condition};
use crate::messages::{Record, TakeSnapshot, reference};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};

/// Interval at which the nodes are counted.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause between two looks until the cluster is known.
const SETTLING_TIME: Duration = Duration::from_secs(1);
/// Time that a queue may fail for a passing reason (no connection, throttling) before it counts as lost: a warning leaves two
/// minutes.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// A lost queue is said again at each object this often: events are kept for an hour.
const SAID_AGAIN: Duration = Duration::from_secs(3600);
/// Most names that a log line gives.
const NAMES_LISTED: usize = 5;
/// Most characters of the service's message that an event repeats.
const LONGEST_WORDS: usize = 300;

/// Reason of the event.
const NOT_HEARD: &str = "InterruptionsNotHeard";
/// Reason of the event that ends it.
const HEARD: &str = "InterruptionsHeard";

/// State of spot nodes whose interruptions nobody reads, and the objects at which that was reported.
#[derive(Default)]
pub(super) struct UnheardSpot {
    nodes: usize,
    /// Start of the failures of calls to the queue. Monotonic.
    failing: Option<Duration>,
    /// Reason why the queue counts as lost.
    lost: Option<LostQueue>,
    /// Time of the first read, or of the first one after failures. Monotonic.
    heard: Option<Duration>,
    /// Last report at each object and in the log, by the error's name: nothing stands for a queue that is not set.
    reported: SayOnce<(ReportPlace, String)>,
    /// Pools whose condition is being written, and whether it was to be written otherwise meanwhile.
    writing: BTreeMap<String, bool>,
    next: Option<SpawnHandle>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReportPlace {
    Log,
    OwnPod,
    Pool(String),
}

/// Reason why a queue counts as lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostQueue {
    /// The error's own name.
    pub code: String,
    /// Message for people.
    pub words: String,
}

impl UnheardSpot {
    /// Spot nodes whose interruptions nobody hears.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Error code of the lost queue; empty while it can be read.
    pub fn lost(&self) -> String {
        self.lost.as_ref().map(|lost| lost.code.clone()).unwrap_or_default()
    }

    /// True if it is to be reported there now: each error once, and a lost queue again after an hour, but for the log.
    fn is_due(&mut self, at: ReportPlace, code: &str, now: Duration) -> bool {
        let (once, key) = (code.is_empty() || at == ReportPlace::Log, (at, code.to_owned()));
        match once {
            true => self.reported.is_news(key, ()),
            false => self.reported.is_due(key, (), now, SAID_AGAIN),
        }
    }
}

impl Interruption {
    /// A call to the queue has failed: it counts as lost at once where the same call fails again, else after a while.
    pub(super) fn queue_failed(&mut self, error: &CloudError, ctx: &mut Context<Self>) {
        let now = self.env.now();
        let since = *self.unheard.failing.get_or_insert(now);
        // One that fails now and then is not reported each time.
        let flaps = self.unheard.heard.is_some_and(|heard| now.saturating_sub(heard) < CHECK_INTERVAL);
        if (error.is_retryable() || flaps) && now.saturating_sub(since) < LOST_AFTER {
            return;
        }
        let queue = &self.env.settings.interruption_queue;
        let said: String = error.message().chars().take(LONGEST_WORDS).collect();
        let said = said.trim_end_matches(['.', ' ']);
        let (call, code) = (error.call(), error.name().to_owned());
        let words = format!("as {call} of the queue {queue} fails ({code}): {said}");
        if self.unheard.lost.as_ref().is_none_or(|lost| lost.code != code) {
            self.unheard.lost = Some(LostQueue { code, words });
            self.look_unheard(ctx);
        }
    }

    /// The queue is read.
    pub(super) fn queue_answered(&mut self, ctx: &mut Context<Self>) {
        (self.unheard.failing, self.unheard.heard) = (None, Some(self.env.now()));
        let reported = std::mem::take(&mut self.unheard.reported).into_keys().map(|(at, _)| at).collect();
        self.unheard.nodes = 0;
        let lost = self.unheard.lost.take().is_some();
        if let Some(next) = self.unheard.next.take() {
            ctx.cancel_future(next);
        }
        if lost {
            self.env.emit(LogEvent::SpotHeard { queue: self.env.settings.interruption_queue.clone() });
        }
        self.look_heard(reported, ctx);
    }

    /// Takes the condition off pools, which an earlier leader may have written, and says to `reported` that it is over.
    fn look_heard(&mut self, reported: BTreeSet<ReportPlace>, ctx: &mut Context<Self>) {
        let snapshot = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(snapshot.map(move |snapshot, actor, ctx| {
            // By then it may be lost again.
            if actor.unheard.lost.is_some() {
                return;
            }
            let Ok(Some(snapshot)) = snapshot else {
                ctx.run_later(SETTLING_TIME, |actor, ctx| actor.look_heard(reported, ctx));
                return;
            };
            let message =
                format!("interruptions are received from the queue {}", actor.env.settings.interruption_queue);
            let pool_of =
                |at: &ReportPlace| if let ReportPlace::Pool(name) = at { snapshot.pools.get(name) } else { None };
            for pool in reported.iter().filter_map(pool_of) {
                actor.env.post(&actor.links.recorder, Record::normal(object::pool(pool), HEARD, &*message));
            }
            if reported.contains(&ReportPlace::OwnPod) {
                actor.record_at_own_pod(&snapshot, |pod| Record::normal(pod, HEARD, &*message));
            }
            for pool in snapshot.pools.values().filter(|pool| condition::is_on(pool)) {
                actor.write_condition(pool, None, ctx);
            }
        }));
    }

    /// Counts the spot nodes of a cluster whose interruptions are not heard, and says so.
    pub(super) fn look_unheard(&mut self, ctx: &mut Context<Self>) {
        if !self.env.settings.provider.interrupts() {
            return;
        }
        if let Some(next) = self.unheard.next.take() {
            ctx.cancel_future(next);
        }
        let snapshot = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(snapshot.map(|snapshot, actor, ctx| {
            let lost = actor.unheard.lost.clone();
            if lost.is_none() && !actor.env.settings.interruption_queue.is_empty() {
                return;
            }
            let again = match snapshot {
                Ok(Some(snapshot)) => {
                    actor.report_unheard(&snapshot, lost.as_ref(), ctx);
                    CHECK_INTERVAL
                }
                _ => SETTLING_TIME,
            };
            if let Some(next) = actor.unheard.next.replace(ctx.run_later(again, Self::look_unheard)) {
                ctx.cancel_future(next);
            }
        }));
    }

    fn report_unheard(&mut self, snapshot: &Snapshot, lost: Option<&LostQueue>, ctx: &mut Context<Self>) {
        let claims = snapshot.claims.values().map(|entry| &*entry.claim);
        let found = unheard::unheard(claims, snapshot.pools.values().map(|pool| &**pool));
        self.unheard.nodes = found.nodes;
        let why = lost.map_or("as INTERRUPTION_QUEUE is not set", |lost| lost.words.as_str());
        let (now, code) = (self.env.now(), lost.map(|lost| lost.code.clone()).unwrap_or_default());
        let remedy = unheard::remedy(&code);
        let message = format!("Spot nodes end without a warning to their pods, {why}; to end that, {remedy}");
        for (name, pool) in snapshot.pools.iter() {
            let uses_spot = found.pools.contains(name);
            if uses_spot && self.unheard.is_due(ReportPlace::Pool(name.clone()), &code, now) {
                let record = Record::warning(object::pool(pool), NOT_HEARD, &*message);
                self.env.post(&self.links.recorder, record);
            }
            // One that uses spot no more has nothing to hear.
            let lost = lost.filter(|_| uses_spot);
            if lost.is_some() || condition::is_on(pool) {
                self.write_condition(pool, lost, ctx);
            }
        }
        if lost.is_some() && self.unheard.is_due(ReportPlace::OwnPod, &code, now) {
            self.record_at_own_pod(snapshot, |pod| Record::warning(pod, NOT_HEARD, &*message));
        }
        // A queue that is not set is nobody's mistake where no spot is used.
        if (lost.is_some() || !found.pools.is_empty()) && self.unheard.is_due(ReportPlace::Log, &code, now) {
            let (nodes, pools) = (found.nodes, Names::first(NAMES_LISTED, found.pools));
            self.env.emit(LogEvent::SpotUnheard { nodes, pools, code, error: why.to_owned() });
        }
    }

    /// Writes an event at the Pod that this process runs in, if it runs in one: its name begins the replica's identity.
    fn record_at_own_pod(
        &self,
        snapshot: &Snapshot,
        record: impl Fn(k8s_openapi::api::core::v1::ObjectReference) -> Record,
    ) {
        let name = self.env.identity.rsplit_once('_').map_or(&*self.env.identity, |(pod, _)| pod);
        let namespace = &self.env.settings.system_namespace;
        let own = snapshot.pods.values().find(|pod| pod.pod.name == name && pod.pod.namespace == *namespace);
        if let Some(own) = own {
            let one = reference("v1", "Pod", namespace, name, &own.pod.uid);
            self.env.post(&self.links.recorder, record(one));
        }
    }

    /// Has a pool say that its interruptions are not heard, or no more; what is refused is tried at the next look. A write goes on
    /// through an outage: what is wanted meanwhile is looked at when it has ended.
    fn write_condition(&mut self, pool: &Arc<NodePool>, lost: Option<&LostQueue>, ctx: &mut Context<Self>) {
        let name = pool.name_any();
        if let Some(again) = self.unheard.writing.get_mut(&name) {
            *again = true;
            return;
        }
        let Some(wanted) = condition::wanted(pool, lost, self.env.wall()) else { return };
        self.unheard.writing.insert(name.clone(), false);
        let writing = condition::write(self.links.clone(), pool.clone(), wanted, self.env.clone()).into_actor(self);
        ctx.spawn(writing.map(move |(), actor, ctx| match actor.unheard.writing.remove(&name) {
            Some(true) if actor.unheard.lost.is_some() => actor.look_unheard(ctx),
            Some(true) => actor.look_heard(BTreeSet::new(), ctx),
            _ => {}
        }));
    }
}
