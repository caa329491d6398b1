//! Annotations of our own that users write: a key or a value that is misspelt would be no wish at all.

use std::collections::BTreeMap;

use super::Wrong;
use crate::names::OWN_DOMAIN;
use crate::names::annotations::{
    CONVERTED_FROM, DISRUPTION, OBSERVED_ALLOCATABLE, OTHER_VERSION, PACKING_POLICY, TTL_SECONDS_AFTER_EMPTY,
    UNUSED_LAUNCHES,
};

/// Those of a NodePool.
const OF_POOL: [&str; 6] =
    [CONVERTED_FROM, DISRUPTION, OTHER_VERSION, PACKING_POLICY, TTL_SECONDS_AFTER_EMPTY, UNUSED_LAUNCHES];
/// Those of an EC2NodeClass.
const OF_CLASS: [&str; 3] = [CONVERTED_FROM, OBSERVED_ALLOCATABLE, OTHER_VERSION];
/// The values of [`PACKING_POLICY`].
const POLICIES: [&str; 2] = ["cost", "fewest-nodes"];

/// What is wrong with our annotations on a NodePool, by key.
#[must_use]
pub fn of_pool(all: &BTreeMap<String, String>) -> Vec<(String, Wrong)> {
    own(all).filter_map(|(key, value)| Some((key.to_owned(), in_pool(key, value)?))).collect()
}

/// What is wrong with our annotations on an EC2NodeClass, by key.
#[must_use]
pub fn of_class(all: &BTreeMap<String, String>) -> Vec<(String, Wrong)> {
    own(all).filter_map(|(key, _)| Some((key.to_owned(), unknown(key, &OF_CLASS)?))).collect()
}

fn own(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let ours = |key: &str| key.split_once('/').is_some_and(|(domain, _)| domain == OWN_DOMAIN);
    all.iter().filter(move |(key, _)| ours(key)).map(|(key, value)| (key.as_str(), value.as_str()))
}

fn in_pool(key: &str, value: &str) -> Option<Wrong> {
    let wrong = |allowed: &str| Some(Wrong::new(format!("{value:?} is not known"), allowed));
    match key {
        PACKING_POLICY if !POLICIES.contains(&value) => wrong("cost, fewest-nodes"),
        DISRUPTION if !["", "observe"].contains(&value) => wrong("observe"),
        TTL_SECONDS_AFTER_EMPTY if value.parse::<u32>().is_err() => {
            Some(Wrong::new(format!("{value:?} is no number of seconds"), "an integer, 0 or more"))
        }
        _ => unknown(key, &OF_POOL),
    }
}

fn unknown(key: &str, known: &[&str]) -> Option<Wrong> {
    (!known.contains(&key)).then(|| Wrong::new("there is no such annotation", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(of: fn(&BTreeMap<String, String>) -> Vec<(String, Wrong)>, key: &str, value: &str) -> Option<String> {
        let found = of(&BTreeMap::from([(key.to_owned(), value.to_owned())]));
        found.into_iter().next().map(|(_, wrong)| wrong.what)
    }

    #[test]
    fn a_misspelt_key_or_value_is_told_and_what_is_anothers_is_not() {
        for (key, value) in [
            ("dovetail.dev/packing-policy", "fewestnodes"),
            ("dovetail.dev/packing-policy", ""),
            ("dovetail.dev/packing_policy", "cost"),
            ("dovetail.dev/disruption", "obsrve"),
            ("dovetail.dev/ttl-seconds-after-empty", "30s"),
            ("dovetail.dev/allow-collection", "true"),
        ] {
            assert!(told(of_pool, key, value).is_some(), "{key}={value}");
        }
        for (key, value) in [
            ("dovetail.dev/packing-policy", "cost"),
            ("dovetail.dev/disruption", "observe"),
            ("dovetail.dev/ttl-seconds-after-empty", "30"),
            ("dovetail.dev/converted-from", "karpenter.sh/v1alpha5/Provisioner/default"),
            ("example.com/packing-policy", "any"),
        ] {
            assert_eq!(told(of_pool, key, value), None, "{key}={value}");
        }
        assert!(told(of_class, "dovetail.dev/packing-policy", "cost").is_some());
        assert_eq!(told(of_class, "dovetail.dev/observed-allocatable", "{}"), None);
    }
}
