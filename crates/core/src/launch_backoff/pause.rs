//! Pauses between trials of what was refused.

use std::time::Duration;

use super::{BackoffCause, LaunchVerdict, REMEMBERED};

/// Pauses after the first refusals by the API server, in seconds; those that follow are as long as the last. With the two
/// claims that were under way at the first refusal they make five in the first minute, and one a minute later.
const OF_CREATIONS: [u64; 4] = [2, 8, 30, 60];
/// The same after refusals by EC2, which may come of three claims that were under way.
const OF_CALLS: [u64; 3] = [8, 30, 60];
/// How much longer than that a pause may be, as a share.
const JITTER: f64 = 0.25;
/// How long a trial of a pool is waited for, and packing leaves the pool out meanwhile.
const TRIAL: Duration = Duration::from_secs(60);
/// How long a probe of what EC2 has nothing for is waited for: where EC2 throttles, its answer may take minutes.
const PROBE: Duration = Duration::from_secs(15);

/// What was refused, and when it is tried again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pauses {
    /// How often in a row.
    pub failures: u32,
    /// When it was refused last.
    pub last: Duration,
    /// When the next trial may begin.
    pub next: Duration,
    /// The claim on trial.
    pub trial: Option<String>,
    /// When that began.
    pub begun: Duration,
}

impl Pauses {
    /// Whether it may not be tried now.
    pub fn verdict(&self, now: Duration, cause: BackoffCause) -> Option<LaunchVerdict> {
        let patience = if cause == BackoffCause::SoldOut { PROBE } else { TRIAL };
        if self.trial.is_some() && now < self.begun + patience {
            Some(LaunchVerdict::AfterOthers)
        } else if now < self.next {
            Some(LaunchVerdict::Wait { until: self.next, cause })
        } else {
            None
        }
    }

    /// A claim was refused. One that had begun before the last refusal says nothing new.
    pub fn refused(&mut self, claim: &str, cause: BackoffCause, since: Duration, now: Duration, jitter: f64) {
        let trial = self.trial.as_deref() == Some(claim);
        if self.failures > 0 && !trial && since <= self.last {
            return;
        }
        let seconds: &[u64] = if cause == BackoffCause::ClaimRefused { &OF_CREATIONS } else { &OF_CALLS };
        let at = usize::try_from(self.failures).unwrap_or(usize::MAX);
        let pause = seconds.get(at).or(seconds.last()).copied().unwrap_or_default();
        self.failures = self.failures.saturating_add(1);
        self.last = now;
        self.next = now + jittered(Duration::from_secs(pause), jitter);
        self.release(claim);
    }

    /// A claim is its trial.
    pub fn begin(&mut self, claim: &str, now: Duration) {
        self.trial = Some(claim.to_owned());
        self.begun = now;
    }

    /// This claim is no trial any more.
    pub fn release(&mut self, claim: &str) {
        if self.trial.as_deref() == Some(claim) {
            self.trial = None;
        }
    }

    /// Until when packing leaves it out, if it does.
    pub fn closed(&self, now: Duration) -> Option<Duration> {
        match &self.trial {
            Some(_) => Some(self.begun + TRIAL).filter(|until| now < *until),
            None => (now < self.next).then_some(self.next),
        }
    }

    pub fn is_remembered(&self, now: Duration) -> bool {
        self.trial.is_some() || now.saturating_sub(self.last) < REMEMBERED
    }
}

/// A pause that is up to a quarter longer. `jitter` is 0 to 1.
fn jittered(pause: Duration, jitter: f64) -> Duration {
    pause.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0))
}
