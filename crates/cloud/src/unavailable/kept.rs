//! Unavailable offerings as they are kept for a successor: a line of JSON each, in wall time, as clocks that stop with a process
//! mean nothing to the next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{ClockMoment, LONGEST, Mark, OfferingKey, QuotaGroup, RefusalScope, UnavailableOfferings, moment};

/// Most refusals that are kept, the latest ones: some 300 KiB of the one MiB that a ConfigMap may have.
pub const MOST_KEPT: usize = 2000;
/// More doublings than lead to the longest time are none.
const MOST_REFUSALS: u32 = 16;

/// A refusal as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Scope of the refusal: `offering on-demand us-east-1a m5.large`, `quota spot Standard`, `capacity-type spot`, `subnet
    /// subnet-1`.
    what: String,
    /// Number of refusals in a row.
    refusals: u32,
    /// Time of the last refusal.
    last: Timestamp,
    /// Time until which it is believed.
    until: Timestamp,
}

impl UnavailableOfferings {
    /// Remembered refusals as text, at one moment on both clocks.
    #[must_use]
    pub fn kept(&self, now: Duration, wall: Timestamp) -> String {
        let now = moment(now);
        let mut all: Vec<(&RefusalScope, &Mark)> = self.marks.iter().collect();
        all.sort_by(|(a, x), (b, y)| y.last.cmp(&x.last).then_with(|| a.cmp(b)));
        all.truncate(MOST_KEPT);
        let line = |(scope, mark): (&RefusalScope, &Mark)| {
            let kept = Kept {
                what: written(scope),
                refusals: mark.refusals,
                last: wall_time(mark.last, now, wall),
                until: wall_time(mark.until, now, wall),
            };
            serde_json::to_string(&kept).ok()
        };
        let lines: Vec<String> = all.into_iter().filter_map(line).collect();
        lines.join("\n")
    }

    /// Remembers what another has kept, unless something later is known; answers how many refusals that are. A line that is
    /// not understood is passed over, times that cannot be are bounded.
    pub fn take_over(&mut self, text: &str, now: Duration, wall: Timestamp) -> usize {
        let lines = text.lines().take(MOST_KEPT).filter_map(|line| serde_json::from_str::<Kept>(line).ok());
        let mut taken = 0;
        let on_our_clock = |time: Timestamp| moment(now).saturating_add(time.duration_since(wall));
        for kept in lines {
            let Some(scope) = parse_scope(&kept.what) else { continue };
            let last = on_our_clock(kept.last).min(moment(now));
            let until = on_our_clock(kept.until).min(moment(now + LONGEST));
            let mark = Mark { refusals: kept.refusals.clamp(1, MOST_REFUSALS), last, until };
            if self.marks.get(&scope).is_none_or(|known| known.last < last) {
                self.marks.insert(scope, mark);
                taken += 1;
            }
        }
        self.forget_beyond_most();
        self.version += 1;
        self.forget_expired(now);
        taken
    }
}

/// A moment of the monotonic clock in wall time.
fn wall_time(moment: ClockMoment, now: ClockMoment, wall: Timestamp) -> Timestamp {
    let ahead: SignedDuration = moment.saturating_sub(now);
    let shifted = wall.checked_add(ahead).unwrap_or(wall);
    // Whole seconds: nobody needs more, and what is kept stays the same as long as nothing happens.
    Timestamp::from_second(shifted.as_second()).unwrap_or(wall)
}

fn written(scope: &RefusalScope) -> String {
    match scope {
        RefusalScope::Offering(OfferingKey { capacity_type, instance_type, zone }) => {
            format!("offering {capacity_type} {zone} {instance_type}")
        }
        RefusalScope::Quota { capacity_type, group } => format!("quota {capacity_type} {group}"),
        RefusalScope::CapacityType(name) => format!("capacity-type {name}"),
        RefusalScope::Subnet(id) => format!("subnet {id}"),
    }
}

