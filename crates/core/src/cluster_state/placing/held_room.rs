//! Room that capacity buffers hold (docs/decisions/072). It is computed after the places of real pods, which do not see it;
//! disruption sees it as pods, so that a node with room is not empty and the room moves with the node's pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::{ClusterState, NominationTarget, PodEntry, Snapshot};
use crate::pod::Pod;

/// The room of single pods, by the node or claim that has it.
pub type HeldRoom = BTreeMap<NominationTarget, Vec<Arc<Pod>>>;

impl ClusterState {
    /// Takes in where room is held.
    pub fn hold_room(&mut self, room: HeldRoom) {
        if self.now.room.as_deref() != Some(&room) {
            self.now.room = Some(Arc::new(room));
        }
    }
}

impl Snapshot {
    /// True if room is held at a place.
    #[must_use]
    pub fn holds_room(&self, at: &NominationTarget) -> bool {
        self.room.as_ref().is_some_and(|room| room.contains_key(at))
    }

    /// The cluster with the room of capacity buffers as pods on their nodes, as far as real pods have left it. Nodes that leave
    /// have none: their room is found elsewhere.
    #[must_use]
    pub fn with_room(self) -> Self {
        let Some(room) = self.room.clone().filter(|room| !room.is_empty()) else { return self };
        let mut then = self;
        let (pods, loads) = (Arc::make_mut(&mut then.pods), Arc::make_mut(&mut then.loads));
        for (target, chunks) in room.iter() {
            let name = match target {
                NominationTarget::Node(name) => name,
                NominationTarget::Claim(claim) => match then.claims.get(claim) {
                    Some(entry) => &entry.facts.node,
                    None => continue,
                },
            };
            let Some(node) = then.nodes.get(name).filter(|_| !then.deleting.nodes.contains(name)) else { continue };
            let load = Arc::make_mut(loads.entry(name.clone()).or_default());
            for chunk in chunks {
                let mut used = load.requests.clone();
                used.add(&with_itself(&chunk.requests));
                if used.fits_in(&node.allocatable) {
                    let entry = Arc::new(PodEntry::of_room(chunk, name));
                    load.put(&entry);
                    pods.insert(chunk.uid.clone(), entry);
                }
            }
        }
        then
    }
}
