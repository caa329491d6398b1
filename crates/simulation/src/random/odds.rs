//! Further faults and steps of some seeds: each kind in one of five to ten. Drawn from a generator of its own, so that what else
//! a seed draws stays what it is.

use fastrand::Rng;

use super::generate::{REGION, clocks};

/// Milliseconds after which an operator releases brakes, and then once more.
const LOOKS_AFTER: [u32; 2] = [12 * 60_000, 24 * 60_000];
/// Seconds by which a run may last longer after a restored API server or with a zone that was down for long: nodes launched for
/// objects that are gone have time to register, and then to be collected.
const LONGER: u32 = 25 * 60;

/// Further faults and steps of a seed.
#[derive(Default)]
pub(super) struct Odds {
    /// More faults of the API server, each after a comma.
    pub(super) api_server: String,
    /// More faults of EC2.
    pub(super) ec2: String,
    /// More steps, by milliseconds.
    pub(super) steps: Vec<(u32, String)>,
    /// Clocks instead of those that are drawn otherwise.
    pub(super) clocks: Option<String>,
    /// Seconds by which the run may last longer.
    pub(super) longer: u32,
}

impl Odds {
    /// Draws them for a seed whose first `busy` seconds are busy.
    pub(super) fn draw(seed: u64, replicas: u32, busy: u32) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6f64_6473); // "odds"
        let (mut odds, end) = (Self::default(), busy * 1000);
        let one_in = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
        if one_in(&mut rng, 6) {
            odds.api_server += &format!(", timeoutRate: {}", f64::from(rng.u32(5..=50)) / 1000.0);
        }
        if one_in(&mut rng, 6) {
            odds.api_server += &format!(", throttleRate: {}", f64::from(rng.u32(10..=150)) / 1000.0);
        }
        if one_in(&mut rng, 6) {
            odds.ec2 += &format!(", timeoutRate: {}", f64::from(rng.u32(10..=100)) / 1000.0);
        }
        if one_in(&mut rng, 5) {
            odds.ec2 += &format!(", consistencyLag: {}s", [2, 5, 15, 40][rng.usize(0..4)]);
        }
        if one_in(&mut rng, 6) {
            odds.step(rng.u32(5_000..end), format!("restart: {{for: {}s}}", rng.u32(2..=45)));
        }
        if one_in(&mut rng, 6) {
            let (by, time) = (rng.u32(300..=20_000), rng.u32(30..=240));
            odds.step(rng.u32(1_000..end), format!("slowWatches: {{by: {by}ms, for: {time}s}}"));
        }
        if one_in(&mut rng, 8) {
            let zone = ["a", "b", "c"][rng.usize(0..3)];
            // Longer than pods tolerate a node that is not reachable.
            let time = rng.u32(350..=800);
            odds.step(rng.u32(30_000..end), format!("zoneDown: {{zone: {REGION}{zone}, for: {time}s}}"));
            odds.longer = LONGER;
        }
        if one_in(&mut rng, 6) {
            odds.clocks = Some(clocks(replicas, 60_000, &mut rng));
        }
        if one_in(&mut rng, 8) {
            let at = rng.u32(45_000..end);
            // Not to before there were pools and pods: nobody applies them again.
            let age = rng.u32(5_000..=(at - 25_000).min(300_000));
            odds.step(at, format!("restore: {{age: {age}ms, for: {}s}}", rng.u32(2..=30)));
            // Instances that lost their claims may brake the collection: an operator looks, and releases it.
            for after in LOOKS_AFTER {
                odds.step(at + after, "lookAfterCollection: {for: 30m}".to_owned());
            }
            odds.longer = LONGER;
        }
        odds
    }

    fn step(&mut self, at: u32, step: String) {
        self.steps.push((at, step));
    }
}
