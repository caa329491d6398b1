//! EC2's token buckets for an account in a region, as AWS publishes them or as the account has them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Requests that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RequestBucket {
    /// Describe, Get, List.
    Describe,
    /// CreateFleet, launch templates and whatever else changes something.
    Mutate,
    /// RunInstances, which we only ever ask for on trial.
    RunInstances,
    /// TerminateInstances.
    TerminateInstances,
    /// CreateTags, DeleteTags.
    Tags,
    /// Instances launched: a bucket of resources.
    Launched,
    /// Instances ended: a bucket of resources.
    Ended,
    /// All requests together.
    All,
}

/// Tokens that a bucket holds, and those that it gets a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BucketLimit {
    /// Most tokens that it holds.
    pub size: f64,
    /// Tokens that come back a second.
    pub rate: f64,
}

const fn limit(size: f64, rate: f64) -> BucketLimit {
    BucketLimit { size, rate }
}

/// Buckets by the names that settings have for them, with the limits that AWS publishes.
const PUBLISHED: [(&str, RequestBucket, BucketLimit); 7] = [
    ("Describe", RequestBucket::Describe, limit(100.0, 20.0)),
    ("Mutate", RequestBucket::Mutate, limit(50.0, 5.0)),
    ("RunInstances", RequestBucket::RunInstances, limit(5.0, 2.0)),
    ("TerminateInstances", RequestBucket::TerminateInstances, limit(100.0, 5.0)),
    ("Tags", RequestBucket::Tags, limit(100.0, 10.0)),
    ("InstancesLaunched", RequestBucket::Launched, limit(1000.0, 2.0)),
    ("InstancesTerminated", RequestBucket::Ended, limit(1000.0, 20.0)),
];

/// Least size of the bucket of launched instances: a call for several has to fit in.
const LEAST_LAUNCHED: f64 = 1000.0;
/// Largest size and rate that a bucket is believed to have.
const MOST: f64 = 1_000_000.0;

/// An account's buckets: those that differ from what AWS publishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AccountLimits(BTreeMap<RequestBucket, BucketLimit>);

// No number is written that is not one.
impl Eq for AccountLimits {}

impl AccountLimits {
    /// Every bucket with its limit. All requests share one of the size of Describe's and Mutate's together.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (RequestBucket, BucketLimit)> {
        let (describe, mutate) = (self.limit(RequestBucket::Describe), self.limit(RequestBucket::Mutate));
        let all = limit(describe.size + mutate.size, describe.rate + mutate.rate);
        let single = PUBLISHED.iter().map(|(_, bucket, _)| (*bucket, self.limit(*bucket)));
        single.chain([(RequestBucket::All, all)])
    }

    /// The limit of a bucket; none of [`RequestBucket::All`] is written anywhere.
    pub(super) fn limit(&self, bucket: RequestBucket) -> BucketLimit {
        let published = || PUBLISHED.iter().find(|(_, own, _)| *own == bucket).map(|(.., limit)| *limit);
        self.0.get(&bucket).copied().or_else(published).unwrap_or(limit(f64::INFINITY, f64::INFINITY))
    }
}

/// A text that does not say limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLimits(String);

impl fmt::Display for NoLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AccountLimits {
    type Err = NoLimits;

    /// `NAME=SIZE/RATE,…`; the empty text says nothing.
    fn from_str(text: &str) -> Result<Self, NoLimits> {
        let mut limits = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let refused = |why: &str| NoLimits(format!("{part:?} {why}"));
            let (name, value) = part.split_once('=').ok_or_else(|| refused("is not NAME=SIZE/RATE"))?;
            let known = PUBLISHED.iter().find(|(known, ..)| *known == name.trim());
            let (_, bucket, _) = known.ok_or_else(|| refused("names no bucket"))?;
            let (size, rate) = value.split_once('/').ok_or_else(|| refused("is not NAME=SIZE/RATE"))?;
            let number = |text: &str, least: f64| {
                let number = text.trim().parse::<f64>().ok();
                number.filter(|number| (least..=MOST).contains(number))
            };
            let least = if *bucket == RequestBucket::Launched { LEAST_LAUNCHED } else { 1.0 };
            let size = number(size, least).ok_or_else(|| refused(&format!("has no size from {least} to 1000000")))?;
            let rate = number(rate, 0.1).ok_or_else(|| refused("has no rate from 0.1 to 1000000 a second"))?;
            if limits.insert(*bucket, limit(size, rate)).is_some() {
                return Err(refused("names its bucket a second time"));
            }
        }
        Ok(Self(limits))
    }
}

impl AccountLimits {
    /// Names of the buckets, as settings write them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PUBLISHED.iter().map(|(name, ..)| *name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn limits_are_those_published_unless_the_account_has_others() {
        let own: AccountLimits = " Mutate=200/10, InstancesLaunched=5000/20 ".parse().unwrap();
        assert_eq!(own.limit(RequestBucket::Launched), limit(5000.0, 20.0));
        assert_eq!(own.limit(RequestBucket::Describe), limit(100.0, 20.0));
        let of = |limits: &AccountLimits, wanted| limits.buckets().find(|(own, _)| *own == wanted).unwrap().1;
        assert_eq!(of(&own, RequestBucket::All), limit(300.0, 30.0));
        assert_eq!(of(&"".parse().unwrap(), RequestBucket::All), limit(150.0, 25.0));
        assert_eq!(own.buckets().count(), 8);
    }

    #[test]
    fn text_that_is_no_limit_is_refused_with_its_part() {
        for (text, why) in [
            ("Mutate", "\"Mutate\" is not NAME=SIZE/RATE"),
            ("Mutate=5", "\"Mutate=5\" is not NAME=SIZE/RATE"),
            ("mutate=5/5", "\"mutate=5/5\" names no bucket"),
            ("Tags=0/5", "\"Tags=0/5\" has no size from 1 to 1000000"),
            ("Tags=NaN/5", "\"Tags=NaN/5\" has no size from 1 to 1000000"),
            ("InstancesLaunched=999/5", "\"InstancesLaunched=999/5\" has no size from 1000 to 1000000"),
            ("Tags=5/inf", "\"Tags=5/inf\" has no rate from 0.1 to 1000000 a second"),
            ("Tags=5/0", "\"Tags=5/0\" has no rate from 0.1 to 1000000 a second"),
            ("Tags=5/5,Tags=6/6", "\"Tags=6/6\" names its bucket a second time"),
        ] {
            assert_eq!(text.parse::<AccountLimits>().unwrap_err().to_string(), why, "{text}");
        }
    }
}
