//! Costs of the steps of `cargo xtask test`, and their growth since the figures of tools/times.tsv.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::checkout::root;

/// Figures to compare with, one a line: a name, a tab, CPU time in multiples of the yardstick.
const FIGURES: &str = "tools/times.tsv";
/// The name of the first build in that file. Its figure is wall-clock time on two cores.
const FIRST_BUILD: &str = "first build";
/// Share of growth above which a step is named.
const GROWTH: f64 = 0.2;
/// Growth by less than this many multiples of the yardstick is noise.
const NOISE: f64 = 3.0;
/// Rows of the lists of the slowest.
const SLOWEST: usize = 10;

/// A step that has run.
pub struct Entry {
    pub name: String,
    pub wall: Duration,
    pub cpu: Option<Duration>,
}

/// Ledger of all steps so far.
#[derive(Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Seconds of single tests, by program and name.
    tests: Vec<(String, f64)>,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { entries: Vec::new(), tests: Vec::new() });

fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what a step or a test program took; what runs in several parts has one row.
pub fn note(name: &str, wall: Duration, cpu: Option<Duration>) {
    let mut ledger = ledger();
    match ledger.entries.iter_mut().find(|entry| entry.name == name) {
        Some(entry) => {
            entry.wall += wall;
            entry.cpu = entry.cpu.zip(cpu).map(|(before, cpu)| before + cpu);
        }
        None => ledger.entries.push(Entry { name: name.to_owned(), wall, cpu }),
    }
}

/// Notes the times of single tests that a test program printed.
pub fn note_tests(program: &str, output: &str) {
    let times = output.lines().filter_map(test_time);
    let named: Vec<(String, f64)> = times.map(|(test, seconds)| (format!("{program}: {test}"), seconds)).collect();
    ledger().tests.extend(named);
}

/// Name and seconds of `test NAME ... ok <1.234s>`.
fn test_time(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, time) = rest.rsplit_once('<')?;
    Some((name, time.strip_suffix("s>")?.parse().ok()?))
}

/// Prints the slowest tests and steps, the CPU time of each step beside its figure, and the whole. `yardstick` is the time of
/// the fixed piece of work in this run, `cold` is true where nothing was built before it.
pub fn print(whole: Duration, yardstick: Duration, cold: bool) {
    let text = std::fs::read_to_string(root().join(FIGURES)).unwrap_or_default();
    println!("{}", report(&ledger(), &read_figures(&text), whole, yardstick, cold));
}

/// The figures of a file, by name.
fn read_figures(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, figure) = line.split_once('\t')?;
        Some((name.to_owned(), figure.trim().parse().ok()?))
    };
    lines.filter_map(figure).collect()
}

/// Builds take long on an empty target folder and none otherwise: only like is compared with like.
fn figure_name(name: &str, cold: bool) -> Option<String> {
    let builds = ["build of the tests", "clippy", "real parts", "examples in the documentation"].contains(&name);
    match (builds, cold) {
        (true, false) => None,
        (true, true) => Some(format!("{name}, cold")),
        (false, _) => Some(name.to_owned()),
    }
}

fn report(
    ledger: &Ledger,
    figures: &BTreeMap<String, f64>,
    whole: Duration,
    yardstick: Duration,
    cold: bool,
) -> String {
    let mut text = String::new();
    let unit = yardstick.as_secs_f64().max(1e-9);
    slowest(&mut text, ledger);
    let _ = writeln!(text, "\n== CPU time, in multiples of a fixed piece of work of {unit:.2} s, and {FIGURES}");
    let mut grown = Vec::new();
    let mut total = 0.0;
    for Entry { name, cpu, .. } in &ledger.entries {
        let Some(cpu) = cpu.map(|cpu| cpu.as_secs_f64()) else { continue };
        total += cpu;
        let Some(name) = figure_name(name, cold) else { continue };
        let before = figures.get(&name);
        let beside = before.map_or_else(|| "new".to_owned(), |before| format!("{before:.1}"));
        let _ = writeln!(text, "{:>9.1} {beside:>9}  {name} ({cpu:.1} s)", cpu / unit);
        if before.is_some_and(|before| cpu / unit > before * (1.0 + GROWTH) + NOISE) {
            grown.push(name);
        }
    }
    if !grown.is_empty() {
        let _ = writeln!(text, "grown by more than a fifth: {}", grown.join(", "));
    }
    let _ = write!(text, "whole: {:.0} s, CPU {total:.0} s", whole.as_secs_f64());
    if let Some(first) = figures.get(FIRST_BUILD) {
        let first = first * unit;
        let _ = write!(text, ", {:.2} times the first build ({first:.0} s here)", whole.as_secs_f64() / first);
    }
    text.push_str(if cold { "; nothing was built before" } else { "; built before" });
    text
}

/// The tests and the steps that took longest.
fn slowest(text: &mut String, ledger: &Ledger) {
    let mut tests: Vec<&(String, f64)> = ledger.tests.iter().collect();
    tests.sort_by(|a, b| b.1.total_cmp(&a.1));
    let _ = writeln!(text, "\n== slowest tests, in seconds");
    for (name, seconds) in tests.iter().take(SLOWEST) {
        let _ = writeln!(text, "{seconds:>9.1}  {name}");
    }
    let mut steps: Vec<&Entry> = ledger.entries.iter().collect();
    steps.sort_by_key(|entry| std::cmp::Reverse(entry.wall));
    let _ = writeln!(text, "\n== slowest steps, in seconds");
    for entry in steps.iter().take(SLOWEST) {
        let _ = writeln!(text, "{:>9.1}  {}", entry.wall.as_secs_f64(), entry.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, seconds: u64) -> Entry {
        let time = Duration::from_secs(seconds);
        Entry { name: name.to_owned(), wall: time, cpu: Some(time) }
    }

    #[test]
    fn what_has_grown_by_more_than_a_fifth_is_named() {
        let entries = vec![entry("seeds", 130), entry("live", 110), entry("new", 4), entry("clippy", 900)];
        let ledger = Ledger { entries, tests: vec![("seeds: a".to_owned(), 12.5)] };
        let figures = read_figures("# a comment\nfirst build\t400\nseeds\t100\nlive\t100\nclippy, cold\t1\n");
        let text = report(&ledger, &figures, Duration::from_secs(1200), Duration::from_secs(1), false);
        assert!(text.contains("grown by more than a fifth: seeds\n"), "{text}");
        assert!(text.contains("3.00 times the first build (400 s here); built before"), "{text}");
        assert!(text.contains("     12.5  seeds: a"), "{text}");
        let cold = report(&ledger, &figures, Duration::from_secs(1200), Duration::from_secs(1), true);
        assert!(cold.contains("grown by more than a fifth: seeds, clippy, cold\n"), "{cold}");
    }

    #[test]
    fn times_of_single_tests_are_read() {
        assert_eq!(test_time("test a::b ... ok <1.250s>"), Some(("a::b", 1.25)));
        assert_eq!(test_time("test a::b - should panic ... FAILED <0.001s>"), Some(("a::b - should panic", 0.001)));
        assert_eq!(test_time("test a::b ... ok"), None);
        assert_eq!(test_time("test result: ok. 3 passed"), None);
    }
}
