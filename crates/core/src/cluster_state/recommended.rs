//! Pods as they will be when they have been created anew, by what is recommended for their workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::load::with_itself;
use super::objects::workload::ReplicaOwner;
use super::{ClusterState, NominationTarget, PodEntry, Snapshot};
use crate::pod::Pod;
use crate::recommendations::Recommendations;
use crate::resources::Resources;

impl ClusterState {
    /// Pods that come to be known from now on keep what recommendations need.
    pub fn follow_recommendations(&mut self, followed: bool) {
        self.follows_recommendations = followed;
    }

    /// Requests that pods get when they are created.
    pub fn recommendations_mut(&mut self) -> &mut Recommendations {
        &mut self.now.recommendations
    }
}

impl Snapshot {
    /// The pod as it is, or, if it has a node, as it will be on another one.
    #[must_use]
    pub fn recreated(&self, entry: &PodEntry) -> Arc<Pod> {
        match self.recommended(entry) {
            Some(requests) => Arc::new(Pod { requests, ..Pod::clone(&entry.pod) }),
            None => entry.pod.clone(),
        }
    }

    /// Requests that a pod on a node will have when it is created anew, if a recommendation says so.
    #[must_use]
    pub fn recommended(&self, entry: &PodEntry) -> Option<Resources> {
        if self.recommendations.is_empty() || entry.node_name.is_empty() {
            return None;
        }
        let sizes = entry.sizes.as_ref()?;
        let (namespace, kind, name) = match ReplicaOwner::of_pod(entry) {
            ReplicaOwner::Deployment(namespace, name) => (namespace, "Deployment", name),
            ReplicaOwner::Controller(key) => {
                let (kind, rest) = key.split_once('/')?;
                let (namespace, name) = rest.split_once('/')?;
                (namespace, kind, name)
            }
            ReplicaOwner::Workload(..) => return None,
        };
        let found = self.recommendations.for_workload(namespace, kind, name)?;
        Some(sizes.requests_with(|container| found.of_container(container))).filter(|all| *all != entry.pod.requests)
    }

    /// A pod on one of these nodes that will ask for more than is left at its place: what is recommended has grown since the place
    /// was found. By `namespace/name`.
    #[must_use]
    pub fn outgrown(&self, nodes: &BTreeSet<&str>) -> Option<String> {
        if self.recommendations.is_empty() {
            return None;
        }
        let is_going = |entry: &PodEntry| nodes.contains(entry.node_name.as_str());
        let mut expected: BTreeMap<&NominationTarget, Vec<&Arc<PodEntry>>> = BTreeMap::new();
        for (uid, nomination) in self.nominations.iter() {
            let entry = self.pods.get(uid).filter(|entry| entry.node_name.is_empty() || is_going(entry));
            expected.entry(&nomination.target).or_default().extend(entry);
        }
        for place in self.joined() {
            let load = place.node_name().and_then(|name| self.loads.get(name));
            let comes: Vec<_> =
                place.targets().iter().flatten().filter_map(|target| expected.get(target)).flatten().copied().collect();
            let grows = comes.iter().find(|entry| is_going(entry) && self.recommended(entry).is_some());
            let Some(grows) = grows else { continue };
            let mut used = load.map(|load| load.requests.clone()).unwrap_or_default();
            comes.iter().for_each(|entry| used.add(&with_itself(&self.recreated(entry).requests)));
            if !used.fits_in(&place.allocatable) {
                return Some(format!("{}/{}", grows.pod.namespace, grows.pod.name));
            }
        }
        None
    }
}
