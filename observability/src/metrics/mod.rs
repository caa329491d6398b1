//! Metrics for Prometheus: Karpenter's names where the meaning is Karpenter's, `dovetail_` for our own.

mod page;
mod plain;
mod summary;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use page::MetricsPage;
pub use plain::{OPEN_METRICS, TEXT_FORMAT, asks_open_metrics, text_format};
use summary::Summary;
pub use table::{Id, KnownMetric, MetricKind, TABLE};

type Labels = Vec<(&'static str, String)>;
type Traced = HistogramWithExemplars<Labels>;

/// Makes histograms with the same bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds(&'static [f64]);

impl MetricConstructor<Traced> for Bounds {
    fn new_metric(&self) -> Traced {
        Traced::new(self.0.iter().copied())
    }
}

/// All series of a metric of the table.
enum Series {
    Counter(Family<Labels, Counter>),
    Seconds(Family<Labels, Counter<f64, AtomicU64>>),
    Histogram(Family<Labels, Traced, Bounds>),
    Summary(Mutex<BTreeMap<Labels, Summary>>),
}

/// Writes metrics of a state onto a page when they are asked for.
pub type MetricsWriter = Arc<dyn Fn(&mut MetricsPage) + Send + Sync>;

/// All metrics. Clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<All>);

struct All {
    registry: Registry,
    series: Vec<Series>,
    state: OnceLock<MetricsWriter>,
    synced: Gauge,
    nodes: Gauge,
    leads: Gauge,
    term: Gauge,
    restarts: Gauge,
}

/// State of the actors when last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActorsSeen {
    /// Every list has been read once.
    pub synced: bool,
    /// Nodes in the cluster.
    pub nodes: i64,
    /// This replica leads.
    pub leads: bool,
    /// In this term; 0 in none.
    pub term: i64,
    /// Number of recent restarts of the leader's actors.
    pub restarts: i64,
}

impl Metrics {
    /// All at zero. `commit` is what the binary was made from.
    pub fn new(version: &'static str, commit: &'static str) -> Self {
        let mut registry = Registry::default();
        let build = Family::<Labels, Gauge>::default();
        let of_build =
            [("version", version), ("goversion", ""), ("goarch", std::env::consts::ARCH), ("commit", commit)];
        let of_build = of_build.into_iter().filter(|(_, value)| !value.is_empty());
        build.get_or_create(&of_build.map(|(key, value)| (key, value.to_owned())).collect()).set(1);
        registry.register("karpenter_build_info", "What the binary was made from", build);
        let mut gauge = |name: &'static str, help: &'static str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let synced = gauge("karpenter_cluster_state_synced", "1 once every list has been read");
        let nodes = gauge("karpenter_cluster_state_node_count", "Nodes in the cluster state");
        let leads = gauge("dovetail_leader", "1 while this replica leads");
        let term = gauge("dovetail_term", "The term in which it leads, else 0");
        let restarts = gauge("dovetail_actor_restarts", "Restarts of the leader's actors in the last ten minutes");
        let series = TABLE.iter().map(|known| register(&mut registry, known)).collect();
        Self(Arc::new(All { registry, series, state: OnceLock::new(), synced, nodes, leads, term, restarts }))
    }

    /// Adds to a counter. `values` are those of the metric's labels, in their order.
    pub fn count(&self, id: Id, values: &[&str], by: u64) {
        if let (Some(Series::Counter(family)), Some(labels)) = (self.series(id), labels(id, values)) {
            family.get_or_create(&labels).inc_by(by);
        }
    }

    /// A value of a histogram, a summary or a counter of seconds; with the trace that it comes from, if from one.
    pub fn observe(&self, id: Id, values: &[&str], value: f64, trace: Option<u128>) {
        let (Some(series), Some(labels)) = (self.series(id), labels(id, values)) else { return };
        match series {
            Series::Histogram(family) => {
                let exemplar = trace.map(|trace| vec![("trace_id", format!("{trace:032x}"))]);
                family.get_or_create(&labels).observe(value, exemplar, None);
            }
            Series::Summary(all) => {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(labels).or_default().observe(value);
            }
            Series::Seconds(family) => {
                family.get_or_create(&labels).inc_by(value);
            }
            Series::Counter(_) => {}
        }
    }

    fn series(&self, id: Id) -> Option<&Series> {
        self.0.series.get(id as usize)
    }

    /// Counts a log event of an actor.
    pub fn happened(&self, actor: &str, event: &str) {
        self.count(Id::Events, &[actor, event], 1);
    }

    /// Takes the state of the actors.
    pub fn saw(&self, seen: ActorsSeen) {
        self.0.synced.set(seen.synced.into());
        self.0.nodes.set(seen.nodes);
        self.0.leads.set(seen.leads.into());
        self.0.term.set(seen.term);
        self.0.restarts.set(seen.restarts);
    }

    /// A request has waited for its turn.
    pub fn waited(&self, seconds: f64) {
        self.observe(Id::KubeWait, &[], seconds, None);
    }

    /// From now on the state is shown, too. Said once.
    pub fn show(&self, state: MetricsWriter) {
        let _ = self.0.state.set(state);
    }

