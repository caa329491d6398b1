//! Instance types of a node class, resolved from what the cloud offers and kept until that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::catalogue::RegionCatalogue as Offers;
use dovetail_cloud::node_class::subnet_views;
use dovetail_cloud::resolve::{self, NodeClassView, ReservationView, ResolvedClass};
use dovetail_cloud::unavailable::Unavailable;
use dovetail_core::InstanceType;

use super::Types;
use crate::settings::Settings;

/// A class as it was resolved last.
pub(super) struct Resolved {
    /// Facts that it was resolved from.
    pub(super) from: String,
    /// None if it makes no nodes.
    pub(super) class: Option<ResolvedClass>,
    /// The types without what is refused, by their being for a last resort: of which version of refusals.
    pub(super) types: BTreeMap<bool, (u64, Types)>,
}

/// Instance types of a class that is resolved, and the names of those that no image is for.
///
/// # Errors
/// The mistake in the class, as a sentence.
pub fn types_of_class(
    offers: &Offers,
    class: &EC2NodeClass,
    status: &dovetail_api::v1::EC2NodeClassStatus,
    reservations: Vec<ReservationView>,
    settings: &Settings,
    unavailable: &Unavailable,
) -> Result<(Vec<Arc<InstanceType>>, Vec<String>), String> {
    let class = resolve_class(offers, class, status, reservations, settings)?;
    Ok((class.without(unavailable, &[]), class.withheld().to_vec()))
}

/// Resolves a class to its instance types.
///
/// # Errors
/// As [`types_of_class`].
pub(super) fn resolve_class(
    offers: &Offers,
    class: &EC2NodeClass,
    status: &dovetail_api::v1::EC2NodeClassStatus,
    reservations: Vec<ReservationView>,
    settings: &Settings,
) -> Result<ResolvedClass, String> {
    let settings = resolve::ResolveSettings {
        vm_memory_overhead_percent: settings.vm_memory_overhead,
        reserved_enis: settings.reserved_enis,
        ..resolve::ResolveSettings::default()
    };
    let view = NodeClassView::from_spec(&class.spec, subnet_views(status)).map_err(|error| error.to_string())?;
    let placement_group = status.placement_group.clone();
    let view = NodeClassView { reservations, placement_group, ..view };
    Ok(ResolvedClass::new(offers, view, &settings, &status.amis))
}
