//! Hashes on pools and classes, as annotations. The one that is written counts, not the one that would be computed: claims are
//! stamped with it, and drift by it.
//!
//! ```text
//! what is computed is in the record ───────────────► the hash that the record has for it
//! it is not, and the generation is another: an edit ─► computed
//! it is not, and the generation is the same ────────► the hash that is there, or computed
//! ```
//!
//! Annotations are anybody's: a manifest that was dumped once brings old ones back, a replaced object has none, Karpenter writes
//! its own. So the record has the generation that it is of, which is held against the one in the status, the object's uid and
//! the fields that are hashed. Where it says nothing of the object as it is, no claim begins to drift by its hash before the
//! next edit; one that is Drifted by that already goes on. The same holds for a hash of another's beside a good record.
//!
//! A hash that is not what is computed is no change of the object: a field that this release does not know, an empty list,
//! another certificate authority.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::{
    COMPUTED_HASH, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION, NODE_POOL_HASH, NODE_POOL_HASH_VERSION,
};
use dovetail_api::names::conditions::{READY, SUBNETS_READY, VALIDATION_SUCCEEDED};
use dovetail_api::v1::{EC2NodeClass, NodePool, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::record::{Entry, Record};
use super::was_own;

/// The hashes that are computed for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    /// The hash that changes exactly when the spec does.
    pub same: String,
    /// The hash that is written after a change.
    pub fresh: String,
    /// The object and the fields that are hashed, as a short hash of its uid and of their names.
    pub of: String,
}

/// An object's generation, and the one that a leader has judged last, by its status, which no manifest overwrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    /// The object's own.
    pub now: Option<i64>,
    /// The one that was judged last, by Dovetail or by Karpenter.
    pub judged: Option<i64>,
}

impl Generations {
    /// Reads a pool's: its validation is judged whenever it is hashed.
    #[must_use]
    pub fn of_pool(pool: &NodePool) -> Self {
        let known = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        Self { now: pool.metadata.generation, judged: seen(known, VALIDATION_SUCCEEDED) }
    }

    /// Reads a class's: its subnets are looked up whenever it is hashed; KWOK's has none, and is only Ready.
    #[must_use]
    pub fn of_class(class: &EC2NodeClass) -> Self {
        let known = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let judged = if condition(known, SUBNETS_READY).is_some() { SUBNETS_READY } else { READY };
        Self { now: class.metadata.generation, judged: seen(known, judged) }
    }

    fn are_same(self) -> bool {
        self.now.is_some() && self.now == self.judged
    }
}

fn seen(known: &[Condition], type_: &str) -> Option<i64> {
    condition(known, type_)?.observed_generation
}

/// The hash that stands on an object, and those that claims of the same object may carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The hash that claims are stamped with.
    pub hash: String,
    entry: Entry,
    /// Hashes of earlier templates.
    earlier: Vec<String>,
}

/// The result of holding a claim's hash against that of its pool or class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It is the same.
    Same,
    /// It is another, and may be of the same object: such a claim does not begin to drift, and goes on drifting.
    Unsure,
    /// It is of another object.
    Differs,
}

impl Standing {
    /// Holds a claim's hash against it.
    #[must_use]
    pub fn agrees(&self, own: &str) -> Agreement {
        let is_in = |all: &[String]| all.iter().any(|hash| hash == own);
        match own == self.hash {
            true => Agreement::Same,
            false if is_in(&self.entry.also) || self.entry.any && !is_in(&self.earlier) => Agreement::Unsure,
            false => Agreement::Differs,
        }
    }
}

/// Annotations of a hash on an object, and the version that is computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKeys {
    /// Annotation with the hash.
    pub hash: &'static str,
    /// Annotation with its version.
    pub version: &'static str,
    /// The version of Karpenter 1.15: it is raised whenever the same object gets another hash.
    pub current: &'static str,
}

