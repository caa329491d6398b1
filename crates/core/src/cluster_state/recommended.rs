//! Pods as they will be when they have been created anew, by what is recommended for their workloads.

use std::borrow::Cow;
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
        let workload = match ReplicaOwner::of_pod(entry) {
            ReplicaOwner::Deployment(namespace, name) => Cow::Owned(format!("Deployment/{namespace}/{name}")),
            ReplicaOwner::Controller(key) => Cow::Borrowed(key),
            ReplicaOwner::Workload(..) => return None,
        };
        let found = self.recommendations.for_workload(&workload)?;
        Some(sizes.requests_with(|container| found.of_container(container))).filter(|all| *all != entry.pod.requests)
    }

    /// A pod on one of these nodes that will ask for more than is left at its place: what is recommended has grown since the place
    /// was found. By `namespace/name`.
    #[must_use]
    pub fn outgrown(&self, nodes: &BTreeSet<&str>) -> Option<String> {
        if self.recommendations.is_empty() {
            return None;
        }
        let going = nodes.iter().filter_map(|node| self.loads.get(*node)).flat_map(|load| load.pods.values());
        let resized = going.filter(|entry| self.recommended(entry).is_some());
        let places: BTreeMap<&NominationTarget, &Arc<PodEntry>> =
            resized.filter_map(|entry| Some((&self.nominations.get(&entry.pod.uid)?.target, entry))).collect();
        if places.is_empty() {
            return None;
        }
        self.joined().iter().find_map(|place| {
            let targets = place.targets();
            let grows = targets.iter().flatten().find_map(|target| places.get(target))?;
            let load = place.node_name().and_then(|name| self.loads.get(name));
            let mut used = load.map(|load| load.requests.clone()).unwrap_or_default();
            let comes = targets.iter().flatten().flat_map(|target| self.nominations.pods_at(target));
            let comes = comes.filter_map(|uid| self.pods.get(uid));
            // Pods that are there already are in the load.
            for entry in comes.filter(|entry| Some(entry.node_name.as_str()) != place.node_name()) {
                used.add(&with_itself(&self.recreated(entry).requests));
            }
            (!used.fits_in(&place.allocatable)).then(|| format!("{}/{}", grows.pod.namespace, grows.pod.name))
        })
    }
}
