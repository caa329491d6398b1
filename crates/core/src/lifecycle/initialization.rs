//! Third stage: the Node is ready for pods.

use dovetail_api::names::annotations::REQUESTED_DRA_DRIVERS;
use dovetail_api::names::conditions::{INITIALIZED, TRUE, UNKNOWN};
use dovetail_api::names::{labels, taints};
use dovetail_api::v1::{NewCondition, NodeClaim, set_condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};

use super::readiness::set_root;
use super::{ClaimStage, ClaimWait, LifecycleStep, Writes};
use crate::resources::parse_amount;

/// Marks claim and Node initialized, or names what the claim waits for.
#[must_use]
pub fn initialize(claim: &NodeClaim, nodes: &[&Node], now: Timestamp) -> LifecycleStep {
    let [node] = nodes else {
        return waiting(claim, ClaimWait::Node, "NodeNotFound", "node not registered with cluster", now);
    };
    if let Some((what, reason, message)) = missing(claim, node) {
        return waiting(claim, what, reason, &message, now);
    }
    let writes = passed(claim, (*node).clone(), &[ClaimStage::Initialized], now);
    LifecycleStep::Write(Box::new(writes))
}

/// The writes of a claim that registers with this Node, both as registration leaves them: with what the Node lacks still, or
/// initialized as well if it lacks nothing.
pub(super) fn first(claim: NodeClaim, node: Node, now: Timestamp) -> Writes {
    let Some((_, reason, message)) = missing(&claim, &node) else {
        return passed(&claim, node, &[ClaimStage::Registered, ClaimStage::Initialized], now);
    };
    let claim = with_condition(&claim, UNKNOWN, reason, &message, now).0;
    Writes { passes: &[ClaimStage::Registered], node: Some(node), claim, guard_missing: false }
}

fn passed(claim: &NodeClaim, mut node: Node, passes: &'static [ClaimStage], now: Timestamp) -> Writes {
    node.metadata.labels.get_or_insert_default().insert(labels::INITIALIZED.into(), "true".into());
    let claim = with_condition(claim, TRUE, "", "", now).0;
    Writes { passes, node: Some(node), claim, guard_missing: false }
}

/// The step of a claim that waits for the devices of its pods: it is not initialized before each driver that it names has published
/// a complete pool of its Node. `unpublished` answers the first of these drivers, with commas, that has not for the Node of this name.
#[must_use]
pub fn after_devices(
    claim: &NodeClaim,
    step: LifecycleStep,
    unpublished: impl Fn(&str, &str) -> Option<String>,
    now: Timestamp,
) -> LifecycleStep {
    let asked = claim.metadata.annotations.as_ref().and_then(|own| own.get(REQUESTED_DRA_DRIVERS));
    match (step, asked) {
        (LifecycleStep::Write(writes), Some(drivers)) if writes.passes.contains(&ClaimStage::Initialized) => {
            let node = writes.node.as_ref().and_then(|node| node.metadata.name.as_deref()).unwrap_or_default();
            match unpublished(drivers, node) {
                Some(driver) => without_devices(claim, *writes, &driver, now),
                None => LifecycleStep::Write(writes),
            }
        }
        (step, _) => step,
    }
}

/// The writes of a claim whose Node is ready but for devices: a driver has not published them. The Node registers, if it does
/// now, and is not initialized.
fn without_devices(claim: &NodeClaim, writes: Writes, driver: &str, now: Timestamp) -> LifecycleStep {
    const REASON: &str = "DRADriverPoolsNotPublished";
    let message = format!("DRA driver {driver} has not published a complete resource pool");
    if !writes.passes.contains(&ClaimStage::Registered) {
        return waiting(claim, ClaimWait::Resource(driver.to_owned()), REASON, &message, now);
    }
    let mut node = writes.node;
    if let Some(own) = node.as_mut().and_then(|node| node.metadata.labels.as_mut()) {
        own.remove(labels::INITIALIZED);
    }
    let claim = with_condition(&writes.claim, UNKNOWN, REASON, &message, now).0;
    LifecycleStep::Write(Box::new(Writes { passes: &[ClaimStage::Registered], node, claim, guard_missing: false }))
}

/// The first thing that a Node still lacks: readiness, a taint's removal, a resource; with the condition's reason and message.
fn missing(claim: &NodeClaim, node: &Node) -> Option<(ClaimWait, &'static str, String)> {
    if !is_ready(node) {
        return Some((ClaimWait::Ready, "NodeNotReady", "node status is not ready".into()));
    }
    let on_node = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    if let Some(taint) = claim.spec.startup_taints.iter().find(|own| on_node.iter().any(|taint| same(own, taint))) {
        let message = format!("startup taint {}:{} still exists", taint.key, taint.effect);
        return Some((ClaimWait::Taint(taint.key.clone()), "StartupTaintsExist", message));
    }
    if let Some(taint) = on_node.iter().find(|taint| taints::is_ephemeral(&taint.key, &taint.effect)) {
        let message = format!("known ephemeral taint {}:{} still exists", taint.key, taint.effect);
        return Some((ClaimWait::Taint(taint.key.clone()), "KnownEphemeralTaintsExist", message));
    }
    let name = unregistered_resource(claim, node)?;
    Some((
        ClaimWait::Resource(name.clone()),
        "ResourceNotRegistered",
        format!("resource {name} was requested but not registered"),
    ))
}

