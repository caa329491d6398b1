//! Places that the pods of a node under repair are kept off: unwell nodes, and zones where most nodes are unwell, so that the
//! next one would be too.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::labels;

use super::kept_off::keep_off;
use crate::cluster_state::{JoinedNode, Snapshot};
use crate::pod::Pod;

/// Number of unwell nodes that a zone has at least before it is out: one says nothing about a zone.
const LEAST_UNWELL: usize = 2;

impl Snapshot {
    /// Keeps pods that leave their node for its repair off unwell nodes and, unless `into_zones`, off unwell zones.
    pub(in crate::cluster_state) fn keep_off_sick_places(
        &self,
        pods: &mut [Pod],
        existing: &[JoinedNode],
        into_zones: bool,
    ) {
        let repaired = self.claims.values().filter(|entry| entry.facts.repaired && !entry.facts.node.is_empty());
        let nodes: BTreeSet<&str> = repaired.map(|entry| entry.facts.node.as_str()).collect();
        if nodes.is_empty() {
            return;
        }
        let is_unwell = |node: &&JoinedNode| {
            let node = node.node_name().and_then(|name| self.nodes.get(name));
            node.is_some_and(|node| !node.unwell.is_empty())
        };
        let unwell: Vec<&String> = existing.iter().filter(is_unwell).map(|node| &node.name).collect();
        let zones = if into_zones { Vec::new() } else { self.sick_zones() };
        let node = |pod: &Pod| self.pods.get(pod.base_uid()).map_or("", |entry| entry.node_name.as_str());
        for pod in pods.iter_mut().filter(|pod| nodes.contains(node(pod))) {
            pod.refused_nodes.extend(unwell.iter().map(|name| (*name).clone()));
            if !zones.is_empty() {
                keep_off(pod, labels::ZONE, zones.clone());
            }
        }
    }

    /// Zones where most initialized nodes are unwell, if there is a zone where most are not: else no zone is at fault.
    pub(crate) fn sick_zones(&self) -> Vec<String> {
        let mut zones: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.managed() && node.is_labelled(labels::INITIALIZED)) {
            let Some(zone) = node.labels.get(labels::ZONE) else { continue };
            let (unwell, all) = zones.entry(zone).or_default();
            *unwell += usize::from(!node.unwell.is_empty());
            *all += 1;
        }
        let mostly_sick = |(unwell, all): &(usize, usize)| 2 * unwell > *all;
        if zones.values().all(mostly_sick) {
            return Vec::new();
        }
        let out = zones.iter().filter(|(_, counts)| counts.0 >= LEAST_UNWELL && mostly_sick(counts));
        out.map(|(zone, _)| (*zone).to_owned()).collect()
    }
}
