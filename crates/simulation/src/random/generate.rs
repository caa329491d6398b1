//! A scenario from a seed: some minutes in which things happen and go wrong, then time in which nothing new does, so that
//! what can run runs in the end and what is nobody's is gone. It ends when everything has settled.

use std::fmt::Write as _;

use fastrand::Rng;

use super::faulty::Faulty;
use super::moves::SeedMoves;
use super::odds::Odds;
use super::rollouts::Rollouts;
use super::workload::{self, Workload};
use super::wrong::Wrong;

/// A region of few instance types: every replica reads all of them when it starts.
pub(super) const REGION: &str = "ca-west-1";
/// Families of which there always are some: what is there beforehand, and what can be had where all else is sold out.
const ALWAYS: [&str; 3] = ["m5", "c6i", "r6i"];
/// The region's other families.
const OTHERS: [&str; 31] = [
    "c5", "c6g", "c6gn", "c6id", "c6in", "c7g", "c7i", "c8g", "c8gn", "i3en", "i4i", "i7i", "i7ie", "m5d", "m6g",
    "m6gd", "m6i", "m6id", "m8g", "m8i", "m8i-flex", "r5", "r6g", "r6id", "r7g", "r8g", "r8gd", "r8i", "r8i-flex",
    "t3", "t4g",
];
/// Calm at the end, at most: longer than a node has to register, and than two passes of the janitor after that.
const CALM: u32 = 30 * 60;
/// It is over when all has been settled for so long: longer than an empty node has to stay.
const SETTLED: &str = "3m30s";

/// A scenario and the manifests that it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// The scenario; it applies `workload.yaml` beside it.
    pub scenario: String,
    /// The manifests of its pools, classes and workloads, as YAML.
    pub workload: String,
    /// Manifests that are applied in the middle of the run, from `changed.yaml` beside it.
    pub changed: Option<String>,
}

pub fn scenario(seed: u64) -> Files {
    let mut rng = Rng::with_seed(seed ^ 0x7261_6e64_6f6d); // "random"
    let (workload, workloads) = workload::draw(&mut rng);
    let busy = 60 * if rng.u32(0..10) == 0 { rng.u32(10..=25) } else { rng.u32(3..=7) };
    // Two are what a cluster has, mostly.
    let replicas = [1, 2, 2, 2, 2, 3, 3, 4, 5][rng.usize(0..9)];
    // In milliseconds: what happens is to fall between any two of the replicas' own steps.
    let mut steps: Vec<(u32, String)> = Vec::new();
    scale(&mut steps, &workloads, busy, &mut rng);
    operator_faults(&mut steps, replicas, busy, &mut rng);
    let odds = Odds::draw(seed, replicas, busy);
    let faulty = Faulty::draw(seed, &workloads, busy);
    let wrong = Wrong::draw(seed, replicas, busy);
    steps.extend(odds.steps);
    steps.extend(faulty.steps);
    steps.extend(super::held::writes(seed, &workloads, busy));
    steps.extend(super::terms::removals(seed, busy));
    let rollouts = Rollouts::draw(seed, &workloads);
    let moves = SeedMoves::draw(seed, &workloads, busy, rollouts.many_to_many);
    let workload = rollouts.manifests(moves.first(workload));
    let changed = moves.changed(&workload);
    steps.extend(moves.steps);
    steps.sort();
    let mut scenario = format!(
        "# Drawn from seed {seed}: dovetail simulate --random --seeds {seed}
region: {REGION}
{}clusterName: demo
seed: {seed}
replicas: {replicas}
apply: [workload.yaml]
settings: {{INTERRUPTION_QUEUE: demo{}}}
",
        offers(seed),
        rollouts.settings()
    );
    let clocks = if rng.u32(0..3) == 0 { clocks(replicas, 3000, &mut rng) } else { String::new() };
    scenario.push_str(wrong.clocks.as_ref().or(odds.clocks.as_ref()).unwrap_or(&clocks));
    if rng.u32(0..3) == 0 {
        scenario.push_str("nodes: [{instanceType: m5.xlarge, zone: ca-west-1a}]\n");
    }
    scenario.push_str(&moves.gates);
    faults(&mut scenario, &odds.api_server, &format!("{}{}", odds.ec2, wrong.ec2), &mut rng);
    scenario.push_str(&faulty.faults);
    scenario.push_str(&wrong.faults);
    scenario.push_str("steps:\n");
    for (at, step) in &steps {
        let _ = writeln!(scenario, "  - {{at: {at}ms, {step}}}");
    }
    let _ = writeln!(
        scenario,
        "until: {}s\nsettled: {SETTLED}",
        busy + CALM + odds.longer + faulty.longer + moves.longer + wrong.longer
    );
    Files { scenario, workload, changed }
}

/// Mostly a handful of families: clusters live in regions large and small, and a seed's cost is what replicas read.
fn offers(seed: u64) -> String {
    // Chance of its own: what else a seed draws stays what it is.
    let mut rng = Rng::with_seed(seed ^ 0x6f66_6665_7273); // "offers"
    if rng.u32(0..10) == 0 {
        return String::new();
    }
    let count = [2, 3, 4, 6, 9][rng.usize(0..5)];
    let mut families = rng.choose_multiple(OTHERS, count);
    families.extend(ALWAYS);
    families.sort_unstable();
    let globs: Vec<String> = families.iter().map(|family| format!("{family}.*")).collect();
    format!("instanceTypes: [{}]\n", globs.join(", "))
}

