//! The batch window: the wait of pending pods for others before they are packed (core spec 3.2, docs/decisions/017).
//!
//! ```text
//!   a      b   a'   c            idle after c
//! ──┬──────┬───┬────┬────────────┤ close: {a, b, c}
//!   │ open                       │
//!   ├────────────────────────────────────────────────────┤ max: closes at the latest here
//! ```
//!
//! `a'` is a pod that the window has already seen: it does not extend it. A burst ends sooner: where pods have come at a
//! pace, twenty of their pauses and three of the longest without a pod are an end of it; and a window that holds enough pods closes at once.
//!
//! | state | new pod | seen pod | seen pod gone | time before the deadline | time at the deadline |
//! |---|---|---|---|---|---|
//! | shut | open, wake | – | – | – | – |
//! | either | a pod that waited before joins with its own arrival time, at most `idle` ago; wake | | | | |
//! | open | join, idle starts again, wake; the last of enough: close with all, shut | – | leave; the last one shuts it | wake | close with all, shut |

pub mod by_namespace;

use std::collections::BTreeSet;
use std::time::Duration;

/// Limits on the time that a window stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Quiet time after which it closes.
    pub idle: Duration,
    /// Time after which it closes though pods still come.
    pub max: Duration,
    /// True if a burst's own pace may end the window sooner than `idle`.
    pub pace: bool,
    /// Number of pods that close it at once.
    pub most: usize,
}

/// Pods from which on a burst has a pace.
const BURST: u32 = 20;
/// Number of mean pauses without a pod that end a burst.
const PAUSES: u32 = 20;
/// Number of the burst's longest pauses without a pod that it takes as well.
const LONGEST: u32 = 3;
/// Time after a burst's end within which a new pod shows that it had not ended: the next window keeps to `idle`.
const TOO_SOON: Duration = Duration::from_secs(2);
/// Lower bound of the pause that ends a burst: an API server may stall this long between two pods.
const SHORTEST: Duration = Duration::from_millis(250);

