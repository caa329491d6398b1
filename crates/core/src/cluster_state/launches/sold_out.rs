//! Pods for whose launches EC2 has no capacity. Capacity that they merely prefer may be sold out for hours, and is asked for type
//! by type, ever larger: after a while they do without their preferences (docs/decisions/031).

use std::sync::Arc;
use std::time::Duration;

use crate::cluster_state::{ClusterState, Moment, NominationTarget, Snapshot};
use crate::pod::Pod;

/// Time for which EC2 may refuse what a pod prefers; after it the pod does without.
const LONGEST_PREFERENCE_WAIT: Duration = Duration::from_secs(15);
/// Longest time between two refusals that count as one run: much longer than a launch takes that EC2 throttles.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The time during which EC2 had nothing for the claims that a pod was expected on. Monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoldOutTime {
    /// Time of the first refusal.
    pub since: Duration,
    /// Time of the last refusal.
    pub last: Duration,
}

impl ClusterState {
    /// EC2 has no capacity for a claim: the pods expected on it have waited for it in vain.
    pub fn sold_out(&mut self, claim: &str, now: Duration) {
        let target = NominationTarget::Claim(claim.to_owned());
        let mut pods = self.now.nominations.pods_at(&target).peekable();
        if pods.peek().is_none() {
            return;
        }
        let remembered = Arc::make_mut(&mut self.now.sold_out);
        for uid in pods {
            let known = remembered.entry(uid.clone()).or_insert(SoldOutTime { since: now, last: now });
            if now.saturating_sub(known.last) > REMEMBERED {
                known.since = now;
            }
            known.last = now;
        }
    }

    /// A pod has a node, or has gone.
    pub(in crate::cluster_state) fn forget_sold_out(&mut self, uid: &str) {
        if self.now.sold_out.contains_key(uid) {
            Arc::make_mut(&mut self.now.sold_out).remove(uid);
        }
    }
}

impl Snapshot {
    /// Marks the pods that do without what they prefer. A pod that is still to come is treated as the one that it follows.
    pub(in crate::cluster_state) fn relax(&self, pods: &mut [Pod], now: Moment) {
        if self.sold_out.is_empty() {
            return;
        }
        for pod in pods {
            let known = self.sold_out.get(pod.base_uid());
            let lately = |known: &&SoldOutTime| now.monotonic.saturating_sub(known.last) <= REMEMBERED;
            let long = known
                .filter(lately)
                .is_some_and(|known| known.last.saturating_sub(known.since) >= LONGEST_PREFERENCE_WAIT);
            // Pods that prefer nothing stay alike.
            pod.relaxed = long && pod.prefers_anything();
        }
    }
}
