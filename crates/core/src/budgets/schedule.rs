//! The times at which a budget holds: a cron line in UTC and a duration from each of its hits (core spec 1.1, 5.3).

use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::{SignedDuration, Timestamp};

/// A cron line in UTC.
#[derive(Clone, Debug)]
pub struct Schedule(Crontab);

/// Words that stand for a cron line.
const MACROS: [(&str, &str); 7] = [
    ("@annually", "0 0 1 1 *"),
    ("@yearly", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Schedule {
    /// Reads a line: five fields, or a word such as `@daily`. Extensions of other crons (`L`, `W`, `#`, a time zone) are
    /// refused, as Karpenter refuses them.
    ///
    /// # Errors
    /// The fault in the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = MACROS.iter().find(|(word, _)| *word == text.trim()).map(|(_, line)| *line);
        let line = known.unwrap_or(text);
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.len() != 5 {
            return Err(format!("schedule {text:?} has {} fields, 5 are needed", fields.len()));
        }
        if let Some(field) = fields.iter().find(|field| !is_plain(field)) {
            return Err(format!("schedule {text:?}: {field:?} is no field of a cron line"));
        }
        // In the fields of days a question mark is another way to write an asterisk.
        let plain: Vec<_> = fields.iter().map(|field| field.replace('?', "*")).collect();
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        match parse_crontab_with(&plain.join(" "), options) {
            Ok(crontab) => Ok(Self(crontab)),
            Err(_) => Err(format!("schedule {text:?} is no cron line")),
        }
    }

    /// True if it has hit within `duration` up to now, now included: `next(now - duration) <= now`.
    #[must_use]
    pub fn holds(&self, duration: Duration, now: Timestamp) -> bool {
        let begin = SignedDuration::try_from(duration).ok().and_then(|long| now.checked_sub(long).ok());
        let Some(begin) = begin else { return false };
        self.0.find_next(MakeTimestamp(begin)).is_ok_and(|hit| hit.timestamp() <= now)
    }

    /// The next hit after `at`, or the next end of a hit's duration, whichever is first.
    pub fn edge_after(&self, duration: Duration, at: Timestamp) -> Option<Timestamp> {
        let long = SignedDuration::try_from(duration).ok()?;
        let hit = |after: Timestamp| Some(self.0.find_next(MakeTimestamp(after)).ok()?.timestamp());
        let end = hit(at.checked_sub(long).ok()?).and_then(|hit| hit.checked_add(long).ok()).filter(|end| *end > at);
        hit(at).into_iter().chain(end).min()
    }
}

/// True if a field has only numbers, names of months or days, and the characters that join them.
fn is_plain(field: &str) -> bool {
    let parts = field.split([',', '-', '/']);
    parts.into_iter().all(|part| {
        let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let name = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
        matches!(part, "*" | "?") || number || name
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn holds(line: &str, minutes: u64, now: &str) -> bool {
        Schedule::parse(line).unwrap().holds(Duration::from_secs(60 * minutes), at(now))
    }

    #[test]
    fn it_holds_from_the_hit_until_the_duration_is_over() {
        assert!(!holds("0 9 * * *", 60, "2026-03-10T08:59:59Z"));
        assert!(holds("0 9 * * *", 60, "2026-03-10T09:00:00Z"));
        assert!(holds("0 9 * * *", 60, "2026-03-10T09:59:59Z"));
        assert!(!holds("0 9 * * *", 60, "2026-03-10T10:00:00Z"));
    }

    #[test]
    fn it_holds_across_midnight_the_months_end_and_the_years() {
        for (line, hours, inside, outside) in [
            ("0 22 * * *", 8, "2026-03-11T05:59:00Z", "2026-03-11T06:00:00Z"),
            ("0 22 31 1 *", 48, "2026-02-02T21:59:00Z", "2026-02-02T22:00:00Z"),
            ("30 23 31 12 *", 1, "2027-01-01T00:29:00Z", "2027-01-01T00:30:00Z"),
            ("0 12 28 2 *", 24, "2028-02-29T11:59:00Z", "2028-02-29T12:00:00Z"),
            ("0 0 29 2 *", 24, "2028-02-29T23:59:00Z", "2027-03-01T00:00:00Z"),
        ] {
            assert!(holds(line, 60 * hours, inside), "{line} at {inside}");
            assert!(!holds(line, 60 * hours, outside), "{line} at {outside}");
        }
    }

    #[test]
    fn days_names_and_words_are_read() {
        // 2026-03-09 is a Monday.
        assert!(holds("0 9 * * mon-fri", 60, "2026-03-13T09:30:00Z"));
        assert!(!holds("0 9 * * mon-fri", 60, "2026-03-14T09:30:00Z"));
        assert!(holds("0 0 13 * FRI", 60, "2026-03-20T00:30:00Z"), "the 13th, or a Friday");
        assert!(holds("0 0 ? JUL *", 60, "2026-07-04T00:30:00Z"));
        assert!(holds("@daily", 60, "2026-03-14T00:30:00Z") && !holds("@daily", 60, "2026-03-14T01:00:00Z"));
        assert!(holds("@weekly", 60, "2026-03-15T00:30:00Z") && !holds("@weekly", 60, "2026-03-16T00:30:00Z"));
        assert!(holds("@yearly", 60, "2026-01-01T00:30:00Z") && !holds("@monthly", 60, "2026-01-02T00:30:00Z"));
    }

    #[test]
    fn what_never_comes_never_holds() {
        assert!(!holds("0 0 30 2 *", 60 * 24 * 365, "2026-03-14T00:00:00Z"));
    }

    #[test]
    fn what_is_no_cron_line_is_refused_with_its_text() {
        let bad = ["", "* * * *", "* * * * * *", "61 * * * *", "0 0 L * *", "0 0 15W * *", "0 0 * * 5#3", "@reboot"];
        for line in bad.into_iter().chain(["0 9 * * * Europe/Berlin", "a b c d e", "0 9-5 * * *", "*/0 * * * *"]) {
            let error = Schedule::parse(line).unwrap_err();
            assert!(error.contains(line), "{line:?}: {error}");
        }
    }
}
