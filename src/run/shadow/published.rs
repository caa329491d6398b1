//! The latest report, for those who ask over HTTP: as JSON, as text and as metrics.

use std::sync::{Arc, Mutex, PoisonError};

use dovetail_core::shadow::{ShadowReport, Side, SideTotals};
use dovetail_observability::Pages;
use dovetail_observability::metrics::{MetricsPage, MetricsWriter};

/// Clones share it.
#[derive(Clone, Default)]
pub struct Published(Arc<Mutex<Option<ShadowReport>>>);

impl Published {
    /// Sets the report that is served from now on.
    pub fn put(&self, report: ShadowReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    fn latest(&self) -> Option<ShadowReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `/shadow` as JSON and `/shadow.txt` as text; none before the copy is made.
    pub fn pages(&self) -> Pages {
        let own = self.clone();
        Arc::new(move |path| match path {
            "/shadow" => Some(("application/json", serde_json::to_vec(&own.latest()?).ok()?)),
            "/shadow.txt" => Some(("text/plain; charset=utf-8", own.latest()?.to_string().into_bytes())),
            _ => None,
        })
    }

    /// Writer of the report as metrics.
    pub fn series(&self) -> MetricsWriter {
        let own = self.clone();
        Arc::new(move |page| {
            if let Some(report) = own.latest() {
                write(page, &report);
            }
        })
    }
}

fn write(page: &mut MetricsPage, report: &ShadowReport) {
    let sides = [(Side::Active.label(), &report.active), (Side::Shadow.label(), &report.shadow)];
    let mut gauge = |name: &str, help: &str, of: fn(&SideTotals) -> f64| {
        page.gauge(name, help);
        sides.iter().for_each(|(side, own)| page.sample(name, &[("side", side)], of(own)));
    };
    gauge("dovetail_shadow_nodes", "Nodes of NodePools, as they are and as they would be", |own| own.nodes as f64);
    let help = "What these nodes cost, in dollars an hour";
    gauge("dovetail_shadow_cost_dollars_per_hour", help, |own| own.cost_per_hour);
    gauge("dovetail_shadow_pods_waiting", "Pods that have no node", |own| own.pods_waiting as f64);
    let mut counter = |name: &str, help: &str, of: fn(&SideTotals) -> f64| {
        page.counter(name, help);
        sides.iter().for_each(|(side, own)| page.sample(&format!("{name}_total"), &[("side", side)], of(own)));
    };
    counter("dovetail_shadow_cost_dollars", "What nodes have cost since the start, in dollars", |own| own.cost);
    counter("dovetail_shadow_launched", "Nodes launched", |own| own.launched as f64);
    counter("dovetail_shadow_pods_placed", "Pods that waited and got a node", |own| own.pods_placed as f64);
    counter("dovetail_shadow_pending_seconds", "Seconds for which pods have waited", |own| own.pending_seconds);
    counter("dovetail_shadow_evictions", "Pods evicted", |own| own.evictions as f64);
    page.counter("dovetail_shadow_removed", "Nodes removed, by reason");
    for (side, own) in sides {
        for (reason, count) in &own.removed_by_reason {
            let labels = [("side", side), ("reason", reason.as_str())];
            page.sample("dovetail_shadow_removed_total", &labels, *count as f64);
        }
    }
    page.gauge("dovetail_shadow_rounds", "Rounds of launches and removals, by how they came out for the shadow");
    for (verdict, count) in &report.verdicts {
        page.sample("dovetail_shadow_rounds", &[("verdict", &verdict.to_string())], *count as f64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dovetail_core::shadow::{Fact, Ledger, ShadowNode};
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn report_is_served_as_json_text_and_metrics_once_it_exists() {
        let published = Published::default();
        let pages = published.pages();
        assert!(pages("/shadow").is_none());
        let began = Timestamp::UNIX_EPOCH;
        let mut ledger = Ledger::new(began, SignedDuration::from_secs(11));
        let machine = ShadowNode { claim: "a".into(), price_per_hour: Some(0.5), ..ShadowNode::default() };
        ledger.record(Side::Active, began, Fact::Launched(machine));
        published.put(ledger.report(began));
        let (kind, json) = pages("/shadow").unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((kind, &json["active"]["launched"]), ("application/json", &serde_json::json!(1)));
        assert_eq!(json["difference"]["costPerHour"], serde_json::json!(-0.5));
        let (_, text) = pages("/shadow.txt").unwrap();
        assert!(String::from_utf8(text).unwrap().contains("cost now, $/h"));
        assert!(pages("/shadow/more").is_none());
        let metrics = dovetail_observability::Metrics::new("0", "test");
        metrics.show(published.series());
        let text = metrics.text();
        for line in [
            "dovetail_shadow_launched_total{side=\"active\"} 1",
            "dovetail_shadow_cost_dollars_per_hour{side=\"shadow\"} 0",
            "dovetail_shadow_rounds{verdict=\"cheaper\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
