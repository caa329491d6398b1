//! Reports of a Node's drain: the ones that are due, and what was reported last; beside them why an object goes, and who else
//! holds one that we let go.

pub mod others;
pub mod reason;

use std::collections::BTreeSet;
use std::time::Duration;

/// Time after which pods that are waited for are named in an event.
const LONG: Duration = Duration::from_secs(30);
/// Minimum time between two reports of what holds a drain; repeated only after a change.
const HELD_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a held drain is reported as blocked, with the remedy.
const BLOCKED: Duration = Duration::from_secs(60);

/// Reports of one drain so far. Times are monotonic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReports {
    draining_since: Option<Duration>,
    awaiting_places: bool,
    awaiting_volumes: bool,
    /// Last reported obstacles, with the time.
    held: Option<(Duration, BTreeSet<String>)>,
    /// Obstacles last reported as blocking it, with the remedy.
    blocked: Option<BTreeSet<String>>,
}

/// Report that a drain is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainReport {
    Begun,
    /// Pods have been waited for so long that they are named.
    Slow,
    None,
}

/// Reports that obstacles call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldReport {
    /// They block the drain, and there is a remedy.
    pub blocked: bool,
    pub held: bool,
}

impl DrainReports {
    /// The Node is drained now.
    pub fn note_drain(&mut self, now: Duration) -> DrainReport {
        match self.draining_since {
            None => {
                self.draining_since = Some(now);
                DrainReport::Begun
            }
            Some(since) if now.saturating_sub(since) >= LONG => DrainReport::Slow,
            Some(_) => DrainReport::None,
        }
    }

    /// Pods wait for their places. Returns true the first time.
    pub fn awaits_places(&mut self) -> bool {
        !std::mem::replace(&mut self.awaiting_places, true)
    }

    /// Volumes are waited for. Returns true the first time.
    pub fn awaits_volumes(&mut self) -> bool {
        !std::mem::replace(&mut self.awaiting_volumes, true)
    }

    /// These obstacles hold the drain now; `remediable` if its owner could end that.
    pub fn note_obstacles(&mut self, obstacles: &BTreeSet<String>, remediable: bool, now: Duration) -> HeldReport {
        let long = self.draining_since.is_some_and(|since| now.saturating_sub(since) >= BLOCKED);
        let blocked = long && remediable && self.blocked.as_ref() != Some(obstacles);
        let quiet = |(when, said): &(Duration, BTreeSet<String>)| {
            said == obstacles || now.saturating_sub(*when) < HELD_INTERVAL
        };
        let held = !self.held.as_ref().is_some_and(quiet);
        if blocked {
            self.blocked = Some(obstacles.clone());
        }
        if held {
            self.held = Some((now, obstacles.clone()));
        }
        HeldReport { blocked, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn drain_is_told_at_first_its_pods_named_after_half_a_minute() {
        let mut reports = DrainReports::default();
        let told = [100, 101, 129, 130, 131].map(|now| reports.note_drain(at(now)));
        assert_eq!(
            told,
            [DrainReport::Begun, DrainReport::None, DrainReport::None, DrainReport::Slow, DrainReport::Slow]
        );
        assert_eq!([reports.awaits_places(), reports.awaits_places()], [true, false]);
        assert_eq!([reports.awaits_volumes(), reports.awaits_volumes()], [true, false]);
    }

    #[test]
    fn obstacles_are_told_on_change_and_once_a_minute_at_most() {
        let (mut reports, of) = (DrainReports::default(), |name: &str| BTreeSet::from([name.to_owned()]));
        reports.note_drain(at(0));
        let held = [("a", 0), ("a", 30), ("b", 59), ("b", 60), ("b", 999), ("a", 1000)]
            .map(|(name, now)| reports.note_obstacles(&of(name), false, at(now)));
        assert_eq!(held.map(|told| told.held), [true, false, false, true, false, true]);
        assert!(held.iter().all(|told| !told.blocked), "nothing can be done about it");
    }

    #[test]
    fn blocked_drain_is_told_with_its_remedy_after_a_minute() {
        let (mut reports, of) = (DrainReports::default(), |name: &str| BTreeSet::from([name.to_owned()]));
        assert!(!reports.note_obstacles(&of("a"), true, at(999)).blocked, "it does not drain yet");
        reports.note_drain(at(1000));
        let blocked = [("a", 1059), ("a", 1060), ("a", 1061), ("b", 1062)]
            .map(|(name, now)| reports.note_obstacles(&of(name), true, at(now)).blocked);
        assert_eq!(blocked, [false, true, false, true]);
    }
}
