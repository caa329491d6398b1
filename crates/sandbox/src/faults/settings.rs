//! Faults and their rates, as a scenario or a request writes them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as duration;
use serde::{Deserialize, Serialize};

use super::Service;
use super::account::InjectedError;
use crate::globs::glob_matches;
use crate::node_faults::NodeFaults;

/// `faults.apiServer` of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApiServerFaults {
    /// The share of requests, 0 to 1, that end with a 5xx and are not carried out.
    pub error_rate: f64,
    /// The share of requests, 0 to 1, that end with a 429.
    pub throttle_rate: f64,
    /// The share of requests, 0 to 1, that end without an answer: three in four of them are carried out all the same.
    pub timeout_rate: f64,
    /// Added to each request.
    #[serde(with = "duration")]
    pub latency: Duration,
}

/// `faults.ec2` of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ec2Faults {
    /// The share of requests, 0 to 1, that end with `InternalError` and are not carried out.
    pub error_rate: f64,
    /// The share of requests, 0 to 1, that end with `RequestLimitExceeded`.
    pub throttle_rate: f64,
    /// Time from the beginning for which they do; for ever where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_for: Option<Duration>,
    /// The share of requests, 0 to 1, that end without an answer: three in four of them are carried out all the same.
    pub timeout_rate: f64,
    /// Added to each request.
    #[serde(with = "duration")]
    pub latency: Duration,
    /// Globs of `type/zone/capacityType` that are sold out, as in `m5.*/us-east-1a/spot`.
    pub insufficient_capacity: Vec<String>,
    /// The share of offerings, 0 to 1, that are sold out: the same ones each time, drawn from the region's seed.
    pub sold_out_share: f64,
    /// Most vCPUs that may run, by `group/capacityType`, `Standard/on-demand`.
    pub vcpu_quotas: BTreeMap<String, u32>,
    /// Number of addresses that the subnet of a zone has for instances, by zone.
    pub subnet_addresses: BTreeMap<String, u32>,
    /// Actions that policies do not allow, `CreateFleet`; `RunInstances` is denied within a fleet.
    pub unauthorized: Vec<String>,
    /// True if the account has no service-linked role for spot, and none may be created.
    pub no_spot_role: bool,
    /// True to refuse requests beyond EC2's documented token buckets.
    pub request_limits: bool,
    /// The share of fleets, 0 to 1, that are answered with neither an instance nor an error, and launch nothing.
    pub silent_fleets: f64,
    /// The share of fleets, 0 to 1, that are answered so and do launch.
    pub untold_fleets: f64,
    /// Errors by their codes.
    pub errors: Vec<InjectedError>,
    /// True to answer DescribeInstances without any instance unless it is asked for ids.
    pub empty_lists: bool,
    /// Longest time that a new instance or tag stays unseen by describes; each draws its own lag. None by default.
    #[serde(with = "duration")]
    pub consistency_lag: Duration,
    /// Time that each page of DescribeSpotPriceHistory takes.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub slow_spot_history: Duration,
    /// Spot prices that rise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_rise: Option<SpotRise>,
    /// Spot pools that differ from the model, by `type/zone`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spot_pools: BTreeMap<String, SpotPool>,
}

/// A spot pool, an instance type in a zone, that differs from the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpotPool {
    /// Price as a multiple of the model's.
    #[serde(default = "one")]
    pub times: f64,
    /// Instances that the account may have in it at once; without bound where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

fn one() -> f64 {
    1.0
}

impl Ec2Faults {
    /// The pool of a type in a zone, where it differs from the model.
    pub(super) fn spot_pool(&self, instance_type: &str, zone: &str) -> Option<SpotPool> {
        if self.spot_pools.is_empty() {
            return None;
        }
        self.spot_pools.get(&format!("{instance_type}/{zone}")).copied()
    }
}

/// Spot prices of some instance types rise evenly from the beginning, and stay where they have come to. Instances keep the
/// price of their launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpotRise {
    /// Globs of the instance types; all where there are none.
    #[serde(default)]
    pub types: Vec<String>,
    /// Price in the end, as a multiple of the first.
    pub times: f64,
    /// Time in which prices rise so far.
    #[serde(with = "duration")]
    pub within: Duration,
}

impl SpotRise {
    /// Price of a type at `after` since the beginning, as a multiple of its first.
    pub fn factor(&self, instance_type: &str, after: Duration) -> f64 {
        let rises = self.types.is_empty() || self.types.iter().any(|glob| glob_matches(glob, instance_type));
        let part = if self.within.is_zero() { 1.0 } else { after.as_secs_f64() / self.within.as_secs_f64() };
        if rises { 1.0 + (self.times - 1.0) * part.min(1.0) } else { 1.0 }
    }
}

/// `faults.sqs` of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SqsFaults {
    /// The share of requests, 0 to 1, that end with `InternalFailure`.
    pub error_rate: f64,
    /// The share of messages, 0 to 1, that are delivered twice.
    pub duplicate_rate: f64,
    /// The interruption queue is lost for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<QueueLost>,
}

/// See [`SqsFaults::lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueLost {
    /// Way in which it is lost.
    pub how: QueueLoss,
    /// Time from the beginning until then.
    #[serde(with = "duration")]
    pub after: Duration,
    /// Time that it lasts; for ever where it does not say.
    pub lasts: Option<Duration>,
}

/// Ways in which a queue is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueueLoss {
    /// It is deleted, with its messages; one of its name that comes back is empty.
    Deleted,
    /// No policy allows the replicas any of its actions.
    Denied,
    /// The replicas may not use the key that its messages are encrypted with.
    KeyDenied,
}

impl QueueLoss {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deleted, Self::Denied, Self::KeyDenied];

    /// Its name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Denied => "denied",
            Self::KeyDenied => "keyDenied",
        }
    }
}

/// `faults.scheduler` of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SchedulerFaults {
    /// Globs of `node/namespace/pod`: nodes that kube-scheduler refuses for pods, as a plugin of its own would.
    pub refuses: Vec<String>,
}

/// `faults` of a scenario: what goes wrong from the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FaultSettings {
    /// The Kubernetes API server's.
    pub api_server: ApiServerFaults,
    /// EC2's.
    pub ec2: Ec2Faults,
    /// The queue's.
    pub sqs: SqsFaults,
    /// The scheduler's, from the start.
    pub scheduler: SchedulerFaults,
    /// Those of nodes.
    pub nodes: NodeFaults,
}

/// Rates of failing, throttling and losing the answer.
pub(super) type Rates = [f64; 3];

impl FaultSettings {
    /// Latency and rates at `since` the beginning.
    pub(super) fn rates(&self, service: Service, since: Duration) -> (Duration, Rates) {
        let throttles = self.ec2.throttle_for.is_none_or(|time| since < time);
        let throttled = if throttles { self.ec2.throttle_rate } else { 0.0 };
        match service {
            Service::ApiServer => {
                let of = &self.api_server;
                (of.latency, [of.error_rate, of.throttle_rate, of.timeout_rate])
            }
            Service::Ec2 => (self.ec2.latency, [self.ec2.error_rate, throttled, self.ec2.timeout_rate]),
            Service::Sqs => (Duration::ZERO, [self.sqs.error_rate, 0.0, 0.0]),
        }
    }
}
