//! Parts of the cluster that the watches do not show now: after a failure until they run again, and during a new list. Launches
//! and removals are not decided meanwhile (docs/decisions/027). Times are monotonic.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_runtime::watcher::Event;

use crate::context::outage::RUNS;

/// Kinds that are not shown, each until when at the latest, or until it has been listed.
#[derive(Debug, Default)]
pub struct Unobserved(BTreeMap<&'static str, Option<Duration>>);

impl Unobserved {
    pub fn said<K>(&mut self, kind: &'static str, event: &Event<K>) {
        match event {
            Event::Init => self.lists_anew(kind),
            Event::InitApply(_) => {}
            Event::InitDone | Event::Apply(_) | Event::Delete(_) => drop(self.0.remove(kind)),
        }
    }

    /// A watch has said something of an object that cannot be read: it runs.
    pub fn runs(&mut self, kind: &'static str) {
        self.0.remove(kind);
    }

    /// A watch has failed, or is too old, and will list anew.
    pub fn lists_anew(&mut self, kind: &'static str) {
        self.0.insert(kind, None);
    }

    /// A watch has failed, and is asked to go on after this pause.
    pub fn goes_on(&mut self, kind: &'static str, pause: Duration, now: Duration) {
        self.0.insert(kind, Some(now.saturating_add(pause).saturating_add(RUNS)));
    }

    /// True if the watches show everything.
    pub fn is_empty(&self, now: Duration) -> bool {
        self.0.values().all(|until| until.is_some_and(|until| until <= now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn resumed_watch_shows_nothing_until_event_or_calm_second() {
        let mut unobserved = Unobserved::default();
        assert!(unobserved.is_empty(at(0)));
        unobserved.goes_on("pods", at(2), at(10));
        assert!(!unobserved.is_empty(at(12)) && unobserved.is_empty(at(13)));
        unobserved.goes_on("pods", at(5), at(12));
        assert!(!unobserved.is_empty(at(17)));
        unobserved.said("pods", &Event::Apply(()));
        assert!(unobserved.is_empty(at(12)));
    }

    #[test]
    fn relisted_kind_is_shown_once_its_list_is_complete() {
        let mut unobserved = Unobserved::default();
        unobserved.lists_anew("nodes");
        assert!(!unobserved.is_empty(at(1000)));
        unobserved.said("nodes", &Event::<()>::Init);
        unobserved.said("nodes", &Event::InitApply(()));
        unobserved.said("pods", &Event::Apply(()));
        assert!(!unobserved.is_empty(at(1000)));
        unobserved.said("nodes", &Event::<()>::InitDone);
        assert!(unobserved.is_empty(at(0)));
    }
}
