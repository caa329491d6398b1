//! Pods whose launches EC2 had nothing for. What a soft rule asks for may be sold out for hours: it is given up step by
//! step from the second refusal on, for as long as EC2's refusals are remembered (docs/decisions/031).

use std::sync::Arc;
use std::time::Duration;

use super::{ClusterState, Moment, Snapshot, Target};
use crate::pack::soft_rules;
use crate::pod::Pod;

/// So many refusals cost a pod none of its soft rules: EC2 may have something else of what they ask for.
const BORNE: u32 = 1;

/// How often EC2 had nothing for the claims that a pod was expected on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoldOut {
    /// How often in a row.
    pub times: u32,
    /// Until when that counts. Monotonic time.
    pub until: Duration,
}

impl ClusterState {
    /// EC2 has nothing for a claim, which counts until then for the pods expected on it.
    pub fn sold_out(&mut self, claim: &str, now: Duration, until: Duration) {
        let Some(pods) = self.awaited.get(&Target::Claim(claim.to_owned())) else { return };
        let remembered = Arc::make_mut(&mut self.now.sold_out);
        remembered.retain(|_, known| now < known.until);
        for uid in pods {
            let times = remembered.get(uid).map_or(0, |known| known.times);
            remembered.insert(uid.clone(), SoldOut { times: times.saturating_add(1), until });
        }
    }

    /// A pod has a node, or has gone.
    pub(super) fn forget_sold_out(&mut self, uid: &str) {
        if self.now.sold_out.contains_key(uid) {
            Arc::make_mut(&mut self.now.sold_out).remove(uid);
        }
    }
}

impl Snapshot {
    /// Says of pods how many steps of relaxation they have behind them. One that is still to come is as the pod that it follows.
    pub(super) fn relax(&self, pods: &mut [Pod], now: Moment) {
        if self.sold_out.is_empty() {
            return;
        }
        for pod in pods {
            let uid = pod.uid.split('/').next().unwrap_or_default();
            let Some(known) = self.sold_out.get(uid).filter(|known| now.monotonic < known.until) else { continue };
            // Pods that have nothing to give up stay alike.
            let most = u32::try_from(soft_rules(pod)).unwrap_or(u32::MAX);
            pod.relaxed = known.times.saturating_sub(BORNE).min(most);
        }
    }
}
