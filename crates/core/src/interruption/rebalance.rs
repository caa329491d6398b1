//! Recommendations to rebalance that are followed: they come in waves, and each that is followed replaces a node.

use std::collections::BTreeSet;

use dovetail_api::v1::NodeClaim;

use super::{InterruptionKind, InterruptionNotice};

/// One node of this many may follow a recommendation at a time; `LEAST` may in any case.
const ONE_OF: usize = 10;
const LEAST: usize = 5;

/// Claims, by uid, that follow a recommendation, some of them before that is written on them.
#[derive(Clone, Debug, Default)]
pub struct Rebalancing {
    following: BTreeSet<String>,
}

impl Rebalancing {
    /// True if a claim follows a recommendation from now on: not while a tenth of `all` claims follows one already, and not
    /// if something else is announced of it.
    pub fn follow<'c>(&mut self, claim: &NodeClaim, all: impl IntoIterator<Item = &'c NodeClaim>) -> bool {
        if InterruptionNotice::on(claim).is_some() {
            return false;
        }
        let (mut following, mut count) = (BTreeSet::new(), 0_usize);
        for one in all {
            count += 1;
            let written = InterruptionNotice::on(one)
                .is_some_and(|notice| notice.kind == InterruptionKind::RebalanceRecommendation);
            if written || self.following.contains(uid(one)) {
                following.insert(uid(one).to_owned());
            }
        }
        self.following = following;
        // The claim was to follow before and nothing is written on it: the write has failed, and its message has come again.
        let again = self.following.contains(uid(claim));
        let follows = again || self.following.len() < count.div_ceil(ONE_OF).max(LEAST);
        if follows {
            self.following.insert(uid(claim).to_owned());
        }
        follows
    }
}

fn uid(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// So many claims, `u0` and on; those from `noticed` on have a notice of that kind.
    fn claims(count: usize, noticed: usize, notice: &str) -> Vec<NodeClaim> {
        let claim = |n: usize| {
            let annotations = if n >= noticed { json!({"dovetail.dev/interruption": notice}) } else { json!({}) };
            let metadata = json!({"name": format!("c{n}"), "uid": format!("u{n}"), "annotations": annotations});
            let class = json!({"group": "g", "kind": "EC2NodeClass", "name": "d"});
            let claim = json!({"metadata": metadata, "spec": {"nodeClassRef": class, "requirements": []}});
            serde_json::from_value(claim).unwrap()
        };
        (0..count).map(claim).collect()
    }

    fn followed(one: &mut Rebalancing, all: &[NodeClaim]) -> usize {
        all.iter().map(|claim| usize::from(one.follow(claim, all))).sum()
    }

    #[test]
    fn tenth_of_a_wave_of_nodes_is_followed_and_at_least_five() {
        for (nodes, expected) in [(3, 3), (20, 5), (100, 10), (101, 11)] {
            let all = claims(nodes, nodes, "");
            let mut one = Rebalancing::default();
            assert_eq!(followed(&mut one, &all), expected, "{nodes}");
            assert_eq!(followed(&mut one, &all), expected, "{nodes}: the same, as nothing is written on them");
        }
    }

    #[test]
    fn what_is_written_on_claims_counts_and_who_is_gone_does_not() {
        let all = claims(20, 17, "rebalance_recommendation 2026-03-02T10:15:00Z");
        assert!(InterruptionNotice::on(&all[19]).is_some());
        let mut one = Rebalancing::default();
        assert_eq!(followed(&mut one, &all), 2, "three follow already");
        assert_eq!(followed(&mut one, &claims(5, 5, "")), 5, "the two, and three in the room of those that are gone");
    }
}
