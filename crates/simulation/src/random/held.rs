//! Writes of a leader that are held on their way while another is elected: what only the API server's fence refuses. Drawn
//! from a generator of its own, so that what else a seed draws stays what it is.

use fastrand::Rng;

use super::workload::Workload;

/// Steps, by milliseconds: one seed in five has them.
pub(super) fn writes(seed: u64, workloads: &[Workload], busy: u32) -> Vec<(u32, String)> {
    let mut rng = Rng::with_seed(seed ^ 0x6865_6c64); // "held"
    if rng.u32(0..5) != 0 {
        return Vec::new();
    }
    // More pods than there were before, for which claims are written.
    let Workload { kind, name, most, .. } = &workloads[rng.usize(0..workloads.len())];
    let (asked, more) = (rng.u32(20_000..busy * 1000), most + rng.u32(3..=20));
    // From before they are seen on, or in the middle of it.
    let (at, by, time) = (asked + rng.u32(0..1_500), rng.u32(12_000..=40_000), rng.u32(1_000..=12_000));
    let mut steps = vec![
        (asked, format!("scale: {{kind: {kind}, name: {name}, replicas: {more}}}")),
        (at, format!("holdWrites: {{replica: leader, by: {by}ms, for: {time}ms}}")),
    ];
    // Its Lease runs out meanwhile, or it goes on; or it gives up what it cannot renew.
    let after = at + rng.u32(0..time);
    match rng.u32(0..4) {
        0 | 1 => steps.push((after, format!("kill: {{replica: leader, for: {}s}}", rng.u32(1..=120)))),
        2 => steps.push((after, format!("pause: {{replica: leader, for: {}ms}}", rng.u32(16_000..=60_000)))),
        _ => {}
    }
    steps
}
