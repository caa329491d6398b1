//! Annotations of our own that users write: a key or a value that is misspelt, or stands where nobody looks, would be no wish
//! at all.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Wrong;
use crate::names::OWN_DOMAIN;
use crate::names::annotations::{
    ADOPTED, ADOPTED_AS, COMPUTED_HASH, CONVERTED_FROM, DISRUPTION, ENDED_FIRST, INTERRUPTIONS, MAX_COST_PER_HOUR,
    OBSERVED_ALLOCATABLE, ON_DEMAND_BASE, PACKING_POLICY, REPAIR_PACE, SPOT_SHARE, TTL_SECONDS_AFTER_EMPTY,
    UNUSED_LAUNCHES, ZONE_BALANCE,
};
use crate::schema::is_near;
use crate::v1::{EC2NodeClass, NodePool};

/// Those of a NodePool.
const OF_POOL: [&str; 15] = [
    ADOPTED,
    ADOPTED_AS,
    COMPUTED_HASH,
    CONVERTED_FROM,
    DISRUPTION,
    ENDED_FIRST,
    INTERRUPTIONS,
    MAX_COST_PER_HOUR,
    ON_DEMAND_BASE,
    PACKING_POLICY,
    REPAIR_PACE,
    SPOT_SHARE,
    TTL_SECONDS_AFTER_EMPTY,
    UNUSED_LAUNCHES,
    ZONE_BALANCE,
];
/// Those of an EC2NodeClass.
const OF_CLASS: [&str; 3] = [COMPUTED_HASH, CONVERTED_FROM, OBSERVED_ALLOCATABLE];
/// The values of [`PACKING_POLICY`].
const POLICIES: [&str; 2] = ["cost", "fewest-nodes"];

/// Mistakes in our keys on a NodePool, by field.
#[must_use]
pub fn of_pool(pool: &NodePool) -> Vec<(String, Wrong)> {
    let mut all = judged(&pool.metadata, &OF_POOL, in_pool);
    let template = &pool.spec.template.metadata;
    let at = |field: &str, key: &str| format!("spec.template.metadata.{field}[{key}]");
    let meant = |key: &&String| is_meant(key, &OF_POOL);
    all.extend(template.labels.keys().filter(meant).map(|key| (at("labels", key), no_label())));
    // Annotations that the control plane writes itself are refused elsewhere.
    let free = template.annotations.keys().filter(|key| super::template_annotation(key).is_none());
    let misplaced = || {
        Wrong::new("is an annotation of the nodes, and only those of the NodePool itself are looked at", OWN_METADATA)
    };
    all.extend(
        free.filter(meant).map(|key| (at("annotations", key), unknown(key, &OF_POOL).unwrap_or_else(misplaced))),
    );
    all
}

/// Mistakes in our keys on an EC2NodeClass, by field.
#[must_use]
pub fn of_class(class: &EC2NodeClass) -> Vec<(String, Wrong)> {
    judged(&class.metadata, &OF_CLASS, |key, _| unknown(key, &OF_CLASS))
}

/// The place where our annotations are looked for.
const OWN_METADATA: &str = "metadata.annotations";

fn no_label() -> Wrong {
    Wrong::new("is a label, and only annotations of ours are looked at", OWN_METADATA)
}

/// The labels and annotations of an object.
fn judged(metadata: &ObjectMeta, known: &[&str], judge: impl Fn(&str, &str) -> Option<Wrong>) -> Vec<(String, Wrong)> {
    let labels = metadata.labels.iter().flatten().filter(|(key, _)| is_meant(key, known));
    let labels = labels.map(|(key, _)| (format!("metadata.labels[{key}]"), no_label()));
    let annotations = metadata.annotations.iter().flatten().filter(|(key, _)| is_meant(key, known));
    let annotations =
        annotations.filter_map(|(key, value)| Some((format!("metadata.annotations[{key}]"), judge(key, value)?)));
    annotations.chain(labels).collect()
}

