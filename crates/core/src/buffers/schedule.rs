//! Times at which a buffer is held: the annotation `dovetail.dev/schedule`, for the ramp of a morning.
//!
//! `0 7 * * mon-fri 10h Europe/Berlin`: a cron line of five fields, the time from each hit for which the buffer is held, and a
//! time zone, UTC unless given. Several are separated by semicolons; the buffer is held while any of them holds.

use std::time::Duration;

use dovetail_api::names::annotations::SCHEDULE;
use dovetail_api::v1::parse_go_duration;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::budgets::Schedule;

/// Finds the time zone of an IANA name; the caller knows where.
pub type FindZone<'a> = &'a dyn Fn(&str) -> Option<TimeZone>;

/// Most entries of one annotation.
const MOST_ENTRIES: usize = 50;

/// Times at which a buffer is held.
#[derive(Clone, Debug, Default)]
pub struct BufferSchedule(Vec<(Schedule, Duration, TimeZone)>);

impl BufferSchedule {
    /// Reads the annotation; without it the buffer is always held.
    ///
    /// # Errors
    /// The fault in it, with what is allowed.
    pub fn from_annotations(metadata: &ObjectMeta, zones: FindZone<'_>) -> Result<Self, String> {
        let Some(text) = metadata.annotations.as_ref().and_then(|own| own.get(SCHEDULE)) else {
            return Ok(Self::default());
        };
        let each = text.split(';').map(str::trim).filter(|one| !one.is_empty());
        let all: Vec<_> = each.take(MOST_ENTRIES).map(|one| entry(one, zones)).collect::<Result<_, String>>()?;
        if all.is_empty() { Err(wrong(text, "it is empty")) } else { Ok(Self(all)) }
    }

    /// True if the buffer is held at that time.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.0.is_empty() || self.0.iter().any(|(schedule, long, zone)| schedule.holds(*long, as_if_utc(now, zone)))
    }
}

fn wrong(text: &str, what: &str) -> String {
    format!(
        "the annotation {SCHEDULE} {text:?}: {what} (allowed: five fields of cron, a duration and a time zone, as in \
         0 7 * * mon-fri 10h Europe/Berlin)"
    )
}

fn entry(text: &str, zones: FindZone<'_>) -> Result<(Schedule, Duration, TimeZone), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (cron, long, zone) = match words.as_slice() {
        [cron @ .., long] if cron.len() == 5 => (cron, *long, "UTC"),
        [cron @ .., long, zone] if cron.len() == 5 => (cron, *long, *zone),
        _ => return Err(wrong(text, &format!("{} words", words.len()))),
    };
    let schedule = Schedule::parse(&cron.join(" ")).map_err(|why| wrong(text, &why))?;
    let long = parse_go_duration(long).map_err(|why| wrong(text, &why.to_string()))?;
    let zone = match zone {
        "UTC" => TimeZone::UTC,
        name => zones(name).ok_or_else(|| wrong(text, &format!("time zone {name} is not known")))?,
    };
    Ok((schedule, long, zone))
}

/// The time that a clock in UTC would have to show to show what clocks in the zone show.
fn as_if_utc(now: Timestamp, zone: &TimeZone) -> Timestamp {
    TimeZone::UTC.to_timestamp(zone.to_datetime(now)).unwrap_or(now)
}
