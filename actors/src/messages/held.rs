//! States of the actors that hold nodes whatever pods wait, and the message about room that they hold.

use std::collections::BTreeMap;

use actix::Message;
use dovetail_core::cluster_state::HeldRoom;
use serde::Serialize;

/// State of `static_pools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StaticPoolsState {
    pub looks: u64,
    pub pools: BTreeMap<String, StaticPoolState>,
}

/// State of `buffers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuffersState {
    pub looks: u64,
    /// By namespace and name.
    pub buffers: BTreeMap<String, BufferState>,
}

/// State of `gangs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GangsState {
    pub looks: u64,
    /// By namespace and name.
    pub requests: BTreeMap<String, RequestState>,
}

/// State of a ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestState {
    /// Number of its pods.
    pub pods: usize,
    /// Number of pods that have not come and whose room is on nodes that are ready.
    pub ready: usize,
    /// The same on nodes that are on their way.
    pub coming: usize,
    /// Reason of the condition that was set last, with its message.
    pub says: String,
}

/// State of `overlays`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverlaysState {
    pub looks: u64,
    /// By name: reason of the condition ValidationSucceeded, with its message.
    pub overlays: BTreeMap<String, String>,
}

/// State of `quotas`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QuotasState {
    pub looks: u64,
    /// By name; the first hundred of them.
    pub quotas: BTreeMap<String, QuotaState>,
}

/// State of `deletion_costs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeletionCostsState {
    pub looks: u64,
    /// Deletion costs of pods by node; the lowest on nodes that are being disrupted.
    pub values: BTreeMap<String, i32>,
    /// Number of nodes, by NodePool, with pods that were to be written at the last look.
    pub pending: BTreeMap<String, usize>,
}

/// State of a CapacityQuota.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QuotaState {
    /// `spec.limits.resources`, in cores and whole units.
    pub limits: BTreeMap<String, f64>,
    /// Capacity of the Nodes that count, of those resources.
    pub used: BTreeMap<String, f64>,
    /// Message of the condition Reconciled.
    pub says: String,
}

/// State of a capacity buffer: numbers of pods that it has room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferState {
    /// Number of pods that room is to be held for.
    pub wanted: usize,
    /// Number on nodes that are ready for pods.
    pub ready: usize,
    /// Number on nodes that are on their way.
    pub coming: usize,
    /// Number of those that have no place.
    pub left_over: usize,
    /// Dollars an hour of the room.
    pub dollars_per_hour: f64,
    /// Reason of the condition Provisioning, with its message.
    pub says: String,
}

/// State of a static pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StaticPoolState {
    /// `spec.replicas`.
    pub desired: usize,
    /// Nodes that are ready for pods and stay.
    pub ready: usize,
    /// Claims whose nodes are not ready yet.
    pub launching: usize,
    /// Claims that go, or stay until their successors stand.
    pub deleting: usize,
    /// Reason of the condition ReplicasReady, with its message.
    pub says: String,
}

/// Room that capacity buffers hold has these places: disruption counts with it. Order, to `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct HoldRoom {
    /// Room of single pods by the node or claim that has it.
    pub room: HeldRoom,
}

/// Room that ProvisioningRequests have booked has these places: plans for other pods leave it alone. Order, to
/// `cluster_watcher`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct BookRoom {
    /// Room of single pods by the node or claim that has it.
    pub room: HeldRoom,
}
