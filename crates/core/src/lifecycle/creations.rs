//! NodeClaims that this term has created: a request to create one may be held on its way and done long after its claim has come
//! and gone. What it makes then is nobody's: the pods have been packed anew. Times are monotonic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So long after a claim has gone a request for it is no longer on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(600);

/// The claims of a term, by name.
#[derive(Clone, Debug, Default)]
pub struct Creations(BTreeMap<String, Creation>);

#[derive(Clone, Debug, Default)]
struct Creation {
    /// As which it has been seen.
    uids: BTreeSet<String>,
    /// Since when it is gone.
    gone: Option<Duration>,
}

impl Creations {
    /// A claim is about to be created.
    pub fn begin(&mut self, name: &str, now: Duration) {
        self.0.retain(|_, one| one.gone.is_none_or(|gone| now.saturating_sub(gone) < ON_ITS_WAY));
        self.0.insert(name.to_owned(), Creation::default());
    }

    /// Its launch goes on with this claim.
    pub fn seen(&mut self, name: &str, uid: &str) {
        if let Some(one) = self.0.get_mut(name).filter(|one| one.gone.is_none()) {
            one.uids.insert(uid.to_owned());
        }
    }

    /// Nobody knows whether it was created: whatever has come of that is another's, also what has been seen.
    pub fn give_up(&mut self, name: &str) {
        if let Some(one) = self.0.get_mut(name) {
            one.uids.clear();
        }
    }

    /// It is gone, or given up.
    pub fn gone(&mut self, name: &str, now: Duration) {
        if let Some(one) = self.0.get_mut(name) {
            one.gone = Some(one.gone.unwrap_or(now));
        }
    }

    /// Whether a claim of this name has been created here, or is to be. Forgotten ten minutes after it has gone.
    #[must_use]
    pub fn has_begun(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a claim has been made by a request that was done after the claim that it was meant to make had gone. One that is
    /// back out of a backup is the same, not another.
    #[must_use]
    pub fn is_late(&self, name: &str, uid: &str) -> bool {
        self.0.get(name).is_some_and(|one| one.gone.is_some() && !one.uids.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn another_claim_under_the_name_of_one_that_has_gone_is_late() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.seen("a", "1");
        assert!(!made.is_late("a", "1") && !made.is_late("a", "2"), "it is there, or not seen yet");
        made.gone("a", at(10));
        assert!(made.is_late("a", "2"));
        assert!(!made.is_late("a", "1"), "it is back out of a backup");
        assert!(!made.is_late("b", "2"), "somebody else's");
    }

    #[test]
    fn a_claim_whose_creation_was_given_up_is_late_whichever_it_is() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.gone("a", at(10));
        made.seen("a", "1");
        assert!(made.is_late("a", "1"));
    }

    #[test]
    fn what_was_seen_of_a_creation_that_nobody_has_answered_is_late() {
        let mut made = Creations::default();
        made.begin("a", at(0));
        made.seen("a", "1");
        made.give_up("a");
        made.gone("a", at(10));
        made.seen("a", "1");
        assert!(made.is_late("a", "1") && made.has_begun("a"));
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
        assert!(made.is_late("a", "1") && made.has_begun("a"));
        made.begin("d", at(610));
        assert!(!made.is_late("a", "1") && !made.has_begun("a") && made.has_begun("d"), "{made:?}");
    }
}
