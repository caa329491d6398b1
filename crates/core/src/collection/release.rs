//! An operator's release of the brakes: a time until which everything may be collected, so that it ends by itself.

use jiff::{SignedDuration, Timestamp};

/// Longest allowed release; a longer one is taken for a mistake.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// True if the brakes are released now, by the value of `dovetail.dev/allow-collection`.
///
/// # Errors
/// The fault in the value, and the allowed form.
pub fn is_released(value: &str, now: Timestamp) -> Result<bool, String> {
    const ALLOWED: &str = "allowed: a time in RFC 3339 at most 24 hours ahead, such as 2026-01-31T18:00:00Z";
    let until: Timestamp = value.trim().parse().map_err(|_| format!("{value:?} is no time; {ALLOWED}"))?;
    if until.duration_since(now) > LONGEST {
        return Err(format!("{value:?} is more than 24 hours ahead; {ALLOWED}"));
    }
    Ok(now < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_ends_by_itself_and_nonsense_releases_nothing() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap_or_default();
        assert_eq!(is_released("2026-01-31T12:10:00Z", now), Ok(true));
        assert_eq!(is_released("2026-01-31T13:10:00+01:00", now), Ok(true));
        assert_eq!(is_released("2026-01-31T12:00:00Z", now), Ok(false));
        for bad in ["", "true", "yes", "10m", "2027-01-31T12:00:00Z"] {
            assert!(is_released(bad, now).is_err_and(|why| why.contains("RFC 3339")), "{bad}");
        }
    }
}
