//! Packing and loading, for `cargo bench -p dovetail-core`: the workloads of tests/workloads, and generated ones.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/common/made.rs"]
mod made;
mod support;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use dovetail_core::Problem;
use dovetail_core::pack::{Options, solve};
use support::{Kind, generated};

const FILES: [&str; 14] = [
    "seeds-10-1",
    "seeds-100-1",
    "seeds-400-1",
    "batch-1-5000",
    "services-1-3000",
    "stateful-1-1500",
    "shapes-40000",
    "zonespread-20000",
    "antiaffinity-5000",
    "preference-4000-respect",
    "preference-4000-ignore",
    "diverse-500",
    "diverse-2000",
    "diverse-5000",
];

fn packing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("solve");
    group.sample_size(10);
    for name in FILES {
        let bytes = made::workload(name);
        let problem: Problem = serde_json::from_slice(&bytes).unwrap();
        group.bench_function(name, |bench| bench.iter(|| solve(&problem, &Options::default())));
    }
    let kinds = [
        (Kind::Shapes, 10_000),
        (Kind::Services, 3_000),
        (Kind::Apart, 5_000),
        (Kind::Diverse, 5_000),
        (Kind::Even, 20_000),
        (Kind::Databases, 1_500),
    ];
    for (kind, pods) in kinds {
        let problem = generated(kind, pods, 42);
        group.bench_function(problem.name.clone(), |bench| bench.iter(|| solve(&problem, &Options::default())));
    }
    group.finish();
}

fn loading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for name in ["batch-1-5000", "shapes-40000"] {
        let bytes = made::workload(name);
        group.bench_function(name, |bench| {
            bench.iter_batched(|| (), |()| serde_json::from_slice::<Problem>(&bytes).unwrap(), BatchSize::PerIteration);
        });
        group.bench_function(format!("{name}, serde_json alone"), |bench| {
            bench.iter_batched(
                || (),
                |()| serde_json::from_slice::<serde_json::Value>(&bytes).unwrap(),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, packing, loading);
criterion_main!(benches);
