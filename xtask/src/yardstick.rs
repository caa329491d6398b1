//! A fixed piece of work: times are told as multiples of it, which are the same on fast and on slow machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Texts of one round. A round takes about a second on the machine of docs/performance.md.
const TEXTS: usize = 500_000;
/// Rounds, of which the shortest counts: whatever else the machine does only makes one longer.
const ROUNDS: usize = 4;

/// Time of the fixed piece of work on one core, now.
#[allow(clippy::disallowed_methods)] // it is real time that is asked for
pub fn measure() -> Duration {
    let round = |seed| {
        let begun = Instant::now();
        black_box(work(black_box(seed)));
        begun.elapsed()
    };
    (0..ROUNDS as u64).map(round).min().unwrap_or_default()
}

/// Makes, sorts, counts and reads texts: memory and branches, as compilers and simulations need them.
fn work(seed: u64) -> usize {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut texts = Vec::with_capacity(TEXTS);
    for number in 0..TEXTS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut text = format!("node-{:x}", state >> 24);
        let _ = write!(text, "/pod-{number}/{:.3}", (state >> 40) as f64 / 1000.0);
        texts.push(text);
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in &texts {
        for part in text.split(['/', '-']) {
            *counts.entry(part.get(..part.len().min(5)).unwrap_or(part)).or_default() += 1;
        }
    }
    let mut copies = texts.clone();
    copies.sort_unstable();
    let numbers = copies.iter().filter_map(|text| text.rsplit('/').next()?.parse::<f64>().ok());
    counts.len() + copies.len() + numbers.filter(|number| number.fract() > 0.5).count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_is_the_same_for_the_same_seed() {
        assert_eq!(super::work(7), super::work(7));
        assert_ne!(super::work(7), super::work(8));
    }
}
