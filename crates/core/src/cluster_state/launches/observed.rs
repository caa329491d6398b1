//! The resources that nodes of an instance type really have for pods, where these are less than was foreseen at launch: later
//! plans go by them (docs/decisions/037). They are known by node class, the class's hash, image and instance type, are read
//! off Nodes that are ready for pods, and stand as an annotation on the EC2NodeClass after these are gone. A Node's resources
//! are its kubelet's word: [`witness`] decides how much of it is believed (docs/decisions/056).

mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::{annotations, labels};
use dovetail_api::overlays::RESTRICTED_RESOURCES;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::{later, signed};
use crate::cluster_state::{ClaimEntry, ClusterState, NodeEntry, Snapshot};
use crate::instance_type::InstanceType;
use crate::launch_limits::MOST_CHANGES;
use crate::lifecycle::claim::from_quantities;
use crate::pause::DoublingPause;
use crate::resources::Resources;

pub use witness::DoubtedNode;
use witness::{Witness, at_least, believed, remember};

/// Most instance types remembered for one class, the latest.
const MOST: usize = 128;
/// Time that an observation counts after a node has shown it for the first time; doubled with each later sighting, as the
/// first node may have been an odd one.
const HOLDS: DoublingPause =
    DoublingPause { first: Duration::from_secs(3600), longest: Duration::from_secs(7 * 24 * 3600) };

/// The resources that nodes of one instance type have for pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Observation {
    /// Hash of the class by which they were launched.
    hash: String,
    image: String,
    instance_type: String,
    /// The resources of which they have less than was foreseen: the amounts that are believed.
    has: Resources,
    until: Timestamp,
    /// Number of sightings after the one before had run out.
    times: u32,
    /// Nodes that report so much less that one alone is not believed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    witnesses: Vec<Witness>,
}

impl Observation {
    fn unseen(hash: &str, image: &str, instance_type: &str) -> Self {
        Self {
            hash: hash.to_owned(),
            image: image.to_owned(),
            instance_type: instance_type.to_owned(),
            has: Resources::new(),
            until: Timestamp::MIN,
            times: 0,
            witnesses: Vec::new(),
        }
    }

    fn is_of(&self, hash: &str, image: &str, instance_type: &str) -> bool {
        self.hash == hash && self.image == image && self.instance_type == instance_type
    }
}

/// Observations of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfClass {
    version: u64,
    types: Vec<Observation>,
    /// Time at which an administrator took the annotation off: nodes launched before that are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

/// Observed resources of nodes, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed(BTreeMap<String, OfClass>);

/// The resources that one node has, and those that were foreseen for it.
struct NodeReport<'a> {
    class: &'a str,
    hash: &'a str,
    image: &'a str,
    instance_type: &'a str,
    foreseen: &'a Resources,
    /// The node, with the resources of which it has less.
    witness: Witness,
}

impl Observed {
    /// A node that is ready for pods has less of these than was foreseen.
    fn learn(&mut self, report: NodeReport<'_>, now: Timestamp) {
        let NodeReport { class, hash, image, instance_type, foreseen, witness } = report;
        let known = self.0.entry(class.to_owned()).or_default();
        if known.since.is_some_and(|since| witness.launched <= since) {
            return;
        }
        let at = known.types.iter().position(|one| one.is_of(hash, image, instance_type));
        let before = at.map(|at| known.types.remove(at));
        let mut one = before.clone().unwrap_or_else(|| Observation::unseen(hash, image, instance_type));
        let anew = one.until <= now;
        if anew {
            (one.times, one.has) = (one.times.saturating_add(1), Resources::new());
        }
        remember(&mut one.witnesses, &witness, foreseen, now);
        let believed = believed(&one.witnesses, &witness.has, foreseen);
        for (name, amount) in believed.iter() {
            let least = one.has.find(name).map_or(amount, |least| least.min(amount));
            one.has.set(name.to_owned(), least);
        }
        let holds = signed(HOLDS.length_of_nth(one.times));
        // Written again only if that says something new.
        if anew || later(now, holds / 2) > one.until {
            one.until = later(now, holds);
        }
        known.version += u64::from(before.as_ref() != Some(&one));
        known.types.push(one);
        let over = known.types.len().saturating_sub(MOST);
        known.types.drain(..over);
    }

    /// The resources of which nodes of an instance type have less than is foreseen: the amounts that they have.
    fn resources_of(&self, class: &EC2NodeClass, instance_type: &str, now: Timestamp) -> Option<&Resources> {
        let known = self.0.get(class.metadata.name.as_deref()?)?;
        let hash = class.metadata.annotations.as_ref()?.get(annotations::NODE_CLASS_HASH)?;
        let images = class.status.as_ref().map(|status| status.amis.as_slice()).unwrap_or_default();
        let own = |one: &&Observation| {
            one.instance_type == instance_type
                && one.hash == *hash
                && now < one.until
                && images.iter().any(|image| image.id == one.image)
        };
        known.types.iter().find(own).map(|one| &one.has)
    }

