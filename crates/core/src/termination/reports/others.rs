//! Nodes that nothing of ours holds any more and that are still there: a finalizer of somebody else keeps them. Each is named once
//! it has been so for a minute, as nothing else would say why it stays.

use std::time::Duration;

use dovetail_api::names::{TERMINATION_FINALIZER, labels};
use k8s_openapi::api::core::v1::Node;

/// Time that other controllers may take to let a Node go.
pub const LET_GO_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the report is repeated.
const REPEATED: Duration = Duration::from_secs(1800);

/// The finalizers of others on a Node that is being deleted and that ours does not hold.
#[must_use]
pub fn finalizers_of_others(node: &Node) -> Option<String> {
    let finalizers = node.metadata.finalizers.as_deref().unwrap_or_default();
    let own = finalizers.iter().any(|one| one == TERMINATION_FINALIZER);
    let held = node.metadata.deletion_timestamp.is_some() && !own && !finalizers.is_empty();
    held.then(|| finalizers.join(", "))
}

/// The same, of a Node of one of our pools only.
#[must_use]
pub fn holds_our_node(node: &Node) -> bool {
    let ours = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::NODE_POOL));
    ours && finalizers_of_others(node).is_some()
}

/// Wait for others to let a Node go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OthersWait {
    since: Duration,
    /// Time and finalizers of the last report.
    reported: Option<(Duration, String)>,
}

impl OthersWait {
    #[must_use]
    pub fn new(since: Duration) -> Self {
        Self { since, reported: None }
    }

    /// Returns a report if it is due now that these finalizers hold the Node: true for the first one.
    pub fn report(&mut self, finalizers: &str, now: Duration) -> Option<bool> {
        let due = self
            .reported
            .as_ref()
            .is_none_or(|(when, what)| now.saturating_sub(*when) >= REPEATED || what != finalizers);
        (due && now.saturating_sub(self.since) >= LET_GO_TIMEOUT)
            .then(|| self.reported.replace((now, finalizers.to_owned())).is_none())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn node_held_by_others_is_said_after_minute_then_each_half_hour() {
        let (at, mut wait) = (Duration::from_secs, OthersWait::new(Duration::from_secs(100)));
        assert_eq!((wait.report("a", at(159)), wait.report("a", at(160))), (None, Some(true)));
        assert_eq!((wait.report("a", at(161)), wait.report("a", at(1959))), (None, None));
        assert_eq!(wait.report("a", at(1960)), Some(false));
        assert_eq!(wait.report("b", at(1961)), Some(false), "others hold it");
    }

    #[test]
    fn others_hold_a_deleted_node_of_ours_that_we_let_go() {
        let node = |finalizers: &[&str], labels: &[&str], deleted: Option<&str>| {
            let labels: std::collections::BTreeMap<_, _> = labels.iter().map(|key| (*key, "")).collect();
            let metadata =
                json!({"name": "n", "finalizers": finalizers, "labels": labels, "deletionTimestamp": deleted});
            serde_json::from_value::<Node>(json!({ "metadata": metadata })).unwrap()
        };
        let (pool, deleted) = ([labels::NODE_POOL], Some("2026-03-02T10:00:00Z"));
        assert!(holds_our_node(&node(&["a", "b"], &pool, deleted)));
        assert_eq!(finalizers_of_others(&node(&["a", "b"], &[], deleted)).as_deref(), Some("a, b"));
        assert!(!holds_our_node(&node(&["a"], &[], deleted)), "it is no pool's");
        assert!(!holds_our_node(&node(&["a"], &pool, None)) && !holds_our_node(&node(&[], &pool, deleted)));
        assert!(!holds_our_node(&node(&["a", TERMINATION_FINALIZER], &pool, deleted)), "ours holds it too");
    }
}
