//! Volumes, namespaces and StatefulSets as packing needs them: the demands of a pod's claims on its node, the volumes that
//! nodes have attached, and the ordinals of ordered StatefulSets that are still to come.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::default_spread::{STATEFUL_SET, selector_key};
use super::{ClusterState, JoinedNode, PodEntry, Snapshot, Table, WatchedKind};
use crate::admission::{LimitRange, Policies, RuntimeClass};
use crate::instance_type::InstanceType;
use crate::labels;
use crate::pod::{NO_DEVICES, Pod};
use crate::problem::{ExistingNode, Namespace};
use crate::resources::Resources;
use crate::volumes::{ClassFacts, VolumeClaimFacts, VolumeFacts, VolumeLookup, attachable, is_attachable};
pub use kept::KeptFacts;
use kept::put;

/// Most ordinals to come of a StatefulSet that count when a node is chosen for the one that waits.
const MOST_TO_COME: i64 = 20;

/// A volume to attach: its driver, and its unique name.
type Attachment = (String, String);

/// A StatefulSet whose pods start one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedSet {
    /// Ordinal of its first pod.
    pub first: i64,
    /// Its number of pods (`spec.replicas`).
    pub replicas: i64,
}

impl OrderedSet {
    /// Reads a StatefulSet; `None` for one whose pods start all at once, or that is being deleted.
    #[must_use]
    pub fn from_stateful_set(set: &StatefulSet) -> Option<Self> {
        let spec = set.spec.as_ref()?;
        let ordered = spec.pod_management_policy.as_deref().is_none_or(|policy| policy == "OrderedReady");
        let stays = set.metadata.deletion_timestamp.is_none();
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let replicas = spec.replicas.unwrap_or(1);
        (ordered && stays).then_some(Self { first: i64::from(first), replicas: i64::from(replicas) })
    }
}

/// Facts about storage and about the objects that pods belong to.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Namespaces by name.
    pub namespaces: Table<Namespace>,
    /// PersistentVolumeClaims by `namespace/name`.
    pub claims: Table<VolumeClaimFacts>,
    /// PersistentVolumes by name.
    pub volumes: Table<VolumeFacts>,
    /// StorageClasses by name.
    pub classes: Table<ClassFacts>,
    /// Number of volumes that the drivers of a node attach, by its name.
    pub csi_nodes: Table<Resources>,
    /// The labels by which Services select pods, by `namespace/name`; only where default spread constraints are set.
    pub services: Table<BTreeMap<String, String>>,
    /// Selectors of controllers, by kind and `namespace/name`.
    pub selectors: Table<LabelSelector>,
    /// StatefulSets whose pods start one after the other, by `namespace/name`.
    pub ordered_sets: Table<OrderedSet>,
    /// LimitRanges by `namespace/name`: admission applies them to DaemonSets' pods.
    pub limit_ranges: Table<LimitRange>,
    /// RuntimeClasses by name, for the admission of DaemonSets' pods.
    pub runtime_classes: Table<RuntimeClass>,
}

impl Storage {
    /// The policies by which DaemonSets' pods are admitted.
    pub(super) fn policies(&self) -> Policies {
        let mut policies = Policies::default();
        for (key, range) in self.limit_ranges.iter() {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let ranges = policies.limit_ranges.entry(namespace.to_owned()).or_default();
            ranges.insert(name.to_owned(), LimitRange::clone(range));
        }
        let classes = self.runtime_classes.iter();
        policies.runtime_classes = classes.map(|(name, class)| (name.clone(), RuntimeClass::clone(class))).collect();
        policies
    }
}

impl ClusterState {
    /// Applies an object that is there or has changed. Answers true if packing may see a difference.
    pub fn apply<K: KeptFacts>(&mut self, object: &K) -> bool {
        self.saw(K::KIND, &object.key());
        object.update(Arc::make_mut(&mut self.now.storage), true)
    }

    /// Removes an object that is gone. Answers true if packing may see a difference.
    pub fn delete<K: KeptFacts>(&mut self, object: &K) -> bool {
        self.forget_unreadable(K::KIND, &object.key());
        object.update(Arc::make_mut(&mut self.now.storage), false)
    }

