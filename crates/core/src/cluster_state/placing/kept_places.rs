//! Places that kube-scheduler is asked to keep: pods to nominate to the node that is planned for them
//! (`status.nominatedNodeName`) before it lets pods in, and nominations that are over (docs/decisions/044).
//!
//! kube-scheduler does not know which pods a node is for. It fills the first node that is ready with the pods at the head
//! of its queue, and a pod that fits this node alone finds no room. A nominated pod has its room kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster_state::joined::NodeSource;
use crate::cluster_state::objects::daemon::ComingDaemons;
use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::{JoinedNode, Moment, NominationTarget, PodEntry, Snapshot};
use crate::daemons::DaemonShare;
use crate::lifecycle::ClaimStage;
use crate::pack::alike;
use crate::pod::Pod;
use crate::problem::{Namespace, Problem};
use crate::resources::Resources;

/// The value that a pod's `status.nominatedNodeName` is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPlace {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The node's name; `None` if the nomination is to be taken back.
    pub node: Option<String>,
}

/// Nominations that have been written: the node of each pod, by uid, and the pods of each node.
#[derive(Clone, Debug, Default)]
pub struct WrittenPlaces {
    by_pod: BTreeMap<String, String>,
    by_node: BTreeMap<String, BTreeSet<String>>,
}

impl WrittenPlaces {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// A pod is nominated to a node now, or to none.
    pub fn note(&mut self, uid: String, node: Option<String>) {
        self.forget(&uid);
        if let Some(node) = node {
            self.by_node.entry(node.clone()).or_default().insert(uid.clone());
            self.by_pod.insert(uid, node);
        }
    }

    /// Nothing is left to be done about the nomination of a pod to a node.
    pub fn forget_place(&mut self, uid: &str, node: &str) {
        if self.by_pod.get(uid).is_some_and(|known| known == node) {
            self.forget(uid);
        }
    }

    fn forget(&mut self, uid: &str) {
        let Some(node) = self.by_pod.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}

impl Snapshot {
    /// The pods that are to be nominated to the nodes of these claims and are not: of those expected there those that surely fit
    /// together, the largest first. Nominated pods that do not all fit would keep each other waiting. None where no other pod
    /// waits, or where all that wait are alike: it is all the same which of these gets which place, unless the number of those on
    /// spot nodes is bounded.
    ///
    /// It is asked ten times a second while nodes come up, so that nothing dear is looked at where all are nominated already.
    #[must_use]
    pub fn places_to_keep(&self, claims: &BTreeSet<String>, share: DaemonShare, now: Moment) -> Vec<KeptPlace> {
        let mut nodes: Vec<(NodeSource, Vec<&Arc<PodEntry>>)> = Vec::new();
        let has_others = |name: &&String| self.nominations.has_others_at(name);
        for entry in claims.iter().filter(has_others).filter_map(|name| self.claims.get(name)) {
            let here = self.still_expected_at(&entry.facts.name, now);
            let node = Some(entry.facts.node.as_str()).filter(|node| !node.is_empty());
            if here.iter().any(|pod| pod.nominated.as_deref() != node) {
                let machine = self.machine_of(entry).filter(|source| matches!(source, NodeSource::Both(..)));
                nodes.extend(machine.map(|source| (source, here)));
            }
        }
        if nodes.is_empty() || !(self.any_differ() || self.any_shares()) {
            return Vec::new();
        }
        let mut nodes: Vec<_> = nodes.into_iter().map(|(source, here)| (self.join(&source), here)).collect();
        nodes.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let waiting = self.unbound().filter(|entry| waits(entry)).count();
        let problem = self.daemons_alone(share);
        let daemons = ComingDaemons::new(&problem);
        let mut places = Vec::new();
        for (node, here) in nodes.into_iter().filter(|(_, here)| here.len() < waiting) {
            let fitting = self.fitting(&node, &node.name, here, &daemons);
            places.extend(fitting.into_iter().map(|entry| place(entry, Some(&node.name))));
        }
        places
    }

