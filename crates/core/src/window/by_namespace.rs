//! A batch window for each namespace (docs/decisions/017): a namespace whose pods keep coming delays no other.
//!
//! ```text
//! shop   a b ────────┤ close: {a, b}, and what has gone quiet elsewhere
//! test   x ─ y ─ z ─ x' ─ y' ─ …   open until it is quiet, or for the longest time
//! jobs     j ────────┘ goes with shop's: packed together, they share nodes
//! ```
//!
//! One window for all would let a user who creates a pod twice a second keep everybody's pods waiting for ten. Windows that have
//! been quiet for a moment close together with the first, so that what comes at one time in several namespaces is packed together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::window::{ClosedWindow, Window, WindowInput, WindowOutput, WindowSettings};

/// Time without a new pod after which a window closes together with another.
const IDLE: Duration = Duration::from_millis(250);

/// The windows of all namespaces. Its size is bounded by the namespaces with pods that wait, and those with a burst just over.
#[derive(Clone, Debug)]
pub struct Windows {
    settings: WindowSettings,
    open: BTreeMap<String, Window>,
}

impl Windows {
    /// A set without open windows.
    #[must_use]
    pub fn new(settings: WindowSettings) -> Self {
        Self { settings, open: BTreeMap::new() }
    }

    /// Number of pods that wait in all windows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.values().map(Window::len).sum()
    }

    /// True if no pod waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.values().all(Window::is_empty)
    }

    /// True if no pod of a namespace waits.
    #[must_use]
    pub fn is_shut(&self, namespace: &str) -> bool {
        self.open.get(namespace).is_none_or(Window::is_empty)
    }

    /// A pod of a namespace waits, in the words of [`Window::step`]. Answers the time to wake, or a batch and its namespaces.
    pub fn join(&mut self, namespace: &str, input: WindowInput<'_>, now: Duration) -> WindowStep {
        if !self.open.contains_key(namespace) {
            self.open.insert(namespace.to_owned(), Window::new(self.settings));
        }
        let said = self.open.get_mut(namespace).map_or(WindowOutput::Nothing, |window| window.step(input, now));
        match said {
            WindowOutput::Close(closed) => self.close(namespace, closed, now),
            WindowOutput::Nothing | WindowOutput::WakeAt(_) => self.wake(),
        }
    }

    /// A pod of any namespace waits no longer.
    pub fn leave(&mut self, uid: &str, now: Duration) {
        for window in self.open.values_mut() {
            window.step(WindowInput::Gone(uid), now);
        }
        self.forget(now);
    }

    /// Closes the windows whose time has come.
    pub fn tick(&mut self, now: Duration) -> WindowStep {
        let due = self.open.iter().filter_map(|(name, window)| Some((window.closes()?, name)));
        let Some((_, name)) = due.min().filter(|(due, _)| *due <= now) else { return self.wake() };
        let name = name.clone();
        let said = self.open.get_mut(&name).map_or(WindowOutput::Nothing, |window| window.step(WindowInput::Time, now));
        match said {
            WindowOutput::Close(closed) => self.close(&name, closed, now),
            WindowOutput::Nothing | WindowOutput::WakeAt(_) => self.wake(),
        }
    }

    fn wake(&self) -> WindowStep {
        WindowStep { batch: None, wake: self.open.values().filter_map(Window::closes).min() }
    }

    /// Closes the windows that are quiet together with the first.
    fn close(&mut self, first: &str, mut batch: ClosedWindow, now: Duration) -> WindowStep {
        let mut namespaces = BTreeSet::from([first.to_owned()]);
        for (name, window) in &mut self.open {
            let quiet = window.last().is_some_and(|last| now.saturating_sub(last) >= IDLE);
            if let Some(closed) = quiet.then(|| window.close_now(now)).flatten() {
                namespaces.insert(name.clone());
                batch.opened = batch.opened.min(closed.opened);
                batch.pods.extend(closed.pods);
            }
        }
        self.forget(now);
        WindowStep { batch: Some(Batched { batch, namespaces }), ..self.wake() }
    }

    fn forget(&mut self, now: Duration) {
        self.open.retain(|_, window| !window.is_spent(now));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowStep {
    pub batch: Option<Batched>,
    /// Time at which [`Windows::tick`] is to be called.
    pub wake: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batched {
    /// The pods of all its namespaces.
    pub batch: ClosedWindow,
    /// The namespaces whose windows have closed.
    pub namespaces: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: WindowSettings =
        WindowSettings { idle: Duration::from_secs(1), max: Duration::from_secs(10), pace: false, most: 1000 };

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn pods(step: WindowStep) -> Vec<String> {
        step.batch.expect("a batch").batch.pods.into_iter().collect()
    }

    #[test]
    fn a_user_whose_pods_keep_coming_holds_up_nobody_else() {
        let mut windows = Windows::new(SETTINGS);
        windows.join("shop", WindowInput::Pending("a"), at(0));
        for n in 0..10_u64 {
            let step = windows.join("test", WindowInput::Pending(&format!("x{n}")), at(n * 100));
            assert_eq!(step, WindowStep { batch: None, wake: Some(at(1000)) });
        }
        let step = windows.tick(at(1000));
        assert_eq!(step.wake, Some(at(1900)), "the others go on");
        assert_eq!(pods(step), ["a"]);
        assert_eq!(pods(windows.tick(at(1900))).len(), 10);
        assert!(windows.is_empty() && windows.open.is_empty());
    }

    #[test]
    fn what_comes_at_one_time_in_several_namespaces_goes_together() {
        let mut windows = Windows::new(SETTINGS);
        windows.join("a", WindowInput::Pending("1"), at(0));
        windows.join("b", WindowInput::Pending("2"), at(700));
        windows.join("c", WindowInput::Pending("3"), at(900));
        let step = windows.tick(at(1000));
        assert_eq!(step.batch.as_ref().unwrap().namespaces, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!(pods(step), ["1", "2"]);
        assert_eq!(pods(windows.tick(at(1900))), ["3"]);
    }

    #[test]
    fn pod_no_longer_waiting_leaves_its_window_without_a_trace() {
        let mut windows = Windows::new(SETTINGS);
        windows.join("a", WindowInput::Pending("1"), at(0));
        windows.leave("1", at(10));
        assert!(windows.is_shut("a") && windows.open.is_empty());
        assert_eq!(windows.tick(at(5000)), WindowStep { batch: None, wake: None });
    }

    proptest! {
        #[test]
        fn every_pod_is_in_one_batch_within_the_longest_wait(
            comes in prop::collection::vec((0u64..900, 0usize..4), 1..80), pace in any::<bool>(), most in 1usize..40,
        ) {
            let mut windows = Windows::new(WindowSettings { pace, most, ..SETTINGS });
            let (mut now, mut wake, mut came, mut seen) = (0, None, BTreeMap::new(), Vec::new());
            let mut take = |step: WindowStep, now: u64, came: &BTreeMap<String, u64>| {
                for pod in step.batch.into_iter().flat_map(|batched| batched.batch.pods) {
                    assert!(now - came[&pod] <= 10_000, "{pod}");
                    seen.push(pod);
                }
                step.wake
            };
            for (n, (gap, namespace)) in comes.iter().enumerate() {
                while let Some(due) = wake.filter(|due| *due <= at(now + gap)) {
                    wake = take(windows.tick(due), u64::try_from(due.as_millis()).unwrap(), &came);
                }
                now += gap;
                let uid = format!("{n:03}");
                came.insert(uid.clone(), now);
                wake = take(windows.join(&namespace.to_string(), WindowInput::Pending(&uid), at(now)), now, &came);
            }
            while let Some(due) = wake {
                wake = take(windows.tick(due), u64::try_from(due.as_millis()).unwrap(), &came);
            }
            seen.sort();
            prop_assert_eq!(seen, came.into_keys().collect::<Vec<_>>());
        }
    }
}
