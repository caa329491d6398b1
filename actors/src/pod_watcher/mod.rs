//! Watches Pods on every replica: passes each on to the cluster state, and on the leader says which have begun to wait
//! for a node, which are bound and which are gone. On a standby it keeps its list and says nothing.
//!
//! At the mailbox's bound: the watch is the only sender of many messages; of a list it passes on a page at a time, less than
//! the bound, and the handler runs before the next is there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{WatchedKind, is_provisionable, is_unmarked};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube_runtime::watcher::Event;

use crate::context::env::Env;
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::links::ToClusterWatcher;
use crate::messages::{
    AttachPods, Detach, NotRead, Observe, PODS, PodBound, PodGone, PodPending, PodSeen, PodWatcherState, TraceContext,
    WaitingPod, WatchFailed, WatchRuns,
};
use crate::reading::LenientApi;
use crate::telemetry::measure::Measure;

/// Number of pods waiting together that makes a burst: kube-scheduler is not given time to mark each (docs/decisions/015).
const BURST: usize = 20;

/// Watches Pods and says which wait for a node, are bound, or are gone.
pub struct PodWatcher {
    env: Env,
    client: Client,
    cluster: ToClusterWatcher,
    rng: fastrand::Rng,
    /// Pods that wait for a node, by uid, with the trace that each began.
    waiting: BTreeMap<String, Arc<WaitingPod>>,
    /// Pods of which kube-scheduler has not said anything yet, by uid.
    undecided: BTreeMap<String, Arc<WaitingPod>>,
    /// Times at which these pods count as waiting even without a mark, the first first; some may have been decided meanwhile.
    due: VecDeque<(Duration, String)>,
    /// Pods that are not ready yet, by uid, and when they were created.
    starting: BTreeMap<String, Timestamp>,
    /// While a list starts over: what it has shown.
    listing: Option<BTreeSet<String>>,
    leader: Option<AttachPods>,
}

impl PodWatcher {
    /// A watcher that passes pods on to `cluster`.
    pub fn new(env: &Env, client: Client, cluster: ToClusterWatcher) -> Self {
        let env = env.for_actor("pod_watcher");
        let rng = env.rng("trace");
        Self {
            env,
            client,
            cluster,
            rng,
            waiting: BTreeMap::new(),
            undecided: BTreeMap::new(),
            due: VecDeque::new(),
            starting: BTreeMap::new(),
            listing: None,
            leader: None,
        }
    }
}

impl Actor for PodWatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (this, env) = (ctx.address(), self.env.clone());
        let pods = LenientApi::<Pod>::all(self.client.clone());
        let on = move |heard| match heard {
            WatchNews::Event(event) => env.post(&this, Seen(event)),
            WatchNews::NotRead(object, came) => {
                env.post(&this, NotRead { kind: WatchedKind::Pod, watch: PODS, object, came });
            }
            WatchNews::Failed(pause, error) => env.post(&this, WatchFailed { kind: PODS, pause, error }),
            WatchNews::Runs => env.post(&this, WatchRuns { kind: PODS }),
        };
        ctx.spawn(watch(pods, self.env.clone(), PODS, AfterWatchFailure::GoOn, on).into_actor(self));
    }
}

/// The watch has said something.
#[derive(Message)]
#[rtype(result = "()")]
struct Seen(Event<Pod>);

impl Handler<Seen> for PodWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen, ctx: &mut Self::Context) {
        let event = Arc::new(event);
        // First the state, then the news: who packs because of the news finds the pod in the state.
        self.env.post(&self.cluster, PodSeen(event.clone()));
        match &*event {
            Event::Init => self.listing = Some(BTreeSet::new()),
            Event::InitApply(pod) | Event::Apply(pod) => self.seen(pod, ctx),
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.starting.remove(uid);
                self.gone(uid);
            }
            Event::InitDone => {
                let seen = self.listing.take().unwrap_or_default();
                let known = self.waiting.keys().chain(self.undecided.keys());
                let missed: Vec<_> = known.filter(|uid| !seen.contains(*uid)).cloned().collect();
                missed.iter().for_each(|uid| self.gone(uid));
                self.starting.retain(|uid, _| seen.contains(uid));
            }
        }
    }
}

impl Handler<WatchFailed> for PodWatcher {
    type Result = ();

    fn handle(&mut self, failed: WatchFailed, _: &mut Self::Context) {
        // Behind what the watch has said before.
        self.env.post(&self.cluster, failed);
    }
}

impl Handler<WatchRuns> for PodWatcher {
    type Result = ();

    fn handle(&mut self, runs: WatchRuns, _: &mut Self::Context) {
        self.env.post(&self.cluster, runs);
    }
}

impl Handler<NotRead> for PodWatcher {
    type Result = ();

    /// A pod that cannot be read waits for nothing here.
    fn handle(&mut self, unread: NotRead, _: &mut Self::Context) {
        let uid = unread.object.metadata.uid.clone().unwrap_or_default();
        self.env.post(&self.cluster, unread);
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        self.starting.remove(&uid);
        self.gone(&uid);
    }
}

impl Handler<AttachPods> for PodWatcher {
    type Result = ();