    /// The pods that wait for kube-scheduler and are expected at a claim, by uid.
    fn still_expected_at(&self, claim: &str, now: Moment) -> Vec<&Arc<PodEntry>> {
        let target = NominationTarget::Claim(claim.to_owned());
        let pods = self.expected_at(&target).filter(|entry| waits(entry) && entry.provisionable);
        pods.filter(|entry| self.expected_on(&entry.pod.uid, now).is_some()).collect()
    }

    /// True if a node is let in after others: it has room for pods of a StatefulSet that are still to come, which nobody can
    /// nominate, and pods wait that could take this room though their own nodes are on their way. Such room is often the
    /// dearest, as on-demand capacity is, and would be launched once more.
    #[must_use]
    pub fn comes_last(&self, claim: &str, now: Moment) -> bool {
        // Asked for each node that comes up: with no such StatefulSet nothing is looked at.
        if self.storage.ordered_sets.is_empty() {
            return false;
        }
        let waiting = || self.unbound().filter(|entry| waits(entry));
        let at = |uid: &str| match self.expected_on(uid, now) {
            Some(NominationTarget::Claim(name)) => Some(name.as_str()),
            _ => None,
        };
        let here: Vec<&Arc<PodEntry>> =
            waiting().filter(|entry| entry.stateful && at(&entry.pod.uid) == Some(claim)).collect();
        if here.is_empty() || self.to_come(&here).is_empty() {
            return false;
        }
        let source = self.claims.get(claim).and_then(|entry| self.machine_of(entry));
        let Some(node) = source.map(|source| self.join(&source)) else { return false };
        // StatefulSets do not wait for other StatefulSets, which would wait for them.
        let elsewhere = |entry: &PodEntry| at(&entry.pod.uid).is_some_and(|other| other != claim);
        let others = waiting().filter(|entry| !entry.stateful && elsewhere(entry));
        let mut fitting = others.filter(|entry| {
            let selected = entry.pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
            selected && with_itself(&entry.pod.requests).fits_in(&node.allocatable)
        });
        fitting.next().is_some()
    }

