//! Parts of the pods that plans and looks ask for again and again. They are small where the cluster is at rest, and are kept with
//! each change of a pod: nothing goes through all pods for a few.

use std::sync::Arc;

use crate::cluster_state::{ClusterState, PodEntry, SharedMap, Snapshot};

/// Pods of which something is asked, by uid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodParts {
    /// Those without a node.
    unbound: SharedMap<Arc<PodEntry>>,
    /// Those of DaemonSets.
    daemons: SharedMap<Arc<PodEntry>>,
    /// Those with annotations about spot nodes.
    sharing: SharedMap<Arc<PodEntry>>,
}

impl PodParts {
    /// The parts, and the rule by which a pod belongs to each.
    fn with_rules(&mut self) -> [(&mut SharedMap<Arc<PodEntry>>, fn(&PodEntry) -> bool); 3] {
        [
            (&mut self.unbound, |entry| entry.node_name.is_empty()),
            (&mut self.daemons, |entry| entry.daemon),
            (&mut self.sharing, |entry| entry.spot_share.is_written()),
        ]
    }

    fn put(&mut self, entry: &Arc<PodEntry>) {
        for (part, belongs) in self.with_rules() {
            if belongs(entry) {
                part.insert(entry.pod.uid.clone(), entry.clone());
            } else {
                part.remove(&entry.pod.uid);
            }
        }
    }

    fn forget(&mut self, uid: &str) {
        self.with_rules().into_iter().for_each(|(part, _)| drop(part.remove(uid)));
    }
}

impl ClusterState {
    /// Keeps a pod under its uid.
    pub(in crate::cluster_state) fn keep_pod(&mut self, entry: &Arc<PodEntry>) {
        self.now.parts.put(entry);
        self.now.pods.insert(entry.pod.uid.clone(), entry.clone());
    }

    /// Drops a pod. Answers its entry.
    pub(in crate::cluster_state) fn drop_pod(&mut self, uid: &str) -> Option<Arc<PodEntry>> {
        self.now.parts.forget(uid);
        self.now.pods.remove(uid)
    }

    /// True if the parts are what a look at all pods would find.
    #[cfg(test)]
    pub(in crate::cluster_state) fn holds_parts(&self) -> bool {
        let mut all = PodParts::default();
        self.now.pods.values().for_each(|entry| all.put(entry));
        self.now.parts == all
    }
}

impl Snapshot {
    /// Pods without a node, in the order of their uids.
    pub fn unbound(&self) -> impl Iterator<Item = &Arc<PodEntry>> {
        self.parts.unbound.values()
    }

    /// Pods of DaemonSets, in the order of their uids.
    pub(in crate::cluster_state) fn pods_of_daemons(&self) -> impl Iterator<Item = &Arc<PodEntry>> {
        self.parts.daemons.values()
    }

    /// Pods with annotations about spot nodes, in the order of their uids.
    pub(in crate::cluster_state) fn sharing_pods(&self) -> impl Iterator<Item = &Arc<PodEntry>> {
        self.parts.sharing.values()
    }
}
