//! A line on the terminal that says how far long work is. It is on standard error, and nowhere where that is no terminal.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use dovetail_telemetry::stopwatch::Stopwatch;

/// Shortest time between two changes of the line.
const REDRAW: Duration = Duration::from_millis(100);
/// Time before the first line: short work has none.
const BEFORE_FIRST: Duration = Duration::from_millis(400);
/// Takes back the line that the cursor is in.
const CLEAR: &str = "\r\x1b[2K";

/// One line of progress.
pub struct ProgressLine {
    shown: bool,
    begun: Stopwatch,
    /// Time at which it was shown last, since it began.
    last: Cell<Option<Duration>>,
}

impl ProgressLine {
    /// A line where standard error is a terminal and nobody wants quiet.
    pub fn new(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        let shown = !quiet && !dumb && std::io::stderr().is_terminal();
        Self { shown, begun: Stopwatch::start(), last: Cell::new(None) }
    }

    /// Does work that says nothing of how far it is, and shows how much of the time that such work usually takes is over.
    pub fn during<T>(quiet: bool, what: &str, usual: Duration, work: impl FnOnce() -> T) -> T {
        let line = Self::new(quiet);
        if !line.is_shown() {
            return work();
        }
        let (done, over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while over.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                    let done = line.begun.elapsed().as_secs_f64();
                    // It is not over before it is over.
                    let share = (done / usual.as_secs_f64().max(0.001)).min(0.99);
                    line.say(&format!(
                        "{what}, {done:.0} s of about {:.0} s {}",
                        usual.as_secs_f64().ceil(),
                        bar(share)
                    ));
                }
            });
            let answer = work();
            drop(done);
            answer
        })
    }

    /// True if there is a place for the line.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Shows how much of a length of time is over.
    pub fn show(&self, what: &str, done: Duration, of: Duration) {
        let share = if of.is_zero() { 1.0 } else { (done.as_secs_f64() / of.as_secs_f64()).min(1.0) };
        self.say(&format!("{what} {} of {} {}", short(done.min(of)), short(of), bar(share)));
    }

    /// Shows how many of a number are done.
    pub fn count(&self, what: &str, done: usize, of: usize) {
        let share = if of == 0 { 1.0 } else { done as f64 / of as f64 };
        self.say(&format!("{what} {done} of {of} {}", bar(share.min(1.0))));
    }

    /// Shows a text, unless another was shown just now.
    pub fn say(&self, text: &str) {
        let now = self.begun.elapsed();
        let early = now < BEFORE_FIRST;
        let recent = self.last.get().is_some_and(|last| now.saturating_sub(last) < REDRAW);
        if !self.shown || early || recent {
            return;
        }
        self.last.set(Some(now));
        let _ = write!(std::io::stderr(), "{CLEAR}{text}").and_then(|()| std::io::stderr().flush());
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "{CLEAR}").and_then(|()| std::io::stderr().flush());
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(share: f64) -> String {
    const WIDTH: usize = 20;
    let full = (share * WIDTH as f64) as usize;
    format!("[{}{}] {:.0} %", "#".repeat(full.min(WIDTH)), " ".repeat(WIDTH.saturating_sub(full)), share * 100.0)
}

fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m{}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_full_at_the_end_and_never_longer() {
        assert_eq!(bar(0.5), "[##########          ] 50 %");
        assert_eq!(bar(1.0).matches('#').count(), 20);
        assert_eq!(short(Duration::from_secs(125)), "2m5s");
    }

    #[test]
    fn work_is_done_whether_or_not_somebody_looks_on() {
        assert_eq!(ProgressLine::during(true, "packing", Duration::ZERO, || 7), 7);
    }

    #[test]
    fn nothing_is_shown_where_standard_error_is_no_terminal() {
        let line = ProgressLine { shown: false, begun: Stopwatch::start(), last: Cell::new(None) };
        line.say("x");
        assert!(line.last.get().is_none() && !line.is_shown());
    }
}
