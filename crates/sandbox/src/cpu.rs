//! CPU time of the servers in this process, apart from that of those who ask them: an answer is made where it is waited for.
//! Measured only while somebody wants to know; never an input of a decision.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

thread_local! {
    /// CPU time that answers have taken so far; none while nothing is measured.
    static ANSWERS: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Begins to measure on this thread.
pub fn measure() {
    ANSWERS.set(Some(Duration::ZERO));
}

/// CPU time that answers have taken on this thread; none while nothing is measured.
pub fn of_answers() -> Option<Duration> {
    ANSWERS.get()
}

/// CPU time of this thread.
pub fn of_thread() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Counts the time of `work` as that of answers.
pub(crate) fn answering<T>(work: impl FnOnce() -> T) -> T {
    let Some(before) = ANSWERS.get() else { return work() };
    let begun = of_thread();
    let done = work();
    ANSWERS.set(Some(before + of_thread().saturating_sub(begun)));
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_only_while_they_are_measured() {
        let work = || (0..200_000_u64).map(|n| n.wrapping_mul(n)).fold(0, u64::wrapping_add);
        assert_eq!((answering(work), of_answers()), (work(), None));
        measure();
        work();
        assert_eq!(of_answers(), Some(Duration::ZERO));
        let begun = of_thread();
        answering(|| while of_thread() - begun < Duration::from_millis(2) {});
        assert!(of_answers() >= Some(Duration::from_millis(1)));
        ANSWERS.set(None);
    }
}