    /// Removes, by its key, an object of which only facts are kept.
    pub(super) fn delete_stored(&mut self, kind: WatchedKind, key: &str) {
        let storage = Arc::make_mut(&mut self.now.storage);
        match kind {
            WatchedKind::Namespace => drop(put(&mut storage.namespaces, key.to_owned(), None)),
            WatchedKind::PersistentVolumeClaim => drop(put(&mut storage.claims, key.to_owned(), None)),
            WatchedKind::PersistentVolume => drop(put(&mut storage.volumes, key.to_owned(), None)),
            WatchedKind::StorageClass => drop(put(&mut storage.classes, key.to_owned(), None)),
            WatchedKind::CsiNode => drop(put(&mut storage.csi_nodes, key.to_owned(), None)),
            WatchedKind::StatefulSet => {
                put(&mut storage.ordered_sets, key.to_owned(), None);
                put(&mut storage.selectors, selector_key(STATEFUL_SET, key), None);
            }
            WatchedKind::Service => drop(put(&mut storage.services, key.to_owned(), None)),
            WatchedKind::ReplicaSet | WatchedKind::ReplicationController => {
                put(&mut storage.selectors, key.to_owned(), None);
            }
            WatchedKind::LimitRange => drop(put(&mut storage.limit_ranges, key.to_owned(), None)),
            WatchedKind::RuntimeClass => drop(put(&mut storage.runtime_classes, key.to_owned(), None)),
            // Whole objects, kept elsewhere.
            WatchedKind::Pod
            | WatchedKind::Node
            | WatchedKind::NodeClaim
            | WatchedKind::NodePool
            | WatchedKind::NodeClass
            | WatchedKind::DaemonSet
            | WatchedKind::PodDisruptionBudget => {}
        }
    }

    /// A list of a kind of which only facts are kept is complete.
    pub(super) fn stored_list_ends(&mut self, kind: WatchedKind, seen: &BTreeSet<String>) {
        let storage = Arc::make_mut(&mut self.now.storage);
        let gone = |key: &str| !seen.contains(key);
        match kind {
            WatchedKind::Namespace => super::retain(&mut storage.namespaces, |key, _| !gone(key)),
            WatchedKind::PersistentVolumeClaim => super::retain(&mut storage.claims, |key, _| !gone(key)),
            WatchedKind::PersistentVolume => super::retain(&mut storage.volumes, |key, _| !gone(key)),
            WatchedKind::StorageClass => super::retain(&mut storage.classes, |key, _| !gone(key)),
            WatchedKind::CsiNode => super::retain(&mut storage.csi_nodes, |key, _| !gone(key)),
            WatchedKind::StatefulSet => {
                super::retain(&mut storage.ordered_sets, |key, _| !gone(key));
                let set = |key: &str| key.strip_prefix(STATEFUL_SET).and_then(|rest| rest.strip_prefix('/')).map(gone);
                super::retain(&mut storage.selectors, |key, _| set(key) != Some(true));
            }
            WatchedKind::LimitRange => super::retain(&mut storage.limit_ranges, |key, _| !gone(key)),
            WatchedKind::RuntimeClass => super::retain(&mut storage.runtime_classes, |key, _| !gone(key)),
            WatchedKind::Service => super::retain(&mut storage.services, |key, _| !gone(key)),
            WatchedKind::ReplicaSet | WatchedKind::ReplicationController => {
                let of_kind = |key: &str| key.starts_with(&format!("{kind:?}/"));
                super::retain(&mut storage.selectors, |key, _| !of_kind(key) || !gone(key));
            }
            _ => {}
        }
    }
}

type Facts<'a> = VolumeLookup<'a, Arc<VolumeClaimFacts>, Arc<VolumeFacts>, Arc<ClassFacts>>;

