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

impl Snapshot {
    /// The pods that are to be nominated to the nodes of these claims and are not: of those expected there those that surely fit
    /// together, the largest first. Nominated pods that do not all fit would keep each other waiting. None where no other pod
    /// waits, or where all that wait are alike: it is all the same which of these gets which place, unless the number of those on
    /// spot nodes is bounded.
    ///
    /// It is asked ten times a second while nodes come up, so that nothing dear is looked at where all are nominated already.
    #[must_use]
    pub fn places_to_keep(&self, claims: &BTreeSet<String>, share: DaemonShare, now: Moment) -> Vec<KeptPlace> {
        let mut expected: BTreeMap<&str, Vec<&Arc<PodEntry>>> = BTreeMap::new();
        for (uid, one) in self.nominations.iter() {
            if let NominationTarget::Claim(name) = &one.target
                && claims.contains(name)
                && let Some(entry) = self.pods.get(uid).filter(|entry| waits(entry) && entry.provisionable)
                && self.expected_on(uid, now) == Some(&one.target)
            {
                expected.entry(name).or_default().push(entry);
            }
        }
        expected.retain(|claim, here| {
            let node = self.claims.get(*claim).map(|entry| entry.facts.node.as_str()).filter(|node| !node.is_empty());
            here.iter().any(|entry| entry.nominated.as_deref() != node)
        });
        if expected.is_empty() || !(self.any_differ() || self.any_shares()) {
            return Vec::new();
        }
        let waiting = self.pods.values().filter(|entry| waits(entry)).count();
        let problem = self.daemons_alone(share);
        let daemons = ComingDaemons::new(&problem);
        let machines = self.machines();
        let asked = |source: &&NodeSource| source.claim_name().is_some_and(|claim| expected.contains_key(claim));
        let nodes: Vec<JoinedNode> = machines.iter().filter(asked).map(|source| self.join(source)).collect();
        let mut places = Vec::new();
        for node in &nodes {
            let Some((name, here)) = node.node_name().zip(node.claim_name().and_then(|claim| expected.remove(claim)))
            else {
                continue;
            };
            if here.len() < waiting {
                places
                    .extend(self.fitting(node, name, here, &daemons).into_iter().map(|entry| place(entry, Some(name))));
            }
        }
        places
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
        let waiting = || self.pods.iter().filter(|(_, entry)| waits(entry));
        let at = |uid: &str| match self.expected_on(uid, now) {
            Some(NominationTarget::Claim(name)) => Some(name.as_str()),
            _ => None,
        };
        let here: Vec<&Arc<PodEntry>> =
            waiting().filter(|(uid, entry)| entry.stateful && at(uid) == Some(claim)).map(|(_, entry)| entry).collect();
        if here.is_empty() || self.to_come(&here).is_empty() {
            return false;
        }
        let source = self.claims.get(claim).and_then(|entry| self.machine_of(entry));
        let Some(node) = source.map(|source| self.join(&source)) else { return false };
        // StatefulSets do not wait for other StatefulSets, which would wait for them.
        let others = waiting().filter(|(uid, entry)| !entry.stateful && at(uid).is_some_and(|other| other != claim));
        let mut fitting = others.filter(|(_, entry)| {
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

    /// Written nominations, by the pod's uid, that are over while the pod still waits: it is not expected there any more. The
    /// second list has the pods for which nothing is left to do.
    #[must_use]
    pub fn places_over(&self, written: &BTreeMap<String, String>, now: Moment) -> (Vec<KeptPlace>, Vec<String>) {
        let (mut over, mut done) = (Vec::new(), Vec::new());
        for (uid, node) in written {
            match self.pods.get(uid).filter(|entry| waits(entry)) {
                None => done.push(uid.clone()),
                Some(_) if self.is_expected_on(uid, node, now) => {}
                Some(entry) if entry.nominated.as_ref() == Some(node) => over.push(place(entry, None)),
                Some(_) => done.push(uid.clone()),
            }
        }
        (over, done)
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
        let mut waiting = self.pods.values().filter(|entry| waits(entry));
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
