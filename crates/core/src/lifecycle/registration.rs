//! Second stage: the one Node with the claim's provider id gets the claim's labels, annotations and taints, and loses the
//! guard taint.

use dovetail_api::names::conditions::{FALSE, REGISTERED, TRUE, UNKNOWN};
use dovetail_api::names::{TERMINATION_FINALIZER, labels, taints};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::initialization::{self, is_ready};
use super::readiness::set_root;
use super::{ClaimStage, ClaimWait, LifecycleStep, Writes};

/// Registers the claim when exactly one Node carries its provider id.
#[must_use]
pub fn register(claim: &NodeClaim, nodes: &[&Node], now: Timestamp) -> LifecycleStep {
    match nodes {
        [] => unregistered(claim, ClaimWait::Node, UNKNOWN, "NodeNotFound", "node not registered with cluster", now),
        [node] => {
            let registered = is_registered(node);
            let guard_missing = !registered && !taints_of(node).iter().any(is_guard);
            let mut written = with_condition(claim, TRUE, "", "", now).0;
            written.status.get_or_insert_default().node_name = node.metadata.name.clone().unwrap_or_default();
            // The next stage is due at once too: it is in the same write, as what it lacks or as passed.
            let mut writes = initialization::first(written, synced(node, claim), now);
            writes.guard_missing = guard_missing;
            LifecycleStep::Write(Box::new(writes))
        }
        _ => {
            let message = format!("{} nodes carry the provider id", nodes.len());
            unregistered(claim, ClaimWait::OneNode, FALSE, "MultipleNodesFound", &message, now)
        }
    }
}

/// The writes on the Node of a registered claim if it is not as registration has left it: a Node out of a backup, or one that
/// a kubelet has made anew, would otherwise be guarded for ever, and pods are planned on it.
#[must_use]
pub fn let_in_again(claim: &NodeClaim, nodes: &[&Node], passed: ClaimStage) -> Option<LifecycleStep> {
    let [node] = nodes else { return None };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    // Another Node, with the same provider ID, has registered before this one came.
    let renamed = claim.status.as_ref().is_some_and(|status| status.node_name != name);
    let guarded = renamed || !is_registered(node) || taints_of(node).iter().any(is_guard);
    let is_initialized = passed == ClaimStage::Initialized && is_ready(node);
    let unlabelled = is_initialized && !says(node, labels::INITIALIZED);
    if !(guarded || unlabelled) || node.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut again = synced(node, claim);
    if is_initialized {
        again.metadata.labels.get_or_insert_default().insert(labels::INITIALIZED.into(), "true".into());
    }
    if passed == ClaimStage::Initialized {
        // Startup taints have been taken off by their owners, which do not come again.
        let starts = |taint: &Taint| {
            claim.spec.startup_taints.iter().any(|own| own.key == taint.key && own.effect == taint.effect)
        };
        let (before, now) = (taints_of(node), again.spec.get_or_insert_default().taints.get_or_insert_default());
        now.retain(|taint| before.contains(taint) || !starts(taint));
    }
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().node_name = name.to_owned();
    let writes = Writes { passes: &[], node: Some(again), claim, guard_missing: false };
    Some(LifecycleStep::Write(Box::new(writes)))
}

/// The Node as the claim wants it: finalizer, owner, labels, annotations, taints; guard taint gone.
#[must_use]
pub fn synced(node: &Node, claim: &NodeClaim) -> Node {
    let mut node = node.clone();
    let meta = &mut node.metadata;
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == TERMINATION_FINALIZER) {
        finalizers.push(TERMINATION_FINALIZER.into());
    }
    let owners = meta.owner_references.get_or_insert_default();
    let owner = owner_of(claim);
    if !owners.iter().any(|known| known.uid == owner.uid) {
        owners.push(owner);
    }
    meta.annotations.get_or_insert_default().extend(claim.metadata.annotations.clone().unwrap_or_default());
    let on_node = meta.labels.get_or_insert_default();
    on_node.extend(claim.metadata.labels.clone().unwrap_or_default());
    on_node.insert(labels::REGISTERED.into(), "true".into());
    let keeps_taints = on_node.get(labels::DO_NOT_SYNC_TAINTS).is_some_and(|value| value == "true");

    let on_node = node.spec.get_or_insert_default().taints.get_or_insert_default();
    on_node.retain(|taint| !is_guard(taint));
    if !keeps_taints {
        merge(on_node, claim.spec.taints.iter().chain(&claim.spec.startup_taints));
    }
    node
}