    /// Takes in a class's annotation if its version is later than the known one; text that cannot be read is ignored.
    fn take_annotation(&mut self, class: &str, written: &str, now: Timestamp) {
        let Some(mut there) = parse_observed(written) else { return };
        if self.0.get(class).is_some_and(|known| known.version >= there.version) {
            return;
        }
        let over = there.types.len().saturating_sub(MOST);
        there.types.drain(..over);
        there.types.iter_mut().for_each(|one| one.until = one.until.min(later(now, signed(HOLDS.longest))));
        there.since = there.since.map(|since| since.min(now));
        self.0.insert(class.to_owned(), there);
    }

    /// An administrator has taken the annotation off: all observations of the class are dropped, and nodes that exist by now are
    /// ignored from now on.
    fn clear(&mut self, class: &str, now: Timestamp) {
        if let Some(known) = self.0.get_mut(class) {
            *known = OfClass { version: known.version.saturating_add(1), types: Vec::new(), since: Some(now) };
        }
    }

    fn to_write(&self, class: &str, written: Option<&str>) -> Option<String> {
        let known = self.0.get(class).filter(|known| !known.types.is_empty() || known.since.is_some())?;
        let there = written.and_then(parse_observed);
        if there.is_some_and(|there| there.version >= known.version) {
            return None;
        }
        serde_json::to_string(known).ok()
    }
}

fn parse_observed(written: &str) -> Option<OfClass> {
    serde_json::from_str(written).ok().filter(|one: &OfClass| one.version < MOST_CHANGES)
}

/// Objects that have changed since the last look and from which something may be learnt, by name.
#[derive(Debug, Default)]
pub(in crate::cluster_state) struct ToLearn {
    pub nodes: BTreeSet<String>,
    pub pools: BTreeSet<String>,
    pub classes: BTreeSet<String>,
    /// Classes of which an administrator has taken the annotation off.
    pub cleared: BTreeSet<String>,
}

impl ClusterState {
    /// Takes in annotations and Nodes that have changed since the last look.
    pub(in crate::cluster_state) fn learn(&mut self, now: Timestamp) {
        let ToLearn { nodes, pools, classes, cleared } = std::mem::take(&mut self.to_learn);
        for name in pools {
            let pool = self.now.pools.get(&name).and_then(|pool| pool.metadata.annotations.as_ref());
            if let Some(text) = pool.and_then(|own| own.get(annotations::UNUSED_LAUNCHES)) {
                Arc::make_mut(&mut self.now.unused).take_annotation(&name, text, now);
            }
        }
        for name in cleared {
            Arc::make_mut(&mut self.now.observed).clear(&name, now);
        }
        for name in classes {
            let class = self.now.classes.get(&name).and_then(|class| class.metadata.annotations.as_ref());
            if let Some(text) = class.and_then(|own| own.get(annotations::OBSERVED_ALLOCATABLE)) {
                Arc::make_mut(&mut self.now.observed).take_annotation(&name, text, now);
            }
        }
        let mut found = Vec::new();
        for node in nodes.iter().filter_map(|name| self.now.nodes.get(name)) {
            // A kubelet writes its Node, and may name any machine there.
            let Some(entry) = self.now.claim_of(node) else { continue };
            found.extend(shortfall(node, entry).map(|less| (entry.claim.clone(), node.clone(), less)));
        }
        for (claim, node, has) in found {
            let Some(status) = claim.status.as_ref() else { continue };
            let Some((hash, instance_type)) = hash_of(&claim).zip(instance_type_of(&claim, Some(&node))) else {
                continue;
            };
            let launched = claim.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
            let report = NodeReport {
                class: &claim.spec.node_class_ref.name,
                hash,
                image: &status.image_id,
                instance_type,
                foreseen: &from_quantities(&status.allocatable),
                witness: Witness {
                    claim: claim.metadata.uid.clone().unwrap_or_default(),
                    node: node.name.clone(),
                    launched,
                    has,
                    seen: now,
                    changes: 0,
                },
            };
            Arc::make_mut(&mut self.now.observed).learn(report, now);
        }
    }
}

/// The instance type that the cloud gave a claim. The Node's own label is its kubelet's word: it counts only for a claim on which
/// no launch has written any.
pub(in crate::cluster_state) fn instance_type_of<'a>(
    claim: &'a NodeClaim,
    node: Option<&'a NodeEntry>,
) -> Option<&'a str> {
    let given = claim.metadata.labels.as_ref().and_then(|own| own.get(labels::INSTANCE_TYPE));
    given.or_else(|| node?.labels.get(labels::INSTANCE_TYPE)).map(String::as_str)
}

