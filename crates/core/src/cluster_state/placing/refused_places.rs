//! Nodes that kube-scheduler refuses for pods that we believe fit there: after the second refusal such pods are planned elsewhere
//! for ten minutes, and for twice as long each time (docs/decisions/038). `verdicts` has its refusals of all nodes.
//!
//! kube-scheduler does not say which node it refused. A place is refused when its time is over (decision 022), the node is
//! ready, and the pod is still marked Unschedulable. Where nothing was heard of kube-scheduler meanwhile, it may only not
//! have looked: that counts for less.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHasher;
use serde::Serialize;

use super::refusals::Refusals;
use super::verdicts::Verdicts;
use crate::cluster_state::{ClusterState, JoinedNode, Moment, NodeEntry, NominationTarget, PodEntry, Snapshot};
use crate::lifecycle::ClaimStage;
use crate::pack::OWN_LABELS;
use crate::pod::Pod;

/// Most places remembered.
const MOST: usize = 1000;

/// A node, and pods that are alike.
type Place = (String, u64);

/// The refusals of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    refusals: Refusals,
    /// Fingerprint of the node's fields that decide which pods may be there.
    node: u64,
}

/// Places that kube-scheduler refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedPlaces {
    places: BTreeMap<Place, Refused>,
    pub(super) verdicts: Verdicts,
}

/// A place that is out for a pod that is packed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RefusedPlace {
    /// The pod's uid.
    pub pod: String,
    /// The node's name; empty where it is every node that is there.
    pub node: String,
    /// The reason, with kube-scheduler's words.
    pub why: String,
}

impl RefusedPlaces {
    /// Number of places remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if no place or verdict is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.verdicts.is_empty()
    }
}

impl ClusterState {
    /// Takes note of nominations to ready nodes whose time is over while their pods are unschedulable still.
    pub fn look_at_refused_places(&mut self, now: Moment) {
        self.forget_refused_places(now);
        let over = self.now.nominations.iter().filter(|(_, one)| one.until <= now.monotonic);
        let over = over.filter_map(|(uid, one)| {
            let entry = self.now.pods.get(uid).filter(|entry| entry.provisionable)?;
            if self.now.expected_on(uid, now).is_some() {
                return None;
            }
            let node = self.now.node_at(&one.target)?;
            let usable = node.ready && !node.deleting && !self.now.deleting.nodes.contains(&node.name);
            usable.then(|| (uid.clone(), entry.clone(), node.clone(), one.heard != self.heard))
        });
        let over: Vec<_> = over.collect();
        let mut counted = BTreeSet::new();
        for (uid, entry, node, heard) in over {
            self.expect_no_more(&uid);
            let place = (node.name.clone(), class_of(&entry.pod));
            let places = Arc::make_mut(&mut self.now.refused_places);
            let words = entry.words.clone().unwrap_or_default();
            places.verdicts.refused(place.1, &entry.pod, &node.name, &words, heard, now.monotonic);
            let known = places.places.entry(place.clone()).or_insert_with(|| Refused::new(&node, &entry.pod));
            known.refusals.note(&uid, &words, now.monotonic);
            if counted.insert(place) {
                known.count(heard, now.monotonic);
            }
        }
        self.bound_refused_places();
    }

    fn forget_refused_places(&mut self, now: Moment) {
        let places = &self.now.refused_places.places;
        let mut prints: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for (node, _) in places.keys() {
            let entry = self.now.nodes.get(node);
            prints.entry(node).or_insert_with(|| entry.map(|entry| print_of(entry)));
        }
        let over = |(node, _): &Place, one: &Refused| {
            let same = prints.get(node.as_str()).is_some_and(|print| *print == Some(one.node));
            !same || one.refusals.are_over(now.monotonic)
        };
        let over: Vec<Place> =
            places.iter().filter(|(place, one)| over(place, one)).map(|(place, _)| place.clone()).collect();
        if !over.is_empty() {
            let places = Arc::make_mut(&mut self.now.refused_places);
            over.iter().for_each(|place| drop(places.places.remove(place)));
        }
        if self.now.refused_places.verdicts.has_old(now.monotonic) {
            Arc::make_mut(&mut self.now.refused_places).verdicts.forget_old(now.monotonic);
        }
    }

    fn bound_refused_places(&mut self) {
        while self.now.refused_places.places.len() > MOST {
            let places = self.now.refused_places.places.iter();
            let oldest = places.min_by_key(|(_, one)| one.refusals.last()).map(|(place, _)| place.clone());
            let Some(oldest) = oldest else { return };
            Arc::make_mut(&mut self.now.refused_places).places.remove(&oldest);
        }
    }