    /// The pods expected on a node that surely fit together and are not nominated to it yet, the largest first.
    fn fitting<'s>(
        &self,
        node: &JoinedNode,
        name: &str,
        mut here: Vec<&'s Arc<PodEntry>>,
        daemons: &ComingDaemons<'_>,
    ) -> Vec<&'s Arc<PodEntry>> {
        let Some(mut free) = self.free_room(node, name, daemons) else { return Vec::new() };
        let size = |entry: &PodEntry| share(&entry.pod.requests, &node.allocatable);
        here.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.pod.uid.cmp(&b.pod.uid)));
        here.retain(|entry| {
            let requests = with_itself(&entry.pod.requests);
            let fits = requests.fits_in(&free);
            if fits {
                free.sub(&requests);
            }
            fits && entry.nominated.as_deref() != Some(name)
        });
        here
    }

    /// Written nominations that are over while the pod still waits: it is not expected there any more. The second list has those
    /// about which nothing is left to do: the pods, by uid, and the nodes. Both are in the order of the uids.
    ///
    /// Of a node on its way only the pods are looked at that are expected there no more.
    #[must_use]
    pub fn places_over(&self, written: &WrittenPlaces, now: Moment) -> (Vec<KeptPlace>, Vec<(String, String)>) {
        let (mut over, mut done) = (Vec::new(), Vec::new());
        let mut judge = |uid: &String, node: &String| match self.pods.get(uid).filter(|entry| waits(entry)) {
            None => done.push((uid.clone(), node.clone())),
            Some(_) if self.is_expected_on(uid, node, now) => {}
            Some(entry) if entry.nominated.as_ref() == Some(node) => over.push(place(entry, None)),
            Some(_) => done.push((uid.clone(), node.clone())),
        };
        for (node, pods) in &written.by_node {
            match self.awaited_by(node) {
                Some(expected) => pods.difference(expected).for_each(|uid| judge(uid, node)),
                None => pods.iter().for_each(|uid| judge(uid, node)),
            }
        }
        over.sort_by(|a, b| a.uid.cmp(&b.uid));
        done.sort();
        (over, done)
    }

    /// The pods expected on a node that is on its way, where all of these count, whatever the time: its claim stays and is not ready
    /// for pods.
    fn awaited_by(&self, node: &str) -> Option<&BTreeSet<String>> {
        let claim = self.nodes.get(node).and_then(|entry| self.claim_of(entry))?;
        let facts = &claim.facts;
        let stays = !self.deleting.claims.contains(&facts.name) && !self.is_refused(&facts.name);
        let comes = facts.node == node && facts.stage != Some(ClaimStage::Initialized);
        let target = NominationTarget::Claim(facts.name.clone());
        self.nominations.entry_at(&target).filter(|_| stays && comes).map(|(_, pods)| pods)
    }

    /// True if kube-scheduler is making room for a pod: it is nominated to a node from which pods are going.
    pub(crate) fn is_made_room_for(&self, entry: &PodEntry) -> bool {
        let load = entry.nominated.as_ref().and_then(|node| self.loads.get(node));
        load.is_some_and(|load| load.pods.values().any(|other| other.deleting && other.takes_room()))
    }

    /// A problem of the DaemonSets alone. Namespaces are read only where a rule of theirs may choose by them.
    fn daemons_alone(&self, daemon_share: DaemonShare) -> Problem {
        let daemon_pods = self.daemon_pods();
        let wary = |pod: &Pod| pod.affinity.as_ref().is_some_and(|all| all.pod_anti_affinity.is_some());
        let known = self.storage.namespaces.values().filter(|_| daemon_pods.iter().any(wary));
        let namespaces = known.map(|one| Namespace::clone(one)).collect();
        Problem { daemon_pods, daemon_share, namespaces, ..Problem::default() }
    }

    /// True if the pods that wait are not all alike.
    fn any_differ(&self) -> bool {
        let mut waiting = self.unbound().filter(|entry| waits(entry));
        let first = waiting.next();
        first.is_some_and(|first| waiting.any(|entry| !alike(&entry.pod, &first.pod)))
    }

    /// The room that a node has left for pods beside those on it and those that DaemonSets will put there; `None` if it is
    /// not known.
    fn free_room(&self, node: &JoinedNode, name: &str, daemons: &ComingDaemons<'_>) -> Option<Resources> {
        let load = self.loads.get(name).map(AsRef::as_ref);
        if load.is_some_and(|load| load.pods.values().any(|entry| entry.unreadable)) {
            return None;
        }
        let mut used = load.map(|load| load.requests.clone()).unwrap_or_default();
        used.add(&daemons.requests(node, &used, load));
        let mut free = node.allocatable.clone();
        used.fits_in(&free).then(|| {
            free.sub(&used);
            free
        })
    }

    fn is_expected_on(&self, uid: &str, node: &str, now: Moment) -> bool {
        match self.expected_on(uid, now) {
            Some(NominationTarget::Node(name)) => name == node,
            Some(NominationTarget::Claim(name)) => {
                let claim = self.claims.get(name).and_then(|entry| entry.claim.status.as_ref());
                claim.is_some_and(|status| status.node_name == node)
            }
            None => false,
        }
    }
}

/// True if a pod waits for kube-scheduler.
fn waits(entry: &PodEntry) -> bool {
    entry.node_name.is_empty()
        && entry.is_active()
        && !entry.belongs_to_node()
        && (entry.provisionable || entry.unmarked)
}

fn place(entry: &PodEntry, node: Option<&str>) -> KeptPlace {
    let pod = &entry.pod;
    let node = node.map(str::to_owned);
    KeptPlace { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone(), node }
}

/// The largest share of a node's resources that a pod takes.
fn share(requests: &Resources, room: &Resources) -> f64 {
    let shares = requests.iter().map(|(name, amount)| amount as f64 / room.get(name).max(1) as f64);
    shares.fold(0.0, f64::max)
}