/// True if a key is one of ours, or is meant to be: of our domain, or of one that is much like it with a name of ours.
fn is_meant(key: &str, known: &[&str]) -> bool {
    let Some((domain, name)) = key.split_once('/') else { return false };
    let ours = |known: &&str| known.split_once('/').is_some_and(|(_, own)| is_near(own, name));
    domain == OWN_DOMAIN || is_near(OWN_DOMAIN, domain) && known.iter().any(ours)
}

fn in_pool(key: &str, value: &str) -> Option<Wrong> {
    let wrong = |allowed: &str| Some(Wrong::new(format!("{value:?} is not known"), allowed));
    match key {
        PACKING_POLICY if !POLICIES.contains(&value) => wrong("cost, fewest-nodes"),
        DISRUPTION if !["", "observe"].contains(&value) => wrong("observe"),
        TTL_SECONDS_AFTER_EMPTY if value.parse::<u32>().is_err() => {
            Some(Wrong::new(format!("{value:?} is no number of seconds"), "an integer, 0 or more"))
        }
        MAX_COST_PER_HOUR if dollars_an_hour(value).is_none() => {
            Some(Wrong::new(format!("{value:?} is no amount of dollars"), "$ an hour above zero, such as 12.50"))
        }
        ON_DEMAND_BASE if on_demand_base(value).is_none() => {
            Some(Wrong::new(format!("{value:?} is no number of replicas"), ALLOWED_BASE))
        }
        SPOT_SHARE if percent(value).is_none() => Some(Wrong::new(format!("{value:?} is no share"), ALLOWED_SHARE)),
        ZONE_BALANCE if percent(value).is_none() => {
            Some(Wrong::new(format!("{value:?} is no part of a price"), ALLOWED_BALANCE))
        }
        _ => unknown(key, &OF_POOL),
    }
}

/// The values of [`ON_DEMAND_BASE`], for people.
pub const ALLOWED_BASE: &str = "a whole number from 0 to 1000000, such as 2";
/// The values of [`SPOT_SHARE`], for people.
pub const ALLOWED_SHARE: &str = "a whole number of percent from 0% to 100%, such as 70%";
/// The values of [`ZONE_BALANCE`], for people.
pub const ALLOWED_BALANCE: &str = "a whole number of percent from 0% to 100%, such as 5%";
/// Largest number of replicas that [`ON_DEMAND_BASE`] may say.
const MOST_REPLICAS: u32 = 1_000_000;

/// A number of replicas as [`ON_DEMAND_BASE`] says it; `None` for any other text.
#[must_use]
pub fn on_demand_base(text: &str) -> Option<u32> {
    whole(text).filter(|base| *base <= MOST_REPLICAS)
}

/// Percent as [`SPOT_SHARE`] and [`ZONE_BALANCE`] say them; `None` for any other text.
#[must_use]
pub fn percent(text: &str) -> Option<u8> {
    let percent = whole(text.strip_suffix('%')?)?;
    u8::try_from(percent).ok().filter(|percent| *percent <= 100)
}

