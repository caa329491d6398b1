//! Records: a cluster's day as JSON Lines, which can be played again (docs/records.md, docs/record.schema.json).
//!
//! ```text
//! simulate --record, dovetail record ──► RecordWriter ──► lines ──► Record ──► scenario ──► play_file
//!                                                                     └──────► what was seen: cost, waiting, use
//! ```

mod keeper;
mod observe;
mod reading;
mod scenario;
mod series;
mod writing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use keeper::RecordKeeper;
pub use observe::{observe, observe_world};
pub use reading::{Cut, Record};
pub use scenario::{ReplayChanges, TimedObjects, identity};
pub use series::{SeenAt, Series, TimeSum, sum_over_time};
pub use writing::RecordWriter;

/// Version of the format.
pub const VERSION: u32 = 1;

/// One line of a record. `t` is in seconds since its beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "camelCase")]
pub enum RecordLine {
    /// The first line.
    Begin(RecordBegin),
    /// Objects come, or change.
    Apply {
        t: f64,
        /// Kubernetes objects, as `kubectl apply` takes them.
        objects: Vec<Value>,
    },
    /// Something else happens: a step of a scenario without its time (docs/scenarios.md).
    Step { t: f64, step: Map<String, Value> },
    /// The cluster as it was seen.
    Seen(SeenAt),
    /// The last line; a record without it was cut short.
    End {
        t: f64,
        /// Number of lines before this one.
        lines: u64,
    },
}

impl RecordLine {
    /// Seconds since the beginning.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match self {
            Self::Begin(_) => 0.0,
            Self::Apply { t, .. } | Self::Step { t, .. } | Self::End { t, .. } => *t,
            Self::Seen(seen) => seen.t,
        }
    }
}

/// The record as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordBegin {
    /// Version of the format: 1.
    pub version: u32,
    /// Source of the record.
    pub source: RecordSource,
    /// Wall time of the beginning, RFC 3339.
    pub started: String,
    /// Seconds between two `seen` lines.
    pub every: f64,
    /// True if names are hashed.
    pub hashed: bool,
    /// Source of the prices, for people.
    pub prices: String,
    /// The rest of a scenario: region, settings, seed, nodes that were there beforehand (docs/scenarios.md).
    pub scenario: Map<String, Value>,
}

/// Sources of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RecordSource {
    /// A live cluster, looked at from time to time.
    Cluster,
    /// A scenario that was simulated: its replay is the same run.
    Simulation,
}

/// A cluster at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seen {
    /// Equal nodes together.
    pub nodes: Vec<NodesSeen>,
    /// Dollars an hour of all nodes whose price is known.
    pub price_per_hour: f64,
    /// Pods with a node.
    pub bound: usize,
    /// Pods without one.
    pub pending: usize,
    /// Requests of pods with a node: cores.
    pub requested_cpu: f64,
    /// Requests of pods with a node: GiB.
    pub requested_memory: f64,
    /// Room of the nodes for pods: cores.
    pub allocatable_cpu: f64,
    /// Room of the nodes for pods: GiB.
    pub allocatable_memory: f64,
    /// Nodes of NodePools that came since the beginning.
    pub launched: usize,
    /// Nodes of NodePools that went since the beginning.
    pub ended: usize,
}

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesSeen {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// Empty for nodes of no NodePool.
    pub node_pool: String,
    pub count: usize,
    /// Dollars an hour of each; none where it is not known.
    pub price: Option<f64>,
}

/// The JSON schema of a line.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(RecordLine);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
