//! A full pass of consolidation over every node of clusters in which nothing is to be gained, and the settling of half-empty
//! ones.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use dovetail_core::disruption::methods::{Cluster, Settings, decide, settle};
use dovetail_core::{ExistingNode, Pod, Problem, Resources};
use jiff::Timestamp;

/// The type that all nodes have: 16 cpus.
const TYPE: usize = 3;

/// So many nodes with 15 pods each, of which each asks for so many thousandths of a cpu, or up to a third more.
fn cluster(nodes: usize, milli: i64) -> Cluster {
    let mut problem: Problem = support::generated(support::Kind::Shapes, 1, 1);
    problem.pods.clear();
    let one = problem.instance_types[TYPE].clone();
    let offering = one.offerings.iter().find(|offering| offering.capacity_type == "on-demand").unwrap();
    let labels = [
        ("node.kubernetes.io/instance-type", one.name.as_str()),
        ("topology.kubernetes.io/zone", offering.zone.as_str()),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/nodepool", "default"),
    ];
    let labels: std::collections::BTreeMap<String, String> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    for at in 0..nodes {
        let mut node = ExistingNode {
            name: format!("node-{at:05}"),
            labels: labels.clone(),
            allocatable: one.allocatable(),
            initialized: true,
            ..ExistingNode::default()
        };
        for which in 0..15 {
            let asked = milli + milli * ((at * 7 + which * 13) % 10) as i64 / 30;
            let memory = 1i64 << 30;
            let requests: Resources = [("cpu".to_owned(), asked), ("memory".to_owned(), memory)].into_iter().collect();
            node.used.add(&requests);
            let name = format!("p-{at}-{which}");
            node.pods.push(Pod { uid: name.clone(), name, namespace: "default".into(), requests, ..Pod::default() });
        }
        node.used.set("pods", 15);
        problem.existing_nodes.push(node);
    }
    Cluster::of_workload(problem)
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("consolidation");
    group.sample_size(10).measurement_time(Duration::from_secs(10)).warm_up_time(Duration::from_secs(1));
    // The types' prices are drawn: what is asked to be saved is more than any of them could.
    let settings = Settings { least_saving: 0.99, ..Settings::default() };
    for (nodes, name) in
        [(2_000, "a full pass, 2,000 nodes, 30,000 pods"), (5_000, "a full pass, 5,000 nodes, 75,000 pods")]
    {
        let full = cluster(nodes, 850);
        group.bench_function(name, |bench| bench.iter(|| decide(&full, &settings, Timestamp::UNIX_EPOCH)));
    }
    let half = cluster(2_000, 350);
    group.bench_function("settling, 2,000 nodes, 30,000 pods", |bench| {
        bench.iter_batched(
            || half.clone(),
            |half| settle(half, &Settings::default(), Timestamp::UNIX_EPOCH, &|nodes| nodes),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
