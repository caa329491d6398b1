//! Typed counts and measurements: the metrics of core spec 7.1 that no state shows. Each is emitted once, where it happens;
//! metrics are made of them elsewhere.

use crate::messages::DisruptionFacts;

/// Something counted or measured. Fields are the labels of the metrics, by their names.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure<'a> {
    /// A NodeClaim has been created.
    ClaimCreated { pool: &'a str, reason: &'static str, min_values_relaxed: bool },
    /// A NodeClaim is gone.
    ClaimTerminated { pool: &'a str, capacity_type: &'a str, zone: &'a str },
    /// A NodeClaim has been told to go by our own decision; `grace` is its terminationGracePeriod in seconds, if it has one.
    ClaimDisrupted {
        pool: &'a str,
        capacity_type: &'a str,
        reason: &'a str,
        grace: Option<u64>,
        facts: DisruptionFacts,
    },
    /// A NodeClaim goes as its Node has had that condition for too long.
    ClaimUnhealthy {
        condition: &'static str,
        pool: &'a str,
        capacity_type: &'a str,
        image: &'a str,
        grace: Option<u64>,
    },
    /// A Node has registered.
    NodeCreated { pool: &'a str, zone: &'a str },
    /// A Node is gone; seconds since its deletion began, and of its life, where known.
    NodeTerminated { pool: &'a str, zone: &'a str, seconds: Option<f64>, lifetime: Option<f64> },
    /// A Node has been drained.
    NodeDrained { pool: &'a str },
    /// An instance is gone, this long after its end was requested.
    InstanceTerminated { pool: &'a str, seconds: f64 },
    /// From a claim's deletion until it was gone.
    ClaimEnded { pool: &'a str, seconds: f64 },
    /// A pod that waited for a node is bound; seconds since it was created.
    PodBound { seconds: f64, trace: u128 },
    /// A pod is ready; seconds since it was created.
    PodStarted { seconds: f64 },
    /// A packing has been computed.
    Scheduled { controller: &'static str, seconds: f64, trace: u128 },
    /// A packing has been compared with another policy; what the nodes of each cost an hour.
    Compared { policy: &'static str, dollars: f64, other: &'static str, other_dollars: f64 },
    /// A packing has failed: by a panic or by its bound, and what was done about it.
    PackingFailed { cause: &'static str, outcome: &'static str },
    /// An eviction has been answered.
    EvictionAnswered { code: u16 },
    /// A pod has been evicted or deleted for that reason.
    PodDrained { reason: &'a str },
    /// The disruptor has looked.
    DisruptionLooked { seconds: f64 },
    /// Disruption has decided.
    DisruptionDecided { decision: &'static str, reason: &'a str, consolidation_type: &'a str },
    /// Disruption has decided about nodes of that pool.
    DisruptionDecidedInPool { pool: &'a str, decision: &'static str, reason: &'a str, consolidation_type: &'a str },
    /// A command of consolidation did not pass its validation.
    ValidationFailed { consolidation_type: &'a str },
    /// A command has been given up.
    CommandFailed { decision: &'static str, reason: &'a str, consolidation_type: &'a str },
    /// A call to the cloud has been answered, with an error or without.
    CloudAnswered { controller: &'static str, method: &'static str, seconds: f64, error: Option<&'a str> },
    /// The cloud has refused an offering.
    LaunchRefused { zone: &'a str, zone_id: &'a str, capacity_type: &'a str, reason: &'a str },
    /// A node is not used by the pods that it was launched for.
    NodeUnused { pool: &'a str, reason: &'static str },
    /// A node's reboot has come to an end.
    NodeRebooted { pool: &'a str, outcome: &'static str, result: Option<&'static str> },
    /// The queue has given a message.
    MessageReceived { kind: &'a str, waited: Option<f64> },
    /// The status checks have found an instance unhealthy.
    InstanceUnhealthy { category: &'a str },
    /// A message has been taken out of the queue.
    MessagesDeleted { count: usize },
    /// An event has been written, or dropped.
    EventWritten { reason: &'a str, written: bool },
    /// The annotation with a pod's deletion cost was written, or not.
    DeletionCostWritten { result: &'static str },
    /// An actor has answered when it was asked how it is.
    ActorAnswered { actor: &'static str, seconds: f64 },
    /// A message went into a mailbox that was full.
    MailboxFull { sender: &'static str, message: &'static str },
}
