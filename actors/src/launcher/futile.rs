//! Launches that come to nothing, whatever the cause: tells the brake what came of each, and reports when it is on. The number
//! that is allowed is decided by `dovetail_core::launch_limits` (docs/decisions/055).

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::launch_backoff::LaunchOutcome;
use dovetail_core::launch_limits::{FutileCause, Wait};
use dovetail_core::lifecycle::{self, ClaimStage};
use kube::ResourceExt;

use super::past::Before;
use super::{Launcher, REPEAT_INTERVAL, denied};
use crate::launcher::facts::origin;
use crate::launcher::launch::LaunchEnd;
use crate::messages::{CameToNothing, NotRegistered, Record};

impl Handler<NotRegistered> for Launcher {
    type Result = ();

    fn handle(&mut self, NotRegistered { claim }: NotRegistered, _: &mut Self::Context) {
        let (name, now) = (claim.name_any(), self.env.now());
        self.limits.not_registered(&name, &origin(&claim), now);
        self.limits.futile.lost(&name, FutileCause::NotRegistered, now);
    }
}

impl Handler<CameToNothing> for Launcher {
    type Result = ();

    /// A node was ready, and the pods that it was launched for did not come to it.
    fn handle(&mut self, CameToNothing { claim }: CameToNothing, _: &mut Self::Context) {
        self.limits.futile.lost(&claim, FutileCause::NotUsed, self.env.now());
    }
}

impl Launcher {
    /// Goes on from what was launched before the term.
    pub(super) fn take_over(&mut self, before: &Before) {
        let now = self.env.now();
        self.limits.take_over(&before.past, &before.present, now);
        for (id, pool) in &before.orphans {
            self.limits.futile.orphaned(id, pool, now);
        }
    }

    /// A launch has ended. Where nothing can have been launched it is no loss, and refusals have bounds of their own.
    pub(super) fn come_to(&mut self, name: &str, end: &LaunchEnd, outcome: &LaunchOutcome, price: f64) {
        let (now, futile) = (self.env.now(), &mut self.limits.futile);
        match end {
            LaunchEnd::Launched { .. } => futile.launched(name, price, now),
            LaunchEnd::Lost { .. } | LaunchEnd::Refused if *outcome != LaunchOutcome::Vanished => {
                futile.withdrawn(name)
            }
            LaunchEnd::Lost { .. } | LaunchEnd::Refused | LaunchEnd::Deleting => {
                futile.costs(name, price);
                futile.lost(name, FutileCause::ClaimGone, now);
            }
            LaunchEnd::Deposed => {}
        }
    }

    /// Counts the use of a launch by its claim: the node is ready for pods, or the claim is deleted.
    pub(super) fn note_use(&mut self, name: &str, claim: &NodeClaim) {
        let now = self.env.now();
        if lifecycle::stage(claim) == Some(ClaimStage::Initialized) {
            self.limits.futile.ready(name, now);
        }
        if claim.metadata.deletion_timestamp.is_some() {
            self.note_gone(name);
        }
    }

    /// A claim goes, or is gone. What that means for a launch that runs is known when it ends.
    pub(super) fn note_gone(&mut self, name: &str) {
        if self.is_under_way(name) {
            self.limits.futile.gone(name);
        } else {
            self.limits.futile.lost(name, FutileCause::ClaimGone, self.env.now());
        }
    }

    /// An event on the pool of launches that wait as others came to nothing.
    pub(super) fn say_pool_held(&self, claim: &NodeClaim, wait: &Wait) {
        if let (Wait::Futile(_), Some(pool)) = (wait, denied::pool(claim)) {
            let message = format!("Launches of NodePool {} wait: {wait}", pool.name.as_deref().unwrap_or_default());
            let event = Record::warning(pool, "LaunchHeld", message).quiet_for(REPEAT_INTERVAL);
            self.env.post(&self.links.recorder, event);
        }
    }
}