impl Snapshot {
    fn known_volumes(&self) -> Facts<'_> {
        let storage = &*self.storage;
        VolumeLookup { claims: &storage.claims, volumes: &storage.volumes, classes: &storage.classes }
    }

    /// The volumes attached by the pods on a node and those expected there.
    pub(super) fn attached<'p>(&self, pods: impl Iterator<Item = &'p Arc<PodEntry>>) -> BTreeSet<Attachment> {
        let known = self.known_volumes();
        let of = |entry: &Arc<PodEntry>| known.attached(&entry.pod.namespace, &entry.volume_claims);
        pods.filter(|entry| !entry.volume_claims.is_empty()).flat_map(of).collect()
    }

    /// The pods to pack with the demands of their volumes, and the ordinals of ordered StatefulSets that follow them. A
    /// volume that several pods use, or that a node has already, is not among their requests: a node counts it once.
    pub(super) fn with_volumes(&self, entries: &[&Arc<PodEntry>], there: &BTreeSet<Attachment>) -> Vec<Pod> {
        let mut pods: Vec<(Pod, BTreeSet<Attachment>)> = Vec::with_capacity(entries.len());
        let mut users = self.users_of_one_pod_claims();
        for entry in entries {
            let (mut pod, own) = needing(&self.recreated(entry), &entry.volume_claims, self.known_volumes());
            if !entry.node_name.is_empty() {
                pod.forget_host();
            }
            let mut held = || users.as_mut().and_then(|users| self.held_by_another(entry, users));
            pod.blocked = match pod.blocked {
                // Its devices are decided on later.
                Some(why) if why == NO_DEVICES && !self.devices.is_empty() => held().or(Some(why)),
                own => own.or_else(held),
            };
            pods.push((pod, own));
        }
        pods.extend(self.to_come(entries));
        let mut users: BTreeMap<Attachment, usize> = there.iter().map(|one| (one.clone(), 1)).collect();
        pods.iter().flat_map(|(_, own)| own).for_each(|one| *users.entry(one.clone()).or_insert(0) += 1);
        let counted = |(mut pod, own): (Pod, BTreeSet<Attachment>)| {
            for one in &own {
                let name = attachable(&one.0);
                if users[one] > 1 {
                    pod.shared_volumes.insert(one.1.clone(), name);
                } else {
                    pod.requests.set(name.clone(), pod.requests.get(&name).saturating_add(1));
                }
            }
            pod
        };
        pods.into_iter().map(counted).collect()
    }

    /// Users of the claims that one pod alone may use, by `namespace/name`: pods that have a node, or a place on one. `None`
    /// if there is no such claim.
    fn users_of_one_pod_claims(&self) -> Option<BTreeMap<String, Arc<PodEntry>>> {
        if !self.storage.claims.values().any(|claim| claim.one_pod) {
            return None;
        }
        let placed = |entry: &&Arc<PodEntry>| {
            !entry.terminal && (!entry.node_name.is_empty() || self.nominations.contains_key(&entry.pod.uid))
        };
        let mut users = BTreeMap::new();
        for entry in self.pods.values().filter(placed) {
            let own = entry.volume_claims.iter().map(|claim| format!("{}/{claim}", entry.pod.namespace));
            own.for_each(|claim| drop(users.insert(claim, entry.clone())));
        }
        Some(users)
    }

    /// The reason that a pod has to wait for another one that uses a claim of ReadWriteOncePod, as kube-scheduler's
    /// VolumeRestrictions has it. A pod that waits for none has its claims from here on.
    fn held_by_another(&self, entry: &Arc<PodEntry>, users: &mut BTreeMap<String, Arc<PodEntry>>) -> Option<String> {
        let key = |claim: &String| format!("{}/{claim}", entry.pod.namespace);
        let alone = |claim: &String| self.storage.claims.get(claim).is_some_and(|facts| facts.one_pod);
        let own: Vec<String> = entry.volume_claims.iter().map(key).filter(alone).collect();
        for claim in &own {
            if let Some(other) = users.get(claim).filter(|other| other.pod.uid != entry.pod.uid) {
                let (namespace, name) = (&other.pod.namespace, &other.pod.name);
                return Some(format!(
                    "PersistentVolumeClaim {claim} is ReadWriteOncePod, and pod {namespace}/{name} uses it"
                ));
            }
        }
        own.into_iter().for_each(|claim| drop(users.insert(claim, entry.clone())));
        None
    }

    /// Pods still to come after those that wait, of StatefulSets whose pods start one after the other.
    pub(super) fn to_come(&self, entries: &[&Arc<PodEntry>]) -> Vec<(Pod, BTreeSet<Attachment>)> {
        let mut all = Vec::new();
        // Several pods of a set may wait, as when their nodes are gone: each is followed by the same ones.
        let mut listed = BTreeSet::new();
        let waiting = entries.iter().filter(|entry| entry.stateful && entry.node_name.is_empty());
        // Looked up once, however many wait: anybody may name a StatefulSet as the owner of their pods.
        let mut known: Option<BTreeSet<(&str, &str)>> = None;
        for entry in waiting {
            let Some((name, ordinal)) = entry.pod.name.rsplit_once('-') else { continue };
            let Ok(ordinal) = ordinal.parse::<i64>() else { continue };
            let namespace = &entry.pod.namespace;
            let Some(set) = self.storage.ordered_sets.get(&format!("{namespace}/{name}")) else { continue };
            let end = set.first.saturating_add(set.replicas).min(ordinal.saturating_add(1 + MOST_TO_COME));
            let known = known.get_or_insert_with(|| {
                self.pods.values().map(|other| (other.pod.namespace.as_str(), other.pod.name.as_str())).collect()
            });
            let there = |name: &str| known.contains(&(namespace.as_str(), name));
            let next = (ordinal.saturating_add(1)..end).map(|ordinal| format!("{name}-{ordinal}"));
            let mut once = |name: &String| listed.insert(format!("{namespace}/{name}"));
            all.extend(next.filter(|name| once(name) && !there(name)).filter_map(|name| self.follower(entry, &name)));
        }
        all
    }

    /// The pod of that name as it will be, with claims of its own; `None` if these would hold it up.
    fn follower(&self, entry: &PodEntry, name: &str) -> Option<(Pod, BTreeSet<Attachment>)> {
        let namespace = &entry.pod.namespace;
        let mut claims = BTreeMap::new();
        let mut names = Vec::new();
        for own in &entry.volume_claims {
            let renamed = own.strip_suffix(entry.pod.name.as_str()).map(|stem| format!("{stem}{name}"));
            let known = self.storage.claims.get(&format!("{namespace}/{own}"))?;
            let facts = match &renamed {
                Some(next) => self.storage.claims.get(&format!("{namespace}/{next}")).cloned().unwrap_or_else(|| {
                    Arc::new(VolumeClaimFacts { class: known.class.clone(), ..VolumeClaimFacts::default() })
                }),
                None => known.clone(),
            };
            let next = renamed.unwrap_or_else(|| own.clone());
            claims.insert(format!("{namespace}/{next}"), facts);
            names.push(next);
        }
        let (mut pod, own) = needing(&entry.pod, &names, VolumeLookup { claims: &claims, ..self.known_volumes() });
        pod.uid = format!("{}/{name}", entry.pod.uid);
        pod.name = name.to_owned();
        pod.to_come = true;
        // A pod that is not there yet takes nothing from those that are.
        pod.priority = i32::MIN;
        pod.created = Some(Timestamp::MAX);
        pod.blocked.is_none().then_some((pod, own))
    }

    /// Sets the number of volumes that a node attaches: its drivers' word, and before there is one that of its instance type.
    pub(super) fn set_attachments(
        &self,
        node: &JoinedNode,
        attached: &BTreeSet<Attachment>,
        types: &[Arc<InstanceType>],
        out: &mut ExistingNode,
    ) {
        let said = node.node_name().and_then(|name| self.storage.csi_nodes.get(name));
        let kind = node.labels.get(labels::INSTANCE_TYPE);
        let promised = kind.and_then(|kind| types.iter().find(|one| one.name == *kind)).map(|one| &one.attachments);
        for (name, amount) in promised.into_iter().chain(said.map(AsRef::as_ref)).flat_map(Resources::iter) {
            out.allocatable.set(name, amount);
        }
        for (driver, _) in attached {
            let name = attachable(driver);
            out.used.set(name.clone(), out.used.get(&name).saturating_add(1));
        }
    }
}

/// True if any pod asks for an attachment.
pub(super) fn any_attaches(pods: &[Pod]) -> bool {
    let attaches = |pod: &Pod| pod.requests.iter().any(|(name, _)| is_attachable(name));
    pods.iter().any(|pod| !pod.shared_volumes.is_empty() || attaches(pod))
}

fn needing<'a>(pod: &Pod, claims: &[String], known: Facts<'a>) -> (Pod, BTreeSet<Attachment>) {
    let mut pod = pod.clone();
    if claims.is_empty() {
        return (pod, BTreeSet::new());
    }
    match known.needs(&pod.namespace, claims) {
        Ok(needs) => {
            pod.volume_topology = needs.places;
            (pod, needs.attachments)
        }
        Err(why) => {
            pod.blocked = Some(why);
            (pod, BTreeSet::new())
        }
    }
}
