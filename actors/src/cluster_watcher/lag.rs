//! The watches' lateness: from the API server's answer to a write of ours to when the watch shows it. A judgement that rests on
//! something not having happened waits that much longer, as it may have happened without being shown yet.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Time that a measured lag counts.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Most writes that are tracked; the oldest tell the most.
const MOST: usize = 1000;
/// Time after which a write that the watch has not shown is ignored: its object may be gone.
const GIVEN_UP: Duration = Duration::from_secs(300);

/// The lag of a watch. Times are monotonic.
#[derive(Debug, Default)]
pub struct Lag {
    /// Objects by uid: the version that a write of ours came to, and when it was answered.
    waiting: BTreeMap<String, (u64, Duration)>,
    /// Measured lags, each with the time of its measurement.
    measured: Vec<(Duration, Duration)>,
    /// The newest version that the watch has shown of any object. It shows them in the order of their versions.
    newest: u64,
}

impl Lag {
    /// A write of ours was answered.
    pub fn wrote(&mut self, meta: &ObjectMeta, now: Duration) {
        self.waiting.retain(|_, (_, since)| now.saturating_sub(*since) < GIVEN_UP);
        // The watch may show a write before its answer is here.
        let news = key(meta).filter(|(_, version)| *version > self.newest);
        if let Some((uid, version)) = news.filter(|_| self.waiting.len() < MOST) {
            self.waiting.entry(uid).or_insert((version, now));
        }
    }

    /// The watch shows an object.
    pub fn shows(&mut self, meta: &ObjectMeta, now: Duration) {
        let Some((_, version)) = key(meta) else { return };
        self.newest = self.newest.max(version);
        let observed = self.waiting.values().filter(|(written, _)| *written <= version).map(|(_, since)| *since).min();
        let Some(since) = observed else { return };
        self.waiting.retain(|_, (written, _)| *written > version);
        let lag = now.saturating_sub(since);
        // Only what is more than all that is newer can be the most.
        self.measured.retain(|(known, at)| *known > lag && now.saturating_sub(*at) < REMEMBERED);
        self.measured.push((lag, now));
    }

    /// The most that the watch was late of late, or is now.
    pub fn most(&self, now: Duration) -> Duration {
        let measured = self.measured.iter().filter(|(_, at)| now.saturating_sub(*at) < REMEMBERED);
        let waiting = self.waiting.values().map(|(_, since)| now.saturating_sub(*since));
        let waiting = waiting.filter(|lag| *lag < GIVEN_UP);
        measured.map(|(lag, _)| *lag).chain(waiting).max().unwrap_or_default()
    }
}

fn key(meta: &ObjectMeta) -> Option<(String, u64)> {
    Some((meta.uid.clone()?, meta.resource_version.as_ref()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta { uid: Some(uid.into()), resource_version: Some(version.into()), ..ObjectMeta::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn watch_lag_is_that_of_last_shown_and_oldest_unshown_write() {
        let mut lag = Lag::default();
        assert_eq!(lag.most(at(0)), at(0));
        lag.wrote(&meta("a", "7"), at(10));
        assert_eq!(lag.most(at(13)), at(3));
        lag.shows(&meta("a", "6"), at(20));
        assert_eq!(lag.most(at(20)), at(10), "an earlier state shows nothing of the write");
        lag.shows(&meta("a", "8"), at(40));
        assert_eq!((lag.most(at(40)), lag.most(at(600))), (at(30), at(30)));
        lag.wrote(&meta("b", "9"), at(100));
        lag.shows(&meta("b", "9"), at(101));
        assert_eq!((lag.most(at(102)), lag.most(at(640)), lag.most(at(702))), (at(30), at(1), at(0)));
    }

    #[test]
    fn write_shown_before_its_answer_is_not_late() {
        let mut lag = Lag::default();
        lag.shows(&meta("a", "7"), at(10));
        lag.wrote(&meta("a", "7"), at(11));
        assert_eq!(lag.most(at(200)), at(0));
    }

    #[test]
    fn what_is_shown_says_that_all_that_was_written_before_is() {
        let mut lag = Lag::default();
        lag.wrote(&meta("gone", "7"), at(10));
        lag.shows(&meta("b", "9"), at(12));
        assert_eq!(lag.most(at(200)), at(2), "its object is gone, and no event names it any more");
    }

    #[test]
    fn a_write_that_is_never_shown_counts_for_five_minutes() {
        let mut lag = Lag::default();
        lag.wrote(&meta("gone", "7"), at(0));
        assert_eq!((lag.most(at(299)), lag.most(at(300))), (at(299), at(0)));
    }
}
