//! Durations as Go and Karpenter write them; the written form is kept when an object is written again.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a duration")]
pub struct DurationError(pub String);

/// The longest duration that Go has, 2^63-1 nanoseconds: 292 years. What is longer counts as that.
pub const LONGEST: Duration = Duration::from_nanos(i64::MAX as u64);

/// Reads a Go duration (`1h30m`, `1.5s`, `300ms`), not negative. A bare `0` is zero; what is beyond [`LONGEST`] is that long.
///
/// # Errors
/// The text is not a duration.
pub fn parse_go_duration(text: &str) -> Result<Duration, DurationError> {
    let fail = || DurationError(text.to_string());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(fail)?;
        let (written, tail) = rest.split_at(number);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        nanos = nanos.saturating_add(part(written, unit).ok_or_else(fail)?);
        rest = tail;
    }
    if text.is_empty() {
        return Err(fail());
    }
    Ok(u64::try_from(nanos).map_or(LONGEST, Duration::from_nanos).min(LONGEST))
}

/// Nanoseconds of one number with its unit; as many as there are where it does not fit.
fn part(number: &str, unit: &str) -> Option<u128> {
    let scale: u128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // All are digits: what is not read is too large.
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u128::MAX) };
    let fraction = &fraction[..fraction.len().min(18)];
    let below = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u128>().ok()?.checked_mul(scale)? / 10u128.pow(u32::try_from(fraction.len()).ok()?)
    };
    Some(whole.saturating_mul(scale).saturating_add(below))
}

/// A duration, `terminationGracePeriod` for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeDuration {
    duration: Duration,
    text: String,
}

impl KubeDuration {
    /// Reads a Go duration.
    ///
    /// # Errors
    /// As [`parse_go_duration`].
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        Ok(Self { duration: parse_go_duration(text)?, text: text.to_string() })
    }

    /// A number of whole seconds.
    pub fn from_secs(seconds: u64) -> Self {
        Self { duration: Duration::from_secs(seconds), text: format!("{seconds}s") }
    }

    /// The duration itself, without the text that it was written as.
    pub fn get(&self) -> Duration {
        self.duration
    }
}

impl fmt::Display for KubeDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for KubeDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for KubeDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A duration or `Never`: `expireAfter`, `consolidateAfter`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DurationOrNever {
    /// A finite duration.
    After(KubeDuration),
    /// `Never`: the rule is off.
    Never,
}

impl DurationOrNever {
    /// Reads a Go duration or `Never`.
    ///
    /// # Errors
    /// As [`parse_go_duration`].
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        if text == "Never" { Ok(Self::Never) } else { KubeDuration::parse(text).map(Self::After) }
    }

    /// A number of whole seconds.
    pub fn from_secs(seconds: u64) -> Self {
        Self::After(KubeDuration::from_secs(seconds))
    }

    /// The duration; `None` is never.
    pub fn get(&self) -> Option<Duration> {
        match self {
            Self::After(duration) => Some(duration.get()),
            Self::Never => None,
        }
    }
}

impl fmt::Display for DurationOrNever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(duration) => duration.fmt(f),
            Self::Never => f.write_str("Never"),
        }
    }
}

impl Serialize for DurationOrNever {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationOrNever {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("720h", 2_592_000_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("300ms", 300),
            (".5m", 30_000),
        ] {
            assert_eq!(parse_go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1", "1d", "-1s", "1h 2m", "1..5s", ".s", "Never", "1µ"] {
            assert!(parse_go_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duration_beyond_gos_longest_counts_as_that_and_keeps_text() {
        assert_eq!(parse_go_duration("2562047h47m16s"), Ok(Duration::from_secs(9_223_372_036)));
        let digits = format!("{}h", "9".repeat(60));
        for text in ["2562047h47m17s", "2562048h", "9999999999h", "99999999999999999999h", "1ns9999999999h", &digits] {
            assert_eq!(parse_go_duration(text), Ok(LONGEST), "{text}");
        }
        let read: KubeDuration = serde_json::from_str("\"3000000h\"").unwrap();
        assert_eq!((read.get(), serde_json::to_string(&read).unwrap()), (LONGEST, "\"3000000h\"".to_owned()));
    }

    #[test]
    fn the_written_form_is_kept() {
        let read: DurationOrNever = serde_json::from_str("\"720h\"").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"720h\"");
        assert_eq!(DurationOrNever::parse("Never").unwrap().get(), None);
    }
}
