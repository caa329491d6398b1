//! What EC2 lately said it could not give, and until when that is believed (karpenter-aws 3.6). Pure: time is handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a refusal is believed; a new one starts the time again.
pub const TTL: Duration = Duration::from_secs(180);

/// One offering that EC2 refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingKey {
    /// `spot`, `on-demand`, `reserved`.
    pub capacity_type: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
}

/// Refusals in three scopes, each with the moment (on the monotonic clock) at which it is forgotten.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    offerings: BTreeMap<OfferingKey, Duration>,
    capacity_types: BTreeMap<String, Duration>,
    subnets: BTreeMap<String, Duration>,
    version: u64,
}

/// What was unavailable at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    offerings: BTreeSet<OfferingKey>,
    capacity_types: BTreeSet<String>,
    subnets: BTreeSet<String>,
}

impl UnavailableOfferings {
    /// EC2 refused this type in this zone at this capacity type.
    pub fn mark(&mut self, now: Duration, key: OfferingKey) {
        self.version += 1;
        self.offerings.insert(key, now + TTL);
    }

    /// Nothing of this capacity type can be had (spot's service-linked role may not be made).
    pub fn mark_capacity_type(&mut self, now: Duration, capacity_type: &str) {
        self.version += 1;
        self.capacity_types.insert(capacity_type.to_owned(), now + TTL);
    }

    /// The subnet has no free address left.
    pub fn mark_subnet(&mut self, now: Duration, subnet: &str) {
        self.version += 1;
        self.subnets.insert(subnet.to_owned(), now + TTL);
    }

    /// Forgets what has run out; says whether anything had. To be called every ten seconds or so.
    pub fn sweep(&mut self, now: Duration) -> bool {
        let before = self.len();
        self.offerings.retain(|_, until| *until > now);
        self.capacity_types.retain(|_, until| *until > now);
        self.subnets.retain(|_, until| *until > now);
        let changed = self.len() != before;
        self.version += u64::from(changed);
        changed
    }

    /// Raised by every change: what was derived under another version is stale.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many refusals are remembered.
    pub fn len(&self) -> usize {
        self.offerings.len() + self.capacity_types.len() + self.subnets.len()
    }

    /// Nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The refusals that still count at `now`.
    pub fn at(&self, now: Duration) -> Unavailable {
        Unavailable {
            offerings: live(&self.offerings, now),
            capacity_types: live(&self.capacity_types, now),
            subnets: live(&self.subnets, now),
        }
    }
}

fn live<K: Ord + Clone>(until: &BTreeMap<K, Duration>, now: Duration) -> BTreeSet<K> {
    until.iter().filter(|(_, end)| **end > now).map(|(key, _)| key.clone()).collect()
}

impl Unavailable {
    /// Whether the offering itself or its capacity type was refused.
    pub fn refused(&self, instance_type: &str, zone: &str, capacity_type: &str) -> bool {
        if self.capacity_types.contains(capacity_type) {
            return true;
        }
        !self.offerings.is_empty()
            && self.offerings.contains(&OfferingKey {
                capacity_type: capacity_type.to_owned(),
                instance_type: instance_type.to_owned(),
                zone: zone.to_owned(),
            })
    }

    /// Whether all of these subnets are full: only then is their zone blocked.
    pub fn all_full<'a>(&self, mut subnets: impl Iterator<Item = &'a str>) -> bool {
        let mut any = false;
        let full = subnets.all(|s| {
            any = true;
            self.subnets.contains(s)
        });
        any && full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(zone: &str) -> OfferingKey {
        OfferingKey { capacity_type: "spot".into(), instance_type: "m5.large".into(), zone: zone.into() }
    }

    const fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    #[test]
    fn a_refusal_counts_for_three_minutes_and_a_new_one_starts_again() {
        let mut cache = UnavailableOfferings::default();
        cache.mark(minutes(0), key("a"));
        assert!(cache.at(minutes(2)).refused("m5.large", "a", "spot"));
        cache.mark(minutes(2), key("a"));
        assert!(cache.at(minutes(4)).refused("m5.large", "a", "spot"));
        assert!(!cache.at(minutes(5)).refused("m5.large", "a", "spot"));
    }

    #[test]
    fn a_refusal_says_nothing_of_other_zones_or_capacity_types() {
        let mut cache = UnavailableOfferings::default();
        cache.mark(minutes(0), key("a"));
        let now = cache.at(minutes(1));
        assert!(!now.refused("m5.large", "b", "spot"));
        assert!(!now.refused("m5.large", "a", "on-demand"));
    }

    #[test]
    fn a_refused_capacity_type_blocks_every_type() {
        let mut cache = UnavailableOfferings::default();
        cache.mark_capacity_type(minutes(0), "spot");
        assert!(cache.at(minutes(1)).refused("c5.large", "b", "spot"));
    }

    #[test]
    fn a_zone_is_full_only_when_all_its_subnets_are() {
        let mut cache = UnavailableOfferings::default();
        cache.mark_subnet(minutes(0), "subnet-1");
        let now = cache.at(minutes(1));
        assert!(!now.all_full(["subnet-1", "subnet-2"].into_iter()));
        assert!(now.all_full(["subnet-1"].into_iter()));
        assert!(!now.all_full(std::iter::empty()));
    }

    #[test]
    fn sweeping_forgets_and_raises_the_version_only_then() {
        let mut cache = UnavailableOfferings::default();
        cache.mark(minutes(0), key("a"));
        let version = cache.version();
        assert!(!cache.sweep(minutes(1)));
        assert_eq!(cache.version(), version);
        assert!(cache.sweep(minutes(3)));
        assert!(cache.is_empty() && cache.version() > version);
    }
}
