//! What nodes of an instance type really have for pods, where that is less than was foreseen when they were launched: later
//! plans go by it (docs/decisions/037). It is known by node class, the class's hash, image and instance type, is read off Nodes
//! that are ready for pods, and stands as an annotation on the EC2NodeClass after they are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::{annotations, labels};
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::later;
use crate::cluster_state::{ClaimEntry, ClusterState, NodeEntry, Snapshot};
use crate::instance_type::InstanceType;
use crate::launch_limits::MOST_CHANGES;
use crate::lifecycle::claim::from_quantities;
use crate::resources::Resources;

/// Instance types that are known of a class, the latest.
const MOST: usize = 128;
/// How long it counts after a node has shown it for the first time; doubled each time that it is seen again after that, as
/// the node may have been an odd one.
const HOLDS: SignedDuration = SignedDuration::from_hours(1);
/// The longest that it counts.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What nodes of one instance type have for pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Observation {
    /// The hash of the class that they were launched by.
    hash: String,
    image: String,
    instance_type: String,
    /// The resources of which they have less than was foreseen: what they have.
    has: Resources,
    until: Timestamp,
    /// How often it was seen anew.
    times: u32,
}

impl Observation {
    fn is_of(&self, hash: &str, image: &str, instance_type: &str) -> bool {
        self.hash == hash && self.image == image && self.instance_type == instance_type
    }
}

/// What is known of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfClass {
    version: u64,
    types: Vec<Observation>,
}

/// What nodes really have, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed(BTreeMap<String, OfClass>);

impl Observed {
    /// A node that is ready for pods has less of these than was foreseen.
    fn learn(&mut self, class: &str, hash: &str, image: &str, instance_type: &str, has: &Resources, now: Timestamp) {
        let known = self.0.entry(class.to_owned()).or_default();
        let at = known.types.iter().position(|one| one.is_of(hash, image, instance_type));
        let before = at.map(|at| known.types.remove(at));
        let mut one = before.clone().unwrap_or_else(|| Observation {
            hash: hash.to_owned(),
            image: image.to_owned(),
            instance_type: instance_type.to_owned(),
            has: Resources::new(),
            until: Timestamp::MIN,
            times: 0,
        });
        let anew = one.until <= now;
        if anew {
            (one.times, one.has) = (one.times.saturating_add(1), Resources::new());
        }
        for (name, amount) in has.iter() {
            let least = one.has.find(name).map_or(amount, |least| least.min(amount));
            one.has.set(name.to_owned(), least);
        }
        let holds = HOLDS.saturating_mul(1 << (one.times.clamp(1, 10) - 1)).min(LONGEST);
        // Written again only where that says something new.
        if anew || later(now, holds / 2) > one.until {
            one.until = later(now, holds);
        }
        known.version += u64::from(before.as_ref() != Some(&one));
        known.types.push(one);
        let over = known.types.len().saturating_sub(MOST);
        known.types.drain(..over);
    }

    /// What nodes of an instance type have of the resources of which they have less than is foreseen.
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

    /// Takes what a class's annotation says, where that is later than what is known; what makes no sense says nothing.
    fn take_annotation(&mut self, class: &str, written: &str, now: Timestamp) {
        let Some(mut there) = parse_observed(written) else { return };
        if self.0.get(class).is_some_and(|known| known.version >= there.version) {
            return;
        }
        let over = there.types.len().saturating_sub(MOST);
        there.types.drain(..over);
        there.types.iter_mut().for_each(|one| one.until = one.until.min(later(now, LONGEST)));
        self.0.insert(class.to_owned(), there);
    }

