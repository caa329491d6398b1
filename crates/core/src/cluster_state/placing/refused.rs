//! Claims on which an instance is written that is not theirs (`crate::ownership`): nothing is planned on them, no budget and no
//! limit counts them, and the Node of that instance is not theirs.

use std::sync::Arc;

use crate::cluster_state::{ClusterState, Snapshot};

impl ClusterState {
    /// Sets whether the instance that is written on a claim is refused as not its own. Answers true if that is news.
    pub fn refuse(&mut self, claim: &str, refused: bool) -> bool {
        if self.now.refused.contains(claim) == refused {
            return false;
        }
        let all = Arc::make_mut(&mut self.now.refused);
        if refused {
            all.insert(claim.to_owned());
        } else {
            all.remove(claim);
        }
        self.look_who_leaves();
        true
    }

    /// The term is over: the next leader judges anew.
    pub fn refuse_none(&mut self) {
        if !self.now.refused.is_empty() {
            self.now.refused = Arc::default();
            self.look_who_leaves();
        }
    }
}

impl Snapshot {
    /// True if the instance that is written on a claim is known not to be the claim's.
    #[must_use]
    pub fn is_refused(&self, claim: &str) -> bool {
        !self.refused.is_empty() && self.refused.contains(claim)
    }
}
