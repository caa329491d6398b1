//! The cost of disruption (core spec 5.4), and whose a pod's deletion cost is.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::{DELETION_COST_WRITTEN, DISRUPTION_COST, POD_DELETION_COST};

/// Owner of a pod's annotation `controller.kubernetes.io/pod-deletion-cost`. Our own value stands a second time beside it, in
/// `dovetail.dev/pod-deletion-cost`; a value that is not there too is its user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionCost {
    /// There is no value, and none of ours has been there.
    #[default]
    Unset,
    /// A user's value.
    OfUser,
    /// A user's value in the place of ours, whose mark is left.
    Overwritten,
    /// A user has taken our value off, and its mark is left.
    TakenOff,
    /// Our value.
    Ours(i32),
}

impl DeletionCost {
    /// Reads a pod's annotations.
    #[must_use]
    pub fn from_annotations(own: &BTreeMap<String, String>) -> Self {
        match (own.get(POD_DELETION_COST), own.get(DELETION_COST_WRITTEN)) {
            (None, None) => Self::Unset,
            (Some(_), None) => Self::OfUser,
            (None, Some(_)) => Self::TakenOff,
            (Some(value), Some(mark)) => match value.parse() {
                Ok(cost) if value == mark => Self::Ours(cost),
                _ => Self::Overwritten,
            },
        }
    }
}

/// The cost of a pod's eviction: 1, more with its own cost and its priority, from -10 to 10. Its own cost is
/// `karpenter.sh/disruption-cost`, or without that a user's `controller.kubernetes.io/pod-deletion-cost`: the value that we
/// write follows from this order. A cost that is no 32-bit number counts as none.
#[must_use]
pub fn eviction_cost(own: &BTreeMap<String, String>, priority: i32) -> f64 {
    let of_user = || match DeletionCost::from_annotations(own) {
        DeletionCost::OfUser | DeletionCost::Overwritten => own.get(POD_DELETION_COST),
        DeletionCost::Unset | DeletionCost::TakenOff | DeletionCost::Ours(_) => None,
    };
    let written = own.get(DISRUPTION_COST).or_else(of_user);
    let own_cost = written.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
    let cost = 1.0 + f64::from(own_cost) / 2f64.powi(27) + f64::from(priority) / 2f64.powi(25);
    cost.clamp(-10.0, 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(own: &[(&str, &str)]) -> BTreeMap<String, String> {
        own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn cost(deletion_cost: &str, priority: i32) -> f64 {
        eviction_cost(&written(&[(POD_DELETION_COST, deletion_cost)]), priority)
    }

    #[test]
    fn eviction_cost_is_one_and_pod_moves_it_within_ten() {
        assert!((eviction_cost(&BTreeMap::new(), 0) - 1.0).abs() < f64::EPSILON);
        assert!((cost("lots", 0) - 1.0).abs() < f64::EPSILON);
        assert!((cost("134217728", 0) - 2.0).abs() < f64::EPSILON);
        assert!((cost("0", 1 << 25) - 2.0).abs() < f64::EPSILON);
        assert!((cost("2147483647", i32::MAX) - 10.0).abs() < f64::EPSILON);
        assert!((cost("-2147483647", i32::MIN) + 10.0).abs() < f64::EPSILON);
        assert!(cost("-134217728", 0) <= 0.0, "such a pod keeps no node");
    }

    #[test]
    fn disruption_cost_comes_first_and_our_own_value_never_counts() {
        let twice = "134217728";
        for (own, expected) in [
            (written(&[(DISRUPTION_COST, twice), (POD_DELETION_COST, "-134217728")]), 2.0),
            (written(&[(DISRUPTION_COST, "lots"), (POD_DELETION_COST, twice)]), 1.0),
            (written(&[(DISRUPTION_COST, "4294967296")]), 1.0),
            (written(&[(DISRUPTION_COST, twice), (POD_DELETION_COST, "-7"), (DELETION_COST_WRITTEN, "-7")]), 2.0),
            (written(&[(POD_DELETION_COST, "-2147483648"), (DELETION_COST_WRITTEN, "-2147483648")]), 1.0),
            (written(&[(POD_DELETION_COST, twice), (DELETION_COST_WRITTEN, "-7")]), 2.0),
            (written(&[(DELETION_COST_WRITTEN, twice)]), 1.0),
        ] {
            assert!((eviction_cost(&own, 0) - expected).abs() < f64::EPSILON, "{own:?}");
        }
    }

    #[test]
    fn value_is_ours_only_while_it_is_the_one_that_we_wrote() {
        for (own, expected) in [
            (written(&[]), DeletionCost::Unset),
            (written(&[(POD_DELETION_COST, "5")]), DeletionCost::OfUser),
            (written(&[(POD_DELETION_COST, "5"), (DELETION_COST_WRITTEN, "-3")]), DeletionCost::Overwritten),
            (written(&[(POD_DELETION_COST, "x"), (DELETION_COST_WRITTEN, "x")]), DeletionCost::Overwritten),
            (written(&[(DELETION_COST_WRITTEN, "-3")]), DeletionCost::TakenOff),
            (written(&[(POD_DELETION_COST, "-3"), (DELETION_COST_WRITTEN, "-3")]), DeletionCost::Ours(-3)),
        ] {
            assert_eq!(DeletionCost::from_annotations(&own), expected, "{own:?}");
        }
    }
}
