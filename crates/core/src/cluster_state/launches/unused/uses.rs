//! The pods that were expected on each claim, and the workloads that have come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Open;
use crate::cluster_state::{ClaimEntry, PodEntry};

/// The use that nodes are put to, as far as it is known.
#[derive(Debug, Default)]
pub(in crate::cluster_state) struct Uses {
    /// Claims that name the workloads they were launched for, by name.
    pub(super) open: BTreeMap<String, Open>,
    /// The workloads that have started a pod on a node, by the node's name.
    pub(super) started: BTreeMap<String, BTreeSet<String>>,
    /// Kubelet's messages about pods that it did not let run, by node and workload.
    pub(super) refused: BTreeMap<String, BTreeMap<String, String>>,
    /// Workloads that a claim's node has been credited with serving, by claim: each is credited once, however often the claim
    /// is written.
    credited: BTreeMap<String, BTreeSet<String>>,
}

impl Uses {
    pub fn note_claim(&mut self, entry: &ClaimEntry) {
        if !entry.facts.launched_for.is_empty() && !self.open.contains_key(&entry.facts.name) {
            self.open.insert(entry.facts.name.clone(), Open::default());
        }
    }

    pub fn note_planned(&mut self, claim: &str) {
        self.open.entry(claim.to_owned()).or_default().pods.get_or_insert_default();
    }

    pub fn note_expected(&mut self, claim: &str, pod: &str) {
        if let Some(Open { pods: Some(pods), judged: false, .. }) = self.open.get_mut(claim) {
            pods.insert(pod.to_owned());
        }
    }

    pub fn note_pod(&mut self, entry: &PodEntry) {
        if entry.node_name.is_empty() || entry.belongs_to_node() {
            return;
        }
        let workload = || entry.workload.clone();
        if let Some(words) = &entry.refused {
            self.refused.entry(entry.node_name.clone()).or_default().entry(workload()).or_insert_with(|| words.clone());
        } else if entry.started && !self.started.get(&entry.node_name).is_some_and(|all| all.contains(&entry.workload))
        {
            self.started.entry(entry.node_name.clone()).or_default().insert(workload());
        }
    }

    /// Claims whose nodes have been seen to wait for a taint for `patience` and that have not been reported.
    pub fn tainted(&self, patience: Duration, now: Duration) -> Vec<String> {
        let waits = |open: &Open| !open.taint_reported && open.tainted.is_some_and(|since| now >= since + patience);
        self.open.iter().filter(|(_, open)| waits(open)).map(|(name, _)| name.clone()).collect()
    }

    pub fn note_taint_reported(&mut self, claim: &str) {
        self.open.get_mut(claim).into_iter().for_each(|open| open.taint_reported = true);
    }

    /// Credits a claim's node with a pod of a workload; true if that is news.
    pub(super) fn credit(&mut self, claim: &str, workload: &str) -> bool {
        self.credited.entry(claim.to_owned()).or_default().insert(workload.to_owned())
    }

    pub fn forget_claim(&mut self, name: &str) {
        self.open.remove(name);
        self.credited.remove(name);
    }

    pub fn forget_node(&mut self, name: &str) {
        self.started.remove(name);
        self.refused.remove(name);
    }

    /// Plans are void: the pods that a claim was planned for are no longer known.
    pub fn forget_plans(&mut self) {
        self.open.values_mut().for_each(|open| (open.pods, open.ready, open.tainted) = (None, None, None));
    }
}
