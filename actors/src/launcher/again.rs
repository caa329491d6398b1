//! Claims whose launch has ended well and that are shown without an instance all the same: an API server was put back, or
//! somebody writes over their status. The first time they are launched for at once, which begins with a look for their
//! instance; after that with growing pauses, as whoever may write their status can do so without end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use kube::ResourceExt;

use super::Launcher;
use crate::context::backoff::Backoff;
use crate::messages::ClaimChanged;

/// The first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Time since its last launch after which a claim counts as launched once.
const FORGIVEN: Duration = Duration::from_secs(600);

/// Claims by name whose launches have ended well.
#[derive(Debug, Default)]
pub(super) struct Again(BTreeMap<String, Launched>);

#[derive(Debug)]
struct Launched {
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

impl Again {
    /// A launch has ended: the claim has its instance, or has another.
    pub(super) fn ended(&mut self, name: &str, uid: &str, now: Duration, rng: fastrand::Rng) {
        // A launch may end after its claim is gone, and that is not said twice: what is old is dropped here.
        self.0.retain(|_, one| now.saturating_sub(one.ended) < FORGIVEN);
        let known = self.0.get_mut(name).filter(|one| one.uid == uid);
        if let Some(one) = known {
            // The second launch for one claim and every further one: 1 s, 2 s, up to a minute until the next.
            one.ended = now;
            one.until = now + one.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1, rng)).pause();
        } else {
            let one = Launched { uid: uid.to_owned(), ended: now, pauses: None, until: now, waits: None };
            self.0.insert(name.to_owned(), one);
        }
    }

    /// A claim that is shown without an instance: how long it waits, where that is new; `None` where it does not wait.
    fn wait(&mut self, name: &str, claim: &Arc<NodeClaim>, now: Duration) -> Option<Wait> {
        let one = self.0.get_mut(name).filter(|one| Some(&one.uid) == claim.metadata.uid.as_ref())?;
        // Counted from the end of the launch: a watch that shows the claim late costs no further pause.
        if now >= one.until {
            return None;
        }
        let pause = one.until - now;
        Some(if one.waits.replace(claim.clone()).is_some() { Wait::Longer } else { Wait::For(pause) })
    }

    /// Its pause is over: as it was shown last.
    fn over(&mut self, name: &str) -> Option<Arc<NodeClaim>> {
        self.0.get_mut(name)?.waits.take()
    }

    /// Forgets a claim that is gone.
    pub(super) fn gone(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// Pause before the next launch for one claim.
enum Wait {
    /// A pause that begins.
    For(Duration),
    /// The pause has begun before.
    Longer,
}

impl Launcher {
    /// True if a claim that is shown without an instance has to wait; it is looked at again afterwards.
    pub(super) fn waits_again(&mut self, claim: &Arc<NodeClaim>, ctx: &mut Context<Self>) -> bool {
        let name = claim.name_any();
        match self.again.wait(&name, claim, self.env.now()) {
            None => return false,
            Some(Wait::Longer) => {}
            Some(Wait::For(pause)) => {
                ctx.run_later(pause, move |launcher, ctx| {
                    if let Some(claim) = launcher.again.over(&name) {
                        launcher.handle(ClaimChanged(claim), ctx);
                    }
                });
            }
        }
        true
    }

    /// Ends the wait of a claim that is shown with its instance or with a deletion timestamp.
    pub(super) fn waits_no_more(&mut self, name: &str) {
        self.again.over(name);
    }
}
