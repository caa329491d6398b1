//! Claims that are there already and that a ceiling does not allow to be launched: they stay, say why, and are asked for again. Once
//! one is allowed, its launch says so: nothing else writes on a claim while it is launched.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::launch_limits::Wait;
use dovetail_core::lifecycle::launch::{is_held, launch_held};
use dovetail_core::lifecycle::protocol::{Claimed, takes_token};

use super::{Launcher, REPEAT_INTERVAL};
use crate::kube::claims::NodeClaimApi;
use crate::messages::{Record, Wrote};
use crate::recorder::object;

impl Launcher {
    /// Says on a claim, and by an event, that its launch waits and why.
    pub(super) fn say_held(&self, claim: &Arc<NodeClaim>, wait: &Wait, ctx: &mut Context<Self>) {
        let message = format!("The launch of this NodeClaim waits: {wait}");
        let record = Record::warning(object::claim(claim), "LaunchHeld", &*message).quiet_for(REPEAT_INTERVAL);
        self.env.post(&self.links.recorder, record);
        // The cost in the message changes with every other launch, so the condition is written only when the wait begins.
        if !is_held(claim) {
            let now = self.env.wall();
            self.write_status(claim, move |claim| launch_held(claim, &message, now), ctx);
        }
    }

    fn write_status(
        &self,
        claim: &NodeClaim,
        change: impl Fn(&NodeClaim) -> NodeClaim + 'static,
        ctx: &mut Context<Self>,
    ) {
        let (claims, claim) = (NodeClaimApi::new(self.links.calls.clone()), claim.clone());
        let (env, cluster) = (self.env.clone(), self.links.cluster.clone());
        let writing = async move {
            // One that has its instance meanwhile, or goes, is left as it is.
            let change = |claim: &NodeClaim| match takes_token(&Claimed::from_claim(claim)) {
                true => change(claim),
                false => claim.clone(),
            };
            // After a failure it is written at the next request for the launch.
            if let Ok(written) = claims.change_status(claim, change).await {
                env.post(&cluster, Wrote::Claim(Arc::new(written)));
            }
        };
        ctx.spawn(writing.into_actor(self));
    }
}
