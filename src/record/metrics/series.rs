//! Series as Prometheus's query_range answers them, and saved answers of it.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_input::{Failure, Mistake, read_bytes};
use serde::{Deserialize, Deserializer};

use crate::live::escape::escape;

/// Most bytes of an answer, and of all saved ones together.
pub(super) const MOST_BYTES: u64 = 32 << 20;
/// Most characters of a foreign message that are repeated.
const MOST_SAID: usize = 300;
/// Most names of clusters in a message.
const MOST_NAMED: usize = 8;
/// Label that Prometheus or its agent adds where it serves several clusters.
const CLUSTER: &str = "cluster";

/// Price of nodes an hour: Dovetail's, with instances that have not joined, and Karpenter's.
pub(super) const COST: &str = "dovetail_cost_dollars_per_hour";
pub(super) const COST_OF_KARPENTER: &str = "karpenter_nodepools_cost_total";
pub(super) const ON_DEMAND: &str = "dovetail_cost_on_demand_dollars_per_hour";
pub(super) const UTILIZATION: &str = "karpenter_cluster_utilization_percent";
pub(super) const COMPARED: &str = "dovetail_packing_compared_dollars_per_hour_total";
/// Metrics that are read; of others nothing is.
pub(super) const NAMES: [&str; 5] = [COST, COST_OF_KARPENTER, ON_DEMAND, UTILIZATION, COMPARED];

/// A sample: seconds since 1970, and a value, which may be no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub t: f64,
    pub value: f64,
}

impl<'de> Deserialize<'de> for Sample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (t, text) = <(f64, String)>::deserialize(deserializer)?;
        Ok(Self { t, value: text.parse().unwrap_or(f64::NAN) })
    }
}

/// A series of one metric.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Series {
    #[serde(rename = "metric")]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub values: Vec<Sample>,
}

impl Series {
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    pub(super) fn is_of(&self, metric: &str) -> bool {
        self.label("__name__") == metric
    }
}

/// An answer of the HTTP API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status: String,
    data: Option<AnswerData>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerData {
    result_type: String,
    /// Read once the type is known: the others have other samples.
    result: Box<serde_json::value::RawValue>,
}

/// The series of an answer of query_range; else the reason why it is none, as the rest of a sentence.
pub(super) fn read_answer(bytes: &[u8]) -> Result<Vec<Series>, String> {
    let bad = |why: serde_json::Error| format!("is no whole answer of query_range: {why}");
    let answer: Answer = serde_json::from_slice(bytes).map_err(bad)?;
    let Some(data) = answer.data.filter(|_| answer.status == "success") else {
        return Err(format!("is a refusal of Prometheus: {}", shortly(&answer.error)));
    };
    if data.result_type != "matrix" {
        let kind = shortly(&data.result_type);
        return Err(format!("is an answer of the type {kind}, of one time: query_range's is a matrix"));
    }
    let all: Vec<Series> = serde_json::from_str(data.result.get()).map_err(bad)?;
    Ok(all.into_iter().filter(|one| NAMES.iter().any(|name| one.is_of(name))).collect())
}

/// A foreign text, harmless and not longer than a line or two.
pub(super) fn shortly(text: &str) -> String {
    let short: String = text.chars().take(MOST_SAID).collect();
    escape(&short)
}

/// The series of saved answers.
///
/// # Errors
/// A file that is none, or more than [`MOST_BYTES`] together.
pub(super) fn read_files(paths: &[String]) -> Result<Vec<Series>, Failure> {
    let (mut all, mut left) = (Vec::new(), MOST_BYTES);
    for path in paths {
        let bytes = read_bytes(path, left)?;
        left -= bytes.len() as u64;
        let read = read_answer(&bytes).map_err(|what| {
            Mistake::of_file(path, what).allowing("what /api/v1/query_range answers, saved as it is (docs/records.md)")
        })?;
        all.extend(read);
    }
    Ok(all)
}

/// The series of the cluster that is meant.
///
/// # Errors
/// Series of several clusters and none of them named, or none of the one that is.
pub(super) fn of_cluster(all: Vec<Series>, cluster: Option<&str>, place: &str) -> Result<Vec<Series>, Failure> {
    let names: BTreeSet<String> = all.iter().map(|one| one.label(CLUSTER).to_owned()).collect();
    let named = || {
        let names: Vec<String> = names.iter().take(MOST_NAMED).map(|name| shortly(name)).collect();
        let more = if names.len() <= MOST_NAMED { "" } else { ", …" };
        format!("{}{more}", names.join(", "))
    };
    match cluster {
        Some(one) if !all.is_empty() && !names.contains(one) => {
            let what = format!("{place} has no series with the label cluster={}", shortly(one));
            Err(Mistake::of_file("--cluster", what).allowing(named()).into())
        }
        None if names.len() > 1 => {
            let what = format!("has series of {} clusters: --cluster NAME says which", names.len());
            Err(Mistake::of_file(place, what).allowing(named()).into())
        }
        Some(one) => Ok(all.into_iter().filter(|series| series.label(CLUSTER) == one).collect()),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_of_other_kinds_are_told_from_a_matrix() {
        let matrix = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"dovetail_cost_dollars_per_hour","zone":"a"},"values":[[1.5,"2"],[3,"NaN"]]},
            {"metric":{"__name__":"up"},"values":[[1,"1"]]}]}}"#;
        let read = read_answer(matrix).unwrap();
        assert_eq!((read.len(), read[0].label("zone"), read[0].values[0]), (1, "a", Sample { t: 1.5, value: 2.0 }));
        assert!(read[0].values[1].value.is_nan());
        let vector = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}"#;
        assert!(read_answer(vector).unwrap_err().contains("query_range's is a matrix"));
        let refused = br#"{"status":"error","errorType":"bad_data","error":"exceeded\u001b[31m maximum resolution"}"#;
        assert_eq!(
            read_answer(refused).unwrap_err(),
            "is a refusal of Prometheus: exceeded\\u{1b}[31m maximum resolution"
        );
        for length in 0..matrix.len() - 1 {
            assert!(read_answer(&matrix[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn series_of_two_clusters_are_not_summed_up() {
        let of = |cluster: &str| {
            let labels = [("__name__", COST), (CLUSTER, cluster)];
            Series { labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), values: vec![] }
        };
        let both = || vec![of("blue"), of("green"), of("blue")];
        assert!(of_cluster(both(), None, "x").is_err() && of_cluster(both(), Some("red"), "x").is_err());
        assert_eq!(of_cluster(both(), Some("blue"), "x").unwrap().len(), 2);
        assert_eq!(of_cluster(vec![of("blue")], None, "x").unwrap().len(), 1);
        assert!(of_cluster(vec![], Some("blue"), "x").unwrap().is_empty());
    }
}
