//! What Prometheus reads: Karpenter's names where the meaning is Karpenter's, `dovetail_` for our own.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// `karpenter_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    goversion: &'static str,
    goarch: &'static str,
    commit: &'static str,
}

/// `karpenter_nodeclaims_created_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    reason: &'static str,
    nodepool: String,
    min_values_relaxed: &'static str,
}

/// `dovetail_events_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    actor: &'static str,
    event: &'static str,
}

/// Seconds, as they add up.
type Seconds = Counter<f64, AtomicU64>;

/// All metrics. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    claims_created: Family<Created, Counter>,
    events: Family<Event, Counter>,
    synced: Gauge,
    nodes: Gauge,
    leads: Gauge,
    term: Gauge,
    restarts: Gauge,
    throttled: Seconds,
}

/// What was seen of the actors when last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Every list has been read once.
    pub synced: bool,
    /// Nodes in the cluster.
    pub nodes: i64,
    /// This replica leads.
    pub leads: bool,
    /// In this term; 0 in none.
    pub term: i64,
    /// The leader's actors were started again so often, of late.
    pub restarts: i64,
}

impl Metrics {
    /// All at zero. `commit` is what the binary was made from.
    pub fn new(version: &'static str, commit: &'static str) -> Self {
        let mut registry = Registry::default();
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version, goversion: "", goarch: std::env::consts::ARCH, commit }).set(1);
        registry.register("karpenter_build_info", "What the binary was made from", build);
        let mut metrics = Self {
            registry: Arc::default(),
            claims_created: Family::default(),
            events: Family::default(),
            synced: Gauge::default(),
            nodes: Gauge::default(),
            leads: Gauge::default(),
            term: Gauge::default(),
            restarts: Gauge::default(),
            throttled: Seconds::default(),
        };
        metrics.register(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        let created = self.claims_created.clone();
        registry.register("karpenter_nodeclaims_created", "NodeClaims created, by why and in which pool", created);
        let synced = self.synced.clone();
        registry.register("karpenter_cluster_state_synced", "1 once every list has been read", synced);
        let nodes = self.nodes.clone();
        registry.register("karpenter_cluster_state_node_count", "Nodes in the cluster state", nodes);
        registry.register("dovetail_events", "Happenings, by who told them", self.events.clone());
        registry.register("dovetail_leader", "1 while this replica leads", self.leads.clone());
        registry.register("dovetail_term", "The term in which it leads, else 0", self.term.clone());
        let restarts = self.restarts.clone();
        registry.register(
            "dovetail_actor_restarts",
            "Restarts of the leader's actors in the last ten minutes",
            restarts,
        );
        let throttled = self.throttled.clone();
        let help = "Seconds that requests to the API server waited for KUBE_CLIENT_QPS";
        registry.register("dovetail_kube_client_wait_seconds", help, throttled);
    }

    /// Something has happened.
    pub fn happened(&self, actor: &'static str, event: &'static str) {
        self.events.get_or_create(&Event { actor, event }).inc();
    }

    /// A NodeClaim has been created for pods.
    pub fn claim_created(&self, pool: &str) {
        let labels = Created { reason: "provisioned", nodepool: pool.to_owned(), min_values_relaxed: "false" };
        self.claims_created.get_or_create(&labels).inc();
    }

    /// What the actors say of themselves.
    pub fn saw(&self, seen: Seen) {
        self.synced.set(seen.synced.into());
        self.nodes.set(seen.nodes);
        self.leads.set(seen.leads.into());
        self.term.set(seen.term);
        self.restarts.set(seen.restarts);
    }

    /// A request has waited for its turn.
    pub fn waited(&self, seconds: f64) {
        self.throttled.inc_by(seconds);
    }

    /// As text in the OpenMetrics format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_karpenters_names_and_our_own_begin_with_dovetail() {
        let metrics = Metrics::new("0.1.0", "abc");
        metrics.claim_created("default");
        metrics.happened("launcher", "launched");
        metrics.saw(Seen { synced: true, nodes: 7, leads: true, term: 3, restarts: 0 });
        metrics.waited(0.25);
        let text = metrics.text();
        let expected = [
            "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"default\",min_values_relaxed=\"false\"} 1",
            "karpenter_cluster_state_synced 1",
            "karpenter_cluster_state_node_count 7",
            "dovetail_events_total{actor=\"launcher\",event=\"launched\"} 1",
            "dovetail_leader 1",
            "dovetail_term 3",
            "dovetail_kube_client_wait_seconds_total 0.25",
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("karpenter_build_info{version=\"0.1.0\""), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
