//! Arguments of `record` and of what reads a record.

use std::time::Duration;

use clap::Args;

use crate::live::ClusterArgs;

/// `dovetail record`.
#[derive(Args)]
pub struct RecordArgs {
    /// File for the record, JSON Lines
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub file: Option<String>,
    /// Length of the record; a signal (Ctrl-C) ends it earlier
    #[arg(long = "for", value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub length: Duration,
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub every: Duration,
    /// Hash the names of objects, namespaces and labels
    #[arg(long)]
    pub hash_names: bool,
    /// Print the JSON schema of a line and end
    #[arg(long)]
    pub schema: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `dovetail replay`.
#[derive(Args)]
pub struct ReplayArgs {
    /// The record
    #[arg(value_name = "RECORD")]
    pub record: String,
    /// Play with another setting; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Play with these NodePools and EC2NodeClasses in place of those of their names
    #[arg(long, value_name = "FILE")]
    pub node_pool: Vec<String>,
    /// The seed, instead of the record's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Keep the scenario that is played in this folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<String>,
    /// Draw cost and waiting over time into this file, SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<String>,
    /// Print the report of the run alone, as JSON: that of simulate
    #[arg(long)]
    pub json: bool,
    /// Print every event of the run
    #[arg(long, conflicts_with = "json")]
    pub timeline: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `dovetail compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// The record
    #[arg(value_name = "RECORD")]
    pub record: String,
    /// Settings of one more run, separated by commas; PACKING_POLICY=fewest-nodes, Karpenter's rules, unless given
    #[arg(long = "with", value_name = "NAME=VALUE,…")]
    pub with: Vec<String>,
    /// Runs with each, which differ by chance alone
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub seeds: u32,
    /// Draw cost and waiting over time into this file, SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<String>,
    /// The figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `dovetail savings`.
#[derive(Args)]
pub struct SavingsArgs {
    /// The record; without one, metrics
    #[arg(value_name = "RECORD", required_unless_present_any = ["prometheus", "file"])]
    pub record: Option<String>,
    /// Number of times of the record at which its pods are packed anew
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub points: u32,
    /// The answer as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Metrics in place of a record.
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// Metrics in place of a record.
#[derive(Args)]
pub struct MetricsArgs {
    /// Address of Prometheus, or of what answers as it does; it is asked once
    #[arg(long, value_name = "URL", conflicts_with_all = ["record", "file"], help_heading = "Metrics")]
    pub prometheus: Option<String>,
    /// A saved answer of Prometheus's query_range; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "record", help_heading = "Metrics")]
    pub file: Vec<String>,
    /// Time until now that is asked for
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration, help_heading = "Metrics")]
    pub since: Duration,
    /// Time between two samples; a thousandth of --since unless given, 15s at least
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Metrics")]
    pub step: Option<Duration>,
    /// Value of the label cluster, where Prometheus serves several
    #[arg(long, value_name = "NAME", help_heading = "Metrics")]
    pub cluster: Option<String>,
    /// Time limit of the question
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, help_heading = "Metrics")]
    pub timeout: Duration,
    /// Token that Prometheus asks for
    #[arg(long, value_name = "TOKEN", env = "PROMETHEUS_TOKEN", hide_env_values = true, help_heading = "Metrics")]
    pub token: Option<String>,
}

/// A length of time, from a second to a month.
fn duration(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok()).filter(|days| *days <= 31);
    let read = days.map(|days: i64| jiff::SignedDuration::from_hours(24 * days)).or_else(|| text.parse().ok());
    let read = read.and_then(|read| Duration::try_from(read).ok());
    let bounded = read.filter(|read| (Duration::from_secs(1)..=Duration::from_secs(31 * 86_400)).contains(read));
    bounded.ok_or_else(|| "allowed: 1s to 31d, such as 30s, 90m or 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("31d"), Ok(Duration::from_secs(31 * 86_400)));
        for wrong in ["", "0s", "-1h", "40d", "x", "999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
