//! Prices of nodes.

use dovetail_api::names::labels;
use dovetail_api::v1::NodePool;

use super::look::OffersByClass;
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
