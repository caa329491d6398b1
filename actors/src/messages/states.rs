//! States of the actors, as answered to [`Observe`]. Control flow reads the fields; the console, metrics and `/debug/actors` show
//! the same as JSON, under the same names.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;
use serde::Serialize;

use super::held::{BuffersState, DeletionCostsState, GangsState, OverlaysState, QuotasState, StaticPoolsState};
use super::{RecordedEvent, Term};

/// Asks an actor for its state.
#[derive(Clone, Copy, Debug)]
pub struct Observe;

impl Message for Observe {
    type Result = ActorState;
}

/// Counts by what is counted, since the actor began.
pub type Counts = BTreeMap<&'static str, u64>;

macro_rules! states {
    ($($actor:ident: $variant:ident($state:ident)),+ $(,)?) => {
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum ActorState {
            $(#[doc = concat!("State of `", stringify!($actor), "`.")] $variant($state),)+
        }

        $(impl From<$state> for ActorState {
            fn from(state: $state) -> Self {
                Self::$variant(state)
            }
        })+

        /// States of a replica's actors. An actor that does not run, or has not answered in time, is left out.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct ReplicaState {
            /// State of `control_plane`, which asks the others.
            pub control_plane: ControlPlaneState,
            $(#[doc = concat!("State of `", stringify!($actor), "`.")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $actor: Option<$state>,)+
        }

        impl ReplicaState {
            /// Takes in what an actor says.
            pub fn insert(&mut self, state: ActorState) {
                match state {
                    $(ActorState::$variant(state) => self.$actor = Some(state),)+
                }
            }
        }
    };
}

states! {
    pod_watcher: PodWatcher(PodWatcherState),
    cluster_watcher: ClusterWatcher(ClusterWatcherState),
    catalogue: Catalogue(CatalogueState),
    recorder: Recorder(RecorderState),
    leader: Leader(LeaderState),
    batcher: Batcher(BatcherState),
    packer: Packer(PackerState),
    launcher: Launcher(LauncherState),
    registrar: Registrar(RegistrarState),
    node_class: NodeClass(NodeClassState),
    terminator: Terminator(TerminatorState),
    interruption: Interruption(InterruptionState),
    disruptor: Disruptor(DisruptorState),
    janitor: Janitor(JanitorState),
    owner: Owner(OwnerState),
    webhook: Webhook(WebhookState),
    translator: Translator(TranslatorState),
    static_pools: StaticPools(StaticPoolsState),
    buffers: Buffers(BuffersState),
    gangs: Gangs(GangsState),
    overlays: Overlays(OverlaysState),
    quotas: Quotas(QuotasState),
    deletion_costs: DeletionCosts(DeletionCostsState),
}

/// State of `control_plane`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControlPlaneState {
    /// True if the leader's actors run here.
    pub leads: bool,
    /// Number of recent restarts.
    pub restarts: usize,
    /// Actors that have not answered in time.
    pub silent: Vec<&'static str>,
}

/// State of `pod_watcher`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodWatcherState {
    /// Pods that wait for a node.
    pub waiting: usize,
    /// Pods of which it is not known yet whether they do.
    pub undecided: usize,
    /// True if there are a leader's actors to send pods to.
    pub speaks: bool,
}

/// State of `cluster_watcher`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterWatcherState {
    /// True once every kind has been listed.
    pub synced: bool,
    pub pods: usize,
    pub nodes: usize,
    pub node_claims: usize,
    pub node_pools: usize,
    pub node_classes: usize,
    /// Pods that are expected somewhere.
    pub expected: usize,
    /// Nodes that are leaving.
    pub deleting: usize,
    /// Kinds that have not been listed yet.
    pub not_listed: Vec<&'static str>,
    /// Watches that have failed for long, by kind.
    pub watches_failing: BTreeMap<&'static str, WatchFailing>,
    /// Number of objects that cannot be read, by kind.
    pub unreadable: BTreeMap<String, usize>,
    /// Some of the objects that cannot be read.
    pub unreadable_objects: Vec<UnreadableObject>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchFailing {
    /// Time that it has failed, in seconds.
    pub seconds: u64,
    pub error: String,
}

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableObject {
    /// `NodePool`, `Pod`, …
    pub kind: String,
    /// Its namespace and name.
    pub object: String,
    /// Reason why it cannot be read.
    pub why: String,
}

