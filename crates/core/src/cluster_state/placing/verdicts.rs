//! kube-scheduler's verdict on pods that are alike: none of the nodes that are there will do. It tries all nodes for a pod, so two
//! places that it refuses one after the other say as much of every node as of the two (docs/decisions/058).
//!
//! ```text
//! a place is refused ── another, or again ──► no node that is there is planned for such pods; one of them tries a new one
//!    ▲                                           ├── bound on a new node ───► the others may have new nodes too
//!    └── bound on a node that was there ─────────┤
//!                                                └── 10 m, doubling to 6 h ─► places that are there are tried again
//! ```
//!
//! The brake is that one pod of them tries at a time; where its node is not used either, decision 037 has the pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::kept_off::older;
use super::refusals::Refusals;
use super::refused_places::{RefusedPlace, class_of};
use crate::cluster_state::{ClusterState, JoinedNode, Moment, NodeEntry, NodeSource, NominationTarget, Snapshot};
use crate::pod::Pod;

/// Longest time for which kube-scheduler puts off a pod that it found no node for: refusals closer together are one verdict.
const APART: Duration = Duration::from_secs(10);
/// Most verdicts remembered.
const MOST: usize = 1000;

/// Number for a node that has not changed since the known verdicts.
const UNCHANGED: u64 = 0;
/// Number for a node that is still to come: no verdict covers it.
pub(in crate::cluster_state) const TO_COME: u64 = u64::MAX;

/// The verdict on pods that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    refusals: Refusals,
    /// Time of the last refusal that counted. Monotonic.
    counted: Option<Duration>,
    /// The number of changes of nodes when it was passed: nodes that have changed since, or come, are not among those judged.
    as_of: u64,
    /// True if a pod has been bound since to a node that was not judged.
    proven: bool,
    /// Pods, by uid, that have been expected somewhere since: the one that tries a new node is expected on its claim.
    tries: BTreeSet<String>,
}

/// Verdicts by the class of the pods, and when nodes last changed while there were any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    all: BTreeMap<u64, Verdict>,
    changes: u64,
    changed: BTreeMap<String, u64>,
}

impl Verdict {
    fn new(pod: &Pod) -> Self {
        Self { refusals: Refusals::of_pods_like(pod), counted: None, as_of: 0, proven: false, tries: BTreeSet::new() }
    }

    fn holds(&self, now: Duration) -> bool {
        self.refusals.hold(now)
    }

    fn why(&self) -> String {
        let (said, minutes) = (self.refusals.quoted(), self.refusals.minutes());
        format!(
            "kube-scheduler has refused every node that is there for it although it should fit{said}; new nodes are planned for {minutes}m, at first one"
        )
    }
}

impl Verdicts {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of changes at the time of a node's last one.
    fn changed(&self, node: &str) -> u64 {
        self.changed.get(node).copied().unwrap_or(UNCHANGED)
    }

    /// A place was refused for a pod of a class: one that was there at the verdict says nothing new while that holds.
    pub(super) fn refused(&mut self, class: u64, pod: &Pod, node: &str, words: &str, heard: bool, now: Duration) {
        let (changed, changes) = (self.changed(node), self.changes);
        let one = self.all.entry(class).or_insert_with(|| Verdict::new(pod));
        one.refusals.note(&pod.uid, words, now);
        let judged = one.holds(now) && changed <= one.as_of;
        if judged || one.counted.is_some_and(|counted| now < counted + APART) {
            return;
        }
        one.counted = Some(now);
        if one.refusals.add(heard) {
            one.refusals.begin(now);
            (one.as_of, one.proven) = (changes, false);
            one.tries.clear();
        }
    }

    /// True if some verdict may be about such a pod.
    pub(super) fn may_concern(&self, pod: &Pod) -> bool {
        self.all.values().any(|one| one.refusals.may_concern(pod))
    }

    /// A pod of a class is bound. Where that node was judged the verdict is void; where it was not, new nodes will do.
    pub(super) fn bound(&mut self, pod: &Pod, node: &str) {
        let (class, changed) = (class_of(pod), self.changed(node));
        match self.all.get_mut(&class) {
            Some(one) if one.refusals.have_held() && changed > one.as_of => {
                one.proven = true;
                one.refusals.clear_points();
            }
            _ => drop(self.all.remove(&class)),
        }
        self.tidy();
    }

    /// A pod is gone: verdicts for it alone are forgotten.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.all.retain(|_, one| {
            one.tries.remove(uid);
            !one.refusals.forget_pod(uid)
        });
        self.tidy();
    }

    pub(super) fn knows_pod(&self, uid: &str) -> bool {
        self.all.values().any(|one| one.refusals.has_pod(uid) || one.tries.contains(uid))
    }

    pub(super) fn forget_old(&mut self, now: Duration) {
        self.all.retain(|_, one| !one.refusals.are_over(now));
        while self.all.len() > MOST {
            let oldest = self.all.iter().min_by_key(|(_, one)| one.refusals.last()).map(|(class, _)| *class);
            oldest.map(|class| self.all.remove(&class));
        }
        self.tidy();
    }

    /// True if [`Verdicts::forget_old`] would change anything.
    pub(super) fn has_old(&self, now: Duration) -> bool {
        self.all.len() > MOST || self.all.values().any(|one| one.refusals.are_over(now))
    }

    fn tidy(&mut self) {
        if self.all.is_empty() {
            self.changed.clear();
        }
    }
}

