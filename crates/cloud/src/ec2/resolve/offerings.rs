//! Offerings of a type: the zones and capacity types that it can be bought in (karpenter-aws 3.4).

use dovetail_api::names::labels::{
    CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE, CAPACITY_TYPE, ON_DEMAND,
    PLACEMENT_GROUP_PARTITION, RESERVED, SPOT, ZONE, ZONE_ID,
};
use dovetail_api::v1::PlacementGroup;
use dovetail_core::{NodeSelectorRequirement, Offering};

use super::NodeClassView;
use crate::catalogue::{RegionCatalogue, Zone};
use crate::family::AmiFamily;
use crate::info::InstanceTypeInfo;

/// On-demand price of an instance, as a multiple of its price out of a reservation.
const RESERVED_PRICE: f64 = 1e7;

/// One offering for each zone that both the type and the class are in, and each capacity type with a price; and one for each
/// capacity reservation of the type.
pub(super) fn resolve_offerings(
    catalogue: &RegionCatalogue,
    info: &InstanceTypeInfo,
    class: &NodeClassView,
) -> Vec<Offering> {
    let Some(offered) = catalogue.offered.get(&info.name) else { return Vec::new() };
    let zones: Vec<&Zone> = offered.iter().filter_map(|name| class.zone(name)).collect();
    let compatible = is_compatible(info, class);
    let mut offerings = Vec::with_capacity(2 * zones.len());
    for capacity_type in [ON_DEMAND, SPOT] {
        if !info.usage_classes.iter().any(|c| c == capacity_type) {
            continue;
        }
        for zone in &zones {
            let Some(price) = price(catalogue, info, zone, capacity_type) else { continue };
            offerings.push(offering(zone, capacity_type, price, compatible && may_be_in(class, &zone.name)));
        }
    }
    for reservation in class.reservations.iter().filter(|one| one.instance_type == info.name) {
        let Some(zone) = zones.iter().find(|zone| zone.name == reservation.zone) else { continue };
        let usable = compatible && may_be_in(class, &zone.name) && reservation.active;
        // Paid for already: it only has to be cheaper than anything that is bought, and the smaller the cheaper.
        let price = catalogue.on_demand.get(&info.name).copied().unwrap_or(0.0) / RESERVED_PRICE;
        let mut offering = offering(zone, RESERVED, price, usable && reservation.left > 0);
        // One that nothing can be launched into has no count: no instance that is freed makes a place there.
        offering.reservation_capacity = usable.then_some(reservation.left);
        offering.requirements.push(NodeSelectorRequirement::one_of(CAPACITY_RESERVATION_ID, [reservation.id.as_str()]));
        offering
            .requirements
            .push(NodeSelectorRequirement::one_of(CAPACITY_RESERVATION_TYPE, [reservation.kind.type_label()]));
        let lent = reservation.kind.interruptible_label();
        offering.requirements.push(NodeSelectorRequirement::one_of(CAPACITY_RESERVATION_INTERRUPTIBLE, [lent]));
        offerings.push(offering);
    }
    by_partition(offerings, class)
}

/// Each offering once for each partition of the class's placement group, where that has such.
fn by_partition(offerings: Vec<Offering>, class: &NodeClassView) -> Vec<Offering> {
    let partitions = class.placement_group.as_ref().map(PlacementGroup::partition_labels).unwrap_or_default();
    if partitions.is_empty() {
        return offerings;
    }
    let in_partition = |offering: &Offering, partition: &String| {
        let mut offering = offering.clone();
        offering.requirements.push(NodeSelectorRequirement::one_of(PLACEMENT_GROUP_PARTITION, [partition.as_str()]));
        offering
    };
    offerings.iter().flat_map(|one| partitions.iter().map(move |partition| in_partition(one, partition))).collect()
}

/// True if the class's placement group, if it has one, may have instances in a zone.
fn may_be_in(class: &NodeClassView, zone: &str) -> bool {
    let bound = class.placement_group.as_ref().and_then(|group| group.zone.as_deref());
    bound.is_none_or(|bound| bound == zone)
}

fn price(catalogue: &RegionCatalogue, info: &InstanceTypeInfo, zone: &Zone, capacity_type: &str) -> Option<f64> {
    match capacity_type {
        SPOT => catalogue.spot.get(&(info.name.clone(), zone.name.clone())).copied(),
        _ => catalogue.on_demand.get(&info.name).copied(),
    }
}

