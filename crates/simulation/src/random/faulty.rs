//! Faults of some seeds that no operator wanted: objects that replicas cannot read, nodes that are not what was planned, packing
//! that fails, and a kube-scheduler with rules of its own. Each has one seed in ten or fewer; drawn from a generator of its own,
//! so that what else a seed draws stays what it is.

use fastrand::Rng;

use super::workload::Workload;

/// Seconds by which such a run may last longer: a launch that nobody has used is tried again after pauses that double.
const LONGER: u32 = 25 * 60;
/// Globs of instance types of which there always are some; all of them at first.
const TYPES: [&str; 5] = ["", "m5.*", "c6i.*", "r6i.*", "m5.*, c6i.*, r6i.*"];
/// Nodes by where they are: everywhere, or the subnet of a zone.
const PLACES: [&str; 4] = ["*", "ip-10-0-0-*", "ip-10-0-32-*", "ip-10-0-64-*"];

/// Such faults of a seed.
#[derive(Default)]
pub(super) struct Faulty {
    /// More lines of `faults`.
    pub(super) faults: String,
    /// More steps, by milliseconds.
    pub(super) steps: Vec<(u32, String)>,
    /// Seconds by which the run may last longer.
    pub(super) longer: u32,
}

impl Faulty {
    /// Draws the faults of a seed whose first `busy` seconds are busy.
    pub(super) fn draw(seed: u64, workloads: &[Workload], busy: u32) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6661_756c_7479); // "faulty"
        let mut faulty = Self::default();
        let one_in = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
        if one_in(&mut rng, 10) {
            faulty.steps = unreadable(workloads, busy, &mut rng);
        }
        if one_in(&mut rng, 14) {
            faulty.faults += &format!("  packing: {{panicsFor: [{}-*]}}\n", some(workloads, &mut rng).name);
        }
        if one_in(&mut rng, 16) {
            let (place, name) = (PLACES[rng.usize(0..PLACES.len())], &some(workloads, &mut rng).name);
            faulty.faults += &format!("  scheduler: {{refuses: ['{place}/default/{name}-*']}}\n");
        }
        if one_in(&mut rng, 10) {
            faulty.faults += &format!("  nodes: {{{}}}\n", nodes(workloads, &mut rng));
            faulty.longer = LONGER;
        }
        faulty
    }
}

fn some<'a>(workloads: &'a [Workload], rng: &mut Rng) -> &'a Workload {
    &workloads[rng.usize(0..workloads.len())]
}

/// Mostly what can be read again after a while; a pod may stay as it is.
fn unreadable(workloads: &[Workload], busy: u32, rng: &mut Rng) -> Vec<(u32, String)> {
    let one = |rng: &mut Rng| {
        let kind = [
            "Pod",
            "Pod",
            "Pod",
            "Node",
            "Node",
            "NodeClaim",
            "NodeClaim",
            "NodePool",
            "EC2NodeClass",
            "PodDisruptionBudget",
            "StatefulSet",
            "Lease",
        ][rng.usize(0..12)];
        let how = ["type", "type", "depth", "managedFields"][rng.usize(0..4)];
        let count = [", count: 1", ", count: 2", ", count: 5", ""][rng.usize(0..4)];
        let names = if kind == "Pod" { format!(", names: {}-*", some(workloads, rng).name) } else { String::new() };
        let lasts =
            if kind == "Pod" && rng.u32(0..4) == 0 { String::new() } else { format!(", for: {}s", rng.u32(5..=240)) };
        (rng.u32(5_000..busy * 1000), format!("spoil: {{kind: {kind}{names}{count}, how: {how}{lasts}}}"))
    };
    (0..rng.u32(1..=4)).map(|_| one(rng)).collect()
}

/// Differences of nodes from what was planned with. Where pods cannot run on them at all, that ends some time.
fn nodes(workloads: &[Workload], rng: &mut Rng) -> String {
    let types = TYPES[rng.usize(0..TYPES.len())];
    let of = |more: &str| match (types, more) {
        ("", more) => format!("{{{more}}}"),
        (types, "") => format!("{{types: ['{}']}}", types.replace(", ", "', '")),
        (types, more) => format!("{{types: ['{}'], {more}}}", types.replace(", ", "', '")),
    };
    let lasts = rng.u32(2..=12);
    let fault = match rng.u32(0..8) {
        0 | 1 => {
            let effect = ["NoSchedule", "NoExecute"][rng.usize(0..2)];
            format!("taintOnJoin: {}", of(&format!("key: odd, value: 'yes', effect: {effect}")))
        }
        2 => format!("cordonOnJoin: {}", of("")),
        3 | 4 => {
            let fault = format!("allocatable: {}", of(&format!("less: {}%", rng.u32(5..=30))));
            if rng.bool() {
                // For ever: that is learnt, and packed by.
                return fault;
            }
            fault
        }
        5 | 6 => format!("joinsLate: {}", of(&format!("by: {}s", rng.u32(30..=480)))),
        _ => {
            let name = &some(workloads, rng).name;
            return format!("kubeletRefuses: {}, for: {}s", of(&format!("pods: {{app: {name}}}")), rng.u32(60..=240));
        }
    };
    format!("{fault}, for: {lasts}m")
}