/// A number that is written with digits alone.
fn whole(text: &str) -> Option<u32> {
    text.bytes().all(|one| one.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Largest ceiling of a pool, dollars an hour: beyond it sums are not exact.
const MOST_DOLLARS: f64 = 1e9;

/// An amount of dollars an hour above zero; `None` for any other text.
fn dollars_an_hour(text: &str) -> Option<f64> {
    text.parse().ok().filter(|dollars| *dollars > 0.0 && *dollars <= MOST_DOLLARS)
}

/// The ceiling of a pool's cost, in dollars an hour, that its annotation says; an error, with the annotation's text, if it
/// cannot be read.
///
/// # Errors
/// The text that is no amount of dollars.
pub fn max_cost_of_pool(pool: &NodePool) -> Result<Option<f64>, String> {
    let written = pool.metadata.annotations.as_ref().and_then(|own| own.get(MAX_COST_PER_HOUR));
    written.map(|text| dollars_an_hour(text).ok_or_else(|| text.clone())).transpose()
}

fn unknown(key: &str, known: &[&str]) -> Option<Wrong> {
    (!known.contains(&key)).then(|| Wrong::new("there is no such annotation", known.join(", ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pool(metadata: Value, template: Value) -> Vec<String> {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"});
        let spec = json!({"template": {"metadata": template, "spec": {"nodeClassRef": class}}});
        let pool = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        of_pool(&pool).into_iter().map(|(field, _)| field).collect()
    }

    fn class(annotations: Value) -> Vec<String> {
        let spec = json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": []});
        let class = serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap();
        of_class(&class).into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn a_misspelt_key_or_value_is_told_and_what_is_anothers_is_not() {
        for (key, value) in [
            ("dovetail.dev/packing-policy", "fewestnodes"),
            ("dovetail.dev/packing-policy", ""),
            ("dovetail.dev/packing_policy", "cost"),
            ("dovetail.dev/disruption", "obsrve"),
            ("dovetail.dev/ttl-seconds-after-empty", "30s"),
            ("dovetail.dev/max-cost-per-hour", "$5"),
            ("dovetail.dev/max-cost-per-hour", "0"),
            ("dovetail.dev/max-cost-per-hour", "NaN"),
            ("dovetail.dev/allow-collection", "true"),
            ("dovetail.dev/on-demand-base", "two"),
            ("dovetail.dev/on-demand-base", "-1"),
            ("dovetail.dev/on-demand-base", "+1"),
            ("dovetail.dev/on-demand-base", ""),
            ("dovetail.dev/on-demand-base", "1000001"),
            ("dovetail.dev/spot-share", "70"),
            ("dovetail.dev/spot-share", "101%"),
            ("dovetail.dev/spot-share", "0.5%"),
            ("dovetail.dev/spot-share", "%"),
            ("dovetail.dev/spot_share", "70%"),
            ("dovetail.dev/zone-balance", "5"),
            ("dovetail.dev/zone-balance", "-5%"),
            ("dovetial.dev/packing-policy", "cost"),
            ("dovetail.io/disruption", "observe"),
        ] {
            assert_eq!(
                pool(json!({"annotations": {key: value}}), json!({})),
                [format!("metadata.annotations[{key}]")],
                "{value}"
            );
        }
        for (key, value) in [
            ("dovetail.dev/packing-policy", "cost"),
            ("dovetail.dev/disruption", "observe"),
            ("dovetail.dev/ttl-seconds-after-empty", "30"),
            ("dovetail.dev/max-cost-per-hour", "12.50"),
            ("dovetail.dev/on-demand-base", "1000000"),
            ("dovetail.dev/spot-share", "0%"),
            ("dovetail.dev/spot-share", "100%"),
            ("dovetail.dev/zone-balance", "5%"),
            ("dovetail.dev/interruptions", "[]"),
            ("dovetail.dev/converted-from", "karpenter.sh/v1alpha5/Provisioner/default"),
            ("example.com/packing-policy", "any"),
            ("dovetails.de/wood", "oak"),
            ("packing-policy", "any"),
        ] {
            assert_eq!(pool(json!({"annotations": {key: value}}), json!({})), [""; 0], "{key}={value}");
        }
        assert_eq!(
            class(json!({"dovetail.dev/packing-policy": "cost"})),
            ["metadata.annotations[dovetail.dev/packing-policy]"]
        );
        assert_eq!(class(json!({"dovetail.dev/observed-allocatable": "{}"})), [""; 0]);
    }

    #[test]
    fn a_key_that_stands_where_nobody_looks_is_told() {
        let own = json!({"dovetail.dev/packing-policy": "cost"});
        for (metadata, template, field) in [
            (json!({"labels": own}), json!({}), "metadata.labels"),
            (json!({}), json!({"labels": own}), "spec.template.metadata.labels"),
            (json!({}), json!({"annotations": own}), "spec.template.metadata.annotations"),
        ] {
            assert_eq!(pool(metadata, template), [format!("{field}[dovetail.dev/packing-policy]")]);
        }
        let others = json!({"labels": {"team": "a"}, "annotations": {"example.com/x": "y"}});
        assert_eq!(pool(others.clone(), others), [""; 0]);
    }
}
