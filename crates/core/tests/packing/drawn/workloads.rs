//! The workloads of tests/workloads: everything placed, valid, the same with the pods shuffled, at a price within sight of
//! the linear-programming bound.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;
use crate::made;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, Packing, most_steps, solve, solve_within};

/// The answer in names, as a user sees it.
fn told(problem: &Problem, packing: &Packing) -> String {
    let mut out = String::new();
    for claim in &packing.claims {
        let names: Vec<&str> = claim.pods.iter().map(|pod| problem.pods[*pod].name.as_str()).collect();
        out += &format!("{names:?} {:?} {:?} {} {}\n", claim.requirements, claim.options, claim.requests, claim.price);
    }
    out
}

/// The same pods in another order, always the same other order.
fn shuffled(problem: &Problem) -> Problem {
    let mut other = problem.clone();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..other.pods.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        other.pods.swap(at, (state >> 33) as usize % (at + 1));
    }
    other
}

fn packs(name: &str, at_most: f64) {
    let problem: Problem = serde_json::from_slice(&made::workload(name)).unwrap();
    let packing = solve(&problem, &Options::default());
    println!("{name}: {} nodes, {:.3} $/h (at most {at_most})", packing.claims.len(), packing.total_price);
    assert_eq!(common::violations(&problem, &packing), [""; 0]);
    assert!(packing.unscheduled.is_empty(), "{} left: {}", packing.unscheduled.len(), packing.unscheduled[0].1);
    assert!(packing.total_price <= at_most, "{} is more than {at_most}", packing.total_price);
    for claim in &packing.claims {
        let spot = claim.requirements.iter().any(|said| said.values.iter().any(|value| value == "spot"));
        assert!(
            !spot || claim.pods.len() == 1 || claim.options.len() >= 15 || claim.too_dear > 0,
            "{} options",
            claim.options.len()
        );
        assert!(
            claim.options.iter().all(|option| option.price <= claim.price * 1.5 * (1.0 + 1e-9)),
            "{:?}",
            claim.options
        );
    }
    let mean = packing.expected_price / packing.total_price;
    assert!(mean <= 1.25, "the mean option costs {mean:.3} times the cheapest");
    let other = shuffled(&problem);
    assert_eq!(told(&problem, &packing), told(&other, &solve(&other, &Options::default())));
}

#[test]
fn seeds_400_costs_little_more_than_the_bound() {
    packs("seeds-400-1", 1.301 * 1.04);
}

#[test]
fn seeds_100_costs_little_more_than_the_bound() {
    packs("seeds-100-1", 1.298 * 1.06);
}

#[test]
fn seeds_10_costs_less_than_the_peers() {
    packs("seeds-10-1", 1.773);
}

#[test]
fn batch_costs_a_twentieth_more_than_the_bound_at_most() {
    packs("batch-1-5000", 260.46 * 1.05);
}

#[test]
fn shapes_cost_a_twentieth_more_than_the_bound_at_most() {
    packs("shapes-40000", 10_426.17 * 1.05);
}

#[test]
fn spread_services_cost_less_than_the_peers() {
    packs("services-1-3000", 178.17);
}

#[test]
fn databases_apart_cost_a_seventh_more_than_the_bound_at_most() {
    packs("stateful-1-1500", 266.53 * 1.15);
}

#[test]
fn one_a_host_costs_no_more_than_the_peers() {
    packs("antiaffinity-5000", 1605.22);
}

#[test]
fn an_even_zone_spread_costs_no_more_than_the_peers() {
    packs("zonespread-20000", 6311.02);
}

#[test]
fn preferences_that_cannot_be_kept_cost_no_more_than_none() {
    packs("preference-4000-respect", 2524.61);
    packs("preference-4000-ignore", 2524.61);
}

#[test]
fn all_rules_at_once_cost_a_quarter_less_than_the_peers() {
    packs("diverse-500", 164.61 * 0.75);
    packs("diverse-2000", 678.91 * 0.75);
    packs("diverse-5000", 1735.52 * 0.75);
}

/// The bound is for workloads that are made to meet it.
#[test]
fn real_workloads_take_less_than_a_tenth_of_allowed_steps() {
    let files =
        ["seeds-400-1", "batch-1-5000", "services-1-3000", "stateful-1-1500", "shapes-40000", "zonespread-20000"];
    let more = ["antiaffinity-5000", "preference-4000-respect", "diverse-5000", "diverse-20000"];
    for name in files.into_iter().chain(more) {
        let problem: Problem = serde_json::from_slice(&made::workload(name)).unwrap();
        let all = most_steps(&problem);
        let enough = |part: u64| {
            let options = Options { most_steps: Some(all / part), ..Options::default() };
            solve_within(&problem, &options).is_ok()
        };
        assert!(enough(10), "{name} takes more than a tenth of {all} steps");
        println!("{name}: a hundredth of {all} steps is {}", if enough(100) { "enough" } else { "too little" });
    }
}
