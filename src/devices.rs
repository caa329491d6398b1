//! Devices that pods claim, in the answers of commands: packing goes by the places that the stage before it decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::dra::{DeviceBook, DeviceGates, DeviceNode, DeviceQuestion, Misfits};
use dovetail_core::pack::Packing;

/// Devices where they count: all that is known of them, and the kinds that nodes are launched for.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    pub book: DeviceBook,
    pub gates: DeviceGates,
}

impl Devices {
    /// Packs a problem with the places of pods that claim devices, and answers it as it was packed. `leaves` says of a pod, by uid,
    /// that its claims are as good as free.
    pub fn pack(
        &self,
        problem: &Arc<Problem>,
        leaves: impl Fn(&str) -> bool,
        pack: impl Fn(&Arc<Problem>) -> Packing,
    ) -> (Arc<Problem>, Packing) {
        let nodes = problem.existing_nodes.iter();
        let leaving = problem.pods.iter().map(|pod| &pod.uid).filter(|uid| leaves(uid));
        let question = DeviceQuestion {
            problem: problem.clone(),
            book: self.book.clone(),
            nodes: nodes
                .map(|node| DeviceNode { name: Some(node.name.clone()), initialized: node.initialized })
                .collect(),
            models: Vec::new(),
            leaving: leaving.cloned().collect::<BTreeSet<String>>(),
            gates: self.gates,
            misfits: Misfits::default(),
        };
        question.pack(pack)
    }
}
