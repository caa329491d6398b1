//! Consolidates the nodes of workload files and prints what came of it:
//! `cargo run --release -p dovetail-core --example consolidate -- FILE…`,
//! or `half:2000` for 2,000 generated nodes at 40 %. `PER_MOVE` sets what a move is worth avoiding,
//! `PER_NODE` what a node is worth avoiding, both in $/h,
//! `MANY` opens the gate `ManyToManyConsolidation`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a tool for developers: a file that cannot be read ends it

#[allow(dead_code)]
#[path = "../benches/support/mod.rs"]
mod support;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::io::Read;
use std::time::Instant;

use dovetail_core::Problem;
use dovetail_core::disruption::methods::{ClusterView, ConsolidationSettings, decide, price_bound, settle};
use dovetail_core::pack::{Options, solve};
use jiff::Timestamp;

/// The problem of a workload file, or of `half:NODES`: nodes at 40 % of their cpus.
fn read(path: &str) -> Problem {
    if let Some(nodes) = path.strip_prefix("half:") {
        return support::nodes::occupied(nodes.parse().unwrap(), 350);
    }
    let mut bytes = std::fs::read(path).unwrap();
    if path.ends_with(".gz") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        bytes = plain;
    }
    serde_json::from_slice(&bytes).unwrap()
}

fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn main() {
    for path in std::env::args().skip(1) {
        let problem = read(&path);
        let nodes = problem.existing_nodes.len();
        let cluster = ClusterView::of_workload(problem);
        let bound = price_bound(&cluster).unwrap();
        let fresh = Problem { existing_nodes: vec![], ..cluster.problem().clone() };
        let start = Instant::now();
        let per_node = number("PER_NODE").unwrap_or(Options::default().price_per_node);
        let packing = solve(&fresh, &Options { price_per_node: per_node, ..Options::default() });
        let fresh_ms = start.elapsed().as_secs_f64() * 1e3;
        let usual = ConsolidationSettings::default();
        let settings = ConsolidationSettings {
            price_moves: ConsolidationSettings::price_moves_of(nodes),
            price_per_node: per_node,
            least_per_move: number("PER_MOVE").unwrap_or(usual.least_per_move),
            many_to_many: std::env::var("MANY").is_ok(),
            ..usual
        };
        let now = Timestamp::UNIX_EPOCH;
        let start = Instant::now();
        let first = decide(&cluster, &settings, now).unwrap();
        let decide_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let settled = settle(cluster, &settings, now, &|nodes| nodes).unwrap();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        println!(
            "{path}: {nodes} nodes {:.2} $/h -> {} nodes {:.2} $/h, fresh {:.2} ({:.3}) in {fresh_ms:.1} ms, bound {bound:.2} ({:.3}); {} moves, {} commands, {} launched, {} rounds, decide {decide_ms:.1} ms, settle {ms:.1} ms",
            settled.price.0,
            settled.cluster.nodes().len(),
            settled.price.1,
            packing.total_price,
            settled.price.1 / packing.total_price,
            settled.price.1 / bound,
            settled.moved,
            settled.commands.len(),
            settled.launched,
            settled.rounds
        );
        if std::env::var("STEPS").is_ok() {
            let (mut price, mut moves) = (settled.price.0, 0);
            for command in &settled.commands {
                price -= command.saving();
                moves += command.moves.len();
                println!(
                    "    {} {} nodes -> {:?}: {price:.2} $/h after {moves} moves",
                    command.method,
                    command.candidates.len(),
                    command.replacements.iter().map(|claim| claim.price).collect::<Vec<_>>()
                );
            }
            println!("    first: {:?}", first.unconsolidatable.first());
        }
    }
}
