//! A world that is wrong: clocks that are minutes off, fleets of which EC2 does not say what became of them, NodeClaims that
//! somebody deletes. Each has one seed in twelve to twenty; drawn from a generator of its own, so that what else a seed draws
//! stays what it is.

use fastrand::Rng;

/// Seconds by which a run may last longer in which launches come to nothing: they are tried again after pauses that double.
const LONGER: u32 = 25 * 60;
/// Clocks that are off by minutes.
const OFFSETS: [&str; 5] = ["5m", "6m", "10m", "-10m", "-6m"];
/// A second gained or lost a minute, in microseconds a second.
const DRIFT: i32 = 16_667;

/// Errors of a seed's set-up.
#[derive(Default)]
pub(super) struct Wrong {
    /// Clocks instead of those that are drawn otherwise.
    pub(super) clocks: Option<String>,
    /// More faults of EC2, each after a comma.
    pub(super) ec2: String,
    /// More lines of `faults`.
    pub(super) faults: String,
    /// Seconds by which the run may last longer.
    pub(super) longer: u32,
}

impl Wrong {
    /// Draws the errors of a seed whose first `busy` seconds are busy.
    pub(super) fn draw(seed: u64, replicas: u32, busy: u32) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x77_726f_6e67); // "wrong"
        let mut wrong = Self::default();
        let one_in = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
        if one_in(&mut rng, 12) {
            let all: Vec<String> = (0..replicas).map(|_| clock(busy, &mut rng)).collect();
            wrong.clocks = Some(format!("clocks: [{}]\n", all.join(", ")));
        }
        for fault in ["silentFleets", "untoldFleets"] {
            if one_in(&mut rng, 14) {
                wrong.ec2 += &format!(", {fault}: {}", f64::from(rng.u32(5..=45)) / 100.0);
            }
        }
        if one_in(&mut rng, 20) {
            let (after, lasts) = (rng.u32(1..=40), rng.u32(60..=480));
            wrong.faults += &format!("  nodeClaims: {{deletedAfter: {after}s, for: {lasts}s}}\n");
            wrong.longer = LONGER;
        }
        wrong
    }
}

/// One clock in four is right.
fn clock(busy: u32, rng: &mut Rng) -> String {
    match rng.u32(0..8) {
        0 | 1 => "{}".to_owned(),
        2 => format!("{{drift: {}}}", if rng.bool() { DRIFT } else { -DRIFT }),
        3 | 4 => {
            let (at, by) = (rng.u32(20..busy), OFFSETS[rng.usize(0..OFFSETS.len())]);
            format!("{{jumps: [{{at: {at}s, by: {by}}}]}}")
        }
        5 => {
            // Set right again, as a time daemon that starts late does.
            let (at, by) = (rng.u32(20..busy), OFFSETS[rng.usize(0..3)]);
            format!("{{offset: {by}, jumps: [{{at: {at}s, by: -{by}}}]}}")
        }
        _ => format!("{{offset: {}}}", OFFSETS[rng.usize(0..OFFSETS.len())]),
    }
}