impl ClusterState {
    /// A Node is there, or has changed in a field that decides which pods may be on it: it is judged anew.
    pub(in crate::cluster_state) fn note_node_change(&mut self, entry: &NodeEntry) {
        if self.now.refused_places.verdicts.is_empty() {
            return;
        }
        let same = |known: &NodeEntry| {
            known.uid == entry.uid
                && known.labels == entry.labels
                && known.taints == entry.taints
                && known.allocatable == entry.allocatable
                && (known.ready || !entry.ready)
        };
        if self.now.nodes.get(&entry.name).is_none_or(|known| !same(known)) {
            let verdicts = &mut std::sync::Arc::make_mut(&mut self.now.refused_places).verdicts;
            verdicts.changes += 1;
            verdicts.changed.insert(entry.name.clone(), verdicts.changes);
        }
    }

    /// A Node is gone: another of its name was not judged.
    pub(in crate::cluster_state) fn forget_node_changes(&mut self, node: &str) {
        if self.now.refused_places.verdicts.changed.contains_key(node) {
            std::sync::Arc::make_mut(&mut self.now.refused_places).verdicts.changed.remove(node);
        }
    }

    /// A pod is expected somewhere: it may be the one of its class that tries a node which was not judged.
    pub(in crate::cluster_state) fn note_trial(&mut self, uid: &str) {
        let verdicts = &self.now.refused_places.verdicts;
        let Some(entry) = self.now.pods.get(uid).filter(|_| !verdicts.is_empty()) else { return };
        let tried = |one: &Verdict| one.refusals.have_held() && !one.proven && one.refusals.may_concern(&entry.pod);
        if !verdicts.all.values().any(tried) {
            return;
        }
        let class = class_of(&entry.pod);
        let verdicts = &mut std::sync::Arc::make_mut(&mut self.now.refused_places).verdicts;
        if let Some(one) = verdicts.all.get_mut(&class) {
            one.tries.insert(uid.to_owned());
        }
    }
}

impl Snapshot {
    /// The number of changes at the time of a machine's last one, to be compared with that of verdicts.
    pub(in crate::cluster_state) fn judged_as_of(&self, node: &JoinedNode) -> u64 {
        match &node.source {
            NodeSource::Node(entry) | NodeSource::Both(entry, _) if node.initialized && entry.ready => {
                self.refused_places.verdicts.changed(&entry.name)
            }
            _ => TO_COME,
        }
    }

    /// Marks the nodes that are there as refused for pods, and keeps all but one of a class off new nodes until that one is
    /// bound. Answers the reason for each pod that is kept off, by uid; the marks are added to `refused`.
    pub(in crate::cluster_state) fn keep_off_refused(
        &self,
        pods: &mut [Pod],
        now: Moment,
        refused: &mut Vec<RefusedPlace>,
    ) -> BTreeMap<String, String> {
        let mut held = BTreeMap::new();
        let verdicts = &self.refused_places.verdicts;
        let holding: Vec<_> = verdicts.all.iter().filter(|(_, one)| one.holds(now.monotonic)).collect();
        if holding.is_empty() {
            return held;
        }
        let mut of: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate() {
            let Some(entry) = self.pods.get(pod.base_uid()) else { continue };
            if holding.iter().any(|(_, one)| one.refusals.may_concern(&entry.pod)) {
                of.entry(class_of(&entry.pod)).or_default().push(at);
            }
        }
        for (class, one) in holding {
            let Some(own) = of.get(class) else { continue };
            let waits = |at: &&usize| !pods[**at].to_come && !self.is_bound(pods[**at].base_uid());
            let on_claim = |uid: &String| matches!(self.expected_on(uid, now), Some(NominationTarget::Claim(_)));
            let tries = one.tries.iter().any(on_claim);
            let first = own.iter().filter(waits).copied().filter(|_| !tries);
            let goes = first.reduce(|best, at| if older(&pods[at], &pods[best]) { at } else { best });
            let why = one.why();
            for at in own {
                let pod = &mut pods[*at];
                pod.refused_as_of = Some(one.as_of);
                refused.push(RefusedPlace { pod: pod.uid.clone(), node: String::new(), why: why.clone() });
                // Pods that have to leave their nodes are so many already, and are waited for.
                if !one.proven && Some(*at) != goes && !self.is_bound(pod.base_uid()) {
                    // By its own mark and not by pools: nodes of these that have come since are open to it.
                    pod.existing_only = true;
                    held.insert(pod.uid.clone(), why.clone());
                }
            }
        }
        held
    }
}