/// Adds the taints that are not there yet, by key and effect.
fn merge<'a>(into: &mut Vec<Taint>, taints: impl Iterator<Item = &'a Taint>) {
    for taint in taints {
        if !into.iter().any(|known| known.key == taint.key && known.effect == taint.effect) {
            into.push(taint.clone());
        }
    }
}

fn owner_of(claim: &NodeClaim) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".into(),
        kind: "NodeClaim".into(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

fn unregistered(
    claim: &NodeClaim,
    waiting: ClaimWait,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> LifecycleStep {
    match with_condition(claim, status, reason, message, now) {
        // A claim that waits for its Node is the rule, and its condition is Unknown already: not worth a write.
        (_, true) if waiting == ClaimWait::Node => LifecycleStep::Wait(waiting),
        (claim, true) => LifecycleStep::Write(Box::new(Writes::of_reason(claim))),
        (_, false) => LifecycleStep::Wait(waiting),
    }
}

fn with_condition(claim: &NodeClaim, status: &str, reason: &str, message: &str, now: Timestamp) -> (NodeClaim, bool) {
    let mut claim = claim.clone();
    let generation = claim.metadata.generation;
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    let changed =
        set_condition(conditions, NewCondition::new(REGISTERED, status).because(reason, message), generation, now);
    set_root(conditions, generation, now);
    (claim, changed)
}

fn is_registered(node: &Node) -> bool {
    says(node, labels::REGISTERED)
}

fn says(node: &Node, label: &str) -> bool {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|value| value == "true")
}

fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn is_guard(taint: &Taint) -> bool {
    taint.key == taints::UNREGISTERED && taint.effect == taints::NO_EXECUTE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::lifecycle::fixtures::*;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint { key: key.into(), effect: effect.into(), ..Taint::default() }
    }

    #[test]
    fn the_node_gets_what_the_claim_says_and_loses_the_guard_taint() {
        let mut claim = launched_claim("a");
        claim.spec.taints = vec![taint("team", "NoSchedule")];
        claim.spec.startup_taints = vec![taint("cni", "NoSchedule")];
        claim.metadata.labels.as_mut().unwrap().insert("who".into(), "claim".into());
        let mut node = node("n");
        node.metadata.labels = Some([("who".into(), "node".into()), ("kept".into(), "yes".into())].into());
        node.spec.as_mut().unwrap().taints.as_mut().unwrap().push(taint("team", "NoSchedule"));

        let node = synced(&node, &claim);
        let labels = node.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["who"].as_str(), labels["kept"].as_str()), ("claim", "yes"));
        assert_eq!(labels[labels::REGISTERED], "true");
        let keys: Vec<_> = taints_of(&node).iter().map(|taint| taint.key.clone()).collect();
        assert_eq!(keys, ["team", "cni"]);
        assert_eq!(node.metadata.owner_references.as_ref().unwrap()[0].name, "a");
        assert_eq!(synced(&node, &claim), node, "doing it again changes nothing");
    }

    #[test]
    fn a_node_that_asks_for_it_keeps_its_own_taints() {
        let mut claim = launched_claim("a");
        claim.spec.taints = vec![taint("team", "NoSchedule")];
        let mut node = node("n");
        node.metadata.labels = Some([(labels::DO_NOT_SYNC_TAINTS.into(), "true".into())].into());
        assert!(taints_of(&synced(&node, &claim)).is_empty());
    }

    #[test]
    fn a_node_without_the_guard_taint_is_registered_and_told_of() {
        let mut bare = node("n");
        bare.spec.as_mut().unwrap().taints = None;
        let LifecycleStep::Write(writes) = register(&launched_claim("a"), &[&bare], second(9)) else { panic!() };
        assert!(writes.guard_missing && writes.passes == [ClaimStage::Registered]);
    }

    #[test]
    fn two_nodes_with_one_provider_id_are_an_error_said_once() {
        let (one, two) = (node("n"), node("m"));
        let LifecycleStep::Write(writes) = register(&launched_claim("a"), &[&one, &two], second(9)) else { panic!() };
        let condition =
            dovetail_api::v1::condition(&writes.claim.status.as_ref().unwrap().conditions, REGISTERED).unwrap().clone();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "MultipleNodesFound"));
        assert_eq!(register(&writes.claim, &[&one, &two], second(10)), LifecycleStep::Wait(ClaimWait::OneNode));
    }
}
