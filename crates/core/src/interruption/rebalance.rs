//! Which recommendations to rebalance are followed: they come in waves, and each that is followed replaces a node.

use std::collections::BTreeSet;

use super::Kind;
use crate::cluster_state::{ClaimEntry, Snapshot};
use crate::interruption::Notice;

/// Of so many nodes one may follow a recommendation at a time, and so many in any case.
const ONE_OF: usize = 10;
const LEAST: usize = 5;

/// Claims, by uid, that follow a recommendation, some of them before that is written on them.
#[derive(Clone, Debug, Default)]
pub struct Rebalancing {
    following: BTreeSet<String>,
}

impl Rebalancing {
    /// Whether a claim follows a recommendation from now on: not while a tenth of the nodes follows one already, and not where
    /// something else is announced of it.
    pub fn follow(&mut self, claim: &ClaimEntry, snapshot: &Snapshot) -> bool {
        if Notice::on(&claim.claim).is_some() {
            return false;
        }
        let follows = |entry: &&ClaimEntry| {
            let written = Notice::on(&entry.claim).is_some_and(|one| one.kind == Kind::RebalanceRecommendation);
            written || self.following.contains(&entry.facts.uid)
        };
        let there = snapshot.claims.values().map(AsRef::as_ref).filter(follows);
        self.following = there.map(|entry| entry.facts.uid.clone()).collect();
        let room = snapshot.claims.len().div_ceil(ONE_OF).max(LEAST);
        self.following.len() < room && self.following.insert(claim.facts.uid.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use dovetail_api::v1::NodeClaim;
    use serde_json::json;

    use super::*;
    use crate::cluster_state::ClusterState;

    /// So many claims, `c0` and on; those from `noticed` on have a notice of that kind.
    fn claims(count: usize, noticed: usize, notice: &str) -> Snapshot {
        let mut state = ClusterState::new();
        for n in 0..count {
            let annotations = if n >= noticed { json!({"dovetail.dev/interruption": notice}) } else { json!({}) };
            let claim: NodeClaim = serde_json::from_value(json!({"metadata": {"name": format!("c{n}"),
                "uid": format!("u{n}"), "resourceVersion": "1", "annotations": annotations},
                "spec": {"nodeClassRef": {"group": "g", "kind": "EC2NodeClass", "name": "d"}, "requirements": []}}))
            .unwrap();
            state.apply_claim(Arc::new(claim));
        }
        state.snapshot()
    }

    fn followed(one: &mut Rebalancing, snapshot: &Snapshot) -> usize {
        let mut count = 0;
        for claim in snapshot.claims.values() {
            count += usize::from(one.follow(claim, snapshot));
        }
        count
    }

    #[test]
    fn of_a_wave_a_tenth_of_the_nodes_is_followed_and_five_in_any_case() {
        for (nodes, expected) in [(3, 3), (20, 5), (100, 10), (101, 11)] {
            let snapshot = claims(nodes, nodes, "");
            let mut one = Rebalancing::default();
            assert_eq!(followed(&mut one, &snapshot), expected, "{nodes}");
            assert_eq!(followed(&mut one, &snapshot), 0, "{nodes}: again");
        }
    }

    #[test]
    fn what_is_written_on_claims_counts_and_who_is_gone_does_not() {
        let notice = "rebalance_recommendation 2026-03-02T10:15:00Z";
        let snapshot = claims(20, 17, notice);
        assert!(Notice::on(&snapshot.claims["c19"].claim).is_some());
        let mut one = Rebalancing::default();
        assert_eq!(followed(&mut one, &snapshot), 2, "three follow already");
        assert_eq!(followed(&mut one, &claims(5, 5, "")), 3, "of the five that are left two follow");
    }
}
