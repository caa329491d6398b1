//! Prices of nodes.

use dovetail_api::names::labels;
use dovetail_api::v1::NodePool;
use jiff::Timestamp;

use super::look::OffersByClass;
use super::machines::NodeAndClaim;
use crate::cluster_state::NodeEntry;

/// The price, in dollars an hour, of the offering with the node's type, zone and capacity type; 0 when it is not known (core
/// spec 5.4).
pub fn node_price(node: &NodeEntry, pool: &NodePool, offers: &OffersByClass) -> f64 {
    let label = |key: &str| node.labels.get(key).map(String::as_str).unwrap_or_default();
    let types = pool.spec.template.spec.node_class_ref.known_name().and_then(|class| offers.get(class));
    let name = label(labels::INSTANCE_TYPE);
    let own = types.and_then(|types| types.iter().find(|one| one.name == name));
    let (zone, capacity_type) = (label(labels::ZONE), label(labels::CAPACITY_TYPE));
    let offered = own.and_then(|own| {
        own.offerings.iter().find(|offering| offering.zone == zone && offering.capacity_type == capacity_type)
    });
    offered.map_or(0.0, |offering| offering.price)
}

/// The cost of a node's disruption (core spec 5.4), as the policy `cost` weighs it: 1, and its pods' evictions for the part of
/// its life that it has before it.
pub fn disturbance(machine: &NodeAndClaim<'_>, now: Timestamp) -> f64 {
    let pods = machine.load.into_iter().flat_map(|load| load.pods.values());
    let moving = pods.filter(|pod| pod.is_active() && pod.reschedulable());
    let evictions: f64 = moving.map(|pod| pod.eviction_cost.max(0.0)).sum();
    1.0 + evictions * remaining_life(machine.claim.initialized, machine.claim.expires, now)
}

/// Part of its life that a node has before it: 1 when it is new or never expires, 0 when it is over.
pub fn remaining_life(from: Option<Timestamp>, until: Option<Timestamp>, now: Timestamp) -> f64 {
    let (Some(from), Some(until)) = (from, until) else { return 1.0 };
    let (whole, left) = (until.duration_since(from).as_secs_f64(), until.duration_since(now).as_secs_f64());
    if whole > 0.0 { (left / whole).clamp(0.0, 1.0) } else { 0.0 }
}