    /// All metrics as text in the OpenMetrics format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.0.registry);
        // More follows.
        text.truncate(text.len().saturating_sub(END.len()));
        // Series without labels are written without braces, as everybody else does.
        let mut text = text.replace("{} ", " ");
        let mut page = MetricsPage::default();
        for (known, series) in TABLE.iter().zip(&self.0.series) {
            if let Series::Summary(all) = series {
                write_summaries(&mut page, known, &all.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
        if let Some(state) = self.0.state.get() {
            state(&mut page);
        }
        text.push_str(page.text());
        text.push_str(END);
        text
    }
}

/// The last line of the format.
const END: &str = "# EOF\n";

/// Makes the family of a metric. A counter without labels stands at zero from the start, so that a rate can be told of its first rise.
fn register(registry: &mut Registry, known: &KnownMetric) -> Series {
    let alone = known.labels.is_empty();
    match known.kind {
        MetricKind::Counter => {
            let family = Family::<Labels, Counter>::default();
            registry.register(known.name, known.help, family.clone());
            alone.then(|| drop(family.get_or_create(&Labels::new())));
            Series::Counter(family)
        }
        MetricKind::Seconds => {
            let family = Family::<Labels, Counter<f64, AtomicU64>>::default();
            registry.register(known.name, known.help, family.clone());
            alone.then(|| drop(family.get_or_create(&Labels::new())));
            Series::Seconds(family)
        }
        MetricKind::Histogram(bounds) => {
            let family = Family::new_with_constructor(Bounds(bounds));
            registry.register(known.name, known.help, family.clone());
            Series::Histogram(family)
        }
        MetricKind::Summary => Series::Summary(Mutex::default()),
    }
}

/// Labels with their values, the empty ones left out: to Prometheus they are the same. None when their numbers differ, which a
/// test keeps from happening.
fn labels(id: Id, values: &[&str]) -> Option<Labels> {
    let known = TABLE.get(id as usize)?;
    debug_assert_eq!(known.labels.len(), values.len(), "{}", known.name);
    let pairs = known.labels.iter().zip(values).filter(|(_, value)| !value.is_empty());
    (known.labels.len() == values.len()).then(|| pairs.map(|(key, value)| (*key, (*value).to_owned())).collect())
}

fn write_summaries(page: &mut MetricsPage, known: &KnownMetric, all: &BTreeMap<Labels, Summary>) {
    if all.is_empty() {
        return;
    }
    page.begin(known.name, "summary", known.help);
    for (labels, summary) in all {
        let own: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
        for (name, value) in summary.quantiles() {
            let mut with = own.clone();
            with.push(("quantile", name));
            page.sample(known.name, &with, value);
        }
        page.sample(&format!("{}_sum", known.name), &own, summary.sum);
        page.sample(&format!("{}_count", known.name), &own, summary.count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_use_karpenters_names_and_our_own_start_with_dovetail() {
        let metrics = Metrics::new("0.1.0", "abc");
        metrics.count(Id::ClaimsCreated, &["provisioned", "default", "false"], 1);
        metrics.happened("launcher", "launched");
        metrics.saw(ActorsSeen { synced: true, nodes: 7, leads: true, term: 3, restarts: 0 });
        metrics.waited(0.25);
        metrics.observe(Id::Scheduling, &["provisioner"], 0.3, Some(0xabc));
        metrics.observe(Id::PodsStartup, &[], 41.0, None);
        metrics.show(Arc::new(|page| {
            page.gauge("karpenter_nodepools_limit", "What a pool may have at most");
            page.sample("karpenter_nodepools_limit", &[("resource_type", "cpu"), ("nodepool", "default")], 100.0);
        }));
        let text = metrics.text();
        let expected = [
            "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"default\",min_values_relaxed=\"false\"} 1",
            "karpenter_cluster_state_synced 1",
            "karpenter_cluster_state_node_count 7",
            "dovetail_events_total{actor=\"launcher\",event=\"launched\"} 1",
            "dovetail_leader 1",
            "dovetail_term 3",
            "dovetail_kube_client_wait_seconds_total 0.25",
            "karpenter_pods_startup_duration_seconds{quantile=\"0.9\"} 41",
            "karpenter_pods_startup_duration_seconds_count 1",
            "karpenter_nodepools_limit{resource_type=\"cpu\",nodepool=\"default\"} 100",
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("karpenter_build_info{version=\"0.1.0\""), "{text}");
        let exemplar = "# {trace_id=\"00000000000000000000000000000abc\"} 0.3";
        let bucket = "karpenter_scheduler_scheduling_duration_seconds_bucket{le=\"0.3\",controller=\"provisioner\"} 1";
        assert!(text.lines().any(|line| line.starts_with(bucket) && line.contains(exemplar)), "{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    }

    #[test]
    fn every_name_and_every_label_stands_in_the_table_once() {
        let mut names: Vec<_> = TABLE.iter().map(|known| known.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for known in TABLE {
            let mut labels = known.labels.to_vec();
            labels.sort_unstable();
            assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{known:?}");
            assert!(!known.name.ends_with("_total"), "{}: the format adds it", known.name);
        }
    }
}
