//! Asks the actors again and again how they are: what health and metrics tell comes from their answers.

use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::messages::ReplicaState;
use dovetail_actors::{Journal, JournalEntry, LogJournal, Measure, ReplicaHandle, Span};
use dovetail_core::clock::Clock as _;
use dovetail_observability::{Health, Metrics};
use dovetail_telemetry::latest_entries::LatestEntries;
use dovetail_telemetry::state::Latest;
use dovetail_telemetry::{Spans, measures, state};
use tokio::time::{sleep, timeout};

use super::clock::SystemClock;

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(2);
/// At every so manieth beat the cluster is looked at, too: as long as a view is kept, the next change costs a copy.
const VIEW_EVERY: u64 = 5;
/// Longest wait for all answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Time without an answer after which the replica counts as dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Beats while the replica runs.
pub async fn beat(replica: &ReplicaHandle, identity: &str, latest: &Latest, health: Health, metrics: Metrics) {
    for beats in 0_u64.. {
        // Whoever looks at the console sees the cluster move.
        if (beats % VIEW_EVERY == 1 || latest.is_watched())
            && let Ok(Some(view)) = timeout(ANSWER_WITHIN, replica.view()).await
        {
            latest.saw(view);
        }
        match timeout(ANSWER_WITHIN, replica.observe()).await {
            Ok(state) => {
                let state = state.unwrap_or_default();
                heard(&health, &state);
                metrics.saw(state::seen(&state));
                latest.heard(identity, &state, SystemClock.wall());
            }
            Err(_) => health.silent(vec!["control_plane".into()]),
        }
        sleep(EVERY).await;
    }
}

/// Beats before there are actors: the runtime turns.
pub async fn beat_before(health: Health) {
    loop {
        health.moves("it is starting");
        sleep(EVERY).await;
    }
}

/// Tells the probes of a replica's answer.
pub(super) fn heard(health: &Health, state: &ReplicaState) {
    let silent = &state.control_plane.silent;
    if silent.is_empty() {
        health.moves(not_ready(state));
    } else {
        health.silent(silent.iter().map(|name| (*name).to_owned()).collect());
    }
}

/// Reason why it is not ready; empty when it is.
fn not_ready(state: &ReplicaState) -> String {
    let cluster = state.cluster_watcher.clone().unwrap_or_default();
    let failing = cluster.watches_failing.iter();
    let failing = failing.map(|(kind, one)| format!("{kind} for {}s ({})", one.seconds, one.error));
    let failing = failing.collect::<Vec<_>>().join(", ");
    if !cluster.synced {
        let kinds = cluster.not_listed.join(", ");
        let missing = if kinds.is_empty() { kinds } else { format!(": {kinds}") };
        let failing = if failing.is_empty() { failing } else { format!("; watches that fail: {failing}") };
        return format!("the cluster's objects have not all been listed yet{missing}{failing}");
    }
    if !failing.is_empty() {
        return format!("the state of the cluster is outdated, watches that fail: {failing}");
    }
    if state.catalogue.as_ref().is_none_or(|catalogue| catalogue.reads == 0) {
        return "instance types and prices have not been read yet".into();
    }
    // Nobody can lead meanwhile.
    let refuses = state.leader.as_ref().and_then(|leader| leader.refuses.as_ref());
    refuses.map(|why| format!("the lease is ignored: {why}")).unwrap_or_default()
}

/// Recipients of events besides the log.
#[derive(Clone)]
pub struct TelemetrySinks {
    /// Counters of events.
    pub metrics: Metrics,
    /// Spans are sent.
    pub spans: Option<Spans>,
    /// Kept for the console.
    pub entries: LatestEntries,
}

/// The log, and what hears it.
pub struct CountedJournal {
    heard: TelemetrySinks,
    identity: String,
}

impl CountedJournal {
    /// For a replica.
    pub fn shared(heard: TelemetrySinks, identity: &str) -> Arc<dyn Journal> {
        Arc::new(Self { heard, identity: identity.to_owned() })
    }
}

impl Journal for CountedJournal {
    fn record(&self, entry: &JournalEntry) {
        self.heard.metrics.happened(entry.actor, entry.log_event.event());
        self.heard.entries.add(SystemClock.wall(), entry);
        LogJournal.record(entry);
    }

    fn traces(&self) -> bool {
        self.heard.spans.is_some()
    }

    fn span(&self, span: Span) {
        if let Some(spans) = &self.heard.spans {
            spans.record(&self.identity, span);
        }
    }

