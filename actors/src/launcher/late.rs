//! Claims that come late: of creations that were given up, or that somebody had sent who leads no more. What they were for may have
//! been planned anew: then they are taken back.
//!
//! An example: a creation gets no answer for a minute, is given up, and its pods are planned on claim b. Then the API server
//! shows claim a after all. No instance can belong to it, as its token was never written: it is deleted. A claim that an earlier
//! leader left over is another case: its pods may still expect it, so that it is looked at for a batch's length first.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_core::lifecycle::launch_phase::LaunchPhase;
use kube::ResourceExt;
use tokio::sync::Notify;

use super::Launcher;
use crate::context::book::Key;
use crate::context::traces;
use crate::kube::calls::CallError;
use crate::launcher::launch::Launching;
use crate::messages::{ClaimChanged, TakeObserved, TraceContext};

/// Pause between two looks at whether a claim is needed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time after the end of a batch by which its pods are surely planned.
const PLANNED: Duration = Duration::from_secs(5);

/// Decision on a claim that is left over.
enum Verdict {
    /// Pods are expected on the claim: it is launched.
    Needed,
    /// The claim is gone, or the term is over.
    Gone,
    /// The claim has changed, or no answer came: decide again.
    LookAgain,
}

impl Launcher {
    /// Deletes a claim that nobody needs, when nothing else is done about one of its name.
    pub(super) fn take_back(&mut self, name: &str, claim: Arc<NodeClaim>, ctx: &mut Context<Self>) {
        if self.is_under_way(name) {
            // The launch of that name goes on: `free` takes this one back when it has ended.
            self.known.open(&Key::claim(name)).late = Some(claim);
            return;
        }
        let gone = self.enter(name, LaunchPhase::TakenBack);
        let launching = self.taking_back(name, &claim, gone);
        let taking = async move { launching.discard(&claim, "created_late").await }.into_actor(self);
        let name = name.to_owned();
        // If the deletion is refused, the claim's next change leads to another attempt.
        ctx.spawn(taking.map(move |_, launcher, ctx| launcher.free(&name, ctx)));
    }

    fn taking_back(&mut self, name: &str, claim: &NodeClaim, gone: Arc<Notify>) -> Launching {
        let trace = traces::of_packing(claim).unwrap_or_else(|| TraceContext::root(&mut self.rng));
        let inside = traces::of_claim(trace, name);
        Launching { own: None, behind: 0, ..self.launching(inside, inside, self.env.wall(), gone) }
    }

    /// Launches for a claim as soon as somebody is expected on it, and takes it back when nobody is for long.
    pub(super) fn look_whether_needed(&mut self, name: &str, claim: Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let gone = self.enter(name, LaunchPhase::TakenBack);
        let launching = self.taking_back(name, &claim, gone);
        let (name, seen) = (name.to_owned(), claim.clone());
        let looking = async move { verdict(&launching, &seen).await }.into_actor(self);
        ctx.spawn(looking.map(move |verdict, launcher, ctx| {
            // Before it is freed, which forgets it.
            let observed = launcher.known.get_mut(&Key::claim(&name)).and_then(|own| own.observed.take());
            launcher.free(&name, ctx);
            match (verdict, observed) {
                (Verdict::Gone, None) => {}
                (Verdict::Needed, observed) => launcher.adopt(&name, &observed.unwrap_or(claim), ctx),
                // It has changed, is back out of a backup, or another of its name is there.
                (Verdict::LookAgain | Verdict::Gone, observed) => {
                    launcher.handle(ClaimChanged(observed.unwrap_or(claim)), ctx);
                }
            }
        }));
    }
}

/// Decides on a claim that is left over.
async fn verdict(launching: &Launching, claim: &NodeClaim) -> Verdict {
    let own = NominationTarget::Claim(claim.name_any());
    // Counted in looks that were answered, not by the clock: while nobody answers nothing is planned either.
    let mut looks = Duration::ZERO;
    while looks < launching.env.settings.batch_max + PLANNED {
        tokio::select! {
            biased;
            () = launching.gone.notified() => return Verdict::Gone,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        match launching.links.cluster.send(TakeObserved).await {
            Ok(Some(known)) if known.is_awaited(&own, launching.env.moment()) => return Verdict::Needed,
            Ok(Some(known)) if launching.env.settings.static_capacity() && known.is_replica(&claim.name_any()) => {
                return Verdict::Needed;
            }
            Ok(Some(_)) => looks += CHECK_INTERVAL,
            // Nothing is planned meanwhile.
            Ok(None) => {}
            Err(_) => return Verdict::Gone,
        }
    }
    match launching.remove_as_seen(claim, "unneeded").await {
        Ok(()) | Err(CallError::NotFound(_) | CallError::Deposed) => Verdict::Gone,
        Err(_) => Verdict::LookAgain,
    }
}