fn parse_scope(what: &str) -> Option<RefusalScope> {
    let (kind, rest) = what.split_once(' ')?;
    match kind {
        "offering" => {
            let mut parts = rest.split(' ').filter(|part| !part.is_empty()).map(str::to_owned);
            let (capacity_type, zone, instance_type) = (parts.next()?, parts.next()?, parts.next()?);
            Some(RefusalScope::Offering(OfferingKey { capacity_type, instance_type, zone }))
        }
        "quota" => {
            let (capacity_type, group) = rest.split_once(' ')?;
            Some(RefusalScope::Quota { capacity_type: capacity_type.to_owned(), group: QuotaGroup::named(group)? })
        }
        "capacity-type" => Some(RefusalScope::CapacityType(rest.to_owned())),
        "subnet" => Some(RefusalScope::Subnet(rest.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    fn wall() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn some() -> UnavailableOfferings {
        let mut cache = UnavailableOfferings::default();
        let key = OfferingKey { capacity_type: "spot".into(), instance_type: "m5.large".into(), zone: "a".into() };
        cache.mark(minutes(100), key.clone());
        cache.mark(minutes(103), key);
        cache.mark_quota(minutes(104), "on-demand", QuotaGroup::GAndVt);
        cache.mark_capacity_type(minutes(105), "spot", UnavailableOfferings::CAUSE_OF_ANOTHER);
        cache.mark_subnet(minutes(105), "subnet-1");
        cache
    }

    /// The process that takes over has been up for half an hour, and reads a minute later.
    #[test]
    fn successor_believes_refusals_as_long_and_doubles_from_there() {
        let text = some().kept(minutes(105), wall());
        assert_eq!(text.lines().count(), 4);
        let mut next = UnavailableOfferings::default();
        assert_eq!(next.take_over(&text, minutes(31), wall() + jiff::SignedDuration::from_mins(1)), 4);
        let (now, mine) = (minutes(31), some());
        assert_eq!(next.as_of(now), mine.as_of(minutes(106)));
        assert_eq!(next.as_of(now + minutes(2)), mine.as_of(minutes(108)));
        assert_eq!(next.as_of(now + minutes(3)), mine.as_of(minutes(109)));
        let key = OfferingKey { capacity_type: "spot".into(), instance_type: "m5.large".into(), zone: "a".into() };
        next.mark(now + minutes(5), key);
        assert!(next.as_of(now + minutes(16)).refused("m5.large", "a", "spot"), "the third in a row: twelve minutes");
    }

    #[test]
    fn fresh_process_believes_refusals_no_longer_and_keeps_the_same() {
        let (mine, text) = (some(), some().kept(minutes(105), wall()));
        let mut next = UnavailableOfferings::default();
        // A second after it began, a minute after it was kept.
        let (up, a_minute) = (Duration::from_secs(1), jiff::SignedDuration::from_mins(1));
        next.take_over(&text, up, wall() + a_minute);
        for later in [Duration::ZERO, Duration::from_secs(30), minutes(1), minutes(2), minutes(3), minutes(40)] {
            assert_eq!(next.as_of(up + later), mine.as_of(minutes(106) + later), "{later:?}");
            assert_eq!(next.as_last_resort(up + later), mine.as_last_resort(minutes(106) + later), "{later:?}");
        }
        assert_eq!(next.kept(up, wall() + a_minute), text, "what is kept again is as it was");
        let key = OfferingKey { capacity_type: "spot".into(), instance_type: "m5.large".into(), zone: "a".into() };
        // Refused until minute 109, and remembered for an hour from there: minute 170 is a first refusal.
        next.forget_expired(up + minutes(64));
        next.mark(up + minutes(64), key);
        let first = next.as_of(up + minutes(64) + Duration::from_secs(179)).refused("m5.large", "a", "spot");
        assert!(first && !next.as_of(up + minutes(67)).refused("m5.large", "a", "spot"));
    }

    #[test]
    fn refusals_taken_over_are_bounded_and_the_oldest_goes() {
        let mut cache = UnavailableOfferings::default();
        for n in 0..crate::unavailable::MOST {
            cache.mark_subnet(minutes(100), &format!("subnet-{n}"));
        }
        let line = |at: &str| {
            format!(r#"{{"what":"subnet {at}","refusals":1,"last":"2026-01-01T{at}Z","until":"2026-01-01T13:00:00Z"}}"#)
        };
        let text = [line("11:59:00"), line("11:58:00")].join("\n");
        cache.take_over(&text, minutes(100), wall());
        assert_eq!(cache.marks.len(), crate::unavailable::MOST);
        assert!(!cache.as_of(minutes(100)).full_subnets().contains("11:58:00"));
    }

    #[test]
    fn what_is_known_later_stands_and_the_same_is_written_the_same() {
        let mut cache = some();
        let text = cache.kept(minutes(105), wall());
        assert_eq!(cache.kept(minutes(106), wall() + jiff::SignedDuration::from_mins(1)), text);
        cache.mark_subnet(minutes(110), "subnet-1");
        let before = cache.as_of(minutes(110));
        cache.take_over(&text, minutes(110), wall() + jiff::SignedDuration::from_mins(5));
        assert_eq!(cache.as_of(minutes(110)), before);
    }

    #[test]
    fn nonsense_is_passed_over_and_times_are_bounded() {
        let mut cache = UnavailableOfferings::default();
        let good = r#"{"what":"subnet subnet-1","refusals":4000000000,"last":"2099-01-01T00:00:00Z","until":"2199-01-01T00:00:00Z"}"#;
        let text = format!(
            "not json\n{{}}\n{{\"what\":\"offering spot\",\"refusals\":1,\"last\":\"2026-01-01T12:00:00Z\",\"until\":\"2026-01-01T12:00:00Z\"}}\n{good}\n"
        );
        assert_eq!(cache.take_over(&text, minutes(1), wall()), 1);
        assert!(cache.as_of(minutes(2)).full_subnets().contains("subnet-1"));
        assert!(!cache.as_of(minutes(1) + LONGEST).full_subnets().contains("subnet-1"));
        cache.mark_subnet(minutes(200), "subnet-1");
        assert!(!cache.as_of(minutes(200) + LONGEST).full_subnets().contains("subnet-1"));
    }

    #[test]
    fn no_more_is_kept_than_fits_an_object() {
        let mut cache = UnavailableOfferings::default();
        for n in 0..5000 {
            let (capacity_type, zone) = ("on-demand".to_owned(), "ap-southeast-1a".to_owned());
            let instance_type = format!("c7gd.{n:05}xlarge-metal-and-more");
            cache.mark(minutes(0), OfferingKey { capacity_type, instance_type, zone });
        }
        let text = cache.kept(minutes(0), wall());
        assert_eq!(text.lines().count(), MOST_KEPT);
        assert!(text.len() < 500_000, "{} bytes", text.len());
    }
}
