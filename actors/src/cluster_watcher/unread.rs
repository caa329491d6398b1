//! Handling and reporting of objects that cannot be read and of watches that are not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{Unreadable, UpdateEffect, WatchedKind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;

use super::ClusterWatcher;
use super::gated::is_gated;
use crate::messages::{
    Came, CannotUse, ClaimChanged, ClusterWatcherState, NodeChanged, NotRead, Record, TellNotSynced, UnreadableObject,
    WatchFailed, WatchFailing, WatchRuns,
};
use crate::reading::report::{self, REPEAT_INTERVAL};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// A watch that has failed for this long is reported, and the cluster counts as not synced.
const LONG: Duration = Duration::from_secs(60);
/// Most pods that get an event in one outage that nothing is planned for them.
const MOST_PODS: usize = 200;
/// Most unreadable objects that the state names.
const MOST_LISTED: usize = 50;

#[derive(Debug)]
struct Failing {
    since: Duration,
    /// True if all has been listed since the last failure: nothing is outdated, though only time proves that the watch runs.
    listed: bool,
    error: String,
    reported: bool,
}

/// Watches that fail, by what they watch.
#[derive(Debug, Default)]
pub(super) struct WatchFailures {
    all: BTreeMap<&'static str, Failing>,
    /// Pods that have been told, by uid, until all watches run.
    pods: BTreeSet<String>,
}

impl WatchFailures {
    /// All of a kind has been listed.
    pub fn listed(&mut self, kind: &str) {
        if let Some(one) = self.all.get_mut(kind) {
            one.listed = true;
        }
    }

    /// Watches that have failed for at least [`LONG`], and whose kinds are not known anew: kind, seconds and error.
    fn long(&self, now: Duration) -> impl Iterator<Item = (&'static str, u64, &str)> {
        let seconds = move |one: &Failing| now.saturating_sub(one.since).as_secs();
        let all = self
            .all
            .iter()
            .filter(|(_, one)| !one.listed)
            .map(move |(kind, one)| (*kind, seconds(one), one.error.as_str()));
        all.filter(|(_, seconds, _)| *seconds >= LONG.as_secs())
    }
}

impl Handler<NotRead> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, NotRead { kind, watch, object, came }: NotRead, _: &mut Self::Context) {
        if came != Came::Listed {
            self.unobserved.runs(watch);
        }
        match came {
            Came::Gone => self.unread_gone(kind, &object.metadata),
            Came::Listed | Came::Changed => self.cannot_read(kind, *object),
        }
        if kind == WatchedKind::Pod && self.state.date_moves(self.env.wall()) {
            self.cluster_changed();
        }
    }
}

impl Handler<WatchRuns> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, runs: WatchRuns, _: &mut Self::Context) {
        self.watch_runs(runs.kind);
    }
}

impl Handler<TellNotSynced> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, _: TellNotSynced, _: &mut Self::Context) {
        if self.synced {
            return;
        }
        let provider = self.env.settings.provider;
        let gated = self.not_known.iter().copied();
        let kinds: Vec<_> = self.state.not_listed().map(|kind| kind.resource_of(provider)).chain(gated).collect();
        let errors = self.failures.all.iter().map(|(kind, one)| format!("{kind}: {}", one.error));
        let error = errors.collect::<Vec<_>>().join("; ");
        self.env.emit(LogEvent::NotSynced { kinds: kinds.join(", "), error });
        self.tell_pods(kinds.first().copied().unwrap_or_default());
    }
}

impl ClusterWatcher {
    /// A pod that was parsed, and whose quantities make no sense.
    pub(super) fn cannot_read_pod(&mut self, pod: &Pod, why: String) {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let mut unread = Unreadable {
            kind: Pod::kind(&()).into_owned(),
            api_version: Pod::api_version(&()).into_owned(),
            metadata: pod.metadata.clone(),
            why,
            ..Unreadable::default()
        };
        unread.facts.node_name = spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        unread.facts.phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
        self.cannot_read(WatchedKind::Pod, unread);
    }

    fn cannot_read(&mut self, kind: WatchedKind, unread: Unreadable) {
        let name = unread.metadata.name.clone().unwrap_or_default();
        let places_lost = self.state.places_lost();
        let applied = self.state.apply_unreadable(kind, unread.clone());
        if applied == UpdateEffect::Stale {
            return;
        }
        let unread = Arc::new(unread);
        if self.reports.note(&self.env, &unread) {
            self.record(report::event(&unread));
        }
        match kind {
            WatchedKind::NodeClaim => self.tell_claim(&name, &unread.metadata),
            WatchedKind::Node => self.tell_node(&name, &unread.metadata),
            _ => {}
        }
        if matches!(kind, WatchedKind::NodePool | WatchedKind::NodeClass) {
            let unusable = CannotUse { kind, object: unread };
            self.to_leader(|leader| self.env.post(&leader.unusable, unusable.clone()));
        }
        self.post_places_lost(places_lost);
        self.tell_departures();
        // A kubelet writes the status of its Node every few seconds: nobody's place depends on that.
        if kind != WatchedKind::Pod && applied == UpdateEffect::News {
            self.world_changed();
        }
        self.cluster_changed();
    }

    /// A claim goes on as it was last read, with what its metadata says now: also that it is being deleted.
    fn tell_claim(&self, name: &str, meta: &ObjectMeta) {
        let snapshot = self.state.snapshot();
        let Some(known) = snapshot.claims.get(name).filter(|known| known.claim.metadata.uid == meta.uid) else {
            return;
        };
        self.to_leader(|leader| {
            leader.claims.iter().for_each(|to| self.env.post(to, ClaimChanged(known.claim.clone())));
        });
    }

