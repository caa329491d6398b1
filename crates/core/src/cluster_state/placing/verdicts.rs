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

use super::kept_off::{keep_off_pools, older};
use super::refused_places::{Like, OUT, RefusedPlace, class_of, length, minutes, points_of};
use crate::cluster_state::{ClusterState, JoinedNode, Moment, NodeEntry, NodeSource, Snapshot};
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
    points: u32,
    /// When a refusal counted last.
    counted: Option<Duration>,
    /// How often it was spoken.
    times: u32,
    /// When a place was refused last.
    last: Duration,
    /// Until when it holds.
    until: Duration,
    /// The number of changes of nodes when it was spoken: nodes that have changed since, or come, are not among those judged.
    as_of: u64,
    /// True if a pod has been bound since to a node that was not judged.
    proven: bool,
    /// The pod, by uid, that tries a node that was not judged.
    tries: Option<String>,
    /// What the pods have in common that costs little to compare.
    pods_are: Like,
    /// Pods, by uid, that places were refused for.
    pods: BTreeSet<String>,
    /// kube-scheduler's words.
    words: String,
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
        Self {
            points: 0,
            counted: None,
            times: 0,
            last: Duration::ZERO,
            until: Duration::ZERO,
            as_of: 0,
            proven: false,
            tries: None,
            pods_are: Like::from_pod(pod),
            pods: BTreeSet::new(),
            words: String::new(),
        }
    }

    fn holds(&self, now: Duration) -> bool {
        now < self.until
    }

    fn why(&self) -> String {
        let said = if self.words.is_empty() { String::new() } else { format!(", last with {:?}", self.words) };
        let minutes = minutes(length(self.times));
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
        one.pods.insert(pod.uid.clone());
        words.clone_into(&mut one.words);
        one.last = now;
        let judged = one.holds(now) && changed <= one.as_of;
        if judged || one.counted.is_some_and(|counted| now < counted + APART) {
            return;
        }
        one.counted = Some(now);
        one.points += points_of(heard);
        if one.points >= OUT {
            one.times = one.times.saturating_add(1);
            (one.points, one.until, one.as_of) = (0, now + length(one.times), changes);
            (one.proven, one.tries) = (false, None);
        }
    }

    /// True if some verdict may be about such a pod.
    pub(super) fn may_concern(&self, pod: &Pod) -> bool {
        self.all.values().any(|one| one.pods_are.may_be(pod))
    }

    /// A pod of a class is bound. Where that node was judged the verdict is void; where it was not, new nodes will do.
    pub(super) fn bound(&mut self, pod: &Pod, node: &str) {
        let (class, changed) = (class_of(pod), self.changed(node));
        match self.all.get_mut(&class) {
            Some(one) if one.times > 0 && changed > one.as_of => (one.proven, one.points) = (true, 0),
            _ => drop(self.all.remove(&class)),
        }
        self.tidy();
    }

    /// A pod is gone: verdicts for it alone are forgotten.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.all.retain(|_, one| !one.pods.remove(uid) || !one.pods.is_empty());
        self.tidy();
    }

    pub(super) fn knows_pod(&self, uid: &str) -> bool {
        self.all.values().any(|one| one.pods.contains(uid))
    }

    pub(super) fn forget_old(&mut self, now: Duration) {
        self.all.retain(|_, one| now < one.until.max(one.last) + length(one.times));
        while self.all.len() > MOST {
            let oldest = self.all.iter().min_by_key(|(_, one)| one.last).map(|(class, _)| *class);
            oldest.map(|class| self.all.remove(&class));
        }
        self.tidy();
    }

    /// True if [`Verdicts::forget_old`] would change anything.
    pub(super) fn has_old(&self, now: Duration) -> bool {
        self.all.len() > MOST || self.all.values().any(|one| now >= one.until.max(one.last) + length(one.times))
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
        if !verdicts.all.values().any(|one| one.times > 0 && !one.proven && one.pods_are.may_be(&entry.pod)) {
            return;
        }
        let class = class_of(&entry.pod);
        let verdicts = &mut std::sync::Arc::make_mut(&mut self.now.refused_places).verdicts;
        if let Some(one) = verdicts.all.get_mut(&class) {
            one.tries = Some(uid.to_owned());
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
            if holding.iter().any(|(_, one)| one.pods_are.may_be(&entry.pod)) {
                of.entry(class_of(&entry.pod)).or_default().push(at);
            }
        }
        let pools: Vec<String> = self.pools.keys().cloned().collect();
        for (class, one) in holding {
            let Some(own) = of.get(class) else { continue };
            let waits = |at: &&usize| !pods[**at].to_come && !self.is_bound(pods[**at].base_uid());
            let tries = one.tries.as_deref().is_some_and(|uid| self.expected_on(uid, now).is_some());
            let first = own.iter().filter(waits).copied().filter(|_| !tries);
            let goes = first.reduce(|best, at| if older(&pods[at], &pods[best]) { at } else { best });
            let why = one.why();
            for at in own {
                let pod = &mut pods[*at];
                pod.refused_as_of = Some(one.as_of);
                refused.push(RefusedPlace { pod: pod.uid.clone(), node: String::new(), why: why.clone() });
                // Pods that have to leave their nodes are so many already, and are waited for.
                if !one.proven && Some(*at) != goes && !self.is_bound(pod.base_uid()) {
                    keep_off_pools(pod, pools.clone());
                    held.insert(pod.uid.clone(), why.clone());
                }
            }
        }
        held
    }
}
