//! Pods of DaemonSets that count on a node: those that kube-scheduler could place there beside nothing else, the most urgent
//! first, and together no more than a share of the node.
//!
//! Anybody who may create a DaemonSet in one namespace has a pod on every node. A pod that fits no node stays pending, and
//! takes nothing from anybody: it must not take anything from a plan either.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::pod::Pod;
use crate::resources::{CPU, MEMORY, PODS, Resources};
use crate::volumes::is_attachable;

/// Most DaemonSets that count: a node has no more pods by default on the largest instance types.
pub const MOST_DAEMON_SETS: usize = 250;

/// Priority from which pods are placed even where others have to go (Kubernetes, `system-cluster-critical`).
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// The share of a node, in percent, that DaemonSets take at most (setting `DAEMONSET_MAX_OVERHEAD_PERCENT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DaemonShare(u32);

impl Default for DaemonShare {
    fn default() -> Self {
        Self(80)
    }
}

impl DaemonShare {
    /// A share of 1 to 100 percent.
    #[must_use]
    pub fn from_percent(percent: u32) -> Option<Self> {
        (1..=100).contains(&percent).then_some(Self(percent))
    }

    #[must_use]
    pub fn percent(self) -> u32 {
        self.0
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// True if `taken` is no more than the share of `whole`.
    pub(crate) fn has(self, taken: i64, whole: i64) -> bool {
        i128::from(taken) * 100 <= i128::from(whole.max(0)) * i128::from(self.0)
    }
}

/// The order in which DaemonSets count, as indices: by priority, then the smaller ones, which leave the most to others.
pub(crate) fn in_order(daemons: &[Pod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..daemons.len()).collect();
    order.sort_by_cached_key(|at| {
        let one = &daemons[*at];
        let size = (one.requests.get(CPU), one.requests.get(MEMORY));
        (Reverse(one.priority), size, one.namespace.clone(), one.name.clone(), *at)
    });
    order
}

/// True if a pod could be on a node with this allocatable if nothing else were there. Volumes are attached one by one, and
/// bound elsewhere.
pub(crate) fn fits_alone(pod: &Pod, allocatable: &Resources) -> bool {
    allocatable.find(PODS).is_none_or(|most| most > 0) && too_large_by(pod, allocatable).is_none()
}

/// The first resource of which a pod requests more than there is.
pub(crate) fn too_large_by<'p>(pod: &'p Pod, allocatable: &Resources) -> Option<&'p str> {
    let asked = pod.requests.iter().filter(|(name, amount)| *amount > 0 && *name != PODS && !is_attachable(name));
    asked.into_iter().find(|(name, amount)| *amount > allocatable.get(name)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn daemon(name: &str, priority: i32, cpu: &str) -> Pod {
        let requests = Resources::parse([("cpu", cpu)]).unwrap();
        Pod { name: name.to_owned(), priority, requests, ..Pod::default() }
    }

    #[test]
    fn the_urgent_count_first_and_of_equals_the_small() {
        let all = [daemon("large", 0, "2"), daemon("urgent", 9, "4"), daemon("small", 0, "100m")];
        assert_eq!(in_order(&all), [1, 2, 0]);
    }

    #[test]
    fn what_a_node_lacks_it_has_none_of() {
        let node = Resources::parse([("cpu", "2"), ("pods", "10")]).unwrap();
        assert!(fits_alone(&daemon("a", 0, "2"), &node));
        assert_eq!(too_large_by(&daemon("a", 0, "2001m"), &node), Some("cpu"));
        let mut other = daemon("a", 0, "1");
        other.requests.set("hugepages-2Mi", 1);
        assert_eq!(too_large_by(&other, &node), Some("hugepages-2Mi"));
        assert!(!fits_alone(&daemon("a", 0, "1"), &Resources::parse([("cpu", "2"), ("pods", "0")]).unwrap()));
    }

    #[test]
    fn a_share_is_of_the_whole() {
        let share = DaemonShare::from_percent(80).unwrap();
        assert!(share.has(80, 100) && !share.has(81, 100) && share.has(0, -5) && !share.has(i64::MAX, i64::MAX));
        assert_eq!((DaemonShare::from_percent(0), DaemonShare::from_percent(101)), (None, None));
    }
}
