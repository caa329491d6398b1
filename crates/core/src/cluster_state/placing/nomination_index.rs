//! Nominations by pod, and the pods by target: a node that comes up is asked for its own pods, and not all pods for this node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster_state::{Nomination, NominationTarget, SharedMap};

/// The places at which pods are expected, by the pods' uids.
#[derive(Clone, Debug, Default)]
pub struct Nominations {
    by_pod: SharedMap<Nomination>,
    by_target: BTreeMap<NominationTarget, Arc<BTreeSet<String>>>,
    /// Pods whose status does not name the node of the claim at which they are expected, by the claim's name.
    others: BTreeMap<String, BTreeSet<String>>,
}

impl Nominations {
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&Nomination> {
        self.by_pod.get(uid)
    }

    #[must_use]
    pub fn contains_key(&self, uid: &str) -> bool {
        self.by_pod.contains_key(uid)
    }

    /// Uids of all pods that are expected anywhere, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.by_pod.keys()
    }

    /// All nominations, by the uids of their pods.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Nomination)> {
        self.by_pod.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// All targets at which pods are expected, in their order.
    pub fn targets(&self) -> impl Iterator<Item = &NominationTarget> {
        self.by_target.keys()
    }

    /// Uids of the pods expected at a target, in their order.
    pub fn pods_at(&self, target: &NominationTarget) -> impl Iterator<Item = &String> {
        self.by_target.get(target).into_iter().flat_map(|pods| pods.iter())
    }

    /// The target as it is kept here with the pods expected at it; `None` if there are none.
    pub(super) fn entry_at(&self, target: &NominationTarget) -> Option<(&NominationTarget, &BTreeSet<String>)> {
        self.by_target.get_key_value(target).map(|(target, pods)| (target, &**pods))
    }

    /// True if the status of a pod that is expected at a claim does not name the claim's node.
    pub(in crate::cluster_state) fn has_others_at(&self, claim: &str) -> bool {
        self.others.contains_key(claim)
    }

    /// True if a pod is among these.
    pub(super) fn is_other_at(&self, claim: &str, uid: &str) -> bool {
        self.others.get(claim).is_some_and(|pods| pods.contains(uid))
    }

    /// Takes note of what the status of a pod says that is expected at a claim.
    pub(super) fn note_other(&mut self, claim: &str, uid: &str, is_other: bool) {
        if is_other {
            self.others.entry(claim.to_owned()).or_default().insert(uid.to_owned());
        } else if let Some(pods) = self.others.get_mut(claim) {
            pods.remove(uid);
            if pods.is_empty() {
                self.others.remove(claim);
            }
        }
    }

    /// Expects a pod at a place, and nowhere else.
    pub(in crate::cluster_state) fn insert(&mut self, uid: String, nomination: Nomination) {
        self.remove(&uid);
        Arc::make_mut(self.by_target.entry(nomination.target.clone()).or_default()).insert(uid.clone());
        self.by_pod.insert(uid, nomination);
    }

    /// Ends the expectation of a pod. Answers the nomination that it had.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Nomination> {
        let nomination = self.by_pod.remove(uid)?;
        if let NominationTarget::Claim(claim) = &nomination.target {
            self.note_other(claim, uid, false);
        }
        if let Some(pods) = self.by_target.get_mut(&nomination.target) {
            Arc::make_mut(pods).remove(uid);
            if pods.is_empty() {
                self.by_target.remove(&nomination.target);
            }
        }
        Some(nomination)
    }

    /// Ends the expectations at a target. Answers the pods that had them.
    pub(super) fn remove_target(&mut self, target: &NominationTarget) -> Arc<BTreeSet<String>> {
        if let NominationTarget::Claim(claim) = target {
            self.others.remove(claim);
        }
        let pods = self.by_target.remove(target).unwrap_or_default();
        pods.iter().for_each(|uid| drop(self.by_pod.remove(uid)));
        pods
    }

    /// The time of all pods expected at a target ends then, and is counted from this number of kube-scheduler's signs of life.
    pub(super) fn renew(&mut self, target: &NominationTarget, until: Duration, heard: u64) {
        for uid in self.by_target.get(target).into_iter().flat_map(|pods| pods.iter()) {
            if let Some(nomination) = self.by_pod.get_mut(uid) {
                (nomination.until, nomination.heard) = (until, heard);
            }
        }
    }

    /// The same for one pod.
    pub(super) fn renew_pod(&mut self, uid: &str, until: Duration, heard: u64) {
        if let Some(nomination) = self.by_pod.get_mut(uid) {
            (nomination.until, nomination.heard) = (until, heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(claim: &str) -> Nomination {
        Nomination::for_ever(NominationTarget::Claim(claim.to_owned()))
    }

    fn pods_at(all: &Nominations, claim: &str) -> Vec<String> {
        all.pods_at(&NominationTarget::Claim(claim.to_owned())).cloned().collect()
    }

    #[test]
    fn pod_is_found_at_the_one_target_that_it_is_expected_at() {
        let mut all = Nominations::default();
        for (uid, claim) in [("b", "one"), ("a", "one"), ("c", "two"), ("b", "two")] {
            all.insert(uid.to_owned(), at(claim));
        }
        assert_eq!((pods_at(&all, "one"), pods_at(&all, "two")), (vec!["a".into()], vec!["b".into(), "c".into()]));
        assert_eq!(all.remove("c"), Some(at("two")));
        assert_eq!((all.remove("c"), pods_at(&all, "two"), all.len()), (None, vec!["b".into()], 2));
        all.renew(&NominationTarget::Claim("two".into()), Duration::from_secs(7), 3);
        assert_eq!(all.get("b").map(|one| (one.until, one.heard)), Some((Duration::from_secs(7), 3)));
        assert_eq!(all.get("a"), Some(&at("one")), "expected elsewhere");
        assert_eq!(all.remove_target(&NominationTarget::Claim("two".into())).len(), 1);
        assert!(!all.contains_key("b") && all.entry_at(&NominationTarget::Claim("two".into())).is_none());
        assert_eq!(all.remove("a"), Some(at("one")));
        assert!(all.is_empty() && all.by_target.is_empty());
    }

    #[test]
    fn pod_naming_another_node_is_known_until_expected_elsewhere() {
        let mut all = Nominations::default();
        for uid in ["a", "b"] {
            all.insert(uid.to_owned(), at("one"));
            all.note_other("one", uid, true);
        }
        all.note_other("one", "a", false);
        assert!(all.has_others_at("one") && all.is_other_at("one", "b") && !all.is_other_at("one", "a"));
        all.insert("b".to_owned(), at("two"));
        assert!(!all.has_others_at("one") && !all.has_others_at("two"));
        all.note_other("two", "b", true);
        all.remove_target(&NominationTarget::Claim("two".into()));
        assert!(all.others.is_empty());
    }
}
