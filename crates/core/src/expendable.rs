//! Pods that are worth no node (setting `EXPENDABLE_PODS_PRIORITY_CUTOFF`, docs/decisions/078): of a priority below the cutoff,
//! Cluster Autoscaler's rule. They run where room is left, and nothing is launched, kept or moved for them.

use serde::{Deserialize, Serialize};

/// The priority below which pods are expendable. Unset, no pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExpendableCutoff(Option<i32>);

impl ExpendableCutoff {
    /// Pods of a lower priority than this are expendable; those of this one are not.
    #[must_use]
    pub fn from_priority(priority: i32) -> Self {
        Self(Some(priority))
    }

    /// True if a pod of this priority is expendable (`spec.priority`, 0 where it is absent).
    #[must_use]
    pub fn covers(self, priority: i32) -> bool {
        self.0.is_some_and(|cutoff| priority < cutoff)
    }

    /// True if no pod is expendable.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.0.is_none()
    }

    /// The priority, for people; empty where it is unset.
    #[must_use]
    pub fn text(self) -> String {
        self.0.map(|cutoff| cutoff.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_below_the_cutoff_are_expendable_and_those_at_it_not() {
        let cutoff = ExpendableCutoff::from_priority(-10);
        let covered: Vec<i32> =
            [i32::MIN, -11, -10, 0, i32::MAX].into_iter().filter(|one| cutoff.covers(*one)).collect();
        assert_eq!(covered, [i32::MIN, -11]);
    }

    #[test]
    fn unset_cutoff_covers_no_priority() {
        assert!(![i32::MIN, -11, 0].into_iter().any(|priority| ExpendableCutoff::default().covers(priority)));
    }
}