fn scale(steps: &mut Vec<(u32, String)>, workloads: &[Workload], busy: u32, rng: &mut Rng) {
    for _ in 0..rng.u32(1..=5) {
        let workload = &workloads[rng.usize(0..workloads.len())];
        let (kind, name, replicas) = (workload.kind, &workload.name, rng.u32(0..=workload.most));
        let step = format!("scale: {{kind: {kind}, name: {name}, replicas: {replicas}}}");
        steps.push((rng.u32(30_000..busy * 1000), step));
    }
}

/// Clocks that are wrong by so many milliseconds at most, and gain or lose up to a thousandth.
pub(super) fn clocks(replicas: u32, most: i32, rng: &mut Rng) -> String {
    let one = |rng: &mut Rng| format!("{{offset: {}ms, drift: {}}}", rng.i32(-most..=most), rng.i32(-1000..=1000));
    let all: Vec<String> = (0..replicas).map(|_| one(rng)).collect();
    format!("clocks: [{}]\n", all.join(", "))
}

/// A moment: any, or one soon after something was asked for, when most is under way.
fn moment(steps: &[(u32, String)], busy: u32, rng: &mut Rng) -> u32 {
    let asked: Vec<u32> = steps.iter().filter(|(_, step)| step.starts_with("scale")).map(|(at, _)| *at).collect();
    match rng.u32(0..4) {
        0 => rng.u32(1_000..12_000),
        1 | 2 if !asked.is_empty() => asked[rng.usize(0..asked.len())] + rng.u32(500..12_000),
        _ => rng.u32(5_000..busy * 1000),
    }
}

/// Most that an operator takes to release brakes, in milliseconds.
const LOOKS_AFTER: u32 = 12 * 60_000;

fn operator_faults(steps: &mut Vec<(u32, String)>, replicas: u32, busy: u32, rng: &mut Rng) {
    for _ in 0..rng.u32(1..=6) {
        let at = moment(steps, busy, rng);
        let who = if rng.u32(0..3) > 0 { "leader".to_owned() } else { rng.u32(0..replicas).to_string() };
        let step = match rng.u32(0..12) {
            0 | 1 => format!("kill: {{replica: {who}, for: {}s}}", rng.u32(1..=120)),
            2 | 8 => format!("pause: {{replica: {who}, for: {}ms}}", rng.u32(1_000..=90_000)),
            9 => "lose: {kind: Lease, count: 1}".to_owned(),
            10 => {
                // The collection may be braked by that: an operator looks, and releases it.
                let after = at + rng.u32(7 * 60_000..LOOKS_AFTER);
                steps.push((after, "allowCollection: {for: 30m}".to_owned()));
                format!("lose: {{kind: NodeClaim, count: {}}}", [1, 2, 3, 100][rng.usize(0..4)])
            }
            3 | 4 => {
                let from = ["[apiServer]", "[ec2]", "[sqs]", "[apiServer, ec2, sqs]"][rng.usize(0..4)];
                let direction = ["in", "out", "both"][rng.usize(0..3)];
                let time = rng.u32(2..=60);
                format!("partition: {{replica: {who}, from: {from}, direction: {direction}, for: {time}s}}")
            }
            5 => format!("interrupt: {{spot: {}%}}", [10, 25, 50, 100][rng.usize(0..4)]),
            6 => {
                let zone = ["a", "b", "c"][rng.usize(0..3)];
                format!("zoneDown: {{zone: {REGION}{zone}, for: {}s}}", rng.u32(20..=240))
            }
            _ => {
                // By that too, where many launches are taken over: each is launched for again. It may be braked only later.
                for after in [LOOKS_AFTER, 2 * LOOKS_AFTER] {
                    steps.push((at + after, "lookAfterCollection: {for: 30m}".to_owned()));
                }
                format!("emptyLists: {{for: {}s}}", rng.u32(20..=300))
            }
        };
        steps.push((at, step));
    }
    if rng.u32(0..5) == 0 {
        steps.push((rng.u32(5_000..busy * 1000), format!("foreignInstances: {}", rng.u32(1..=8))));
    }
}

fn faults(text: &mut String, more_api: &str, more_ec2: &str, rng: &mut Rng) {
    let mut rate = |most: f64| if rng.bool() { 0.0 } else { (rng.f64() * most * 1000.0).round() / 1000.0 };
    let (api, ec2, throttle, twice) = (rate(0.1), rate(0.2), rate(0.2), rate(0.3));
    let latency = [0, 5, 20, 100, 400][rng.usize(0..5)];
    // Never everything: c, m and r on demand in the other zones are left.
    let sold_out =
        ["", "'m5.*/*/spot'", "'*/ca-west-1a/*'", "'*/*/spot'", "'c*/ca-west-1b/on-demand', '*/ca-west-1c/spot'"];
    let sold_out = sold_out[rng.usize(0..5)];
    let _ = write!(
        text,
        "faults:
  apiServer: {{errorRate: {api}, latency: {latency}ms{more_api}}}
  ec2: {{errorRate: {ec2}, throttleRate: {throttle}, insufficientCapacity: [{sold_out}]{more_ec2}}}
  sqs: {{duplicateRate: {twice}}}
"
    );
}
