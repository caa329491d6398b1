//! The life of the webhook's certificate: it is made, comes to be trusted, is served and forgotten.
//!
//! ```text
//! none, or none that can be served ─ Replace ─► serving ─ 30 days before its end: Prepare ─► serving, and next
//!                                                  ▲                                             │ next trusted for 10 min
//!                                                  └──────────────── Promote ────────────────────┘
//! ```
//!
//! The former authority is trusted for a day more, as replicas read the new certificate one after the other.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{later, signed};

const DAY: Duration = Duration::from_secs(86_400);
/// Lifetime of a certificate.
pub const LASTS: Duration = DAY.saturating_mul(90);
/// Time before its end at which the next one is made.
pub const RENEWED_BEFORE: Duration = DAY.saturating_mul(30);
/// Time for which the next authority stands in the definitions before its certificate is served: API servers hear of a change
/// one after the other.
pub const SETTLES: Duration = Duration::from_secs(600);
/// Time for which the former authority is trusted after its certificate.
pub const OVERLAPS: Duration = DAY;
/// Time by which a certificate's begin is dated back: clocks differ.
pub const BACKDATED: Duration = Duration::from_secs(3600);

/// The facts about a certificate that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Begin of its validity.
    pub begins: Timestamp,
    /// End of its validity.
    pub until: Timestamp,
    /// True if key, names and authority go together, so that a client would take it now.
    pub sound: bool,
}

impl Certificate {
    /// True if a client takes it now.
    pub fn can_be_served(&self, now: Timestamp) -> bool {
        self.sound && self.begins <= now && now < self.until
    }
}

/// The certificates at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationState {
    pub serving: Option<Certificate>,
    pub next: Option<Certificate>,
    /// End of the trust in the former authority.
    pub former: Option<Timestamp>,
}

/// The next step in a certificate's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// Do nothing for now.
    Wait,
    /// Make a certificate and serve it at once: there is none that can be served.
    Replace,
    /// Make the next certificate, so that it comes to be trusted.
    Prepare,
    /// Serve the next certificate.
    Promote,
    /// Trust the former authority no longer.
    Forget,
}

/// Begin and end of a certificate that is made now.
pub fn validity(now: Timestamp) -> (Timestamp, Timestamp) {
    let begins = now.checked_sub(signed(BACKDATED)).unwrap_or(Timestamp::MIN);
    (begins, later(now, signed(LASTS)))
}

/// The next step. `trusted` is the time for which all definitions have been seen to trust every authority that is held.
pub fn step(held: &RotationState, trusted: Option<Duration>, now: Timestamp) -> RotationStep {
    let usable = |one: &Option<Certificate>| one.filter(|one| one.can_be_served(now));
    let (serving, next) = (usable(&held.serving), usable(&held.next));
    match (serving, next) {
        (None, None) => RotationStep::Replace,
        (None, Some(_)) => RotationStep::Promote,
        (Some(_), Some(_)) if trusted.is_some_and(|time| time >= SETTLES) => RotationStep::Promote,
        (Some(_), None) if held.next.is_some() => RotationStep::Prepare,
        (Some(serving), None) if left(serving.until, now) <= RENEWED_BEFORE => RotationStep::Prepare,
        _ if held.former.is_some_and(|until| until <= now || left(until, now) > 2 * OVERLAPS) => RotationStep::Forget,
        _ => RotationStep::Wait,
    }
}

fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::webhook::kept::{KeptIdentities, ServingIdentity};

    fn at(days: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + days * 86_400).unwrap()
    }

    fn made(days: i64) -> Certificate {
        let (begins, until) = validity(at(days));
        Certificate { begins, until, sound: true }
    }

    fn serving(serving: Certificate) -> RotationState {
        RotationState { serving: Some(serving), ..RotationState::default() }
    }

    #[test]
    fn missing_or_invalid_certificate_is_replaced_at_once() {
        assert_eq!(step(&RotationState::default(), None, at(0)), RotationStep::Replace);
        assert_eq!(step(&serving(made(0)), None, at(90)), RotationStep::Replace, "it has ended");
        let unsound = Certificate { sound: false, ..made(0) };
        assert_eq!(step(&serving(unsound), None, at(1)), RotationStep::Replace);
        assert_eq!(step(&serving(made(5)), None, at(0)), RotationStep::Replace, "by this clock it does not count yet");
    }

    #[test]
    fn next_certificate_comes_30_days_early_and_serves_once_trusted() {
        let mut held = serving(made(0));
        assert_eq!(step(&held, Some(SETTLES), at(59)), RotationStep::Wait);
        assert_eq!(step(&held, None, at(60)), RotationStep::Prepare);
        held.next = Some(made(60));
        assert_eq!(step(&held, None, at(60)), RotationStep::Wait, "nobody is known to trust it");
        assert_eq!(step(&held, Some(SETTLES - Duration::from_secs(1)), at(60)), RotationStep::Wait);
        assert_eq!(step(&held, Some(SETTLES), at(60)), RotationStep::Promote);
    }

    #[test]
    fn next_certificate_serves_at_once_after_expiry_if_it_is_sound() {
        let mut held = RotationState { next: Some(made(60)), ..serving(made(0)) };
        assert_eq!(step(&held, None, at(90)), RotationStep::Promote);
        held.next = Some(Certificate { sound: false, ..made(60) });
        assert_eq!(step(&held, Some(SETTLES), at(61)), RotationStep::Prepare);
        assert_eq!(step(&held, None, at(90)), RotationStep::Replace);
    }

    #[test]
    fn former_authority_is_trusted_for_one_day_at_most() {
        let mut held = RotationState { former: Some(at(2)), ..serving(made(1)) };
        assert_eq!(step(&held, Some(SETTLES), at(1)), RotationStep::Wait);
        assert_eq!(step(&held, Some(SETTLES), at(2)), RotationStep::Forget);
        held.former = Some(at(400));
        assert_eq!(step(&held, Some(SETTLES), at(1)), RotationStep::Forget, "who has written that?");
    }

    #[test]
    fn rotation_over_400_days_settles_and_serves_what_is_trusted() {
        let mut kept = KeptIdentities::default();
        let mut promoted = 0;
        for hour in 0..24 * 400 {
            let now = Timestamp::from_second(1_700_000_000 + hour * 3600).unwrap();
            let (begins, until) = validity(now);
            let text = |what: &str| format!("{what} {hour}");
            let new =
                ServingIdentity { certificate: text("crt"), key: text("key"), authority: text("ca"), begins, until };
            for steps in 0.. {
                assert!(steps < 4, "it does not come to rest: {kept:?}");
                let before = kept.bundle();
                let done = step(&kept.held(|_| true), Some(SETTLES), now);
                match done {
                    RotationStep::Wait => break,
                    RotationStep::Replace => assert_eq!(hour, 0, "{kept:?}"),
                    RotationStep::Promote => promoted += 1,
                    RotationStep::Prepare | RotationStep::Forget => {}
                }
                kept = kept.after(done, Some(new.clone()), now);
                let serving = kept.serving.as_ref().unwrap();
                let trusted = hour == 0 || before.contains(&serving.authority);
                assert!(trusted && kept.bundle().contains(&serving.authority), "{done:?}: {before} {kept:?}");
            }
            assert!(kept.held(|_| true).serving.unwrap().can_be_served(now));
        }
        assert!(promoted >= 4, "a certificate lasts ninety days: {promoted}");
    }
}
