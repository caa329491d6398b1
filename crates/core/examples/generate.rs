//! Writes a generated workload file: `cargo run --release -p dovetail-core --example generate -- diverse 10000 1 > FILE`
//! (kind, pods, seed), or `-- services:any:12000:1200:1` for one of many shapes (kind, sizes, pods, shapes, seed), or `-- half:2000` for 2,000 nodes at 40 %. The same arguments give the same bytes.
#![allow(clippy::panic, clippy::unwrap_used)] // a tool for developers

#[allow(dead_code)]
#[path = "../benches/support/mod.rs"]
mod support;

use std::io::Write;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let half = |word: &str| Some(support::nodes::occupied(word.strip_prefix("half:")?.parse().unwrap(), 350));
    if let Some(problem) = words.first().and_then(|word| half(word).or_else(|| support::mixed::named(word))) {
        std::io::stdout().write_all(&serde_json::to_vec(&problem).unwrap()).unwrap();
        return;
    }
    let [kind, pods, seed] = words.as_slice() else { panic!("wanted: KIND PODS SEED") };
    let kinds = "shapes, services, apart, diverse, even, databases";
    let kind = support::Kind::named(kind).unwrap_or_else(|| panic!("{kind}: allowed are {kinds}"));
    let problem = support::generated(kind, pods.parse().unwrap(), seed.parse().unwrap());
    std::io::stdout().write_all(&serde_json::to_vec(&problem).unwrap()).unwrap();
}
