//! Prices of nodes by their labels, as the classes' offers have them.

use dovetail_api::names::labels;
use dovetail_core::cluster_state::PlanningInput;

/// Dollars an hour of a node with these labels, by the offers of any class; `None` where it is not known. A node that does not
/// say how it was bought counts as on-demand.
pub fn price_by_labels<'a>(planning: &PlanningInput, label: impl Fn(&str) -> Option<&'a str>) -> Option<f64> {
    let type_ = label(labels::INSTANCE_TYPE)?;
    let capacity = label(labels::CAPACITY_TYPE).filter(|text| !text.is_empty()).unwrap_or(labels::ON_DEMAND);
    let zone = label(labels::ZONE).unwrap_or_default();
    let mut types = planning.instance_types.values().flat_map(|types| types.iter());
    let own = types.find(|one| one.name == type_)?;
    own.offerings.iter().find(|one| one.zone == zone && one.capacity_type == capacity).map(|one| one.price)
}
