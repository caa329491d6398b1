//! Room that ProvisioningRequests have booked (docs/decisions/093): plans for other pods count it as taken, and pods that consume a
//! request wait for its room.

use std::sync::Arc;

use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::{ClusterState, HeldRoom, JoinedNode, PodEntry, Snapshot};
use crate::pod::Pod;
use crate::resources::Resources;

impl ClusterState {
    /// Requests are followed: nothing is launched for pods that consume one.
    pub fn follow_bookings(&mut self, follows: bool) {
        self.now.bookings = follows;
    }

    /// Takes in where room is booked.
    pub fn book_room(&mut self, room: HeldRoom) {
        if self.now.booked.as_deref() != Some(&room) {
            self.now.booked = Some(Arc::new(room));
        }
    }
}

impl Snapshot {
    /// The cluster without bookings, for whoever places them.
    #[must_use]
    pub fn without_bookings(&self) -> Self {
        Self { booked: None, ..self.clone() }
    }

    /// Name of the request, of the pod's namespace, whose room a pod takes, where requests are followed.
    #[must_use]
    pub fn consumed_by<'e>(&self, entry: &'e PodEntry) -> Option<&'e str> {
        entry.consumes.as_deref().filter(|_| self.bookings)
    }

    /// Leaves pods that have no node and consume a request to the room of that. A pod that has to leave its node gets a place.
    pub(in crate::cluster_state) fn mark_consumers(&self, pods: &mut [Pod]) {
        if !self.bookings {
            return;
        }
        for pod in pods {
            let entry = self.pods.get(pod.base_uid()).filter(|entry| entry.node_name.is_empty());
            if let Some(request) = entry.and_then(|entry| self.consumed_by(entry)) {
                let why = format!(
                    "it consumes ProvisioningRequest {}/{request}: no node is launched for it beside that",
                    pod.namespace
                );
                pod.blocked.get_or_insert(why);
            }
        }
    }

    /// Adds the room that is booked on a node to what its pods use, as far as they have left it.
    pub(in crate::cluster_state) fn take_booked(
        &self,
        node: &JoinedNode,
        used: &mut Resources,
        pods: &mut Vec<Arc<Pod>>,
    ) {
        let Some(booked) = &self.booked else { return };
        let here = node.targets().into_iter().flatten().filter_map(|target| booked.get(&target));
        for chunk in here.flatten() {
            let mut with_chunk = used.clone();
            with_chunk.add(&with_itself(&chunk.requests));
            if with_chunk.fits_in(&node.allocatable) {
                *used = with_chunk;
                pods.push(chunk.clone());
            }
        }
    }
}