    fn measure(&self, measure: &Measure<'_>) {
        measures::record_measure(&self.heard.metrics, measure);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dovetail_actors::messages::{CatalogueState, ClusterWatcherState, LeaderState, WatchFailing};
    use dovetail_actors::{ClusterClock, InlineSolver, ReplicaParts, Settings};
    use dovetail_cloud::ec2::Ec2Cloud;
    use dovetail_core::clock::Clock;
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use dovetail_sandbox::faults::FaultSettings;
    use dovetail_sandbox::log::Caller;
    use dovetail_simulation::{World, WorldConfig};
    use std::collections::BTreeMap;
    use tokio::task::LocalSet;

    fn state(synced: bool, reads: u64) -> ReplicaState {
        ReplicaState {
            cluster_watcher: Some(ClusterWatcherState { synced, ..ClusterWatcherState::default() }),
            catalogue: Some(CatalogueState { reads, ..CatalogueState::default() }),
            ..ReplicaState::default()
        }
    }

    #[test]
    fn replica_is_ready_once_it_has_seen_cluster_and_catalogue() {
        assert!(not_ready(&state(false, 1)).contains("listed"));
        assert!(not_ready(&state(true, 0)).contains("prices"));
        assert_eq!(not_ready(&state(true, 1)), "");
        assert!(!not_ready(&ReplicaState::default()).is_empty());
        let refuses = Some("its leaseTransitions is 2147483647".to_owned());
        let leader = Some(LeaderState { refuses, ..LeaderState::default() });
        assert!(not_ready(&ReplicaState { leader, ..state(true, 1) }).contains("2147483647"));
    }

    #[test]
    fn unlisted_kind_or_long_failing_watch_is_named_with_the_reason() {
        let failing = WatchFailing { seconds: 75, error: "403 forbidden".to_owned() };
        let cluster = |synced, not_listed| ClusterWatcherState {
            synced,
            not_listed,
            watches_failing: [("nodepools", failing.clone())].into(),
            ..ClusterWatcherState::default()
        };
        let never = ReplicaState { cluster_watcher: Some(cluster(false, vec!["nodepools"])), ..state(false, 0) };
        let said = not_ready(&never);
        assert!(said.contains("listed yet: nodepools") && said.contains("nodepools for 75s (403 forbidden)"), "{said}");
        let later = ReplicaState { cluster_watcher: Some(cluster(true, vec![])), ..state(true, 1) };
        assert!(not_ready(&later).contains("nodepools for 75s (403 forbidden)"));
    }

    fn replica(clock: &Arc<dyn Clock>, metrics: &Metrics) -> (World, ReplicaHandle) {
        let config = WorldConfig {
            region: "us-east-1".into(),
            catalogue: None,
            cluster_name: "demo".into(),
            seed: 1,
            replicas: 0,
            settings: BTreeMap::new(),
            reservations: vec![],
            placement_groups: vec![],
            commitments: Default::default(),
            nodes: Vec::new(),
            faults: FaultSettings::default(),
            panics_for: vec![],
            claims_deleted: None,
            endpoint: None,
            clocks: Vec::new(),
            broken: None,
            alpha_as_written: false,
        };
        let world = World::new(config, clock.clone(), None, |_| {}).unwrap();
        let who = Caller::replica(0, "dovetail-0");
        let http = world.region.http_client(who.clone());
        let heard = TelemetrySinks { metrics: metrics.clone(), spans: None, entries: LatestEntries::default() };
        let replica = dovetail_actors::start(ReplicaParts {
            identity: "dovetail-0".into(),
            kube: world.api.client(who.clone()),
            lease_kube: world.api.client(who),
            cloud: Arc::new(Ec2Cloud::sandboxed(http, "us-east-1", "demo", clock.clone(), 1)),
            clock: ClusterClock::over(clock.clone()),
            streams_lists: false,
            rng_seed: 1,
            settings: Settings { cluster_name: "demo".into(), ..Settings::default() },
            identities: None,
            solver: Arc::new(InlineSolver),
            journal: CountedJournal::shared(heard, "dovetail-0"),
        });
        (world, replica)
    }

    #[tokio::test(start_paused = true)]
    async fn replica_with_stalled_actors_is_dead_until_they_move_again() {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(DEFAULT_START));
        let (shown, metrics) = (clock.clone(), Metrics::new("0", "test"));
        let health = Health::new(Arc::new(move || shown.monotonic()), DEAD_AFTER);
        let (set, latest) = (LocalSet::new(), Latest::default());
        let (_world, replica) = set.run_until(async { replica(&clock, &metrics) }).await;
        let beating = |time| timeout(time, beat(&replica, "dovetail-0", &latest, health.clone(), metrics.clone()));
        let _ = set.run_until(beating(Duration::from_secs(60))).await;
        assert_eq!((health.live(), health.ready()), (Ok(()), Ok(())));
        assert!(metrics.text().contains("\ndovetail_leader 1\n"), "{}", metrics.text());
        // Nobody drives the actors any more.
        let _ = beating(DEAD_AFTER + Duration::from_secs(30)).await;
        assert!(health.live().unwrap_err().starts_with("no answer from control_plane for "));
        let _ = set.run_until(beating(Duration::from_secs(60))).await;
        assert_eq!(health.live(), Ok(()));
    }
}
