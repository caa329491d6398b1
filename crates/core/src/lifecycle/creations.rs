//! NodeClaims that this term has created: a request to create one may be held on its way and done long after its claim has come
//! and gone. The claim that it makes then has no owner: the pods have been packed anew. Times are monotonic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_api::names::annotations::{LAUNCH_TOKEN, TERM};
use dovetail_api::v1::NodeClaim;

/// Time after a claim has gone for which a request for it may still be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(600);

/// The claims of a term, by name.
#[derive(Clone, Debug, Default)]
pub struct Creations(BTreeMap<String, Creation>);

#[derive(Clone, Debug, Default)]
struct Creation {
    /// The uids under which it has been seen.
    uids: BTreeSet<String>,
    /// Time since which it is gone.
    gone: Option<Duration>,
}

impl Creations {
    /// A claim is about to be created.
    pub fn begin(&mut self, name: &str, now: Duration) {
        self.0.retain(|_, one| one.gone.is_none_or(|gone| now.saturating_sub(gone) < ON_ITS_WAY));
        self.0.insert(name.to_owned(), Creation::default());
    }

    /// Its launch continues with this claim.
    pub fn seen(&mut self, name: &str, uid: &str) {
        if let Some(one) = self.0.get_mut(name).filter(|one| one.gone.is_none()) {
            one.uids.insert(uid.to_owned());
        }
    }

    /// It is unknown whether the claim was created: any claim of that name is another's from now on, also one that has been seen.
    pub fn give_up(&mut self, name: &str) {
        if let Some(one) = self.0.get_mut(name) {
            one.uids.clear();
        }
    }

    /// The claim is gone, or given up.
    pub fn gone(&mut self, name: &str, now: Duration) {
        if let Some(one) = self.0.get_mut(name) {
            one.gone = Some(one.gone.unwrap_or(now));
        }
    }

    /// True if a claim for which no launch has begun was made by a request of this term that was done after the claim it was
    /// meant to make had gone. A claim that is back out of a backup is the same, not another.
    #[must_use]
    pub fn is_late(&self, claim: &NodeClaim, term: u64) -> bool {
        let meta = &claim.metadata;
        made_in(claim) == Some(term)
            && self.is_late_as(meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default())
    }

    /// True if a claim for which no launch has begun was made by an earlier leader, or in this term by a request that is no
    /// longer remembered here: its pods may have been planned anew before it came.
    #[must_use]
    pub fn is_left_over(&self, claim: &NodeClaim, term: u64) -> bool {
        made_in(claim).is_some_and(|made| made <= term)
            && !self.has_begun(claim.metadata.name.as_deref().unwrap_or_default())
    }

    /// True if the claim was begun here; forgotten ten minutes after it has gone.
    fn has_begun(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn is_late_as(&self, name: &str, uid: &str) -> bool {
        self.0.get(name).is_some_and(|one| one.gone.is_some() && !one.uids.contains(uid))
    }
}

/// The term in which a claim without a launch token was made; `None` for a claim with a token, and for one that no leader of
/// ours has made.
fn made_in(claim: &NodeClaim) -> Option<u64> {
    let own = claim.metadata.annotations.as_ref()?;
    if own.contains_key(LAUNCH_TOKEN) { None } else { own.get(TERM)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn claim(name: &str, annotations: &serde_json::Value) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": "2", "annotations": annotations},
            "spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"}},
        }))
        .unwrap()
    }

    #[test]
    fn unbegun_claim_is_left_over_unless_own_or_of_nobody() {
        let mut made = Creations::default();
        made.begin("own", at(0));
        let left = |name: &str, annotations| made.is_left_over(&claim(name, &annotations), 7);
        for term in ["6", "7"] {
            assert!(left("a", json!({"dovetail.dev/term": term})) && !left("own", json!({"dovetail.dev/term": term})));
            assert!(!left("a", json!({"dovetail.dev/term": term, "dovetail.dev/launch-token": "dt-1"})));
        }
        for nobodys in [json!({}), json!({"dovetail.dev/term": "8"}), json!({"dovetail.dev/term": "x"})] {
            assert!(!left("a", nobodys));
        }
    }

    #[test]
    fn only_a_claim_of_this_term_that_nobody_launches_for_is_late() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.gone("a", at(1));
        let late = |annotations| made.is_late(&claim("a", &annotations), 7);
        assert!(late(json!({"dovetail.dev/term": "7"})));
        assert!(!late(json!({"dovetail.dev/term": "6"})) && !late(json!({})));
        assert!(!late(json!({"dovetail.dev/term": "7", "dovetail.dev/launch-token": "dt-1"})));
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn another_claim_under_the_name_of_one_that_has_gone_is_late() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.seen("a", "1");
        assert!(!made.is_late_as("a", "1") && !made.is_late_as("a", "2"), "it is there, or not seen yet");
        made.gone("a", at(10));
        assert!(made.is_late_as("a", "2"));
        assert!(!made.is_late_as("a", "1"), "it is back out of a backup");
        assert!(!made.is_late_as("b", "2"), "somebody else's");
    }

    #[test]
    fn a_claim_whose_creation_was_given_up_is_late_whichever_it_is() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.gone("a", at(10));
        made.seen("a", "1");
        assert!(made.is_late_as("a", "1"));
    }

    #[test]
    fn what_was_seen_of_a_creation_that_nobody_has_answered_is_late() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.seen("a", "1");
        made.give_up("a");
        made.gone("a", at(10));
        made.seen("a", "1");
        assert!(made.is_late_as("a", "1") && made.has_begun("a"));
    }

    #[test]
    fn names_are_forgotten_ten_minutes_after_their_claims() {
        let mut made = Creations::default();
        for name in ["a", "b"] {
            made.begin(name, at(0));
        }
        made.gone("a", at(10));
        made.gone("a", at(300));
        made.begin("c", at(609));
        assert!(made.is_late_as("a", "1") && made.has_begun("a"));
        made.begin("d", at(610));
        assert!(!made.is_late_as("a", "1") && !made.has_begun("a") && made.has_begun("d"), "{made:?}");
    }
}
