//! A step of a scenario, as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::default_namespace;

/// One thing that happens at a time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Time of the step since the start of the run.
    pub at: Spanned<String>,
    /// A workload gets another number of replicas.
    pub scale: Option<Scale>,
    /// Pods get other requests while they run.
    pub resize: Option<Resize>,
    /// An object is deleted, as `kubectl delete` does.
    pub delete: Option<Target>,
    /// Some objects of a kind are deleted, the first by name.
    pub delete_some: Option<Loss>,
    /// Manifests are applied.
    pub apply: Option<Vec<Spanned<String>>>,
    /// Spot instances get their warning.
    pub interrupt: Option<Interrupt>,
    /// A text comes into the interruption queue, whatever it says; `{instance}` stands for the first running spot
    /// instance.
    pub message: Option<String>,
    /// A replica is killed.
    pub kill: Option<ReplicaOutage>,
    /// A replica stops running and goes on later.
    pub pause: Option<ReplicaOutage>,
    /// A replica is cut off.
    pub partition: Option<Partition>,
    /// A zone goes down.
    pub zone_down: Option<ZoneDown>,
    /// The cluster is shifted away from a zone.
    pub zonal_shift: Option<ZoneDown>,
    /// Others of the account want instances of a capacity reservation.
    pub take_reserved: Option<TakeReserved>,
    /// A capacity reservation gets another number of instances, or is cancelled.
    pub resize_reserved: Option<TakeReserved>,
    /// Others of the account run instances.
    pub others: Option<OtherInstances>,
    /// The API server loses objects without a trace, as one that was restored from an older state.
    pub lose: Option<Loss>,
    /// Objects become odd: replicas cannot read them.
    pub spoil: Option<Spoil>,
    /// The API server restarts.
    pub restart: Option<Release>,
    /// Changes reach watches late.
    pub slow_watches: Option<Slow>,
    /// Holds a replica's writes on their way to the API server.
    pub hold_writes: Option<HeldWrites>,
    /// The API server is put back to an older state.
    pub restore: Option<Restore>,
    /// Nodes are unwell.
    pub unwell: Option<Unwell>,
    /// EC2 lists no instances.
    pub empty_lists: Option<While>,
    /// So many instances of another cluster appear under this cluster's name.
    pub foreign_instances: Option<u32>,
    /// The operator releases the brakes of the collection.
    pub allow_collection: Option<Release>,
    /// The operator looks after the collection, and releases its brakes where something waits for that.
    pub look_after_collection: Option<Release>,
}

/// Pods that are resized in place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// A glob of their names.
    pub names: Spanned<String>,
    /// Requests of their first container, of `cpu` and `memory`.
    pub requests: BTreeMap<String, String>,
}

/// Objects that are lost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Such as NodeClaim.
    pub kind: Spanned<String>,
    /// Most that are affected, the first by name; all without it.
    pub count: Option<usize>,
}

/// Objects that become odd.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spoil {
    /// Such as Pod.
    pub kind: Spanned<String>,
    /// A glob of their names; all without it.
    pub names: Option<String>,
    /// Most that are affected, the first by name; all without it.
    pub count: Option<usize>,
    /// Oddity of the objects: type (default), depth or managedFields.
    pub how: Option<Spanned<String>>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unwell {
    /// The type of the condition that is False on them.
    pub condition: Spanned<String>,
    /// Most that are affected, the first by name; all without it.
    pub count: Option<usize>,
    /// Number of nodes, the first by name, that are left out.
    #[serde(default)]
    pub skip: usize,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
    /// Reason of the condition; `Reported` without it.
    pub reason: Option<String>,
    /// True if it ends when the node's machine restarts.
    #[serde(default, rename = "untilReboot")]
    pub until_reboot: bool,
}

/// Time for which a step lasts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct While {
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

/// Changes reach watches late for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Delay of each change.
    pub by: Spanned<String>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

/// The writes of a replica are each held for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldWrites {
    /// A number from 0, or `leader`.
    pub replica: Spanned<String>,
    /// Delay of each write.
    pub by: Spanned<String>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

/// Back to an older state.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Age of that state.
    pub age: Spanned<String>,
    /// Time that the API server is down meanwhile.
    #[serde(rename = "for")]
    pub duration: Spanned<String>,
}

/// Time for which the collection is released, which has to end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// From now on.
    #[serde(rename = "for")]
    pub duration: Spanned<String>,
}

/// A workload gets another number of replicas.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Deployment, ReplicaSet or StatefulSet.
    pub kind: Spanned<String>,
    /// `metadata.name` of the workload.
    pub name: Spanned<String>,
    /// `metadata.namespace` of the workload; `default` where none is written.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Replicas that it has from then on.
    pub replicas: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Such as Deployment, Node or NodePool.
    pub kind: Spanned<String>,
    /// `metadata.name` of the object.
    pub name: Spanned<String>,
    /// Its namespace, where it has one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

/// Spot instances that get their warning: a share of them, a node's, or a pool's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// A share of the running spot instances, `25%`.
    pub spot: Option<Spanned<String>>,
    /// A node by name.
    pub node: Option<Spanned<String>>,
    /// Those of an instance type in a zone, `m5.large/us-east-1a`.
    pub pool: Option<Spanned<String>>,
    /// Time for which the pool is sold out.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

/// A replica that is out for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaOutage {
    /// A number from 0, or `leader`.
    pub replica: Spanned<String>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

/// A replica is cut off.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// A number from 0, or `leader`.
    pub replica: Spanned<String>,
    /// Services that it is cut off from: apiServer, ec2, sqs; all by default.
    #[serde(default)]
    pub from: Vec<Spanned<String>>,
    /// in, out or both (default).
    pub direction: Option<Spanned<String>>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneDown {
    /// Such as `us-east-1a`.
    pub zone: Spanned<String>,
    /// Time for which it lasts; without it for ever.
    #[serde(rename = "for")]
    pub duration: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeReserved {
    /// Id of the reservation.
    pub id: Spanned<String>,
    /// Instances that others want from now on, of which they get each that is free; or that it has from now on, 0 if it is cancelled.
    pub count: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OtherInstances {
    /// Such as `m5.large`.
    pub instance_type: Spanned<String>,
    /// Such as `us-east-1a`.
    pub zone: Spanned<String>,
    /// Instances of that type and zone that they run from now on, on demand.
    pub count: u32,
}
