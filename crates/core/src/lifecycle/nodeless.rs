//! NodeClaims that have registered and whose Nodes are gone: the time since then, and whether one may be given up for it
//! (docs/decisions/026). Times are monotonic.

use std::collections::BTreeMap;
use std::time::Duration;

use super::liveness::NODE;
use crate::collection::{WINDOW, bound};

/// Claims without Nodes, by name, and the time since when.
#[derive(Clone, Debug, Default)]
pub struct Nodeless {
    since: BTreeMap<String, Duration>,
    /// Claims that were given up within [`WINDOW`], and the time.
    given_up: BTreeMap<String, Duration>,
    /// Time of the last report that too many are gone.
    reported: Option<Duration>,
}

/// The verdict on a claim that has been without its Node for [`NODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodelessVerdict {
    /// Give it up, if the API server has no such Node.
    GiveUp,
    /// Do not give it up now.
    Wait,
    /// More claims are without their Nodes than may be: the cause may be the list of Nodes. None is given up, and an event
    /// reports it.
    TooMany {
        /// Claims that are without their Nodes for too long.
        claims: usize,
        /// Number of claims that may be.
        bound: usize,
    },
}

impl Nodeless {
    /// A claim has no Node now; answers the time for which it has had none.
    pub fn lasts(&mut self, claim: &str, now: Duration) -> Duration {
        now.saturating_sub(*self.since.entry(claim.to_owned()).or_insert(now))
    }

    /// The claim has a Node, needs none or is gone.
    pub fn ends(&mut self, claim: &str) {
        self.since.remove(claim);
    }

    /// Decides whether a claim may be given up; `all` is the number of claims. A claim that may be counts as given up.
    pub fn judge(&mut self, claim: &str, all: usize, now: Duration) -> NodelessVerdict {
        self.given_up.retain(|_, when| now.saturating_sub(*when) < WINDOW);
        let (claims, bound) =
            (self.since.values().filter(|since| now.saturating_sub(**since) >= NODE).count(), bound(all));
        if claims > bound {
            if self.reported.is_some_and(|reported| now.saturating_sub(reported) < WINDOW) {
                return NodelessVerdict::Wait;
            }
            self.reported = Some(now);
            return NodelessVerdict::TooMany { claims, bound };
        }
        if self.given_up.len() >= bound && !self.given_up.contains_key(claim) {
            return NodelessVerdict::Wait;
        }
        self.given_up.insert(claim.to_owned(), now);
        NodelessVerdict::GiveUp
    }

    /// The claim was not given up after all.
    pub fn kept(&mut self, claim: &str) {
        self.given_up.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn gone(count: usize) -> Nodeless {
        let mut nodeless = Nodeless::default();
        for n in 0..count {
            nodeless.lasts(&n.to_string(), at(0));
        }
        nodeless
    }

    #[test]
    fn claim_is_nodeless_from_first_sighting_until_it_has_a_node() {
        let mut nodeless = Nodeless::default();
        assert_eq!((nodeless.lasts("a", at(10)), nodeless.lasts("a", at(310))), (at(0), at(300)));
        nodeless.ends("a");
        assert_eq!(nodeless.lasts("a", at(400)), at(0));
    }

    #[test]
    fn five_are_given_up_in_ten_minutes_and_a_kept_one_makes_room() {
        let mut nodeless = gone(5);
        assert!((0..5).all(|n| nodeless.judge(&n.to_string(), 20, at(300)) == NodelessVerdict::GiveUp));
        assert_eq!(nodeless.judge("0", 20, at(301)), NodelessVerdict::GiveUp, "again, as the first time failed");
        (0..5).for_each(|n| nodeless.ends(&n.to_string()));
        nodeless.lasts("late", at(10));
        assert_eq!(nodeless.judge("late", 20, at(310)), NodelessVerdict::Wait);
        nodeless.kept("4");
        assert_eq!(nodeless.judge("late", 20, at(310)), NodelessVerdict::GiveUp);
        nodeless.lasts("later", at(301));
        assert_eq!(nodeless.judge("later", 20, at(601)), NodelessVerdict::Wait);
        assert_eq!(nodeless.judge("later", 20, at(901)), NodelessVerdict::GiveUp);
    }

    #[test]
    fn too_many_nodeless_claims_are_kept_and_told_every_ten_minutes() {
        let mut nodeless = gone(6);
        assert_eq!(nodeless.judge("0", 20, at(300)), NodelessVerdict::TooMany { claims: 6, bound: 5 });
        assert_eq!(nodeless.judge("1", 20, at(300)), NodelessVerdict::Wait);
        assert_eq!(nodeless.judge("1", 20, at(900)), NodelessVerdict::TooMany { claims: 6, bound: 5 });
        assert_eq!(nodeless.judge("1", 120, at(901)), NodelessVerdict::GiveUp, "5 % of these");
    }
}
