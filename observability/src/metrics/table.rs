//! Every metric that is counted or measured where it happens: its name, type, labels and what it means, once. What shows a
//! state (nodes, pods, pools, cost) is written when it is asked for: see [`super::MetricsPage`].

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A counter; its name is written with `_total`.
    Counter,
    /// A counter of seconds.
    Seconds,
    /// A histogram with these upper bounds.
    Histogram(&'static [f64]),
    /// The quantiles 0, .5, .9, .99 and 1 of the last ten minutes or so.
    Summary,
}

/// A metric by its name.
#[derive(Clone, Copy, Debug)]
pub struct KnownMetric {
    /// Its name, without what its type adds.
    pub name: &'static str,
    /// Counter, histogram or summary. A gauge shows a state and has no row here.
    pub kind: MetricKind,
    /// Its labels, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// Help text: the metric's meaning.
    pub help: &'static str,
}

/// controller-runtime's, then on to ten minutes (core spec 7.1). Seconds.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];
const DOUBLES_TO_1024: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
const DOUBLES_TO_2048: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
/// From a quarter of an hour to thirty days. Seconds.
const LIVES: &[f64] = &[
    900.0,
    1800.0,
    3600.0,
    7200.0,
    14400.0,
    28800.0,
    43200.0,
    86400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    604_800.0,
    1_209_600.0,
    1_814_400.0,
    2_592_000.0,
];
/// An answer of an actor: what stands in its mailbox comes first. Seconds.
const ANSWERS: &[f64] = &[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

macro_rules! metrics {
    ($($id:ident $name:literal $kind:expr, [$($label:literal),*], $help:literal;)*) => {
        /// A metric that is counted or measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Id { $($id,)* }

        /// All of them, in the order of [`Id`].
        pub const TABLE: &[KnownMetric] = &[$(KnownMetric { name: $name, kind: $kind, labels: &[$($label),*], help: $help },)*];
    };
}

use MetricKind::{Counter, Histogram, Seconds, Summary};

metrics! {
    ClaimsCreated "karpenter_nodeclaims_created" Counter, ["reason", "nodepool", "min_values_relaxed"], "NodeClaims created, by reason and NodePool";
    ClaimsTerminated "karpenter_nodeclaims_terminated" Counter, ["nodepool", "capacity_type", "zone"], "NodeClaims that are gone";
    ClaimsDisrupted "karpenter_nodeclaims_disrupted" Counter, ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"], "NodeClaims disrupted by Dovetail's own decision";
    InstanceTermination "karpenter_nodeclaims_instance_termination_duration_seconds" Histogram(DOUBLES_TO_1024), ["nodepool"], "From the call that ends an instance until it was gone";
    ClaimTermination "karpenter_nodeclaims_termination_duration_seconds" Histogram(DOUBLES_TO_2048), ["nodepool"], "From a NodeClaim's deletion until it was gone";
    NodesCreated "karpenter_nodes_created" Counter, ["nodepool", "zone"], "Nodes that have registered";
    NodesTerminated "karpenter_nodes_terminated" Counter, ["nodepool", "zone"], "Nodes that are gone";
    NodesDrained "karpenter_nodes_drained" Counter, ["nodepool"], "Nodes drained";
    NodeTermination "karpenter_nodes_termination_duration_seconds" Summary, ["nodepool"], "From a Node's deletion until it was gone";
    NodeLifetime "karpenter_nodes_lifetime_duration_seconds" Histogram(LIVES), ["nodepool"], "From a Node's creation until it was gone";
    ClaimsUnhealthy "karpenter_nodeclaims_unhealthy_disrupted" Counter, ["condition", "nodepool", "capacity_type", "image_id", "termination_mode"], "NodeClaims removed as their Node was unhealthy for too long";
    NodeReboots "dovetail_node_reboots" Counter, ["nodepool", "outcome"], "Reboots of nodes as repairs that have come to an end, by outcome";
    RebootsDone "karpenter_nodes_reboots" Counter, ["result"], "Reboots of nodes that EC2 was asked for and that have come to an end";
    NodesUnused "dovetail_nodes_unused" Counter, ["nodepool", "reason"], "Nodes that got none of the pods for which they were launched, by reason";
    PodsStartup "karpenter_pods_startup_duration_seconds" Summary, [], "From a pod's creation until it was ready";
    PodsBound "karpenter_pods_bound_duration_seconds" Histogram(DURATIONS), [], "From a pod's creation until it was bound, of pods that waited for a node";
    PodsDisruptionInitiated "karpenter_pods_disruption_initiated" Counter, ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"], "Pods that had to move off NodeClaims when these were disrupted, DaemonSets' and static pods excepted";
    EvictionRequests "karpenter_pods_eviction_requests" Counter, ["code"], "Calls to the Eviction API, by the answer's code";
    PodsDrained "karpenter_pods_drained" Counter, ["reason"], "Pods evicted or deleted from nodes that were removed";
    Scheduling "karpenter_scheduler_scheduling_duration_seconds" Histogram(DURATIONS), ["controller"], "How long a packing took to compute";
    Compared "dovetail_packing_compared_dollars_per_hour" Seconds, ["policy"], "Price per hour of the nodes of sampled packings, and their price with another policy";
    PackingFailures "dovetail_packing_failures" Counter, ["cause", "outcome"], "Packings that failed, by a panic or by the bound on their work, and whether fewest-nodes packed them or pods were left out";
    Decisions "karpenter_voluntary_disruption_decisions" Counter, ["decision", "reason", "consolidation_type"], "Decisions to disrupt nodes";
    DecisionsByPool "karpenter_voluntary_disruption_decisions_by_nodepool" Counter, ["nodepool", "decision", "reason", "consolidation_type"], "Decisions to disrupt nodes, once for each NodePool with such nodes";
    FailedValidations "karpenter_voluntary_disruption_failed_validations" Counter, ["consolidation_type"], "Commands of consolidation that did not pass their validation";
    QueueFailures "karpenter_voluntary_disruption_queue_failures" Counter, ["decision", "reason", "consolidation_type"], "Commands that were undone, as a replacement failed";
    DeletionCostWrites "karpenter_pod_deletion_cost_pod_annotation_writes" Counter, ["result"], "Writes of pods' deletion costs, by outcome";
    Evaluation "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" Histogram(DURATIONS), [], "How long an evaluation of nodes to disrupt took";
    CloudDuration "karpenter_cloudprovider_duration_seconds" Histogram(DURATIONS), ["controller", "method", "provider"], "How long the cloud took to answer";
    CloudErrors "karpenter_cloudprovider_errors" Counter, ["controller", "method", "provider", "error"], "Calls to the cloud that failed";
    LaunchFailures "karpenter_cloudprovider_instance_launch_failures" Counter, ["zone", "zone_id", "capacity_type", "reason"], "Offerings that the cloud refused";
    MessagesReceived "karpenter_interruption_received_messages" Counter, ["message_type"], "Messages of the interruption queue";
    MessagesDeleted "karpenter_interruption_deleted_messages" Counter, [], "Messages deleted from the interruption queue";
    MessageWait "karpenter_interruption_message_queue_duration_seconds" Histogram(DURATIONS), [], "How long a message was in the queue before it was read";
    StatusUnhealthy "karpenter_interruption_instance_status_unhealthy" Counter, ["category"], "Instances that fail EC2's status checks, by check";
    Events "dovetail_events" Counter, ["actor", "event"], "Log events, by actor";
    KubernetesEvents "dovetail_kubernetes_events" Counter, ["reason", "outcome"], "Kubernetes events written or dropped";
    ActorAnswer "dovetail_actor_answer_seconds" Histogram(ANSWERS), ["actor"], "How long an actor took to answer a health query; messages that were in its mailbox before come first";
    MailboxFull "dovetail_mailbox_full" Counter, ["sender", "message"], "Messages beyond the bound of an actor's mailbox; they are still delivered";
    KubeWait "dovetail_kube_client_wait_seconds" Seconds, [], "Seconds that requests to the API server waited for KUBE_CLIENT_QPS";
}
