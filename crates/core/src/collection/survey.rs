//! The findings of one pass: everything, or it is no pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The cluster that made an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceOwner {
    /// This cluster: its UID is a tag.
    Ours,
    /// Another cluster, whatever the name that it goes by.
    Foreign,
    /// No UID is on it.
    Unmarked,
}

/// An instance under this cluster's name that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenInstance {
    /// Id of the instance, `i-…`.
    pub id: String,
    /// The cluster that made it.
    pub owner: InstanceOwner,
    /// Time since its launch; `None` if the cloud does not say.
    pub age: Option<Duration>,
    pub token: Option<String>,
}

/// A claim as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenClaim {
    /// Name of the NodeClaim.
    pub name: String,
    /// `metadata.uid` of the NodeClaim.
    pub uid: String,
    /// Its instance's id, once it has one.
    pub instance: Option<String>,
    /// The token of its latest launch.
    pub token: Option<String>,
    pub deleting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNode {
    /// Its instance's id.
    pub instance: String,
    /// True if its kubelet says Ready.
    pub ready: bool,
    /// True if it was registered for a claim.
    pub registered: bool,
    pub deleting: bool,
}

/// One pass: the cloud was listed first, the claims after it, both to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Time at which the pass began, on the monotonic clock.
    pub at: Duration,
    /// All instances under this cluster's name that are not ending.
    pub instances: Vec<SeenInstance>,
    pub claims: Vec<SeenClaim>,
    pub nodes: Vec<SeenNode>,
    /// Instances that are ending or have ended, as the cloud says, each with the time since then; zero if the cloud gives no
    /// time.
    pub ended: BTreeMap<String, Duration>,
    /// True if an operator allows everything to be collected now.
    pub released: bool,
}

impl Survey {
    /// The cluster's size: its instances, or its claims if they are more.
    #[must_use]
    pub fn size(&self) -> usize {
        let ours = self.instances.iter().filter(|one| one.owner == InstanceOwner::Ours).count();
        ours.max(self.claims.len())
    }

    /// The age of an instance; one that does not say has just been launched.
    #[must_use]
    pub fn age(&self, id: &str) -> Option<Duration> {
        self.instances.iter().find(|one| one.id == id)?.age
    }

    /// Instances that no claim has, or is about to have.
    pub(super) fn without_claim(&self) -> impl Iterator<Item = &SeenInstance> {
        let had: BTreeSet<&str> = self.claims.iter().filter_map(|one| one.instance.as_deref()).collect();
        let launching = self.claims.iter().filter(|one| one.instance.is_none());
        let awaited: BTreeSet<&str> = launching.filter_map(|one| one.token.as_deref()).collect();
        self.instances.iter().filter(move |one| {
            !had.contains(one.id.as_str()) && !one.token.as_deref().is_some_and(|token| awaited.contains(token))
        })
    }

    /// Instances without a claim that this cluster made.
    pub(super) fn orphans(&self) -> Vec<&SeenInstance> {
        self.without_claim().filter(|one| one.owner == InstanceOwner::Ours).collect()
    }

    /// Claims whose instance is not there and whose Node is gone or not Ready, with the instance's id. Claims that are being
    /// deleted are left to the terminator.
    fn claims_without_instance(&self) -> impl Iterator<Item = (&SeenClaim, &str)> {
        let alive: BTreeSet<&str> = self.instances.iter().map(|one| one.id.as_str()).collect();
        let ready: BTreeMap<&str, bool> = self.nodes.iter().map(|one| (one.instance.as_str(), one.ready)).collect();
        let staying = self.claims.iter().filter(|one| !one.deleting);
        let launched = staying.filter_map(|one| Some((one, one.instance.as_deref()?)));
        launched.filter(move |(_, id)| !alive.contains(id) && !ready.get(id).copied().unwrap_or(false))
    }

    /// Ids of instances that the cloud has still to be asked about: whether they have ended.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.claims_without_instance().map(|(_, id)| id)
    }

    /// Claims whose instance has ended, as the cloud says, by name and uid: a fact, which needs no brake.
    pub(super) fn ended_claims(&self) -> Vec<(String, String)> {
        let ended = self.claims_without_instance().filter(|(_, id)| self.ended.contains_key(*id));
        ended.map(|(one, _)| (one.name.clone(), one.uid.clone())).collect()
    }

    /// Claims whose instance is missing, though the cloud does not say that it has ended.
    pub(super) fn bereft_claims(&self) -> impl Iterator<Item = &SeenClaim> {
        self.claims_without_instance().filter(|(_, id)| !self.ended.contains_key(*id)).map(|(one, _)| one)
    }
}