/// The first resource that the claim requests and the Node does not have.
fn unregistered_resource(claim: &NodeClaim, node: &Node) -> Option<String> {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let amount = |name: &str, text: &str| parse_amount(name, text).unwrap_or(0);
    let wanted = claim.spec.resources.requests.iter().filter(|(name, quantity)| amount(name, &quantity.0) > 0);
    wanted
        .map(|(name, _)| name)
        .find(|name| allocatable.and_then(|all| all.get(*name)).is_none_or(|quantity| amount(name, &quantity.0) == 0))
        .cloned()
}

/// True if the kubelet says Ready.
#[must_use]
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn waiting(claim: &NodeClaim, what: ClaimWait, reason: &str, message: &str, now: Timestamp) -> LifecycleStep {
    match with_condition(claim, UNKNOWN, reason, message, now) {
        (claim, true) => LifecycleStep::Write(Box::new(Writes::of_reason(claim))),
        (_, false) => LifecycleStep::Wait(what),
    }
}

fn with_condition(claim: &NodeClaim, status: &str, reason: &str, message: &str, now: Timestamp) -> (NodeClaim, bool) {
    let mut claim = claim.clone();
    let generation = claim.metadata.generation;
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    let changed =
        set_condition(conditions, NewCondition::new(INITIALIZED, status).because(reason, message), generation, now);
    set_root(conditions, generation, now);
    (claim, changed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;
    use crate::lifecycle::fixtures::*;
    use crate::lifecycle::registration::synced;

    fn reason(claim: &NodeClaim, node: &Node) -> &'static str {
        missing(claim, node).map_or("", |(_, reason, _)| reason)
    }

    #[test]
    fn it_waits_for_ready_taints_and_resources_in_that_order() {
        let mut claim = launched_claim("a");
        claim.spec.startup_taints = vec![Taint { key: "cni".into(), effect: "NoSchedule".into(), ..Taint::default() }];
        claim.spec.resources.requests.insert("nvidia.com/gpu".into(), Quantity("1".into()));
        let mut node = synced(&node("n"), &claim);
        node.spec.as_mut().unwrap().taints.as_mut().unwrap().push(Taint {
            key: taints::NOT_READY.into(),
            effect: taints::NO_SCHEDULE.into(),
            ..Taint::default()
        });
        assert_eq!(reason(&claim, &node), "NodeNotReady");
        let mut node = ready(node);
        assert_eq!(reason(&claim, &node), "StartupTaintsExist");
        node.spec.as_mut().unwrap().taints.as_mut().unwrap().remove(0);
        assert_eq!(reason(&claim, &node), "KnownEphemeralTaintsExist");
        node.spec.as_mut().unwrap().taints = None;
        assert_eq!(reason(&claim, &node), "ResourceNotRegistered");
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.insert("nvidia.com/gpu".into(), Quantity("0".into()));
        assert_eq!(reason(&claim, &node), "ResourceNotRegistered");
        node.status
            .as_mut()
            .unwrap()
            .allocatable
            .as_mut()
            .unwrap()
            .insert("nvidia.com/gpu".into(), Quantity("1".into()));
        assert_eq!(reason(&claim, &node), "");
    }

    /// The condition's reason, stages and label that the step of a claim with these devices writes.
    fn written(step: LifecycleStep) -> (String, &'static [ClaimStage], bool) {
        let LifecycleStep::Write(writes) = step else { panic!("{step:?}") };
        let conditions = &writes.claim.status.as_ref().unwrap().conditions;
        let reason = dovetail_api::v1::condition(conditions, INITIALIZED).unwrap().reason.clone();
        let labelled =
            |node: &Node| node.metadata.labels.as_ref().is_some_and(|own| own.contains_key(labels::INITIALIZED));
        (reason, writes.passes, writes.node.as_ref().is_some_and(labelled))
    }

    #[test]
    fn claim_waits_for_the_pools_of_its_drivers() {
        let mut claim = launched_claim("a");
        claim.metadata.annotations = Some([(REQUESTED_DRA_DRIVERS.to_owned(), "a.io,b.io".to_owned())].into());
        let node = ready(synced(&node("n"), &claim));
        let step = || initialize(&claim, &[&node], second(9));
        let asked = |drivers: &str, node: &str| (drivers == "a.io,b.io" && node == "n").then(|| "b.io".to_owned());
        let (reason, passes, _) = written(after_devices(&claim, step(), asked, second(9)));
        assert!(reason == "DRADriverPoolsNotPublished" && passes.is_empty(), "{reason} {passes:?}");
        let (_, passes, labelled) = written(after_devices(&claim, step(), |_, _| None, second(9)));
        assert_eq!((passes, labelled), ([ClaimStage::Initialized].as_slice(), true));
    }

    #[test]
    fn node_that_registers_without_its_devices_is_not_initialized() {
        let mut claim = launched_claim("a");
        claim.metadata.annotations = Some([(REQUESTED_DRA_DRIVERS.to_owned(), "gpu.nvidia.com".to_owned())].into());
        let node = ready(synced(&node("n"), &claim));
        let step = LifecycleStep::Write(Box::new(first(claim.clone(), node, second(9))));
        let none = |_: &str, _: &str| Some("gpu.nvidia.com".to_owned());
        let (reason, passes, labelled) = written(after_devices(&claim, step, none, second(9)));
        assert_eq!((reason.as_str(), passes), ("DRADriverPoolsNotPublished", [ClaimStage::Registered].as_slice()));
        assert!(!labelled);
    }
}
