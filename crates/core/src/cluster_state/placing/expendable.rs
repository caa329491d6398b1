//! Marks of pods that are worth no node (docs/decisions/078), for packing.

use crate::cluster_state::Snapshot;
use crate::pod::Pod;

impl Snapshot {
    /// Marks the pods that are worth no node: packing leaves them out with that reason.
    pub(in crate::cluster_state) fn mark_expendable(&self, pods: &mut [Pod]) {
        if self.expendable.is_unset() {
            return;
        }
        for pod in pods {
            if self.pods.get(pod.base_uid()).is_some_and(|entry| entry.expendable) {
                pod.expendable_below = self.expendable;
            }
        }
    }
}
