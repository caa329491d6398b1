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

/// Writes the room of capacity buffers, and its dollars an hour.
pub fn buffers(page: &mut MetricsPage, said: &Value) {
    let Some(buffers) = said["buffers"].as_object().filter(|buffers| !buffers.is_empty()) else { return };
    let each = || buffers.iter().filter_map(|(key, buffer)| Some((key.split_once('/')?, buffer)));
    page.gauge("dovetail_buffer_pods", "Pods that capacity buffers have room for: wanted, ready, coming, left_over");
    for ((namespace, name), buffer) in each() {
        for (state, field) in
            [("wanted", "wanted"), ("ready", "ready"), ("coming", "coming"), ("left_over", "leftOver")]
        {
            let own = [("namespace", namespace), ("buffer", name), ("state", state)];
            page.sample("dovetail_buffer_pods", &own, buffer[field].as_f64().unwrap_or_default());
        }
    }
    page.gauge(
        "dovetail_buffer_dollars_per_hour",
        "Cost of the room of capacity buffers: its share of the nodes' prices",
    );
    for ((namespace, name), buffer) in each() {
        let own = [("namespace", namespace), ("buffer", name)];
        page.sample("dovetail_buffer_dollars_per_hour", &own, buffer["dollarsPerHour"].as_f64().unwrap_or_default());
    }
}

/// Lines of the console about what is held: name and sentence.
pub fn lines(actors: &Value) -> Vec<Value> {
    let pools = actors["static_pools"]["pools"].as_object().into_iter().flatten();
    let pools = pools.map(|(name, pool)| json!([format!("static pool {name}"), pool["says"]]));
    let buffers = actors["buffers"]["buffers"].as_object().into_iter().flatten();
    pools.chain(buffers.map(|(name, buffer)| json!([format!("capacity buffer {name}"), line(buffer)]))).collect()
}

/// A buffer's sentence, with its price.
fn line(buffer: &Value) -> String {
    let dollars = buffer["dollarsPerHour"].as_f64().unwrap_or_default();
    format!("{} (${dollars:.4} an hour)", buffer["says"].as_str().unwrap_or_default())
}