/// An event for a window. Times are monotonic.
#[derive(Clone, Copy, Debug)]
pub enum WindowInput<'a> {
    /// A pod, by uid, waits for a node.
    Pending(&'a str),
    /// A pod has waited for this time already, under another leader: it counts as if it had come then, and closes no window
    /// before all of its kind have joined.
    Waited(&'a str, Duration),
    /// A pod no longer waits for a node.
    Gone(&'a str),
    /// Nothing but time has passed.
    Time,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowOutput {
    /// Nothing to do now.
    Nothing,
    /// Send [`WindowInput::Time`] at this time.
    WakeAt(Duration),
    Close(ClosedWindow),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedWindow {
    /// The pods, by uid.
    pub pods: BTreeSet<String>,
    /// Arrival of the first pod.
    pub opened: Duration,
    pub closed: Duration,
}

/// Pods that wait together, and the time at which they are packed.
#[derive(Clone, Debug)]
pub struct Window {
    settings: WindowSettings,
    state: State,
    /// Time at which it last closed because a burst seemed to have ended.
    ended: Option<Duration>,
}

#[derive(Clone, Debug)]
enum State {
    Shut,
    Open { opened: Duration, last: Duration, joined: u32, longest: Duration, pace: bool, pods: BTreeSet<String> },
}

impl Window {
    #[must_use]
    pub fn new(settings: WindowSettings) -> Self {
        Self { settings, state: State::Shut, ended: None }
    }

    /// Number of pods that wait in it.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.state {
            State::Shut => 0,
            State::Open { pods, .. } => pods.len(),
        }
    }

    /// True if it is shut.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one transition function: see the table above.
    pub fn step(&mut self, input: WindowInput<'_>, now: Duration) -> WindowOutput {
        match (&mut self.state, input) {
            (State::Shut, WindowInput::Pending(uid)) => {
                self.open(uid, now, now);
                self.close_or_wake(now)
            }
            (State::Shut, WindowInput::Waited(uid, waited)) => {
                self.open(uid, now.saturating_sub(waited.min(self.settings.idle)), now);
                self.wake(now)
            }
            (State::Open { opened, last, joined, pods, .. }, WindowInput::Waited(uid, waited)) => {
                if !pods.insert(uid.to_owned()) {
                    return WindowOutput::Nothing;
                }
                let came = now.saturating_sub(waited.min(self.settings.idle));
                (*opened, *last) = (came.min(*opened), came.max(*last));
                // Pods that have waited for long say nothing about the pace at which pods come now.
                *joined = joined.saturating_add(u32::from(waited < self.settings.idle));
                self.wake(now)
            }
            (State::Open { last, joined, longest, pods, .. }, WindowInput::Pending(uid)) => {
                if !pods.insert(uid.to_owned()) {
                    return WindowOutput::Nothing;
                }
                if *joined >= BURST {
                    *longest = now.saturating_sub(*last).max(*longest);
                }
                (*last, *joined) = (now, joined.saturating_add(1));
                self.close_or_wake(now)
            }
            (State::Open { pods, .. }, WindowInput::Gone(uid)) => {
                if pods.remove(uid) && pods.is_empty() {
                    self.state = State::Shut;
                }
                WindowOutput::Nothing
            }
            (State::Open { .. }, WindowInput::Time) => self.close_or_wake(now),
            (State::Shut, WindowInput::Gone(_) | WindowInput::Time) => WindowOutput::Nothing,
        }
    }

    /// Time at which it closes if no pod comes; `None` while it is shut.
    #[must_use]
    pub fn closes(&self) -> Option<Duration> {
        self.deadline().map(|(deadline, _)| deadline)
    }

    /// Time at which the last pod joined; `None` while it is shut.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        match &self.state {
            State::Shut => None,
            State::Open { last, .. } => Some(*last),
        }
    }

    /// Closes it before its time; `None` if it is shut.
    pub fn close_now(&mut self, now: Duration) -> Option<ClosedWindow> {
        match std::mem::replace(&mut self.state, State::Shut) {
            State::Open { opened, pods, .. } => Some(ClosedWindow { pods, opened, closed: now }),
            State::Shut => None,
        }
    }

    /// True if it is shut and remembers nothing that matters.
    #[must_use]
    pub fn is_spent(&self, now: Duration) -> bool {
        self.is_empty() && self.ended.is_none_or(|ended| now.saturating_sub(ended) >= TOO_SOON)
    }

    fn open(&mut self, uid: &str, came: Duration, now: Duration) {
        self.state = State::Open {
            opened: came,
            last: came,
            joined: 1,
            longest: Duration::ZERO,
            pace: self.settings.pace && self.ended.is_none_or(|ended| now.saturating_sub(ended) >= TOO_SOON),
            pods: BTreeSet::from([uid.to_owned()]),
        };
    }

    /// Time at which it closes, and the quiet time that leads to it; `None` while it is shut.
    fn deadline(&self) -> Option<(Duration, Duration)> {
        let State::Open { opened, last, joined, longest, pace, .. } = &self.state else { return None };
        let mut idle = self.settings.idle;
        if *pace && *joined >= BURST {
            let mean = last.saturating_sub(*opened) / (joined - 1);
            idle = idle.min(SHORTEST.max(mean * PAUSES).max(*longest * LONGEST));
        }
        Some(((*last + idle).min(*opened + self.settings.max), idle))
    }

    fn wake(&self, now: Duration) -> WindowOutput {
        self.deadline().map_or(WindowOutput::Nothing, |(deadline, _)| WindowOutput::WakeAt(deadline.max(now)))
    }

    fn close_or_wake(&mut self, now: Duration) -> WindowOutput {
        let (State::Open { last, pods, .. }, Some((deadline, idle))) = (&self.state, self.deadline()) else {
            return WindowOutput::Nothing;
        };
        if now < deadline && pods.len() < self.settings.most {
            return WindowOutput::WakeAt(deadline);
        }
        self.ended = (idle < self.settings.idle && now >= *last + idle).then_some(now);
        match std::mem::replace(&mut self.state, State::Shut) {
            State::Open { opened, pods, .. } => WindowOutput::Close(ClosedWindow { pods, opened, closed: now }),
            State::Shut => WindowOutput::Nothing,
        }
    }
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

    fn closed(output: WindowOutput) -> ClosedWindow {
        match output {
            WindowOutput::Close(closed) => closed,
            other => panic!("not closed but {other:?}"),
        }
    }

    #[test]
    fn a_lone_pod_waits_for_the_idle_time() {
        let mut window = Window::new(SETTINGS);
        assert_eq!(window.step(WindowInput::Pending("a"), at(500)), WindowOutput::WakeAt(at(1500)));
        assert_eq!(window.step(WindowInput::Time, at(1499)), WindowOutput::WakeAt(at(1500)));
        let batch = closed(window.step(WindowInput::Time, at(1500)));
        assert_eq!((batch.pods.len(), batch.opened, batch.closed), (1, at(500), at(1500)));
        assert!(window.is_empty());
    }

    #[test]
    fn a_new_pod_extends_the_window_and_a_known_one_does_not() {
        let mut window = Window::new(SETTINGS);
        window.step(WindowInput::Pending("a"), at(0));
        assert_eq!(window.step(WindowInput::Pending("b"), at(900)), WindowOutput::WakeAt(at(1900)));
        assert_eq!(window.step(WindowInput::Pending("a"), at(1800)), WindowOutput::Nothing);
        assert_eq!(closed(window.step(WindowInput::Time, at(1900))).pods.len(), 2);
    }

    #[test]
    fn a_stream_of_pods_is_cut_at_the_maximum() {
        let mut window = Window::new(SETTINGS);
        for n in 0..20_u64 {
            let output = window.step(WindowInput::Pending(&n.to_string()), at(n * 500));
            assert!(!matches!(output, WindowOutput::Close(_)), "{n}");
        }
        let batch = closed(window.step(WindowInput::Pending("late"), at(10_000)));
        assert_eq!((batch.pods.len(), batch.closed), (21, at(10_000)));
    }

    #[test]
    fn a_window_whose_pods_are_all_gone_closes_without_a_batch() {
        let mut window = Window::new(SETTINGS);
        window.step(WindowInput::Pending("a"), at(0));
        window.step(WindowInput::Gone("b"), at(10));
        assert_eq!(window.len(), 1);
        window.step(WindowInput::Gone("a"), at(20));
        assert_eq!(window.step(WindowInput::Time, at(5000)), WindowOutput::Nothing);
        assert_eq!(window.step(WindowInput::Pending("c"), at(6000)), WindowOutput::WakeAt(at(7000)));
    }

    #[test]
    fn time_that_jumps_past_the_deadline_closes_at_once() {
        let mut window = Window::new(SETTINGS);
        window.step(WindowInput::Pending("a"), at(0));
        assert_eq!(closed(window.step(WindowInput::Time, at(99_000))).closed, at(99_000));
    }

    #[test]
    fn pods_that_waited_under_another_leader_form_one_batch_at_once() {
        let mut window = Window::new(SETTINGS);
        let now = at(50_000);
        for (uid, waited) in [("a", 3_000), ("b", 600_000), ("c", 1_000)] {
            assert_eq!(window.step(WindowInput::Waited(uid, at(waited)), now), WindowOutput::WakeAt(now), "{uid}");
        }
        let batch = closed(window.step(WindowInput::Time, now));
        assert_eq!((batch.pods.len(), batch.opened), (3, at(49_000)));
    }

    #[test]
    fn pods_that_came_just_before_a_leader_keep_their_window_open() {
        let mut window = Window::new(SETTINGS);
        let now = at(50_000);
        for (uid, waited, wake) in [("a", 3_000, 50_000), ("b", 400, 50_600), ("c", 700, 50_600)] {
            assert_eq!(window.step(WindowInput::Waited(uid, at(waited)), now), WindowOutput::WakeAt(at(wake)), "{uid}");
        }
        assert_eq!(window.step(WindowInput::Waited("a", at(0)), now), WindowOutput::Nothing, "it is in already");
        assert_eq!(window.step(WindowInput::Pending("d"), at(50_500)), WindowOutput::WakeAt(at(51_500)));
        assert_eq!(closed(window.step(WindowInput::Time, at(51_500))).pods.len(), 4);
    }

    #[test]
    fn burst_before_a_new_leader_sets_pace_only_if_it_is_recent() {
        let (paced, now) = (WindowSettings { pace: true, ..SETTINGS }, at(50_000));
        let joins = |window: &mut Window, waited: u64| {
            (0..100_u64).map(|n| window.step(WindowInput::Waited(&format!("{waited}-{n}"), at(waited)), now)).last()
        };
        assert_eq!(joins(&mut Window::new(paced), 100), Some(WindowOutput::WakeAt(at(50_150))));
        let mut old = Window::new(paced);
        assert_eq!(joins(&mut old, 30_000), Some(WindowOutput::WakeAt(now)));
        assert_eq!(old.step(WindowInput::Waited("new", at(100)), now), WindowOutput::WakeAt(at(50_900)));
    }

    /// `count` pods, one every `gap` milliseconds from 0 on; the last output.
    fn burst(window: &mut Window, count: u64, gap: u64) -> WindowOutput {
        (0..count).map(|n| window.step(WindowInput::Pending(&n.to_string()), at(n * gap))).last().unwrap()
    }

    #[test]
    fn burst_ends_after_twenty_of_its_pauses_and_at_least_250_ms() {
        let paced = WindowSettings { pace: true, ..SETTINGS };
        for (count, gap, idle) in [(400, 3, 250), (100, 20, 400), (100, 60, 1000), (19, 3, 1000)] {
            let end = (count - 1) * gap;
            assert_eq!(burst(&mut Window::new(paced), count, gap), WindowOutput::WakeAt(at(end + idle)), "{count}");
            assert_eq!(burst(&mut Window::new(SETTINGS), count, gap), WindowOutput::WakeAt(at(end + 1000)), "{count}");
        }
    }

    #[test]
    fn burst_that_stumbled_is_awaited_three_times_as_long() {
        let mut window = Window::new(WindowSettings { pace: true, ..SETTINGS });
        burst(&mut window, 100, 2);
        assert_eq!(window.step(WindowInput::Pending("late"), at(198 + 200)), WindowOutput::WakeAt(at(398 + 600)));
        let mut slow_to_start = Window::new(WindowSettings { pace: true, ..SETTINGS });
        slow_to_start.step(WindowInput::Pending("first"), at(0));
        for n in 0..99_u64 {
            slow_to_start.step(WindowInput::Pending(&n.to_string()), at(300 + n));
        }
        assert_eq!(slow_to_start.step(WindowInput::Time, at(500)), WindowOutput::WakeAt(at(398 + 250)));
    }

    #[test]
    fn burst_resumed_after_its_end_gets_the_whole_idle_time() {
        let mut window = Window::new(WindowSettings { pace: true, ..SETTINGS });
        burst(&mut window, 100, 2);
        assert_eq!(closed(window.step(WindowInput::Time, at(448))).pods.len(), 100);
        for n in 100..200_u64 {
            window.step(WindowInput::Pending(&n.to_string()), at(900 + n));
        }
        assert_eq!(window.step(WindowInput::Time, at(1500)), WindowOutput::WakeAt(at(1099 + 1000)));
        assert_eq!(closed(window.step(WindowInput::Time, at(2099))).pods.len(), 100);
        // The next one is a burst of its own.
        for n in 200..300_u64 {
            window.step(WindowInput::Pending(&n.to_string()), at(2200 + n));
        }
        assert_eq!(window.step(WindowInput::Time, at(2500)), WindowOutput::WakeAt(at(2499 + 250)));
    }

    #[test]
    fn enough_pods_close_it_at_once_and_the_next_opens_another() {
        let mut window = Window::new(SETTINGS);
        assert_eq!(closed(burst(&mut window, 1000, 2)).pods.len(), 1000);
        assert_eq!(window.step(WindowInput::Pending("next"), at(2000)), WindowOutput::WakeAt(at(3000)));
    }

    #[test]
    fn a_window_that_was_full_says_nothing_of_the_burst_s_end() {
        let mut window = Window::new(WindowSettings { pace: true, most: 100, ..SETTINGS });
        assert_eq!(closed(burst(&mut window, 100, 2)).pods.len(), 100);
        let last = (100..150_u64).map(|n| window.step(WindowInput::Pending(&n.to_string()), at(200 + n))).last();
        assert_eq!(last, Some(WindowOutput::WakeAt(at(349 + 250))), "the same burst at the same pace");
    }

    proptest! {
        #[test]
        fn every_pod_that_comes_and_stays_is_in_exactly_one_batch(
            gaps in prop::collection::vec(0u64..3000, 1..60), pace in any::<bool>(), most in 1usize..80,
        ) {
            let mut window = Window::new(WindowSettings { pace, most, ..SETTINGS });
            let (mut now, mut wake, mut seen) = (0u64, None, Vec::new());
            for (n, gap) in gaps.iter().enumerate() {
                let next = now + gap;
                while let Some(due) = wake.filter(|due| *due <= at(next)) {
                    wake = match window.step(WindowInput::Time, due) {
                        WindowOutput::WakeAt(later) => Some(later),
                        WindowOutput::Close(batch) => { seen.extend(batch.pods); None }
                        WindowOutput::Nothing => None,
                    };
                }
                now = next;
                match window.step(WindowInput::Pending(&format!("{n:03}")), at(now)) {
                    WindowOutput::WakeAt(due) => wake = Some(due),
                    WindowOutput::Close(batch) => {
                        prop_assert!(batch.closed - batch.opened <= SETTINGS.max);
                        seen.extend(batch.pods);
                        wake = None;
                    }
                    WindowOutput::Nothing => {}
                }
            }
            if let WindowOutput::Close(batch) = window.step(WindowInput::Time, at(now + 20_000)) {
                seen.extend(batch.pods);
            }
            seen.sort();
            prop_assert_eq!(seen, (0..gaps.len()).map(|n| format!("{n:03}")).collect::<Vec<_>>());
        }
    }
}
