//! Room that capacity buffers hold (docs/decisions/072). It is computed after the places of real pods, which do not see it;
//! disruption sees it, and that of bookings, as pods: a node with room is not empty, and the room moves with the node's pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::{ClusterState, NominationTarget, PodEntry, Snapshot};
use crate::pod::Pod;
use crate::problem::ExistingNode;

/// The room of single pods, by the node or claim that has it.
pub type HeldRoom = BTreeMap<NominationTarget, Vec<Arc<Pod>>>;

/// Puts room that is held on a node of a problem, where it fits.
pub(crate) fn take_in(node: &mut ExistingNode, chunk: &Pod) -> bool {
    let mut used = node.used.clone();
    used.add(&with_itself(&chunk.requests));
    let mut all = used.clone();
    all.add(&node.daemon_requests);
    let fits = all.fits_in(&node.allocatable);
    if fits {
        node.used = used;
        node.pods.push(Arc::new(chunk.clone()));
    }
    fits
}

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
        self.room.iter().chain(&self.booked).any(|room| room.contains_key(at))
    }

    /// The cluster with room that is held as pods on their nodes, as far as real pods have left it. Nodes that leave have none:
    /// their room is found elsewhere. Bookings whose node is not there yet stay bookings.
    #[must_use]
    pub fn with_room(self) -> Self {
        let is_empty = |room: &Option<Arc<HeldRoom>>| room.as_ref().is_none_or(|room| room.is_empty());
        if is_empty(&self.room) && is_empty(&self.booked) {
            return self;
        }
        let mut then = self;
        if let Some(booked) = then.booked.take() {
            then.booked = Some(Arc::new(then.place_room(&booked)));
        }
        if let Some(room) = then.room.clone() {
            then.place_room(&room);
        }
        then
    }

    /// Places room as pods. Returns the part whose claims have no Node yet.
    fn place_room(&mut self, room: &HeldRoom) -> HeldRoom {
        let (pods, loads) = (&mut self.pods, Arc::make_mut(&mut self.loads));
        let mut coming = HeldRoom::new();
        for (target, chunks) in room {
            let name = match target {
                NominationTarget::Node(name) => name,
                NominationTarget::Claim(claim) => match self.claims.get(claim) {
                    Some(entry) => &entry.facts.node,
                    None => continue,
                },
            };
            let Some(node) = self.nodes.get(name).filter(|_| !self.deleting.nodes.contains(name)) else {
                if name.is_empty() {
                    coming.insert(target.clone(), chunks.clone());
                }
                continue;
            };
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
        coming
    }
}
