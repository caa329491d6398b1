//! Capacity types on which a pod may be: by its own requirements, and where its workload has enough replicas on spot
//! (docs/decisions/092).

use k8s_openapi::api::core::v1::Taint;

use super::alternatives::{Alternative, GivenUp, alternatives};
use super::taints;
use crate::labels::{self, CAPACITY_TYPE, SPOT};
use crate::pod::Pod;
use crate::problem::PreferencePolicy;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};

/// Capacity types that a pod's own requirements allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedCapacity {
    pub spot: bool,
    /// True if it may be on a node that is no spot node.
    pub other: bool,
}

/// Ways in which a pod's own requirements can be met, preferences left out; none where they cannot be read.
fn ways(pod: &Pod) -> Vec<Requirements> {
    let found = alternatives(pod, PreferencePolicy::Ignore, false, GivenUp::default()).unwrap_or_default();
    found.into_iter().map(|one| one.requirements).collect()
}

/// The capacity types that a pod's own requirements allow.
#[must_use]
pub fn allowed_capacity(pod: &Pod) -> AllowedCapacity {
    if pod.node_selector.is_empty() && pod.affinity.is_none() {
        return AllowedCapacity { spot: true, other: true };
    }
    let mut allowed = AllowedCapacity { spot: false, other: false };
    for way in ways(pod) {
        let Some(own) = way.get(CAPACITY_TYPE) else { return AllowedCapacity { spot: true, other: true } };
        allowed.spot |= own.has(SPOT);
        let others = [labels::ON_DEMAND, labels::RESERVED].into_iter().any(|other| own.has(other));
        allowed.other |= others || own.allows_absence();
    }
    allowed
}

/// True if a pod's own requirements and tolerations let it be on a node with these taints, of a pool with these requirements.
#[must_use]
pub fn may_be_in_pool(pod: &Pod, pool: &Requirements, taints: &[Taint]) -> bool {
    if taints::untolerated(taints, &pod.tolerations, true).is_some() {
        return false;
    }
    if pod.node_selector.is_empty() && pod.affinity.is_none() {
        return true;
    }
    let undefined = labels::WELL_KNOWN.into_iter().map(str::to_owned).collect();
    ways(pod).iter().any(|way| pool.compatible(way, &undefined).is_ok())
}

/// The alternatives, on no spot node where the pod may not be on one. A node without a capacity type is none.
pub(in crate::pack) fn off_spot(found: Vec<Alternative>, pod: &Pod) -> Vec<Alternative> {
    if !pod.off_spot {
        return found;
    }
    let written = NodeSelectorRequirement::new(CAPACITY_TYPE, Operator::NotIn, vec![SPOT.to_owned()]);
    let Ok(no_spot) = Requirements::from_written([&written]) else { return found };
    let within = |mut one: Alternative| {
        one.requirements.intersect(&no_spot);
        one
    };
    found.into_iter().map(within).collect()
}
