//! Causes for which nodes go by the control plane's own decision in a drawn scenario: workloads that shrink when their nodes are
//! old enough to be consolidated, a pool or a class that is changed, and nodes that are unwell. Drawn from a generator of its
//! own, so that what else a seed draws stays what it is.

use fastrand::Rng;

use super::workload::Workload;

/// Nodes are consolidated when they are ten minutes old.
const OLD_ENOUGH: u32 = 11 * 60_000;
/// A node whose accelerators are unwell is repaired after ten minutes.
const REPAIRED: u32 = 10 * 60_000;

/// Such causes in a seed.
#[derive(Default)]
pub(super) struct SeedMoves {
    /// More steps, by milliseconds.
    pub(super) steps: Vec<(u32, String)>,
    /// Feature gates, a line of the scenario, or nothing.
    pub(super) gates: String,
    /// Replacements of text within the pools' `disruption`.
    pub(super) policies: Vec<(String, String)>,
    /// The manifest that is applied in the middle of the run, made of the first ones.
    change: Option<Change>,
    /// Seconds by which the run may last longer.
    pub(super) longer: u32,
}

/// A manifest that is changed, as a text in it and what stands there then.
struct Change {
    object: &'static str,
    from: &'static str,
    to: String,
}

impl SeedMoves {
    /// Draws the causes of a seed whose first `busy` seconds are busy; with `many_to_many` a command may launch several nodes.
    pub(super) fn draw(seed: u64, workloads: &[Workload], busy: u32, many_to_many: bool) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6d6f_7665_7321); // "moves!"
        let mut moves = Self::default();
        let one_in = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
        let (consolidates, drifts, repairs) = (one_in(&mut rng, 5), one_in(&mut rng, 6), one_in(&mut rng, 16));
        let mut gates = Vec::new();
        if consolidates {
            moves.consolidate(workloads, &mut rng);
            if rng.bool() {
                gates.push("SpotToSpotConsolidation: true");
            }
            if many_to_many {
                gates.push("ManyToManyConsolidation: true");
            }
        }
        if drifts {
            moves.drift(busy, &mut rng);
        }
        if repairs {
            moves.repair(workloads, busy, &mut rng);
            gates.push("NodeRepair: true");
        }
        if !gates.is_empty() {
            moves.gates = format!("featureGates: {{{}}}\n", gates.join(", "));
        }
        moves
    }

    /// Workloads shrink when their nodes are old enough; mostly something happens to the leader soon after.
    fn consolidate(&mut self, workloads: &[Workload], rng: &mut Rng) {
        let policy = ["WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "Balanced"][rng.usize(0..3)];
        let after = ["0s", "0s", "30s"][rng.usize(0..3)];
        self.policies.push(("consolidationPolicy: WhenEmpty,".to_owned(), format!("consolidationPolicy: {policy},")));
        for before in ["Never", "2m"] {
            self.policies.push((format!("consolidateAfter: {before}"), format!("consolidateAfter: {after}")));
        }
        // A step for something to shrink from, early enough.
        let at = OLD_ENOUGH + rng.u32(0..90_000);
        for workload in workloads {
            let Workload { kind, name, most, .. } = workload;
            self.steps.push((
                rng.u32(20_000..40_000),
                format!("scale: {{kind: {kind}, name: {name}, replicas: {}}}", most + rng.u32(0..=6)),
            ));
            let few = rng.u32(0..=most / 2);
            self.steps
                .push((at + rng.u32(0..20_000), format!("scale: {{kind: {kind}, name: {name}, replicas: {few}}}")));
        }
        // A command is carried out a quarter of a minute after it is found, and its replacement comes within a minute.
        let soon = at + rng.u32(16_000..100_000);
        let outage = match rng.u32(0..6) {
            0..=2 => format!("kill: {{replica: leader, for: {}s}}", rng.u32(1..=120)),
            3 => format!("pause: {{replica: leader, for: {}ms}}", rng.u32(1_000..=60_000)),
            4 => format!("interrupt: {{spot: {}%}}", [25, 100][rng.usize(0..2)]),
            _ => return,
        };
        self.steps.push((soon, outage));
        self.longer = at / 1000;
    }

    /// A pool or the class is changed, so that nodes drift.
    fn drift(&mut self, busy: u32, rng: &mut Rng) {
        let pool = |to: &str| Change {
            object: "kind: NodePool\nmetadata: {name: pool-0}",
            from: "  template:\n",
            to: to.to_owned(),
        };
        self.change = Some(match rng.u32(0..4) {
            0 | 1 => pool("  template:\n    metadata: {labels: {drawn: later}}\n"),
            2 => pool("  template:\n    metadata: {annotations: {drawn.example.com/by: seed}}\n"),
            _ => Change {
                object: "kind: EC2NodeClass",
                from: "  role: ",
                to: "  detailedMonitoring: true\n  role: ".to_owned(),
            },
        });
        self.steps.push((rng.u32(60_000..=busy * 1000), "apply: [changed.yaml]".to_owned()));
        self.longer = self.longer.max(busy);
    }

    /// A node is unwell, until after it should have been repaired; then the workloads are asked for something once more.
    fn repair(&mut self, workloads: &[Workload], busy: u32, rng: &mut Rng) {
        let at = rng.u32(60_000..120_000.max(busy * 1000));
        let (condition, time) = ("AcceleratedHardwareReady", rng.u32(8..=16));
        self.steps.push((at, format!("unwell: {{condition: {condition}, count: {}, for: {time}m}}", rng.u32(1..=2))));
        let Workload { kind, name, most, .. } = &workloads[rng.usize(0..workloads.len())];
        let step = format!("scale: {{kind: {kind}, name: {name}, replicas: {}}}", rng.u32(0..=*most));
        self.steps.push((at + REPAIRED + rng.u32(20_000..90_000), step));
        self.longer = self.longer.max((at + REPAIRED) / 1000);
    }

    /// The manifests as they are applied first.
    pub(super) fn first(&self, workload: String) -> String {
        self.policies.iter().fold(workload, |text, (from, to)| text.replace(from, to))
    }

    /// The manifest that is applied later, where there is one.
    pub(super) fn changed(&self, first: &str) -> Option<String> {
        let change = self.change.as_ref()?;
        let object = first.split("---\n").find(|object| object.contains(change.object))?;
        Some(object.replacen(change.from, &change.to, 1))
    }
}
