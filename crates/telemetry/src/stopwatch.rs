//! Real time spent, for people who wait: never an input of a decision.

use std::time::{Duration, Instant};

/// Measures from its start.
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring real time.
    #[allow(clippy::disallowed_methods)] // what a command took is real time by definition
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Real time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Peak resident memory of the process, in KiB; 0 if the system does not report it.
pub fn peak_rss_kib() -> u64 {
    rss_kib().1
}

/// Resident memory of the process now, and its peak, in KiB; 0 if the system does not report it.
pub fn rss_kib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
    };
    (read("VmRSS:"), read("VmHWM:"))
}
