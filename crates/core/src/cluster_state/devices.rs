//! Devices in the known state, and the question of which pods get which.

use jiff::Timestamp;

use super::{ClusterState, Planning, Snapshot};
use crate::dra::{DeviceBook, DeviceGates, DeviceNode, DeviceQuestion, Misfits, lacking_devices};
use crate::pod::Pod;

impl ClusterState {
    /// Claims for devices, and the devices.
    pub fn devices_mut(&mut self) -> &mut DeviceBook {
        &mut self.now.devices
    }
}

impl Snapshot {
    /// The question of where pods with claims for devices go; `None` if no pod of the problem has any. Claims of pods that have to
    /// leave their node are as good as free.
    #[must_use]
    pub fn device_question(&self, planning: &Planning, gates: DeviceGates, now: Timestamp) -> Option<DeviceQuestion> {
        if !planning.problem.pods.iter().any(Pod::has_claims) {
            return None;
        }
        let goes = self.pods.values().filter(|entry| {
            !entry.pod.devices.is_empty()
                && !entry.node_name.is_empty()
                && (entry.deleting || self.must_move(entry, now))
        });
        let bound = planning.problem.pods.iter().filter(|pod| !pod.devices.is_empty() && self.is_bound(&pod.uid));
        let nodes = planning
            .existing
            .iter()
            .map(|node| DeviceNode { name: node.node_name().map(str::to_owned), initialized: node.initialized });
        Some(DeviceQuestion {
            problem: planning.problem.clone(),
            book: self.devices.clone(),
            nodes: nodes.collect(),
            leaving: goes.map(|entry| entry.pod.uid.clone()).chain(bound.map(|pod| pod.uid.clone())).collect(),
            gates,
            misfits: Misfits::default(),
        })
    }

    /// The reason that a node's devices are not enough for a pod's claims, as far as its drivers have published them.
    pub(super) fn lacks(&self, node: &super::NodeEntry, pod: &Pod) -> Option<String> {
        if self.devices.is_empty() || pod.devices.is_empty() {
            return None;
        }
        lacking_devices(&self.devices, (&node.name, &node.labels), pod)
    }
}