fn hash_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::NODE_CLASS_HASH).map(String::as_str)
}

/// The resources of which a node that is ready for pods has less than its claim was told: the amounts that it has.
fn shortfall(node: &NodeEntry, entry: &ClaimEntry) -> Option<Resources> {
    let foreseen = from_quantities(&entry.claim.status.as_ref()?.allocatable);
    entry.facts.initialized?;
    // An overlay's resources come with a device plugin, which may be late: nothing is learnt of them.
    let overlaid = crate::lifecycle::claim::has_overlaid_capacity(&entry.claim);
    let less: Resources = foreseen
        .iter()
        .filter(|(name, _)| !overlaid || RESTRICTED_RESOURCES.contains(name))
        .map(|(name, amount)| (name, amount, node.allocatable.get(name)))
        .filter(|(_, foreseen, has)| has < foreseen)
        .map(|(name, _, has)| (name.to_owned(), has))
        .collect();
    (!less.is_empty()).then_some(less)
}

impl Snapshot {
    /// A class's instance types with no more allocatable than their nodes have been observed to have.
    pub(in crate::cluster_state) fn as_observed(
        &self,
        class: &str,
        types: &[Arc<InstanceType>],
        now: Timestamp,
    ) -> Vec<Arc<InstanceType>> {
        let known = self.classes.get(class).filter(|_| self.observed.0.contains_key(class));
        let Some(known) = known else { return types.to_vec() };
        let limited = |one: &Arc<InstanceType>| match self.observed.resources_of(known, &one.name, now) {
            Some(has) => Arc::new(limited(one, has)),
            None => one.clone(),
        };
        types.iter().map(limited).collect()
    }

    /// The allocatable of a claim's node, lowered to what others of its instance type have or had.
    pub(in crate::cluster_state) fn really(&self, entry: &ClaimEntry, mut promised: Resources) -> Resources {
        let claim = &entry.claim;
        let kind = instance_type_of(claim, None);
        let class = self.classes.get(&claim.spec.node_class_ref.name).filter(|_| !self.observed.0.is_empty());
        if let Some(has) =
            class.zip(kind).and_then(|(class, kind)| self.observed.resources_of(class, kind, Timestamp::MIN))
        {
            for (name, has) in has.iter() {
                if let Some(foreseen) = promised.find(name).filter(|foreseen| *foreseen > has) {
                    promised.set(name.to_owned(), at_least(foreseen, has));
                }
            }
        }
        promised
    }

    /// Nodes that have far less for pods than was foreseen, each with the amounts that are counted, where their class's
    /// annotation does not say so yet.
    #[must_use]
    pub fn doubted_nodes(&self) -> Vec<(Arc<EC2NodeClass>, DoubtedNode)> {
        let news = |class: &Arc<EC2NodeClass>| {
            let known = class.metadata.name.as_ref().and_then(|name| self.observed.0.get(name));
            let own = class.metadata.annotations.as_ref();
            let written =
                own.and_then(|own| own.get(annotations::OBSERVED_ALLOCATABLE)).and_then(|text| parse_observed(text));
            let written = written.unwrap_or_default();
            let of_type = |one: &Observation| {
                let before = written.types.iter().find(|old| old.is_of(&one.hash, &one.image, &one.instance_type));
                let old = before.map_or(&[][..], |old| old.witnesses.as_slice());
                witness::news(&one.instance_type, &one.witnesses, old, &one.has)
            };
            let found: Vec<_> = known.into_iter().flat_map(|known| &known.types).flat_map(of_type).collect();
            found.into_iter().map(|one| (class.clone(), one)).collect::<Vec<_>>()
        };
        self.classes.values().flat_map(news).collect()
    }

    /// Annotations to write on EC2NodeClasses, by the class's name.
    #[must_use]
    pub fn observed_to_write(&self) -> Vec<(String, String)> {
        let text = |class: &Arc<EC2NodeClass>| {
            let name = class.metadata.name.clone()?;
            let written =
                class.metadata.annotations.as_ref().and_then(|own| own.get(annotations::OBSERVED_ALLOCATABLE));
            Some((name.clone(), self.observed.to_write(&name, written.map(String::as_str))?))
        };
        self.classes.values().filter_map(text).collect()
    }
}

/// The instance type with no more for pods than `has`.
fn limited(one: &InstanceType, has: &Resources) -> InstanceType {
    let (mut limited, foreseen) = (one.clone(), one.allocatable());
    for (name, has) in has.iter() {
        let foreseen = foreseen.get(name);
        let less = foreseen.saturating_sub(at_least(foreseen, has));
        if less > 0 {
            let reserved = &mut limited.overhead.system_reserved;
            reserved.set(name.to_owned(), reserved.get(name).saturating_add(less));
        }
    }
    limited
}
