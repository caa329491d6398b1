//! The load of a node: the pods bound to it and their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster_state::PodEntry;
use crate::resources::{PODS, Resources};

/// The pods on one node, their requests together, and counts of those that matter for its removal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// The pods, by uid.
    pub pods: BTreeMap<String, Arc<PodEntry>>,
    /// Their requests, `pods` included.
    pub requests: Resources,
    /// Number of pods that are neither a DaemonSet's nor the kubelet's own nor expendable, ending ones included.
    pub visitors: usize,
    /// Number of pods that would need a place elsewhere and are worth something (core spec 5.4).
    pub costly: usize,
}

impl Load {
    /// Adds a pod that is bound.
    pub(in crate::cluster_state) fn put(&mut self, entry: &Arc<PodEntry>) {
        self.requests.add(&with_itself(&entry.pod.requests));
        self.visitors += usize::from(!entry.keeps_no_node());
        self.costly += usize::from(is_costly(entry));
        self.pods.insert(entry.pod.uid.clone(), entry.clone());
    }

    /// Removes a pod that is no longer bound.
    pub(in crate::cluster_state) fn remove(&mut self, uid: &str) {
        if let Some(entry) = self.pods.remove(uid) {
            if self.requests.iter().any(|(_, amount)| amount == i64::MAX) {
                // The sum is saturated at `i64::MAX`: subtracting from it would give a wrong sum.
                self.requests = Resources::new();
                self.pods.values().for_each(|other| self.requests.add(&with_itself(&other.pod.requests)));
            } else {
                self.requests.sub(&with_itself(&entry.pod.requests));
            }
            self.visitors -= usize::from(!entry.keeps_no_node());
            self.costly -= usize::from(is_costly(&entry));
        }
    }
}

fn is_costly(entry: &PodEntry) -> bool {
    entry.reschedulable() && entry.eviction_cost > 0.0
}

/// A pod's requests, with `pods: 1` for the pod itself.
pub(crate) fn with_itself(requests: &Resources) -> Resources {
    let mut all = requests.clone();
    all.set(PODS, all.get(PODS).max(1));
    all
}
