//! Spot capacity without a queue from which its interruptions are heard.

use std::collections::BTreeSet;

use dovetail_api::names::labels;
use dovetail_api::v1::{NodeClaim, NodePool, NodeSelectorOperator};

/// Nodes and pools whose interruptions are not received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unheard {
    /// Number of spot nodes.
    pub nodes: usize,
    /// Names of pools that have such a node, or that name spot among their capacity types.
    pub pools: BTreeSet<String>,
}

/// The nodes and pools of the cluster that use spot.
#[must_use]
pub fn unheard<'a>(claims: impl Iterator<Item = &'a NodeClaim>, pools: impl Iterator<Item = &'a NodePool>) -> Unheard {
    let mut found = Unheard::default();
    for claim in claims {
        let label = |key: &str| claim.metadata.labels.as_ref()?.get(key);
        if label(labels::CAPACITY_TYPE).is_some_and(|one| one == labels::SPOT) {
            found.nodes += 1;
            found.pools.extend(label(labels::NODE_POOL).cloned());
        }
    }
    for pool in pools {
        let mut named = pool.spec.template.spec.requirements.iter();
        let asks = named.any(|one| {
            one.key == labels::CAPACITY_TYPE
                && one.operator == NodeSelectorOperator::In
                && one.values.iter().any(|one| one == labels::SPOT)
        });
        if asks && pool.metadata.deletion_timestamp.is_none() {
            found.pools.extend(pool.metadata.name.clone());
        }
    }
    found
}

/// The remedy for a queue whose calls fail by an error of that name; an empty name stands for a queue that is not set.
#[must_use]
pub fn remedy(error: &str) -> &'static str {
    match error {
        "" => "set INTERRUPTION_QUEUE to the name of the stack's queue",
        "NonExistentQueue" | "QueueDoesNotExist" => {
            "deploy the stack again, or set INTERRUPTION_QUEUE to the name of a queue of this region and account"
        }
        _ if error.starts_with("KMS") || error.starts_with("Kms") => {
            "allow kms:Decrypt with the queue's key in the controller's policy and the key's"
        }
        "TimedOut" | "ConnectionLost" => "give the controller a way to SQS: an endpoint of the VPC, the NetworkPolicy",
        _ if error.contains("Denied") || error == "UnauthorizedOperation" => {
            "allow sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage in the controller's policy and the queue's"
        }
        _ => "mend what SQS names; docs/observability.md has the usual errors at DovetailInterruptionsNotHeard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_lose_a_queue_has_its_remedy() {
        for (error, word) in [
            ("", "INTERRUPTION_QUEUE"),
            ("NonExistentQueue", "deploy the stack"),
            ("QueueDoesNotExist", "INTERRUPTION_QUEUE"),
            ("AccessDenied", "sqs:ReceiveMessage"),
            ("AccessDeniedException", "sqs:ReceiveMessage"),
            ("KMS.AccessDeniedException", "kms:Decrypt"),
            ("KmsDisabled", "kms:Decrypt"),
            ("TimedOut", "endpoint"),
            ("SomethingNew", "DovetailInterruptionsNotHeard"),
        ] {
            assert!(remedy(error).contains(word), "{error}");
        }
    }
}
