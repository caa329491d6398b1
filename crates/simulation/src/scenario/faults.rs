//! `faults` of a scenario: what goes wrong from the start.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

/// Faults that a scenario injects from the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Faults {
    /// At the API server.
    #[serde(default)]
    pub api_server: ScenarioApiServerFaults,
    /// At EC2.
    #[serde(default)]
    pub ec2: ScenarioEc2Faults,
    /// At SQS.
    #[serde(default)]
    pub sqs: ScenarioSqsFaults,
    /// In packing.
    #[serde(default)]
    pub packing: PackingFaults,
    /// At kube-scheduler.
    #[serde(default)]
    pub scheduler: ScenarioSchedulerFaults,
    /// Faults of nodes.
    #[serde(default)]
    pub nodes: ScenarioNodeFaults,
    /// Faults of NodeClaims.
    #[serde(default)]
    pub node_claims: ScenarioClaimFaults,
}

/// Faults of NodeClaims.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioClaimFaults {
    /// Age at which somebody deletes them.
    pub deleted_after: Option<Spanned<String>>,
    /// From the beginning for so long.
    #[serde(rename = "for")]
    pub lasts: Option<Spanned<String>>,
}

/// Faults of kube-scheduler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioSchedulerFaults {
    /// Globs `node/namespace/pod`: nodes that it refuses for pods.
    #[serde(default)]
    pub refuses: Vec<Spanned<String>>,
}

/// Faults of the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioApiServerFaults {
    /// Share of requests that fail, 0 to 1.
    pub error_rate: Option<Spanned<f64>>,
    /// Share of requests that are throttled, 0 to 1.
    pub throttle_rate: Option<Spanned<f64>>,
    /// Share of requests that get no answer, 0 to 1; most of them are carried out.
    pub timeout_rate: Option<Spanned<f64>>,
    /// Time that each request takes.
    pub latency: Option<Spanned<String>>,
}

/// Faults of EC2.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioEc2Faults {
    /// Share of requests that fail, 0 to 1.
    pub error_rate: Option<Spanned<f64>>,
    /// Share of requests that are throttled, 0 to 1.
    pub throttle_rate: Option<Spanned<f64>>,
    /// Time from the beginning for which requests are throttled; to the end without it.
    pub throttle_for: Option<Spanned<String>>,
    /// Share of requests that get no answer, 0 to 1; most of them are carried out.
    pub timeout_rate: Option<Spanned<f64>>,
    /// Longest time that a new instance or tag is not listed.
    pub consistency_lag: Option<Spanned<String>>,
    /// Time that each page of the spot price history takes.
    pub slow_spot_history: Option<Spanned<String>>,
    /// Spot prices rise.
    pub spot_rise: Option<ScenarioSpotRise>,
    /// Spot pools that differ from the model, by `type/zone`.
    #[serde(default)]
    pub spot_pools: BTreeMap<String, Spanned<ScenarioSpotPool>>,
    /// Globs `type/zone/capacityType` that have no capacity.
    #[serde(default)]
    pub insufficient_capacity: Vec<Spanned<String>>,
    /// Share of offerings that have no capacity, 0 to 1.
    pub sold_out_share: Option<Spanned<f64>>,
    /// vCPUs that may run, by `group/capacityType`.
    #[serde(default)]
    pub vcpu_quotas: BTreeMap<String, Spanned<u32>>,
    /// Addresses of the subnet of a zone.
    #[serde(default)]
    pub subnet_addresses: BTreeMap<String, Spanned<u32>>,
    /// Actions that are not allowed.
    #[serde(default)]
    pub unauthorized: Vec<Spanned<String>>,
    /// The account has no service-linked role for spot.
    #[serde(default)]
    pub no_spot_role: bool,
    /// EC2's documented token buckets are in force.
    #[serde(default)]
    pub request_limits: bool,
    /// Share of fleets that are answered with neither an instance nor an error, 0 to 1: nothing is launched.
    pub silent_fleets: Option<Spanned<f64>>,
    /// The same share where an instance is launched, and not told of.
    pub untold_fleets: Option<Spanned<f64>>,
    /// Errors by their codes.
    #[serde(default)]
    pub errors: Vec<ScenarioInjectedError>,
}

