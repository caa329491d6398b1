//! Belief in a listing: an empty answer after a full one is suspect, not a fact.

use std::collections::{BTreeMap, BTreeSet};

use super::{CollectionNotice, SeenInstance, Survey};

/// The listing that was believed last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Suspicion {
    /// True if the cloud's last believed listing had an instance.
    had_instances: bool,
    /// Claims of the last believed listing, by uid: true for those on their way out.
    had_claims: BTreeMap<String, bool>,
    /// Orphans of suspect listings.
    held: BTreeSet<String>,
}

impl Suspicion {
    /// A claim has been seen on its way out.
    pub fn leaves(&mut self, uid: &str) {
        if let Some(deleting) = self.had_claims.get_mut(uid) {
            *deleting = true;
        }
    }

    /// True if an orphan is held because it has been seen in a suspect listing.
    pub fn holds(&self, id: &str) -> bool {
        self.held.contains(id)
    }

    /// The reasons that the listing is not believed. Empty if it is; then later ones are compared with it.
    pub fn doubts(&mut self, survey: &Survey, orphans: &[&SeenInstance]) -> Vec<CollectionNotice> {
        if survey.released {
            self.held.clear();
        } else {
            let doubts: Vec<CollectionNotice> =
                self.of_cloud(survey).into_iter().chain(self.of_claims(survey, orphans)).collect();
            if !doubts.is_empty() {
                self.held.extend(orphans.iter().map(|one| one.id.clone()));
                return doubts;
            }
        }
        self.held.retain(|id| orphans.iter().any(|one| one.id == *id));
        self.had_instances = !survey.instances.is_empty();
        self.had_claims = survey.claims.iter().map(|one| (one.uid.clone(), one.deleting)).collect();
        Vec::new()
    }

    /// The cloud lists nothing though claims have instances of which it does not say that they have ended, and though
    /// it listed some before or a kubelet of theirs is at work.
    fn of_cloud(&self, survey: &Survey) -> Option<CollectionNotice> {
        if !survey.instances.is_empty() {
            return None;
        }
        let staying = survey.claims.iter().filter(|one| !one.deleting);
        let missing: BTreeSet<&str> = staying.filter_map(|one| one.instance.as_deref()).collect();
        let missing: BTreeSet<&str> = missing.into_iter().filter(|id| !survey.ended.contains_key(*id)).collect();
        let at_work = survey.nodes.iter().any(|node| node.ready && missing.contains(node.instance.as_str()));
        let suspect = !missing.is_empty() && (self.had_instances || at_work);
        suspect.then_some(CollectionNotice::CloudSuspect { claims: missing.len() })
    }

    /// The API server lists no claim though some were there that were not on their way out; or more registered Nodes
    /// are without a claim than with one, which a new leader can tell too.
    fn of_claims(&self, survey: &Survey, orphans: &[&SeenInstance]) -> Option<CollectionNotice> {
        if orphans.is_empty() {
            return None;
        }
        let vanished = survey.claims.is_empty() && self.had_claims.values().any(|deleting| !deleting);
        let orphaned: BTreeSet<&str> = orphans.iter().map(|one| one.id.as_str()).collect();
        let claimed: BTreeSet<&str> = survey.claims.iter().filter_map(|one| one.instance.as_deref()).collect();
        let registered = || survey.nodes.iter().filter(|node| node.registered && !node.deleting);
        let without = registered().filter(|node| orphaned.contains(node.instance.as_str())).count();
        let with = registered().filter(|node| claimed.contains(node.instance.as_str())).count();
        (vanished || without > with).then_some(CollectionNotice::ClaimsSuspect { instances: orphans.len() })
    }
}