    /// A pod is bound: kube-scheduler has nothing against that node for pods like it.
    pub(in crate::cluster_state) fn takes_place(&mut self, pod: &Pod, node: &str) {
        if self.now.refused_places.verdicts.may_concern(pod) {
            Arc::make_mut(&mut self.now.refused_places).verdicts.bound(pod, node);
        }
        let mut places = self.now.refused_places.places.range((node.to_owned(), 0)..=(node.to_owned(), u64::MAX));
        if places.any(|(_, one)| one.refusals.may_concern(pod)) {
            Arc::make_mut(&mut self.now.refused_places).places.remove(&(node.to_owned(), class_of(pod)));
        }
    }

    /// A pod is gone: places that were refused for it alone are forgotten.
    pub(in crate::cluster_state) fn forget_refused_pod(&mut self, uid: &str) {
        let known = &self.now.refused_places;
        if known.verdicts.knows_pod(uid) || known.places.values().any(|one| one.refusals.has_pod(uid)) {
            let known = Arc::make_mut(&mut self.now.refused_places);
            known.verdicts.forget_pod(uid);
            known.places.retain(|_, one| !one.refusals.forget_pod(uid));
        }
    }

    /// kube-scheduler has said something: it is at work.
    pub(in crate::cluster_state) fn hear_scheduler(&mut self, known: Option<&PodEntry>, entry: &PodEntry) {
        let bound = !entry.node_name.is_empty() && known.is_some_and(|known| known.node_name.is_empty());
        let marked = entry.words.is_some() && known.is_none_or(|known| known.words != entry.words);
        self.heard += u64::from((bound && !entry.daemon) || marked);
    }
}

impl Refused {
    fn new(node: &NodeEntry, pod: &Pod) -> Self {
        Self { refusals: Refusals::of_pods_like(pod), node: print_of(node) }
    }

    /// Counts one more refusal.
    fn count(&mut self, heard: bool, now: Duration) {
        if self.refusals.add(heard) && !self.refusals.hold(now) {
            self.refusals.begin(now);
        }
    }

    fn why(&self, node: &str) -> String {
        let (said, minutes) = (self.refusals.quoted(), self.refusals.minutes());
        format!(
            "kube-scheduler has refused node {node} for it although it should fit{said}; other nodes are planned for {minutes}m"
        )
    }
}

impl Snapshot {
    /// The Node at which a target's pods are expected, if it is there and ready for pods.
    fn node_at(&self, target: &NominationTarget) -> Option<&Arc<NodeEntry>> {
        match target {
            NominationTarget::Node(name) => self.nodes.get(name),
            NominationTarget::Claim(name) => {
                let facts = &self.claims.get(name)?.facts;
                self.nodes.get(&facts.node).filter(|_| facts.stage == Some(ClaimStage::Initialized))
            }
        }
    }

    /// Writes on each pod the nodes that are out for it. Answers the places that were written.
    pub(in crate::cluster_state) fn refuse_places(
        &self,
        pods: &mut [Pod],
        existing: &[JoinedNode],
        now: Moment,
    ) -> Vec<RefusedPlace> {
        let out = |one: &Refused| one.refusals.hold(now.monotonic);
        let mut refused = Vec::new();
        if !self.refused_places.places.values().any(out) {
            return refused;
        }
        let names: BTreeMap<&str, &str> =
            existing.iter().filter_map(|node| Some((node.node_name()?, node.name.as_str()))).collect();
        let places = self.refused_places.places.iter().filter(|(_, one)| out(one));
        let places: Vec<_> =
            places.filter_map(|((node, class), one)| Some((*class, *names.get(node.as_str())?, one))).collect();
        for pod in pods {
            let Some(entry) = self.pods.get(pod.base_uid()) else { continue };
            if !places.iter().any(|(_, _, one)| one.refusals.may_concern(&entry.pod)) {
                continue;
            }
            let class = class_of(&entry.pod);
            for (_, node, one) in places.iter().filter(|(of, _, _)| *of == class) {
                pod.refused_nodes.insert((*node).to_owned());
                let (node, why) = ((*node).to_owned(), one.why(node));
                refused.push(RefusedPlace { pod: pod.uid.clone(), node, why });
            }
        }
        refused
    }
}

/// Hash of the properties of a pod by which kube-scheduler treats pods alike.
pub(super) fn class_of(pod: &Pod) -> u64 {
    let (name, uid) = (String::new(), String::new());
    let shared = crate::cluster_state::placing::nominations::own_labels(pod)
        .filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    let labels = shared.map(|(key, value)| (key.clone(), value.clone())).collect();
    let like = Pod { name, uid, labels, created: None, relaxed: false, to_come: false, ..pod.clone() };
    print(&like)
}

/// Fingerprint of a node's fields that decide which pods may be there: it is tried again when that has changed.
fn print_of(node: &NodeEntry) -> u64 {
    print(&(&node.uid, &node.labels, &node.taints, &node.allocatable))
}

/// Hash of a value's JSON; it depends on nothing else, as the hasher has no seed.
fn print(what: &impl Serialize) -> u64 {
    let mut hasher = FxHasher::default();
    serde_json::to_string(what).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
