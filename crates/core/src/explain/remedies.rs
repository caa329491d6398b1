//! Settings that end what keeps a node, by the engine's reason for it.

use crate::disruption::pools::{EMPTY_ONLY, NEVER};

/// Beginnings or parts of reasons, and what to set. The first that is found counts.
pub(super) const REMEDIES: [(&str, &str); 24] = [
    (NEVER, "set spec.disruption.consolidateAfter of the NodePool to a duration, such as 1m"),
    (EMPTY_ONLY, "set spec.disruption.consolidationPolicy of the NodePool to WhenEmptyOrUnderutilized"),
    ("ttlSecondsAfterEmpty of provisioner", "set consolidation.enabled in place of ttlSecondsAfterEmpty"),
    ("consolidateAfter has not passed", "wait, or lower spec.disruption.consolidateAfter of the NodePool"),
    ("it is younger than", "wait, or lower CONSOLIDATION_LEAST_AGE"),
    ("do-not-repair", "remove the annotation karpenter.sh/do-not-repair from the Node and its NodeClaim"),
    ("the node has the annotation", "remove the annotation from the Node"),
    ("has the annotation", "remove the annotation from the pod, or wait until it ends"),
    ("is covered by pdb", "let one PodDisruptionBudget alone select the pod"),
    ("prevents the eviction of pod", "add replicas, or lower the PodDisruptionBudget"),
    ("allows too few evictions at once", "add replicas, or lower the PodDisruptionBudget"),
    ("was moved less than", "wait, or lower CONSOLIDATION_REST"),
    ("which runs to its end, began less than", "wait, or lower CONSOLIDATION_REST"),
    ("budgets allow no more disruptions now", "raise spec.disruption.budgets of the NodePool, or wait"),
    ("is only observed", "remove the annotation dovetail.dev/disruption from the NodePool"),
    (
        "fits on no other node",
        "nothing: its pods need it; lower their requests or loosen their rules if they should not",
    ),
    ("is not worth the move of so many pods", "nothing, or lower CONSOLIDATION_LEAST_SAVING"),
    ("SpotToSpotConsolidation", "set the feature gate SpotToSpotConsolidation=true"),
    ("ManyToManyConsolidation", "set the feature gate ManyToManyConsolidation=true"),
    ("consolidationPolicy Balanced", "set spec.disruption.consolidationPolicy to WhenEmptyOrUnderutilized"),
    ("cannot be replaced by a cheaper node", "nothing, or allow cheaper instance types in the NodePool"),
    ("has no label", "let the kubelet keep the labels of the Node"),
    ("is left out", "mend the NodePool: dovetail explain nodepool says what is wrong"),
    ("pods are expected on it", "wait: they are about to come"),
];

/// The setting that ends a reason; empty where none is known.
#[must_use]
pub(super) fn of_staying(why: &str) -> &'static str {
    REMEDIES.iter().find(|(part, _)| why.contains(part)).map_or("", |(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_annotation_is_told_from_that_of_a_pod() {
        assert!(of_staying("the node has the annotation karpenter.sh/do-not-disrupt").contains("the Node"));
        assert!(of_staying("pod a/b has the annotation karpenter.sh/do-not-disrupt").contains("the pod"));
        assert_eq!(of_staying("something that nobody knows"), "");
    }
}
