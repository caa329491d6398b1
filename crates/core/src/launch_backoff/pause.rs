//! Pauses between trials after refusals.

use std::time::Duration;

use super::{BackoffCause, LaunchVerdict, REMEMBERED};

/// Pauses after the first refusals by the API server, in seconds; those that follow are as long as the last. With the two
/// claims that were under way at the first refusal they make five in the first minute, and one a minute later.
const OF_CREATIONS: [u64; 4] = [2, 8, 30, 60];
/// Pauses after refusals by EC2, in seconds; three claims may have been under way at the first.
const OF_CALLS: [u64; 3] = [8, 30, 60];
/// Most by which a pause is lengthened, as a share of it.
const JITTER: f64 = 0.25;
/// Time that a trial of a pool is waited for; packing leaves the pool out meanwhile.
const TRIAL: Duration = Duration::from_secs(60);
/// Time that a probe of sold-out capacity is waited for: where EC2 throttles, its answer may take minutes.
const PROBE: Duration = Duration::from_secs(15);

/// Refusals in a row, and the time of the next trial. All times are monotonic.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pauses {
    /// Number of refusals in a row.
    pub failures: u32,
    /// Time of the last refusal.
    pub last: Duration,
    /// Earliest time of the next trial.
    pub next: Duration,
    pub trial: Option<String>,
    /// Time at which that trial began.
    pub begun: Duration,
}

impl Pauses {
    /// The reason that it may not be tried now; `None` if it may.
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

    /// The claim becomes the trial.
    pub fn begin(&mut self, claim: &str, now: Duration) {
        self.trial = Some(claim.to_owned());
        self.begun = now;
    }

    /// The claim is no trial any more.
    pub fn release(&mut self, claim: &str) {
        if self.trial.as_deref() == Some(claim) {
            self.trial = None;
        }
    }

    /// Time until which packing leaves the pool out, if it does.
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
