//! Hashes on pools and classes, as annotations. The one that is written counts, not the one that would be computed: claims are
//! stamped with it, and drift by it.
//!
//! ```text
//! no hash, or of another version ──────────────────────► computed
//! Karpenter's, of this generation ─────────────────────► stays
//! ours, template as then, or of this generation ───────► stays
//! the generation is another, and what is computed too ─► computed
//! ```
//!
//! A hash of this generation that is not what is computed is no change of the object: a field that this release does not know,
//! an empty list, another certificate authority. Nothing drifts by that. [`COMPUTED_HASH`] has what was computed beside it, so
//! that the next change is found.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::{
    COMPUTED_HASH, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION, NODE_POOL_HASH, NODE_POOL_HASH_VERSION,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::was_own;

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

    /// The hash of the current version on an object that Dovetail has written, or has found there and computed its own beside it.
    #[must_use]
    pub fn known(self, own: &Annotations) -> Option<&str> {
        self.found(own).map(String::as_str).filter(|_| !self.is_foreign(own))
    }

    /// The hash on an object that is its own as it stands, given what is computed for it; `None` until the leader has written it.
    #[must_use]
    pub fn settled<'a>(self, metadata: &'a ObjectMeta, computed: &str) -> Option<&'a str> {
        let own = metadata.annotations.as_ref()?;
        self.known(own).filter(|_| of_record(own).is_some_and(|(ours, _)| ours == computed))
    }

    /// The hash for claims of an object as it stands: its own, or what is computed until the leader has written it.
    #[must_use]
    pub fn effective(self, metadata: &ObjectMeta, computed: String) -> String {
        self.settled(metadata, &computed).map(ToOwned::to_owned).unwrap_or(computed)
    }

    /// True if a program other than Dovetail has written the hash on an object.
    #[must_use]
    pub fn is_foreign(self, own: &Annotations) -> bool {
        let was_own = own.get(self.version).is_some_and(|version| was_own(version));
        own.get(self.hash).is_some_and(|hash| !was_own && of_record(own).is_none_or(|(_, known)| known != hash))
    }

    /// Writes the object's hash into its annotations. `same_generation` says that the object has not changed since its hash was
    /// written.
    pub fn settle(self, own: &mut Annotations, computed: &str, same_generation: bool) {
        let found = self.found(own).cloned();
        let as_then = self.known(own).is_some() && of_record(own).is_some_and(|(ours, _)| ours == computed);
        let hash = found.filter(|_| same_generation || as_then).unwrap_or_else(|| computed.to_owned());
        let record = if hash == computed { hash.clone() } else { format!("{computed} {hash}") };
        own.extend(self.stamp(&hash));
        own.insert(COMPUTED_HASH.to_owned(), record);
    }
}

/// The computed hash and the one that stood beside it, of [`COMPUTED_HASH`].
fn of_record(own: &Annotations) -> Option<(&str, &str)> {
    let record = own.get(COMPUTED_HASH)?;
    Some(record.split_once(' ').unwrap_or((record, record)))
}
