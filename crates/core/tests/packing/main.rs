//! Packings, their prices, and pods that are left with the reason: rules one by one, then problems that are drawn.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/made.rs"]
mod made;
#[path = "../../benches/support/mod.rs"]
mod support;

#[path = "drawn/any_workload.rs"]
mod any_workload;
#[path = "nodes/consolidation.rs"]
mod consolidation;
#[path = "nodes/cost.rs"]
mod cost;
mod daemon_rules;
#[path = "spread/default_spread.rs"]
mod default_spread;
mod hostile_limits;
mod hostile_pods;
#[path = "spread/hostile_topology.rs"]
mod hostile_topology;
#[path = "drawn/isolation.rs"]
mod isolation;
#[path = "drawn/nonsense.rs"]
mod nonsense;
#[path = "nodes/options.rs"]
mod options;
mod pool_labels;
mod posts;
#[path = "drawn/random.rs"]
mod random;
#[path = "drawn/requirements.rs"]
mod requirements;
#[path = "nodes/reserved.rs"]
mod reserved;
mod rules;
#[path = "drawn/scale.rs"]
mod scale;
#[path = "nodes/soft_nodes.rs"]
mod soft_nodes;
#[path = "spread/spread_domains.rs"]
mod spread_domains;
#[path = "nodes/storage.rs"]
mod storage;
#[path = "spread/topology.rs"]
mod topology;
#[path = "nodes/volumes.rs"]
mod volumes;
#[path = "drawn/workloads.rs"]
mod workloads;
