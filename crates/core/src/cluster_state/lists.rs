//! Lists that begin and end: they show objects that are gone though no watch has said so, and versions that are not to be
//! believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{ClusterState, Table, WatchedKind, each};

impl ClusterState {
    pub fn not_listed(&self) -> impl Iterator<Item = WatchedKind> {
        WatchedKind::ALL.into_iter().filter(|kind| !self.listed.contains(kind))
    }

    pub fn list_begins(&mut self, kind: WatchedKind) {
        self.listing.insert(kind, BTreeSet::new());
        self.doubt_versions(kind);
    }

    /// The coming list is what the API server holds, even if that was restored to an earlier state: objects that were gone
    /// may be there again, and as they were. Claims keep their versions, because writes rest on them, and so do pods, which
    /// are many: each of these is doubted until it is told again.
    pub(super) fn doubt_versions(&mut self, kind: WatchedKind) {
        let any = |meta: &mut ObjectMeta| meta.resource_version = None;
        match kind {
            WatchedKind::Node => each(&mut self.now.nodes, |node| node.resource_version = None),
            WatchedKind::NodePool => each(&mut self.now.pools, |pool| any(&mut pool.metadata)),
            WatchedKind::NodeClass => each(&mut self.now.classes, |class| any(&mut class.metadata)),
            WatchedKind::NodeClaim => drop(self.doubted.insert(kind, self.now.claims.keys().cloned().collect())),
            WatchedKind::Pod => drop(self.doubted.insert(kind, self.now.pods.keys().cloned().collect())),
            _ => return,
        }
        self.buried.remove(&kind);
    }

    /// An object is gone: an answer to a write of ours that arrives late does not bring it back.
    pub(super) fn remember(&mut self, kind: WatchedKind, uid: Option<&str>) {
        self.buried.entry(kind).or_default().remember(uid);
    }

    /// A claim that was known to be gone is there all the same: an API server that was restored has it.
    pub fn is_there(&mut self, claim: &ObjectMeta) {
        if let (Some(tombstones), Some(uid)) = (self.buried.get_mut(&WatchedKind::NodeClaim), &claim.uid) {
            tombstones.open(uid);
        }
    }

    /// True if the object, by its uid, is known to be gone.
    pub(super) fn is_buried(&self, kind: WatchedKind, meta: &ObjectMeta) -> bool {
        self.buried.get(&kind).is_some_and(|tombstones| tombstones.hold(meta))
    }

    /// The list is complete: objects that were not in it, nor written since it began, are gone.
    pub fn list_ends(&mut self, kind: WatchedKind) {
        self.listed.insert(kind);
        self.doubted.remove(&kind);
        let Some(seen) = self.listing.remove(&kind) else { return };
        match kind {
            WatchedKind::Pod => {
                for uid in missing(self.now.pods.keys(), &seen) {
                    self.delete_pod(&uid);
                }
            }
            WatchedKind::Node => {
                for name in missing(self.now.nodes.keys(), &seen) {
                    self.delete_node(&name, None);
                }
                self.forget_moves(|node| !seen.contains(node));
            }
            WatchedKind::NodeClaim => {
                for name in missing(self.now.claims.keys(), &seen) {
                    if self.now.claims.get(&name).is_some_and(|entry| !entry.is_planned()) {
                        self.delete_claim(&name, None);
                    }
                }
            }
            WatchedKind::NodePool => {
                for name in missing(self.now.pools.keys(), &seen) {
                    self.delete_pool(&name, None);
                }
            }
            WatchedKind::NodeClass => retain(&mut self.now.classes, |name, _| seen.contains(name)),
            WatchedKind::DaemonSet => retain(&mut self.now.daemon_sets, |name, _| seen.contains(name)),
            WatchedKind::PodDisruptionBudget => retain(&mut self.now.budgets, |name, _| seen.contains(name)),
            kept => self.stored_list_ends(kept, &seen),
        }
        self.forget_unreadable_but(kind, &seen);
        self.look_who_leaves();
    }

    /// An object is there and is applied now: it counts as readable unless the contrary is said afterwards.
    pub(super) fn saw(&mut self, kind: WatchedKind, key: &str) {
        self.forget_unreadable(kind, key);
        if let Some(seen) = self.listing.get_mut(&kind) {
            seen.insert(key.to_owned());
        }
    }
}

/// True if an object appears for the first time since a list began.
pub(super) fn is_doubted(doubted: &mut BTreeMap<WatchedKind, BTreeSet<String>>, kind: WatchedKind, key: &str) -> bool {
    doubted.get_mut(&kind).is_some_and(|keys| keys.remove(key))
}

/// Keys of a table that a list did not have.
pub(super) fn missing<'a>(known: impl Iterator<Item = &'a String>, seen: &BTreeSet<String>) -> Vec<String> {
    known.filter(|key| !seen.contains(*key)).cloned().collect()
}

/// Keeps the entries of a table for which `keep` is true; a table that stays as it is is not copied.
pub(super) fn retain<V>(table: &mut Table<V>, keep: impl Fn(&str, &V) -> bool) {
    if table.iter().any(|(key, value)| !keep(key, value)) {
        Arc::make_mut(table).retain(|key, value| keep(key, value));
    }
}