/// Keys of a NodePool's hash.
pub const OF_POOL: HashKeys = HashKeys { hash: NODE_POOL_HASH, version: NODE_POOL_HASH_VERSION, current: "v3" };
/// Keys of an EC2NodeClass's hash.
pub const OF_CLASS: HashKeys = HashKeys { hash: NODE_CLASS_HASH, version: NODE_CLASS_HASH_VERSION, current: "v6" };

type Annotations = BTreeMap<String, String>;

impl HashKeys {
    /// A hash of the current version, as two annotations.
    #[must_use]
    pub fn stamp(self, hash: &str) -> [(String, String); 2] {
        [(self.hash.to_owned(), hash.to_owned()), (self.version.to_owned(), self.current.to_owned())]
    }

    /// True if an object says that its hash is of the current version.
    #[must_use]
    pub fn is_current(self, own: &Annotations) -> bool {
        own.get(self.version).is_some_and(|version| version == self.current)
    }

    /// The hash of the current version on an object, whoever has written it.
    #[must_use]
    pub fn found(self, own: &Annotations) -> Option<&String> {
        own.get(self.hash).filter(|_| self.is_current(own))
    }

    /// The hash that stands on an object, as claims are held against it; `None` until the leader has settled it as it is.
    #[must_use]
    pub fn settled(self, metadata: &ObjectMeta, computed: &Computed) -> Option<Standing> {
        let own = metadata.annotations.as_ref()?;
        let mut record = Record::read_from(own);
        if record.entries.is_empty() || record.of != computed.of {
            return None;
        }
        let entry = record.entries.remove(0);
        let is_settled = entry.computed == computed.same && self.found(own) == Some(&entry.standing);
        let earlier = record.entries.into_iter().map(|one| one.standing).collect();
        is_settled.then(|| Standing { hash: entry.standing.clone(), entry, earlier })
    }

    /// The hash for claims of an object: the one that stands on it, or will as soon as the leader has settled it.
    #[must_use]
    pub fn for_claims(self, metadata: &ObjectMeta, computed: &Computed, at: Generations) -> String {
        let mut own = metadata.annotations.clone().unwrap_or_default();
        self.settle(&mut own, computed, at);
        own.remove(self.hash).unwrap_or_default()
    }

    /// True if a program other than Dovetail has written the hash on an object.
    #[must_use]
    pub fn is_foreign(self, own: &Annotations) -> bool {
        let was_own = own.get(self.version).is_some_and(|version| was_own(version));
        let known = Record::read_from(own).entries.into_iter().next().map(|one| one.standing);
        own.get(self.hash).is_some_and(|hash| !was_own && known.as_ref() != Some(hash))
    }

    /// Writes the object's hash into its annotations, and the record of it.
    pub fn settle(self, own: &mut Annotations, computed: &Computed, at: Generations) {
        let mut record = Record::read_from(own);
        let (found, past) = (self.found(own).cloned(), record.template(&computed.same).cloned());
        // A record of an earlier generation than was judged is an old copy, or Karpenter has led since. One of a later generation,
        // and one that lacks the object as it was judged, are of another.
        let is_trusted = !record.entries.is_empty()
            && record.of == computed.of
            && (at.judged..=at.now.max(at.judged)).contains(&record.generation)
            && (past.is_some() || !at.are_same());
        let mut entry = past.unwrap_or_else(|| {
            let there = found.clone().filter(|_| at.are_same());
            let standing = there.unwrap_or_else(|| computed.fresh.clone());
            Entry { computed: computed.same.clone(), standing, ..Entry::default() }
        });
        // A hash that stood here for an earlier template is no news, whoever brings it back.
        if let Some(hash) = found.filter(|hash| *hash != entry.standing && !record.has_standing(hash)) {
            entry.accept(&hash);
        }
        if is_trusted {
            record.entries.retain(|one| one.computed != entry.computed);
        } else {
            entry.any = true;
            record.entries.clear();
        }
        own.extend(self.stamp(&entry.standing));
        record.entries.insert(0, entry);
        let record = Record { of: computed.of.clone(), generation: at.now, ..record };
        own.insert(COMPUTED_HASH.to_owned(), record.written());
    }
}