fn offering(zone: &Zone, capacity_type: &str, price: f64, available: bool) -> Offering {
    let mut requirements = vec![
        NodeSelectorRequirement::one_of(CAPACITY_TYPE, [capacity_type]),
        NodeSelectorRequirement::one_of(ZONE, [zone.name.as_str()]),
    ];
    if !zone.id.is_empty() {
        requirements.push(NodeSelectorRequirement::one_of(ZONE_ID, [zone.id.as_str()]));
    }
    Offering {
        zone: zone.name.clone(),
        capacity_type: capacity_type.to_owned(),
        price,
        available,
        reservation_capacity: None,
        refused: None,
        list_price: None,
        requirements,
    }
}

/// True if the class's image, network and processor options work on the type.
fn is_compatible(info: &InstanceTypeInfo, class: &NodeClassView) -> bool {
    let image = !(class.family == AmiFamily::Al2023 && info.family() == "a1");
    let tracking = !class.connection_tracking || info.hypervisor.as_deref() == Some("nitro");
    let nested = !class.nested_virtualization || info.cpu_features.iter().any(|f| f == "nested-virtualization");
    let enclaves = !class.enclaves || info.nitro_enclaves;
    let group = class.placement_group.as_ref();
    let placed = group.is_none_or(|group| info.placement.contains(&group.strategy));
    image && tracking && nested && enclaves && placed && interfaces_fit(info, class)
}

/// Every interface that the class asks for has its place: card, device on the card, and EFA.
fn interfaces_fit(info: &InstanceTypeInfo, class: &NodeClassView) -> bool {
    let efa_only = class.network_interfaces.iter().filter(|n| n.interface_type == "efa-only").count();
    let efa_fits = efa_only <= info.network.efa_max.unwrap_or(0) as usize;
    let places_fit = class.network_interfaces.iter().all(|n| {
        let card = info.network.cards.iter().find(|c| i64::from(c.index) == i64::from(n.network_card_index));
        card.is_some_and(|c| i64::from(n.device_index) < i64::from(c.max_interfaces))
    });
    efa_fits && places_fit
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::resolve::{ResolveSettings, instance_types};
    use crate::shipped;
    use dovetail_core::InstanceType;

    fn class() -> NodeClassView {
        NodeClassView::in_zones(AmiFamily::Al2023, shipped::catalogue("us-east-1").first_zones(3))
    }

    fn find<'a>(types: &'a [InstanceType], name: &str) -> &'a InstanceType {
        types.iter().find(|t| t.name == name).unwrap()
    }

    #[test]
    fn a_type_is_offered_in_the_classs_zones_at_both_capacity_types() {
        let types = instance_types(&shipped::catalogue("us-east-1"), &class(), &ResolveSettings::default());
        let m5 = find(&types, "m5.large");
        assert_eq!(m5.offerings.len(), 6);
        assert!(m5.offerings.iter().all(|o| o.available));
        assert_eq!(m5.offerings[0].price, 0.096);
        assert!(m5.offerings[3].capacity_type == "spot" && m5.offerings[3].price < 0.096);
    }

    #[test]
    fn a1_cannot_run_amazon_linux_2023() {
        let catalogue = shipped::catalogue("us-east-1");
        let available = |family| {
            let class = NodeClassView { family, ..class() };
            let types = instance_types(&catalogue, &class, &ResolveSettings::default());
            find(&types, "a1.large").offerings.iter().any(|o| o.available)
        };
        assert!(!available(AmiFamily::Al2023));
        assert!(available(AmiFamily::Bottlerocket));
    }

    #[test]
    fn class_with_enclaves_has_types_that_support_them_alone() {
        let catalogue = shipped::catalogue("us-east-1");
        let class = NodeClassView { enclaves: true, ..class() };
        let types = instance_types(&catalogue, &class, &ResolveSettings::default());
        let supports = |name: &str| catalogue.types.iter().any(|info| info.name == name && info.nitro_enclaves);
        let available = |one: &InstanceType| one.offerings.iter().any(|offering| offering.available);
        assert!(types.iter().all(|one| !available(one) || supports(&one.name)));
        assert!(available(find(&types, "m5.xlarge")) && !available(find(&types, "t3.large")));
    }

    #[test]
    fn mac_and_32_bit_hosts_and_types_without_a_price_are_no_nodes() {
        let types = instance_types(&shipped::catalogue("us-east-1"), &class(), &ResolveSettings::default());
        for name in ["mac2.metal", "hpc6a.48xlarge"] {
            assert!(types.iter().all(|t| t.name != name), "{name}");
        }
    }
}
