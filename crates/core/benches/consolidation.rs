//! A full pass of consolidation over every node of clusters in which nothing is to be gained, and the settling of half-empty
//! ones.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use dovetail_core::disruption::methods::{ClusterView, ConsolidationSettings, decide, price_bound, settle};
use jiff::Timestamp;

/// So many nodes with 15 pods each, of which each asks for so many thousandths of a cpu, or up to a third more.
fn cluster(nodes: usize, milli: i64) -> ClusterView {
    ClusterView::of_workload(support::nodes::occupied(nodes, milli))
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("consolidation");
    group.sample_size(10).measurement_time(Duration::from_secs(10)).warm_up_time(Duration::from_secs(1));
    // The types' prices are drawn: what is asked to be saved is more than any of them could.
    let settings = ConsolidationSettings { least_saving: 0.99, ..ConsolidationSettings::default() };
    for (nodes, name) in
        [(2_000, "a full pass, 2,000 nodes, 30,000 pods"), (5_000, "a full pass, 5,000 nodes, 75,000 pods")]
    {
        let full = cluster(nodes, 850);
        group.bench_function(name, |bench| bench.iter(|| decide(&full, &settings, Timestamp::UNIX_EPOCH)));
    }
    let half = cluster(2_000, 350);
    let end = settle(half.clone(), &ConsolidationSettings::default(), Timestamp::UNIX_EPOCH, &|nodes| nodes).unwrap();
    println!(
        "2,000 nodes at 40 %: {:.2} $/h become {:.2}, {:.3} times the bound, by {} commands and {} moves of pods",
        end.price.0,
        end.price.1,
        end.price.1 / price_bound(&half).unwrap(),
        end.commands.len(),
        end.moved
    );
    group.bench_function("settling, 2,000 nodes, 30,000 pods", |bench| {
        bench.iter_batched(
            || half.clone(),
            |half| settle(half, &ConsolidationSettings::default(), Timestamp::UNIX_EPOCH, &|nodes| nodes),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
