//! Capacity that is held whatever pods wait: static pools. Written only where their actors run, behind their feature gates.

use dovetail_observability::metrics::MetricsPage;
use serde_json::{Value, json};

/// Writes the nodes of static pools, by what becomes of them.
pub fn static_pools(page: &mut MetricsPage, said: &Value) {
    let Some(pools) = said["pools"].as_object().filter(|pools| !pools.is_empty()) else { return };
    page.gauge("dovetail_nodepools_replicas", "Nodes of static pools: desired, ready, launching, deleting");
    for (name, pool) in pools {
        for state in ["desired", "ready", "launching", "deleting"] {
            let own = [("nodepool", name.as_str()), ("state", state)];
            page.sample("dovetail_nodepools_replicas", &own, pool[state].as_f64().unwrap_or_default());
        }
    }
}

/// Lines of the console about what is held: name and sentence.
pub fn lines(actors: &Value) -> Vec<Value> {
    let pools = actors["static_pools"]["pools"].as_object().into_iter().flatten();
    pools.map(|(name, pool)| json!([format!("static pool {name}"), pool["says"]])).collect()
}
