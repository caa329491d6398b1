//! `faults` of a scenario: what goes wrong from the start.

use serde::Deserialize;
use serde_saphyr::Spanned;

/// What goes wrong.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Faults {
    /// At the API server.
    #[serde(default)]
    pub api_server: ApiServerFaults,
    /// At EC2.
    #[serde(default)]
    pub ec2: Ec2Faults,
    /// At SQS.
    #[serde(default)]
    pub sqs: SqsFaults,
}

/// Faults of the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiServerFaults {
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
pub struct Ec2Faults {
    /// Share of requests that fail, 0 to 1.
    pub error_rate: Option<Spanned<f64>>,
    /// Share of requests that are throttled, 0 to 1.
    pub throttle_rate: Option<Spanned<f64>>,
    /// Share of requests that get no answer, 0 to 1; most of them are carried out.
    pub timeout_rate: Option<Spanned<f64>>,
    /// How long at most a new instance or tag is not listed.
    pub consistency_lag: Option<Spanned<String>>,
    /// Globs `type/zone/capacityType` that have no capacity.
    #[serde(default)]
    pub insufficient_capacity: Vec<Spanned<String>>,
}

/// Faults of SQS.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SqsFaults {
    /// Share of messages that come twice, 0 to 1.
    pub duplicate_rate: Option<Spanned<f64>>,
    /// Share of requests that fail, 0 to 1.
    pub error_rate: Option<Spanned<f64>>,
}