/// State of `catalogue`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogueState {
    /// Instance types that the region has.
    pub instance_types: usize,
    /// Number of reads of types and prices.
    pub reads: u64,
    /// Offerings that were refused lately.
    pub unavailable: usize,
    /// Age of on-demand prices, seconds; none while the shipped ones stand in.
    pub on_demand_age_seconds: Option<u64>,
    /// Age of spot prices, seconds; none while those on demand stand in.
    pub spot_age_seconds: Option<u64>,
}

/// State of `recorder`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecorderState {
    /// Events that wait to be written.
    pub waiting: usize,
    /// Number of events written.
    pub written: u64,
    /// Number of events dropped.
    pub dropped: u64,
    /// The latest events, the newest last.
    pub latest: Vec<Arc<RecordedEvent>>,
}

/// State of `leader`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderState {
    /// True if this replica holds the Lease.
    pub leads: bool,
    /// Its term, if it holds the Lease.
    pub term: Option<u64>,
    /// Holder of the Lease; empty if unknown.
    pub holder: String,
    /// Reason why the Lease is ignored, if it is.
    pub refuses: Option<String>,
    /// Seconds by which the replica's wall clock is ahead of the API server's; negative where it is behind.
    pub clock_ahead_seconds: i64,
}

/// State of `batcher`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatcherState {
    /// Pods whose window is open.
    pub in_window: usize,
    /// Number of batches so far.
    pub batches: u64,
}

/// State of `packer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackerState {
    /// True while a packing is being computed.
    pub solving: bool,
    /// True if another packing is requested.
    pub queued: bool,
    /// Pods of the last packing.
    pub handled: usize,
    /// Reasons why pods have no place, by uid.
    pub left_over: BTreeMap<String, String>,
    /// Number of packings so far.
    pub packings: u64,
    /// Classes of pods that packing fails with.
    pub failing: usize,
}

/// State of `launcher`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LauncherState {
    /// Orders that wait.
    pub queued: usize,
    pub running: usize,
    /// Launches that have ended, by how.
    pub ends: Counts,
    /// Orders that a ceiling holds.
    pub held: u64,
    /// True if launches may begin.
    pub begun: bool,
}

/// State of `registrar`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistrarState {
    /// NodeClaims that are followed.
    pub claims: usize,
    /// Nodes that are known.
    pub nodes: usize,
    /// Claims of which something is being written.
    pub busy: usize,
    /// Plans whose pods are not all bound.
    pub plans: usize,
    /// Claims that have passed each step.
    pub passed: Counts,
}

/// State of `node_class`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassState {
    /// Readiness of each EC2NodeClass.
    pub classes_ready: BTreeMap<String, bool>,
    /// Readiness of each NodePool.
    pub pools_ready: BTreeMap<String, bool>,
    /// Classes and pools that cannot be read, as `RESOURCE/NAME`.
    pub unreadable: Vec<String>,
}

/// State of `translator`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TranslatorState {
    /// The alpha kinds that the API server serves.
    pub watched: Vec<String>,
    /// Outcome of the translation, by alpha object.
    pub reported: BTreeMap<String, String>,
    /// Alpha objects that cannot be read, as `KIND/NAME`.
    pub unreadable: Vec<String>,
}

/// State of `terminator`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TerminatorState {
    /// Claims and Nodes on their way out.
    pub deleting: usize,
    /// Number of claims and Nodes in each phase of their end, an announced one among them.
    pub phases: Counts,
    /// Claims and Nodes with a step under way.
    pub busy: usize,
    /// Evictions that run.
    pub evicting: usize,
    /// Instances that the cloud is asked to end.
    pub instances: usize,
    /// Nodes whose instances the cloud takes away.
    pub interrupted: usize,
    /// Number of steps done, by kind.
    pub counts: Counts,
}

