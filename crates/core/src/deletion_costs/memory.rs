//! Nodes that have values: they keep them for a while when they might lose them, since each change writes all pods of a node.

use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which a node keeps its values when a budget has no more room for it, or something that comes and goes keeps it:
/// a pod that is expected on it, or a PodDisruptionBudget.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

/// Nodes that were ranked at the look before, none of which is being disrupted. It holds no more nodes than there are, and a
/// leader that begins without it reads it off the pods.
#[derive(Clone, Debug, Default)]
pub struct ValuedNodes {
    /// By name, the time at which it last was within the budget and might go; none before the first look. Monotonic.
    since: Option<BTreeMap<String, Duration>>,
}

impl ValuedNodes {
    /// Begins with the nodes whose pods have values, if this is the first look.
    pub(super) fn begin<'a>(&mut self, valued: impl Iterator<Item = &'a str>, now: Duration) {
        self.since.get_or_insert_with(|| valued.map(|node| (node.to_owned(), now)).collect());
    }

    /// True if a node was ranked at the look before.
    pub(super) fn has(&self, node: &str) -> bool {
        self.since(node).is_some()
    }

    /// True if a node keeps its values although it is not within the budget, or may not go now.
    pub(super) fn keeps(&self, node: &str, now: Duration) -> bool {
        self.since(node).is_some_and(|since| now.saturating_sub(since) < KEPT_FOR)
    }

    /// Notes the nodes that are ranked now, and if they may go; all others are forgotten.
    pub(super) fn note<'a>(&mut self, ranked: impl Iterator<Item = (&'a str, bool)>, now: Duration) {
        let since = |node: &str, may_go: bool| if may_go { now } else { self.since(node).unwrap_or(now) };
        self.since = Some(ranked.map(|(node, may_go)| (node.to_owned(), since(node, may_go))).collect());
    }

    fn since(&self, node: &str) -> Option<Duration> {
        self.since.as_ref()?.get(node).copied()
    }
}
