//! The scenario file: what there is, what happens when, until when (docs/scenarios.md has the format).

mod account;
mod account_faults;
mod beforehand;
pub(crate) mod check;
mod commitments;
pub mod faults;
pub(crate) mod idle;
mod market;
pub(crate) mod names;
mod node_faults;
mod queue_faults;
mod reading;
mod step;
pub(crate) mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dovetail_input::Mistake;
use serde::Deserialize;
use serde_saphyr::Spanned;

pub use commitments::{ScenarioReservedInstances, ScenarioSavingsPlan};
pub use faults::Faults;
pub use reading::read_scenario;
pub use step::{Interrupt, OtherInstances, Partition, Resize, Restore, Scale, Spoil, Step, Target, Unwell, ZoneDown};

/// A scenario as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// AWS's name of the region: `us-east-1`.
    #[serde(default = "default_region")]
    pub region: Spanned<String>,
    /// Globs of the instance types that the region has, `m5.*`; all that it has in truth where there are none.
    #[serde(default)]
    pub instance_types: Vec<Spanned<String>>,
    /// The cluster's name; subnets, security groups, role and profile of that name exist.
    #[serde(default = "default_cluster")]
    pub cluster_name: Spanned<String>,
    /// Replicas of the control plane.
    pub replicas: Option<Spanned<u32>>,
    /// The seed of all chance.
    #[serde(default)]
    pub seed: u64,
    /// Manifests applied at time 0, paths relative to the scenario.
    #[serde(default)]
    pub apply: Vec<Spanned<String>>,
    /// True to store objects of the alpha kinds as they are written, for the control plane to translate. Otherwise their meaning
    /// in v1 is stored.
    #[serde(default)]
    pub alpha_as_written: bool,
    /// Values for `${VAR}` in the manifests.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Settings of the control plane by their environment names.
    #[serde(default)]
    pub settings: BTreeMap<String, Spanned<String>>,
    /// Feature gates of the control plane.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, Spanned<bool>>,
    #[serde(default)]
    pub capacity_reservations: Vec<ScenarioCapacityReservation>,
    #[serde(default)]
    pub placement_groups: Vec<ScenarioPlacementGroup>,
    #[serde(default)]
    pub reserved_instances: Vec<ScenarioReservedInstances>,
    #[serde(default)]
    pub savings_plans: Vec<ScenarioSavingsPlan>,
    /// Nodes that are there beforehand.
    #[serde(default)]
    pub nodes: Vec<NodeGroup>,
    /// Steps of the run, each at its time.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Faults from the start.
    #[serde(default)]
    pub faults: Faults,
    /// Length of the run, `30m` by default.
    pub until: Option<Spanned<String>>,
    /// The end comes earlier when everything has been settled for so long after the last step.
    pub settled: Option<Spanned<String>>,
    /// The replicas' clocks, by number; those that are not named are right.
    #[serde(default)]
    pub clocks: Vec<WrongClock>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioCapacityReservation {
    /// Its id, `cr-…`.
    pub id: Spanned<String>,
    /// Such as `m5.large`.
    pub instance_type: Spanned<String>,
    /// Such as `us-east-1a`.
    pub zone: Spanned<String>,
    pub count: u32,
    /// Tags by which classes select it.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// True if launches that name no reservation may get its instances.
    #[serde(default)]
    pub open: bool,
    /// `default`, `capacity-block` or `interruptible`.
    #[serde(rename = "type")]
    pub kind: Option<Spanned<String>>,
    /// Time after the start at which it ends, `2h`.
    pub ends_after: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioPlacementGroup {
    /// Its id, `pg-…`.
    pub id: Spanned<String>,
    /// Name by which classes select it, too.
    pub name: Spanned<String>,
    /// `cluster`, `partition` or `spread`.
    pub strategy: Spanned<String>,
    /// Number of partitions, 1 to 7.
    pub partitions: Option<Spanned<u32>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrongClock {
    /// Error of wall time, `-3s`.
    pub offset: Option<Spanned<String>>,
    /// Microseconds gained each second.
    pub drift: Option<Spanned<i64>>,
    /// Times at which wall time is set anew.
    #[serde(default)]
    pub jumps: Vec<ClockJump>,
}

/// Wall time is set anew.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockJump {
    /// After the start of the run.
    pub at: Spanned<String>,
    /// Change of wall time, `-10m`.
    pub by: Spanned<String>,
}

/// Nodes that are there beforehand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeGroup {
    /// Such as `m5.large`.
    pub instance_type: Spanned<String>,
    /// Such as `us-east-1a`; the region's first zone where it is not given.
    pub zone: Option<Spanned<String>>,
    /// Number of nodes, 1 by default.
    pub count: Option<Spanned<u32>>,
    /// `on-demand` (default) or `spot`.
    pub capacity_type: Option<Spanned<String>>,
    /// Labels besides those that a node has anyway.
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// A Karpenter has launched and left them; without it they are a managed node group's.
    pub karpenter: Option<ScenarioKarpenterNodes>,
}

/// Karpenter's NodePool and EC2NodeClass of nodes that it has launched.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioKarpenterNodes {
    /// The NodePool that they were launched for.
    pub node_pool: Spanned<String>,
    /// The EC2NodeClass that they were launched by.
    pub node_class: Spanned<String>,
}

/// A taint of a node that is there beforehand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: Spanned<String>,
    /// The taint's value; empty where none is written.
    pub value: Option<Spanned<String>>,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: Spanned<String>,
}

/// A value that stands nowhere.
fn unwritten<T>(value: T) -> Spanned<T> {
    Spanned::new(value, serde_saphyr::Location::UNKNOWN, serde_saphyr::Location::UNKNOWN)
}

fn default_region() -> Spanned<String> {
    unwritten("us-east-1".to_owned())
}

fn default_cluster() -> Spanned<String> {
    unwritten("demo".to_owned())
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// The run's end where the scenario does not say.
const DEFAULT_UNTIL: Duration = Duration::from_secs(30 * 60);

impl Scenario {
    /// The end of the run since time 0.
    pub fn until(&self, path: &str) -> Result<Duration, Mistake> {
        match &self.until {
            Some(text) => duration(path, "until", text),
            None => Ok(DEFAULT_UNTIL),
        }
    }

    /// A file named in the scenario, relative to it.
    pub fn resolve(path: &str, file: &str) -> PathBuf {
        Path::new(path).parent().unwrap_or(Path::new("")).join(file)
    }
}

/// The line of a value, 0 where it has none.
pub fn line<T>(value: &Spanned<T>) -> usize {
    usize::try_from(value.referenced.line()).unwrap_or(0)
}

/// A duration as Go writes them (`30s`, `1m30s`, `500ms`, `2h`).
pub fn duration(path: &str, field: &str, text: &Spanned<String>) -> Result<Duration, Mistake> {
    parse_duration(&text.value).ok_or_else(|| Mistake {
        file: path.to_owned(),
        line: line(text),
        field: field.to_owned(),
        what: format!("{:?} is not a duration", text.value),
        allowed: "numbers with ms, s, m or h, such as 30s or 1m30s".to_owned(),
    })
}

/// A duration as Go writes them, or none.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "ms" => number / 1000.0,
            "s" => number,
            "m" => number * 60.0,
            "h" => number * 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &rest[letters..];
    }
    (!text.trim().is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5h"), Some(Duration::from_secs(5400)));
        for wrong in ["", "5", "5 m", "m", "1d", "-1s", "1e400h"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