    fn tell_node(&mut self, name: &str, meta: &ObjectMeta) {
        let Some(known) = self.nodes.get_mut(name).filter(|known| known.metadata.uid == meta.uid) else { return };
        Arc::make_mut(known).metadata = meta.clone();
        let node = known.clone();
        self.to_leader(|leader| leader.nodes.iter().for_each(|to| self.env.post(to, NodeChanged(node.clone()))));
    }

    /// The pools, or the classes, that are there, also those that cannot be read, by name.
    pub(super) fn names(&self, kind: WatchedKind) -> BTreeSet<String> {
        let now = self.state.snapshot();
        let read: BTreeSet<String> = match kind {
            WatchedKind::NodePool => now.pools.keys().cloned().collect(),
            _ => now.classes.keys().cloned().collect(),
        };
        let unread = now.unreadable_of(kind).map(|(name, _)| name.to_owned());
        unread.chain(read).collect()
    }

    fn unread_gone(&mut self, kind: WatchedKind, meta: &ObjectMeta) {
        let name = meta.name.clone().unwrap_or_default();
        self.state.delete_unreadable(kind, meta);
        match kind {
            WatchedKind::Node => self.node_gone(&name, meta.uid.as_deref()),
            WatchedKind::NodeClaim => self.claim_gone(&name, meta.uid.as_deref()),
            WatchedKind::NodePool => self.pool_gone(name),
            WatchedKind::NodeClass => self.class_gone(name),
            _ => {}
        }
        self.world_changed();
        self.cluster_changed();
    }

    /// Writes an event where this replica leads.
    fn record(&self, record: Record) {
        if let (Some(recorder), true) = (&self.recorder, self.leader.is_some()) {
            self.env.post(recorder, record);
        }
    }

    /// A new leader's actors hear of everything that cannot be read.
    pub(super) fn tell_unread(&self) {
        for ((kind, _), unread) in self.state.snapshot().unreadable.iter() {
            self.record(report::event(unread));
            if matches!(kind, WatchedKind::NodePool | WatchedKind::NodeClass) {
                let unusable = CannotUse { kind: *kind, object: unread.clone() };
                self.to_leader(|leader| self.env.post(&leader.unusable, unusable.clone()));
            }
        }
    }

    /// The watch of a kind, as it is called, is known to run again.
    pub(super) fn watch_runs(&mut self, kind: &str) {
        self.failures.all.remove(kind);
        if self.failures.all.is_empty() {
            self.failures.pods.clear();
        }
    }

    pub(super) fn watch_failed(&mut self, failed: WatchFailed) {
        let now = self.env.now();
        let one = self.failures.all.entry(failed.kind);
        let one = one.or_insert_with(|| Failing { since: now, listed: false, error: String::new(), reported: false });
        (one.error, one.listed) = (failed.error, false);
        let (kind, error) = (failed.kind.to_owned(), one.error.clone());
        let seconds = now.saturating_sub(one.since);
        if seconds >= LONG {
            // An outage of the API server is said once, not for each kind.
            if !self.env.outage.is_said() && !std::mem::replace(&mut one.reported, true) {
                self.env.emit(LogEvent::WatchFailing { resource: kind, seconds: seconds.as_secs(), error });
            }
            // Plans go on without news of a kind behind a gate, once it was known.
            if self.leader.is_some() && (!is_gated(failed.kind) || self.not_known.contains(failed.kind)) {
                self.tell_pods(failed.kind);
            }
        }
    }

    /// While the cluster is unknown, pending pods get one event that nothing is planned for them.
    fn tell_pods(&mut self, watch: &str) {
        let Some(recorder) = &self.recorder else { return };
        let snapshot = self.state.snapshot();
        let waiting = snapshot.unbound().filter(|pod| pod.provisionable);
        let untold: Vec<_> = waiting.filter(|pod| !self.failures.pods.contains(&pod.pod.uid)).collect();
        let room = MOST_PODS.saturating_sub(self.failures.pods.len());
        for pod in untold.into_iter().take(room) {
            self.failures.pods.insert(pod.pod.uid.clone());
            let message = format!("No node is planned for this pod now: {watch} cannot be watched");
            let record = Record::warning(object::pod(&pod.pod), "FailedScheduling", message);
            self.env.post(recorder, record.quiet_for(REPEAT_INTERVAL));
        }
    }

    /// Reports the cluster, and how far it is known.
    pub(super) fn observed(&self) -> ClusterWatcherState {
        let now = self.state.snapshot();
        let failing = self.failures.long(self.env.now());
        let failing = failing.map(|(kind, seconds, error)| (kind, WatchFailing { seconds, error: error.to_owned() }));
        let object = |one: &Arc<Unreadable>| UnreadableObject {
            kind: one.kind.clone(),
            object: one.full_name(),
            why: one.why.clone(),
        };
        ClusterWatcherState {
            synced: self.synced,
            pods: now.pods.len(),
            nodes: now.nodes.len(),
            node_claims: now.claims.len(),
            node_pools: now.pools.len(),
            node_classes: now.classes.len(),
            expected: now.nominations.len(),
            deleting: now.deleting.nodes.len(),
            not_listed: self.state.not_listed().map(|kind| kind.resource_of(self.env.settings.provider)).collect(),
            watches_failing: failing.collect(),
            unreadable: now.unreadable_counts(),
            unreadable_objects: now.unreadable.values().take(MOST_LISTED).map(object).collect(),
        }
    }
}