    fn to_write(&self, class: &str, written: Option<&str>) -> Option<String> {
        let known = self.0.get(class).filter(|known| !known.types.is_empty())?;
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

/// Objects that have changed since it was last looked what is to be learnt of them, by name.
#[derive(Debug, Default)]
pub(in crate::cluster_state) struct ToLearn {
    pub nodes: BTreeSet<String>,
    pub pools: BTreeSet<String>,
    pub classes: BTreeSet<String>,
}

impl ClusterState {
    /// Takes in what annotations and Nodes say that have changed since the last look.
    pub(in crate::cluster_state) fn learn(&mut self, now: Timestamp) {
        let ToLearn { nodes, pools, classes } = std::mem::take(&mut self.to_learn);
        for name in pools {
            let pool = self.now.pools.get(&name).and_then(|pool| pool.metadata.annotations.as_ref());
            if let Some(text) = pool.and_then(|own| own.get(annotations::UNUSED_LAUNCHES)) {
                Arc::make_mut(&mut self.now.unused).take_annotation(&name, text, now);
            }
        }
        for name in classes {
            let class = self.now.classes.get(&name).and_then(|class| class.metadata.annotations.as_ref());
            if let Some(text) = class.and_then(|own| own.get(annotations::OBSERVED_ALLOCATABLE)) {
                Arc::make_mut(&mut self.now.observed).take_annotation(&name, text, now);
            }
        }
        if nodes.is_empty() {
            return;
        }
        let machines: BTreeMap<&str, &Arc<ClaimEntry>> = self
            .now
            .claims
            .values()
            .map(|entry| (entry.provider_id(), entry))
            .filter(|(id, _)| !id.is_empty())
            .collect();
        let mut found = Vec::new();
        for node in nodes.iter().filter_map(|name| self.now.nodes.get(name)) {
            let Some(entry) = machines.get(node.provider_id.as_str()) else { continue };
            found.extend(shortfall(node, entry).map(|less| (entry.claim.clone(), node.clone(), less)));
        }
        for (claim, node, less) in found {
            let image = claim.status.as_ref().map_or("", |status| status.image_id.as_str());
            let Some((hash, kind)) = hash_of(&claim).zip(node.labels.get(labels::INSTANCE_TYPE)) else { continue };
            let class = &claim.spec.node_class_ref.name;
            Arc::make_mut(&mut self.now.observed).learn(class, hash, image, kind, &less, now);
        }
    }
}

fn hash_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::NODE_CLASS_HASH).map(String::as_str)
}

/// What a node that is ready for pods has of the resources of which it has less than its claim was told.
fn shortfall(node: &NodeEntry, entry: &ClaimEntry) -> Option<Resources> {
    let foreseen = from_quantities(&entry.claim.status.as_ref()?.allocatable);
    entry.facts.initialized?;
    let less: Resources = foreseen
        .iter()
        .map(|(name, amount)| (name, amount, node.allocatable.get(name)))
        .filter(|(_, foreseen, has)| has < foreseen)
        .map(|(name, _, has)| (name.to_owned(), has))
        .collect();
    (!less.is_empty()).then_some(less)
}

impl Snapshot {
    /// A class's instance types with what their nodes really have for pods.
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

    /// What the node of a claim will have for pods, by what others of its kind have or had.
    pub(in crate::cluster_state) fn really(&self, entry: &ClaimEntry, mut promised: Resources) -> Resources {
        let claim = &entry.claim;
        let kind = claim.metadata.labels.as_ref().and_then(|own| own.get(labels::INSTANCE_TYPE));
        let class = self.classes.get(&claim.spec.node_class_ref.name).filter(|_| !self.observed.0.is_empty());
        if let Some(has) =
            class.zip(kind).and_then(|(class, kind)| self.observed.resources_of(class, kind, Timestamp::MIN))
        {
            for (name, has) in has.iter() {
                if promised.find(name).is_some_and(|promised| promised > has) {
                    promised.set(name.to_owned(), has);
                }
            }
        }
        promised
    }

    /// Annotations that EC2NodeClasses are to get, by the class's name.
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

/// The same instance type with no more for pods than that.
fn limited(one: &InstanceType, has: &Resources) -> InstanceType {
    let (mut limited, foreseen) = (one.clone(), one.allocatable());
    for (name, has) in has.iter() {
        let less = foreseen.get(name).saturating_sub(has);
        if less > 0 {
            let reserved = &mut limited.overhead.system_reserved;
            reserved.set(name.to_owned(), reserved.get(name).saturating_add(less));
        }
    }
    limited
}