    fn handle(&mut self, leader: AttachPods, _: &mut Self::Context) {
        let now = self.env.wall();
        for (uid, pod) in &self.waiting {
            let waited = Some(Duration::try_from(now.duration_since(pod.since)).unwrap_or_default());
            let (uid, namespace) = (uid.clone(), pod.namespace.clone());
            self.env.post(&leader.pending, PodPending { uid, namespace, trace: pod.trace, waited });
        }
        self.leader = Some(leader);
    }
}

impl Handler<Detach> for PodWatcher {
    type Result = ();

    fn handle(&mut self, _: Detach, _: &mut Self::Context) {
        self.leader = None;
    }
}

impl Handler<Observe> for PodWatcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let (waiting, undecided) = (self.waiting.len(), self.undecided.len());
        MessageResult(PodWatcherState { waiting, undecided, speaks: self.leader.is_some() }.into())
    }
}

impl PodWatcher {
    fn seen(&mut self, pod: &Pod, ctx: &mut Context<Self>) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        self.starts(&uid, pod);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        if is_provisionable(pod) {
            if !self.waiting.contains_key(&uid) {
                let waited = self.undecided.remove(&uid).unwrap_or_else(|| self.meet(&uid, pod));
                self.waits(uid, waited);
            }
        } else if let Some(delay) = self.env.settings.unscheduled_pod_delay.filter(|_| is_unmarked(pod)) {
            self.may_wait(uid, pod, delay, ctx);
        } else if node.is_empty() {
            self.gone(&uid);
        } else if let (Some(waited), _) = (self.waiting.remove(&uid), self.undecided.remove(&uid))
            && let Some(leader) = &self.leader
        {
            let bound = || PodBound { uid: uid.clone(), node: node.clone(), waited: waited.clone() };
            leader.bound.iter().for_each(|to| self.env.post(to, bound()));
            if let Some(created) = waited.created {
                let seconds = self.env.wall().duration_since(created).as_secs_f64();
                self.env.measure(&Measure::PodBound { seconds, trace: waited.trace.trace() });
            }
        }
    }

    /// Measures how long a pod took until it was ready, if it was seen before it was.
    fn starts(&mut self, uid: &str, pod: &Pod) {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        match (ready, &pod.metadata.creation_timestamp) {
            (false, Some(created)) if pod.metadata.deletion_timestamp.is_none() => {
                self.starting.entry(uid.to_owned()).or_insert(created.0);
            }
            (false, _) => drop(self.starting.remove(uid)),
            (true, _) => {
                let Some(created) = self.starting.remove(uid).filter(|_| self.leader.is_some()) else { return };
                let seconds = self.env.wall().duration_since(created).as_secs_f64();
                self.env.measure(&Measure::PodStarted { seconds });
            }
        }
    }

    fn meet(&mut self, uid: &str, pod: &Pod) -> Arc<WaitingPod> {
        Arc::new(WaitingPod {
            name: pod.metadata.name.clone().unwrap_or_default(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            since: self.env.wall(),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            // Every replica that sees the pod means the same trace by it.
            trace: TraceContext::of_event(uid, &mut self.rng),
        })
    }

    /// A pod waits unless kube-scheduler gives it a node soon.
    fn may_wait(&mut self, uid: String, pod: &Pod, delay: Duration, ctx: &mut Context<Self>) {
        if self.waiting.contains_key(&uid) || self.undecided.contains_key(&uid) {
            return;
        }
        let waited = self.meet(&uid, pod);
        self.undecided.insert(uid.clone(), waited);
        if self.undecided.len() + self.waiting.len() >= BURST {
            for (uid, waited) in std::mem::take(&mut self.undecided) {
                self.waits(uid, waited);
            }
            return;
        }
        self.due.push_back((self.env.now() + delay, uid));
        if self.due.len() == 1 {
            self.wake(ctx);
        }
    }

    /// Wakes when the first of the undecided is due.
    fn wake(&self, ctx: &mut Context<Self>) {
        let Some((due, _)) = self.due.front() else { return };
        // A clock that drifts against tokio's may wake a little early: never spin.
        let pause = due.saturating_sub(self.env.now()).max(Duration::from_millis(1));
        ctx.run_later(pause, |watcher, ctx| {
            let now = watcher.env.now();
            while watcher.due.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, uid)) = watcher.due.pop_front() else { break };
                if let Some(waited) = watcher.undecided.remove(&uid) {
                    watcher.waits(uid, waited);
                }
            }
            watcher.wake(ctx);
        });
    }

    fn waits(&mut self, uid: String, waited: Arc<WaitingPod>) {
        let (namespace, trace) = (waited.namespace.clone(), waited.trace);
        self.waiting.insert(uid.clone(), waited);
        if let Some(leader) = &self.leader {
            self.env.post(&leader.pending, PodPending { uid, namespace, trace, waited: None });
        }
    }

    fn gone(&mut self, uid: &str) {
        self.undecided.remove(uid);
        if self.waiting.remove(uid).is_some()
            && let Some(leader) = &self.leader
        {
            leader.gone.iter().for_each(|to| self.env.post(to, PodGone { uid: uid.to_owned() }));
        }
    }
}
