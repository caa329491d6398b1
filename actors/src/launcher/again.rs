//! Claims whose launch has ended well and that are shown without an instance all the same: an API server was put back, or
//! somebody writes over their status. The first time they are launched for at once, which begins with a look for their
//! instance; after that with growing pauses, as whoever may write their status can do so without end.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::lifecycle::launch_phase::LaunchPhase;

use super::Launcher;
use crate::context::backoff::Backoff;
use crate::context::book::Key;
use crate::messages::ClaimChanged;

/// The first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Time since its last launch after which a claim counts as launched once.
const FORGIVEN: Duration = Duration::from_secs(600);

/// Launches of a claim that ended well.
#[derive(Debug)]
pub(super) struct Relaunches {
    uid: String,
    /// End of its last launch. Monotonic.
    ended: Duration,
    /// Grows with each launch but the first.
    pauses: Option<Backoff>,
    /// Time until which it is not launched again. Monotonic.
    until: Duration,
    /// The claim as last shown, while it waits for `until`.
    waits: Option<Arc<NodeClaim>>,
}

impl Launcher {
    /// A launch has ended: the claim has its instance, or has another.
    pub(super) fn ended_well(&mut self, name: &str, uid: &str) {
        let (now, rng) = (self.env.now(), self.env.rng(&format!("again/{name}")));
        self.forget_old_launches(now);
        let own = &mut self.known.open(&Key::claim(name)).relaunches;
        if let Some(one) = own.as_mut().filter(|one| one.uid == uid) {
            // The second launch for one claim and every further one: 1 s, 2 s, up to a minute until the next.
            one.ended = now;
            one.until = now + one.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1, rng)).pause();
        } else {
            *own = Some(Relaunches { uid: uid.to_owned(), ended: now, pauses: None, until: now, waits: None });
        }
        // One that came late under its name may be deleted now.
        if !self.is_under_way(name) {
            self.enter(name, LaunchPhase::Launched);
        }
    }

    /// A launch may end after its claim is gone, and that is not said twice: what is old is dropped.
    fn forget_old_launches(&mut self, now: Duration) {
        let is_old = |one: &Relaunches| now.saturating_sub(one.ended) >= FORGIVEN;
        let old = self.known.records().filter(|(_, own)| own.relaunches.as_ref().is_some_and(is_old));
        for name in old.map(|(key, _)| key.name().to_owned()).collect::<Vec<_>>() {
            self.take_part(&name, |own| own.relaunches = None);
            if !self.is_under_way(&name) {
                self.leave(&name);
            }
        }
    }

    /// Pause before a claim that is shown without an instance is launched again.
    pub(super) fn pause_of(&self, name: &str, claim: &NodeClaim) -> Option<Duration> {
        let own = self.known.get(&Key::claim(name))?.relaunches.as_ref()?;
        // Counted from the end of the launch: a watch that shows the claim late costs no further pause.
        own.until
            .checked_sub(self.env.now())
            .filter(|pause| !pause.is_zero() && Some(&own.uid) == claim.metadata.uid.as_ref())
    }

    /// Looks at a claim again after its pause, as it is shown last by then.
    pub(super) fn wait(&mut self, name: String, pause: Duration, claim: Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let Some(own) = self.known.get_mut(&Key::claim(&name)).and_then(|own| own.relaunches.as_mut()) else { return };
        if own.waits.replace(claim).is_none() {
            ctx.run_later(pause, move |launcher, ctx| {
                if let Some(claim) = launcher.end_wait(&name) {
                    launcher.handle(ClaimChanged(claim), ctx);
                }
            });
        }
    }

    /// Ends the wait of a claim. Answers it as it was shown last, if it waited.
    pub(super) fn end_wait(&mut self, name: &str) -> Option<Arc<NodeClaim>> {
        self.known.get_mut(&Key::claim(name))?.relaunches.as_mut()?.waits.take()
    }
}
