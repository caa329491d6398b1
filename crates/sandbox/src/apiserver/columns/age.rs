//! Durations as Kubernetes prints them: one or two units, the smaller one only while it says something.
use jiff::{SignedDuration, Timestamp};

/// The time since an RFC 3339 time; `<unknown>` for none.
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => human(now.duration_since(then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration for people.
pub fn human(duration: SignedDuration) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // A clock a moment behind is no mistake.
    let seconds = duration.as_secs();
    let two = |big: i64, letter: char, small: i64, second: char| {
        let rest = seconds % big / small;
        let head = format!("{}{letter}", seconds / big);
        if rest == 0 { head } else { format!("{head}{rest}{second}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_unit_is_shown_while_it_says_something() {
        let shown = |seconds: i64| human(SignedDuration::from_secs(seconds));
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (135, "2m15s"),
            (660, "11m"),
            (10_860, "3h1m"),
            (30_000, "8h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (66_000_000, "2y33d"),
            (-1, "0s"),
            (-60, "<invalid>"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(shown(seconds), expected, "{seconds}");
        }
    }
}
