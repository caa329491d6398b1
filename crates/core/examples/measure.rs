//! Packs workload files and prints what came out: `cargo run --release -p dovetail-core --example measure -- FILE…`.
//! Instead of a file `KIND:PODS:SEED` generates one, such as `diverse:10000:1`, and `KIND:SIZES:PODS:SHAPES:SEED` one of
//! many shapes, such as `services:any:12000:1200:1` (`tests/scale.py` holds the prices of those against their bounds). The best of three solves, or of `REPEAT`.
#![allow(clippy::panic)] // a tool for developers: a file that cannot be read ends it
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../benches/support/mod.rs"]
mod support;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::io::Read;
use std::time::Instant;

use dovetail_core::Problem;
use dovetail_core::pack::{Options, solve};

fn main() {
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>7} {:>7} {:>10} {:>10}",
        "file", "load ms", "json ms", "solve ms", "nodes", "left", "$/h", "mean $/h"
    );
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut bytes = generated(&path).unwrap_or_else(|| std::fs::read(&path).unwrap());
        if path.ends_with(".gz") {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
            bytes = plain;
        }
        let problem: Problem = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let load = start.elapsed();
        // For comparison, the time of serde_json alone for the same bytes, without a type to read them into.
        let start = Instant::now();
        let plain: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let json = start.elapsed();
        drop(plain);
        let mut best = f64::INFINITY;
        let mut packing = None;
        let repeat = std::env::var("REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
        for _ in 0..repeat {
            let start = Instant::now();
            packing = Some(solve(&problem, &Options::default()));
            best = best.min(start.elapsed().as_secs_f64());
        }
        let packing = packing.unwrap();
        println!(
            "{:28} {:8.1} {:8.1} {:8.2} {:7} {:7} {:10.3} {:10.3}",
            problem.name,
            load.as_secs_f64() * 1e3,
            json.as_secs_f64() * 1e3,
            best * 1e3,
            packing.claims.len(),
            packing.unscheduled.len(),
            packing.total_price,
            packing.expected_price
        );
        if let Some((_, reason)) = packing.unscheduled.first() {
            println!("    {reason}");
        }
    }
}

fn generated(text: &str) -> Option<Vec<u8>> {
    if let Some(problem) = support::mixed::named(text) {
        return serde_json::to_vec(&problem).ok();
    }
    let mut parts = text.split(':');
    let kind = support::Kind::named(parts.next()?)?;
    let (pods, seed) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    serde_json::to_vec(&support::generated(kind, pods, seed)).ok()
}
