//! Short texts with a grammar: quantities, and what a NodePool's budget says of nodes, days and hours.
#![no_main]

use dovetail_api::v1::NodePool;
use dovetail_core::budgets::{RemovalReason, allowed};
use dovetail_core::{quantity, validity};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    for scale in [1, 1000] {
        let _ = quantity::parse(text, scale);
    }
    if let Ok(amount) = quantity::parse(text, 1000) {
        let written = quantity::format_milli(amount);
        assert_eq!(quantity::parse(&written, 1000), Ok(amount), "{text:?} is written {written:?}");
    }
    let mut lines = text.lines();
    let (nodes, schedule) = (lines.next().unwrap_or_default(), lines.next());
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "disruption": {"budgets": [{"nodes": nodes, "schedule": schedule, "duration": schedule.map(|_| "1h")}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }},
        },
    });
    let Ok(pool) = serde_json::from_value::<NodePool>(pool) else { return };
    let now = jiff::Timestamp::from_second(1_780_000_000).expect("a time");
    let told = allowed(&pool, RemovalReason::Drifted, 20, now);
    assert!(told.mistakes.is_empty() || told.is_none(), "an unreadable budget allows nodes: {told:?}");
    let _ = validity::verdict(&pool);
});
