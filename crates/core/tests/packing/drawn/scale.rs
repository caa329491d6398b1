//! Very many shapes: the price stays within sight of the linear-programming bound, which `tests/scale.py` computes.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;
use crate::support;

use dovetail_core::pack::{Options, solve};
use support::mixed::named;

/// A generated workload costs no more than so many times its bound, in $/h.
fn costs(name: &str, bound: f64, times: f64) {
    let problem = named(name).unwrap();
    let packing = solve(&problem, &Options::default());
    println!("{name}: {} nodes, {:.4} times the bound", packing.claims.len(), packing.total_price / bound);
    assert!(packing.unscheduled.is_empty(), "{} left: {}", packing.unscheduled.len(), packing.unscheduled[0].1);
    assert!(packing.total_price <= bound * times, "{} is more than {times} times {bound}", packing.total_price);
    for claim in &packing.claims {
        let spot = claim.requirements.iter().any(|said| said.values.iter().any(|value| value == "spot"));
        let free = claim.pods.len() == 1 || claim.options.len() >= 15;
        // Only the price narrows the choice.
        assert!(!spot || free || claim.too_dear > 0, "{} options", claim.options.len());
    }
}

/// The checker takes long with more pods.
#[test]
fn no_rule_is_broken_with_more_than_a_thousand_shapes() {
    for name in ["services:any:2000:1200:1", "stateful:any:1500:1100:1"] {
        let problem = named(name).unwrap();
        let packing = solve(&problem, &Options::default());
        assert_eq!(common::violations(&problem, &packing), [""; 0]);
        assert!(packing.unscheduled.is_empty(), "{name}: {} left", packing.unscheduled.len());
    }
}

#[test]
fn twelve_thousand_service_pods_cost_at_most_a_tenth_over_bound() {
    costs("services:any:12000:1200:1", 118.062, 1.10);
    costs("services:round:12000:1200:1", 111.176, 1.10);
}

#[test]
fn large_services_one_a_host_cost_at_most_a_tenth_over_bound() {
    costs("services:any:10000:200:1", 112.512, 1.10);
    costs("services:any:10000:1000:1", 109.666, 1.10);
    costs("services:any:30000:200:1", 336.955, 1.10);
}

#[test]
fn diverse_batch_jobs_cost_at_most_a_twentieth_over_bound() {
    costs("batch:any:10000:2000:1", 594.283, 1.05);
    costs("batch:round:10000:2000:1", 570.162, 1.05);
}

#[test]
fn databases_of_many_shapes_cost_at_most_an_eighth_over_bound() {
    costs("stateful:any:10000:1700:1", 1765.214, 1.12);
    costs("stateful:round:10000:1700:1", 1779.933, 1.12);
}
