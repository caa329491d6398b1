//! Deployments whose pods are moved by a restart (`dovetail.dev/move: rollout`), and commands that launch several nodes. Drawn
//! from a generator of its own, so that what else a seed draws stays what it is.

use fastrand::Rng;

use super::workload::Workload;

/// Restarts and the gate of a seed.
#[derive(Default)]
pub(super) struct Rollouts {
    /// Names of Deployments whose pods ask to be moved by a restart.
    named: Vec<String>,
    /// True if the gate `ManyToManyConsolidation` is on, as far as nodes are consolidated.
    pub(super) many_to_many: bool,
}

impl Rollouts {
    /// One seed in six has some; one in four the gate.
    pub(super) fn draw(seed: u64, workloads: &[Workload]) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x726f_6c6c_6f75_7473); // "rollouts"
        let many_to_many = rng.u32(0..4) == 0;
        let mut named = Vec::new();
        if rng.u32(0..6) == 0 {
            for workload in workloads.iter().filter(|workload| workload.kind == "Deployment") {
                if rng.u32(0..3) > 0 {
                    named.push(workload.name.clone());
                }
            }
        }
        Self { named, many_to_many }
    }

    /// More settings, each after a comma.
    pub(super) fn settings(&self) -> &'static str {
        if self.named.is_empty() { "" } else { ", MOVES_ROLLOUT: 'true'" }
    }

    /// The manifests with the annotation on the pods of those Deployments.
    pub(super) fn manifests(&self, workload: String) -> String {
        self.named.iter().fold(workload, |text, name| {
            let plain = format!("    metadata: {{labels: {{app: {name}}}}}\n");
            let asking =
                format!("    metadata: {{labels: {{app: {name}}}, annotations: {{dovetail.dev/move: rollout}}}}\n");
            text.replace(&plain, &asking)
        })
    }
}