/// State of `interruption`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InterruptionState {
    /// The queue's name; empty where there is none.
    pub queue: String,
    /// Number of messages so far, by kind.
    pub messages: Counts,
    /// Failures to read the queue.
    pub failures: u64,
    /// Messages whose facts are not written yet.
    pub unwritten: usize,
    /// Messages kept about instances that no claim has yet.
    pub unknown: usize,
    /// Spot nodes whose interruptions are not received, as there is no queue, or it cannot be read.
    pub unheard: usize,
    /// Error name of a queue that cannot be read; empty while it can.
    pub lost: String,
}

/// State of `disruptor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DisruptorState {
    /// Number of looks.
    pub looks: u64,
    /// Removals that wait for their validation.
    pub validating: usize,
    /// Claims that were ordered to go.
    pub asked: usize,
    /// Number of claims removed so far, by reason.
    pub removed: BTreeMap<&'static str, usize>,
    /// Claims whose replacements are on their way.
    pub replacing: usize,
    pub writing: usize,
    /// Writes that wait.
    pub queued: usize,
    /// Commands of consolidation that run.
    pub commands: usize,
}

/// State of `janitor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JanitorState {
    /// Number of the leader's term in which it works.
    pub term: Term,
    /// True if so much was collected lately that nothing more is.
    pub braked: bool,
    /// Number of recent collections.
    pub recent: usize,
    /// Number of collections so far, by kind.
    pub counts: Counts,
    /// Living instances of ours that neither a NodeClaim nor a Node has, as they were listed last.
    pub unclaimed: Vec<UnclaimedInstances>,
}

/// Instances that are alike, and that neither a NodeClaim nor a Node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnclaimedInstances {
    /// The pool that they were launched for.
    pub node_pool: String,
    pub node_class: String,
    /// Instance type, such as `m5.large`.
    pub instance_type: String,
    /// Zone, such as `us-east-1a`.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    pub count: usize,
}

/// State of `owner`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerState {
    /// NodeClaims that are known.
    pub claims: usize,
    /// Instances whose owner is being asked for.
    pub unknown: usize,
    /// Reasons why claims are refused, by name.
    pub refused: BTreeMap<String, &'static str>,
}

/// State of `webhook`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookState {
    /// End of the served certificate's validity; none if none is served.
    pub serves_until: Option<String>,
    /// Faults of the definitions, by name; known to the leader.
    pub definitions: BTreeMap<&'static str, String>,
    /// Objects that were stored anew as v1.
    pub migrated: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_console_finds_states_under_the_names_that_it_knows() {
        let mut all = ReplicaState::default();
        let failing = [("nodepools", WatchFailing { seconds: 75, error: "403".into() })].into();
        all.insert(ClusterWatcherState { watches_failing: failing, ..ClusterWatcherState::default() }.into());
        all.insert(
            PackerState { left_over: [("u".to_owned(), "why".to_owned())].into(), ..PackerState::default() }.into(),
        );
        all.insert(LeaderState::default().into());
        let reported = serde_json::to_value(&all).unwrap_or_default();
        let names: Vec<_> = reported.as_object().into_iter().flat_map(|all| all.keys()).collect();
        assert_eq!(names, ["cluster_watcher", "control_plane", "leader", "packer"], "and no actor that said nothing");
        let cluster = json!({
            "synced": false, "pods": 0, "nodes": 0, "nodeClaims": 0, "nodePools": 0, "nodeClasses": 0, "expected": 0,
            "deleting": 0, "notListed": [], "watchesFailing": {"nodepools": {"seconds": 75, "error": "403"}},
            "unreadable": {}, "unreadableObjects": [],
        });
        assert_eq!(reported["cluster_watcher"], cluster);
        assert_eq!(reported["control_plane"], json!({"leads": false, "restarts": 0, "silent": []}));
        let leader = json!({"leads": false, "term": null, "holder": "", "refuses": null, "clockAheadSeconds": 0});
        assert_eq!(reported["leader"], leader);
        assert_eq!(reported["packer"]["leftOver"]["u"], "why");
    }
}
