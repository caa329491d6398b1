//! Refusals over time.

use super::*;

fn key(zone: &str) -> OfferingKey {
    OfferingKey { capacity_type: "spot".into(), instance_type: "m5.large".into(), zone: zone.into() }
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

fn refused(cache: &UnavailableOfferings, at: Duration) -> bool {
    cache.as_of(at).refused("m5.large", "a", "spot")
}

#[test]
fn refusal_counts_for_three_minutes_and_a_new_one_restarts_it() {
    let mut cache = UnavailableOfferings::default();
    cache.mark(minutes(0), key("a"));
    assert!(refused(&cache, minutes(2)));
    cache.mark(minutes(2), key("a"));
    assert!(refused(&cache, minutes(4)));
    assert!(!refused(&cache, minutes(5)));
}

#[test]
fn repeated_refusal_is_believed_twice_as_long_up_to_a_bound() {
    let (mut cache, mut now) = (UnavailableOfferings::default(), Duration::ZERO);
    let mut lengths = Vec::new();
    for _ in 0..7 {
        cache.mark(now, key("a"));
        let length = (1..=60).find(|n| !refused(&cache, now + minutes(*n))).unwrap_or(0);
        lengths.push(length);
        now += minutes(length);
    }
    assert_eq!(lengths, [3, 6, 12, 24, 48, 48, 48]);
}

#[test]
fn launch_takes_one_doubling_off_unless_it_was_under_way() {
    let mut cache = UnavailableOfferings::default();
    cache.mark(minutes(0), key("a"));
    assert!(!cache.launched(minutes(1), &key("a"), ""), "it was under way");
    assert!(refused(&cache, minutes(1)));
    cache.mark(minutes(3), key("a"));
    cache.mark(minutes(9), key("a"));
    assert!(refused(&cache, minutes(20)), "twelve minutes");
    assert!(cache.launched(minutes(13), &key("a"), ""), "by a pod that nothing else was left for");
    assert!(!refused(&cache, minutes(13)));
    cache.mark(minutes(14), key("a"));
    assert!(refused(&cache, minutes(25)) && !refused(&cache, minutes(26)), "the third of a row again");
    assert!(cache.launched(minutes(27), &key("a"), "") && cache.launched(minutes(28), &key("a"), ""));
    assert!(cache.launched(minutes(29), &key("a"), "") && !cache.launched(minutes(30), &key("a"), ""));
    cache.mark(minutes(31), key("a"));
    assert!(!refused(&cache, minutes(34)), "forgotten: a first refusal");
}

#[test]
fn what_has_not_been_refused_for_an_hour_is_forgotten() {
    let mut cache = UnavailableOfferings::default();
    cache.mark(minutes(0), key("a"));
    cache.mark(minutes(3), key("a"));
    cache.expire(minutes(70));
    cache.mark(minutes(70), key("a"));
    assert!(!refused(&cache, minutes(73)));
}

#[test]
fn last_resort_may_ask_three_minutes_after_the_last_refusal() {
    let mut cache = UnavailableOfferings::default();
    for at in [0, 3, 9] {
        cache.mark(minutes(at), key("a"));
    }
    let last_resort = |at| cache.as_last_resort(minutes(at)).refused("m5.large", "a", "spot");
    assert!(refused(&cache, minutes(13)) && last_resort(11) && !last_resort(12));
}

#[test]
fn a_refusal_says_nothing_of_other_zones_or_capacity_types() {
    let mut cache = UnavailableOfferings::default();
    cache.mark(minutes(0), key("a"));
    let now = cache.as_of(minutes(1));
    assert!(!now.refused("m5.large", "b", "spot"));
    assert!(!now.refused("m5.large", "a", "on-demand"));
}

#[test]
fn quota_covers_family_group_and_capacity_type_in_all_zones() {
    let mut cache = UnavailableOfferings::default();
    cache.mark_quota(minutes(0), "on-demand", QuotaGroup::from_instance_type("m5.large"));
    let now = cache.as_of(minutes(1));
    assert!(now.refused("c7g.xlarge", "a", "on-demand") && now.refused("t3.micro", "b", "on-demand"));
    assert!(!now.refused("g5.xlarge", "a", "on-demand") && !now.refused("m5.large", "a", "spot"));
}

#[test]
fn a_refused_capacity_type_blocks_every_type() {
    let mut cache = UnavailableOfferings::default();
    cache.mark_capacity_type(minutes(0), "spot", "no role");
    assert!(cache.as_of(minutes(1)).refused("c5.large", "b", "spot"));
}

#[test]
fn a_zone_is_full_only_when_all_its_subnets_are() {
    let mut cache = UnavailableOfferings::default();
    cache.mark_subnet(minutes(0), "subnet-1");
    let now = cache.as_of(minutes(1));
    assert!(!now.all_full(["subnet-1", "subnet-2"].into_iter()));
    assert!(now.all_full(["subnet-1"].into_iter()));
    assert!(!now.all_full(std::iter::empty()));
}

#[test]
fn expiry_says_when_to_ask_again_and_raises_the_version() {
    let mut cache = UnavailableOfferings::default();
    cache.mark(minutes(0), key("a"));
    assert!(!cache.expire(minutes(0)));
    let version = cache.version();
    assert!(!cache.expire(minutes(1)));
    assert_eq!((cache.version(), cache.len()), (version, 1));
    cache.forget_expired(minutes(3));
    cache.mark(minutes(3), key("b"));
    assert!(cache.expire(minutes(3)), "whoever looked first, and whatever was refused meanwhile");
    assert!(cache.version() > version && !cache.expire(minutes(4)));
    assert!(cache.expire(minutes(6)) && cache.is_empty());
}

#[test]
fn no_more_is_remembered_than_the_bound_the_oldest_goes_first() {
    let mut cache = UnavailableOfferings::default();
    for at in 0..=MOST {
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        cache.mark_subnet(Duration::from_millis(at), &format!("subnet-{at}"));
    }
    let now = cache.as_of(minutes(1));
    assert_eq!(now.full_subnets().len(), MOST);
    assert!(!now.full_subnets().contains("subnet-0"));
}

#[test]
fn nothing_is_had_in_a_shifted_zone_as_last_resort_either() {
    let (mut cache, mut answer) = (UnavailableOfferings::default(), dovetail_core::zonal_shift::ShiftAnswer::default());
    let zones = BTreeMap::from([("az1".to_owned(), "a".to_owned()), ("az2".to_owned(), "b".to_owned())]);
    let shift = dovetail_core::zonal_shift::ZoneShift { zone: "az1".into(), until: None };
    answer.learn(vec![shift], jiff::Timestamp::UNIX_EPOCH);
    let version = cache.version();
    cache.shift_zones(answer.counted(&zones, jiff::Timestamp::UNIX_EPOCH).unwrap_or_default());
    assert!(cache.version() > version && !cache.expire(minutes(0)), "nothing has become free");
    for refused in [cache.as_of(minutes(0)), cache.as_last_resort(minutes(99))] {
        assert_eq!(refused.why("m5.large", "a", "reserved"), Some(SHIFTED_AWAY));
        assert!(!refused.refused("m5.large", "b", "spot") && refused.may_concern("c5.large"));
    }
    cache.shift_zones(ShiftedZones::default());
    assert!(cache.expire(minutes(0)), "it may be asked for again");
    assert!(!refused(&cache, minutes(0)) && !cache.expire(minutes(1)));
}