/// An error of a call, or of what a fleet asks of offerings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioInjectedError {
    /// Such as `VcpuLimitExceeded`.
    pub code: Spanned<String>,
    /// EC2's message beside the code.
    #[serde(default)]
    pub message: String,
    /// The action that fails as a whole.
    pub action: Option<Spanned<String>>,
    /// Glob `type/zone/capacityType` of what is refused.
    pub offerings: Option<Spanned<String>>,
    /// Number of calls that fail; all without it.
    pub times: Option<u32>,
}

/// Spot prices that rise evenly from the beginning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpotRise {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// Price in the end, as a multiple of the first.
    pub times: Spanned<f64>,
    /// Time in which prices rise so far.
    pub within: Spanned<String>,
}

/// A spot pool that differs from the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpotPool {
    /// Price as a multiple of the model's.
    #[serde(default = "one")]
    pub times: f64,
    /// Instances that fit at once; without it as many as are asked for.
    pub depth: Option<u32>,
}

fn one() -> f64 {
    1.0
}

/// Faults of SQS.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioSqsFaults {
    /// Share of messages that come twice, 0 to 1.
    pub duplicate_rate: Option<Spanned<f64>>,
    /// Share of requests that fail, 0 to 1.
    pub error_rate: Option<Spanned<f64>>,
    /// The interruption queue is lost.
    pub lost: Option<ScenarioQueueLost>,
}

/// A queue that is lost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioQueueLost {
    /// deleted, denied or keyDenied.
    pub how: Spanned<String>,
    /// Time from the beginning until then; none without it.
    pub after: Option<Spanned<String>>,
    /// Time that it lasts; for ever without it.
    #[serde(rename = "for")]
    pub lasts: Option<Spanned<String>>,
}

/// Faults of packing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PackingFaults {
    /// Globs of the names of pods for which packing panics.
    #[serde(default)]
    pub panics_for: Vec<Spanned<String>>,
}

/// Faults of nodes as they join.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioNodeFaults {
    /// They have less for pods than their types promise.
    pub allocatable: Option<ScenarioLessAllocatable>,
    /// They get a taint.
    pub taint_on_join: Option<ScenarioTaintOnJoin>,
    /// They are cordoned.
    pub cordon_on_join: Option<ScenarioOnTypes>,
    /// A label is taken off them when they have registered.
    pub label_taken_off: Option<LabelTakenOff>,
    /// They get a label.
    pub label_put_on: Option<LabelPutOn>,
    /// They join late.
    pub joins_late: Option<ScenarioJoinsLate>,
    /// Kubelets refuse pods.
    pub kubelet_refuses: Option<ScenarioKubeletRefuses>,
    /// From the beginning for so long.
    #[serde(rename = "for")]
    pub lasts: Option<Spanned<String>>,
}

/// Instance types, by globs; all where there are none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioOnTypes {
    /// Such as `m5.*`.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
}

/// Less for pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioLessAllocatable {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// Such as `20%`.
    pub less: Spanned<String>,
}

/// A taint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioTaintOnJoin {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// The taint's key.
    pub key: Spanned<String>,
    /// The taint's value; empty where none is written.
    pub value: Option<Spanned<String>>,
    /// NoSchedule (default), PreferNoSchedule or NoExecute.
    pub effect: Option<Spanned<String>>,
    /// Time from the node's readiness until the taint is taken off.
    #[serde(rename = "takenOff")]
    pub taken_off: Option<Spanned<String>>,
}

/// A label that is taken off.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelTakenOff {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// The label's key.
    pub key: Spanned<String>,
}

/// A label that is put on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelPutOn {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// The label's key.
    pub key: Spanned<String>,
    /// The label's value; empty where none is written.
    pub value: Option<Spanned<String>>,
}

/// Nodes that join late.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioJoinsLate {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// Delay of the node's joining.
    pub by: Spanned<String>,
}

/// Kubelets that refuse pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioKubeletRefuses {
    /// Instance types that it concerns.
    #[serde(default)]
    pub types: Vec<Spanned<String>>,
    /// Labels of the pods; all but DaemonSets' where there are none.
    #[serde(default)]
    pub pods: BTreeMap<String, String>,
}
