//! Memory of a term about gangs: which were tried last, and pauses after launches that came to nothing. A successor starts without.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pause::DoublingPause;

/// Pause of a gang whose nodes were given back, as that of a ProvisioningRequest.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: Duration::from_secs(600) };

/// The trials of gangs, by namespace and name of their PodGroup.
#[derive(Clone, Debug, Default)]
pub struct GangTrials {
    gangs: BTreeMap<String, Trial>,
    packings: u64,
}

#[derive(Clone, Debug, Default)]
struct Trial {
    /// Number of the packing in which it was tried by itself last, and lacked places.
    failed: u64,
    /// Number of times that its nodes were given back.
    given_back: u32,
    /// Time until which it is not tried. Monotonic.
    until: Duration,
}

impl GangTrials {
    /// Number of the packing in which a gang was tried by itself last; 0 if it was not.
    #[must_use]
    pub fn last_failure(&self, key: &str) -> u64 {
        self.gangs.get(key).map_or(0, |trial| trial.failed)
    }

    /// Takes in a packing: the gangs with pods that wait, and those of them that were tried by themselves and lack places. Others
    /// are forgotten once their pauses are over.
    pub fn note_packing<'a>(
        &mut self,
        waiting: &BTreeSet<&str>,
        failed: impl IntoIterator<Item = &'a str>,
        now: Duration,
    ) {
        self.packings += 1;
        self.gangs.retain(|key, trial| waiting.contains(key.as_str()) || now < trial.until);
        for key in failed {
            self.gangs.entry(key.to_owned()).or_default().failed = self.packings;
        }
    }

    /// The nodes of a gang are given back. Answers the pause until it is tried again.
    pub fn give_back(&mut self, key: &str, now: Duration) -> Duration {
        let trial = self.gangs.entry(key.to_owned()).or_default();
        let pause = PAUSE.length_after(trial.given_back);
        trial.given_back = trial.given_back.saturating_add(1);
        trial.until = now + pause;
        pause
    }

    /// True while a gang is not tried.
    #[must_use]
    pub fn is_paused(&self, key: &str, now: Duration) -> bool {
        self.gangs.get(key).is_some_and(|trial| now < trial.until)
    }

    /// Gangs that are not tried now, each with the reason.
    #[must_use]
    pub fn paused(&self, now: Duration) -> BTreeMap<String, String> {
        let paused = self.gangs.iter().filter(|(_, trial)| now < trial.until);
        let why = |key: &str| {
            format!(
                "PodGroup {key}: not all of its nodes could be had, and they were given back; it is tried again soon"
            )
        };
        paused.map(|(key, _)| (key.clone(), why(key))).collect()
    }
}
